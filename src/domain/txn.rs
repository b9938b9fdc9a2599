//! A transaction in the words of the domain: what must still hold, and what is then written, all or nothing.
//!
//! The planners build these, a registry carries them out; how a write is spelled as a node is the registry's
//! business. No guard rests on the version of a node that may be deleted and made again under the same name:
//! the versions used here are those of records, of `sharding`, of `leader/election`, of attachments and of
//! `config`, whose nodes live as long as the job's incarnation.
//!
//! *Mirrors* are written for tools and notification and are never a precondition: putting one that exists or
//! removing one that does not is no conflict.

use std::sync::Arc;

use crate::id::{
    CommandName, CoordinatorId, Epoch, Generation, InstanceId, Item, JobName, Revision, ServerAddress, Token,
    Version, WorkerId,
};
use crate::item::Record;
pub use crate::purpose::Purpose;
use crate::snapshot::{Announced, Attachment, Command, ForeignTrigger, InstanceNode, Stage, TriggerNode};
use crate::time::Time;

/// What one commit asks for. Guards are checked first, then the writes are applied in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Txn {
    /// Why.
    pub purpose: Purpose,
    /// What must still hold.
    pub guards: Vec<Guard>,
    /// What is then written.
    pub writes: Vec<Write>,
}

/// What must still hold when a transaction is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// The job is the one that was read: neither removed nor made again.
    Incarnation(JobName, Arc<str>),
    /// No such job exists, and nothing is left of a removed one.
    NoJob(JobName),
    /// The assignment, and every right it stands for, is the one that was read.
    Generation(JobName, Generation),
    /// No election since.
    Epoch(JobName, Epoch),
    /// `config` is at this version.
    Config(JobName, Version),
    /// The item's record is at this version: nothing has started there or ended.
    Record(JobName, Item, Version),
    /// The worker's attachment is at this version.
    Attachment(WorkerId, Version),
    /// The worker has no attachment (any more).
    NoAttachment(WorkerId),
    /// The job is being put together under this name, and by nobody else.
    Prepared(JobName, Arc<str>),
}

