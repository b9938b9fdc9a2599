//! The results of an item's fires, in numbers. They are part of its record, which may hold data that anybody has
//! written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::outcome::{Missed, Outcome};

/// Counts of all results of an item's fires, ever. Each only grows.
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
    /// Scheduled times merged into a later run.
    #[serde(skip_serializing_if = "zero")]
    pub misfired: u64,
    /// Scheduled times skipped because the job's policy says so (busy item of a job without misfire).
    #[serde(skip_serializing_if = "zero")]
    pub skipped: u64,
    /// Scheduled times that were not run, by reason.
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

    /// Adds the counts of another item.
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

/// Saturates, since the counters come from data that anybody may have written.
pub(crate) fn add(counter: &mut u64, count: u64) {
    *counter = counter.saturating_add(count);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Counters {
        let missed = BTreeMap::from([(Missed::Down, 9), (Missed::Clock, 10)]);
        let (fired, succeeded, failed, cancelled) = (16, 1, 2, 3);
        let (crashed, timed_out, misfired, skipped) = (4, 5, 6, 7);
        Counters { fired, succeeded, failed, cancelled, crashed, timed_out, misfired, skipped, missed }
    }

    #[test]
    fn what_became_of_several_items_is_added_up() {
        let mut sum = some();
        sum.add(&Counters { missed: BTreeMap::from([(Missed::Clock, 1), (Missed::Paused, 2)]), ..some() });
        let missed = BTreeMap::from([(Missed::Down, 9), (Missed::Clock, 11), (Missed::Paused, 2)]);
        let (fired, succeeded, failed, cancelled) = (32, 2, 4, 6);
        let (crashed, timed_out, misfired, skipped) = (8, 10, 12, 14);
        let expected =
            Counters { fired, succeeded, failed, cancelled, crashed, timed_out, misfired, skipped, missed };
        assert_eq!(sum, expected);
        assert_eq!((some().ended(), sum.ended()), (15, 30));
    }

    #[test]
    fn each_outcome_has_a_counter_that_stays_at_its_end() {
        use Outcome::{Cancelled, Crashed, Failed, Succeeded, TimedOut};
        let mut counters = Counters { failed: u64::MAX, ..some() };
        for outcome in [Succeeded, Failed, Cancelled, Cancelled, Crashed, TimedOut] {
            counters.count(outcome);
        }
        let expected =
            Counters { succeeded: 2, failed: u64::MAX, cancelled: 5, crashed: 5, timed_out: 6, ..some() };
        assert_eq!(counters, expected);
        assert_eq!(counters.ended(), u64::MAX);
    }

    #[test]
    fn only_what_has_happened_is_written() {
        let written = |counters: &Counters| serde_json::to_string(counters).unwrap();
        assert_eq!(written(&Counters::default()), "{}");
        assert_eq!(written(&Counters { failed: 2, ..Counters::default() }), r#"{"failed":2}"#);
        assert_eq!(serde_json::from_str::<Counters>(&written(&some())).unwrap(), some());
        assert_eq!((Counters::default().is_empty(), some().is_empty()), (true, false));
    }
}
