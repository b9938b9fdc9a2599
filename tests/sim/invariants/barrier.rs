//! An acknowledged change is a barrier: no run that was written before it starts once it was acknowledged.
//!
//! Source: a trial of our own. Runs started after an acknowledged pause or disable, and with the old parameter after an
//! acknowledged apply, since they had been sent up to half a second ahead.

use std::collections::BTreeMap;
use std::time::Duration;

use rosterd_coordinator::handle::{Change, ChangeEffect, MachineAction, Operation, Target};
use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::item::Running;
use rosterd_domain::txn::Purpose;
use rosterd_domain::verify::{Line, What};

use crate::oracle::observer::{Inner, Shadow};

/// Runs in flight by the records.
pub type InFlight = BTreeMap<(JobName, Item), (Token, Running)>;

/// A run that was in flight when a change that forbids its start was acknowledged.
pub struct Barrier {
    at: Duration,
    asked: String,
    job: JobName,
    item: Item,
    token: Token,
}

impl Shadow {
    pub fn in_flight(&self) -> InFlight {
        let running = |(of, record): (&(JobName, Item), &rosterd_domain::item::Record)| {
            Some((of.clone(), (record.token, record.running()?.clone())))
        };
        self.records.iter().filter_map(running).collect()
    }
}

/// The target of which nothing may start after the operation, and the purpose of its transaction if that precedes the
/// answer.
pub fn forbids(operation: &Operation) -> Option<(Target, Option<Purpose>)> {
    Some(match operation {
        Operation::Apply { dry_run: false, .. } => (Target::Job, Some(Purpose::Apply)),
        Operation::Pause { paused: true, .. } => (Target::Job, Some(Purpose::Pause)),
        Operation::Enable { enabled: false, target, .. } => (target.clone(), Some(Purpose::Disable)),
        Operation::Machine { machine, action: MachineAction::Enable { enabled: false, .. }, .. } => {
            (Target::Machine(machine.clone()), Some(Purpose::Disable))
        }
        // No run that is written until the job is gone may start later: a removal waits for these too.
        Operation::Remove { .. } => (Target::Job, Some(Purpose::Remove)),
        Operation::Cancel { item, .. } => (Target::Item(*item), None),
        _ => return None,
    })
}

fn is_of(target: &Target, item: Item, run: &Running) -> bool {
    match target {
        Target::Job => true,
        Target::Item(wanted) => *wanted == item,
        Target::Machine(machine) => run.instance.address() == machine.as_str(),
        Target::Instance(instance) => run.instance == *instance,
    }
}

impl Inner {
    /// These changes were acknowledged. `asked_at`: the runs in flight when they were requested, and the number of
    /// transactions applied by then.
    pub fn acknowledged(
        &mut self,
        asked: &str,
        (target, purpose): &(Target, Option<Purpose>),
        changes: &[(JobName, Change)],
        (asked_at, before): &(InFlight, u64),
    ) {
        let at = self.start.elapsed();
        for (job, change) in changes.iter().filter(|(_, change)| change.effect != ChangeEffect::Created) {
            // If the job had that state already, a write after the request is another's, and forbids by itself.
            let written = purpose.filter(|_| change.effect != ChangeEffect::Unchanged);
            let written = written.and_then(|purpose| self.at_change.get(&(job.to_string(), purpose)));
            // Perhaps of another request: the runs in flight then are older still.
            let first = written.into_iter().flatten().find(|(number, _)| number > before);
            let then = first.map_or(asked_at, |(_, in_flight)| in_flight);
            let runs = then.iter().filter(|((of, item), (_, run))| of == job && is_of(target, *item, run));
            let barrier = |((job, item), (token, _)): (&(JobName, Item), &(Token, Running))| Barrier {
                at,
                asked: asked.to_owned(),
                job: job.clone(),
                item: *item,
                token: *token,
            };
            self.barriers.extend(runs.map(barrier).collect::<Vec<_>>());
        }
    }

    /// Compares the handlers' log with the barriers.
    pub fn judge_barriers(&mut self, lines: &[Line]) {
        let mut first: BTreeMap<(&str, u32, u64), u64> = BTreeMap::new();
        for line in lines.iter().filter(|line| line.what == What::Start) {
            first.entry((line.job.as_str(), line.item, line.token)).or_insert(line.at);
        }
        let late = |barrier: &Barrier| {
            let began = first.get(&(barrier.job.as_str(), barrier.item.0, barrier.token.0))?;
            let began = Duration::from_nanos(*began);
            (began > barrier.at).then(|| {
                let Barrier { at, asked, job, item, token } = barrier;
                format!("run {token} of item {item} of {job} began at {began:?}, after {asked} was acknowledged at {at:?}")
            })
        };
        let found: Vec<String> = self.barriers.iter().filter_map(late).collect();
        for text in found {
            self.broke("barrier", text);
        }
    }
}
