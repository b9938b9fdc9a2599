//! Accounts for scheduled times: each in (last fire, now] of an item that this host is responsible for becomes a
//! candidate to start, waits, or is recorded as misfired, skipped or missed. None is lost.
//!
//! The next scheduled time is computed from the record, never from now. A scheduled time is merged into a later run
//! only if the item was busy at that time; one that is merely found late is run late, oldest first, while it is at most
//! `catch_up` old. One that lacks a slot waits until the next one is due.

use std::fmt;

use super::draft::Draft;
use super::waiting::{Class, StartKind, Waiting, Wanted};
use super::{Facts, FireResult};
use crate::id::Item;
use crate::item::{ItemEvent, Missed, Record, State};
use crate::mutants;
use crate::time::Time;
use crate::view::{Job, Timeline};

/// One millisecond: the step of the calendar.
const STEP: i64 = 1;

/// Accounts for all items owned by instances hosted here; false: the transaction was full before the end.
pub(super) fn account(draft: &mut Draft<'_>) -> bool {
    let (job, facts, before) = (draft.job, draft.facts, draft.before);
    for (item, (_, record)) in before.range(..Item(job.rules.items)) {
        let Some(seat) = draft.seat(*item) else { continue };
        let record = draft.changed.get(item).unwrap_or(record);
        if nothing_to_do(&draft.timeline, job, facts, *item, record) {
            look_for(draft, *item);
            continue;
        }
        if draft.full(*item) {
            return false;
        }
        let busy = draft.is_in_user_code(*item);
        settle(draft, *item, busy);
        if let Some(wanted) = candidate(draft, *item).filter(|_| !busy) {
            draft.seats[seat].wanted.push(wanted);
        }
        draft.looked_at.push(*item);
    }
    true
}

/// Sets the timer for items that could not be skipped at once, now that everything is decided.
pub(super) fn look_at_rest(draft: &mut Draft<'_>) {
    for item in std::mem::take(&mut draft.looked_at) {
        look_for(draft, item);
    }
}

/// Accounts for nothing now; only sets the timer.
pub(super) fn look_again(draft: &mut Draft<'_>) {
    let open = !draft.job.paused && !draft.job.rules.disabled && !draft.seats.is_empty();
    let next = draft.timeline.next(draft.facts.now).filter(|_| open);
    draft.look_at(next);
}

/// Settles what can be settled of the item's scheduled times and misfire mark. `busy`: its user code is executing
/// although its record is idle.
pub(super) fn settle(draft: &mut Draft<'_>, item: Item, busy: bool) {
    let mut settling = Settling { draft, item, busy };
    settling.cap();
    // First, or a new mark would replace one that is to be dropped, and run scheduled times that must not be run.
    settling.drop_mark();
    while let Some(due) = settling.overdue() {
        if !settling.decide(due) {
            break;
        }
    }
}

/// Settles all but the latest scheduled time of an idle item that waits for a slot: each was still waiting when the
/// next came.
pub(super) fn superseded(draft: &mut Draft<'_>, item: Item) -> bool {
    let result =
        if draft.job.rules.misfire { FireResult::Misfired } else { FireResult::Missed(Missed::NoSlot) };
    let mut settling = Settling { draft, item, busy: false };
    if settling.draft.job.paused {
        return false;
    }
    let (Some(due), Some(newest)) = (settling.overdue(), settling.newest(settling.now())) else {
        return false;
    };
    due < newest
        && settling.pass(
            before(newest),
            result,
            format_args!("no slot was free until the next scheduled time"),
        )
}

/// What the item starts next, if it is free: the misfire, then the scheduled time, then a manual trigger.
pub(super) fn candidate(draft: &Draft<'_>, item: Item) -> Option<Wanted> {
    let job = draft.job;
    let record = draft.record(item)?;
    if !record.state.is_idle() || draft.disabled(item) {
        return None;
    }
    let due = || draft.timeline.of(record).next(record.last_fire).filter(|due| *due <= draft.facts.now);
    let (class, fire, kind) = if let Some(marked) = record.misfire.filter(|_| !job.paused) {
        (Class::Misfire, marked, StartKind::Misfire)
    } else if let Some(due) = due().filter(|_| !job.paused) {
        (Class::Fire, due, StartKind::Due)
    } else {
        let trigger = job.triggers.get(&item)?;
        (Class::Fire, trigger.at, StartKind::Manual(trigger.id.clone()))
    };
    Some((Waiting { class, fire, job: job.name.clone(), item }, kind))
}

