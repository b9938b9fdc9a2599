//! Whether heartbeats are acknowledged by themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether heartbeats are acknowledged by themselves: of all coordinators of a script.
#[derive(Clone)]
pub(crate) struct Acknowledging(Arc<AtomicBool>);

impl Default for Acknowledging {
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl Acknowledging {
    pub(crate) fn set(&self, on: bool) {
        self.0.store(on, Ordering::SeqCst);
    }

    pub(super) fn is_on(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
