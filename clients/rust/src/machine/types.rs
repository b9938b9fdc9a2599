//! The machine's input and output: events, effects, and the types that they carry.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::access::Learn;
use crate::link_error::LinkError;
use crate::options::OnRefused;
use crate::proto;
use crate::proto::session_request::Frame as Request;
use crate::proto::session_response::Frame as Response;

/// A moment on both clocks: one that only goes forward, and the wall clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clocks {
    pub(crate) mono: Duration,
    pub(crate) wall: SystemTime,
}

/// Names one run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunId {
    pub(crate) job: String,
    pub(crate) item: u32,
    pub(crate) token: u64,
}

impl RunId {
    pub(crate) fn to_proto(&self) -> proto::RunRef {
        proto::RunRef { job: self.job.clone(), item: self.item, token: self.token }
    }
}

impl From<proto::RunRef> for RunId {
    fn from(run: proto::RunRef) -> Self {
        Self { job: run.job, item: run.item, token: run.token }
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]#{}", self.job, self.item, self.token)
    }
}

/// A job's properties by name.
pub(crate) type Props = BTreeMap<String, String>;

/// The machine's configuration of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobSpec {
    pub(crate) name: String,
    pub(crate) handler_type: String,
    pub(crate) config: String,
    pub(crate) overwrite: bool,
}

/// The machine's configuration at its start.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) servers: Vec<String>,
    /// Which further coordinators of a Welcome it may connect to.
    pub(crate) learn: Learn,
    pub(crate) namespace: String,
    pub(crate) address: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) slots: u32,
    pub(crate) jobs: Vec<JobSpec>,
    pub(crate) drain_timeout: Duration,
    pub(crate) leave_timeout: Duration,
    pub(crate) stop_grace: Duration,
    pub(crate) on_refused: OnRefused,
    pub(crate) seed: u64,
}

#[derive(Debug)]
pub(crate) enum MachineEvent {
    /// Time has passed.
    Tick,
    Connected {
        connection: u64,
    },
    /// The attempt failed or the stream ended.
    Closed {
        connection: u64,
        error: LinkError,
    },
    Frame {
        connection: u64,
        frame: Response,
    },
    /// User code of a run has ended.
    Ended(Ended),
    Progress {
        run: RunId,
        percent: u32,
        message: String,
    },
    /// The run sets its item's offset.
    Offset {
        run: RunId,
        offset: Bytes,
    },
    CallbackEnded {
        callback_id: String,
        error: String,
    },
    /// The process wants to leave.
    Leave,
    /// The same, by a signal; a second signal ends the process at once.
    Signal,
    /// The process exits now, without a goodbye.
    Kill,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    Connect {
        connection: u64,
        address: String,
    },
    Close {
        connection: u64,
    },
    Send(Request),
    Start(Start),
    /// Ask user code to stop.
    Cancel(RunId),
    /// Drop user code if it can be dropped.
    Abort(RunId),
    StartCallback(proto::Callback),
    StopCallback {
        callback_id: String,
    },
    Exit(Exit),
}

/// One attempt of a run enters user code.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Start {
    pub(crate) id: RunId,
    pub(crate) attempt: u32,
    pub(crate) trigger: Arc<proto::Trigger>,
    /// The job's, as they were when the Trigger arrived.
    pub(crate) props: Arc<Props>,
    pub(crate) offset: Bytes,
    pub(crate) instance_id: String,
    /// The rest of the run's timeout.
    pub(crate) timeout: Option<Duration>,
}

/// One attempt of a run has left user code.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) id: RunId,
    pub(crate) attempt: u32,
    pub(crate) result: UserResult,
    pub(crate) processed: u64,
    pub(crate) failed: u64,
    pub(crate) offset: Option<Bytes>,
    pub(crate) output: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum UserResult {
    #[default]
    Done,
    Failed {
        error: String,
        retry: bool,
    },
    /// The handler reports that it was cancelled.
    Cancelled,
    /// The future was dropped before it ended.
    Dropped,
    /// The last check, right before user code, refused it.
    NotBegun,
    /// The handler learned that the lease had expired before it was asked to stop.
    Overdue,
}

/// How the conversation ended for good.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Exit {
    /// GoodbyeAck has arrived, or no coordinator needed a goodbye.
    Left,
    /// The leave was not acknowledged in time; the number of runs that were still in flight.
    LeaveTimedOut {
        in_flight: usize,
    },
    /// No job is left to work for.
    Refused {
        job: String,
        code: String,
        message: String,
    },
    /// Every coordinator rejects this worker.
    Rejected(LinkError),
    Killed,
}
