//! How a run checks whether it may go on: the lease and the clock, without its worker.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The last check of the lease, where user code really starts: its runtime may have been busy, or the process asleep,
/// since the machine decided.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) now: Arc<dyn Fn() -> Duration + Send + Sync>,
    /// When user code must stop, in nanoseconds.
    pub(crate) lease_end: Arc<AtomicU64>,
    /// When it must have ended, in nanoseconds.
    pub(crate) lease_over: Arc<AtomicU64>,
    /// The worker is leaving.
    pub(crate) leaving: Arc<AtomicBool>,
    /// It is attached.
    pub(crate) attached: Arc<AtomicBool>,
}

impl Gate {
    /// A gate without a lease.
    pub(crate) fn endless(leaving: Arc<AtomicBool>) -> Self {
        let never = || Arc::new(AtomicU64::new(u64::MAX));
        let now = Arc::new(|| Duration::ZERO);
        Self { now, lease_end: never(), lease_over: never(), leaving, attached: Arc::default() }
    }

    pub(crate) fn open(&self) -> bool {
        (self.now)() < Duration::from_nanos(self.lease_end.load(Ordering::Acquire))
    }

    pub(crate) fn now(&self) -> Duration {
        (self.now)()
    }

    pub(crate) fn left(&self) -> Duration {
        Duration::from_nanos(self.lease_over.load(Ordering::Acquire)).saturating_sub((self.now)())
    }

    pub(crate) fn leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// Whether runs may begin here: for health.
    pub(crate) fn ready(&self) -> bool {
        self.attached.load(Ordering::Acquire) && self.open() && !self.leaving()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("lease_end", &self.lease_end).finish_non_exhaustive()
    }
}
