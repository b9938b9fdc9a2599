//! Reports end runs. A report whose token is not that of the run in flight changes nothing here: its keeper sees from
//! the record that it came too late.

use super::draft::Draft;
use super::{Entry, Report, Reported, progressed};
use crate::id::Item;
use crate::item::{ItemEvent, Outcome};
use crate::mutants;
use crate::txn::{Guard, Write};

pub(super) fn complete(draft: &mut Draft<'_>) {
    let reports = draft.facts.reports;
    for (item, report) in reports {
        if !end(draft, *item, report) {
            return;
        }
    }
}

/// Returns false if the transaction is full.
fn end(draft: &mut Draft<'_>, item: Item, report: &Report) -> bool {
    let Some(record) = draft.record(item) else { return true };
    let Some(run) = record.running().cloned() else { return true };
    let token = record.token;
    let other = token != report.token && !mutants::is_on(mutants::REPORT_TOKEN_UNCHECKED);
    if other || run.worker != report.worker {
        return true;
    }
    if report.ended == Reported::Skipped && !run.held {
        return true;
    }
    let left = report.offset.clone().or_else(|| progressed::of(draft, item, token, &run.worker));
    if draft.full(item) || !draft.has_room_for(left.as_ref().map_or(0, |left| left.len())) {
        return false;
    }
    let (outcome, again) = match report.ended {
        Reported::Done(outcome) => (outcome, false),
        Reported::Aborted if mutants::is_on(mutants::ABORTED_IS_FAILED) => (Outcome::Failed, false),
        Reported::Aborted | Reported::NotStarted | Reported::Forgotten(_) => (Outcome::Crashed, true),
        Reported::HandedBack | Reported::HandedBackByHost(_) => (Outcome::Cancelled, true),
        Reported::Skipped => (Outcome::Cancelled, false),
    };
    if let Ok(seat) = draft.seats.binary_search_by(|seat| seat.instance.cmp(&run.instance)) {
        draft.seats[seat].freed = true;
    }
    let at = draft.facts.now;
    let reported = !matches!(report.ended, Reported::Forgotten(_));
    let requeue = again && draft.requeues(item) && (reported || draft.outlives(&run));
    let event = ItemEvent::End { outcome, at, reported, requeue };
    let why = || match report.ended {
        Reported::Skipped => format!("{} of {} is skipped: it was held", run.source, run.fire),
        Reported::Forgotten(_) => {
            format!("{} of {} crashed: {} never named it", run.source, run.fire, run.instance)
        }
        _ => format!("{} of {} {outcome}, {} reports", run.source, run.fire, run.instance),
    };
    if !draft.apply(item, event, why) {
        return true;
    }
    if let Some(attachment) = report.ended.spoken_for() {
        // Another host may have the worker meanwhile, and may have had the run started there.
        draft.guard(Guard::Attachment(run.worker.clone(), attachment));
    }
    if again && !requeue {
        // Failover may have been switched on meanwhile.
        draft.guard_generation();
    }
    let job = draft.name();
    super::crash::clear_mirrors(draft, item, &run, requeue);
    if requeue {
        draft.write(Write::FailoverItem { job: job.clone(), item, crashed: Some((run.fire, token)) });
    }
    if let Some(data) = left {
        draft.write(Write::Offset { job, item, data });
    }
    draft.plan.entries.push(Entry::Ended { item, token, run, outcome, at, requeued: requeue });
    true
}
