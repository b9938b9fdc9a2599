//! Runs of dead workers end: each record that names a worker whose attachment is gone is ended as crashed, and with
//! failover it is offered to another instance. Crashed runs to which failover no longer applies are given up.

use super::Entry;
use super::draft::Draft;
use crate::id::{Item, Token};
use crate::item::{ItemEvent, Outcome, Running, Source};
use crate::mutants;
use crate::txn::{Guard, Write};

pub(super) fn crash(draft: &mut Draft<'_>) {
    let found: Vec<(Item, Token, Option<Running>)> = draft
        .before
        .iter()
        .filter(|(item, _)| !draft.changed.contains_key(item))
        .filter_map(|(item, (_, record))| match (record.running(), record.crashed()) {
            (Some(run), _) if is_dead(draft, run) => Some((*item, record.token, Some(run.clone()))),
            (_, Some(_)) if !draft.requeues(*item) => Some((*item, record.token, None)),
            _ => None,
        })
        .collect();
    for (item, token, run) in found {
        if draft.full(item) {
            return;
        }
        match run {
            Some(run) => bury(draft, item, token, run),
            None => give_up(draft, item),
        }
    }
}

fn is_dead(draft: &Draft<'_>, run: &Running) -> bool {
    draft.facts.dead.contains(&run.worker)
}

fn bury(draft: &mut Draft<'_>, item: Item, token: Token, run: Running) {
    let at = draft.facts.now;
    let requeue =
        draft.requeues(item) && draft.outlives(&run) && !mutants::is_on(mutants::EXPIRY_FORGETS_FAILOVER);
    let event = ItemEvent::End { outcome: Outcome::Crashed, at, reported: false, requeue };
    if !draft
        .apply(item, event, || format!("{} of {} crashed: {} is dead", run.source, run.fire, run.instance))
    {
        return;
    }
    draft.guard(Guard::NoAttachment(run.worker.clone()));
    clear_mirrors(draft, item, &run, requeue);
    if requeue {
        let job = draft.name();
        draft.write(Write::FailoverItem { job, item, crashed: Some((run.fire, token)) });
    } else {
        // Failover may have been switched on meanwhile.
        draft.guard_generation();
    }
    draft.plan.entries.push(Entry::Ended {
        item,
        token,
        run,
        outcome: Outcome::Crashed,
        at,
        requeued: requeue,
    });
}

fn give_up(draft: &mut Draft<'_>, item: Item) {
    let at = draft.facts.now;
    let job = draft.name();
    if draft.apply(item, ItemEvent::GiveUp { at }, || {
        "its crashed run is given up: failover does not apply".into()
    }) {
        draft.guard_generation();
        draft.write(Write::FailoverItem { job, item, crashed: None });
    }
}

/// Removes the mirrors of a run that ends; marks that it has completed its fire.
pub(super) fn clear_mirrors(draft: &mut Draft<'_>, item: Item, run: &Running, again: bool) {
    let job = draft.name();
    draft.write(Write::Running { job: job.clone(), item, instance: None });
    if run.source == Source::Failover && !mutants::is_on(mutants::FAILOVER_LEFT_BEHIND) {
        draft.write(Write::Failover { job: job.clone(), item, instance: None });
    }
    if run.held {
        draft.write(Write::Started { job: job.clone(), item, present: false });
    }
    if draft.job.rules.guarantee_completed && run.source != Source::Manual && !again {
        draft.write(Write::Completed { job, item, present: true });
    }
}
