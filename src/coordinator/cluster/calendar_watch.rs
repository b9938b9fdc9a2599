//! Watches the wall clock. Between two checks it must advance like the monotonic clock. And if the store has a clock of
//! its own, the wall clock must agree with it: with each write of its own node a coordinator compares the two, the
//! first time before it fires anything. (The embedded store is on this machine and has no clock of its own.)

use std::time::Duration;

use rosterd_domain::mutants;
use rosterd_domain::time::{Mono, Time};

use crate::io::event::Now;
use crate::io::settings::Settings;

/// A difference below this is drift, and is followed.
const DRIFT: Duration = Duration::from_millis(100);

/// How often a wall clock that agrees with the store's is compared again.
const COMPARES_EVERY: Duration = Duration::from_secs(9);

/// The expected time.
#[derive(Debug, Default)]
pub(crate) struct CalendarWatch {
    /// Both clocks, when the wall clock was last trusted.
    anchor: Option<(Time, Mono)>,
    /// Both clocks, when it was first off by about as much as now.
    off: Option<(Time, Mono)>,
    by: Duration,
    /// Whether an alarm was raised because it is off.
    alarmed: bool,
    /// Both clocks, at the last check.
    seen: Now,
    store: StoreClock,
}

/// What is known of the store's clock.
#[derive(Debug, Default)]
struct StoreClock {
    /// Both clocks when this coordinator's own node was last submitted, and when the write was known to be done.
    written: Option<(Now, Option<Now>)>,
    /// The store's clock, and ours, when they were last compared.
    at: Option<(Time, Mono)>,
    /// The wall clock is ahead of it by at least this many milliseconds; below zero: behind.
    ahead: i64,
    /// They were compared, or the store has no clock.
    known: bool,
    alarmed: bool,
}

/// An event of the wall clock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Jump {
    /// The wall clock is off by this much.
    Off(Duration),
    /// It has advanced steadily and is trusted again.
    Settled,
    /// It is ahead of the store's clock by this many milliseconds, or behind.
    Apart(i64),
    /// It agrees with the store's clock again.
    Agrees,
}

impl CalendarWatch {
    /// Returns how far the wall clock is off.
    pub(crate) fn off(&self) -> Duration {
        self.by.max(Duration::from_millis(self.store.ahead.unsigned_abs()))
    }

    /// Returns how many milliseconds the wall clock is ahead of the store's; below zero: behind.
    pub(crate) fn ahead_of_store(&self) -> i64 {
        self.store.ahead
    }

    /// Whether the wall clock was compared with the store's, if the store has one.
    pub(crate) fn is_compared(&self) -> bool {
        self.store.known
    }

    /// Returns both clocks as of the last check.
    pub(crate) fn seen(&self) -> Now {
        self.seen
    }

    /// This coordinator's own node is submitted.
    pub(crate) fn writes(&mut self) {
        self.store.written = Some((self.seen, None));
    }

    /// The node was written: returns whether to ask the store for the time of the write. That is not necessary if the
    /// clocks agreed a moment ago.
    pub(crate) fn wrote(&mut self) -> bool {
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

    /// Compares with the store's time of that write; `None`: the store has no clock.
    pub(crate) fn compare(&mut self, at: Option<Time>, settings: &Settings) -> Option<Jump> {
        let Some((sent, Some(done))) = self.store.written.take() else { return None };
        if difference((sent.wall, sent.mono), done) >= DRIFT {
            // The wall clock jumped in between, so any time would fit.
            return None;
        }
        self.store.known = true;
        let at = at?;
        // The write happened in between.
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
        // If the store confirms the time, it is not a jump, whatever the wall clock showed before.
        let settled = self.believe(done);
        self.by = difference((done.wall, done.mono), self.seen);
        if was { Some(Jump::Agrees) } else { settled }
    }

    /// Returns the time to use: if the wall clock is too far off to fire anything, the time that it should show.
    /// Records with the wrong time would outlast the error.
    pub(crate) fn believed(&self, now: Now, settings: &Settings) -> Time {
        let off = self.off() > settings.max_clock_difference && !mutants::is_on(mutants::CALENDAR_BELIEVED);
        match self.store.at.or(self.anchor) {
            Some((wall, mono)) if off => wall.plus(now.mono.since(mono)),
            _ => now.wall,
        }
    }

    pub(crate) fn look(&mut self, now: Now, settings: &Settings) -> Option<Jump> {
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

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How much the two clocks have diverged since `from`.
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
        // Back, and forward again before it settled.
        assert!(matches!(watch.look(at(1072, 72), &settings), Some(Jump::Off(_))));
        assert_eq!(watch.look(at(4673, 73), &settings), Some(Jump::Settled));
    }
}
