//! Frames to workers.

use rosterd_domain::id::{JobName, WorkerId};
use rosterd_domain::mutants;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::{CancelReason, RunRef, ToWorker};
use rosterd_session::jobs::JobScope;

use crate::io::event::StreamId;
use crate::workers::WorkersTurn;

impl WorkersTurn<'_> {
    pub(crate) fn cancel(&mut self, id: &WorkerId, run: RunRef, reason: CancelReason, message: &str) {
        if reason == CancelReason::Fenced && mutants::is_on(mutants::FENCED_UNTOLD) {
            return;
        }
        if let Some(stream) = self.workers.table.get(id).and_then(|worker| worker.link.stream()) {
            self.workers.send(
                self.io,
                stream,
                ToWorker::Cancel { run, reason, message: message.to_string() },
            );
        }
    }

    /// A worker no longer has a run in flight once its report is answered.
    pub(crate) fn answer_report(&mut self, id: &WorkerId, run: RunRef, refusal: Option<Refusal>) {
        if let Some(worker) = self.workers.table.get_mut(id) {
            worker.flight.forget(&run);
            if worker.ledger.let_go(&run) {
                self.schedule.run_queue.insert(run.job.clone());
                self.workers.slot_freed(id);
            }
        }
        self.acknowledge(id, run, refusal);
    }

    pub(crate) fn acknowledge(&mut self, id: &WorkerId, run: RunRef, refusal: Option<Refusal>) {
        if let Some(stream) = self.workers.table.get(id).and_then(|worker| worker.link.stream()) {
            self.workers.send(self.io, stream, ToWorker::ReportAck { run, refusal });
        }
    }

    /// Refuses, after the Welcome, each job that the credential no longer covers.
    pub(crate) fn tell_lost(&mut self, id: &WorkerId, stream: StreamId) {
        let Some(worker) = self.workers.table.get_mut(id) else { return };
        // It may still report how a run of a lost job ended.
        for (name, _) in worker.ledger.runs() {
            if !worker.work.may_have(name) {
                worker.work.lose_run(name);
            }
        }
        let (lost, rights) = (worker.work.lost().clone(), worker.work.rights().clone());
        for name in lost {
            self.workers.send(self.io, stream, not_for(&name, &rights));
        }
    }

    /// Cancels a run of a job that the credential no longer covers, instead of sending it.
    pub(crate) fn stop_lost(&mut self, id: &WorkerId, stream: StreamId, run: RunRef) {
        let Some(worker) = self.workers.table.get_mut(id) else { return };
        let rights = worker.work.rights().clone();
        if worker.work.lose_run(&run.job) {
            self.workers.send(self.io, stream, not_for(&run.job, &rights));
        }
        let why = "the credential is no longer for the job";
        self.cancel(id, run, CancelReason::Fenced, why);
    }
}

fn not_for(job: &JobName, rights: &JobScope) -> ToWorker {
    let what = format!(
        "the credential is no longer for job {job}, only for {rights}: use another, or have its jobs widened"
    );
    ToWorker::Refused { job: job.to_string(), refusal: Refusal::new(Code::PermissionDenied, what) }
}
