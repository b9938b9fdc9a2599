//! Once faults have stopped and the set of coordinators is stable, leaderships settle: at most two elections follow for
//! each job, one of the second-ranked if the first does not campaign, and one of the first. If a job's fires are
//! announced to a worker, its leader must host one: changes of its workers count as well.
//!
//! Source: Curator's CURATOR-645. Under a permanent, one-way or partial partition, coordinators were elected in turn
//! forever.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::JobName;
use rosterd_domain::txn::Write;

use super::Invariant;
use crate::oracle::observer::AppliedStep;

const MOST: u32 = 2;

fn announces(step: &AppliedStep<'_>, job: &JobName) -> bool {
    step.before.jobs.get(job).is_some_and(|job| job.announces)
}

/// State: the sessions seen, and the elections of each job since the last change of the sessions.
#[derive(Default)]
pub struct LeadersSettle {
    known: BTreeSet<String>,
    elections: BTreeMap<JobName, u32>,
}

impl Invariant for LeadersSettle {
    fn name(&self) -> &'static str {
        "leaders_settle"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        let comes = self.known.insert(step.session.to_owned());
        let Some(txn) = step.txn.filter(|_| step.calm && !comes) else {
            self.elections.clear();
            return Ok(());
        };
        for write in &txn.writes {
            match write {
                Write::CreateJob { job, .. } => drop(self.elections.remove(job)),
                Write::Instance { job, .. } | Write::RemoveInstance(job, _) if announces(step, job) => {
                    self.elections.remove(job);
                }
                Write::Elect { job, coordinator, .. } => {
                    let elections = self.elections.entry(job.clone()).or_default();
                    *elections += 1;
                    if *elections > MOST {
                        return Err(format!(
                            "{coordinator} is elected for {job}: election {elections} since the set of coordinators last changed"
                        ));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
