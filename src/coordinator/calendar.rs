//! Watches the calendar. Between two looks it must go on as the monotonic clock does. And where the store has a clock of its
//! own, the calendar must agree with it: with each write of its own node a coordinator compares the two, first before it fires
//! anything. (The embedded store lives on this machine and has no clock of its own.)

use std::time::Duration;

use rosterd_domain::mutants;
use rosterd_domain::time::{Mono, Time};

use super::event::{Now, Query};
use super::node::{Node, ReadFor};
use super::settings::Settings;
use rosterd_registry::ReadError;
use rosterd_session::frame::Hello;

/// Below this a difference is drift, and is followed.
const DRIFT: Duration = Duration::from_millis(100);

/// How often a calendar that agrees with the store's clock is held against it.
const COMPARES_EVERY: Duration = Duration::from_secs(9);

/// What the calendar is expected to say.
#[derive(Debug, Default)]
pub(super) struct CalendarWatch {
    /// Both clocks, when the calendar was last believed.
    anchor: Option<(Time, Mono)>,
    /// Both clocks, when it was first found off by about as much as now.
    off: Option<(Time, Mono)>,
    by: Duration,
    /// Somebody was told that it is off.
    alarmed: bool,
    /// Both clocks, at the last look.
    seen: Now,
    store: Store,
}

/// What is known of the store's clock.
#[derive(Debug, Default)]
struct Store {
    /// Both clocks when this coordinator's own node was last handed over, and since when the write is known to be done.
    written: Option<(Now, Option<Now>)>,
    /// The store's clock, and ours, when they were last compared.
    at: Option<(Time, Mono)>,
    /// By so many milliseconds the calendar is ahead of it at least; below zero: behind.
    ahead: i64,
    /// They were compared, or there is nothing to compare with.
    known: bool,
    alarmed: bool,
}

/// Something to be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Jump {
    /// The calendar is off by this much.
    Off(Duration),
    /// It has gone on steadily and is believed again.
    Settled,
    /// It is ahead of the store's clock by so many milliseconds, or behind.
    Apart(i64),
    /// It agrees with the store's clock again.
    Agrees,
}

impl CalendarWatch {
    /// By how much the calendar is off.
    pub(super) fn off(&self) -> Duration {
        self.by.max(Duration::from_millis(self.store.ahead.unsigned_abs()))
    }

    /// By how many milliseconds it is ahead of the store's clock; below zero: behind.
    pub(super) fn ahead_of_store(&self) -> i64 {
        self.store.ahead
    }

    /// Whether it was held against the store's clock, or there is none.
    pub(super) fn is_compared(&self) -> bool {
        self.store.known
    }

    /// This coordinator's own node is handed over to be written.
    fn writes(&mut self) {
        self.store.written = Some((self.seen, None));
    }

    /// It was written: whether the store is to be asked when. It need not if it was a moment ago, and they agreed.
    fn wrote(&mut self) -> bool {
        let now = self.seen;
        let lately = self.store.at.is_some_and(|(_, mono)| now.mono.since(mono) < COMPARES_EVERY);
        if lately && !self.store.alarmed {
            return false;
        }
        match &mut self.store.written {
            Some((_, done @ None)) => {
                *done = Some(now);
                true
            }
            _ => false,
        }
    }

    /// When that was by the store's clock; `None`: it has none.
    fn compare(&mut self, at: Option<Time>, settings: &Settings) -> Option<Jump> {
        let Some((sent, Some(done))) = self.store.written.take() else { return None };
        if difference((sent.wall, sent.mono), done) >= DRIFT {
            // It jumped in between: any time would fit.
            return None;
        }
        self.store.known = true;
        let at = at?;
        // It was written in between.
        self.store.ahead = match at {
            early if early < sent.wall => sent.wall.0 - early.0,
            late if late > done.wall => done.wall.0 - late.0,
            _ => 0,
        };
        self.store.at = Some((at, done.mono));
        let apart = self.store.ahead.unsigned_abs() > millis(settings.max_clock_difference);
        let was = std::mem::replace(&mut self.store.alarmed, apart);
        if apart {
            return (!was).then_some(Jump::Apart(self.store.ahead));
        }
        // What the store confirms is no jump, whatever the calendar said before.
        let settled = self.believe(done);
        self.by = difference((done.wall, done.mono), self.seen);
        if was { Some(Jump::Agrees) } else { settled }
    }

    /// What is taken for the time: where the calendar is further off than anything may be fired by it, what it should
    /// say. What is written by it would otherwise outlast its error.
    pub(super) fn believed(&self, now: Now, settings: &Settings) -> Time {
        let off = self.off() > settings.max_clock_difference && !mutants::is_on(mutants::CALENDAR_BELIEVED);
        match self.store.at.or(self.anchor) {
            Some((wall, mono)) if off => wall.plus(now.mono.since(mono)),
            _ => now.wall,
        }
    }

