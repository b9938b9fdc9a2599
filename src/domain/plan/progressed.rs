//! How far runs in flight have come is written down while they run, so that whoever runs an item again after a crash goes on
//! from there. The record that was read guards it: it is still this run's word, and no later one's.

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

/// How far a run has come that ends without saying so once more.
pub(super) fn of(draft: &Draft<'_>, item: Item, token: Token, worker: &WorkerId) -> Option<Arc<[u8]>> {
    let progressed = draft.facts.progressed.get(&item)?;
    (progressed.token == token && progressed.worker == *worker).then(|| progressed.offset.clone())
}
