//! A transaction in domain words: what must still hold, and what is then written, all or nothing.
//!
//! The planners build these, a registry executes them; how a write is stored as a node is the registry's business. No
//! guard depends on the version of a node that may be deleted and created again under the same name: the versions used
//! here are those of records, of `sharding`, of `leader/election`, of attachments and of `config`, whose nodes live as
//! long as the job's incarnation.
//!
//! *Mirrors* are written for tools and notification and are never a precondition: putting one that exists or removing
//! one that does not exist is not a conflict.

use std::sync::Arc;

use crate::id::{
    CommandName, CoordinatorId, Epoch, Generation, InstanceId, Item, JobName, Revision, ServerAddress, Token,
    Version, WorkerId,
};
use crate::item::Record;
pub use crate::purpose::Purpose;
use crate::snapshot::{Announced, Attachment, Command, ForeignTrigger, InstanceNode, Stage, TriggerNode};
use crate::time::Time;

/// What one commit requests. Guards are checked first, then the writes are applied in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Txn {
    /// Why it is made.
    pub purpose: Purpose,
    /// The conditions.
    pub guards: Vec<Guard>,
    /// What to write.
    pub writes: Vec<Write>,
}

/// A condition that must hold when a transaction is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// The job is the one that was read: neither removed nor created again.
    Incarnation(JobName, Arc<str>),
    /// No such job exists, and nothing is left of a removed one.
    NoJob(JobName),
    /// The assignment, and every right in it, is the one that was read.
    Generation(JobName, Generation),
    /// There was no election since.
    Epoch(JobName, Epoch),
    /// `config` is at this version.
    Config(JobName, Version),
    /// The item's record is at this version: nothing has started or ended there.
    Record(JobName, Item, Version),
    /// The worker's attachment is at this version.
    Attachment(WorkerId, Version),
    /// The worker has no attachment, or no longer has one.
    NoAttachment(WorkerId),
    /// The job is being prepared under this name.
    Prepared(JobName, Arc<str>),
}

