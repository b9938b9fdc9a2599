//! Runs that exceed their timeout. Their workers are told to stop them, and usually have done so by themselves; a run
//! that the plan takes away a grace later keeps its slot as long as its worker lists it.

use rosterd_domain::id::JobName;
use rosterd_domain::item::Outcome;
use rosterd_domain::mutants;
use rosterd_domain::plan::{Entry, times_out};
use rosterd_domain::view::Job;
use rosterd_session::frame::{CancelReason, RunRef, ToWorker};

use crate::job::JobTurn;
use crate::job::state::JobState;

/// The reason that a worker is given.
const TOO_LONG: &str = "the run took longer than its timeout";

impl JobTurn<'_> {
    /// Tells workers here, once on each stream, which of their runs have timed out.
    pub(crate) fn stop_overdue(&mut self, name: &JobName, job: &mut JobState, view: &Job) {
        let records = job.cache.records();
        job.dispatch.retain_timeouts(|item, token| {
            records.get(&item).is_some_and(|(_, record)| record.token == token && record.running().is_some())
        });
        if view.spec.policy().run_timeout.is_none() {
            return;
        }
        let mut frames = Vec::new();
        for (item, (_, record)) in job.cache.records() {
            let Some(run) = record.running() else { continue };
            if times_out(view, run).is_none_or(|at| self.io.now.wall < at) {
                continue;
            }
            let told = RunRef { job: name.clone(), item: *item, token: record.token };
            let worker = self.workers.get(&run.worker).filter(|worker| worker.flight.knows(&told));
            let Some(stream) = worker.and_then(|worker| worker.link.stream()) else { continue };
            if job.dispatch.tells_of_timeout(*item, record.token, stream) {
                frames.push((stream, told));
            }
        }
        for (stream, run) in frames {
            let (reason, message) = (CancelReason::TimedOut, TOO_LONG.to_string());
            self.workers.send(self.io, stream, ToWorker::Cancel { run, reason, message });
        }
    }

    /// A run that was taken away for its timeout may continue nevertheless.
    pub(crate) fn note_taken_away(&mut self, name: &JobName, entry: &Entry) {
        let Entry::Ended { item, token, run, outcome: Outcome::TimedOut, .. } = entry else { return };
        let told = RunRef { job: name.clone(), item: *item, token: *token };
        if let Some(worker) = self.workers.get_mut(&run.worker)
            && worker.flight.knows(&told)
            && !mutants::is_on(mutants::TAKEN_AWAY_IS_FREE)
        {
            worker.ledger.take_away(told);
        }
    }
}
