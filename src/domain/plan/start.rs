//! Starts whatever may start: crashed runs are offered to the instances with room for them, then each instance takes
//! its candidates in the order failover, misfire, fire, oldest first, as long as it has slots. Slots belong to the
//! worker: items of other jobs wait in the same order.

use super::draft::{Draft, Seat};
use super::waiting::{Class, StartKind, Waiting, Wanted};
use super::{Entry, due, overdue};
use crate::id::{Item, Token};
use crate::item::{ItemEvent, Record, Running, Source, State};
use crate::mutants;
use crate::snapshot::Stage;
use crate::time::Time;
use crate::txn::Write;

pub(super) fn start(draft: &mut Draft<'_>) {
    offer_crashed(draft);
    for seat in 0..draft.seats.len() {
        let mut wanted = std::mem::take(&mut draft.seats[seat].wanted);
        if draft.seats[seat].eligible {
            let mut left = draft.seats[seat].hosted.free;
            while !serve(draft, seat, &mut wanted, &mut left) {}
        }
        if !wanted.is_empty() && draft.seats[seat].eligible {
            let waiting = wanted.into_iter().map(|(waiting, _)| waiting).collect();
            draft.plan.waiting.insert(draft.seats[seat].instance.clone(), waiting);
        }
    }
}

/// Offers every crashed run, oldest first, to an instance that has a slot for it, preferably the one with the most
/// slots beyond those that others wait for; if there is no slot, the run waits for that instance. The next run of an
/// item that is in user code is offered once that has ended.
fn offer_crashed(draft: &mut Draft<'_>) {
    if !draft.job.rules.failover || !draft.seats.iter().any(|seat| seat.eligible) {
        return;
    }
    let crashed = |item: &Item, before: &Record| match draft.changed.get(item) {
        Some(changed) => changed.crashed().map(|crashed| crashed.fire),
        None => before.crashed().map(|crashed| crashed.fire),
    };
    let mut offered: Vec<Waiting> = draft
        .before
        .iter()
        .filter_map(|(item, (_, before))| Some((*item, crashed(item, before)?)))
        .filter(|(item, _)| draft.requeues(*item) && !draft.is_in_user_code(*item))
        .map(|(item, fire)| Waiting { class: Class::Failover, fire, job: draft.job.name.clone(), item })
        .collect();
    offered.sort();
    let mut room: Vec<i64> = draft.seats.iter().map(|seat| i64::from(seat.hosted.free)).collect();
    let misfires: Vec<i64> = draft.seats.iter().map(own_misfires).collect();
    for waiting in offered {
        let left = |at: usize| {
            let before = draft.seats[at].hosted.others.partition_point(|other| *other < waiting);
            let left = room[at] - i64::try_from(before).unwrap_or(i64::MAX);
            (left > 0, left - misfires[at])
        };
        let seats = (0..draft.seats.len()).filter(|at| draft.seats[*at].eligible);
        let Some(taker) = seats.max_by_key(|at| (left(*at), std::cmp::Reverse(*at))) else { return };
        room[taker] -= 1;
        draft.seats[taker].wanted.push((waiting, StartKind::Failover));
    }
}

/// The number of misfires that the instance's own items have.
fn own_misfires(seat: &Seat<'_>) -> i64 {
    let misfires = seat.wanted.iter().filter(|(waiting, _)| waiting.class == Class::Misfire).count();
    i64::try_from(misfires).unwrap_or(i64::MAX)
}

/// Starts candidates in order while there are slots; the rest stays in `wanted`. False: a scheduled time among the rest
/// has become a misfire, which has another place in the order.
fn serve(draft: &mut Draft<'_>, seat: usize, wanted: &mut Vec<Wanted>, left: &mut u32) -> bool {
    wanted.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut others = draft.seats[seat].hosted.others.iter().peekable();
    let (mut free, mut rest, mut settled) = (*left, Vec::new(), true);
    let mut queue = std::mem::take(wanted).into_iter();
    for (waiting, kind) in queue.by_ref() {
        while free > 0 && others.next_if(|other| **other < waiting).is_some() {
            free -= 1;
        }
        if draft.full(waiting.item) {
            rest.push((waiting, kind));
            break;
        }
        if free > 0 {
            if begin(draft, seat, &waiting, &kind) {
                free -= 1;
                *left -= 1;
            }
        } else if scheduled(&kind) && !draft.seats[seat].freed && due::superseded(draft, waiting.item) {
            rest.extend(due::candidate(draft, waiting.item));
            settled = false;
        } else {
            rest.push((waiting, kind));
        }
    }
    rest.extend(queue);
    *wanted = rest;
    settled || draft.plan.more
}

