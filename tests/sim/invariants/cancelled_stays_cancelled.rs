//! A cancelled run is never run again: not when its worker dies, not when it is handed back, and not by a coordinator
//! that has not noticed the cancel.
//!
//! Source: a trial of our own. The death of the worker undid an acknowledged cancel of a job with failover: the run
//! started again elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::item::Source;
use rosterd_domain::snapshot::Command;
use rosterd_domain::txn::Write;

use super::Invariant;
use crate::oracle::observer::AppliedStep;

/// State: the cancelled runs of each item.
#[derive(Default)]
pub struct CancelledStaysCancelled(BTreeMap<(JobName, Item), BTreeSet<Token>>);

impl Invariant for CancelledStaysCancelled {
    fn name(&self) -> &'static str {
        "cancelled_stays_cancelled"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for change in step.changes {
            let Some((run, token)) = &change.started else { continue };
            let Some(before) = change.before.as_ref().filter(|before| before.crashed().is_some()) else {
                continue;
            };
            let cancelled = self.0.get(&(change.job.clone(), change.item));
            if run.source == Source::Failover
                && cancelled.is_some_and(|tokens| tokens.contains(&before.token))
            {
                return Err(format!(
                    "item {} of {}: run {} was cancelled, and is run again as {token}",
                    change.item, change.job, before.token
                ));
            }
        }
        for write in step.txn.into_iter().flat_map(|txn| &txn.writes) {
            match write {
                Write::CreateJob { job, .. } => self.0.retain(|(of, _), _| of != job),
                Write::Command { job, command: Command::Cancel { item, token }, .. } => {
                    self.0.entry((job.clone(), *item)).or_default().insert(*token);
                }
                _ => {}
            }
        }
        Ok(())
    }
}
