//! Only the leader's session writes the leader's nodes, an assignment at the epoch and the generation that it read, and
//! it clears only the reshard flag that it read. No coordinator is elected while another leads.
//!
//! Source: Curator's CURATOR-696 and CURATOR-498. Two leaders at once after a reconnected session, and late writes of
//! an older session that removed the node of the new leader.

use rosterd_domain::txn::{Guard, Write};

use super::Invariant;
use crate::oracle::observer::AppliedStep;

/// Stateless.
#[derive(Default)]
pub struct OneLeaderWrites;

impl Invariant for OneLeaderWrites {
    fn name(&self) -> &'static str {
        "one_leader_writes"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for write in step.txn.into_iter().flat_map(|txn| &txn.writes) {
            taken_or_unread(step, write)?;
        }
        let Some(txn) = step.txn.filter(|txn| txn.purpose.is_led()) else {
            return Ok(());
        };
        let Some(job) = crate::oracle::observer::job_of(txn) else { return Ok(()) };
        let Some(shadow) = step.before.jobs.get(job) else { return Ok(()) };
        let leads = shadow.leader.as_ref().or(shadow.deposed.as_ref());
        if leads.map(String::as_str) != Some(step.session) {
            return Err(format!("{} of {job} by {}, the leader is {:?}", txn.purpose, step.session, leads));
        }
        let epoch = txn.guards.iter().find_map(|guard| match guard {
            Guard::Epoch(of, epoch) if of == job => Some(epoch.0),
            _ => None,
        });
        // A write without an epoch is judged by its effect.
        if epoch.is_some_and(|epoch| epoch != shadow.epoch) {
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

fn taken_or_unread(step: &AppliedStep<'_>, write: &Write) -> Result<(), String> {
    match write {
        Write::Elect { job, coordinator, .. } => {
            let leader = step.before.jobs.get(job).and_then(|shadow| shadow.leader.as_ref());
            leader.map_or(Ok(()), |leader| {
                Err(format!("{coordinator} is elected for {job}, which {leader} leads"))
            })
        }
        Write::ClearNecessary(job, read) => {
            let is = step.before.jobs.get(job).and_then(|shadow| shadow.necessary);
            if is == Some(read.0) {
                return Ok(());
            }
            Err(format!("the reshard flag of {job} is removed at version {read}, but is at {is:?}"))
        }
        _ => Ok(()),
    }
}
