//! How the world counts time.

use std::time::Duration;

use tokio::time::Instant;

/// A moment of the simulated time.
#[derive(Debug, Clone, Copy)]
pub struct Since(Instant);

impl Since {
    pub fn now() -> Self {
        Self(Instant::now())
    }

    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
