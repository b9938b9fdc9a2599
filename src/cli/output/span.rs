//! Times and spans as people say them.

use std::time::Duration;

use jiff::tz::TimeZone;
use prost_types::Timestamp;
use rosterd_domain::time::Time;
use serde_json::Value;

use super::look::{Look, look};
use super::table::Cell;

const DAY: i64 = 86_400_000;
const TOMORROW: i64 = -DAY;

/// A proto time as ours.
pub(crate) fn time(at: &Timestamp) -> Time {
    Time(at.seconds.saturating_mul(1000).saturating_add(i64::from(at.nanos) / 1_000_000))
}

/// A time as the wire wants it.
pub(crate) fn timestamp(at: Time) -> Timestamp {
    let nanos = i32::try_from(at.0.rem_euclid(1000)).unwrap_or_default() * 1_000_000;
    Timestamp { seconds: at.0.div_euclid(1000), nanos }
}

/// A time for programs: RFC 3339 in UTC, or null.
pub(crate) fn json_time(at: Option<&Timestamp>) -> Value {
    at.map_or(Value::Null, |at| time(at).to_string().into())
}

/// A date, to the second: local on a terminal, in UTC elsewhere; `-` when there is none.
pub(crate) fn date(at: Option<&Timestamp>) -> String {
    at.map_or_else(|| "-".to_owned(), |at| dated(time(at), look().zone.as_ref()))
}

/// How long ago, or in how long, on a terminal; elsewhere, and in wide tables, the date.
pub(crate) fn when(at: Option<&Timestamp>) -> Cell {
    match (at.map(time), &look().zone) {
        (Some(at), Some(_)) => Cell::short(date(Some(&timestamp(at))), relative(at, look())),
        _ => Cell::from(date(at)),
    }
}

fn dated(at: Time, zone: Option<&TimeZone>) -> String {
    match zone {
        Some(zone) => at.timestamp().to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        None => Time::from_seconds(at.0.div_euclid(1000)).to_string().replace('T', " "),
    }
}

/// Within a day by how long; a date is easier to grasp beyond.
fn relative(at: Time, look: &Look) -> String {
    let span = look.now.0 - at.0;
    match span {
        TOMORROW..=-1000 => format!("in {}", coarse(span.unsigned_abs())),
        -999..=999 => "now".to_owned(),
        1000..=DAY => format!("{} ago", coarse(span.unsigned_abs())),
        _ => dated(at, look.zone.as_ref()).chars().take("2026-11-27 08:15".len()).collect(),
    }
}

/// Whole seconds, then whole minutes.
fn coarse(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7199 => format!("{}m", seconds / 60),
        _ => format!("{}h", seconds / 3600),
    }
}

/// A span with two figures that matter: `282ms`, `8.0s`, `1m30s`, `2h05m`, `3d04h`.
pub(crate) fn human(span: Duration) -> String {
    let millis = span.as_millis();
    let (seconds, minutes, hours) = (millis / 1000, millis / 60_000, millis / 3_600_000);
    match seconds {
        0 => format!("{millis}ms"),
        1..=59 => format!("{seconds}.{}s", millis % 1000 / 100),
        60..=3599 => format!("{minutes}m{:02}s", seconds % 60),
        3600..=86_399 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{}d{:02}h", hours / 24, hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_milliseconds_for_programs() {
        let at = timestamp(Time(-1500));
        assert_eq!(time(&at), Time(-1500));
        assert_eq!(json_time(Some(&at)), "1969-12-31T23:59:58.5Z");
        assert_eq!(date(Some(&at)), "1969-12-31 23:59:58Z");
    }

    #[test]
    fn a_span_is_told_as_people_do() {
        for (millis, expected) in [
            (0, "0ms"),
            (282, "282ms"),
            (8014, "8.0s"),
            (59_999, "59.9s"),
            (90_000, "1m30s"),
            (7_500_000, "2h05m"),
            (273_600_000, "3d04h"),
        ] {
            assert_eq!(human(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn a_terminal_tells_how_long_ago_and_dates_beyond_a_day() {
        let look =
            Look { width: Some(80), color: false, zone: Some(TimeZone::UTC), now: Time(1_800_000_000_000) };
        for (at, expected) in [
            (0, "now"),
            (-12_000, "12s ago"),
            (7_400, "in 7s"),
            (-600_000, "10m ago"),
            (-20 * 3_600_000, "20h ago"),
            (-2 * DAY, "2027-01-13 08:00"),
        ] {
            assert_eq!(relative(Time(look.now.0 + at), &look), expected);
        }
    }
}
