//! What the coordinator's state machine is told, and what it asks for. [`super::node::Node`] answers events
//! with effects; the driver alone carries effects out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rosterd_domain::id::{CoordinatorId, Item, JobName, Token, Version, WorkerId};
use rosterd_domain::item::Running;
use rosterd_domain::ownership::Owned;
use rosterd_domain::plan::Entry;
use rosterd_domain::snapshot::{Attachment, JobNodes, Snapshot, Switches};
use rosterd_domain::time::{Mono, Time};
use rosterd_domain::txn::{Commit, Txn};

use super::handle::{Done, Happening, Health, Operation, Peer};
use rosterd_registry::{Hint, ReadError};
use rosterd_session::code::Refusal;
use rosterd_session::frame::{Completed, FromWorker, ToWorker};

/// Both clocks, read once per event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Now {
    /// The calendar.
    pub wall: Time,
    /// What leases are counted with.
    pub mono: Mono,
}

/// A stream of this process.
pub type StreamId = u64;
/// A transaction under way.
pub type TxnId = u64;
/// A read under way.
pub type ReadId = u64;
/// An operation under way.
pub type RequestId = u64;

/// How tokens are numbered, as it was when this coordinator began.
#[derive(Debug, Clone, Copy, Default)]
pub struct Numbered {
    /// What is added to the number of a transaction to make it a token.
    pub offset: u64,
    /// All that was ever given is below this.
    pub given: Token,
}

/// What has come from workers, in the order in which it is taken in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Frames {
    /// So much has come.
    pub came: u64,
    /// So much of it was taken in.
    pub taken: u64,
}

/// Something happened.
#[derive(Debug)]
pub enum Event {
    /// The process starts.
    Start,
    /// A worker's stream came.
    Opened(StreamId, Peer),
    /// A worker said something.
    Frame(StreamId, FromWorker),
    /// A worker's stream ended.
    Closed(StreamId),
    /// A transaction ended.
    Committed(TxnId, Commit),
    /// A read ended.
    Read(ReadId, Answer),
    /// Something should be looked at again.
    Hint(Hint),
    /// A person asks for something.
    Operate(RequestId, Operation, Option<Arc<str>>),
    /// A deadline came.
    Tick,
    /// The process should stop.
    Stop,
}

/// What to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// All jobs' names.
    Jobs,
    /// A job's decision state.
    Nodes(JobName),
    /// Which items of a job are marked as disabled.
    Switches(JobName),
    /// A job with its records.
    Job(JobName),
    /// An item's offset.
    Offset(JobName, Item),
    /// A worker's attachment.
    Attachment(WorkerId),
    /// All attachments.
    Attachments,
    /// The living coordinators.
    Coordinators,
    /// When a coordinator's own node was last written, by the store's clock.
    ToldAt(CoordinatorId),
}

/// What a read found.
#[derive(Debug)]
pub enum Answer {
    /// All jobs' names.
    Jobs(Result<BTreeSet<JobName>, ReadError>),
    /// A job's decision state.
    Nodes(Box<Result<Option<JobNodes>, ReadError>>),
    /// A job.
    Job(Box<Result<Option<Snapshot>, ReadError>>),
    /// Marks of disabled items.
    Switches(Result<Option<Switches>, ReadError>),
    /// An offset.
    Offset(Result<Option<Arc<[u8]>>, ReadError>),
    /// An attachment.
    Attachment(Result<Option<(Version, Attachment)>, ReadError>),
    /// All attachments.
    Attachments(Result<BTreeMap<WorkerId, (Version, Attachment)>, ReadError>),
    /// The living coordinators.
    Coordinators(Result<BTreeMap<CoordinatorId, Arc<str>>, ReadError>),
    /// When a coordinator's own node was last written.
    ToldAt(Result<Option<Time>, ReadError>),
}

/// Something is to be done.
#[derive(Debug)]
pub enum Effect {
    /// Hand a transaction over.
    Commit(TxnId, Txn),
    /// Read.
    Read(ReadId, Query),
    /// Ask for hints about a job, or no more.
    Watch(JobName, bool),
    /// Ask for hints about the marks of so many items of a job that is watched, or no more.
    WatchItems(JobName, u32),
    /// Say something to a worker.
    Send(StreamId, ToWorker),
    /// Answer a person.
    Reply(RequestId, Result<Done, Refusal>),
    /// Tell the history.
    Record { job: JobName, at: Time, entry: Entry, detail: Option<Arc<Completed>> },
    /// Tell the history who owns a job's items from now on.
    Owned(Box<Owned>),
    /// Tell the history that user code of a run has begun.
    Begun { job: JobName, item: Item, token: Token, run: Running, at: Option<Time> },
    /// Tell who watches.
    Tell(Happening),
    /// Tell the history of a run that needs people's attention; who watches has heard of it already.
    Note { job: Option<JobName>, what: String },
    /// The health has changed.
    Health(Health),
    /// Everything is handed over: the process may end.
    Stopped,
}
