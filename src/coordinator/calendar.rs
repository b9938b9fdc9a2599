//! Watches the calendar for jumps: between two looks it must go on as the monotonic clock does. The embedded
//! registry lives on this machine and has no clock of its own to compare with.

use std::time::Duration;

use rosterd_domain::mutants;
use rosterd_domain::time::{Mono, Time};

use super::event::Now;
use super::node::Node;
use super::settings::Settings;

/// Below this a difference is drift, and is followed.
const DRIFT: Duration = Duration::from_millis(100);

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
}

/// Something to be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Jump {
    /// The calendar is off by this much.
    Off(Duration),
    /// It has gone on steadily and is believed again.
    Settled,
}

impl CalendarWatch {
    /// By how much the calendar is off.
    pub(super) fn off(&self) -> Duration {
        self.by
    }

    /// What is taken for the time: where the calendar is further off than anything may be fired by it, what it should
    /// say. What is written by it would otherwise outlast its error.
    pub(super) fn believed(&self, now: Now, settings: &Settings) -> Time {
        let believes = mutants::is_on(mutants::CALENDAR_BELIEVED);
        match self.anchor {
            Some((wall, mono)) if self.by > settings.max_clock_difference && !believes => {
                wall.plus(now.mono.since(mono))
            }
            _ => now.wall,
        }
    }

    pub(super) fn look(&mut self, now: Now, settings: &Settings) -> Option<Jump> {
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
