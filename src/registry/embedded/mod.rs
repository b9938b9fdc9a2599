//! The embedded registry: the store of a single node, in this process and on its disk.
//!
//! One thread owns the tree and the database (`store`); callers pass transactions through a bounded queue and get their
//! answer once the batch is synced. Persistent nodes are on disk (`disk`), opened and checked by `open`; the session,
//! its ephemeral nodes and the hints are in memory and end with the process, so every start is a new session. It never
//! answers before the sync, never retries a failed sync, and never starts empty if there was data.

mod digest;
mod disk;
mod error;
mod journal;
mod ledger;
mod note;
mod open;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use rosterd_domain::id::{CoordinatorId, Item, JobName, Namespace, Version, WorkerId};
use rosterd_domain::snapshot::{Attachment, JobNodes, Numbering, Snapshot, Switches, Whole};
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Commit, Txn};
use tokio::sync::oneshot;

pub use error::OpenError;

use self::store::{Limits, Pending, Store, StoreRequest, Watched};
use super::hints::HintQueue;
use super::lower::lower;
use super::paths::Paths;
use super::read::{RawSnapshot, RawWhole};
use super::{DumpNode, Hints, Read, ReadError, Registry, View};

/// How many transactions and reads may wait; more are refused as overload.
pub const DEFAULT_QUEUE: usize = 16_384;
/// How many transactions share one sync at most.
pub const DEFAULT_BATCH: usize = 1_000;
/// A batch that has reached this number of bytes accepts no more transactions.
pub const DEFAULT_BATCH_BYTES: usize = 4 << 20;
/// Once the log holds about this many pages, they are moved to the database. With more, each move would be rarer, and
/// fires would wait longer for it.
pub const DEFAULT_CHECKPOINT_PAGES: usize = 4_096;
/// Once the journal has this number of bytes, they are merged into the rows of the nodes, while half as many more are
/// appended. With more, a node that changes often is merged less often, and the database is larger.
pub const DEFAULT_JOURNAL_BYTES: usize = 32 << 20;

/// How the store is opened.
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// The one namespace that the directory holds.
    pub namespace: Namespace,
    /// See [`DEFAULT_QUEUE`].
    pub queue: usize,
    /// See [`DEFAULT_BATCH`].
    pub batch: usize,
    /// See [`DEFAULT_BATCH_BYTES`].
    pub batch_bytes: usize,
    /// See [`DEFAULT_CHECKPOINT_PAGES`].
    pub checkpoint_pages: usize,
    /// See [`DEFAULT_JOURNAL_BYTES`].
    pub journal_bytes: usize,
}

impl EmbeddedOptions {
    /// The defaults for a namespace.
    pub fn new(namespace: Namespace) -> Self {
        Self {
            namespace,
            queue: DEFAULT_QUEUE,
            batch: DEFAULT_BATCH,
            batch_bytes: DEFAULT_BATCH_BYTES,
            checkpoint_pages: DEFAULT_CHECKPOINT_PAGES,
            journal_bytes: DEFAULT_JOURNAL_BYTES,
        }
    }
}

/// The one session of an embedded store. Dropping it waits for the transactions in its queue and closes the store.
#[derive(Debug)]
pub struct EmbeddedRegistry {
    paths: Arc<Paths>,
    session: String,
    queue: usize,
    /// How many transactions and reads wait.
    waiting: Arc<AtomicUsize>,
    commands: Option<Sender<StoreRequest>>,
    thread: Option<JoinHandle<()>>,
    watched: Watched,
    hints: HintQueue,
}

impl EmbeddedRegistry {
    /// Opens the store in `dir`, or creates it if nothing was ever stored there. Blocks while it reads all of it.
    pub fn open(dir: &Path, options: EmbeddedOptions) -> Result<Self, OpenError> {
        let paths = Arc::new(Paths::new(&options.namespace));
        let opened = open::Opened::open(dir, &options.namespace, &paths)?;
        let (disk, tree) = disk::Disk::new(opened, options.checkpoint_pages, options.journal_bytes);
        let (commands, inbox) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let watched = Watched::default();
        let hints = HintQueue::default();
        let limits = Limits { transactions: options.batch.max(1), bytes: options.batch_bytes.max(1) };
        let store = Store::new(tree, disk, paths.clone(), limits, watched.clone(), hints.clone());
        let taken = waiting.clone();
        let thread = std::thread::Builder::new()
            .name("registry".into())
            .spawn(move || store.run(&inbox, &taken))
            .map_err(|source| OpenError::io("starting the thread for", dir, source))?;
        Ok(Self {
            paths,
            session: format!("embedded-{}", uuid::Uuid::new_v4()),
            queue: options.queue.max(1),
            waiting,
            commands: Some(commands),
            thread: Some(thread),
            watched,
            hints,
        })
    }

    /// When something was last written in `dir`, by the machine's clock at that time.
    pub fn last_written(dir: &Path) -> Option<std::time::SystemTime> {
        open::last_written(dir)
    }

    /// Whether a registry was ever stored in `dir`.
    pub fn is_in(dir: &Path) -> bool {
        open::is_in(dir)
    }

