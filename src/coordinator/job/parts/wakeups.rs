//! When a job has its next turn.

use rosterd_domain::time::{Mono, Time};

/// When a job has its next turn, and which hints it gets.
#[derive(Debug, Default)]
pub(crate) struct Wakeups {
    /// When the job is next due by the wall clock.
    next: Option<Time>,
    /// The job is due by the wall clock, and had no turn yet.
    due: bool,
    /// When the records have to be read again: see [`crate::io::timers::Timer::LookAgain`].
    reread_at: Option<Mono>,
    /// Hints are requested.
    watched: bool,
    /// The number of items whose marks are watched.
    watched_items: u32,
}

impl Wakeups {
    /// Returns when the job is next due by the wall clock.
    pub(crate) fn next(&self) -> Option<Time> {
        self.next
    }

    /// Sets when the job is next due by the wall clock. Returns the previous time.
    pub(crate) fn put_next(&mut self, next: Option<Time>) -> Option<Time> {
        std::mem::replace(&mut self.next, next)
    }

    /// The job is due by the wall clock.
    pub(crate) fn comes_due(&mut self) {
        self.next = None;
        self.due = true;
    }

    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// The host plans what is due.
    pub(crate) fn looked_at(&mut self) {
        self.due = false;
    }

    /// Whether another read of the records is scheduled by `at`.
    pub(crate) fn rereads_by(&self, at: Mono) -> bool {
        self.reread_at.is_some_and(|reread| reread <= at)
    }

    /// Schedules another read of the records; false: one is scheduled already, no later than `at`.
    pub(crate) fn reread_at(&mut self, at: Mono) -> bool {
        let sooner = !self.rereads_by(at);
        if sooner {
            self.reread_at = Some(at);
        }
        sooner
    }

    /// Returns whether the scheduled read of the records is due, and clears it if so.
    pub(crate) fn take_reread(&mut self, now: Mono) -> bool {
        self.reread_at.take_if(|at| *at <= now).is_some()
    }

    /// Whether hints are requested.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }

    /// Requests hints; false: they were requested before.
    pub(crate) fn watch(&mut self) -> bool {
        let news = !self.watched;
        if news {
            (self.watched, self.watched_items) = (true, 0);
        }
        news
    }

    /// Requests hints about the marks of this many items; false: they were requested before.
    pub(crate) fn watch_items(&mut self, items: u32) -> bool {
        std::mem::replace(&mut self.watched_items, items) != items
    }
}