/// One thing to write.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Creates a job: its node with the handler type, `config`, incarnation, policy, `sharding` with `assignment` as
    /// data, `leader/election` and the folders of the others. Guard it with `NoJob`.
    CreateJob {
        job: JobName,
        incarnation: Arc<str>,
        handler_type: Arc<str>,
        config: Arc<str>,
        policy: Arc<str>,
        assignment: Arc<[u8]>,
    },
    /// The same without an incarnation, under a random name of its own: the job is prepared, in as many transactions as
    /// that takes, and cannot be led or fired meanwhile. Guard it with `NoJob`, the following ones with `Prepared`.
    PrepareJob {
        job: JobName,
        name: Arc<str>,
        handler_type: Arc<str>,
        config: Arc<str>,
        policy: Arc<str>,
        assignment: Arc<[u8]>,
    },
    /// Completes a prepared job: it gets its incarnation, and is a job like any other from here on.
    RevealJob { job: JobName, name: Arc<str>, incarnation: Arc<str> },
    /// Gives an existing job another incarnation at once: whatever was known of it must be read again, and decisions
    /// from that fail. Guard it with the `Incarnation` that it replaces.
    RenewJob { job: JobName, incarnation: Arc<str> },
    /// Sets the numbering offset: what is added to the numbers of transactions for tokens. Refused unless it is at
    /// `expect` (`None`: absent). The writer must ensure that it only grows.
    Numbering { offset: u64, expect: Option<Version> },
    /// Replaces `config`, whatever its version (guard it).
    Config(JobName, Arc<str>),
    /// Replaces `rosterd/policy`.
    Policy(JobName, Arc<str>),
    /// Replaces the handler type.
    HandlerType(JobName, Arc<str>),
    /// First step of a removal: deletes the incarnation and `config`.
    EndJob(JobName),
    /// Second step: deletes up to `limit` of the nodes left below an ended job, the job's node last. Does nothing if a
    /// new job has been created meanwhile.
    SweepJob { job: JobName, limit: usize },
    /// Whether scheduled fires are held (`rosterd/paused`).
    Paused(JobName, bool),

    /// Rewrites `sharding` (assignment and withdrawn rights): its version, the generation, grows. Refused unless it is
    /// at `expect`.
    Assignment { job: JobName, expect: Generation, data: Arc<[u8]> },
    /// Raises `leader/sharding/necessary`: creates it, or increments its version.
    RaiseNecessary(JobName),
    /// Removes `leader/sharding/necessary`. Refused unless it is at this version.
    ClearNecessary(JobName, Version),
    /// Takes the leadership: `leader/election/instance` must be absent and is created, ephemeral; `leader/election` is
    /// set. Refused unless the epoch is `expect`.
    Elect { job: JobName, coordinator: CoordinatorId, expect: Epoch },
    /// Gives up the leadership. Refused unless the epoch is `expect`.
    Abdicate { job: JobName, expect: Epoch },

    /// Writes an item's record. Refused unless it is at `expect` (`None`: absent).
    Record { job: JobName, item: Item, expect: Option<Version>, record: Arc<Record> },
    /// The item's offset, at most 64 KiB.
    Offset { job: JobName, item: Item, data: Arc<[u8]> },

    /// Mirror `sharding/{item}/running`, ephemeral.
    Running { job: JobName, item: Item, instance: Option<InstanceId> },
    /// Mirror `sharding/{item}/failover`, ephemeral: the instance that took the item over.
    Failover { job: JobName, item: Item, instance: Option<InstanceId> },
    /// Mirror `sharding/{item}/misfire`.
    Misfire { job: JobName, item: Item, marked: bool },
    /// Mirror `sharding/{item}/disabled`.
    ItemDisabled { job: JobName, item: Item, disabled: bool },
    /// Mirror `sharding/{item}/instance`.
    ItemInstance { job: JobName, item: Item, instance: Option<InstanceId> },
    /// Mirror `leader/failover/items/{item}`: a crashed run that waits for failover.
    FailoverItem { job: JobName, item: Item, crashed: Option<(Time, Token)> },
    /// Mirror `guarantee/started/{item}`.
    Started { job: JobName, item: Item, present: bool },
    /// Mirror `guarantee/completed/{item}`.
    Completed { job: JobName, item: Item, present: bool },
    /// The data of `guarantee/started` or `guarantee/completed`: the announced fire, and the instance that gets the
    /// callback.
    Announced { job: JobName, stage: Stage, announced: Box<Announced> },

    /// `servers/{address}`: `None` creates it as ENABLED if it is absent and changes nothing else.
    Server { job: JobName, server: ServerAddress, enabled: Option<bool> },
    /// Removes `servers/{address}` if it exists.
    RemoveServer(JobName, ServerAddress),
    /// `instances/{id}` and `rosterd/instances/{id}`, both ephemeral, owned by this session from now on.
    Instance { job: JobName, instance: InstanceId, node: Box<InstanceNode> },
    /// Removes both if they exist.
    RemoveInstance(JobName, InstanceId),
    /// A manual trigger that waits for its item. Refused if one waits already.
    Trigger { job: JobName, item: Item, node: TriggerNode },
    /// Removes it if it exists.
    RemoveTrigger(JobName, Item),
    /// A command to the host of a worker; replaces one of the same name.
    Command { job: JobName, name: CommandName, command: Command },
    /// Removes it if it exists.
    RemoveCommand(JobName, CommandName),
    /// Removes `trigger/{instance}`, an older tool's command, if it exists.
    ClearForeignTrigger { job: JobName, instance: InstanceId, how: ForeignTrigger },

    /// Writes a worker's attachment. Refused unless it is at `expect` (`None`: absent, for the first time).
    Attachment { worker: WorkerId, expect: Option<Version>, node: Box<Attachment> },
    /// Deletes a worker's attachment: it is marked dead, or said goodbye. Refused unless it is at `expect`.
    RemoveAttachment { worker: WorkerId, expect: Version },

    /// This coordinator's own node, ephemeral; its commit proves that the session is alive.
    Coordinator { id: CoordinatorId, data: Arc<str> },
}

/// The outcome of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Commit {
    /// Applied, and durable.
    Committed(Revision),
    /// Not applied: this guard or write did not hold, in words.
    Conflict(String),
    /// Not applied: the session is over, and all rights with it.
    Fenced,
    /// Certainly not applied, and retrying at once will not help: the store cannot write (full, damaged, failed). The
    /// text says what to do.
    Unavailable(String),
    /// Certainly not applied, and never will be: it is larger than the store accepts at once. Other transactions are
    /// not affected.
    TooLarge(String),
    /// It may have been applied: read to find out, never repeat blindly.
    Unknown,
}

impl Txn {
    /// A transaction without guards or writes.
    pub fn new(purpose: Purpose) -> Self {
        Self { purpose, ..Self::default() }
    }

    /// Adds a guard, unless it is there already.
    pub fn guard(&mut self, guard: Guard) {
        if !self.guards.contains(&guard) {
            self.guards.push(guard);
        }
    }

    /// Adds a write.
    pub fn write(&mut self, write: Write) {
        self.writes.push(write);
    }
}
