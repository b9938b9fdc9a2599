//! No run is sent while an earlier run of the item that was sent has not ended, whichever process leads, hosts or owns
//! it, and however often the item has moved meanwhile. (A removal of a job with its runs does not wait for them; runs
//! of jobs without monitorExecution are not recorded.)
//!
//! Source: Nomad #11052 and #14505. A new leader started a run of a job that forbids overlaps while one was in flight.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::time::Time;
use rosterd_domain::txn::Write;
use rosterd_session::frame::ToWorker;

use super::Invariant;
use crate::oracle::observer::{AppliedStep, Shadow};

/// State: for each item the runs that were sent and have not ended, and the latest that has; and at which token each
/// job was created.
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

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
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
        // A host that has not noticed an end sends a run that is over, or of a job that is gone.
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
                "{process} receives the Trigger of run {} of item {} of {}, but run {first} has not ended",
                run.token, run.item, run.job
            )),
        }
    }
}
