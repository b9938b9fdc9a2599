//! The token in an item's record never goes down, over every job that ever had the name, and no report of an older run is
//! accepted for a later one.
//!
//! Source: PowerJob #1176, reports without a number that ended other runs; the fencing tokens of Kleppmann's "How to do
//! distributed locking" (2016): each write carries a number that only grows, and the resource checks it.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::time::Time;
use rosterd_session::frame::ToWorker;

use super::Invariant;
use crate::oracle::observer::{AppliedStep, Shadow};

/// State: the highest token of each item, and the runs that ended as reported.
#[derive(Default)]
pub struct TokensGrow {
    highest: BTreeMap<(JobName, Item), Token>,
    reported: BTreeSet<(JobName, Item, Token)>,
}

impl Invariant for TokensGrow {
    fn name(&self) -> &'static str {
        "tokens_grow"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for change in step.changes {
            let key = (change.job.clone(), change.item);
            if let Some(highest) = self.highest.get(&key).filter(|highest| change.after.token < **highest) {
                let (item, job, token) = (change.item, &change.job, change.after.token);
                return Err(format!("item {item} of {job}: token {token} after {highest}"));
            }
            self.highest.insert(key, change.after.token);
            if let Some((_, ended)) = change.ended.as_ref().filter(|(_, ended)| ended.reported) {
                self.reported.insert((change.job.clone(), change.item, ended.token));
            }
        }
        Ok(())
    }

    fn heard(&mut self, process: &str, frame: &ToWorker, now: &Shadow, _: Time) -> Result<(), String> {
        let ToWorker::ReportAck { run, refusal: None } = frame else { return Ok(()) };
        let ended = self.reported.contains(&(run.job.clone(), run.item, run.token));
        let token = now.records.get(&(run.job.clone(), run.item)).map(|record| record.token);
        // Without monitorExecution a report ends nothing, so any is accepted.
        if ended || !now.monitors(&run.job) || token.is_none_or(|token| token <= run.token) {
            return Ok(());
        }
        Err(format!(
            "{process}: a report of run {} of item {} of {} is accepted, although the item's token is {token:?}",
            run.token, run.item, run.job
        ))
    }
}
