//! Takes away a run that exceeds its timeout by a grace: its record says that it timed out, whatever its worker does.
//! The worker was told to stop it at the timeout, and usually has reported by then.

use super::Entry;
use super::draft::Draft;
use crate::id::{Item, Version};
use crate::item::{ItemEvent, Outcome, Running};
use crate::mutants;
use crate::time::Time;
use crate::txn::Guard;
use crate::view::Job;

/// When a run exceeds its timeout; `None`: it has none.
pub fn times_out(job: &Job, run: &Running) -> Option<Time> {
    let policy = job.spec.policy();
    // A held run begins once its start has been announced, and no record shows when that was.
    let held =
        if job.rules.holds_for_started() { policy.guarantee.timeout * 2 } else { std::time::Duration::ZERO };
    Some(run.since.max(run.fire).plus(policy.run_timeout? + held))
}

pub(super) fn overdue(draft: &mut Draft<'_>) {
    if draft.job.spec.policy().run_timeout.is_none() {
        return;
    }
    let running: Vec<(Item, Running)> = draft
        .before
        .iter()
        .filter(|(item, _)| !draft.changed.contains_key(item))
        .filter_map(|(item, (_, record))| Some((*item, record.running()?.clone())))
        .collect();
    for (item, run) in running {
        let Some(attachment) = attachment(draft, &run) else { continue };
        let Some(at) = times_out(draft.job, &run) else { continue };
        let (now, last) = (draft.facts.now, at.plus(draft.facts.timeout_grace));
        if now < last {
            // At the first time its worker is told to stop it, and at the second the run is taken away.
            draft.look_at(Some(if now < at { at } else { last }));
        } else if draft.full(item) {
            return;
        } else if !mutants::is_on(mutants::OVERDUE_RUNS_STAY) {
            take_away(draft, item, run, attachment);
        }
    }
}

/// The attachment of a run's worker, if it is attached here and may be alive.
fn attachment(draft: &Draft<'_>, run: &Running) -> Option<Version> {
    let hosted = draft.facts.hosted.get(&run.instance)?;
    (hosted.worker == run.worker && !draft.facts.dead.contains(&run.worker)).then_some(hosted.attachment)
}

fn take_away(draft: &mut Draft<'_>, item: Item, run: Running, attachment: Version) {
    let (at, outcome) = (draft.facts.now, Outcome::TimedOut);
    let token = draft.record(item).map_or_else(Default::default, |record| record.token);
    let event = ItemEvent::End { outcome, at, reported: false, requeue: false };
    if !draft.apply(item, event, || format!("{} of {} timed out on {}", run.source, run.fire, run.instance)) {
        return;
    }
    // The worker may be attached to another host meanwhile, which gets its report.
    draft.guard(Guard::Attachment(run.worker.clone(), attachment));
    super::crash::clear_mirrors(draft, item, &run, false);
    if !mutants::is_on(mutants::TAKEN_AWAY_IS_FREE) {
        draft.taken_away.insert(item);
    }
    draft.plan.entries.push(Entry::Ended { item, token, run, outcome, at, requeued: false });
}
