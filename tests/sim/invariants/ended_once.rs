//! An ended run is not run again: no token starts twice, and a failover follows a run of its fire that crashed or was
//! handed back, never one that ended with an outcome.
//!
//! Source: Elastic-Job #2090 and #276. Completed items ran again when their owner left, and surplus failovers ran an
//! item after all had ended.

use std::collections::BTreeSet;

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::item::{Outcome, Source};

use super::Invariant;
use crate::oracle::observer::{AppliedStep, RecordChange};

/// State: every token that was started.
#[derive(Default)]
pub struct EndedOnce {
    started: BTreeSet<(JobName, Item, Token)>,
}

impl Invariant for EndedOnce {
    fn name(&self) -> &'static str {
        "ended_once"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for change in step.changes {
            let Some((run, token)) = &change.started else { continue };
            let of = format!("item {} of {}: run {token} of {}", change.item, change.job, run.fire);
            if !self.started.insert((change.job.clone(), change.item, *token)) {
                return Err(format!("{of}: its token is used a second time"));
            }
            if run.source == Source::Failover && !had_crashed(change, run.fire) {
                return Err(format!("{of} follows no crashed run of the fire"));
            }
        }
        Ok(())
    }
}

fn had_crashed(change: &RecordChange, fire: rosterd_domain::time::Time) -> bool {
    let before = change.before.as_ref();
    let waited = before.and_then(|before| before.crashed()).is_some_and(|crashed| crashed.fire == fire);
    let just_ended = change.ended.as_ref().is_some_and(|(old, ended)| {
        old.fire == fire && matches!(ended.outcome, Outcome::Crashed | Outcome::Cancelled)
    });
    waited || just_ended
}
