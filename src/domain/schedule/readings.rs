//! The clock readings at which a schedule fires, in any notation. Called by [`super::Schedule`], which maps them to
//! instants.

use super::error::ScheduleError;
use super::every::Every;
use super::form::Form;
use super::wall::{Wall, WallSchedule};

/// A parsed expression.
#[derive(Debug)]
pub(super) enum Readings {
    /// Readings of a wall clock.
    Fields(Box<WallSchedule>),
    /// Readings of UTC.
    Every(Every),
}

impl Readings {
    pub(super) fn parse(expr: &str) -> Result<Self, ScheduleError> {
        Ok(match Form::of(expr)? {
            Form::Fields(fields) => Self::Fields(Box::new(WallSchedule::parse(fields)?)),
            Form::Every(seconds) => Self::Every(Every::new(seconds)),
        })
    }

    /// The maximum number of fires in a minute.
    pub(super) fn per_minute(&self) -> u32 {
        match self {
            Self::Fields(fields) => fields.per_minute(),
            Self::Every(every) => every.per_minute(),
        }
    }

    /// The first fire after `after`.
    pub(super) fn next(&self, after: Wall) -> Option<Wall> {
        match self {
            Self::Fields(fields) => fields.next(after),
            Self::Every(every) => every.next(after),
        }
    }

    /// How many fires after `after`, up to and with `until`.
    pub(super) fn count(&self, after: Wall, until: Wall) -> u64 {
        match self {
            Self::Fields(fields) => fields.count(after, until),
            Self::Every(every) => every.count(after, until),
        }
    }

    /// The last fire that is not after `until`, if it is after `after`.
    pub(super) fn last(&self, after: Wall, until: Wall) -> Option<Wall> {
        match self {
            Self::Fields(fields) => fields.last(after, until),
            Self::Every(every) => every.last(after, until),
        }
    }
}
