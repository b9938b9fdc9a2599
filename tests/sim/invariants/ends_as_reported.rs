//! A run ends as its worker reported, and only once it reported: an aborted run is not taken for ended, and no report
//! ends another run than its own. (A worker that said goodbye has handed back the runs that it did not report.)
//!
//! Source: PowerJob #1104. A run has one outcome; late reports of an older run made failed ones succeed, and others run
//! forever.

use std::collections::BTreeMap;

use rosterd_domain::id::{Item, JobName, Token, WorkerId};
use rosterd_domain::item::Outcome;
use rosterd_domain::plan::Reported;
use rosterd_domain::time::Time;
use rosterd_session::frame::{FromWorker, ToWorker};

use super::Invariant;
use crate::oracle::observer::{AppliedStep, Shadow};

/// State: the reports of each run, and the workers that said goodbye.
#[derive(Default)]
pub struct EndsAsReported {
    who: BTreeMap<String, WorkerId>,
    said: BTreeMap<(JobName, Item, Token), Vec<Reported>>,
    left: Vec<WorkerId>,
}

impl Invariant for EndsAsReported {
    fn name(&self) -> &'static str {
        "ends_as_reported"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for change in step.changes {
            let Some((run, ended)) = change.ended.as_ref().filter(|(_, ended)| ended.reported) else {
                continue;
            };
            let key = (change.job.clone(), change.item, ended.token);
            let said = self.said.get(&key).map(Vec::as_slice).unwrap_or_default();
            // A held fire without an answer is skipped by policy: its worker never received it.
            let skipped = run.held && ended.outcome == Outcome::Cancelled;
            let left = skipped || self.left.contains(&run.worker) && ended.outcome == Outcome::Cancelled;
            if !left && !said.iter().any(|said| means(*said) == ended.outcome) {
                return Err(format!(
                    "item {} of {}: run {} ends {}, but {} reported {said:?}",
                    change.item, change.job, ended.token, ended.outcome, run.instance
                ));
            }
        }
        Ok(())
    }

    fn said(&mut self, process: &str, frame: &FromWorker) -> Result<(), String> {
        match frame {
            FromWorker::RunCompleted(completed) => {
                let run = completed.run.clone();
                self.said.entry((run.job, run.item, run.token)).or_default().push(completed.ended);
            }
            FromWorker::Goodbye => self.left.extend(self.who.get(process).cloned()),
            _ => {}
        }
        Ok(())
    }

    fn heard(&mut self, process: &str, frame: &ToWorker, _now: &Shadow, _: Time) -> Result<(), String> {
        if let ToWorker::Welcome(welcome) = frame {
            self.who.insert(process.to_owned(), welcome.worker.clone());
        }
        Ok(())
    }
}

fn means(said: Reported) -> Outcome {
    match said {
        Reported::Done(outcome) => outcome,
        Reported::Aborted | Reported::NotStarted | Reported::Forgotten(_) => Outcome::Crashed,
        Reported::HandedBack | Reported::HandedBackByHost(_) | Reported::Skipped => Outcome::Cancelled,
    }
}