    pub(super) fn look(&mut self, now: Now, settings: &Settings) -> Option<Jump> {
        self.seen = now;
        let Some(anchor) = self.anchor else {
            self.anchor = Some((now.wall, now.mono));
            return None;
        };
        self.by = difference(anchor, now);
        if self.by < DRIFT {
            return self.believe(now);
        }
        match self.off {
            Some(since) if difference(since, now) < DRIFT => {
                let steady = now.mono.since(since.1) >= settings.clock_settles;
                if steady { self.believe(now) } else { None }
            }
            _ => {
                self.off = Some((now.wall, now.mono));
                let alarms = self.by > settings.max_clock_difference;
                self.alarmed |= alarms;
                alarms.then_some(Jump::Off(self.by))
            }
        }
    }

    fn believe(&mut self, now: Now) -> Option<Jump> {
        self.anchor = Some((now.wall, now.mono));
        self.off = None;
        self.by = Duration::ZERO;
        std::mem::take(&mut self.alarmed).then_some(Jump::Settled)
    }
}

impl Node {
    /// From here on, before anything is heard or done: a jump on the way to the first event is one as well.
    pub(super) fn watch_calendar(&mut self, now: Now) {
        if !mutants::is_on(mutants::CALENDAR_SEEN_LATE) {
            self.calendar_watch.look(now, &self.settings);
        }
    }

    /// This coordinator's own node is about to be written.
    pub(super) fn clock_is_written(&mut self) {
        self.calendar_watch.writes();
    }

    /// It was: the store says when.
    pub(super) fn compare_clock(&mut self) {
        let reads = self.settings.session.is_some() && !mutants::is_on(mutants::STORES_CLOCK_UNREAD);
        if reads && self.calendar_watch.wrote() {
            self.read(ReadFor::Clock, Query::ToldAt(self.settings.id.clone()));
        }
    }

    /// A worker whose clock is off is named: what it logs, and what its programs take for now, is not what happened.
    pub(super) fn compare_workers_clock(&self, hello: &Hello) {
        let Some(sent) = hello.sent_at else { return };
        let ahead = sent.0.saturating_sub(self.now.wall.0);
        if ahead.unsigned_abs() > millis(self.settings.max_clock_difference) {
            let by = Duration::from_millis(ahead.unsigned_abs());
            let side = if ahead < 0 { "behind" } else { "ahead of" };
            tracing::warn!(
                address = %hello.address,
                client = %hello.client,
                "the clock of a worker is {by:?} {side} this coordinator's: set it right, or times in its logs will mislead"
            );
        }
    }

    pub(super) fn clock_read(&mut self, read: Result<Option<Time>, ReadError>) {
        // Where that failed the next write is compared: until one is, nothing fires.
        let Ok(at) = read else { return self.compare_soon() };
        let first = !self.calendar_watch.is_compared();
        let jump = self.calendar_watch.compare(at, &self.settings);
        if first && self.calendar_watch.is_compared() {
            // What this coordinator took down by its own calendar until now may be wrong.
            self.tell_time(self.calendar_watch.seen);
            self.up_since = self.now.wall;
            self.run_queue.extend(self.jobs.keys().cloned());
            self.admit_early();
        }
        if let Some(jump) = jump {
            self.calendar_jumped(&jump);
        }
        self.compare_soon();
    }

    fn compare_soon(&mut self) {
        if self.clock_is_unknown() {
            self.prove_in(self.settings.store_retry);
        }
    }

    /// Nothing fires before the calendar was held against the store's clock.
    pub(super) fn clock_is_unknown(&self) -> bool {
        self.settings.session.is_some()
            && !self.calendar_watch.is_compared()
            && !mutants::is_on(mutants::STORES_CLOCK_UNREAD)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How differently the two clocks have gone since `from`.
fn difference(from: (Time, Mono), now: Now) -> Duration {
    let expected = from.0.plus(now.mono.since(from.1));
    Duration::from_millis(now.wall.0.abs_diff(expected.0))
}

#[cfg(test)]
mod tests {
    use rosterd_domain::id::{CoordinatorId, Namespace};

    use super::*;

    fn at(wall: i64, mono: u64) -> Now {
        Now { wall: Time::from_seconds(wall), mono: Mono(Duration::from_secs(mono)) }
    }

    #[test]
    fn a_jump_is_not_believed_until_the_calendar_goes_on_steadily() {
        let settings = Settings::new(Namespace::new("n").unwrap(), CoordinatorId::new("c").unwrap());
        let mut watch = CalendarWatch::default();
        assert_eq!(watch.look(at(1000, 0), &settings), None);
        assert_eq!(watch.look(at(1010, 10), &settings), None);
        assert_eq!(watch.look(at(4611, 11), &settings), Some(Jump::Off(Duration::from_secs(3600))));
        assert_eq!(watch.look(at(4641, 41), &settings), None);
        assert_eq!(watch.believed(at(4641, 41), &settings), Time::from_seconds(1041));
        assert!(watch.off() >= Duration::from_secs(3600));
        assert_eq!(watch.look(at(4671, 71), &settings), Some(Jump::Settled));
        assert_eq!(watch.off(), Duration::ZERO);
        assert_eq!(watch.believed(at(4671, 71), &settings), Time::from_seconds(4671));
        // Back, and forth again before it settled.
        assert!(matches!(watch.look(at(1072, 72), &settings), Some(Jump::Off(_))));
        assert_eq!(watch.look(at(4673, 73), &settings), Some(Jump::Settled));
    }
}