/// The usual answer, found fast: no scheduled time, no mark and no trigger waits.
fn nothing_to_do(timeline: &Timeline<'_>, job: &Job, facts: &Facts<'_>, item: Item, record: &Record) -> bool {
    record.misfire.is_none()
        && record.last_fire <= facts.furthest_last_fire
        && !job.triggers.contains_key(&item)
        && timeline.of(record).next(record.last_fire).is_none_or(|next| next > facts.now)
}

/// Sets the timer to the item's next scheduled time, and to when a waiting one becomes too old.
fn look_for(draft: &mut Draft<'_>, item: Item) {
    if draft.job.paused || draft.disabled(item) {
        return;
    }
    let Some(record) = draft.record(item) else { return };
    let (now, window) = (draft.facts.now, draft.job.rules.catch_up);
    let timeline = draft.timeline.of(record);
    let (mut next, mut too_old) = (timeline.next(record.last_fire), None);
    if let Some(due) = next.filter(|due| *due <= now) {
        too_old = Some(Time(due.plus(window).0.saturating_add(STEP))).filter(|at| *at > now);
        next = timeline.next(now);
    }
    draft.look_at(too_old);
    draft.look_at(next);
}

fn before(time: Time) -> Time {
    Time(time.0.saturating_sub(STEP))
}

struct Settling<'d, 'a> {
    draft: &'d mut Draft<'a>,
    item: Item,
    busy: bool,
}

impl Settling<'_, '_> {
    fn now(&self) -> Time {
        self.draft.facts.now
    }

    fn last_fire(&self) -> Time {
        self.draft.record(self.item).map_or(self.draft.facts.now, |record| record.last_fire)
    }

    /// The oldest scheduled time that is not accounted for.
    fn overdue(&self) -> Option<Time> {
        let record = self.draft.record(self.item)?;
        self.draft.timeline.of(record).next(record.last_fire).filter(|due| *due <= self.now())
    }

    /// The latest scheduled time up to `until` that is not accounted for.
    fn newest(&self, until: Time) -> Option<Time> {
        let record = self.draft.record(self.item)?;
        let timeline = self.draft.timeline.of(record);
        let first = timeline.next(record.last_fire).filter(|first| *first <= until)?;
        match timeline.next(first) {
            Some(second) if second <= until => timeline.latest(record.last_fire, until),
            _ => Some(first),
        }
    }

    /// A last fire that lies far in the future was written by a wrong clock: it is set back, or the item would be
    /// silent until then.
    fn cap(&mut self) {
        let (now, furthest) = (self.now(), self.draft.facts.furthest_last_fire);
        let last = self.last_fire();
        if last > furthest {
            let why = || format!("ALARM: its last fire {last} lies in the future and is set back to {now}");
            let config = self.draft.job.spec.config();
            let schedule = (config.cron.clone().unwrap_or_default(), config.zone().to_owned());
            if self.draft.apply(self.item, ItemEvent::Cap { last_fire: now, schedule }, why) {
                self.draft.guard_generation();
            }
        }
    }

    /// Accounts for some scheduled times from `due` on; false if the rest has to wait.
    fn decide(&mut self, due: Time) -> bool {
        let (job, now) = (self.draft.job, self.now());
        let gap = job.sharding.gap_of(self.item, due);
        if let Some(gap) = gap.filter(|_| !mutants::is_on(mutants::GAPS_FORGOTTEN)) {
            let why = "nothing was to be run then";
            return self.pass(gap.until.min(now), FireResult::Missed(gap.reason), format_args!("{why}"));
        }
        // A gap that is still open is recorded as a whole when it ends, not fire by fire.
        if job.paused || self.draft.disabled(self.item) {
            return false;
        }
        let merged = if job.rules.misfire { FireResult::Misfired } else { FireResult::Skipped };
        let oldest = now.minus(job.rules.catch_up);
        match self.busy_since(due) {
            Some(since) if due >= since => self.pass(now, merged, format_args!("the item is busy")),
            Some(since) if due < oldest => self.pass(
                before(since.min(oldest)),
                merged,
                format_args!("a run took longer than they may wait"),
            ),
            Some(_) => false,
            None if due < oldest => self.too_late(due, before(oldest)),
            None => false,
        }
    }

