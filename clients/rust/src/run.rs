//! A handler's view of its run, and its reports before it ends.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::error::Failure;
use crate::gate::Gate;
use crate::machine::limits;
use crate::machine::types::{MachineEvent, Start};
use crate::proto;

/// Why a run exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// A scheduled time of the job's schedule.
    NormalTrigger,
    /// Scheduled times that were skipped while the item was busy, merged into this one run.
    Misfire,
    /// A crashed run, run again.
    Failover,
    /// A manual trigger.
    Manual,
    /// A reason that this version does not know.
    Unspecified,
}

impl Source {
    /// As the protocol and all clients name it: `NORMAL_TRIGGER`.
    pub fn as_str(self) -> &'static str {
        let name = self.sent().as_str_name();
        name.strip_prefix("RUN_SOURCE_").unwrap_or(name)
    }

    fn of(source: proto::RunSource) -> Self {
        match source {
            proto::RunSource::NormalTrigger => Self::NormalTrigger,
            proto::RunSource::Misfire => Self::Misfire,
            proto::RunSource::Failover => Self::Failover,
            proto::RunSource::Manual => Self::Manual,
            proto::RunSource::Unspecified => Self::Unspecified,
        }
    }

    /// As it is sent.
    pub(crate) fn sent(self) -> proto::RunSource {
        match self {
            Self::NormalTrigger => proto::RunSource::NormalTrigger,
            Self::Misfire => proto::RunSource::Misfire,
            Self::Failover => proto::RunSource::Failover,
            Self::Manual => proto::RunSource::Manual,
            Self::Unspecified => proto::RunSource::Unspecified,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One attempt of one execution of one item. Cheap to clone; every clone is the same run.
#[derive(Debug, Clone)]
pub struct Run(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    start: Start,
    deadline: Option<SystemTime>,
    cancelled: CancellationToken,
    events: mpsc::Sender<MachineEvent>,
    gate: Gate,
    /// A check found that the lease had expired.
    overdue: AtomicBool,
    said: Mutex<Said>,
}

/// The handler's output so far; goes into the report.
#[derive(Debug, Default, Clone)]
pub(crate) struct Said {
    pub(crate) processed: u64,
    pub(crate) failed: u64,
    pub(crate) offset: Option<Bytes>,
    pub(crate) output: String,
}

impl Run {
    pub(crate) fn new(
        start: Start,
        wall: SystemTime,
        cancelled: CancellationToken,
        events: mpsc::Sender<MachineEvent>,
        gate: Gate,
    ) -> Self {
        let deadline = start.timeout.and_then(|timeout| wall.checked_add(timeout));
        Self(Arc::new(Inner {
            start,
            deadline,
            cancelled,
            events,
            gate,
            overdue: AtomicBool::default(),
            said: Mutex::default(),
        }))
    }

    /// The job's name.
    pub fn job(&self) -> &str {
        &self.0.start.id.job
    }

    /// The item, 0 to `total() - 1`.
    pub fn item(&self) -> u32 {
        self.0.start.id.item
    }

    /// The fencing token: a later run of the item has a larger one. Pass it to the resources you write to, so that they
    /// can refuse a run that was replaced.
    pub fn token(&self) -> u64 {
        self.0.start.id.token
    }

    /// The scheduled time; of a misfire the latest skipped one, of a failover the crashed run's.
    pub fn fire_time(&self) -> SystemTime {
        let time = self.trigger().fire_time;
        time.and_then(|time| time.try_into().ok()).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Why this run exists.
    pub fn source(&self) -> Source {
        Source::of(self.trigger().source())
    }

    /// How many items the job has.
    pub fn total(&self) -> u32 {
        self.trigger().sharding_total_count
    }

    /// The item's own parameter, for example `Beijing` of `0=Beijing`; empty if it has none.
    pub fn item_parameter(&self) -> &str {
        &self.trigger().item_parameter
    }

    /// The job's parameter.
    pub fn job_parameter(&self) -> &str {
        &self.trigger().job_parameter
    }

    /// The job's properties by name, as they were when the run started.
    pub fn props(&self) -> &BTreeMap<String, String> {
        &self.0.start.props
    }

    /// One of the job's properties.
    pub fn prop(&self, name: &str) -> Option<&str> {
        self.props().get(name).map(String::as_str)
    }

    /// The attempt, from 1. All attempts of a run have the same token.
    pub fn attempt(&self) -> u32 {
        self.0.start.attempt
    }

    /// dataflow: whether to continue until fetch is empty.
    pub fn streaming(&self) -> bool {
        self.trigger().streaming
    }

    /// This worker under the job: `{address}@-@{unique}`.
    pub fn instance_id(&self) -> &str {
        &self.0.start.instance_id
    }

    /// Elastic-Job's id of the task, `{job}@-@{item}@-@READY@-@{instance_id}`. The same for each run of the item here;
    /// the token distinguishes them.
    pub fn task_id(&self) -> &str {
        &self.trigger().task_id
    }

    /// The trace that this run belongs to, as W3C Trace Context writes it: `traceparent`, and `tracestate` if there is
    /// one. All runs of a fire share its trace. Empty: there is no trace. A propagator of the `opentelemetry` crate
    /// extracts a context from it.
    pub fn trace_context(&self) -> &BTreeMap<String, String> {
        &self.trigger().trace_context
    }

    /// The rest of the run's timeout when this attempt started.
    pub fn timeout(&self) -> Option<Duration> {
        self.0.start.timeout
    }

    /// When the run will be stopped as timed out.
    pub fn deadline(&self) -> Option<SystemTime> {
        self.0.deadline
    }

    /// The offset of the item's last completed run, or of this run's own last `set_offset`. At most 64 KiB.
    pub fn offset(&self) -> Bytes {
        self.said().offset.clone().unwrap_or_else(|| self.0.start.offset.clone())
    }

    /// Sets the item's offset, at most 64 KiB, for its next run. The coordinator stores it with the outcome, and about
    /// once a second until then, so that a run that replaces this one after a crash continues from there.
    pub fn set_offset(&self, offset: impl Into<Bytes>) -> Result<(), Failure> {
        let offset = offset.into();
        if offset.len() > limits::OFFSET_BYTES {
            return Err(Failure::fatal(format!("an offset of {} bytes: at most 64 KiB", offset.len())));
        }
        self.said().offset = Some(offset.clone());
        let run = self.0.start.id.clone();
        let _ = self.0.events.try_send(MachineEvent::Offset { run, offset });
        Ok(())
    }

    /// Reports progress to people, 0 to 100. Cheap: only the latest is sent, a few times a second.
    pub fn progress(&self, percent: u32, message: impl Into<String>) {
        let run = self.0.start.id.clone();
        // A full queue means that a later one is on its way.
        let _ = self.0.events.try_send(MachineEvent::Progress { run, percent, message: message.into() });
    }

    /// Adds to the records processed, and to those of them that failed.
    pub fn count(&self, processed: u64, failed: u64) {
        let mut said = self.said();
        said.processed = said.processed.saturating_add(processed);
        said.failed = said.failed.saturating_add(failed);
    }

    pub(crate) fn counts(&self) -> (u64, u64) {
        let said = self.said();
        (said.processed, said.failed)
    }

    /// The output of the run, cut at 64 KiB. A handler's own `Ok(text)` replaces it.
    pub fn set_output(&self, output: impl Into<String>) {
        self.said().output = limits::cut(output.into(), limits::OUTPUT_BYTES);
    }

    /// Ends when the run must stop: cancelled, timed out, fenced, or its lease has expired. A handler that does not end
    /// soon after is dropped, unless its job is [cooperative](crate::Job::cooperative). Like [`Run::is_cancelled`] it
    /// checks the lease itself, so if it is awaited before the work (`biased`), a process that was frozen past its
    /// lease does not consider the work done.
    pub async fn cancelled(&self) {
        let mut told = pin!(self.0.cancelled.cancelled());
        // A handler may resume before the tasks that would cancel it.
        poll_fn(|context| if self.is_overdue() { Poll::Ready(()) } else { told.as_mut().poll(context) })
            .await;
    }

    /// Whether the run must stop; for loops without an await, and before an effect that cannot be undone: it checks the
    /// lease itself, so a process that was frozen past its lease knows immediately when it resumes.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.is_cancelled() || self.is_overdue()
    }

    /// Whether the lease has expired. Once it has returned true, the handler may have stopped, so it stays true.
    fn is_overdue(&self) -> bool {
        let over = !self.0.gate.open();
        if over && !self.0.overdue.swap(true, Ordering::AcqRel) {
            self.0.cancelled.cancel();
        }
        over
    }

    /// Whether user code has seen that the lease expired.
    pub(crate) fn was_overdue(&self) -> bool {
        self.0.overdue.load(Ordering::Acquire)
    }

    /// Whether the worker is leaving: a run that can end early and be continued later should.
    pub fn leaving(&self) -> bool {
        self.0.gate.leaving()
    }

    /// The same as a token, for other tasks and threads.
    pub fn cancellation(&self) -> CancellationToken {
        self.0.cancelled.clone()
    }

    /// How long the run may still go on without another acknowledgement from the coordinator: after that another worker
    /// may run the item. For work that goes on while this process is frozen, such as a child process; a handler must
    /// stop earlier, at [`Run::cancelled`].
    pub fn lease_left(&self) -> Duration {
        self.0.gate.left()
    }

    /// How long since then.
    pub(crate) fn ran_since(&self, began: Duration) -> Duration {
        self.0.gate.now().saturating_sub(began)
    }

    fn trigger(&self) -> &proto::Trigger {
        &self.0.start.trigger
    }

    pub(crate) fn said(&self) -> MutexGuard<'_, Said> {
        self.0.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
