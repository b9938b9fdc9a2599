//! Nothing refers to a removed job: no write goes below a missing job, and a job that is created again under the name
//! has tokens above all of its predecessor. At rest no job is half removed, and no removed job is watched or has a run.
//!
//! Source: Elastic-Job #246, a job that was removed and created again fired several times, since listeners of the first
//! lived on; Saturn #136, runs of a removed job that ran forever.

use std::collections::BTreeMap;

use rosterd_domain::id::{JobName, Token};
use rosterd_domain::txn::Write;
use rosterd_domain::view::Job;

use super::{AtRest, Invariant};
use crate::oracle::observer::AppliedStep;

/// State: for each existing job the token of the transaction that created it: none of its tokens is below that.
#[derive(Default)]
pub struct RemovedIsGone {
    made: BTreeMap<JobName, Token>,
}

impl Invariant for RemovedIsGone {
    fn name(&self) -> &'static str {
        "removed_is_gone"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for write in step.txn.into_iter().flat_map(|txn| &txn.writes) {
            match write {
                Write::CreateJob { job, .. } => drop(self.made.insert(job.clone(), step.token)),
                Write::EndJob(job) => drop(self.made.remove(job)),
                _ => {
                    if let Some(job) = is_of(write).filter(|job| !self.made.contains_key(*job)) {
                        return Err(format!(
                            "{} writes {write:?}, but job {job} does not exist",
                            step.session
                        ));
                    }
                }
            }
        }
        for change in step.changes {
            if let Some(made) = self.made.get(&change.job).filter(|made| change.after.token < **made) {
                return Err(format!(
                    "item {} of {}, made at {made}: token {} is of the job before",
                    change.item, change.job, change.after.token
                ));
            }
        }
        Ok(())
    }
}

/// The job that must exist for a write.
fn is_of(write: &Write) -> Option<&JobName> {
    match write {
        Write::Record { job, .. }
        | Write::Assignment { job, .. }
        | Write::Instance { job, .. }
        | Write::Trigger { job, .. }
        | Write::Running { job, instance: Some(_), .. }
        | Write::Elect { job, .. }
        | Write::Config(job, _)
        | Write::Paused(job, _) => Some(job),
        _ => None,
    }
}

/// Leftovers of missing jobs.
pub(super) fn at_rest(rest: &AtRest<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, snapshot) in &rest.jobs {
        if let Ok(None) = Job::decode(name, &snapshot.nodes) {
            found.push(format!("job {name} is still being removed"));
        }
    }
    for (job, item, token) in &rest.in_user_code {
        if !rest.jobs.keys().any(|name| name.as_str() == job) {
            found.push(format!(
                "run {token} of item {item} is in user code, but its job {job} does not exist"
            ));
        }
    }
    found
}
