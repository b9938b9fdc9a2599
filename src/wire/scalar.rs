//! Times, durations and texts as the wire has them.

use std::time::Duration;

use rosterd_domain::time::Time;

/// The seconds that a timestamp may have (the years 1 to 9999), and the most that a duration may have.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
const MAX_DURATION: i64 = 315_576_000_000;

/// A time for the wire.
pub fn timestamp(time: Time) -> prost_types::Timestamp {
    let (seconds, millis) = (time.0.div_euclid(1000), time.0.rem_euclid(1000));
    let seconds = seconds.clamp(*SECONDS.start(), *SECONDS.end());
    prost_types::Timestamp { seconds, nanos: i32::try_from(millis * 1_000_000).unwrap_or(0) }
}

/// A time from the wire; an invalid one, or one out of range, is as if it had not been set.
pub fn to_time(stamp: prost_types::Timestamp) -> Option<Time> {
    if !SECONDS.contains(&stamp.seconds) {
        return None;
    }
    let millis = (0..1_000_000_000).contains(&stamp.nanos).then_some(i64::from(stamp.nanos) / 1_000_000)?;
    Some(Time(stamp.seconds * 1000 + millis))
}

/// A duration for the wire.
pub fn duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(MAX_DURATION).min(MAX_DURATION),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

/// A duration from the wire; one that is negative or out of range is as if it had not been set.
pub fn to_duration(duration: prost_types::Duration) -> Option<Duration> {
    let nanos = u32::try_from(duration.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    let seconds = Some(duration.seconds).filter(|seconds| *seconds <= MAX_DURATION)?;
    Some(Duration::new(u64::try_from(seconds).ok()?, nanos))
}

/// The longest end of `text` that has at most `max` bytes and begins between two characters.
pub fn tail(text: &str, max: usize) -> &str {
    let mut start = text.len().saturating_sub(max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_as_they_were() {
        for time in [Time(0), Time(-1), Time(1_700_000_000_123), Time(-62_135_596_800_000)] {
            assert_eq!(to_time(timestamp(time)), Some(time));
        }
        assert_eq!(to_time(prost_types::Timestamp { seconds: i64::MAX, nanos: 0 }), None);
        assert_eq!(to_time(prost_types::Timestamp { seconds: 0, nanos: -1 }), None);
    }

    #[test]
    fn durations_come_back_as_they_were() {
        for each in [Duration::ZERO, Duration::from_millis(1500)] {
            assert_eq!(to_duration(duration(each)), Some(each));
        }
        assert_eq!(to_duration(prost_types::Duration { seconds: -1, nanos: 0 }), None);
    }

    #[test]
    fn a_tail_begins_between_two_characters() {
        assert_eq!(tail("üa", 2), "a");
        assert_eq!(tail("abc", 9), "abc");
    }
}
