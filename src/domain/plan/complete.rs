//! Reports end runs. A report whose token is not the run in flight changes nothing here: who keeps it sees
//! from the record that it came too late.

use super::{Draft, Entry, Report, Reported};
use crate::id::Item;
use crate::item::{Event, Outcome, Source};
use crate::txn::Write;

pub(super) fn complete(draft: &mut Draft<'_>) {
    let reports = draft.facts.reports;
    for (item, report) in reports {
        if draft.full() {
            return;
        }
        end(draft, *item, report);
    }
}

fn end(draft: &mut Draft<'_>, item: Item, report: &Report) {
    let Some(record) = draft.record(item) else { return };
    let Some(run) = record.running().cloned() else { return };
    let token = record.token;
    if token != report.token || run.worker != report.worker {
        return;
    }
    let (outcome, again) = match report.ended {
        Reported::Done(outcome) => (outcome, false),
        Reported::Aborted | Reported::NotStarted => (Outcome::Crashed, true),
        Reported::HandedBack => (Outcome::Cancelled, true),
    };
    let requeue = again && draft.requeues(item);
    let at = draft.facts.now;
    let event = Event::End { outcome, at, reported: true, requeue };
    if !draft.apply(item, event, || {
        format!("{} reported {outcome} by {}", super::named(run.source, run.fire), run.instance)
    }) {
        return;
    }
    let job = draft.job.name.clone();
    super::crash::clear_mirrors(draft, item, run.source == Source::Failover);
    if requeue {
        draft.write(Write::FailoverItem { job: job.clone(), item, crashed: Some((run.fire, token)) });
    }
    if let Some(data) = report.offset.clone() {
        draft.write(Write::Offset { job, item, data });
    }
    draft.plan.entries.push(Entry::Ended { item, token, run, outcome, at, requeued: requeue });
}
