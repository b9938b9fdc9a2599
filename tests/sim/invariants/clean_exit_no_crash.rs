//! An acknowledged goodbye causes no failover: no run of a worker that may go is in flight, or crashes later.
//!
//! Source: Elastic-Job #2090. Completed items ran again after restarts of pods, since everything that a worker owned
//! was taken for crashed.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::WorkerId;
use rosterd_domain::time::Time;
use rosterd_session::frame::ToWorker;

use super::Invariant;
use crate::oracle::observer::{AppliedStep, Shadow};

/// State: the worker of each process, and the workers that said goodbye.
#[derive(Default)]
pub struct CleanExitNoCrash {
    who: BTreeMap<String, WorkerId>,
    left: BTreeSet<WorkerId>,
}

impl Invariant for CleanExitNoCrash {
    fn name(&self) -> &'static str {
        "clean_exit_no_crash"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for change in step.changes {
            if let Some((run, ended)) = &change.ended
                && !ended.reported
                && self.left.contains(&run.worker)
            {
                let (item, job) = (change.item, &change.job);
                return Err(format!(
                    "item {item} of {job}: run {} of {} crashed after a clean leave",
                    ended.token, run.instance
                ));
            }
            if let Some((run, token)) = &change.started
                && self.left.contains(&run.worker)
            {
                return Err(format!("run {token} starts on {}, which has left", run.instance));
            }
        }
        Ok(())
    }

    fn heard(&mut self, process: &str, frame: &ToWorker, now: &Shadow, _: Time) -> Result<(), String> {
        match frame {
            ToWorker::Welcome(welcome) => {
                self.who.insert(process.to_owned(), welcome.worker.clone());
            }
            ToWorker::GoodbyeAck => {
                let Some(worker) = self.who.get(process).cloned() else { return Ok(()) };
                let in_flight = now
                    .records
                    .iter()
                    .find(|(_, record)| record.running().is_some_and(|run| run.worker == worker));
                self.left.insert(worker.clone());
                if let Some(((job, item), record)) = in_flight {
                    return Err(format!(
                        "{worker} may go while it runs item {item} of {job} ({})",
                        record.token
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
