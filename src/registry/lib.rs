//! The registry port: the only shared truth, small and atomic, the same for every backend.
//!
//! Coordinators are caches of it. A transaction is handed over at the call, in call order, and its future returns the
//! outcome. Reads are linearizable: they see every commit that was acknowledged before the call, and nothing that is
//! not durable. Watches give hints, never data: the receiver of a hint reads again. This module never decides anything
//! about jobs; the `coordinator` alone calls it.

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

pub use hints::{Hint, Hints, SessionState};
pub use read::View;

/// Why a read failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The session is over: nothing that was read in it is valid.
    #[error("the store session is over")]
    Fenced,
    /// The store does not answer; the text says why and what to do.
    #[error("the store does not answer: {0}")]
    Unavailable(String),
    /// A node of ours holds something that we never write.
    #[error("{path} is damaged: {reason}")]
    Damaged {
        /// The node's path.
        path: String,
        /// What is wrong with its data.
        reason: String,
    },
}

/// A node as `dump` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpNode {
    /// Its data.
    pub data: Arc<[u8]>,
    /// Whether it belongs to a session.
    pub ephemeral: bool,
}

/// A read in progress.
pub type Read<T> = BoxFuture<'static, Result<T, ReadError>>;

/// One session with a coordination store.
pub trait Registry: Send + Sync + 'static {
    /// Hands a transaction over, at once; the future returns its outcome and may be dropped.
    fn commit(&self, txn: Txn) -> BoxFuture<'static, Commit>;

    /// Hands several transactions over, in this order; each is applied or refused by itself.
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

    /// How tokens are numbered, as of everything that was committed before this session was opened.
    fn numbering(&self) -> Read<Numbering>;

    /// An item's offset.
    fn offset(&self, job: &JobName, item: Item) -> Read<Option<Arc<[u8]>>>;

    /// A worker's attachment; `None` is final once it existed.
    fn attachment(&self, worker: &WorkerId) -> Read<Option<(Version, Attachment)>>;

    /// All attachments.
    fn attachments(&self) -> Read<BTreeMap<WorkerId, (Version, Attachment)>>;

    /// The coordinators whose session is alive, with what they wrote about themselves.
    fn coordinators(&self) -> Read<BTreeMap<CoordinatorId, Arc<str>>>;

    /// When the store last wrote a coordinator's own node, by the store's clock; `None`: the store has no clock of its
    /// own, or there is no such node.
    fn told_at(&self, id: &CoordinatorId) -> Read<Option<Time>>;

    /// Everything below a job, by path relative to the job (`/config`, `/sharding/0/instance`, …).
    fn dump(&self, job: &JobName) -> Read<Option<BTreeMap<String, DumpNode>>>;

    /// Asks for hints about a job from now on. Read after this call, not before.
    fn watch(&self, job: &JobName);

    /// Also asks for hints about the disabled marks of this many items ([`Hint::Switches`]), until the job is
    /// unwatched. `items` is 0 to stop. Only other tools write the marks by themselves, so it is enough if one
    /// coordinator watches them.
    fn watch_items(&self, job: &JobName, items: u32);

    /// Ends the hints about a job.
    fn unwatch(&self, job: &JobName);

    /// The session's hints; can be taken once. Hints about the same thing are merged while they wait.
    fn hints(&self) -> Hints;

    /// Names the session: no two sessions ever have the same name.
    fn session(&self) -> String;

    /// How long the store waits before it ends a silent session; `None`: never while the process lives.
    fn session_timeout(&self) -> Option<Duration>;
}
