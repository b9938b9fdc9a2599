//! Hooks for metrics.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::run::Run;

/// Called while the worker runs; each is optional. They are called where things happen, so they should return soon:
/// those of runs on the handlers' runtime, the others on the thread of the conversation. A panic is logged, and changes
/// nothing.
pub trait Hooks: Send + Sync + 'static {
    /// User code of an attempt is about to be called.
    fn run_started(&self, _run: &Run) {}
    /// User code of an attempt has ended.
    fn run_ended(&self, _run: &Run, _end: &RunEnd) {}
    /// A Trigger arrived, and the last check did not let user code begin.
    fn run_not_started(&self, _run: &Run, _why: &str) {}
    /// A coordinator has welcomed this worker.
    fn attached(&self, _server: &str, _instance_id: &str) {}
    /// The coordinator has agreed to a job: how many items it has, and the time until its next scheduled time, if it
    /// has one.
    fn registered(&self, _job: &str, _items: u32, _next_fire_in: Option<Duration>) {}
    /// Its stream has ended.
    fn detached(&self, _server: &str, _reason: &str) {}
    /// A heartbeat was acknowledged, this long after it was sent.
    fn lease_renewed(&self, _round_trip: Duration) {}
}

/// How an attempt ended here. The coordinator's record may differ, for example if the run was told to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunEnd {
    /// How.
    pub how: How,
    /// How long user code ran.
    pub duration: Duration,
    /// The error; empty if there was none.
    pub error: String,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum How {
    /// The handler returned Ok.
    Returned,
    /// It returned an error or panicked.
    Failed,
    /// It reported that it was cancelled, or found its lease expired.
    Cancelled,
    /// Its future was dropped while it waited.
    Dropped,
}

/// What happened to the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    Attached { server: String, instance_id: String },
    Registered { job: String, items: u32, next: Option<Duration> },
    Detached { server: String, reason: String },
    Renewed(Duration),
}

/// The hooks of a worker, if any.
#[derive(Clone, Default)]
pub(crate) struct Hooked(Option<Arc<dyn Hooks>>);

impl Hooked {
    pub(crate) fn new(hooks: impl Hooks) -> Self {
        Self(Some(Arc::new(hooks)))
    }

    pub(crate) fn listen(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn call(&self, hook: impl FnOnce(&dyn Hooks)) {
        let Some(hooks) = &self.0 else { return };
        if catch_unwind(AssertUnwindSafe(|| hook(hooks.as_ref()))).is_err() {
            tracing::error!("a hook panicked");
        }
    }

    pub(crate) fn news(&self, news: &News) {
        self.call(|hooks| match news {
            News::Attached { server, instance_id } => hooks.attached(server, instance_id),
            News::Registered { job, items, next } => hooks.registered(job, *items, *next),
            News::Detached { server, reason } => hooks.detached(server, reason),
            News::Renewed(round_trip) => hooks.lease_renewed(*round_trip),
        });
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Hooks" } else { "none" })
    }
}