/// One thing to write.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Makes a job: its node with the handler type, `config`, incarnation, policy, `sharding` with `assignment`
    /// as data, `leader/election` and the folders below which the others live. Guard it with `NoJob`.
    CreateJob {
        job: JobName,
        incarnation: Arc<str>,
        handler_type: Arc<str>,
        config: Arc<str>,
        policy: Arc<str>,
        assignment: Arc<[u8]>,
    },
    /// The same without an incarnation, under a random name of its own: the job is put together, in as many
    /// transactions as that takes, and is nobody's to lead or to fire. Guard it with `NoJob`, what follows with
    /// `Prepared`.
    PrepareJob {
        job: JobName,
        name: Arc<str>,
        handler_type: Arc<str>,
        config: Arc<str>,
        policy: Arc<str>,
        assignment: Arc<[u8]>,
    },
    /// A job that was put together is whole: it gets its incarnation, and is a job like any other from here on.
    RevealJob { job: JobName, name: Arc<str>, incarnation: Arc<str> },
    /// A job that stands gets another incarnation at once: whatever anybody knew of it before is to be read again, and what
    /// was decided from that fails. Guard it with the `Incarnation` that it replaces.
    RenewJob { job: JobName, incarnation: Arc<str> },
    /// What is added to the numbers of transactions for tokens. Refused unless it is at `expect` (`None`: absent).
    /// It only ever grows, which is its writer's to see to.
    Numbering { offset: u64, expect: Option<Version> },
    /// Replaces `config`, whatever its version (guard it).
    Config(JobName, Arc<str>),
    /// Replaces `rosterd/policy`.
    Policy(JobName, Arc<str>),
    /// Replaces the handler type.
    HandlerType(JobName, Arc<str>),
    /// First step of a removal: the incarnation and `config` go.
    EndJob(JobName),
    /// Second step: up to `limit` of the nodes left below an ended job go, the job's node last. Does nothing
    /// where a new job has been made meanwhile.
    SweepJob { job: JobName, limit: usize },
    /// Whether scheduled fires are held (`rosterd/paused`).
    Paused(JobName, bool),

    /// Rewrites `sharding` (assignment and withdrawn rights): its version, the generation, grows.
    /// Refused unless it is at `expect`.
    Assignment { job: JobName, expect: Generation, data: Arc<[u8]> },
    /// Raises `leader/sharding/necessary`: created, or its version grows.
    RaiseNecessary(JobName),
    /// Removes `leader/sharding/necessary`. Refused unless it is at this version.
    ClearNecessary(JobName, Version),
    /// Takes the leadership: `leader/election/instance` must be absent and is made, ephemeral;
    /// `leader/election` is set. Refused unless the epoch is `expect`.
    Elect { job: JobName, coordinator: CoordinatorId, expect: Epoch },
    /// Gives up the leadership. Refused unless the epoch is `expect`.
    Abdicate { job: JobName, expect: Epoch },

    /// Writes an item's record. Refused unless it is at `expect` (`None`: absent).
    Record { job: JobName, item: Item, expect: Option<Version>, record: Box<Record> },
    /// The item's offset, at most 64 KiB.
    Offset { job: JobName, item: Item, data: Arc<[u8]> },

    /// Mirror `sharding/{item}/running`, ephemeral.
    Running { job: JobName, item: Item, instance: Option<InstanceId> },
    /// Mirror `sharding/{item}/failover`, ephemeral: who took the item over.
    Failover { job: JobName, item: Item, instance: Option<InstanceId> },
    /// Mirror `sharding/{item}/misfire`.
    Misfire { job: JobName, item: Item, marked: bool },
    /// Mirror `sharding/{item}/disabled`.
    ItemDisabled { job: JobName, item: Item, disabled: bool },
    /// Mirror `sharding/{item}/instance`.
    ItemInstance { job: JobName, item: Item, instance: Option<InstanceId> },
    /// Mirror `leader/failover/items/{item}`: a crashed run that waits for a taker.
    FailoverItem { job: JobName, item: Item, crashed: Option<(Time, Token)> },
    /// Mirror `guarantee/started/{item}`.
    Started { job: JobName, item: Item, present: bool },
    /// Mirror `guarantee/completed/{item}`.
    Completed { job: JobName, item: Item, present: bool },
    /// The data of `guarantee/started` or `guarantee/completed`: what was announced, and to whom.
    Announced { job: JobName, stage: Stage, announced: Box<Announced> },

    /// `servers/{address}`: `None` creates it as ENABLED if it is absent and changes nothing else.
    Server { job: JobName, server: ServerAddress, enabled: Option<bool> },
    /// Removes `servers/{address}`, if it is there.
    RemoveServer(JobName, ServerAddress),
    /// `instances/{id}` and `rosterd/instances/{id}`, both ephemeral, of this session from now on.
    Instance { job: JobName, instance: InstanceId, node: Box<InstanceNode> },
    /// Removes both, if they are there.
    RemoveInstance(JobName, InstanceId),
    /// A manual trigger that waits for its item. Refused if one waits already.
    Trigger { job: JobName, item: Item, node: TriggerNode },
    /// Removes it, if it is there.
    RemoveTrigger(JobName, Item),
    /// A command to whoever hosts a worker; one of the same name is replaced.
    Command { job: JobName, name: CommandName, command: Command },
    /// Removes it, if it is there.
    RemoveCommand(JobName, CommandName),
    /// Removes `trigger/{instance}`, an older tool's command, if it is there.
    ClearForeignTrigger { job: JobName, instance: InstanceId, how: ForeignTrigger },

    /// Writes a worker's attachment. Refused unless it is at `expect` (`None`: absent, first time).
    Attachment { worker: WorkerId, expect: Option<Version>, node: Box<Attachment> },
    /// Deletes a worker's attachment: the verdict of death, or a goodbye. Refused unless it is at `expect`.
    RemoveAttachment { worker: WorkerId, expect: Version },

    /// This coordinator's own node, ephemeral; a commit of it proves that the session lives.
    Coordinator { id: CoordinatorId, data: Arc<str> },
}

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Commit {
    /// Applied, and durable.
    Committed(Revision),
    /// Not applied: this did not hold (a guard or write in words).
    Conflict(String),
    /// Not applied: the session is over, and every right with it.
    Fenced,
    /// Surely not applied, and trying again at once will not help: the store cannot write (full, damaged,
    /// failed). The text says what to do.
    Unavailable(String),
    /// Surely not applied, and never will be: it is larger than the store takes at once. All else goes on.
    TooLarge(String),
    /// It may have been applied: read to find out, never repeat blindly.
    Unknown,
}

impl Txn {
    /// A transaction without guards or writes yet.
    pub fn new(purpose: Purpose) -> Self {
        Self { purpose, ..Self::default() }
    }

    /// Adds a guard, once.
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
