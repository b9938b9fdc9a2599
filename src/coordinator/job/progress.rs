//! The progress of runs: sent to watchers at once, and written for the item's next run: about once a second with
//! whatever the host writes then, and with the run's end.

use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{Item, JobName, WorkerId};
use rosterd_domain::mutants;
use rosterd_domain::plan::Progressed;
use rosterd_session::frame::RunRef;

use crate::io::cluster_event::ClusterEvent;
use crate::io::event::Effect;
use crate::io::timers::Timer;
use crate::job::records::SHORT_OFFSET;
use crate::job::state::JobState;
use crate::job::{AllJobs, JobTurn};

/// How long progress waits for more of it.
const EVERY: Duration = Duration::from_secs(1);

impl AllJobs<'_> {
    /// Ignores progress of a run that is not this worker's.
    pub(crate) fn progress(
        &mut self,
        id: &WorkerId,
        run: RunRef,
        percent: u32,
        message: String,
        offset: Option<Arc<[u8]>>,
    ) {
        let record = self.jobs.all.get(&run.job).and_then(|job| job.cache.record(run.item));
        let running = record.filter(|(_, record)| record.token == run.token);
        let running = running.and_then(|(_, record)| record.running()).is_some_and(|run| run.worker == *id);
        let apart = || self.workers.get(id).is_some_and(|worker| worker.ledger.is_untracked(&run));
        if !running && !apart() {
            return;
        }
        let RunRef { job, item, token } = run;
        if let Some(offset) = offset.filter(|_| running) {
            self.progressed(&job, item, Progressed { token, worker: id.clone(), offset });
        }
        self.io.out.push(Effect::Publish(ClusterEvent::Progress { job, item, token, percent, message }));
    }

    fn progressed(&mut self, name: &JobName, item: Item, said: Progressed) {
        let due = self.io.now.mono.plus(EVERY);
        let Some(job) = self.jobs.all.get_mut(name) else { return };
        if job.progress.put(item, said, due) {
            self.io.timers.insert((due, Timer::Job(name.clone())));
        }
    }
}

impl JobTurn<'_> {
    /// The host wrote these offsets.
    pub(crate) fn progress_written(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        written: Vec<(Item, Arc<[u8]>)>,
        more: bool,
    ) {
        for (item, offset) in written {
            job.progress.take(item, |said| Arc::ptr_eq(&said.offset, &offset));
            if offset.len() <= SHORT_OFFSET && !mutants::is_on(mutants::OFFSETS_STAY) {
                job.dispatch.put_offset(item, Some(offset));
            } else {
                job.dispatch.forget_offset(item);
            }
        }
        if !more && job.progress.is_due(self.io.now.mono) {
            let due = self.io.now.mono.plus(EVERY);
            if job.progress.written(due) {
                self.io.timers.insert((due, Timer::Job(name.clone())));
            }
        }
    }
}
