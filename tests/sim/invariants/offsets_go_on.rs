//! A run begins with what the last run of its item left, whoever hosted that: each Trigger of the run that its record names
//! carries the offset that was written last.
//!
//! Source: found by reading. A host to which a worker came back had kept the offset of its own last run, and the work done at
//! another host since was done again, and its offset written over. Elastic-Job keeps offsets in `offset/{item}` for
//! dataflow jobs and reads them before each run.

use std::collections::BTreeMap;
use std::sync::Arc;

use rosterd_domain::id::{Item, JobName};
use rosterd_domain::time::Time;
use rosterd_domain::txn::Write;
use rosterd_session::frame::ToWorker;

use super::Invariant;
use crate::watch::{Shadow, Step};

/// Kept: the offsets.
#[derive(Default)]
pub struct OffsetsGoOn {
    left: BTreeMap<(JobName, Item), Arc<[u8]>>,
}

impl Invariant for OffsetsGoOn {
    fn name(&self) -> &'static str {
        "offsets_go_on"
    }

    fn applied(&mut self, step: &Step<'_>) -> Result<(), String> {
        for write in step.txn.into_iter().flat_map(|txn| &txn.writes) {
            match write {
                Write::Offset { job, item, data } => {
                    drop(self.left.insert((job.clone(), *item), data.clone()))
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
