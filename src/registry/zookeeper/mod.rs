//! The registry on a ZooKeeper ensemble: one session of it.
//!
//! One task writes (`writer`): what is handed over becomes operations that ZooKeeper knows (`encode`, from what is
//! believed to exist: `existence`), as many transactions to a packet as do not touch one another (`group`). Reads are
//! of one revision (`fetch`, `read_set`) and are answered from the same tree as those of the other stores. Watches
//! give hints (`watching`), and the session's state is told by our own clock (`life`). Every task is a part of the
//! session: one that panics ends it, and its owner opens another.
//! It never repeats a write whose outcome is unknown, never answers a read from memory, and never comes back to
//! life: who wants another session connects again.

mod classify;
mod connect;
mod encode;
mod error;
mod existence;
mod fetch;
pub mod foreign;
mod group;
mod identity;
mod inspect;
mod life;
mod multi;
mod options;
mod parts;
mod probe;
mod read_set;
mod reader;
mod root_paths;
mod watch_barrier;
mod watching;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use rosterd_domain::id::{CoordinatorId, Item, JobName, Version, WorkerId};
use rosterd_domain::snapshot::{Attachment, JobNodes, Numbering, Snapshot, Switches, Whole};
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Commit, Txn};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use zookeeper_client::{Acls, Client, StateWatcher};

pub use error::ConnectError;
pub use inspect::{Inspection, inspect};
pub use options::{Backoff, Credentials, DEFAULT_QUEUE, Tls, ZooKeeperOptions};

use self::existence::ExistenceCache;
use self::life::Life;
use self::parts::Sizes;
use self::watch_barrier::WatchBarrier;
use self::watching::{Command, Watching};
use self::writer::{Group, Pending, Writer};
use super::lower::lower;
use super::paths::Paths;
use super::read::{RawSnapshot, RawWhole};
use super::tree::SessionId;
use super::{DumpNode, Hint, Hints, Read, Registry, SessionState};
use rosterd_runtime::mutants;
use rosterd_runtime::tasks::panic_text;

/// What the parts of a session share.
struct Core {
    paths: Arc<Paths>,
    life: Life,
    acls: Acls<'static>,
    /// How long a request may wait and take.
    limit: Duration,
    backoff: Backoff,
    /// Bytes that the chroot adds to every path.
    chroot_bytes: usize,
    session: SessionId,
    /// For reads; gone with the session.
    client: Mutex<Option<Client>>,
    existence: Mutex<ExistenceCache>,
    /// How large what was read is.
    sizes: Mutex<Sizes>,
    /// The last transaction that was acknowledged.
    seen: AtomicU64,
    /// How many transactions wait.
    waiting: AtomicUsize,
    watched: Mutex<BTreeSet<JobName>>,
    gate: WatchBarrier,
    stopped: CancellationToken,
    /// What the client library says; keeps no connection.
    states: StateWatcher,
}

