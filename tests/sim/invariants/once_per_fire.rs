//! For one (item, fire) at most one normal run is ever started. A misfire mark, and a manual trigger, is run once. A
//! job that is created again under a name has fires of its own.
//!
//! Source: Chronos #371, a leader that came back with its old timers; Elastic-Job #470, a manual trigger that was taken
//! for a misfire as well; PowerJob #1107, a run that had been started before the next time was written.

use std::collections::BTreeSet;

use rosterd_domain::id::{Item, JobName, TriggerId};
use rosterd_domain::item::Source;
use rosterd_domain::time::Time;
use rosterd_domain::txn::Write;

use super::Invariant;
use crate::oracle::observer::AppliedStep;

/// State: the fires that had their normal run, the marks that had theirs, the triggers that had theirs.
#[derive(Default)]
pub struct OncePerFire {
    fired: BTreeSet<(JobName, Item, Time)>,
    marked: BTreeSet<(JobName, Item, Time)>,
    triggered: BTreeSet<(JobName, Item, TriggerId)>,
}

impl Invariant for OncePerFire {
    fn name(&self) -> &'static str {
        "once_per_fire"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for write in step.txn.into_iter().flat_map(|txn| &txn.writes) {
            if let Write::CreateJob { job, .. } = write {
                self.fired.retain(|(of, ..)| of != job);
                self.marked.retain(|(of, ..)| of != job);
            }
        }
        for change in step.changes {
            let Some((run, token)) = &change.started else { continue };
            let of = format!(
                "item {} of {}: run {token} ({}) of {}",
                change.item, change.job, run.source, run.fire
            );
            match run.source {
                Source::NormalTrigger => {
                    if !self.fired.insert((change.job.clone(), change.item, run.fire)) {
                        return Err(format!("{of} is the second normal run of the fire"));
                    }
                }
                // For crashed runs see `ended_once`.
                Source::Failover => {}
                Source::Misfire => {
                    if !self.marked.insert((change.job.clone(), change.item, run.fire)) {
                        return Err(format!("{of} is the second run of the mark"));
                    }
                }
                Source::Manual => {
                    let Some(trigger) = run.trigger.clone() else {
                        return Err(format!("{of} has no trigger"));
                    };
                    if !self.triggered.insert((change.job.clone(), change.item, trigger)) {
                        return Err(format!("{of} is the second run of the trigger"));
                    }
                }
            }
        }
        Ok(())
    }
}
