//! What is a leader's to write is written by its session alone, an assignment at the epoch and the generation that it read,
//! and takes away the reshard flag that it read. Nobody is elected while somebody leads.
//!
//! Source: Curator's CURATOR-696 and CURATOR-498. Two leaders at once after a session that was reconnected, and writes of an
//! older session that arrived late and took the node of the new leader away.

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
        for write in step.txn.into_iter().flat_map(|txn| &txn.writes) {
            taken_or_unread(step, write)?;
        }
        let Some(txn) = step.txn.filter(|txn| txn.purpose.is_led()) else {
            return Ok(());
        };
        let Some(job) = crate::watch::job_of(txn) else { return Ok(()) };
        let Some(shadow) = step.before.jobs.get(job) else { return Ok(()) };
        let leads = shadow.leader.as_ref().or(shadow.deposed.as_ref());
        if leads.map(String::as_str) != Some(step.session) {
            return Err(format!("{} of {job} by {}, the leader is {:?}", txn.purpose, step.session, leads));
        }
        let epoch = txn.guards.iter().find_map(|guard| match guard {
            Guard::Epoch(of, epoch) if of == job => Some(epoch.0),
            _ => None,
        });
        // One that carries none is judged by what it does.
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

fn taken_or_unread(step: &Step<'_>, write: &Write) -> Result<(), String> {
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
            Err(format!("the reshard flag of {job} is taken away at version {read}, it is at {is:?}"))
        }
        _ => Ok(()),
    }
}
