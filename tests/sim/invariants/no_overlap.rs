//! No run is told to anybody while an earlier run of the item that was told has no end, whoever leads, hosts or owns it, and
//! however often the item has moved meanwhile. (Who removes a job with its runs does not wait for them; of jobs without
//! monitorExecution nobody knows what is under way.)
//!
//! Source: Nomad #11052 and #14505. A new leader started what a job that forbids overlaps had in flight.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::time::Time;
use rosterd_domain::txn::Write;
use rosterd_session::frame::ToWorker;

use super::Invariant;
use crate::watch::{Shadow, Step};

/// Kept: of each item the runs that were told and have not ended, and the latest that has; and at which token each job
/// was made.
#[derive(Default)]
pub struct NoOverlap {
    told: BTreeMap<(JobName, Item), BTreeSet<Token>>,
    ended: BTreeMap<(JobName, Item), Token>,
    made: BTreeMap<JobName, Token>,
}

impl Invariant for NoOverlap {
    fn name(&self) -> &'static str {
        "no_overlap"
    }

    fn applied(&mut self, step: &Step<'_>) -> Result<(), String> {
        for write in step.txn.into_iter().flat_map(|txn| &txn.writes) {
            if let Write::CreateJob { job, .. } = write {
                self.told.retain(|(of, _), _| of != job);
                self.made.insert(job.clone(), step.token);
            }
        }
        for change in step.changes {
            let Some((_, ended)) = &change.ended else { continue };
            let key = (change.job.clone(), change.item);
            if let Some(told) = self.told.get_mut(&key) {
                told.remove(&ended.token);
            }
            self.ended.insert(key, ended.token);
        }
        Ok(())
    }

    fn heard(&mut self, process: &str, frame: &ToWorker, now: &Shadow, _: Time) -> Result<(), String> {
        let ToWorker::Trigger(trigger) = frame else { return Ok(()) };
        let run = &trigger.run;
        let key = (run.job.clone(), run.item);
        // A host that has not heard of an end tells of a run that is over, or of a job that is gone.
        let over = self.ended.get(&key).is_some_and(|ended| run.token <= *ended)
            || self.made.get(&run.job).is_none_or(|made| run.token < *made);
        if over || !now.monitors(&run.job) {
            return Ok(());
        }
        let told = self.told.entry(key).or_default();
        told.insert(run.token);
        match told.first().filter(|first| **first < run.token) {
            None => Ok(()),
            Some(first) => Err(format!(
                "{process} is told of run {} of item {} of {}, and run {first} has not ended",
                run.token, run.item, run.job
            )),
        }
    }
}
