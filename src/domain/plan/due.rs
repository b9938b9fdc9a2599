//! Due times are accounted for: each in (last fire, now] of an item that this host is responsible for becomes
//! a candidate to start, waits, or is recorded as misfired, skipped or missed. None is passed over.
//!
//! The next due time is computed from the record, never from now. A due time is merged into a later run only
//! if the item was busy at that time; one that is merely found late is run late, oldest first, while it is at
//! most `catch_up` old.

use super::start::{Class, Kind, Waiting};
use super::{Became, Draft};
use crate::id::{InstanceId, Item};
use crate::item::{Event, Missed, State};
use crate::time::Time;
use crate::txn::Guard;
use crate::view::Timeline;

pub(super) fn account(draft: &mut Draft<'_>) {
    let timeline = Timeline::new(draft.job);
    let job = draft.job;
    for (item, owner) in job.sharding.owned() {
        if item.0 >= job.rules.items || !draft.facts.hosted.contains_key(owner) {
            continue;
        }
        if draft.record(item).is_none() {
            continue;
        }
        if draft.full() {
            return;
        }
        Accounting { draft, timeline: &timeline, item, owner }.run();
    }
}

struct Accounting<'d, 'a> {
    draft: &'d mut Draft<'a>,
    timeline: &'d Timeline<'a>,
    item: Item,
    owner: &'d InstanceId,
}

/// What is to be done about the due times up to some point.
enum Verdict {
    Pass(Became),
    /// All but the latest are passed, the latest is merged into a run to come.
    MergeLatest(Missed),
}

impl Accounting<'_, '_> {
    fn run(mut self) {
        self.cap();
        while let Some(due) = self.overdue() {
            if !self.decide(due) {
                break;
            }
        }
        self.drop_mark();
        self.candidate();
        if self.draft.job.paused || self.disabled() {
            return;
        }
        let last = self.last_fire();
        if let Some(next) = self.timeline.next(last.max(self.draft.facts.now)) {
            let known = self.draft.plan.next;
            self.draft.plan.next = Some(known.map_or(next, |known| known.min(next)));
        }
    }

    /// A last fire that lies far in the future was written by a clock that was wrong: it is set back, or the
    /// item would be silent until then.
    fn cap(&mut self) {
        let (now, furthest) = (self.draft.facts.now, self.draft.facts.furthest_last_fire);
        let last = self.last_fire();
        if last > furthest {
            let why = || format!("ALARM: its last fire {last} lies in the future and is set back to {now}");
            self.draft.apply(self.item, Event::Cap { last_fire: now }, why);
        }
    }

    fn last_fire(&self) -> Time {
        self.draft.record(self.item).map_or(self.draft.facts.now, |record| record.last_fire)
    }

    fn disabled(&self) -> bool {
        let job = self.draft.job;
        job.rules.disabled || job.sharding.disabled_items.contains(&self.item)
    }

    fn now(&self) -> Time {
        self.draft.facts.now
    }

    /// The oldest due time that is not accounted for.
    fn overdue(&self) -> Option<Time> {
        self.timeline.next(self.last_fire()).filter(|due| *due <= self.now())
    }

    /// Accounts for some due times from `due` on; false when the rest has to wait.
    fn decide(&mut self, due: Time) -> bool {
        let job = self.draft.job;
        let now = self.now();
        let oldest_to_run = now.minus(job.rules.catch_up);
        if let Some(gap) = job.sharding.gap_of(self.item, due) {
            return self.pass(gap.until.min(now), Verdict::Pass(Became::Missed(gap.reason)));
        }
        // An open gap is recorded as one when it ends, not fire by fire.
        if job.paused || self.disabled() {
            return false;
        }
        let busy_since = match self.draft.record(self.item).map(|record| &record.state) {
            Some(State::Running(run)) => Some(run.since),
            Some(State::Crashed(crashed)) => Some(crashed.fire),
            _ if self.draft.facts.in_user_code.contains(&self.item) => Some(due),
            _ => None,
        };
        match busy_since {
            Some(since) if due >= since || due < oldest_to_run => {
                let became = if job.rules.misfire { Became::Misfired } else { Became::Skipped };
                self.pass(now, Verdict::Pass(became))
            }
            Some(_) => false,
            None if due < oldest_to_run => {
                let reason = self.late_because(due);
                let verdict = if job.rules.run_late {
                    Verdict::MergeLatest(reason)
                } else {
                    Verdict::Pass(Became::Missed(reason))
                };
                self.pass(Time(oldest_to_run.0 - 1), verdict)
            }
            None => self.no_slot_until_next(due),
        }
    }

