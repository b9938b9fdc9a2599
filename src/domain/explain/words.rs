//! Formats times, counts and lists for sentences, and names for URLs.

use std::fmt::Write as _;
use std::time::Duration;

use crate::time::Time;

/// `3 items`, `1 item`.
pub(super) fn count(n: usize, one: &str) -> String {
    match n {
        1 => format!("1 {one}"),
        n => format!("{n} {one}s"),
    }
}

/// `12 s`, `5 min`, `3 h`, `2 days`: as precise as people need it.
pub(super) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => "less than a second".to_owned(),
        1..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// `2026-11-21T12:00:00Z (12 s ago)`.
pub(super) fn past(at: Time, now: Time) -> String {
    format!("{at} ({} ago)", span(now.since(at)))
}

/// `2026-11-21T12:00:00Z (in 12 s)`.
pub(super) fn coming(at: Time, now: Time) -> String {
    format!("{at} (in {})", span(at.since(now)))
}

/// A name as one segment of a path, or one value of a query.
pub(super) fn segment(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_put_as_people_say_them() {
        let spans = [0, 1, 119, 120, 7_199, 7_200, 172_800].map(|seconds| span(Duration::from_secs(seconds)));
        assert_eq!(spans.join(", "), "less than a second, 1 s, 119 s, 2 min, 119 min, 2 h, 2 days");
        assert_eq!((count(1, "item"), count(0, "item")), ("1 item".into(), "0 items".into()));
    }

    #[test]
    fn a_name_is_one_segment_whatever_it_holds() {
        assert_eq!(segment("10.0.0.7@-@w/1?ü"), "10.0.0.7%40-%40w%2F1%3F%C3%BC");
    }
}
