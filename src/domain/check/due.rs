//! Nothing is left undone or forgotten: valid reports and deaths are handled, scheduled times that can be started or
//! settled are, and the timer is set early enough.

use super::Case;
use crate::id::Item;
use crate::item::{Record, Running, State};
use crate::plan::times_out;
use crate::time::Time;

pub(super) fn check(case: &mut Case<'_>) {
    for item in case.items() {
        let (Some((_, before)), Some(after)) = (case.before.get(&item), case.after(item)) else { continue };
        if let Some(run) = before.running() {
            let reported = case.report_of(item, before.token, run).is_some();
            let over = reported || case.facts.dead.contains(&run.worker) || is_overdue(case, run);
            let ended = after.counters.ended() > before.counters.ended();
            case.expect(!over || ended, item, || "its run is over, but is not ended".into());
        }
        let stuck = after.crashed().is_some() && !case.fails_over(item);
        case.expect(!stuck, item, || "its crashed run waits although failover does not apply".into());
        if case.accounts_for(item) && !case.facts.no_starts {
            settled(case, item, after);
        }
    }
    if let Some(next) = case.plan.next {
        let now = case.facts.now;
        case.expect(next > now, None, || format!("the calendar is asked to look at {next}, now is {now}"));
    }
}

/// Whether a run of a worker attached here has exceeded its timeout and the grace.
fn is_overdue(case: &Case<'_>, run: &Running) -> bool {
    let facts = case.facts;
    let here = facts.hosted.get(&run.instance).is_some_and(|hosted| hosted.worker == run.worker);
    let late = times_out(case.job, run).is_some_and(|at| at.plus(facts.timeout_grace) <= facts.now);
    here && late && !facts.no_starts
}

fn settled(case: &mut Case<'_>, item: Item, after: &Record) {
    let (job, now) = (case.job, case.facts.now);
    let overdue = case.next_due(after, after.last_fire).filter(|due| *due <= now);
    if let Some(due) = overdue {
        let in_gap = job.sharding.gap_of(item, due).is_some();
        case.expect(!in_gap, item, || format!("{due} lies in a gap and is not recorded"));
    }
    if case.disabled(item) {
        return;
    }
    let busy = case.in_user_code(item) || case.plan.unmonitored.iter().any(|(started, ..)| *started == item);
    if !job.paused {
        looked_for(case, item, after, overdue);
        if let Some(due) = overdue {
            let old = due.plus(job.rules.catch_up) < now;
            let waits = match &after.state {
                State::Running(run) => due < run.since && !old,
                State::Crashed(_) => false,
                State::Idle => !old && !busy,
            };
            case.expect(waits, item, || format!("{due} is not settled"));
        }
    }
    let scheduled = !job.paused && (after.misfire.is_some() || overdue.is_some());
    let to_do = scheduled || job.triggers.contains_key(&item);
    if !after.state.is_idle() || busy || !to_do {
        return;
    }
    let Some((owner, hosted)) =
        job.sharding.owner(item).and_then(|owner| case.facts.hosted.get_key_value(owner))
    else {
        return;
    };
    let able = hosted.ready && job.is_enabled(owner) && !case.facts.dead.contains(&hosted.worker);
    let queued = case.plan.waiting.get(owner).is_some_and(|waiting| waiting.iter().any(|w| w.item == item));
    case.expect(queued == able, item, || format!("it could start; able {able}, in the queue {queued}"));
}

/// The timer is set to the next scheduled time, or to when a waiting one becomes too old.
fn looked_for(case: &mut Case<'_>, item: Item, after: &Record, overdue: Option<Time>) {
    let now = case.facts.now;
    let too_old = overdue.map(|due| Time(due.plus(case.job.rules.catch_up).0 + 1)).filter(|at| *at > now);
    let due = case.next_due(after, after.last_fire.max(now));
    let latest = [due, too_old].into_iter().flatten().min();
    if let Some(latest) = latest {
        let next = case.plan.next;
        case.expect(next.is_some_and(|next| next <= latest), item, || {
            format!("the calendar looks again at {next:?}, after {latest}")
        });
    }
}
