//! The current time, as far as the wall clock is trusted.

use std::time::Duration;

use rosterd_domain::mutants;
use rosterd_domain::time::Time;
use rosterd_registry::ReadError;

use crate::cluster::Cluster;
use crate::cluster::calendar_watch::Jump;
use crate::io::Io;
use crate::io::event::{Effect, Now, Query};
use crate::io::pending::ReadFor;

/// The result of a comparison with the store's clock.
#[derive(Debug, Default)]
pub(crate) struct ClockRead {
    /// It is the first one: the time was not known before.
    pub(crate) first: bool,
    pub(crate) jump: Option<Jump>,
}

impl Cluster {
    /// Called before any event is handled, so that a jump before the first event is noticed.
    pub(crate) fn watch_calendar(&mut self, io: &mut Io, now: Now) {
        if !mutants::is_on(mutants::CALENDAR_SEEN_LATE) {
            self.clock.watch.look(now, &io.settings);
        }
    }

    /// This coordinator's own node is about to be written.
    pub(crate) fn clock_is_written(&mut self) {
        self.clock.watch.writes();
    }

    /// The node was written: asks the store when.
    pub(crate) fn compare_clock(&mut self, io: &mut Io) {
        let reads = io.settings.session.is_some() && !mutants::is_on(mutants::STORES_CLOCK_UNREAD);
        if reads && self.clock.watch.wrote() {
            io.read(ReadFor::Clock, Query::ToldAt(io.settings.id.clone()));
        }
    }

    /// The store answered when this coordinator's own node was written.
    pub(crate) fn clock_read(&mut self, io: &mut Io, read: Result<Option<Time>, ReadError>) -> ClockRead {
        let mut found = ClockRead::default();
        // After a failure the next write is compared: nothing fires until one is.
        if let Ok(at) = read {
            let known = self.clock.watch.is_compared();
            found.jump = self.clock.watch.compare(at, &io.settings);
            found.first = !known && self.clock.watch.is_compared();
            if found.first {
                // Times that this coordinator recorded by its own wall clock until now may be wrong.
                self.tell_time(io, self.clock.watch.seen());
                self.clock.up_since = io.now.wall;
            }
        }
        if self.clock_is_unknown(io) {
            self.prove_in(io, io.settings.store_retry);
        }
        found
    }

    /// Whether the wall clock is yet to be compared with the store's: nothing fires before.
    pub(crate) fn clock_is_unknown(&self, io: &Io) -> bool {
        io.settings.session.is_some()
            && !self.clock.watch.is_compared()
            && !mutants::is_on(mutants::STORES_CLOCK_UNREAD)
    }

    /// Checks whether the wall clock advances as it should.
    pub(crate) fn look_at_calendar(&mut self, io: &Io, now: Now) -> Option<Jump> {
        self.clock.watch.look(now, &io.settings)
    }

    /// Returns the current time, as far as the wall clock is trusted.
    pub(crate) fn believed(&self, io: &Io, now: Now) -> Time {
        self.clock.watch.believed(now, &io.settings)
    }

    /// Returns when this coordinator started, by the trusted time.
    pub(crate) fn up_since(&self) -> Time {
        self.clock.up_since
    }

    /// Returns what the wall clock shows at the trusted time `at`.
    pub(crate) fn by_the_clock(&self, at: Time) -> Time {
        Time(at.0.saturating_add(self.clock.ahead))
    }

    pub(crate) fn tell_time(&mut self, io: &mut Io, now: Now) {
        let wall = self.clock.watch.believed(now, &io.settings);
        self.clock.ahead = now.wall.0.saturating_sub(wall.0);
        io.now = Now { wall, ..now };
    }

    /// Returns how many milliseconds the wall clock is ahead of the store's; below zero: behind.
    pub(crate) fn clock_ahead(&self) -> i64 {
        self.clock.watch.ahead_of_store()
    }

    /// Whether the wall clock is within `limit` of what it should show.
    pub(crate) fn calendar_is_good(&self, limit: Duration) -> bool {
        self.clock.watch.off() <= limit || mutants::is_on(mutants::CALENDAR_BELIEVED)
    }

    pub(crate) fn calendar_jumped(&mut self, io: &mut Io, jump: &Jump) {
        let settles = io.settings.clock_settles;
        match jump {
            Jump::Off(by) => tracing::error!(
                "ALARM: the calendar has jumped by {by:?}: jobs do not fire by it until it has gone on steadily for {settles:?}"
            ),
            Jump::Settled => tracing::warn!("the calendar goes on steadily: jobs fire by it again"),
            Jump::Apart(ahead) => tracing::error!(
                "ALARM: this machine's clock is {} the store's: nothing fires here until they agree to {:?}; set it right (chrony, \
                 systemd-timesyncd), or look at the clocks of the ZooKeeper servers where several coordinators say so",
                ahead_or_behind(*ahead),
                io.settings.max_clock_difference
            ),
            Jump::Agrees => {
                tracing::warn!("this machine's clock agrees with the store's: jobs fire by it again")
            }
        }
        io.out.push(Effect::Health(self.health_shown(io)));
    }
}

fn ahead_or_behind(ahead: i64) -> String {
    let by = Duration::from_millis(ahead.unsigned_abs());
    if ahead < 0 { format!("{by:?} behind") } else { format!("{by:?} ahead of") }
}