fn scheduled(kind: &StartKind) -> bool {
    matches!(kind, StartKind::Due | StartKind::Misfire)
}

pub(super) fn begin(draft: &mut Draft<'_>, seat: usize, waiting: &Waiting, kind: &StartKind) -> bool {
    let (facts, job, item) = (draft.facts, draft.job, waiting.item);
    let (instance, worker) = (draft.seats[seat].instance, &draft.seats[seat].hosted.worker);
    let (source, trigger) = match kind {
        StartKind::Due => (Source::NormalTrigger, None),
        StartKind::Misfire => (Source::Misfire, None),
        StartKind::Manual(id) => (Source::Manual, Some(id.clone())),
        StartKind::Failover => (Source::Failover, None),
    };
    let run = Running {
        fire: waiting.fire,
        source,
        instance: instance.clone(),
        worker: worker.clone(),
        since: facts.now,
        trigger,
        held: job.rules.holds_for_started() && is_to_be_announced(draft, item, source, waiting.fire),
        cancelled: false,
        deaths: match draft.record(item).and_then(Record::crashed) {
            Some(crashed) if source == Source::Failover => crashed.deaths,
            _ => 0,
        },
    };
    let event = if source == Source::Failover {
        ItemEvent::Claim(run.clone())
    } else {
        ItemEvent::Start(run.clone())
    };
    if !draft.apply(item, event, || format!("{source} of {} starts on {instance}", waiting.fire)) {
        return false;
    }
    draft.guard_generation();
    draft.guard_attachment(seat);
    mirror(draft, item, &run);
    let token = draft.record(item).map_or(Token::default(), |record| record.token);
    // Without monitorExecution no record keeps the run, and nobody takes it away.
    draft.look_at(overdue::times_out(job, &run).filter(|_| job.rules.monitor));
    draft.plan.entries.push(Entry::Started { item, token, run: run.clone() });
    if !job.rules.monitor {
        forget(draft, item, token, run);
    }
    // A scheduled time that became due at this very moment finds the item busy.
    if draft.seat(item).is_some() {
        due::settle(draft, item, !job.rules.monitor);
    }
    true
}

/// Whether the start of this fire is still to be announced. A run of it may have crashed while it was held.
fn is_to_be_announced(draft: &Draft<'_>, item: Item, source: Source, fire: Time) -> bool {
    match source {
        Source::NormalTrigger => true,
        Source::Failover if !mutants::is_on(mutants::CLAIMS_ARE_NOT_HELD) => {
            let known = draft.job.announced(Stage::Started);
            draft.record(item).and_then(Record::crashed).is_some_and(|crashed| crashed.held)
                && known.is_none_or(|known| known.fire < fire || known.fire == fire && !known.answered)
        }
        _ => false,
    }
}

fn mirror(draft: &mut Draft<'_>, item: Item, run: &Running) {
    let job = draft.name();
    let instance = Some(run.instance.clone());
    if draft.job.rules.monitor {
        draft.write(Write::Running { job: job.clone(), item, instance: instance.clone() });
    }
    if run.held {
        draft.write(Write::Started { job: job.clone(), item, present: true });
    }
    if draft.job.rules.guarantee_completed && run.source != Source::Manual {
        draft.write(Write::Completed { job: job.clone(), item, present: false });
    }
    match run.source {
        Source::Failover => {
            draft.write(Write::Failover { job: job.clone(), item, instance });
            draft.write(Write::FailoverItem { job, item, crashed: None });
        }
        Source::Manual if mutants::is_on(mutants::TRIGGER_STAYS) => {}
        Source::Manual => draft.write(Write::RemoveTrigger(job, item)),
        Source::NormalTrigger | Source::Misfire => {}
    }
}

/// Without monitorExecution the record does not keep the run: it is sent once, and its end is not awaited.
fn forget(draft: &mut Draft<'_>, item: Item, token: Token, run: Running) {
    if let Some(record) = draft.changed.get_mut(&item) {
        record.state = State::Idle;
    }
    draft.plan.unmonitored.push((item, token, run));
}
