//! An acknowledged change is a barrier: of the runs that were written before it none begins once it was acknowledged.
//!
//! Source: an own trial. Runs began after an acknowledged pause or disable, and with the parameter of before after an
//! acknowledged apply, since they had been told up to half a second ahead.

use std::collections::BTreeMap;
use std::time::Duration;

use rosterd_coordinator::handle::{Change, ChangeEffect, MachineAction, Operation, Target};
use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::item::Running;
use rosterd_domain::txn::Purpose;
use rosterd_domain::verify::{Line, What};

use crate::watch::{Inner, Shadow};

/// Runs in flight by the records.
pub type InFlight = BTreeMap<(JobName, Item), (Token, Running)>;

/// A run that was in flight when somebody was told of a change that forbids it to begin.
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

/// Of what nothing may begin after the operation, and the purpose of its transaction where that comes before its answer.
pub fn forbids(operation: &Operation) -> Option<(Target, Option<Purpose>)> {
    Some(match operation {
        Operation::Apply { dry_run: false, .. } => (Target::Job, Some(Purpose::Apply)),
        Operation::Pause { paused: true, .. } => (Target::Job, Some(Purpose::Pause)),
        Operation::Enable { enabled: false, target, .. } => (target.clone(), Some(Purpose::Disable)),
        Operation::Machine { machine, action: MachineAction::Enable { enabled: false, .. }, .. } => {
            (Target::Machine(machine.clone()), Some(Purpose::Disable))
        }
        // Of what is written until it goes none may begin later: a removal waits for that too.
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
    /// Somebody is told that these changes were made. `asked_at`: what was in flight when they were asked for, and how many
    /// transactions had been applied.
    pub fn acknowledged(
        &mut self,
        asked: &str,
        (target, purpose): &(Target, Option<Purpose>),
        changes: &[(JobName, Change)],
        (asked_at, before): &(InFlight, u64),
    ) {
        let at = self.start.elapsed();
        for (job, change) in changes.iter().filter(|(_, change)| change.effect != ChangeEffect::Created) {
            // Where all was so already, a write after it was asked for is another's, and forbids by itself.
            let written = purpose.filter(|_| change.effect != ChangeEffect::Unchanged);
            let written = written.and_then(|purpose| self.at_change.get(&(job.to_string(), purpose)));
            // Perhaps somebody else's: what was in flight then is older still.
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

    /// Holds what handlers wrote down against the barriers.
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
