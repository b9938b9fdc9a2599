//! Once faults have stopped and nobody comes or goes among the coordinators, leaderships come to rest: of each job at most
//! two elections follow, one by who is second where the first does not come, and one for the first. Of a job whose fires
//! are announced to a worker the leader must be the host of one: there the coming and going of its workers counts as well.
//!
//! Source: Curator's CURATOR-645. Parted for ever, one way or in part, coordinators were elected in turn without end.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::JobName;
use rosterd_domain::txn::Write;

use super::Invariant;
use crate::watch::Step;

const MOST: u32 = 2;

fn announces(step: &Step<'_>, job: &JobName) -> bool {
    step.before.jobs.get(job).is_some_and(|job| job.announces)
}

/// Kept: the sessions that were heard of, and the elections of each job since the last came or went.
#[derive(Default)]
pub struct LeadersSettle {
    known: BTreeSet<String>,
    elections: BTreeMap<JobName, u32>,
}

impl Invariant for LeadersSettle {
    fn name(&self) -> &'static str {
        "leaders_settle"
    }

    fn applied(&mut self, step: &Step<'_>) -> Result<(), String> {
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
                            "{coordinator} is elected for {job}, the {elections}th since any coordinator came or went"
                        ));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
