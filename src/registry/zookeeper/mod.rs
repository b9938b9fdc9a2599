//! The registry on a ZooKeeper ensemble: one session of it.
//!
//! One task writes (`writer`): it turns transactions into operations that ZooKeeper knows (`encode`, from the nodes
//! that are believed to exist: `existence`), and puts as many into a packet as do not touch one another (`group`).
//! Reads are of one revision (`fetch`, `read_set`) and are answered from the same tree as those of the other stores.
//! Watches give hints (`watching`), and our own clock determines the session's state (`life`). Every task is a part of
//! the session: if one panics the session ends, and its owner opens another. It never repeats a write whose outcome is
//! unknown, never answers a read from memory, and never comes back to life: to get another session, connect again.

mod classify;
mod connect;
mod core;
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
mod pending;
mod probe;
mod read_set;
mod reader;
mod root_paths;
mod wants;
mod watch_barrier;
mod watching;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use rosterd_domain::id::{CoordinatorId, Item, JobName, Version, WorkerId};
use rosterd_domain::snapshot::{Attachment, JobNodes, Numbering, Snapshot, Switches, Whole};
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Commit, Txn};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

pub use error::ConnectError;
pub use inspect::{Inspection, inspect};
pub use options::{Backoff, Credentials, DEFAULT_QUEUE, Tls, ZooKeeperOptions};

use self::core::{Core, KnownNodes, RequestTerms};
use self::life::Life;
use self::pending::{Group, Pending};
use self::watch_barrier::WatchBarrier;
use self::watching::{WatchCommand, Watching};
use self::writer::Writer;
use super::lower::lower;
use super::paths::Paths;
use super::read::{RawSnapshot, RawWhole};
use super::{DumpNode, Hints, Read, Registry, SessionState};
use rosterd_runtime::mutants;

/// One session with an ensemble. Dropping it closes the session once all transactions in its queue are answered.
pub struct ZooKeeperRegistry {
    core: Arc<Core>,
    name: String,
    queue: usize,
    writes: mpsc::UnboundedSender<Group>,
    watches: mpsc::UnboundedSender<WatchCommand>,
}

impl ZooKeeperRegistry {
    /// Opens a session, and creates what the namespace needs. Must be called on a tokio runtime.
    pub async fn connect(options: ZooKeeperOptions) -> Result<Self, ConnectError> {
        let paths = Arc::new(Paths::new(&options.namespace));
        let opened = connect::connect(&options, &paths).await?;
        let client = opened.client;
        let timeout = client.session_timeout();
        let id = client.session_id().0;
        let core = Arc::new(Core {
            paths,
            life: Life::new(options.clock.clone(), timeout, opened.proof),
            terms: RequestTerms {
                acls: opened.acls,
                limit: options.request_timeout.unwrap_or(timeout / 2),
                backoff: options.backoff,
                chroot_bytes: opened.chroot_bytes,
            },
            session: wants::session(id),
            client: Mutex::new(Some(client.clone())),
            known: KnownNodes {
                existence: Mutex::default(),
                sizes: Mutex::default(),
                seen: AtomicU64::new(opened.revision.0),
            },
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
        // From here on, changes of the namespace give hints.
        let _ = tokio::time::timeout(core.terms.limit, core.gate.pass()).await;
        let name = format!("zookeeper-{:#x}", id);
        Ok(Self { core, name, queue: options.queue.max(1), writes, watches })
    }

    /// Ends the session now, with its ephemeral nodes: transactions that wait are fenced, those in flight are unknown.
    pub fn close(&self) {
        self.core.end();
    }

    /// Waits until the servers were told that the session is closed, or it is over for another reason. For a process
    /// that is about to exit: without this wait it may be gone first, and the nodes stay until the session times out.
    pub async fn closed(&self) {
        let mut states = self.core.states.clone();
        while !states.peek_state().is_terminated() {
            states.changed().await;
        }
    }

    /// Queues transactions; the error says why that failed.
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
        mutants::panic_if_injected("panic-zookeeper-time");
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
            // No answer: the transaction was in flight when the session ended.
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
        let wants = |paths: &Paths, found: &wants::Found| read_set::folder(paths.coordinators(), found);
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
        if self.watches.send(WatchCommand::Watch(job.clone(), number)).is_err() {
            self.core.gate.done(number);
        }
    }

    fn watch_items(&self, job: &JobName, items: u32) {
        let number = self.core.gate.ask();
        if self.watches.send(WatchCommand::WatchItems(job.clone(), items, number)).is_err() {
            self.core.gate.done(number);
        }
    }

    fn unwatch(&self, job: &JobName) {
        self.core.watched().remove(job);
        let _ = self.watches.send(WatchCommand::Unwatch(job.clone()));
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
