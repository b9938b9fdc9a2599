//! A run starts with the offset of the item's last run, whichever coordinator hosted that: each Trigger of the run that
//! its record names carries the offset that was written last. An offset that a run reports while it runs is written
//! only while it is the item's run, and never over that of a later one.
//!
//! Source: found by reading the code. A host to which a worker came back had kept the offset of its own last run; the
//! work done at another host since was repeated, and its offset overwritten. Elastic-Job keeps offsets in
//! `offset/{item}` for dataflow jobs and reads them before each run.

use std::collections::BTreeMap;
use std::sync::Arc;

use rosterd_domain::id::{Item, JobName};
use rosterd_domain::time::Time;
use rosterd_domain::txn::Write;
use rosterd_session::frame::ToWorker;

use super::Invariant;
use crate::oracle::observer::{AppliedStep, Shadow};

/// State: the offsets.
#[derive(Default)]
pub struct OffsetsGoOn {
    left: BTreeMap<(JobName, Item), Arc<[u8]>>,
}

/// The run that reported it: honest workers use the number of their run.
fn said_by(offset: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(offset).ok()?;
    text.split(',').next()?.parse().ok()
}

impl Invariant for OffsetsGoOn {
    fn name(&self) -> &'static str {
        "offsets_go_on"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for write in step.txn.into_iter().flat_map(|txn| &txn.writes) {
            match write {
                Write::Offset { job, item, data } => {
                    let of = (job.clone(), *item);
                    let record = step.before.records.get(&of);
                    let runs =
                        record.filter(|record| record.running().is_some()).map(|record| record.token.0);
                    if let Some(token) = said_by(data).filter(|token| runs.is_some_and(|runs| runs != *token))
                    {
                        return Err(format!(
                            "the offset of item {item} of {job} is by run {token}, {runs:?} is in flight"
                        ));
                    }
                    self.left.insert(of, data.clone());
                }
                Write::CreateJob { job, .. } => self.left.retain(|(other, _), _| other != job),
                _ => {}
            }
        }
        Ok(())
    }

    fn heard(&mut self, process: &str, frame: &ToWorker, now: &Shadow, _: Time) -> Result<(), String> {
        let ToWorker::Trigger(trigger) = frame else { return Ok(()) };
        let of = (trigger.run.job.clone(), trigger.run.item);
        let record = now.records.get(&of).filter(|record| record.token == trigger.run.token);
        if record.and_then(|record| record.running()).is_none() {
            return Ok(());
        }
        let left: &[u8] = self.left.get(&of).map_or(&[], |left| left);
        if *trigger.offset == *left {
            return Ok(());
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Err(format!(
            "{process} is to begin item {} of {} from {:?}, and the last run left {:?}",
            of.1,
            of.0,
            text(&trigger.offset),
            text(left)
        ))
    }
}
