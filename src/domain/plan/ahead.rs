//! Decides a moment before the next scheduled time what will certainly start then, so that at the scheduled time it
//! only remains to send the triggers.
//!
//! Only the plain case: an idle item with nothing else to settle, whose owner has plenty of free slots. Everything else
//! is decided at the scheduled time by [`super::host`], which finds the runs that were started here running since that
//! time.

use super::draft::Draft;
use super::start;
use super::waiting::{Class, StartKind, Waiting};
use crate::id::Item;
use crate::item::Record;

/// Starts idle items that become due exactly at the facts' `now`, which is in the future.
pub(super) fn ahead(draft: &mut Draft<'_>) {
    let (job, records) = (draft.job, draft.before);
    let rules = &job.rules;
    // An unmonitored run would be sent at once, and a held one waits for more than the time.
    if job.paused || rules.disabled || !rules.monitor || rules.holds_for_started() || draft.facts.no_starts {
        return;
    }
    let fire = draft.facts.now;
    for (item, (_, record)) in records.range(..Item(rules.items)) {
        if let Some(seat) = draft.seat(*item).filter(|_| plain(draft, *item, record)) {
            let waiting = Waiting { class: Class::Fire, fire, job: job.name.clone(), item: *item };
            draft.seats[seat].wanted.push((waiting, StartKind::Due));
        }
    }
    for seat in 0..draft.seats.len() {
        let wanted = std::mem::take(&mut draft.seats[seat].wanted);
        // Whatever arrives in the meantime, or waits already, must not lack a slot because of this.
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

/// Whether this scheduled time is all that has to be accounted for.
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