impl Core {
    fn existence(&self) -> MutexGuard<'_, ExistenceCache> {
        self.existence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watched(&self) -> MutexGuard<'_, BTreeSet<JobName>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn client(&self) -> Option<Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tell(&self, hint: Hint) {
        if hint.job().is_none_or(|job| self.watched().contains(job)) {
            self.life.hints.push(hint);
        }
    }

    fn tick(&self) -> Duration {
        writer::tick(self.life.timeout)
    }

    /// Runs a part of the session. What a part that panicked believed is gone with it, and half of a session would hang:
    /// without its time it never ends, without a lane it is told of nothing. So all of it ends, as if the servers had
    /// ended it; the panic itself is counted where every panic is.
    fn run_part<F>(self: &Arc<Self>, name: &'static str, part: F) -> AbortHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let core = self.clone();
        let task = tokio::spawn(async move {
            if let Err(panic) = AssertUnwindSafe(part).catch_unwind().await {
                let why = panic_text(&*panic);
                tracing::error!(
                    task = name,
                    why,
                    "a task of the ZooKeeper session panicked, and the session ends: this is a defect, report it"
                );
                core.end();
            }
        });
        task.abort_handle()
    }

    /// The session is over. What still holds its connection lets it go.
    fn end(&self) {
        self.life.enter(SessionState::Gone);
        self.let_go();
    }

    fn let_go(&self) {
        self.stopped.cancel();
        drop(self.client.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// One session with an ensemble. Dropping it closes the session when what was handed over is answered.
pub struct ZooKeeperRegistry {
    core: Arc<Core>,
    name: String,
    queue: usize,
    writes: mpsc::UnboundedSender<Group>,
    watches: mpsc::UnboundedSender<Command>,
}

impl ZooKeeperRegistry {
    /// Opens a session, and makes what the namespace needs. Must be called on a tokio runtime.
    pub async fn connect(options: ZooKeeperOptions) -> Result<Self, ConnectError> {
        let paths = Arc::new(Paths::new(&options.namespace));
        let opened = connect::connect(&options, &paths).await?;
        let client = opened.client;
        let timeout = client.session_timeout();
        let id = client.session_id().0;
        let core = Arc::new(Core {
            paths,
            life: Life::new(options.clock.clone(), timeout, opened.proof),
            acls: opened.acls,
            limit: options.request_timeout.unwrap_or(timeout / 2),
            backoff: options.backoff,
            chroot_bytes: opened.chroot_bytes,
            session: fetch::session(id),
            client: Mutex::new(Some(client.clone())),
            existence: Mutex::default(),
            sizes: Mutex::default(),
            seen: AtomicU64::new(opened.revision.0),
            waiting: AtomicUsize::new(0),
            watched: Mutex::default(),
            gate: WatchBarrier::default(),
            stopped: CancellationToken::new(),
            states: client.state_watcher(),
        });
        let (watches, commands) = mpsc::unbounded_channel();
        let number = core.gate.ask();
        let watching = Watching::start(core.clone(), opened.opener, client.clone(), number);
        core.run_part("zookeeper watches", watching.run(commands));
        let (writes, inbox) = mpsc::unbounded_channel();
        core.run_part("zookeeper writer", Writer::new(core.clone(), inbox).run(client));
        core.run_part("zookeeper time", keep_time(core.clone()));
        // Hints of the namespace count from here on.
        let _ = tokio::time::timeout(core.limit, core.gate.pass()).await;
        let name = format!("zookeeper-{:#x}", id);
        Ok(Self { core, name, queue: options.queue.max(1), writes, watches })
    }

    /// Ends the session now, and its ephemeral nodes with it: what waits is fenced, what is on its way is unknown.
    pub fn close(&self) {
        self.core.end();
    }

    /// Waits until the servers were told that the session is closed, or it is over otherwise. For who closed it
    /// and is to end: without this the process may be gone first, and the nodes stay until the session times out.
    pub async fn closed(&self) {
        let mut states = self.core.states.clone();
        while !states.peek_state().is_terminated() {
            states.changed().await;
        }
    }

    /// Takes them in; the text says why not.
    fn hand_over(&self, group: Group) -> Result<(), Commit> {
        let (size, waiting) = (group.len(), &self.core.waiting);
        if self.core.life.state() == SessionState::Gone {
            return Err(Commit::Fenced);
        }
        if waiting.fetch_add(size, Ordering::Relaxed) + size > self.queue {
            waiting.fetch_sub(size, Ordering::Relaxed);
            return Err(Commit::Unavailable(format!(
                "the store is overloaded: {} transactions wait for ZooKeeper; try again later, and if this \
                 lasts give it faster disks or fewer jobs",
                self.queue
            )));
        }
        self.writes.send(group).map_err(|_| Commit::Fenced)
    }
}

/// Ends the session by our own clock.
async fn keep_time(core: Arc<Core>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(core.tick()) => {}
            () = core.stopped.cancelled() => return,
        }
        mutants::panic_if_told("panic-zookeeper-time");
        if core.life.unproven() >= core.life.timeout {
            tracing::warn!(
                "the ZooKeeper session is given up: nothing has proven it for {} ms",
                core.life.timeout.as_millis()
            );
            return core.end();
        }
    }
}

impl Drop for ZooKeeperRegistry {
    fn drop(&mut self) {
        self.core.let_go();
    }
}

