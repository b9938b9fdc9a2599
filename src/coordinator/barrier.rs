//! An acknowledged change is a barrier: it is answered once every run that was written before it has begun or is over, so
//! that nothing begins afterwards that the change forbids.
//!
//! Starts that are decided after the change are refused by the generation. Runs that were written before it, and told ahead
//! of their time or still on their way, are waited for: where the worker is attached here, for its word; where it is not,
//! for its host to take a command away.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rosterd_domain::id::{Item, JobName, Token, WorkerId};
use rosterd_domain::item::Running;
use rosterd_domain::mutants;
use rosterd_domain::snapshot::Command;
use rosterd_domain::time::{Mono, Time};
use rosterd_domain::txn::{Purpose, Txn, Write};
use rosterd_domain::view::Job;

use super::change::guarded;
use super::command::{CommandProgress, await_start_name};
use super::event::Effect;
use super::handle::{Change, ChangeEffect, Target};
use super::job::{Asked, JobOperation, JobState};
use super::node::Node;
use rosterd_session::frame::RunRef;

/// Runs of a worker whose user code is known to have begun.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    begun: BTreeSet<RunRef>,
    /// Others that the worker named in its heartbeats, and since when.
    named: BTreeMap<RunRef, Mono>,
}

impl Begun {
    /// A worker that comes names the runs that have begun: others it has let go of with its old stream.
    pub(crate) fn of_hello(runs: &[RunRef]) -> Self {
        Self { begun: runs.iter().cloned().collect(), named: BTreeMap::new() }
    }

    pub(crate) fn has(&self, run: &RunRef) -> bool {
        self.begun.contains(run)
    }

    /// The worker said so.
    fn said(&mut self, run: RunRef) {
        self.named.remove(&run);
        self.begun.insert(run);
    }

    /// The worker has the run in flight. One that does not say when user code begins has begun it once it has had the run
    /// for as long as a run may be kept.
    fn named(&mut self, run: &RunRef, now: Mono, longest: Duration) {
        if !self.begun.contains(run) {
            let since = *self.named.entry(run.clone()).or_insert(now);
            if now.since(since) >= longest {
                self.said(run.clone());
            }
        }
    }

    /// Forgets what the worker was not told of, or has let go of.
    fn retain(&mut self, known: &BTreeMap<RunRef, Mono>) {
        self.begun.retain(|run| known.contains_key(run));
        self.named.retain(|run, _| known.contains_key(run));
    }
}

impl Target {
    /// Whether a run is of it.
    pub(super) fn has(&self, item: Item, run: &Running) -> bool {
        match self {
            Self::Job => true,
            Self::Item(wanted) => item == *wanted,
            Self::Machine(machine) => run.instance.address() == machine.as_str(),
            Self::Instance(instance) => run.instance == *instance,
        }
    }
}

impl Asked {
    /// Whether the runs are waited for before the operation itself is carried out: afterwards nothing tells of them.
    pub(super) fn waits_first(&self) -> bool {
        matches!(self.operation, JobOperation::Remove { cancel: true })
            && !mutants::is_on(mutants::CHANGES_ANSWER_AT_ONCE)
    }

    /// What is to be done before the operation is answered with `said`: runs are stopped, then waited for. `wrote`: it is
    /// answered so because something was written, and not because all is so already.
    pub(super) fn next(&self, said: &Change, wrote: bool) -> Option<Self> {
        if self.barrier.is_some() {
            return None;
        }
        let fresh = Self { tries: 0, informed: false, ..self.clone() };
        let cancels = matches!(self.operation, JobOperation::CancelAll { .. });
        if let Some(operation) = self.then_cancel(said).filter(|_| wrote || !cancels) {
            return Some(Self { operation, ..fresh });
        }
        let target = self.forbids().filter(|_| said.effect != ChangeEffect::Created)?;
        let barrier = Barrier { answer: Some(said.clone()), ..Barrier::before(target) };
        (!mutants::is_on(mutants::CHANGES_ANSWER_AT_ONCE)).then_some(Self { barrier: Some(barrier), ..fresh })
    }

    /// Of what nothing may begin once the operation is acknowledged.
    fn forbids(&self) -> Option<Target> {
        match &self.operation {
            JobOperation::Apply { dry_run: false, .. } | JobOperation::Pause(true) => Some(Target::Job),
            JobOperation::Enable { target, enabled: false, .. } | JobOperation::CancelAll { target, .. } => {
                Some(target.clone())
            }
            JobOperation::Cancel { item } => Some(Target::Item(*item)),
            _ => None,
        }
    }
}

impl Node {
    /// User code of a run has begun.
    pub(super) fn run_started(&mut self, id: &WorkerId, run: RunRef, at: Option<Time>, attempt: u32) {
        let Some(worker) = self.workers.get_mut(id).filter(|worker| worker.dispatched.contains_key(&run))
        else {
            return;
        };
        let (name, item, token) = (run.job.clone(), run.item, run.token);
        let apart = worker.untracked_runs.get(&run).cloned().flatten();
        worker.begun.said(run);
        // Later attempts are of the same run.
        let running = || self.jobs.get(&name).and_then(|job| job.running(item, token)).cloned();
        if let Some(run) = apart.or_else(running).filter(|_| attempt <= 1) {
            self.out.push(Effect::Begun { job: name.clone(), item, token, run, at });
        }
        self.look_at_barriers(&name);
    }

