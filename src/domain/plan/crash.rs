//! The dead lose their runs: each record that names a worker whose attachment is gone is ended as crashed,
//! and with failover put up for a taker. Crashed runs to which failover no longer applies are given up.

use super::Entry;
use super::draft::Draft;
use crate::id::{Item, Token};
use crate::item::{Event, Outcome, Record, Running, Source};
use crate::mutants;
use crate::txn::{Guard, Write};

pub(super) fn crash(draft: &mut Draft<'_>) {
    let found: Vec<(Item, Token, Option<Running>)> = draft
        .before
        .iter()
        .filter(|(item, _)| !draft.changed.contains_key(item))
        .filter_map(|(item, (_, record))| match (record.running(), record.crashed()) {
            (Some(run), _) if is_dead(draft, run) => Some((*item, record.token, Some(run.clone()))),
            (None, None) if mutants::is_on(mutants::ENDED_ITEMS_CRASH) && draft.requeues(*item) => {
                let run = ended_of_the_dead(draft, record)?;
                Some((*item, record.token, Some(run)))
            }
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
    let absent =
        mutants::is_on(mutants::DEATH_BY_ABSENCE) && !draft.job.instances.contains_key(&run.instance);
    absent || draft.facts.dead.contains(&run.worker)
}

/// A run that ended and whose worker has died since: a bug that is put in has it run again.
fn ended_of_the_dead(draft: &Draft<'_>, record: &Record) -> Option<Running> {
    let last = record.last.as_ref().filter(|last| last.outcome != Outcome::Crashed)?;
    let worker = last.instance.worker().filter(|worker| draft.facts.dead.contains(worker))?;
    let (fire, source, instance) = (last.fire, last.source, last.instance.clone());
    Some(Running {
        fire,
        source,
        instance,
        worker,
        since: last.at,
        trigger: None,
        held: false,
        cancelled: false,
        deaths: 0,
    })
}

fn bury(draft: &mut Draft<'_>, item: Item, token: Token, run: Running) {
    let at = draft.facts.now;
    let requeue =
        draft.requeues(item) && draft.outlives(&run) && !mutants::is_on(mutants::VERDICT_FORGETS_FAILOVER);
    let event = Event::End { outcome: Outcome::Crashed, at, reported: false, requeue };
    if !draft
        .apply(item, event, || format!("{} of {} crashed: {} is dead", run.source, run.fire, run.instance))
    {
        return;
    }
    if !mutants::is_on(mutants::DEATH_BY_ABSENCE) {
        draft.guard(Guard::NoAttachment(run.worker.clone()));
    }
    clear_mirrors(draft, item, &run, requeue);
    if requeue {
        let job = draft.name();
        draft.write(Write::FailoverItem { job, item, crashed: Some((run.fire, token)) });
    } else {
        // The job may have been given failover meanwhile.
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
    if draft
        .apply(item, Event::GiveUp { at }, || "its crashed run is given up: failover does not apply".into())
    {
        draft.guard_generation();
        draft.write(Write::FailoverItem { job, item, crashed: None });
    }
}

/// A run's mirrors go with its end; that it has completed its fire is marked.
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