    /// A due time that still waits when the next one has come is a misfire, if it is a slot that it waited for.
    fn no_slot_until_next(&mut self, due: Time) -> bool {
        let waited =
            self.draft.facts.hosted.get(self.owner).is_some_and(|hosted| hosted.ready && hosted.free == 0);
        let superseded = self.timeline.next(due).is_some_and(|next| next <= self.now());
        if !(waited && superseded) {
            return false;
        }
        let became =
            if self.draft.job.rules.misfire { Became::Misfired } else { Became::Missed(Missed::NoSlot) };
        self.pass(due, Verdict::Pass(became))
    }

    fn late_because(&self, due: Time) -> Missed {
        let gained = self.draft.facts.gained.get(&self.item);
        if due < self.draft.facts.up_since {
            Missed::Down
        } else if gained.is_some_and(|gained| due < *gained) {
            Missed::NoWorker
        } else {
            Missed::TooLate
        }
    }

    /// Records what became of the due times in (last fire, until].
    fn pass(&mut self, until: Time, verdict: Verdict) -> bool {
        let last = self.last_fire();
        let (Some(first), Some(latest)) = (self.timeline.next(last), self.timeline.latest(last, until))
        else {
            return false;
        };
        let count = self.timeline.count(last, latest);
        match verdict {
            Verdict::Pass(became) => self.note(first, latest, count, became),
            Verdict::MergeLatest(reason) => {
                if count > 1 {
                    let earlier = self.timeline.latest(last, Time(latest.0 - 1)).unwrap_or(first);
                    self.note(first, earlier, count - 1, Became::Missed(reason));
                }
                self.note(latest, latest, 1, Became::Misfired)
            }
        }
    }

    fn note(&mut self, first: Time, latest: Time, count: u64, became: Became) -> bool {
        let event = match became {
            Became::Misfired => Event::Misfire { latest, count },
            Became::Skipped => Event::Skip { latest, count },
            Became::Missed(reason) => Event::Miss { latest, count, reason },
        };
        let done = self
            .draft
            .apply(self.item, event, || format!("{count} due from {first} to {latest}: {became:?}"));
        if done {
            self.draft.guard(Guard::Generation(self.draft.job.name.clone(), self.draft.job.generation));
            self.draft.unrun(self.item, first, latest, count, became);
        }
        done
    }

    /// A mark that will not be run is recorded.
    fn drop_mark(&mut self) {
        let job = self.draft.job;
        if !self.disabled() {
            return;
        }
        let Some(marked) = self.draft.record(self.item).and_then(|record| record.misfire) else { return };
        let reason = Missed::Disabled;
        if self.draft.apply(self.item, Event::DropMisfire { reason }, || "the item is disabled".into()) {
            self.draft.guard(Guard::Generation(job.name.clone(), job.generation));
            self.draft.unrun(self.item, marked, marked, 1, Became::Missed(reason));
        }
    }

    /// What the item starts next, if it is free: the misfire, then the due time, then a trigger by hand.
    fn candidate(&mut self) {
        let job = self.draft.job;
        let Some(record) = self.draft.record(self.item) else { return };
        if !record.state.is_idle() || self.disabled() || self.draft.facts.in_user_code.contains(&self.item) {
            return;
        }
        let (class, fire, kind) = if let Some(marked) = record.misfire.filter(|_| !job.paused) {
            (Class::Misfire, marked, Kind::Misfire)
        } else if let Some(due) = self.overdue().filter(|_| !job.paused) {
            (Class::Fire, due, Kind::Due)
        } else if let Some(trigger) = job.triggers.get(&self.item) {
            (Class::Fire, trigger.at, Kind::Manual(trigger.id.clone()))
        } else {
            return;
        };
        let waiting = Waiting { class, fire, job: job.name.clone(), item: self.item };
        self.draft.candidates.entry(self.owner.clone()).or_default().push((waiting, kind));
    }
}