    /// The worker has these in flight.
    pub(super) fn named_in_flight(&mut self, id: &WorkerId, runs: &[RunRef]) {
        let (now, longest) = (self.now.mono, self.settings.ahead.1);
        let Some(worker) = self.workers.get_mut(id) else { return };
        worker.begun.retain(&worker.dispatched);
        for run in runs.iter().filter(|run| worker.dispatched.contains_key(run)) {
            worker.begun.named(run, now, longest);
        }
        let jobs: BTreeSet<JobName> = runs.iter().map(|run| run.job.clone()).collect();
        for name in jobs {
            self.look_at_barriers(&name);
        }
    }

    /// Somebody here or elsewhere may wait for what is known now.
    fn look_at_barriers(&mut self, name: &JobName) {
        let waits = self.jobs.get(name).is_some_and(|job| {
            let asked = job.view.as_ref().is_some_and(|view| !view.commands.is_empty());
            asked || job.operations.iter().any(|asked| asked.barrier.is_some())
        });
        if waits {
            self.run_queue.insert(name.clone());
        }
    }

    /// Whether user code of the run is known to have begun.
    fn has_begun(&self, name: &JobName, item: Item, token: Token, run: &Running) -> bool {
        let reference = RunRef { job: name.clone(), item, token };
        let worker = self.workers.get(&run.worker);
        worker.is_some_and(|worker| {
            worker.begun.has(&reference)
                || mutants::is_on(mutants::TOLD_IS_BEGUN) && worker.dispatched.contains_key(&reference)
        })
    }

    /// Looks at the runs that an operation waits for.
    pub(super) fn passes(&self, name: &JobName, job: &JobState, view: &Job, barrier: &mut Barrier) -> Passed {
        // Before the operation itself nothing forbids that runs join.
        let joins = barrier.answer.is_none() && !mutants::is_on(mutants::JOINED_IS_BEGUN);
        let looks = barrier.runs.is_none() || joins;
        let mut runs = barrier.runs.take().unwrap_or_default();
        if looks {
            let running = job.records.iter().filter_map(|(item, (_, record))| {
                let run = record.running().filter(|run| barrier.target.has(*item, run))?;
                (!self.has_begun(name, *item, record.token, run)).then_some((*item, record.token))
            });
            for run in running.filter(|run| !barrier.counted.contains(run)) {
                runs.entry(run).or_insert(false);
            }
        }
        let mut txn = guarded(Purpose::Barrier, view);
        let mut left = BTreeMap::new();
        for ((item, token), asked) in runs {
            let Some(run) = job.running(item, token) else { continue };
            let here = self.workers.contains_key(&run.worker);
            let Some(node) = await_start_name(item, token) else { continue };
            let stands = view.commands.contains_key(&node);
            // Where nobody is asked any more its host has said so.
            if self.has_begun(name, item, token, run) || asked && !stands && !here {
                barrier.counted.insert((item, token));
                continue;
            }
            let asks = !here && !stands && txn.writes.len() < self.settings.max_records_per_txn;
            if asks {
                let (job, command) = (name.clone(), Command::AwaitStart { item, token });
                txn.write(Write::Command { job, name: node, command });
            }
            left.insert((item, token), stands || asks);
        }
        let is_passed = left.is_empty();
        barrier.runs = Some(left);
        if is_passed {
            Passed::Yes(barrier.answer.clone())
        } else if txn.writes.is_empty() {
            Passed::No
        } else {
            Passed::Asks(txn)
        }
    }

    /// A run has begun when its worker says so to its host, and is over when its record says so.
    pub(super) fn now_await_start(
        &mut self,
        name: &JobName,
        job: &JobState,
        item: Item,
        token: Token,
    ) -> CommandProgress {
        let Some((_, record)) = job.records.get(&item) else { return CommandProgress::Pending };
        let Some(run) = record.running().filter(|_| record.token == token) else {
            return if record.token >= token { CommandProgress::Done } else { CommandProgress::Pending };
        };
        let begun = self.has_begun(name, item, token, run);
        let gone = !self.workers.contains_key(&run.worker) && mutants::is_on(mutants::SETTLED_BY_ANYBODY);
        if begun || gone {
            return CommandProgress::Done;
        }
        if job.leads() {
            self.look_later(run.worker.clone());
        }
        CommandProgress::Pending
    }
}

/// What an operation waits for before it is answered.
#[derive(Debug, Clone)]
pub(crate) struct Barrier {
    target: Target,
    /// None: the operation is carried out once it is passed.
    answer: Option<Change>,
    /// Runs that may not have begun, and whether their host was asked by a command; none: they were not looked for.
    runs: Option<BTreeMap<(Item, Token), bool>>,
    /// Runs that were waited for and have begun.
    counted: BTreeSet<(Item, Token)>,
}

impl Barrier {
    pub(super) fn before(target: Target) -> Self {
        Self { target, answer: None, runs: None, counted: BTreeSet::new() }
    }

    /// Nobody was asked: the runs are looked for again.
    pub(super) fn anew(self) -> Self {
        Self { runs: None, ..self }
    }

    /// What is answered where the job has gone, and all runs with it.
    pub(super) fn answer(self) -> Option<Change> {
        self.answer
    }
}

/// Whether all has begun or is over.
pub(super) enum Passed {
    No,
    /// Hosts elsewhere are to be asked first.
    Asks(Txn),
    Yes(Option<Change>),
}