    /// Since when the item is busy. Scheduled times before that wait behind the run.
    fn busy_since(&self, due: Time) -> Option<Time> {
        let record = self.draft.record(self.item);
        match record.map(|record| &record.state) {
            Some(State::Running(run)) => Some(run.since),
            Some(State::Crashed(_)) => Some(due),
            _ => self.busy.then_some(due),
        }
    }

    /// Scheduled times up to `until` are too old to be run on their own: the policy says whether the latest is run
    /// once.
    fn too_late(&mut self, due: Time, until: Time) -> bool {
        let Some(newest) = self.newest(until) else { return false };
        let (reason, reign) = self.late_because(due);
        let why = format_args!("found too late");
        if !self.draft.job.rules.run_late {
            return self.pass(newest.min(reign), FireResult::Missed(reason), why);
        }
        if due == newest {
            return self.pass(newest, FireResult::Misfired, format_args!("found too late ({reason})"));
        }
        self.pass(before(newest).min(reign), FireResult::Missed(reason), why)
    }

    /// Why a scheduled time was not dispatched in time, and until when that reason applied.
    fn late_because(&self, due: Time) -> (Missed, Time) {
        let facts = self.draft.facts;
        let gained = facts.gained.get(&self.item).filter(|gained| due < **gained);
        if due < facts.up_since {
            (Missed::Down, before(facts.up_since))
        } else if let Some(gained) = gained {
            (Missed::NoWorker, before(*gained))
        } else {
            let seat = self.draft.seat(self.item).map(|seat| &self.draft.seats[seat]);
            let full = seat.is_some_and(|seat| seat.eligible && seat.hosted.free == 0);
            (if full { Missed::NoSlot } else { Missed::TooLate }, Time(i64::MAX))
        }
    }

    /// Records the result of the scheduled times in (last fire, until].
    fn pass(&mut self, until: Time, result: FireResult, why: fmt::Arguments<'_>) -> bool {
        let Some(record) = self.draft.record(self.item) else { return false };
        let (timeline, last) = (self.draft.timeline.of(record), record.last_fire);
        let (Some(first), Some(latest)) = (timeline.next(last), self.newest(until)) else {
            return false;
        };
        let count = if first == latest { 1 } else { timeline.count(last, latest) };
        let event = match result {
            FireResult::Misfired => ItemEvent::Misfire { latest, count },
            FireResult::Skipped => ItemEvent::Skip { latest, count },
            FireResult::Missed(reason) => ItemEvent::Miss { latest, count, reason },
        };
        let said = || match count {
            1 => format!("{first} is {result}: {why}"),
            _ => format!("{count} scheduled times from {first} to {latest} are {result}: {why}"),
        };
        if !self.draft.apply(self.item, event, said) {
            return false;
        }
        self.draft.guard_generation();
        self.draft.not_run(self.item, first, latest, count, result);
        true
    }

    /// Records a mark that will not be run: the item is disabled, or the mark is older than a time in which the item
    /// was not part of the job.
    fn drop_mark(&mut self) {
        let Some(marked) = self.draft.record(self.item).and_then(|record| record.misfire) else { return };
        let was_surplus =
            self.draft.job.sharding.surplus_until(self.item).is_some_and(|until| marked <= until);
        let (reason, why) = match (self.draft.disabled(self.item), was_surplus) {
            (true, _) => (Missed::Disabled, "the item is disabled"),
            (_, true) => (Missed::NoWorker, "the item was not part of the job meanwhile"),
            _ => return,
        };
        let said = || format!("the misfire of {marked} will not be run: {why}");
        if self.draft.apply(self.item, ItemEvent::DropMisfire { reason }, said) {
            self.draft.guard_generation();
            self.draft.not_run(self.item, marked, marked, 1, FireResult::Missed(reason));
        }
    }
}
