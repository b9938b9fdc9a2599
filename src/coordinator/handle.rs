//! The coordinator as its callers see it: streams of workers, operations of people, views and health.
//! The API layers hold a [`Handle`] and nothing else of the coordinator; the registry is behind it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rosterd_domain::id::{
    CoordinatorId, InstanceId, Item, JobName, Namespace, ServerAddress, Token, TriggerId,
};
use rosterd_domain::item::{Counters, Ended, State};
pub use rosterd_domain::job::Change as FieldChange;
use rosterd_domain::job::{self, JobSpec};
use rosterd_domain::time::Time;
use rosterd_domain::view;
use tokio::sync::{Semaphore, broadcast, mpsc, oneshot, watch};

use super::driver::{FromEdge, REQUESTS};
pub use super::happening::{Action, Happening, WorkerChange};
use super::inbox::Waiting;
pub use super::inbox::{Inbox, Room};
use super::member::Member;
pub use super::survey::{Survey, Surveyed};
pub use rosterd_registry::DumpNode;
use rosterd_registry::Registry;
use rosterd_runtime::clock::SharedClock;
use rosterd_runtime::shares::Shares;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::ToWorker;
use rosterd_session::jobs::Jobs;
use rosterd_session::limits::Limits;

/// Who is on the other end of a stream, as the edge established it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Peer {
    /// The network address, for logs.
    pub address: String,
    /// The name that the credential stands for.
    pub principal: Option<String>,
    /// For which jobs the credential is.
    pub jobs: Jobs,
    /// How much its workers may bring; none: whatever they like.
    pub limits: Option<Limits>,
}

/// A worker's stream, seen from the edge. Dropping it ends the conversation (not the worker's lease).
#[derive(Debug)]
pub struct WorkerStream {
    /// Frames for the worker, in order; ends after a `Close`.
    pub outbox: mpsc::Receiver<ToWorker>,
    /// Takes the worker's frames.
    pub inbox: Inbox,
}

/// What people may do. Each is answered once its effect is durable.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Makes or changes jobs; all or nothing is decided per job. [`Operation::apply`] reads them from a job file. `expected`: only
    /// a job that is still so is changed.
    Apply { specs: Vec<JobSpec>, dry_run: bool, expected: Option<Box<JobSpec>> },
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
    /// Does the same to a machine in each of these jobs. All are tried; those that refuse are among the changes.
    Machine { machine: ServerAddress, jobs: Vec<JobName>, action: MachineAction },
}

impl Operation {
    /// Makes or changes the jobs of a job file. Every defect is named at once; the coordinator never sees a file.
    pub fn apply(file: &str, dry_run: bool) -> Result<Self, Refusal> {
        let specs = job::parse_file_with(file.as_bytes(), view::validate);
        let specs = specs.map_err(|defects| Refusal::new(Code::ConfigInvalid, defects.to_string()))?;
        Ok(Self::Apply { specs, dry_run, expected: None })
    }
}

/// What is done to a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineAction {
    /// Takes it out of, or back into, service.
    Enable { enabled: bool, cancel: bool },
    /// Shuts all instances on it down.
    Shutdown,
    /// Forgets it; refused while it has instances.
    Remove,
}

/// What is enabled or disabled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The job as a whole.
    Job,
    /// One item.
    Item(Item),
    /// All instances on a machine.
    Machine(ServerAddress),
    /// One instance.
    Instance(InstanceId),
}

/// What an operation did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Done {
    /// What it did to each job, in the order of the request.
    pub changes: Vec<(JobName, Change)>,
}

/// What an operation did to one job, or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub effect: ChangeEffect,
    /// The fields that differ, each with its old and its new value.
    pub fields: Vec<FieldChange>,
    /// The same in a line for people.
    pub line: String,
    /// What the job's file asks for without effect, and what to use instead.
    pub warnings: Vec<String>,
    /// The id of the trigger that was made.
    pub trigger: Option<TriggerId>,
}

/// What sort of change it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeEffect {
    /// The job was so already.
    Unchanged,
    /// A dry run: it would be created.
    WouldCreate,
    /// A dry run: it would be changed.
    WouldChange,
    Created,
    Changed,
    Removed,
    /// Work was asked for or stopped, or an instance was asked to leave; the job's configuration stays.
    Requested,
    /// One of several jobs, which stays as it was.
    Refused(Code),
}

impl Change {
    /// A change without fields.
    pub fn new(effect: ChangeEffect, line: impl Into<String>) -> Self {
        Self { effect, fields: Vec::new(), line: line.into(), warnings: Vec::new(), trigger: None }
    }

    /// The same with warnings.
    #[must_use]
    pub fn warning(self, warnings: Vec<String>) -> Self {
        Self { warnings, ..self }
    }

    /// Nothing was to be done.
    pub fn unchanged(line: impl Into<String>) -> Self {
        Self::new(ChangeEffect::Unchanged, line)
    }
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
    pub status: JobStatus,
    pub instances: u32,
    pub running: u32,
    pub leader: Option<String>,
    pub next_fire: Option<Time>,
    /// When it was made, as far as that is known.
    pub made: Option<Time>,
    pub counters: Counters,
    /// It is without monitorExecution.
    pub unmonitored: bool,
    /// Machines know it, and it is disabled on all of them.
    pub disabled_everywhere: bool,
}

/// What tells a job from those of its name before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Birth {
    /// Its incarnation.
    pub incarnation: Arc<str>,
    /// No token of its runs is below.
    pub first: Token,
}

/// What a job is up to: the first of these that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStatus {
    /// Its stored configuration cannot be read.
    Damaged,
    Removing,
    Disabled,
    Paused,
    /// No enabled instance works for it.
    NoWorker,
    /// Its items are about to be reassigned.
    Resharding,
    Enabled,
}

