//! What a worker and a coordinator say to each other, in the words of the domain. The proto types stop at
//! `api/grpc/convert`, which turns them into these and refuses what is malformed; everything behind the edge
//! speaks in these.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{
    InstanceId, Item, JobName, Namespace, ServerAddress, StreamNumber, Token, WorkerId,
};
use rosterd_domain::item::Source;
use rosterd_domain::job::{Change, JobSpec, Retries};
use rosterd_domain::plan::Reported;
use rosterd_domain::time::Time;

use crate::code::Refusal;

/// A job's properties by name.
pub type Props = Arc<BTreeMap<String, String>>;

/// Names a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunRef {
    /// Its job.
    pub job: JobName,
    /// Its item.
    pub item: Item,
    /// Its token.
    pub token: Token,
}

/// A configuration that a worker offers with its registration, parsed where the frame came in; or what is wrong
/// with it, which matters only if the configuration is used.
pub type Offer = Result<Arc<JobSpec>, Refusal>;

/// From a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum FromWorker {
    /// Opens the stream.
    Hello(Box<Hello>),
    /// Asks to work for a job.
    Register { job: JobName, handler_type: String, config: Option<Offer>, overwrite: bool },
    /// No more of this job.
    Unregister { job: JobName },
    /// Alive; `lease` is what the worker counts with, where it says so.
    Heartbeat { sequence: u64, in_flight: Vec<RunRef>, lease: Option<Duration> },
    /// User code has begun.
    RunStarted { run: RunRef, at: Option<Time>, attempt: u32 },
    /// For people who watch, and how far the item has come, for its next run.
    RunProgress { run: RunRef, percent: u32, message: String, offset: Option<Arc<[u8]>> },
    /// A run's end.
    RunCompleted(Box<Completed>),
    /// A callback was answered.
    CallbackDone(CallbackDone),
    /// Wants to leave.
    DrainRequest,
    /// Leaves.
    Goodbye,
}

/// The first frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Hello {
    /// The namespace expected; none: any.
    pub namespace: Option<Namespace>,
    /// From the last Welcome.
    pub identity: Option<(WorkerId, String)>,
    /// Which of the worker's streams.
    pub stream: StreamNumber,
    /// A label.
    pub address: ServerAddress,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// 1 to 4096.
    pub slots: u32,
    /// In user code, or its outcome is not acknowledged.
    pub in_flight: Vec<RunRef>,
    /// Jobs that the worker registered before.
    pub jobs: Vec<JobName>,
    /// Others that it asked to register before, and may have been given runs of.
    pub asked: Vec<JobName>,
    /// The client library.
    pub client: String,
    /// The worker's clock.
    pub sent_at: Option<Time>,
    /// It keeps a Trigger until its time.
    pub holds_triggers: bool,
}

/// A run's end, as its worker tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct Completed {
    /// The run.
    pub run: RunRef,
    /// How it ended.
    pub ended: Reported,
    /// What went wrong.
    pub error: String,
    /// Records processed and failed.
    pub counts: (u64, u64),
    /// The item's new offset.
    pub offset: Option<Arc<[u8]>>,
    /// When user code began.
    pub started_at: Option<Time>,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// A result, or the tail of a program's output.
    pub output: String,
    /// Attempts it took.
    pub attempt: u32,
}

/// How a callback ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackDone {
    /// Which.
    pub callback: String,
    /// What went wrong; empty: nothing.
    pub error: String,
    /// It took longer than it may.
    pub timed_out: bool,
}

/// To a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum ToWorker {
    /// Answers Hello.
    Welcome(Box<Welcome>),
    /// Answers Register; `ignored`: where its config differs from the job; `next`: until the next scheduled time.
    Registered {
        job: JobName,
        items: u32,
        kind: RunKind,
        lease: Duration,
        heartbeat: Duration,
        ignored: Vec<Change>,
        next: Option<Duration>,
    },
    /// Answers Register.
    Refused { job: String, refusal: Refusal },
    /// Answers Unregister.
    Unregistered { job: JobName },
    /// Answers Heartbeat.
    HeartbeatAck { sequence: u64 },
    /// What it owns.
    Assignment { job: JobName, items: Vec<Item>, generation: u64, total: u32, props: Props },
    /// Run this.
    Trigger(Box<Trigger>),
    /// Stop this.
    Cancel { run: RunRef, reason: CancelReason, message: String },
    /// Answers RunCompleted: `None` accepted.
    ReportAck { run: RunRef, refusal: Option<Refusal> },
    /// Announces a fire's start or end.
    Callback { id: String, job: JobName, fire: Time, completed: bool, timeout: Duration },
    /// Leave, please.
    Drain { message: String, grace: Duration },
    /// No Trigger follows.
    Draining,
    /// Gone without failure.
    GoodbyeAck,
    /// Shut down for a job, or for all.
    Shutdown { job: Option<JobName>, message: String },
    /// The last: the stream ends; `None`: orderly.
    Close(Option<Refusal>),
}

/// Answers Hello.
#[derive(Debug, Clone, PartialEq)]
pub struct Welcome {
    /// The identity.
    pub worker: WorkerId,
    /// The same, as instances are named.
    pub instance: InstanceId,
    /// For the next Hello.
    pub resume_key: String,
    /// The namespace served.
    pub namespace: Namespace,
    /// The lease.
    pub lease: Duration,
    /// How often to send a heartbeat.
    pub heartbeat: Duration,
    /// How long before the lease's end runs are stopped.
    pub stop_budget: Duration,
    /// Other coordinators.
    pub coordinators: Vec<String>,
    /// Credits.
    pub max_reports: u32,
    /// Who this is.
    pub coordinator: String,
}

/// What a job's handler is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunKind {
    /// One call per run.
    Simple,
    /// Fetch and process.
    Dataflow {
        /// Until fetch is empty.
        streaming: bool,
    },
    /// A program.
    Command,
}

/// A run to begin.
#[derive(Debug, Clone, PartialEq)]
pub struct Trigger {
    /// Which.
    pub run: RunRef,
    /// As Elastic-Job names it.
    pub task_id: String,
    /// The job's incarnation: tells its traces from those of every other job, also of one with the same name.
    pub incarnation: Arc<str>,
    /// Its time.
    pub fire: Time,
    /// Why.
    pub source: Source,
    /// The item's parameter.
    pub item_parameter: String,
    /// The job's parameter.
    pub job_parameter: String,
    /// How many items the job has.
    pub total: u32,
    /// What the last completed run left.
    pub offset: Arc<[u8]>,
    /// User code is not to begin before; none: at once.
    pub not_before: Option<Time>,
    /// How far away that was when this was sent.
    pub starts_in: Duration,
    /// Stopped after.
    pub timeout: Option<Duration>,
    /// What the handler is.
    pub kind: RunKind,
    /// Attempts, and the pauses between them.
    pub retries: Retries,
    /// Whether the trace of its fire is kept; as far as nobody here keeps any, that is the worker's to say.
    pub sampled: bool,
}

/// Why a run is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelReason {
    /// An operator asked for it.
    Operator,
    /// Nothing of it is believed from now on.
    Fenced,
    /// It took too long.
    TimedOut,
}
