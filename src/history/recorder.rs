//! The recorder: accepts what was committed, and never blocks. Held by the coordinator.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::item::Running;
use rosterd_domain::ownership::Owned;
use rosterd_domain::plan::Entry;
use rosterd_domain::time::Time;

use super::outbox::{Shared, Status};
use super::queue::{Of, Queue, What};
use super::rows::{Detail, EventKind, cut};
use super::{MAX_AUDIT, MAX_ERROR, MAX_OUTPUT};

/// Writes to the history. Cheap to clone; recording never blocks.
#[derive(Debug, Clone)]
pub struct Recorder {
    queue: Arc<Queue>,
    writer: Arc<WriterThread>,
    /// The outbox and the name of its database, if rows are sent to one.
    outbox: Option<Shared>,
}

/// Shared by all clones: the writer ends after the last of them.
#[derive(Debug)]
struct WriterThread {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Recorder {
    pub(super) fn new(queue: Arc<Queue>, thread: Option<JoinHandle<()>>) -> Self {
        let writer = WriterThread { queue: queue.clone(), thread: Mutex::new(thread) };
        Self { queue, writer: Arc::new(writer), outbox: None }
    }

    /// A recorder whose rows are sent to a database.
    pub(super) fn sharing(queue: Arc<Queue>, thread: JoinHandle<()>, outbox: Shared) -> Self {
        Self { outbox: Some(outbox), ..Self::new(queue, Some(thread)) }
    }

    /// A recorder that keeps nothing, and counts everything as dropped.
    pub fn none() -> Self {
        let nowhere = Self::new(Arc::new(Queue::new(0, 0)), None);
        nowhere.queue.close();
        nowhere
    }

    /// Records what a committed plan did. The same entry may come again (a commit whose outcome was unknown, a report
    /// sent twice): it changes nothing, except that late detail is filled in.
    pub fn record(&self, job: &JobName, at: Time, entry: &Entry, detail: Option<Detail>) {
        let detail = detail.map(|mut detail| {
            cut(&mut detail.error, MAX_ERROR);
            cut(&mut detail.output, MAX_OUTPUT);
            Box::new(detail)
        });
        let of = |item, token| Of { job: job.clone(), item, token };
        let what = match entry {
            Entry::Started { item, token, run } => {
                What::Started { of: of(*item, *token), run: run.clone(), detail }
            }
            Entry::Ended { item, token, run, outcome, at, requeued } => What::Ended {
                of: of(*item, *token),
                run: run.clone(),
                outcome: *outcome,
                at: *at,
                requeued: *requeued,
                detail,
            },
            Entry::NotRun { item, first, latest, count, result } => What::NotRun {
                job: job.clone(),
                item: *item,
                first: *first,
                latest: *latest,
                count: *count,
                result: *result,
            },
        };
        self.queue.put(at, what);
    }

    /// Records that the user code of a run has started, and when by the worker's clock. May come again, and after the
    /// end.
    pub fn begun(
        &self,
        job: &JobName,
        now: Time,
        (item, token): (Item, Token),
        run: &Running,
        at: Option<Time>,
    ) {
        let of = Of { job: job.clone(), item, token };
        self.queue.put(now, What::Begun { of, run: run.clone(), at });
    }

    /// Records an event, and the principal that caused it. One of kind [`EventKind::Job`] also ends the job's gaps:
    /// later scheduled times that are not run get a new row.
    pub fn event(
        &self,
        at: Time,
        job: Option<&JobName>,
        kind: EventKind,
        text: impl Into<String>,
        principal: Option<&str>,
    ) {
        let (mut text, mut principal) = (text.into(), principal.map(str::to_owned));
        cut(&mut text, if kind.is_audit() { MAX_AUDIT } else { MAX_OUTPUT });
        if let Some(principal) = &mut principal {
            cut(principal, 1024);
        }
        self.queue.put(at, What::Event { job: job.cloned(), kind, text, principal });
    }

    /// Records who owns a job's items from now on. The same may come again, and the next one makes up for a lost one.
    pub fn owned(&self, at: Time, owned: &Owned) {
        self.queue.put(at, What::Owned(Box::new(owned.clone())));
    }

    /// Rows that never reached the file, since the start.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }

    /// Rows that lost their texts because too many bytes waited, since the start.
    pub fn shortened(&self) -> u64 {
        self.queue.shortened()
    }

    /// The status of the history.
    pub fn status(&self) -> Status {
        Status::of(&self.queue, self.outbox.as_ref())
    }

    /// Rows that wait to be written.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Waits until all that was recorded before is written or dropped.
    pub async fn settle(&self) {
        let queue = self.queue.clone();
        // Fails only while the runtime shuts down, when no caller is left.
        let _ = tokio::task::spawn_blocking(move || queue.settle(Duration::MAX)).await;
    }

    /// Writes the rows that wait and ends the writer; anything recorded later is dropped and counted.
    pub async fn stop(&self) {
        self.queue.close();
        let thread = self.writer.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic of the writer was logged when it happened, and it has abandoned its queue.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}
