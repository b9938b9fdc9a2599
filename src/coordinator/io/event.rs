//! The events and effects of the state machine. The machine answers events with effects; only the driver executes
//! effects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rosterd_domain::id::{CoordinatorId, Item, JobName, Token, Version, WorkerId};
use rosterd_domain::item::Running;
use rosterd_domain::ownership::Owned;
use rosterd_domain::plan::Entry;
use rosterd_domain::snapshot::{Attachment, JobNodes, Snapshot, Switches};
use rosterd_domain::time::{Mono, Time};
use rosterd_domain::txn::{Commit, Txn};
use rosterd_registry::{Hint, ReadError};
use rosterd_session::code::Refusal;
use rosterd_session::frame::{Completed, FromWorker, ToWorker};

use crate::io::cluster_event::ClusterEvent;
use crate::io::operation::{Done, Health, Operation, Peer};

/// Both clocks, read once per event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Now {
    /// The wall clock.
    pub wall: Time,
    /// The monotonic clock, which measures leases.
    pub mono: Mono,
}

/// A stream of this process.
pub(crate) type StreamId = u64;

/// A transaction in flight.
pub type TxnId = u64;

/// A read in flight.
pub(crate) type ReadId = u64;

/// An operation in progress.
pub(crate) type RequestId = u64;

/// How tokens are numbered, as of the start of this coordinator.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Numbered {
    /// The offset that makes a transaction's number a token.
    pub offset: u64,
    /// The highest token that may have been given before.
    pub given: Token,
}

/// Counts of workers' frames, in the order in which they are handled.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FrameCounts {
    /// How many have arrived.
    pub came: u64,
    /// How many of them were handled.
    pub taken: u64,
}

/// An event.
#[derive(Debug)]
pub(crate) enum Event {
    /// The process starts.
    Start,
    /// A worker's stream was opened.
    Opened(StreamId, Peer),
    /// A worker sent a frame.
    Frame(StreamId, FromWorker),
    /// A worker's stream ended.
    Closed(StreamId),
    /// A transaction ended.
    Committed(TxnId, Commit),
    /// A read ended.
    Read(ReadId, Answer),
    /// Something has to be read again.
    Hint(Hint),
    /// A person requests an operation.
    Operate(RequestId, Operation, Option<Arc<str>>),
    /// A timer expired.
    Tick,
    /// The process should stop.
    Stop,
}

/// What to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Query {
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
    /// The live coordinators.
    Coordinators,
    /// When a coordinator's own node was last written, by the store's clock.
    ToldAt(CoordinatorId),
}

/// The result of a read.
#[derive(Debug)]
pub(crate) enum Answer {
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
    /// The live coordinators.
    Coordinators(Result<BTreeMap<CoordinatorId, Arc<str>>, ReadError>),
    /// When a coordinator's own node was last written.
    ToldAt(Result<Option<Time>, ReadError>),
}

/// An effect.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Submit a transaction.
    Commit(TxnId, Txn),
    /// Read.
    Read(ReadId, Query),
    /// Start or stop hints about a job.
    Watch(JobName, bool),
    /// Start hints about the disabled marks of this many items of a watched job; 0: stop them.
    WatchItems(JobName, u32),
    /// Send a frame to a worker.
    Send(StreamId, ToWorker),
    /// Answer an operation.
    Reply(RequestId, Result<Done, Refusal>),
    /// Record an entry in the history.
    Record { job: JobName, at: Time, entry: Entry, detail: Option<Arc<Completed>> },
    /// Record in the history who owns a job's items from now on.
    Owned(Box<Owned>),
    /// Record in the history that user code of a run has started.
    Begun { job: JobName, item: Item, token: Token, run: Running, at: Option<Time> },
    /// Send an event to the watchers.
    Publish(ClusterEvent),
    /// Record in the history that a run needs people's attention; watchers know of it already.
    Note { job: Option<JobName>, what: String },
    /// The health has changed.
    Health(Health),
    /// Everything is handed over: the process may end.
    Stopped,
}