impl JobStatus {
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Removing => "removing",
            Self::Disabled => "disabled",
            Self::Paused => "paused",
            Self::NoWorker => "no_worker",
            Self::Resharding => "resharding",
            Self::Enabled => "enabled",
        }
    }
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
    /// The live instance that it is assigned to.
    pub owner: Option<InstanceId>,
    pub disabled: bool,
    /// It is beyond the job's count, which was lowered; its record is kept.
    pub surplus: bool,
    pub state: State,
    pub token: Token,
    pub last_fire: Time,
    pub misfire: Option<Time>,
    pub last: Option<Ended>,
    pub counters: Counters,
    pub status: ItemStatus,
}

/// What an item is up to: the first of these that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemStatus {
    Running,
    /// Its run crashed and waits to be run again.
    Crashed,
    /// It is beyond the job's count.
    Surplus,
    Disabled,
    /// No live instance owns it.
    Unassigned,
    /// It has run, and nothing waits for it.
    Completed,
    /// It waits for its next scheduled time, or for a trigger.
    Pending,
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
    /// Runs of the job in flight on it.
    pub running: u32,
}

/// A machine in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRow {
    pub server: ServerAddress,
    pub job: JobName,
    pub enabled: bool,
    pub instances: u32,
}

/// A machine in a list, over all jobs that know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineRow {
    pub machine: ServerAddress,
    pub jobs: u32,
    pub disabled_jobs: u32,
    /// Worker processes, each counted once.
    pub instances: u32,
}

/// A coordinator in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRow {
    pub id: CoordinatorId,
    /// It is the one that was asked.
    pub asked: bool,
    /// What it last wrote of itself.
    pub member: Member,
    /// How long ago a write of its last showed that its session lives: of the one that was asked exactly, of others
    /// as far as their own nodes tell; none: not known.
    pub proved_ago: Option<Duration>,
}

/// Whether the coordinator can do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Not yet.
    Starting,
    /// Yes.
    Serving,
    /// This machine's clock is off: nothing fires.
    ClockOff,
    /// The registry does not answer.
    Suspended,
    /// It is stopping.
    Draining,
}

impl Health {
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Serving => "serving",
            Self::ClockOff => "clock_off",
            Self::Suspended => "suspended",
            Self::Draining => "draining",
        }
    }
}

/// The coordinator, to whoever serves it. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) namespace: Namespace,
    pub(crate) max_outbox: usize,
    pub(crate) id: CoordinatorId,
    pub(crate) health: watch::Receiver<Health>,
    pub(crate) happenings: broadcast::Sender<Arc<Happening>>,
    pub(crate) queue: mpsc::UnboundedSender<FromEdge>,
    pub(crate) registry: Arc<dyn Registry>,
    pub(crate) clock: SharedClock,
    /// When a committed write last proved the session, in milliseconds of the monotonic clock.
    pub(crate) proved: Arc<AtomicU64>,
    pub(crate) last_stream: AtomicU64,
    /// What the streams of each credential may have waiting here.
    pub(crate) shares: Shares<Semaphore>,
    pub(crate) waiting: Waiting,
    pub(crate) asked: Arc<AtomicUsize>,
    pub(crate) looks: super::look::Looks,
}

impl Handle {
    /// The namespace that is served.
    pub fn namespace(&self) -> &Namespace {
        &self.inner.namespace
    }

    /// Who this is.
    pub fn id(&self) -> &CoordinatorId {
        &self.inner.id
    }

    /// Opens a worker's stream.
    pub fn open(&self, peer: Peer) -> Result<WorkerStream, Refusal> {
        let stream = self.inner.last_stream.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, outbox) = mpsc::channel(self.inner.max_outbox);
        let shared = self.inner.shares.of(peer.principal.as_deref());
        let opened = self.inner.queue.send(FromEdge::Opened(stream, peer, sender));
        opened.map_err(|_| stopped())?;
        let inbox = Inbox::new(stream, self.inner.queue.clone(), shared, self.inner.waiting.clone());
        Ok(WorkerStream { outbox, inbox })
    }

    /// Carries out an operation of nobody in particular; answered once its effect is durable.
    pub async fn operate(&self, operation: Operation) -> Result<Done, Refusal> {
        self.operate_as(operation, None).await
    }

    /// Carries out an operation that `by` asks for.
    pub async fn operate_as(&self, operation: Operation, by: Option<Arc<str>>) -> Result<Done, Refusal> {
        let asked = self.inner.asked.clone();
        if asked.fetch_add(1, Ordering::Relaxed) >= REQUESTS {
            asked.fetch_sub(1, Ordering::Relaxed);
            let message = format!("more than {REQUESTS} operations wait: try again later");
            return Err(Refusal::new(Code::Overloaded, message));
        }
        let (reply, answer) = oneshot::channel();
        let sent = self.inner.queue.send(FromEdge::Operate(operation, by, reply));
        let answer = match sent {
            Ok(()) => answer.await.unwrap_or_else(|_| Err(stopped())),
            Err(_) => Err(stopped()),
        };
        asked.fetch_sub(1, Ordering::Relaxed);
        answer
    }

    /// The session of this coordinator, for what reads or writes whole jobs beside it: a backup, a restore.
    pub fn registry(&self) -> Arc<dyn Registry> {
        self.inner.registry.clone()
    }

    /// Asks the coordinator to stop: streams are ended, leaderships given up, reports committed.
    pub fn stop(&self) {
        // One that has stopped already need not be told.
        let _stopped = self.inner.queue.send(FromEdge::Stop);
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

pub(crate) fn stopped() -> Refusal {
    Refusal::new(Code::Draining, "this coordinator has stopped: connect to another one")
}
