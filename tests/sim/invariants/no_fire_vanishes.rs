//! Every scheduled time that a record has passed was run, or is counted as misfired, skipped or missed. The scheduled
//! times are counted here independently of the schedule of the code under test.
//!
//! Source: XXL-JOB #3369, fires lost between the write of the next scheduled time and the start; Dkron #1210, in an
//! election; Elastic-Job #727, before the first fire of a new job; Kubernetes #42649, a job that stopped for good once
//! too many were missed.

use std::collections::BTreeMap;
use std::time::Duration;

use rosterd_domain::item::{Record, Source};
use rosterd_domain::sharding::Sharding;
use rosterd_domain::time::Time;

use super::Invariant;
use crate::oracle::observer::{AppliedStep, RecordChange};

/// By how much a calendar may be off and still fire: jumps that are still followed, its error from running fast, and
/// the drift of clocks during a world.
const FURTHEST: Duration = Duration::from_secs(4);

/// Stateless.
#[derive(Default)]
pub struct NoFireVanishes;

impl Invariant for NoFireVanishes {
    fn name(&self) -> &'static str {
        "no_fire_vanishes"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for change in step.changes {
            let last = change.before.as_ref().map_or(Time(i64::MIN), |before| before.last_fire);
            // No coordinator fires, or writes anything, by a calendar that is further off.
            if change.after.last_fire > last && change.after.last_fire > step.at.plus(FURTHEST) {
                return Err(format!(
                    "item {} of {}: at {} its last fire is {}",
                    change.item, change.job, step.at, change.after.last_fire
                ));
            }
            let (Some(before), Some(job)) = (&change.before, step.before.jobs.get(&change.job)) else {
                continue;
            };
            let after = &change.after;
            let due = job.due(before.last_fire, after.last_fire);
            let told = told(before, change, &job.sharding);
            if due != told {
                return Err(format!(
                    "item {} of {}: {due} scheduled times from {} to {}, {told} accounted for",
                    change.item, change.job, before.last_fire, after.last_fire
                ));
            }
        }
        Ok(())
    }
}

/// How many scheduled times the change accounts for.
fn told(before: &Record, change: &RecordChange, sharding: &Sharding) -> i64 {
    let after = &change.after;
    let total = |record: &Record| {
        let missed: &BTreeMap<_, u64> = &record.counters.missed;
        i64::try_from(missed.values().sum::<u64>() + record.counters.misfired + record.counters.skipped)
            .unwrap_or(0)
    };
    let source = change.started.as_ref().map(|(run, _)| run.source);
    let ran = i64::from(source == Some(Source::NormalTrigger));
    // A misfire mark that will not be run is counted a second time, as missed.
    let marked = before.misfire.is_some() || after.counters.misfired > before.counters.misfired;
    let dropped = marked && after.misfire.is_none() && source != Some(Source::Misfire);
    // So is one from before a time in which the item was not part of the job, even if another mark was set since.
    let outlived = before.misfire.filter(|mark| sharding.surplus_until(change.item) >= Some(*mark));
    let run =
        change.started.as_ref().filter(|(run, _)| run.source == Source::Misfire).map(|(run, _)| run.fire);
    let replaced = outlived.is_some() && after.misfire != outlived && run != outlived;
    total(after) - total(before) + ran - i64::from(dropped || replaced)
}
