//! The registry port: the only shared truth, small and atomic, the same for every backend.
//!
//! Coordinators are caches of it. A transaction is handed over at the call, in call order, and its future
//! tells what became of it. Reads are linearizable: they see every commit that was acknowledged before the
//! call, and nothing that is not durable. Watches give hints, never data: whoever gets one looks again.
//! This module never decides anything about jobs; the `coordinator` alone calls it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rosterd_domain::id::{CoordinatorId, Item, JobName, Version, WorkerId};
use rosterd_domain::snapshot::{Attachment, JobNodes, Numbering, Snapshot, Switches, Whole};
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Commit, Txn};

mod conflict;
pub mod embedded;
mod forms;
mod hints;
mod lower;
pub mod memory;
mod paths;
mod read;
mod tree;
pub mod zookeeper;

pub use hints::Hints;
pub use read::View;

/// A read that did not come back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The session is over: nothing that was read in it holds.
    #[error("the store session is over")]
    Fenced,
    /// The store does not answer; the text says why and what to do.
    #[error("the store does not answer: {0}")]
    Unavailable(String),
    /// A node of ours holds what we never write.
    #[error("{path} is damaged: {reason}")]
    Damaged {
        /// The node's path.
        path: String,
        /// What is wrong with its data.
        reason: String,
    },
}

/// What a reader should look at again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hint {
    /// A job was made or has gone.
    Jobs,
    /// The decision state of a watched job has changed. Run state (records, `running`) gives no hint.
    Job(JobName),
    /// An item of a watched job was marked as disabled, or its mark was taken away, by us or by another tool.
    Switches(JobName),
    /// A run of a watched job with guarantees was held, released, or has completed its fire.
    Guarantee(JobName),
    /// A coordinator came or went.
    Coordinators,
    /// The session's state has changed.
    Session(SessionState),
}

impl Hint {
    /// The job that it is about: who does not watch that is not told.
    pub(crate) fn job(&self) -> Option<&JobName> {
        match self {
            Self::Job(job) | Self::Switches(job) | Self::Guarantee(job) => Some(job),
            Self::Jobs | Self::Coordinators | Self::Session(_) => None,
        }
    }
}

/// What the holder of a session may still do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionState {
    /// Connected.
    Connected,
    /// No contact: no authority to start anything, but the ephemerals may still stand.
    Suspended,
    /// Over: the ephemerals are gone.
    Gone,
}

/// A node as `dump` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpNode {
    /// Its data.
    pub data: Arc<[u8]>,
    /// It belongs to a session.
    pub ephemeral: bool,
}

/// A read under way.
pub type Read<T> = BoxFuture<'static, Result<T, ReadError>>;

/// One session with a coordination store.
pub trait Registry: Send + Sync + 'static {
    /// Hands a transaction over, now; the future tells what became of it and may be dropped.
    fn commit(&self, txn: Txn) -> BoxFuture<'static, Commit>;

    /// Hands several transactions over, in this order; each stands or falls alone.
    fn commit_all(&self, txns: Vec<Txn>) -> Vec<BoxFuture<'static, Commit>> {
        txns.into_iter().map(|txn| self.commit(txn)).collect()
    }

    /// The names of all jobs, also of those being removed.
    fn jobs(&self) -> Read<BTreeSet<JobName>>;

    /// A job's decision state; `None`: no such job.
    fn job(&self, job: &JobName) -> Read<Option<JobNodes>>;

    /// A job's decision state and the records of all its items.
    fn snapshot(&self, job: &JobName) -> Read<Option<Snapshot>>;

    /// Which items of a job are marked as disabled; `None`: no such job.
    fn switches(&self, job: &JobName) -> Read<Option<Switches>>;

    /// All that is kept of a job.
    fn whole(&self, job: &JobName) -> Read<Option<Whole>>;

    /// How tokens are numbered, after everything that was committed before this session was opened.
    fn numbering(&self) -> Read<Numbering>;

    /// An item's offset.
    fn offset(&self, job: &JobName, item: Item) -> Read<Option<Arc<[u8]>>>;

    /// A worker's attachment; once it was there, `None` is final.
    fn attachment(&self, worker: &WorkerId) -> Read<Option<(Version, Attachment)>>;

    /// All attachments.
    fn attachments(&self) -> Read<BTreeMap<WorkerId, (Version, Attachment)>>;

    /// The coordinators whose session lives, with what they wrote of themselves.
    fn coordinators(&self) -> Read<BTreeMap<CoordinatorId, Arc<str>>>;

    /// When the store wrote a coordinator's own node last, by the store's clock; `None`: it has none of its own, or there is no
    /// such node.
    fn told_at(&self, id: &CoordinatorId) -> Read<Option<Time>>;

    /// Everything below a job, by path relative to the job (`/config`, `/sharding/0/instance`, …).
    fn dump(&self, job: &JobName) -> Read<Option<BTreeMap<String, DumpNode>>>;

    /// Asks for hints about a job from now on. Read after, not before.
    fn watch(&self, job: &JobName);

    /// Asks for hints about the marks of so many items as well, [`Hint::Switches`]: of a job that is watched, until it is not.
    /// None: for no more of them. Other tools alone write them by themselves, so one coordinator is enough to hear of it.
    fn watch_items(&self, job: &JobName, items: u32);

    /// No more hints about a job.
    fn unwatch(&self, job: &JobName);

    /// The session's hints; can be taken once. Hints of the same thing that wait are merged.
    fn hints(&self) -> Hints;

    /// Names the session: no two sessions ever have the same name.
    fn session(&self) -> String;

    /// How long the store waits before it ends a silent session; `None`: never while the process lives.
    fn session_timeout(&self) -> Option<Duration>;
}
