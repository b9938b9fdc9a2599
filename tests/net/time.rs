//! How the world counts time. Each host has a clock of its own, which starts with it; times that are compared between
//! hosts are counted here, in steps of the network.

use std::cell::Cell;
use std::time::Duration;

/// The length of one step.
pub const STEP: Duration = Duration::from_millis(4);

thread_local! {
    static BEGUN: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// A step begins, this long after the world's beginning.
pub fn begin(at: Duration) {
    BEGUN.set(at);
}

/// When the current step began.
pub fn begun() -> Duration {
    BEGUN.get()
}

/// A moment of the simulated time. Elapsed time is counted to the end of the step, so that nothing seems to happen
/// before its time.
#[derive(Debug, Clone, Copy)]
pub struct Since(Duration);

impl Since {
    pub fn now() -> Self {
        Self(begun())
    }

    pub fn elapsed(&self) -> Duration {
        (begun() + STEP).saturating_sub(self.0)
    }
}
