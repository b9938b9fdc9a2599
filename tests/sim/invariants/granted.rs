//! A worker only has runs that it was assigned: each Trigger that is sent to a process, and each run that a process
//! reports in flight, is for a run that a committed record once assigned to a worker that the process is, or was.
//!
//! Source: Elastic-Job #491. A node that had lost its connection went on with the items that it remembered; a worker's
//! runs must be a subset of all grants ever made, since a run that was never granted could never be fenced.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::{Item, JobName, Token, WorkerId};
use rosterd_domain::time::Time;
use rosterd_session::frame::{FromWorker, RunRef, ToWorker};

use super::Invariant;
use crate::oracle::observer::{AppliedStep, Shadow};

/// State: the workers to which each run was ever assigned, and the workers that each process ever was.
#[derive(Default)]
pub struct Granted {
    given: BTreeMap<(JobName, Item, Token), WorkerId>,
    who: BTreeMap<String, BTreeSet<WorkerId>>,
}

impl Invariant for Granted {
    fn name(&self) -> &'static str {
        "granted"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for change in step.changes {
            let started = change.started.as_ref().map(|(run, _)| run);
            if let Some(run) = change.after.running().or(started) {
                let key = (change.job.clone(), change.item, change.after.token);
                let before = self.given.insert(key, run.worker.clone());
                if let Some(before) = before.filter(|before| *before != run.worker) {
                    return Err(format!(
                        "run {} of item {} of {} was given to {before}, and is to {}",
                        change.after.token, change.item, change.job, run.worker
                    ));
                }
            }
        }
        Ok(())
    }

    fn said(&mut self, process: &str, frame: &FromWorker) -> Result<(), String> {
        let in_flight = match frame {
            FromWorker::Hello(hello) => &hello.in_flight,
            FromWorker::Heartbeat { in_flight, .. } => in_flight,
            _ => return Ok(()),
        };
        in_flight.iter().try_for_each(|run| self.is_its_own(process, run, "has in flight"))
    }

    fn heard(&mut self, process: &str, frame: &ToWorker, _now: &Shadow, _: Time) -> Result<(), String> {
        match frame {
            ToWorker::Welcome(welcome) => {
                self.who.entry(process.to_owned()).or_default().insert(welcome.worker.clone());
                Ok(())
            }
            ToWorker::Trigger(trigger) => self.is_its_own(process, &trigger.run, "is sent"),
            _ => Ok(()),
        }
    }
}

impl Granted {
    fn is_its_own(&self, process: &str, run: &RunRef, does: &str) -> Result<(), String> {
        let given = self.given.get(&(run.job.clone(), run.item, run.token));
        let was = self.who.get(process);
        if given.is_some_and(|given| was.is_some_and(|was| was.contains(given))) {
            return Ok(());
        }
        Err(format!(
            "{process} (ever {was:?}) {does} run {} of item {} of {}, which was given to {given:?}",
            run.token, run.item, run.job
        ))
    }
}
