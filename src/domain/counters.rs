//! What became of an item's fires, in numbers. They are part of its record, which is data that anybody may have written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::item::{Missed, Outcome};

/// Everything that ever became of an item's fires. Each only grows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Runs started.
    #[serde(skip_serializing_if = "zero")]
    pub fired: u64,
    /// Runs by outcome.
    #[serde(skip_serializing_if = "zero")]
    pub succeeded: u64,
    #[serde(skip_serializing_if = "zero")]
    #[allow(missing_docs)]
    pub failed: u64,
    #[serde(skip_serializing_if = "zero")]
    #[allow(missing_docs)]
    pub cancelled: u64,
    #[serde(skip_serializing_if = "zero")]
    #[allow(missing_docs)]
    pub crashed: u64,
    #[serde(skip_serializing_if = "zero")]
    #[allow(missing_docs)]
    pub timed_out: u64,
    /// Due times merged into a later run.
    #[serde(skip_serializing_if = "zero")]
    pub misfired: u64,
    /// Due times skipped because the job's policy says so (busy item of a job without misfire).
    #[serde(skip_serializing_if = "zero")]
    pub skipped: u64,
    /// Due times that were not run, by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub missed: BTreeMap<Missed, u64>,
}

fn zero(n: &u64) -> bool {
    *n == 0
}

impl Counters {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Runs that ended, over all outcomes.
    pub fn ended(&self) -> u64 {
        let ended = [self.failed, self.cancelled, self.crashed, self.timed_out];
        ended.into_iter().fold(self.succeeded, u64::saturating_add)
    }

    /// Adds what became of another item's fires.
    pub fn add(&mut self, other: &Self) {
        add(&mut self.fired, other.fired);
        add(&mut self.succeeded, other.succeeded);
        add(&mut self.failed, other.failed);
        add(&mut self.cancelled, other.cancelled);
        add(&mut self.crashed, other.crashed);
        add(&mut self.timed_out, other.timed_out);
        add(&mut self.misfired, other.misfired);
        add(&mut self.skipped, other.skipped);
        for (reason, count) in &other.missed {
            add(self.missed.entry(*reason).or_default(), *count);
        }
    }

    pub(crate) fn count(&mut self, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Succeeded => &mut self.succeeded,
            Outcome::Failed => &mut self.failed,
            Outcome::Cancelled => &mut self.cancelled,
            Outcome::Crashed => &mut self.crashed,
            Outcome::TimedOut => &mut self.timed_out,
        };
        add(counter, 1);
    }
}

/// Counters come from data that anybody may have written: at their end they stay.
pub(crate) fn add(counter: &mut u64, count: u64) {
    *counter = counter.saturating_add(count);
}
