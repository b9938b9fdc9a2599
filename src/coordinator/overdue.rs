//! Runs that take longer than their timeout. Their workers are told to stop them, and most have done so by themselves; what
//! the plan takes away a grace later keeps its slot for as long as its worker names it.

use rosterd_domain::id::JobName;
use rosterd_domain::item::Outcome;
use rosterd_domain::mutants;
use rosterd_domain::plan::{Entry, times_out};
use rosterd_domain::view::Job;

use super::job::JobState;
use super::node::Node;
use rosterd_session::frame::{CancelReason, RunRef, ToWorker};

/// Why a worker is told to stop a run.
const TOO_LONG: &str = "the run took longer than its timeout";

impl Node {
    /// Tells workers here, once on each stream, which of their runs have timed out.
    pub(super) fn stop_overdue(&mut self, name: &JobName, job: &mut JobState, view: &Job) {
        let records = &job.records;
        job.told_of_timeout.retain(|item, (token, _)| {
            records.get(item).is_some_and(|(_, record)| record.token == *token && record.running().is_some())
        });
        if view.spec.policy().run_timeout.is_none() {
            return;
        }
        let mut frames = Vec::new();
        for (item, (_, record)) in &job.records {
            let Some(run) = record.running() else { continue };
            if times_out(view, run).is_none_or(|at| self.now.wall < at) {
                continue;
            }
            let told = RunRef { job: name.clone(), item: *item, token: record.token };
            let worker = self.workers.get(&run.worker).filter(|worker| worker.dispatched.contains_key(&told));
            let Some(stream) = worker.and_then(|worker| worker.stream) else { continue };
            let now = (record.token, stream);
            if job.told_of_timeout.insert(*item, now) != Some(now) {
                frames.push((stream, told));
            }
        }
        for (stream, run) in frames {
            let (reason, message) = (CancelReason::TimedOut, TOO_LONG.to_string());
            self.send(stream, ToWorker::Cancel { run, reason, message });
        }
    }

    /// A run that was taken away for its timeout may go on all the same.
    pub(super) fn note_taken_away(&mut self, name: &JobName, entry: &Entry) {
        let Entry::Ended { item, token, run, outcome: Outcome::TimedOut, .. } = entry else { return };
        let told = RunRef { job: name.clone(), item: *item, token: *token };
        if let Some(worker) = self.workers.get_mut(&run.worker)
            && worker.dispatched.contains_key(&told)
            && !mutants::is_on(mutants::TAKEN_AWAY_IS_FREE)
        {
            worker.taken_away.insert(told);
        }
    }
}
