//! Runs of a worker whose user code is known to have started.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rosterd_domain::time::Mono;
use rosterd_session::frame::RunRef;

/// Runs of a worker whose user code is known to have started.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    begun: BTreeSet<RunRef>,
    /// Other runs that the worker listed in its heartbeats, and since when.
    named: BTreeMap<RunRef, Mono>,
}

impl Begun {
    /// A worker's Hello lists the runs that have started; it has dropped others along with its old stream.
    pub(crate) fn of_hello(runs: &[RunRef]) -> Self {
        Self { begun: runs.iter().cloned().collect(), named: BTreeMap::new() }
    }

    pub(crate) fn has(&self, run: &RunRef) -> bool {
        self.begun.contains(run)
    }

    /// The worker reported it.
    pub(crate) fn said(&mut self, run: RunRef) {
        self.named.remove(&run);
        self.begun.insert(run);
    }

    /// The worker has the run in flight. A worker that does not report the start of user code has started it once it
    /// has had the run for the longest time that a run may be held back.
    pub(crate) fn named(&mut self, run: &RunRef, now: Mono, longest: Duration) {
        if !self.begun.contains(run) {
            let since = *self.named.entry(run.clone()).or_insert(now);
            if now.since(since) >= longest {
                self.said(run.clone());
            }
        }
    }

    /// Forgets runs that the worker was not sent, or has dropped.
    pub(crate) fn retain(&mut self, known: &BTreeMap<RunRef, Mono>) {
        self.begun.retain(|run| known.contains_key(run));
        self.named.retain(|run, _| known.contains_key(run));
    }
}
