//! Records never give a worker more runs than it has slots.
//!
//! Source: PowerJob #661. Dozens of launches while the store was slow, since runs in flight were not counted.

use std::collections::BTreeMap;

use super::Invariant;
use crate::oracle::observer::AppliedStep;
use rosterd_domain::id::WorkerId;
use rosterd_domain::txn::Write;

/// State: the slots that each worker stated.
#[derive(Default)]
pub struct Slots {
    stated: BTreeMap<WorkerId, u32>,
}

impl Invariant for Slots {
    fn name(&self) -> &'static str {
        "slots"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for write in step.txn.into_iter().flat_map(|txn| &txn.writes) {
            if let Write::Instance { instance, node, .. } = write
                && let Some(worker) = instance.worker()
            {
                self.stated.insert(worker, node.slots);
            }
        }
        for change in step.changes {
            let Some((run, _)) = &change.started else { continue };
            let Some(slots) = self.stated.get(&run.worker) else { continue };
            let others = step.before.records.iter().filter(|(key, record)| {
                let here = step.changes.iter().any(|other| (&other.job, other.item) == (&key.0, key.1));
                !here && record.running().is_some_and(|other| other.worker == run.worker)
            });
            let here = step
                .changes
                .iter()
                .filter(|other| other.after.running().is_some_and(|other| other.worker == run.worker));
            let taken = others.count() + here.count();
            if taken > *slots as usize {
                return Err(format!("{} is given {taken} runs and has {slots} slots", run.instance));
            }
        }
        Ok(())
    }
}
