//! An assignment is written by the leader's session alone, at the epoch and the generation that it read.

use rosterd_domain::txn::{Guard, Write};

use super::Invariant;
use crate::watch::Step;

/// Nothing is kept.
#[derive(Default)]
pub struct OneLeaderWrites;

impl Invariant for OneLeaderWrites {
    fn name(&self) -> &'static str {
        "one_leader_writes"
    }

    fn applied(&mut self, step: &Step<'_>) -> Result<(), String> {
        let Some(txn) = step.txn.filter(|txn| matches!(txn.purpose, "assign" | "records" | "mirrors")) else {
            return Ok(());
        };
        let Some(job) = crate::watch::job_of(txn) else { return Ok(()) };
        let Some(shadow) = step.before.jobs.get(job) else { return Ok(()) };
        if shadow.leader.as_deref() != Some(step.session) {
            return Err(format!(
                "{} of {job} by {}, the leader is {:?}",
                txn.purpose, step.session, shadow.leader
            ));
        }
        let epoch = txn.guards.iter().find_map(|guard| match guard {
            Guard::Epoch(of, epoch) if of == job => Some(epoch.0),
            _ => None,
        });
        if epoch != Some(shadow.epoch) {
            return Err(format!("{} of {job} at epoch {epoch:?}, it is {}", txn.purpose, shadow.epoch));
        }
        for write in &txn.writes {
            if let Write::Assignment { expect, .. } = write
                && expect.0 != shadow.generation
            {
                return Err(format!("plan of {job} at generation {expect}, it is {}", shadow.generation));
            }
        }
        Ok(())
    }
}