    /// Sends a command to the thread; the text says why that failed.
    fn send(&self, command: StoreRequest) -> Result<(), String> {
        let Some(commands) = &self.commands else { return Err(STOPPED.into()) };
        let size = command.size();
        if self.waiting.fetch_add(size, Ordering::Relaxed) + size > self.queue {
            self.waiting.fetch_sub(size, Ordering::Relaxed);
            return Err(format!(
                "the store is overloaded: {} requests wait for its disk; try again later, and if this lasts \
                 give it a faster disk or fewer jobs",
                self.queue
            ));
        }
        commands.send(command).map_err(|_| STOPPED.into())
    }

    fn read<T, F>(&self, look: F) -> BoxFuture<'static, Result<T, ReadError>>
    where
        T: Send + 'static,
        F: FnOnce(View<'_>) -> Result<T, ReadError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let look = Box::new(move |view: Result<View<'_>, ReadError>| {
            // The caller may have dropped its future meanwhile.
            let _ = reply.send(view.and_then(look));
        });
        if let Err(text) = self.send(StoreRequest::Read(look)) {
            return ready(Err(ReadError::Unavailable(text))).boxed();
        }
        answer.map(|answer| answer.unwrap_or_else(|_| Err(ReadError::Unavailable(STOPPED.into())))).boxed()
    }
}

const STOPPED: &str = "the store has stopped; restart the coordinator and look at its log for the reason";

impl Drop for EmbeddedRegistry {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Registry for EmbeddedRegistry {
    fn commit(&self, txn: Txn) -> BoxFuture<'static, Commit> {
        self.commit_all(vec![txn]).pop().unwrap_or_else(|| ready(Commit::Unknown).boxed())
    }

    /// Transactions that are committed together share a sync, as far as the limits allow.
    fn commit_all(&self, txns: Vec<Txn>) -> Vec<BoxFuture<'static, Commit>> {
        let mut group = Vec::with_capacity(txns.len());
        let answers: Vec<_> = txns
            .into_iter()
            .map(|txn| {
                // Lowered here, on the caller's thread, so that the store's one thread has less to do.
                let lowered = lower(&self.paths, &txn)?;
                let (reply, answer) = oneshot::channel();
                group.push(Pending { txn, lowered, reply });
                Ok(answer)
            })
            .collect();
        let refused = if group.is_empty() { None } else { self.send(StoreRequest::Commit(group)).err() };
        let answers = answers.into_iter().map(|answer| match (answer, &refused) {
            (Err(text), _) => ready(Commit::Conflict(text)).boxed(),
            (Ok(_), Some(text)) => ready(Commit::Unavailable(text.clone())).boxed(),
            // No answer: the thread failed with the transaction in flight.
            (Ok(answer), None) => answer.map(|answer| answer.unwrap_or(Commit::Unknown)).boxed(),
        });
        answers.collect()
    }

    fn jobs(&self) -> Read<BTreeSet<JobName>> {
        self.read(|view| Ok(view.jobs()))
    }

    fn job(&self, job: &JobName) -> Read<Option<JobNodes>> {
        let job = job.clone();
        self.read(move |view| view.job(&job))
    }

    fn snapshot(&self, job: &JobName) -> Read<Option<Snapshot>> {
        let job = job.clone();
        let raw = self.read(move |view| view.raw_snapshot(&job));
        raw.map(|raw| raw?.map(RawSnapshot::decode).transpose()).boxed()
    }

    fn switches(&self, job: &JobName) -> Read<Option<Switches>> {
        let job = job.clone();
        self.read(move |view| Ok(view.switches(&job)))
    }

    fn whole(&self, job: &JobName) -> Read<Option<Whole>> {
        let job = job.clone();
        let raw = self.read(move |view| view.raw_whole(&job));
        raw.map(|raw| raw?.map(RawWhole::decode).transpose()).boxed()
    }

    fn numbering(&self) -> Read<Numbering> {
        self.read(|view| view.numbering())
    }

    fn offset(&self, job: &JobName, item: Item) -> Read<Option<Arc<[u8]>>> {
        let job = job.clone();
        self.read(move |view| Ok(view.offset(&job, item)))
    }

    fn attachment(&self, worker: &WorkerId) -> Read<Option<(Version, Attachment)>> {
        let worker = worker.clone();
        self.read(move |view| view.attachment(&worker))
    }

    fn attachments(&self) -> Read<BTreeMap<WorkerId, (Version, Attachment)>> {
        self.read(|view| view.attachments())
    }

    fn coordinators(&self) -> Read<BTreeMap<CoordinatorId, Arc<str>>> {
        self.read(|view| Ok(view.coordinators()))
    }

    fn told_at(&self, _: &CoordinatorId) -> Read<Option<Time>> {
        // The store's clock is this machine's.
        ready(Ok(None)).boxed()
    }

    fn dump(&self, job: &JobName) -> Read<Option<BTreeMap<String, DumpNode>>> {
        let job = job.clone();
        self.read(move |view| Ok(view.dump(&job)))
    }

    fn watch(&self, job: &JobName) {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).insert(job.clone());
    }

    fn watch_items(&self, _: &JobName, _: u32) {
        // Every change is seen here anyway.
    }

    fn unwatch(&self, job: &JobName) {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).remove(job);
    }

    fn hints(&self) -> Hints {
        self.hints.take()
    }

    fn session(&self) -> String {
        self.session.clone()
    }

    fn session_timeout(&self) -> Option<Duration> {
        None
    }
}
