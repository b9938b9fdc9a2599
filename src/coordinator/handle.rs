//! The coordinator as its callers see it: streams of workers, operations of people, views and health.
//! The API layers hold a [`Handle`] and nothing else of the coordinator; the registry is behind it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{InstanceId, Item, JobName, Namespace, ServerAddress, Token};
use rosterd_domain::item::{Counters, Ended, Missed, Running, State};
use rosterd_domain::time::Time;
use tokio::sync::{broadcast, mpsc, watch};

use crate::code::Refusal;
use crate::registry::DumpNode;
use crate::session::frame::{FromWorker, ToWorker};

/// Who is on the other end of a stream, as the edge established it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Peer {
    /// The network address, for logs.
    pub address: String,
    /// The name that the credential stands for.
    pub principal: Option<String>,
}

/// A worker's stream, seen from the edge. Dropping it ends the conversation (not the worker's lease).
#[derive(Debug)]
pub struct WorkerStream {
    /// Frames for the worker, in order; ends after a `Close`.
    pub outbox: mpsc::Receiver<ToWorker>,
    /// Takes the worker's frames.
    pub inbox: Inbox,
}

/// Takes a worker's frames; bounded: a frame too many is an answer, not a wait.
#[derive(Debug)]
pub struct Inbox {
    pub(crate) stream: u64,
    pub(crate) queue: mpsc::UnboundedSender<(u64, Option<FromWorker>)>,
    pub(crate) pending: Arc<std::sync::atomic::AtomicUsize>,
}

/// What people may do. Each is answered once its effect is durable.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Makes or changes jobs from a job file; all or nothing is decided per job.
    Apply { text: String, dry_run: bool },
    /// Fires now: all items, or these.
    Trigger { job: JobName, items: Vec<Item>, after_current: bool },
    /// Holds scheduled fires, or lets them go on.
    Pause { job: JobName, paused: bool },
    /// Takes a target out of, or back into, service.
    Enable { job: JobName, target: Target, enabled: bool, cancel: bool },
    /// Removes a job; refused while runs are in flight unless `cancel`.
    Remove { job: JobName, cancel: bool },
    /// Stops a run.
    Cancel { job: JobName, item: Item },
    /// Asks an instance's worker to leave.
    Drain { instance: InstanceId, grace: Duration },
    /// Shuts an instance down for one job.
    Shutdown { job: JobName, instance: InstanceId },
}

/// What is enabled or disabled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The job as a whole.
    Job,
    /// One item.
    Item(Item),
    /// All instances of a server.
    Server(ServerAddress),
    /// One instance.
    Instance(InstanceId),
}

/// What an operation did, a line for people each, by job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Done {
    /// What happened, per job.
    pub lines: Vec<(JobName, String)>,
    /// The trigger's id, where one was made.
    pub trigger: Option<String>,
}

/// A job in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRow {
    pub name: JobName,
    pub handler_type: String,
    pub cron: Option<String>,
    pub time_zone: String,
    pub items: u32,
    pub description: String,
    /// `enabled`, `disabled`, `paused`, `no_worker`, `removing` or `damaged`.
    pub status: &'static str,
    pub instances: u32,
    pub running: u32,
    pub leader: Option<String>,
    pub next_fire: Option<Time>,
    pub counters: Counters,
}

/// A job in full.
#[derive(Debug, Clone, PartialEq)]
pub struct JobDetail {
    pub row: JobRow,
    /// As it would be applied again, YAML.
    pub spec: String,
    pub generation: u64,
    pub epoch: u64,
    pub upcoming: Vec<Time>,
}

/// An item in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemRow {
    pub item: Item,
    pub parameter: String,
    pub owner: Option<InstanceId>,
    pub disabled: bool,
    pub state: State,
    pub token: Token,
    pub last_fire: Time,
    pub misfire: Option<Time>,
    pub last: Option<Ended>,
    pub counters: Counters,
}

/// An instance in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceRow {
    pub instance: InstanceId,
    pub job: JobName,
    pub address: String,
    pub host: String,
    pub slots: u32,
    pub items: u32,
    pub enabled: bool,
    pub client: String,
    pub labels: BTreeMap<String, String>,
}

/// A server in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRow {
    pub server: ServerAddress,
    pub job: JobName,
    pub enabled: bool,
    pub instances: u32,
}

/// What watchers are told as it happens (after its commit).
#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    Started {
        job: JobName,
        item: Item,
        token: Token,
        run: Running,
    },
    Ended {
        job: JobName,
        item: Item,
        token: Token,
        run: Running,
        outcome: &'static str,
        error: String,
        output: String,
    },
    Progress {
        job: JobName,
        item: Item,
        token: Token,
        percent: u32,
        message: String,
    },
    Unrun {
        job: JobName,
        item: Item,
        first: Time,
        latest: Time,
        count: u64,
        became: &'static str,
        reason: Option<Missed>,
    },
    Assigned {
        job: JobName,
        generation: u64,
        owners: Vec<(InstanceId, Vec<Item>)>,
        why: String,
    },
    Worker {
        instance: InstanceId,
        what: &'static str,
    },
    Job {
        job: JobName,
        what: String,
    },
}

/// Whether the coordinator can do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Not yet.
    Starting,
    /// Yes.
    Serving,
    /// The registry does not answer.
    Suspended,
    /// It is stopping.
    Draining,
}

/// The coordinator, to whoever serves it. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) namespace: Namespace,
    pub(crate) health: watch::Receiver<Health>,
    pub(crate) happenings: broadcast::Sender<Arc<Happening>>,
}

impl Handle {
    /// The namespace that is served.
    pub fn namespace(&self) -> &Namespace {
        &self.inner.namespace
    }

    /// Opens a worker's stream.
    pub fn open(&self, _peer: Peer) -> Result<WorkerStream, Refusal> {
        unimplemented!()
    }

    /// Carries out an operation.
    pub async fn operate(&self, _operation: Operation) -> Result<Done, Refusal> {
        unimplemented!()
    }

    /// All jobs, by name.
    pub async fn jobs(&self) -> Result<Vec<JobRow>, Refusal> {
        unimplemented!()
    }

    /// One job in full, with its next `upcoming` due times.
    pub async fn job(&self, _job: &JobName, _upcoming: usize) -> Result<JobDetail, Refusal> {
        unimplemented!()
    }

    /// A job's items.
    pub async fn items(&self, _job: &JobName) -> Result<Vec<ItemRow>, Refusal> {
        unimplemented!()
    }

    /// Instances of one job, or of all.
    pub async fn instances(&self, _job: Option<&JobName>) -> Result<Vec<InstanceRow>, Refusal> {
        unimplemented!()
    }

    /// Servers of one job, or of all.
    pub async fn servers(&self, _job: Option<&JobName>) -> Result<Vec<ServerRow>, Refusal> {
        unimplemented!()
    }

    /// A job's whole tree.
    pub async fn dump(&self, _job: &JobName) -> Result<BTreeMap<String, DumpNode>, Refusal> {
        unimplemented!()
    }

    /// What happens from now on; a reader that is too slow loses the oldest.
    pub fn watch(&self) -> broadcast::Receiver<Arc<Happening>> {
        self.inner.happenings.subscribe()
    }

    /// Whether the coordinator can do its work.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.inner.health.clone()
    }
}

impl Inbox {
    /// Hands a frame over.
    pub fn put(&self, _frame: FromWorker) -> Result<(), Refusal> {
        unimplemented!()
    }
}
