//! What began has ended or goes on: in the counters of each record, after each write, the runs that began are those that ended
//! and the one in flight. (Not of jobs without monitorExecution: no end of theirs is waited for.)
//!
//! Source: Chronos #371 and Elastic-Job #2222, runs that nobody could account for afterwards; the totals of a bank, which
//! TigerBeetle's simulator adds up after each step.

use super::Invariant;
use crate::watch::Step;

/// Nothing is kept.
#[derive(Default)]
pub struct Sums;

impl Invariant for Sums {
    fn name(&self) -> &'static str {
        "sums"
    }

    fn applied(&mut self, step: &Step<'_>) -> Result<(), String> {
        for change in step.changes.iter().filter(|change| step.before.monitors(&change.job)) {
            let counters = &change.after.counters;
            let in_flight = u64::from(change.after.running().is_some());
            if counters.fired != counters.ended() + in_flight {
                let (item, job, fired, ended) = (change.item, &change.job, counters.fired, counters.ended());
                return Err(format!(
                    "item {item} of {job}: {fired} runs began, {ended} ended, {in_flight} go on"
                ));
            }
        }
        Ok(())
    }
}