impl Registry for ZooKeeperRegistry {
    fn commit(&self, txn: Txn) -> BoxFuture<'static, Commit> {
        self.commit_all(vec![txn]).pop().unwrap_or_else(|| ready(Commit::Unknown).boxed())
    }

    fn commit_all(&self, txns: Vec<Txn>) -> Vec<BoxFuture<'static, Commit>> {
        let asked = self.core.life.clock.mono();
        let mut group = Vec::with_capacity(txns.len());
        let answers: Vec<_> = txns
            .into_iter()
            .map(|txn| {
                let lowered = lower(&self.core.paths, &txn)?;
                let (reply, answer) = oneshot::channel();
                group.push(Box::new(Pending::new(txn, lowered, reply, asked)));
                Ok::<_, String>(answer)
            })
            .collect();
        let refused = if group.is_empty() { None } else { self.hand_over(group).err() };
        let answers = answers.into_iter().map(|answer| match (answer, &refused) {
            (Err(text), _) => ready(Commit::Conflict(text)).boxed(),
            (Ok(_), Some(refused)) => ready(refused.clone()).boxed(),
            // No answer: it was on its way when the session ended.
            (Ok(answer), None) => answer.map(|answer| answer.unwrap_or(Commit::Unknown)).boxed(),
        });
        answers.collect()
    }

    fn jobs(&self) -> Read<BTreeSet<JobName>> {
        self.core.clone().read(|paths, _| read_set::jobs(paths), |view| Ok(view.jobs()))
    }

    fn job(&self, job: &JobName) -> Read<Option<JobNodes>> {
        let (wanted, job) = (job.clone(), job.clone());
        self.core
            .clone()
            .read(move |paths, found| read_set::job(paths, &wanted, found), move |view| view.job(&job))
    }

    fn snapshot(&self, job: &JobName) -> Read<Option<Snapshot>> {
        let (wanted, job) = (job.clone(), job.clone());
        let raw = self.core.clone().read(
            move |paths, found| read_set::snapshot(paths, &wanted, found),
            move |view| view.raw_snapshot(&job),
        );
        raw.map(|raw| raw?.map(RawSnapshot::decode).transpose()).boxed()
    }

    fn switches(&self, job: &JobName) -> Read<Option<Switches>> {
        let (wanted, job) = (job.clone(), job.clone());
        self.core.clone().read(
            move |paths, found| read_set::switches(paths, &wanted, found),
            move |view| Ok(view.switches(&job)),
        )
    }

    fn whole(&self, job: &JobName) -> Read<Option<Whole>> {
        let (wanted, job) = (job.clone(), job.clone());
        let raw = self.core.clone().read(
            move |paths, found| read_set::whole(paths, &wanted, found),
            move |view| view.raw_whole(&job),
        );
        raw.map(|raw| raw?.map(RawWhole::decode).transpose()).boxed()
    }

    fn numbering(&self) -> Read<Numbering> {
        self.core.clone().read(|paths, _| read_set::node(paths.numbering()), |view| view.numbering())
    }

    fn offset(&self, job: &JobName, item: Item) -> Read<Option<Arc<[u8]>>> {
        let (wanted, job) = (job.clone(), job.clone());
        self.core.clone().read(
            move |paths, _| read_set::node(paths.offset(&wanted, item)),
            move |view| Ok(view.offset(&job, item)),
        )
    }

    fn attachment(&self, worker: &WorkerId) -> Read<Option<(Version, Attachment)>> {
        let (wanted, worker) = (worker.clone(), worker.clone());
        self.core
            .clone()
            .read(move |paths, _| read_set::attachment(paths, &wanted), move |view| view.attachment(&worker))
    }

    fn attachments(&self) -> Read<BTreeMap<WorkerId, (Version, Attachment)>> {
        self.core
            .clone()
            .read(|paths, found| read_set::folder(paths.workers(), found), |view| view.attachments())
    }

    fn coordinators(&self) -> Read<BTreeMap<CoordinatorId, Arc<str>>> {
        let wants = |paths: &Paths, found: &fetch::Found| read_set::folder(paths.coordinators(), found);
        self.core.clone().read(wants, |view| Ok(view.coordinators()))
    }

    fn told_at(&self, id: &CoordinatorId) -> Read<Option<Time>> {
        let path = self.core.paths.coordinator(id);
        let core = self.core.clone();
        async move { core.written_at(&path).await }.boxed()
    }

    fn dump(&self, job: &JobName) -> Read<Option<BTreeMap<String, DumpNode>>> {
        let (wanted, job) = (job.clone(), job.clone());
        self.core.clone().read(
            move |paths, found| read_set::everything(&paths.job(&wanted), found),
            move |view| Ok(view.dump(&job)),
        )
    }

    fn watch(&self, job: &JobName) {
        self.core.watched().insert(job.clone());
        let number = self.core.gate.ask();
        if self.watches.send(Command::Watch(job.clone(), number)).is_err() {
            self.core.gate.done(number);
        }
    }

    fn watch_items(&self, job: &JobName, items: u32) {
        let number = self.core.gate.ask();
        if self.watches.send(Command::WatchItems(job.clone(), items, number)).is_err() {
            self.core.gate.done(number);
        }
    }

    fn unwatch(&self, job: &JobName) {
        self.core.watched().remove(job);
        let _ = self.watches.send(Command::Unwatch(job.clone()));
    }

    fn hints(&self) -> Hints {
        self.core.life.hints.take()
    }

    fn session(&self) -> String {
        self.name.clone()
    }

    fn session_timeout(&self) -> Option<Duration> {
        Some(self.core.life.timeout)
    }
}
