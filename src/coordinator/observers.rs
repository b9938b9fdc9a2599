//! Who learns what the coordinator does, and decides nothing: the history, the metrics, the traces, the watchers of
//! events and of its health. None of them can make the driver wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::item::Running;
use rosterd_domain::ownership::Owned;
use rosterd_domain::plan::Entry;
use rosterd_domain::time::Time;
use rosterd_domain::txn::Purpose;
use rosterd_session::frame::Completed;
use tokio::sync::{broadcast, watch};

use crate::io::cluster_event::ClusterEvent;
use crate::io::operation::Health;
use crate::io::standing::Standing;
use crate::tracer::Tracer;

/// How many events a watcher may lag behind.
pub const EVENT_BACKLOG: usize = 4096;

/// Receives results of fires and runs. It never waits and never fails: the history is a projection.
pub trait Sink: Send + 'static {
    /// An entry, after its commit.
    fn record(&mut self, job: &JobName, at: Time, entry: &Entry, detail: Option<&Completed>);
    /// User code of a run has started, and when by the worker's clock.
    fn begun(&mut self, _: &JobName, _now: Time, _: (Item, Token), _: &Running, _at: Option<Time>) {}
    /// A row of the audit.
    fn happened(&mut self, _at: Time, _event: &ClusterEvent) {}
    /// An outcome of one run or several that needs people's attention.
    fn noted(&mut self, _at: Time, _job: Option<&JobName>, _what: &str) {}
    /// The owners of a job's items from now on.
    fn owned(&mut self, _at: Time, _owned: &Owned) {}
}

/// Keeps nothing.
#[derive(Debug, Default)]
pub struct NoHistory;

impl Sink for NoHistory {
    fn record(&mut self, _: &JobName, _: Time, _: &Entry, _: Option<&Completed>) {}
}

/// What the driver measures.
pub trait Gauge: Send + 'static {
    /// A transaction ended after this long.
    fn committed(&mut self, _purpose: Purpose, _took: Duration, _applied: bool) {}
    /// A run was sent this long after its scheduled time.
    fn sent(&mut self, _lag: Duration) {}
    /// An entry was committed; without the name if the job was removed since. `detail`: the report of an end.
    fn entry(&mut self, _job: Option<&JobName>, _entry: &Entry, _detail: Option<&Completed>) {}
    /// The standing of a job; `None`: it was removed.
    fn job(&mut self, _job: &JobName, _standing: Option<Standing>) {}
    /// How many jobs are known, how many of them are led, and how many frames wait to be handled.
    fn there(&mut self, _jobs: usize, _led: usize, _waiting: usize) {}
    /// How many workers are attached here.
    fn workers(&mut self, _attached: usize) {}
    /// How many jobs led here have no worker, how many of their items no owner, and how long the oldest scheduled time
    /// has waited.
    fn unattended(&mut self, _jobs: usize, _items: usize, _oldest: Duration) {}
    /// How many milliseconds this machine's clock is ahead of the store's, or behind.
    fn clock(&mut self, _ahead: i64) {}
    /// The health has changed.
    fn health(&mut self, _health: Health) {}
}

impl Gauge for NoHistory {}

/// All of them.
pub(crate) struct Observers {
    pub(crate) sink: Box<dyn Sink>,
    pub(crate) gauge: Box<dyn Gauge>,
    pub(crate) tracer: Option<Box<dyn Tracer>>,
    pub(crate) events: broadcast::Sender<Arc<ClusterEvent>>,
    pub(crate) health: watch::Sender<Health>,
    /// When a committed write last proved the session, in milliseconds of the monotonic clock: for readers.
    pub(crate) proved: Arc<AtomicU64>,
}

impl Observers {
    pub(crate) fn show(&mut self, health: Health) {
        self.gauge.health(health);
        self.health.send_replace(health);
    }

    pub(crate) fn show_proof(&self, millis: u64) {
        self.proved.store(millis, Ordering::Relaxed);
    }

    /// Sends an event to the watchers, if there are any.
    pub(crate) fn publish(&self, event: impl FnOnce() -> ClusterEvent) {
        if self.events.receiver_count() > 0 {
            let _nobody = self.events.send(Arc::new(event()));
        }
    }
}
