//! A worker that lost a right is told to stop, and no other is: a worker is marked dead only once the attachment is
//! gone, and a Cancel with the reason fenced never names a run that its receiver has in flight by the records. (The
//! other consequences of a lost right are `right_to_start`, `one_stream` and `tokens_grow`.)
//!
//! Source: Elastic-Job #687 and #1857. The nodes of a session ended while its owner was alive, and its work was taken
//! for crashed, or for shut down.

use std::collections::BTreeMap;

use rosterd_domain::id::WorkerId;
use rosterd_domain::time::Time;
use rosterd_domain::txn::Guard;
use rosterd_session::frame::{CancelReason, RunRef, ToWorker};

use super::Invariant;
use crate::oracle::observer::{AppliedStep, Shadow};

/// State: the worker of each process.
#[derive(Default)]
pub struct Fenced {
    who: BTreeMap<String, WorkerId>,
}

impl Invariant for Fenced {
    fn name(&self) -> &'static str {
        "fenced"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for change in step.changes {
            // A host may report, for a worker of its own, that it does not know a run: see `known_runs`.
            let spoken_for = |worker: &WorkerId| {
                let guards = step.txn.map(|txn| &txn.guards[..]).unwrap_or_default();
                guards.iter().any(|guard| matches!(guard, Guard::Attachment(of, _) if of == worker))
            };
            if let Some((run, ended)) = change.ended.as_ref().filter(|(_, ended)| !ended.reported)
                && step.before.attachments.contains_key(&run.worker)
                && !spoken_for(&run.worker)
            {
                return Err(format!(
                    "item {} of {}: run {} crashed while {} is attached",
                    change.item, change.job, ended.token, run.instance
                ));
            }
        }
        Ok(())
    }

    fn heard(&mut self, process: &str, frame: &ToWorker, now: &Shadow, _: Time) -> Result<(), String> {
        match frame {
            ToWorker::Welcome(welcome) => {
                self.who.insert(process.to_owned(), welcome.worker.clone());
                Ok(())
            }
            ToWorker::Cancel { run, reason: CancelReason::Fenced, .. } => {
                self.rightly_fenced(process, run, now)
            }
            _ => Ok(()),
        }
    }
}

impl Fenced {
    fn rightly_fenced(&self, process: &str, run: &RunRef, now: &Shadow) -> Result<(), String> {
        let record = now.records.get(&(run.job.clone(), run.item)).filter(|record| record.token == run.token);
        let holder = record.and_then(|record| record.running()).map(|run| &run.worker);
        if holder.is_none() || holder != self.who.get(process) {
            return Ok(());
        }
        Err(format!(
            "{process} is told to stop run {} of item {} of {}, which it still owns",
            run.token, run.item, run.job
        ))
    }
}
