//! Counting and looking back over long spans: exact, and without iterating over the fires.

use super::{at, schedule};
use crate::time::Time;

#[test]
fn two_years_of_every_second_are_counted_exactly() {
    let (after, until) = (at("2026-01-01T00:00:00Z"), at("2028-01-01T00:00:00Z"));
    for zone in ["UTC", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"] {
        assert_eq!(schedule("* * * * * ?", zone).count_between(after, until), 730 * 86_400);
    }
    // Bound to the wall clock: all hours but one of the night, whose changes neither add nor remove a fire.
    let nights_off = schedule("* * 0-21,23 * * ?", "UTC");
    assert_eq!(nights_off.count_between(after, until), 730 * 23 * 3600);
    // In New York each of two spring gaps removes 3600 seconds and adds one fire at its end, which is a regular one.
    let nights_off = schedule("* * 0-21,23 * * ?", "America/New_York");
    let (after, until) = (at("2026-01-01T04:59:59Z"), at("2028-01-01T04:59:59Z"));
    assert_eq!(nights_off.count_between(after, until), 730 * 23 * 3600 - 2 * 3600);
}

#[test]
fn a_span_without_fires_is_empty_both_ways() {
    let daily = schedule("0 0 12 * * ?", "Europe/Berlin");
    let noon = at("2026-06-01T10:00:00Z");
    assert_eq!(daily.next(Time(noon.0 - 1)), Some(noon));
    for (after, until) in [(noon, noon), (noon, Time(noon.0 + 3_600_000)), (noon, Time(noon.0 - 3_600_000))] {
        assert_eq!((daily.count_between(after, until), daily.last_at_or_before(until, after)), (0, None));
    }
    let just_before = Time(noon.0 - 1);
    assert_eq!(daily.count_between(just_before, noon), 1);
    assert_eq!(daily.last_at_or_before(noon, just_before), Some(noon));
}

#[test]
fn the_whole_calendar_can_be_asked_about() {
    let (after, until) = (Time(i64::MIN), Time(i64::MAX));
    let leap_days = schedule("0 0 0 29 2 ?", "UTC");
    assert_eq!(leap_days.count_between(after, until), 33 - 1);
    assert_eq!(leap_days.last_at_or_before(until, after), Some(at("2096-02-29T00:00:00Z")));
    assert_eq!(schedule("* * * * * ?", "UTC").count_between(after, until), 4_102_444_800);
}
