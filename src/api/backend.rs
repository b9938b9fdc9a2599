//! What the edge needs of the coordinator, so that it can be served by a real one, or by a script in tests. Implemented
//! for the coordinator's [`Handle`]; called by `api::grpc` and `api::http` only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rosterd_domain::explain::{Sentence, Stay};
use rosterd_domain::id::{CoordinatorId, Item, JobName, Namespace};
use rosterd_domain::time::Time;
use tokio::sync::{broadcast, watch};

use rosterd_coordinator::handle::{
    Birth, ClusterEvent, Done, DumpNode, Handle, Health, Inbox, InstanceRow, ItemRow, JobDetail, JobRow,
    MachineRow, MemberRow, Operation, Outbox, Peer, Room, ServerRow, Survey,
};
use rosterd_session::code::Refusal;

use rosterd_session::frame::FromWorker;

/// A pending answer.
pub type BackendAnswer<'a, T> = BoxFuture<'a, Result<T, Refusal>>;

/// Accepts a worker's frames, each once there is room for it.
pub trait FrameSink: Send + Sync {
    /// Reserves room for a frame of this size, if there is some now.
    fn try_room(&self, bytes: usize) -> Option<Room>;
    /// Waits for it.
    fn room(&self, bytes: usize) -> BoxFuture<'static, Room>;
    /// Hands a frame over.
    fn put(&self, frame: FromWorker, room: Room) -> Result<(), Refusal>;
}

/// A worker's stream as seen by the edge. Dropping it ends the conversation.
pub struct Conversation {
    /// Frames for the worker, in order; ends after a `Close`.
    pub outbox: Outbox,
    /// Accepts the worker's frames.
    pub inbox: Box<dyn FrameSink>,
}

/// The coordinator. The methods are those of [`Handle`].
#[allow(missing_docs)]
pub trait Backend: Send + Sync + 'static {
    fn namespace(&self) -> &Namespace;
    fn id(&self) -> CoordinatorId;
    fn open(&self, peer: Peer) -> Result<Conversation, Refusal>;
    /// `by`: the caller.
    fn operate(&self, operation: Operation, by: Option<Arc<str>>) -> BackendAnswer<'_, Done>;
    /// The latest scheduled times in (after, until], the last one first, by the schedules in force at the time; at most
    /// `most`.
    fn due<'a>(
        &'a self,
        job: &'a JobName,
        after: Time,
        until: Time,
        most: usize,
    ) -> BackendAnswer<'a, Vec<Time>>;
    fn names(&self) -> BackendAnswer<'_, BTreeSet<JobName>>;
    fn jobs(&self) -> BackendAnswer<'_, Arc<Vec<JobRow>>>;
    /// Those of these jobs that exist, in their order.
    fn some_jobs<'a>(&'a self, names: &'a [JobName]) -> BackendAnswer<'a, Vec<JobRow>>;
    /// Without those that cannot be read.
    fn births(&self, _jobs: BTreeSet<JobName>) -> BoxFuture<'_, BTreeMap<JobName, Birth>> {
        async { BTreeMap::new() }.boxed()
    }
    fn job<'a>(&'a self, job: &'a JobName, upcoming: usize) -> BackendAnswer<'a, JobDetail>;
    fn items<'a>(&'a self, job: &'a JobName) -> BackendAnswer<'a, Vec<ItemRow>>;
    /// `stays`: the owners of the item, from the history.
    fn explain<'a>(
        &'a self,
        job: &'a JobName,
        item: Item,
        stays: Vec<Stay>,
    ) -> BackendAnswer<'a, Vec<Sentence>>;
    fn instances<'a>(&'a self, job: Option<&'a JobName>) -> BackendAnswer<'a, Vec<InstanceRow>>;
    fn servers<'a>(&'a self, job: Option<&'a JobName>) -> BackendAnswer<'a, Vec<ServerRow>>;
    fn machines(&self) -> BackendAnswer<'_, Vec<MachineRow>>;
    fn members(&self) -> BackendAnswer<'_, Vec<MemberRow>>;
    fn survey(&self) -> BackendAnswer<'_, Survey>;
    fn dump<'a>(&'a self, job: &'a JobName) -> BackendAnswer<'a, BTreeMap<String, DumpNode>>;
    fn watch(&self) -> broadcast::Receiver<Arc<ClusterEvent>>;
    fn health(&self) -> watch::Receiver<Health>;
}

