//! At most one run of an item is in flight, and a Trigger is sent only after the transaction that recorded it.
//!
//! Source: Elastic-Job #1549 and #507. Items ran on two nodes at once, since the node that marked them as running ended
//! with the session of their worker.

use std::collections::BTreeSet;

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::time::Time;
use rosterd_session::frame::ToWorker;

use super::Invariant;
use crate::oracle::observer::{AppliedStep, Shadow};

/// State: every run that a committed record has named.
#[derive(Default)]
pub struct OneRunner {
    recorded: BTreeSet<(JobName, Item, Token)>,
}

impl Invariant for OneRunner {
    fn name(&self) -> &'static str {
        "one_runner"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for change in step.changes {
            let (job, item) = (&change.job, change.item);
            if change.after.running().is_some() || change.started.is_some() {
                self.recorded.insert((job.clone(), item, change.after.token));
            }
            let Some(before) = &change.before else { continue };
            let Some(run) = before.running() else { continue };
            let same = change.after.token == before.token
                && change.after.running().is_some_and(|after| after.worker == run.worker);
            if !same && change.ended.is_none() {
                return Err(format!(
                    "item {item} of {job}: run {} on {} was in flight and is overwritten by {} without an end",
                    before.token, run.instance, change.after.token
                ));
            }
        }
        Ok(())
    }

    fn heard(&mut self, process: &str, frame: &ToWorker, now: &Shadow, _: Time) -> Result<(), String> {
        let ToWorker::Trigger(trigger) = frame else { return Ok(()) };
        let run = &trigger.run;
        let recorded = self.recorded.contains(&(run.job.clone(), run.item, run.token));
        // A job that is gone meanwhile, or was created again, has other records.
        if recorded || !now.jobs.contains_key(&run.job) {
            return Ok(());
        }
        Err(format!(
            "{process} is sent run {} of item {} of {}, which no record ever named",
            run.token, run.item, run.job
        ))
    }
}
