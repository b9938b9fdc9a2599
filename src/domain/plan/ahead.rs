//! What will surely start at the next scheduled time is decided a moment before it, so that at the scheduled time nothing is
//! left but to tell the workers.
//!
//! Only the plain case: an idle item with nothing else to settle, whose owner has plenty of free slots. All else is
//! decided at the scheduled time by [`super::host`], which finds what was started here running since that time.

use super::draft::Draft;
use super::start::{self, Class, Kind, Waiting};
use crate::id::Item;
use crate::item::Record;

/// Starts what is idle and becomes due exactly at the facts' `now`, which is yet to come.
pub(super) fn ahead(draft: &mut Draft<'_>) {
    let (job, records) = (draft.job, draft.before);
    let rules = &job.rules;
    // What no record holds would be sent at once, and what is held waits for more than the time.
    if job.paused || rules.disabled || !rules.monitor || rules.holds_for_started() || draft.facts.no_starts {
        return;
    }
    let fire = draft.facts.now;
    for (item, (_, record)) in records.range(..Item(rules.items)) {
        if let Some(seat) = draft.seat(*item).filter(|_| plain(draft, *item, record)) {
            let waiting = Waiting { class: Class::Fire, fire, job: job.name.clone(), item: *item };
            draft.seats[seat].wanted.push((waiting, Kind::Due));
        }
    }
    for seat in 0..draft.seats.len() {
        let wanted = std::mem::take(&mut draft.seats[seat].wanted);
        // What comes up in the meantime, or waits already, must not lack a slot for it.
        let hosted = draft.seats[seat].hosted;
        let plenty = wanted.len().saturating_mul(2) <= hosted.free as usize && hosted.others.is_empty();
        if !draft.seats[seat].eligible || !plenty {
            continue;
        }
        for (waiting, kind) in wanted {
            if draft.full(waiting.item) {
                return;
            }
            start::begin(draft, seat, &waiting, &kind);
        }
    }
}

/// Nothing but this scheduled time is to be accounted for.
fn plain(draft: &Draft<'_>, item: Item, record: &Record) -> bool {
    let (job, facts) = (draft.job, draft.facts);
    record.state.is_idle()
        && record.misfire.is_none()
        && draft.timeline.of(record).next(record.last_fire) == Some(facts.now)
        && !draft.disabled(item)
        && !job.triggers.contains_key(&item)
        && !facts.reports.contains_key(&item)
        && !facts.in_user_code.contains(&item)
        && job.sharding.gap_of(item, facts.now).is_none()
}
