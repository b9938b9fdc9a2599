//! A run that crashed in a job with failover waits to be run again: all of its items, not some. It stops waiting only
//! when it is run, when failover no longer applies to it, or when it is cancelled.
//!
//! Source: Elastic-Job #671, of a worker's three items that were taken over, one was run again; Saturn #630, a second
//! failover skipped what the first had left behind; Elastic-Job #669, failovers never came, since the check read a node
//! that was gone by then.

use super::Invariant;
use crate::oracle::observer::AppliedStep;
use rosterd_domain::item::Outcome;
use rosterd_domain::txn::Purpose;

/// Stateless: whether it is run in the end is judged when the world has settled.
#[derive(Default)]
pub struct CrashedRunsAreRunAgain;

impl Invariant for CrashedRunsAreRunAgain {
    fn name(&self) -> &'static str {
        "crashed_runs_are_run_again"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for change in step.changes {
            let Some(job) = step.before.jobs.get(&change.job) else { continue };
            let applies = job.failover
                && !job.disabled
                && change.item.0 < job.items
                && !job.sharding.disabled_items.contains(&change.item);
            let of = format!("item {} of {}", change.item, change.job);
            if let Some((run, ended)) = &change.ended {
                let taken = change.started.as_ref().is_some_and(|(again, _)| again.fire == run.fire);
                let waits = change.after.crashed().is_some_and(|crashed| crashed.fire == run.fire);
                if ended.outcome == Outcome::Crashed
                    && applies
                    && !run.cancelled
                    && run.deaths < 3
                    && !taken
                    && !waits
                {
                    return Err(format!("{of}: run {} crashed and will not be run again", ended.token));
                }
            }
            let waited = change.before.as_ref().and_then(|before| before.crashed());
            let cancels = step.txn.is_some_and(|txn| txn.purpose == Purpose::Command);
            if let (Some(crashed), true) = (waited, applies && !cancels)
                && change.after.crashed().is_none()
                && change.started.as_ref().is_none_or(|(run, _)| run.fire != crashed.fire)
            {
                return Err(format!("{of}: the crashed run of {} is given up", crashed.fire));
            }
        }
        Ok(())
    }
}
