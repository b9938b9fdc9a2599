//! A schedule defined by a span: fires every so many seconds since 1970-01-01T00:00:00 UTC, whatever the zone and its
//! clock. The start is fixed, so that all coordinators agree, and a restart changes nothing. Called by
//! [`super::readings`].

use super::wall::Wall;

/// The span in seconds; at least one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Every(i64);

impl Every {
    pub(super) fn new(seconds: u32) -> Self {
        Self(i64::from(seconds).max(1))
    }

    /// The maximum number of fires in a minute.
    pub(super) fn per_minute(self) -> u32 {
        u32::try_from((59 + self.0) / self.0).unwrap_or(1)
    }

    /// The first fire after `after`.
    pub(super) fn next(self, after: Wall) -> Option<Wall> {
        let next = (after.capped().0.div_euclid(self.0) + 1) * self.0;
        Some(Wall(next)).filter(|next| *next <= Wall::END)
    }

    /// How many fires after `after`, up to and with `until`.
    pub(super) fn count(self, after: Wall, until: Wall) -> u64 {
        let through = |wall: Wall| wall.capped().0.div_euclid(self.0);
        u64::try_from(through(until) - through(after)).unwrap_or(0)
    }

    /// The last fire that is not after `until`, if it is after `after`.
    pub(super) fn last(self, after: Wall, until: Wall) -> Option<Wall> {
        let until = until.capped().0;
        Some(Wall(until - until.rem_euclid(self.0))).filter(|last| *last > after.capped() && last.0 >= 0)
    }
}
