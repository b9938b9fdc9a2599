//! Every started run has ended or is in flight: in the counters of each record, after each write, the started runs are
//! the ended ones plus the one in flight. (Not for jobs without monitorExecution: their ends are not tracked.)
//!
//! Source: Chronos #371 and Elastic-Job #2222, runs that could not be accounted for afterwards; the totals of a bank,
//! which TigerBeetle's simulator adds up after each step.

use super::Invariant;
use crate::oracle::observer::AppliedStep;

/// Stateless.
#[derive(Default)]
pub struct Sums;

impl Invariant for Sums {
    fn name(&self) -> &'static str {
        "sums"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
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
