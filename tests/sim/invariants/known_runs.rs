//! No item stays running longer than its worker knows of the run: its host ends a run that was sent again and again and
//! that no heartbeat names, and only such a run.
//!
//! Source: a client that dropped a Trigger because of its token kept the item forever: neither cancel nor disable freed
//! it. XXL-JOB #1999 and PowerJob #565, instances that ran forever since their worker forgot them.

use std::collections::BTreeMap;
use std::time::Duration;

use rosterd_domain::id::{Item, JobName, Token, WorkerId};
use rosterd_domain::item::Outcome;
use rosterd_domain::time::Time;
use rosterd_domain::txn::Guard;
use rosterd_session::frame::{FromWorker, RunRef, ToWorker};

use super::Invariant;
use crate::oracle::observer::{AppliedStep, Shadow};

/// Five times for three heartbeats, each found with the next one, and a write; the longest heartbeat of a world is a second.
const BOUND: Duration = Duration::from_secs(30);

/// State: the worker of each process, and since when it does not name a run that its record assigns to it.
#[derive(Default)]
pub struct KnownRuns {
    who: BTreeMap<String, WorkerId>,
    unnamed: BTreeMap<(JobName, Item, Token), (WorkerId, Time)>,
    calm_since: Option<Time>,
}

impl Invariant for KnownRuns {
    fn name(&self) -> &'static str {
        "known_runs"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        if step.calm {
            self.calm_since.get_or_insert(step.at);
        }
        for change in step.changes {
            let Some((run, ended)) = &change.ended else { continue };
            let key = (change.job.clone(), change.item, ended.token);
            let unnamed = self.unnamed.remove(&key).is_some();
            let guards = step.txn.map(|txn| &txn.guards[..]).unwrap_or_default();
            let spoken_for = guards
                .iter()
                .any(|guard| matches!(guard, Guard::Attachment(worker, _) if *worker == run.worker));
            // One that timed out is taken away, named or not.
            let forgotten = ended.outcome == Outcome::Crashed && !ended.reported && spoken_for;
            if forgotten && !unnamed {
                return Err(format!(
                    "item {} of {}: run {} is ended as one that {} never named, which did",
                    change.item, change.job, ended.token, run.instance
                ));
            }
        }
        Ok(())
    }

    fn said(&mut self, process: &str, frame: &FromWorker) -> Result<(), String> {
        if let (FromWorker::Hello(_), Some(worker)) = (frame, self.who.get(process)) {
            self.unnamed.retain(|_, (of, _)| of != worker);
        }
        Ok(())
    }

    fn heard(&mut self, process: &str, frame: &ToWorker, _now: &Shadow, _: Time) -> Result<(), String> {
        if let ToWorker::Welcome(welcome) = frame {
            self.who.insert(process.to_owned(), welcome.worker.clone());
        }
        Ok(())
    }

    fn beat(&mut self, process: &str, in_flight: &[RunRef], now: &Shadow, at: Time) -> Result<(), String> {
        let Some(worker) = self.who.get(process) else { return Ok(()) };
        for ((job, item), record) in &now.records {
            let Some(run) = record.running().filter(|run| run.worker == *worker && !run.held) else {
                continue;
            };
            let key = (job.clone(), *item, record.token);
            if in_flight.iter().any(|held| (&held.job, held.item, held.token) == (job, *item, record.token)) {
                self.unnamed.remove(&key);
                continue;
            }
            let (_, since) = self.unnamed.entry(key).or_insert((worker.clone(), at));
            let since = self.calm_since.map(|calm| calm.max(*since));
            if since.is_some_and(|since| at.since(since) > BOUND) {
                return Err(format!(
                    "item {item} of {job}: {} has named run {} in no heartbeat for {BOUND:?}",
                    run.instance, record.token
                ));
            }
        }
        Ok(())
    }
}
