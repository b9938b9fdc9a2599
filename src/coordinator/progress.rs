//! How far runs have come: for people who watch, told at once; for the item's next run, written down about once a second
//! with whatever the host writes then, and with the run's end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{Item, JobName, Token, WorkerId};
use rosterd_domain::mutants;
use rosterd_domain::plan::Progressed;
use rosterd_domain::time::Mono;

use super::dispatch::SHORT_OFFSET;
use super::event::Effect;
use super::handle::Happening;
use super::job::JobState;
use super::node::Node;
use super::timers::Timer;
use rosterd_session::frame::RunRef;

/// How long what was said waits for more of it.
const EVERY: Duration = Duration::from_secs(1);
/// So many bytes wait for one job; what comes beyond them is left to the next that is said.
const MOST_BYTES: usize = 1 << 20;

/// What workers here have said of the runs of one job, and nobody has written down.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    said: BTreeMap<Item, Progressed>,
    bytes: usize,
    /// When it is written down at the latest.
    due: Option<Mono>,
}

impl Progress {
    pub(super) fn said(&self) -> &BTreeMap<Item, Progressed> {
        &self.said
    }

    pub(super) fn is_due(&self, now: Mono) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    fn put(&mut self, item: Item, said: Progressed) -> bool {
        let before = self.said.get(&item).map_or(0, |before| before.offset.len());
        let bytes = self.bytes - before + said.offset.len();
        let fits = bytes <= MOST_BYTES;
        if fits {
            self.bytes = bytes;
            self.said.insert(item, said);
        }
        fits
    }

    /// Forgets what was said of an item, if it is this.
    fn take(&mut self, item: Item, is: impl Fn(&Progressed) -> bool) {
        if self.said.get(&item).is_some_and(is)
            && let Some(gone) = self.said.remove(&item)
        {
            self.bytes -= gone.offset.len();
        }
    }

    /// Another run of the item, or none, is in flight: nothing that was said of one before counts.
    pub(super) fn is_of(&mut self, item: Item, token: Option<Token>) {
        self.take(item, |said| Some(said.token) != token);
    }
}

impl Node {
    /// Only of a run that is the worker's.
    pub(super) fn progress(
        &mut self,
        id: &WorkerId,
        run: RunRef,
        percent: u32,
        message: String,
        offset: Option<Arc<[u8]>>,
    ) {
        let record = self.jobs.get(&run.job).and_then(|job| job.records.get(&run.item));
        let running = record.filter(|(_, record)| record.token == run.token);
        let running = running.and_then(|(_, record)| record.running()).is_some_and(|run| run.worker == *id);
        let apart = || self.workers.get(id).is_some_and(|worker| worker.untracked_runs.contains_key(&run));
        if !running && !apart() {
            return;
        }
        let RunRef { job, item, token } = run;
        if let Some(offset) = offset.filter(|_| running) {
            self.progressed(&job, item, Progressed { token, worker: id.clone(), offset });
        }
        self.out.push(Effect::Tell(Happening::Progress { job, item, token, percent, message }));
    }

    fn progressed(&mut self, name: &JobName, item: Item, said: Progressed) {
        let due = self.now.mono.plus(EVERY);
        let Some(job) = self.jobs.get_mut(name) else { return };
        if job.progress.put(item, said) && job.progress.due.is_none() {
            job.progress.due = Some(due);
            self.timers.insert((due, Timer::Job(name.clone())));
        }
    }

    /// These were written down.
    pub(super) fn progress_written(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        written: Vec<(Item, Arc<[u8]>)>,
        more: bool,
    ) {
        for (item, offset) in written {
            job.progress.take(item, |said| Arc::ptr_eq(&said.offset, &offset));
            if offset.len() <= SHORT_OFFSET && !mutants::is_on(mutants::OFFSETS_STAY) {
                job.offsets.insert(item, Some(offset));
            } else {
                job.offsets.remove(&item);
            }
        }
        if !more && job.progress.is_due(self.now.mono) {
            let due = self.now.mono.plus(EVERY);
            job.progress.due = (!job.progress.said.is_empty()).then_some(due);
            if job.progress.due.is_some() {
                self.timers.insert((due, Timer::Job(name.clone())));
            }
        }
    }
}
