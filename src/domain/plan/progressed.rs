//! Records the progress of runs in flight, so that an instance that runs an item again after a crash continues from
//! there. The version of the record that was read guards the write: the progress is of this run, and not of a later
//! one.

use std::sync::Arc;

use super::draft::Draft;
use crate::id::{Item, Token, WorkerId};
use crate::mutants;
use crate::txn::{Guard, Write};

pub(super) fn write(draft: &mut Draft<'_>) {
    if !draft.facts.writes_progressed || mutants::is_on(mutants::PROGRESS_IS_NOT_WRITTEN) {
        return;
    }
    for (item, progressed) in draft.facts.progressed {
        let running = draft.record(*item).filter(|record| record.token == progressed.token);
        if running.and_then(|record| record.running()).is_none_or(|run| run.worker != progressed.worker) {
            continue;
        }
        if draft.full_of_offsets() || !draft.has_room_for(progressed.offset.len()) {
            draft.plan.more = true;
            return;
        }
        let (job, item, data) = (draft.name(), *item, progressed.offset.clone());
        if let Some((version, _)) = draft.before.get(&item)
            && !mutants::is_on(mutants::PROGRESS_IS_UNGUARDED)
        {
            draft.guard(Guard::Record(job.clone(), item, *version));
        }
        draft.write(Write::Offset { job, item, data: data.clone() });
        draft.plan.offsets.push((item, data));
    }
}

/// The last progress of a run whose end came without an offset.
pub(super) fn of(draft: &Draft<'_>, item: Item, token: Token, worker: &WorkerId) -> Option<Arc<[u8]>> {
    let progressed = draft.facts.progressed.get(&item)?;
    (progressed.token == token && progressed.worker == *worker).then(|| progressed.offset.clone())
}
