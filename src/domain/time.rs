//! The two kinds of time: calendar time ([`Time`]), and the monotonic clock for measuring durations ([`Mono`]). Nothing
//! here reads a clock: both are arguments.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point on the calendar: milliseconds since 1970-01-01T00:00:00Z. Serialized as RFC 3339 in UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub i64);

/// A point of one process's monotonic clock, since an origin of its own. It includes time in suspend.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Mono(pub Duration);

/// A text that is not an RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is not a time: write it as RFC 3339 with an offset, for example 2026-11-21T00:00:00Z")]
pub struct TimeError {
    /// The refused text.
    pub value: String,
}

impl Time {
    /// Seconds since the epoch.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds * 1000)
    }

    /// Parses RFC 3339; a fraction finer than a millisecond is cut off.
    pub fn parse(value: &str) -> Result<Self, TimeError> {
        value
            .parse::<jiff::Timestamp>()
            .map(|t| Self(t.as_millisecond()))
            .map_err(|_| TimeError { value: value.chars().take(64).collect() })
    }

    /// This much later.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }

    /// This much earlier.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long after `earlier`; zero if it is not after.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// As jiff's type; times beyond its range are capped to it.
    pub fn timestamp(self) -> jiff::Timestamp {
        let (min, max) = (jiff::Timestamp::MIN.as_millisecond(), jiff::Timestamp::MAX.as_millisecond());
        jiff::Timestamp::from_millisecond(self.0.clamp(min, max)).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }
}

impl From<jiff::Timestamp> for Time {
    fn from(value: jiff::Timestamp) -> Self {
        Self(value.as_millisecond())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.timestamp().fmt(f)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.timestamp().fmt(f)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl Mono {
    /// This much later.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }

    /// How long after `earlier`; zero if it is not after.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_and_read_in_utc() {
        let time = Time::parse("2026-11-21T01:02:03.5+01:00").unwrap();
        assert_eq!(time.to_string(), "2026-11-21T00:02:03.5Z");
        assert_eq!(Time::parse(&time.to_string()).unwrap(), time);
        assert!(Time::parse("yesterday").is_err());
        assert_eq!(format!("{time:?}"), time.to_string());
        assert_eq!(Time::from(time.timestamp()), time);
    }

    #[test]
    fn both_kinds_of_time_are_moved_and_compared_and_stop_at_their_ends() {
        let (noon, by) = (Time::from_seconds(43_200), Duration::from_millis(1_500));
        assert_eq!((noon.minus(by), noon.plus(by)), (Time(43_198_500), Time(43_201_500)));
        assert_eq!((noon.plus(by).since(noon), noon.since(noon.plus(by))), (by, Duration::ZERO));
        assert_eq!((Time(i64::MIN).minus(by), Time(i64::MAX).plus(by)), (Time(i64::MIN), Time(i64::MAX)));
        let (start, later) = (Mono(by), Mono(by).plus(by));
        assert_eq!(later, Mono(Duration::from_secs(3)));
        assert_eq!((later.since(start), start.since(later)), (by, Duration::ZERO));
        assert_eq!(Mono(Duration::MAX).plus(by), Mono(Duration::MAX));
    }
}
