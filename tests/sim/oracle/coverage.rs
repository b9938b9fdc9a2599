//! How often each fault, each row of an item's lifecycle table and each recovery path was taken.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts by name.
pub type Counts = BTreeMap<Cow<'static, str>, u64>;

/// Counts of one world; cheap to clone.
#[derive(Clone, Default)]
pub struct Coverage(Arc<Mutex<Counts>>);

impl Coverage {
    pub fn count(&self, what: impl Into<Cow<'static, str>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(what.into()).or_default() += 1;
    }

    pub fn take(&self) -> Counts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