impl FrameSink for Inbox {
    fn try_room(&self, bytes: usize) -> Option<Room> {
        Inbox::try_room(self, bytes)
    }

    fn room(&self, bytes: usize) -> BoxFuture<'static, Room> {
        Inbox::room(self, bytes).boxed()
    }

    fn put(&self, frame: FromWorker, room: Room) -> Result<(), Refusal> {
        Inbox::put(self, frame, room)
    }
}

impl Backend for Handle {
    fn namespace(&self) -> &Namespace {
        self.namespace()
    }

    fn id(&self) -> CoordinatorId {
        self.id().clone()
    }

    fn open(&self, peer: Peer) -> Result<Conversation, Refusal> {
        let stream = self.open(peer)?;
        Ok(Conversation { outbox: stream.outbox, inbox: Box::new(stream.inbox) })
    }

    fn operate(&self, operation: Operation, by: Option<Arc<str>>) -> BackendAnswer<'_, Done> {
        self.operate_as(operation, by).boxed()
    }

    fn due<'a>(
        &'a self,
        job: &'a JobName,
        after: Time,
        until: Time,
        most: usize,
    ) -> BackendAnswer<'a, Vec<Time>> {
        self.due(job, after, until, most).boxed()
    }

    fn names(&self) -> BackendAnswer<'_, BTreeSet<JobName>> {
        self.names().boxed()
    }

    fn jobs(&self) -> BackendAnswer<'_, Arc<Vec<JobRow>>> {
        self.jobs().boxed()
    }

    fn some_jobs<'a>(&'a self, names: &'a [JobName]) -> BackendAnswer<'a, Vec<JobRow>> {
        self.some_jobs(names).boxed()
    }

    fn births(&self, jobs: BTreeSet<JobName>) -> BoxFuture<'_, BTreeMap<JobName, Birth>> {
        self.births(jobs).boxed()
    }

    fn job<'a>(&'a self, job: &'a JobName, upcoming: usize) -> BackendAnswer<'a, JobDetail> {
        self.job(job, upcoming).boxed()
    }

    fn items<'a>(&'a self, job: &'a JobName) -> BackendAnswer<'a, Vec<ItemRow>> {
        self.items(job).boxed()
    }

    fn explain<'a>(
        &'a self,
        job: &'a JobName,
        item: Item,
        stays: Vec<Stay>,
    ) -> BackendAnswer<'a, Vec<Sentence>> {
        self.explain(job, item, stays).boxed()
    }

    fn instances<'a>(&'a self, job: Option<&'a JobName>) -> BackendAnswer<'a, Vec<InstanceRow>> {
        self.instances(job).boxed()
    }

    fn servers<'a>(&'a self, job: Option<&'a JobName>) -> BackendAnswer<'a, Vec<ServerRow>> {
        self.servers(job).boxed()
    }

    fn machines(&self) -> BackendAnswer<'_, Vec<MachineRow>> {
        self.machines().boxed()
    }

    fn members(&self) -> BackendAnswer<'_, Vec<MemberRow>> {
        self.members().boxed()
    }

    fn survey(&self) -> BackendAnswer<'_, Survey> {
        self.survey().boxed()
    }

    fn dump<'a>(&'a self, job: &'a JobName) -> BackendAnswer<'a, BTreeMap<String, DumpNode>> {
        self.dump(job).boxed()
    }

    fn watch(&self) -> broadcast::Receiver<Arc<ClusterEvent>> {
        self.watch()
    }

    fn health(&self) -> watch::Receiver<Health> {
        self.health()
    }
}
