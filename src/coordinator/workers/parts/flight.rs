//! The runs that a worker was sent on its current stream.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::time::Mono;
use rosterd_session::frame::RunRef;

use crate::workers::begun::Begun;

/// The runs that a worker was sent on its current stream.
#[derive(Debug)]
pub(crate) struct Flight {
    /// Runs that it was sent on this stream, or had in flight when it attached, and since when.
    dispatched: BTreeMap<RunRef, Mono>,
    /// Those whose user code has started.
    begun: Begun,
    /// Runs that it was sent and then did not list, heartbeat after heartbeat.
    unheeded: BTreeMap<RunRef, Unheeded>,
}

/// A run that was sent to its worker, which did not list it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unheeded {
    /// How often it was sent, each time followed by some heartbeats.
    pub(crate) times: u32,
    /// When it was first sent on the current stream.
    pub(crate) since: Option<Mono>,
}

impl Flight {
    /// A worker attached with these runs in flight.
    pub(crate) fn of_hello(in_flight: &[RunRef], heard: Mono) -> Self {
        Self {
            dispatched: in_flight.iter().map(|run| (run.clone(), heard)).collect(),
            begun: Begun::of_hello(in_flight),
            unheeded: BTreeMap::new(),
        }
    }

    /// The worker attached again. It does not read what is left on its old stream, so the time since a run was first
    /// sent starts anew.
    pub(crate) fn go_on(&mut self, before: Self) {
        self.unheeded = before.unheeded;
        self.unheeded.values_mut().for_each(|unheeded| unheeded.since = None);
    }

    // ---- what it was told

    /// Returns the runs that the worker was sent on this stream, or had in flight when it attached, and since when.
    pub(crate) fn told(&self) -> &BTreeMap<RunRef, Mono> {
        &self.dispatched
    }

    pub(crate) fn knows(&self, run: &RunRef) -> bool {
        self.dispatched.contains_key(run)
    }

    /// Whether the worker was sent a run of the job, or attached with one.
    pub(crate) fn knows_runs_of(&self, job: &JobName) -> bool {
        let first = RunRef { job: job.clone(), item: Item(0), token: Token(0) };
        self.dispatched.range(first..).next().is_some_and(|(run, _)| run.job == *job)
    }

    /// The worker is sent a run.
    pub(crate) fn tell(&mut self, run: RunRef, now: Mono) {
        self.dispatched.insert(run, now);
    }

    /// The worker no longer has the run in flight.
    pub(crate) fn forget(&mut self, run: &RunRef) {
        self.dispatched.remove(run);
    }

    /// A job is gone. Returns its runs that the worker knows.
    pub(crate) fn forget_job(&mut self, job: &JobName) -> Vec<RunRef> {
        let known = self.dispatched.keys().filter(|run| run.job == *job).cloned().collect();
        self.dispatched.retain(|run, _| run.job != *job);
        known
    }

    /// The worker lists the runs in `held` as in flight. A run that it was sent at least `patience` ago and does not
    /// list did not arrive: the run is removed, and counted as unheeded if a record assigns it to the worker.
    pub(crate) fn holds(
        &mut self,
        held: &BTreeSet<&RunRef>,
        (now, patience): (Mono, Duration),
        is_recorded: impl Fn(&RunRef) -> bool,
    ) {
        self.unheeded.retain(|run, _| !held.contains(run));
        let unheeded = &mut self.unheeded;
        self.dispatched.retain(|run, since| {
            let stays = now.since(*since) < patience || held.contains(run);
            if !stays && is_recorded(run) {
                let unheeded = unheeded.entry(run.clone()).or_default();
                unheeded.times += 1;
                unheeded.since.get_or_insert(*since);
            }
            stays
        });
    }

    /// Returns how often the worker was sent a run that it then did not list, and since when.
    pub(crate) fn unheeded(&self, run: &RunRef) -> Unheeded {
        self.unheeded.get(run).copied().unwrap_or_default()
    }

    /// The item's run has ended: it no longer matters whether the worker lists it.
    pub(crate) fn forget_unheeded(&mut self, job: &JobName, item: Item) {
        self.unheeded.retain(|run, _| (&run.job, run.item) != (job, item));
    }

    #[cfg(test)]
    pub(crate) fn put_unheeded(&mut self, run: RunRef, unheeded: Unheeded) {
        self.unheeded.insert(run, unheeded);
    }

    #[cfg(test)]
    pub(crate) fn heeds_all(&self) -> bool {
        self.unheeded.is_empty()
    }

    // ---- what has begun

    /// The worker reports that user code of a run has started.
    pub(crate) fn says_begun(&mut self, run: RunRef) {
        self.begun.said(run);
    }

    /// The worker lists these runs as in flight.
    pub(crate) fn names(&mut self, runs: &[RunRef], now: Mono, longest: Duration) {
        self.begun.retain(&self.dispatched);
        for run in runs.iter().filter(|run| self.dispatched.contains_key(run)) {
            self.begun.named(run, now, longest);
        }
    }

    /// Whether user code of a run is known to have started.
    pub(crate) fn has_begun(&self, run: &RunRef) -> bool {
        self.begun.has(run)
    }
}
