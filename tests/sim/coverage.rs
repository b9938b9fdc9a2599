//! How often each fault, each event of an item's life and each way of recovery was taken.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts by name; cheap to clone.
#[derive(Clone, Default)]
pub struct Coverage(Arc<Mutex<BTreeMap<String, u64>>>);

impl Coverage {
    pub fn count(&self, what: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(what.into()).or_default() += 1;
    }

    pub fn take(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
