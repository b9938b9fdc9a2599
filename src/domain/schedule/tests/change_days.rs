//! The days on which the clock changes, written out by hand and checked minute by minute.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::super::{GapPolicy, Schedule};
use super::oracle::Oracle;
use super::{at, schedule, texts};
use crate::time::Time;

/// The changes of 2026: New York and Berlin by an hour, Lord Howe by half an hour.
const CHANGES: [(&str, &str); 6] = [
    ("America/New_York", "2026-03-08T07:00:00Z"),
    ("America/New_York", "2026-11-01T06:00:00Z"),
    ("Europe/Berlin", "2026-03-29T01:00:00Z"),
    ("Europe/Berlin", "2026-10-25T01:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
];

/// Expressions on either side of the rule, with fires before, inside, at the end of and after the changes above.
const EXPRESSIONS: [&str; 14] = [
    "0 * * * * ?",
    "0 * 0-22 * * ?",
    "0 0/5 * * * ?",
    "0 0/7 */2 * * ?",
    "30 0/15 1-3 * * ?",
    "0 30 2 * * ?",
    "0 15 2 * * ?",
    "0 30 1 * * ?",
    "0 0 2 * * ?",
    "0 0 3 * * ?",
    "0 30 2,3 * * ?",
    "59 59 1,2 * * ?",
    "0 0 0 * * ?",
    "0 10 2 ? * L",
];

#[test]
fn every_minute_of_the_change_days_follows_the_rule() {
    for (zone, change) in CHANGES {
        for expr in EXPRESSIONS {
            for gap in [GapPolicy::FireAtEnd, GapPolicy::Skip] {
                let schedule = schedule(expr, zone).with_gap(gap);
                let (from, to) = around(change);
                let expected = Oracle::new(expr, gap).by_minute(&zone_of(zone), from, to);
                let expected: Vec<Time> =
                    expected.into_iter().filter(|t| *t >= from && *t <= to).map(Time::from).collect();
                same(&schedule, from, to, &expected);
            }
        }
    }
}

#[test]
fn every_second_of_the_change_days_follows_the_rule() {
    for (zone, change) in CHANGES {
        for expr in ["*/7 * * * * ?", "*/7 * 0-2 * * ?"] {
            let (from, to) = around(change);
            let expected = Oracle::new(expr, GapPolicy::FireAtEnd).by_second(&zone_of(zone), from, to);
            let expected: Vec<Time> =
                expected.into_iter().filter(|t| *t >= from && *t <= to).map(Time::from).collect();
            same(&schedule(expr, zone), from, to, &expected);
        }
    }
}

/// All ways of asking for the fires of a span agree with `expected`, also from many points inside it.
fn same(schedule: &Schedule, from: Timestamp, to: Timestamp, expected: &[Time]) {
    let (begin, end) = (Time(Time::from(from).0 - 1), Time::from(to));
    let found: Vec<Time> = schedule.iter(begin).take_while(|t| *t <= end).collect();
    assert_eq!(texts(&found), texts(expected), "{schedule:?}");
    let mut moment = begin;
    while moment <= end {
        let later = expected.partition_point(|t| *t <= moment);
        let case = || format!("{schedule:?} at {moment}");
        if let Some(next) = expected.get(later) {
            assert_eq!(schedule.next(moment), Some(*next), "{}", case());
        }
        assert_eq!(schedule.count_between(begin, moment), later as u64, "{}", case());
        assert_eq!(
            schedule.last_at_or_before(moment, begin),
            expected[..later].last().copied(),
            "{}",
            case()
        );
        moment = Time(moment.0 + 11 * 60_000);
    }
}

/// The day of a change, with some hours before and after.
fn around(change: &str) -> (Timestamp, Timestamp) {
    let change: Timestamp = change.parse().unwrap();
    (change - 18.hours(), change + 30.hours())
}

fn zone_of(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap()
}

/// Fires of a span whose ends are included.
fn fires(expr: &str, zone: &str, from: &str, to: &str) -> Vec<String> {
    let schedule = schedule(expr, zone);
    let (after, until) = (Time(at(from).0 - 1), at(to));
    let found: Vec<Time> = schedule.iter(after).take_while(|t| *t <= until).collect();
    assert_eq!(schedule.count_between(after, until), found.len() as u64);
    assert_eq!(schedule.last_at_or_before(until, after), found.last().copied());
    texts(&found)
}

#[test]
fn a_time_inside_a_gap_fires_once_at_its_end() {
    let day = |expr| fires(expr, "America/New_York", "2026-03-08T05:00:00Z", "2026-03-09T03:59:59Z");
    assert_eq!(day("0 30 2 * * ?"), ["2026-03-08T07:00:00Z"]);
    // Two times of one gap and a regular fire at its end are one fire.
    assert_eq!(day("0 15,45 2 * * ?"), ["2026-03-08T07:00:00Z"]);
    assert_eq!(day("0 0,30 2,3 * * ?"), ["2026-03-08T07:00:00Z", "2026-03-08T07:30:00Z"]);
    let quartz = schedule("0 30 2 * * ?", "America/New_York").with_gap(GapPolicy::Skip);
    assert_eq!(texts(&quartz.upcoming(at("2026-03-08T05:00:00Z"), 1)), ["2026-03-09T06:30:00Z"]);
}

#[test]
fn only_the_first_pass_of_a_doubled_hour_fires() {
    let day = |expr| fires(expr, "America/New_York", "2026-11-01T04:00:00Z", "2026-11-02T04:59:59Z");
    assert_eq!(day("0 30 1 * * ?"), ["2026-11-01T05:30:00Z"]);
    assert_eq!(day("0 30 1,2 * * ?"), ["2026-11-01T05:30:00Z", "2026-11-01T07:30:00Z"]);
    assert_eq!(day("0 30 * * * ?").len(), 25);
    // Asked in the second pass, none of them is left.
    let daily = schedule("0 30 1 * * ?", "America/New_York");
    assert_eq!(daily.next(at("2026-11-01T06:10:00Z")), Some(at("2026-11-02T06:30:00Z")));
    assert_eq!(daily.count_between(at("2026-11-01T06:10:00Z"), at("2026-11-01T06:50:00Z")), 0);
}

#[test]
fn lord_howe_changes_by_half_an_hour() {
    let zone = "Australia/Lord_Howe";
    // At 2:00 it becomes 2:30.
    let spring = |expr| fires(expr, zone, "2026-10-03T14:00:00Z", "2026-10-03T17:00:00Z");
    assert_eq!(spring("0 15 2 * * ?"), ["2026-10-03T15:30:00Z"]);
    assert_eq!(spring("0 0/15 2 * * ?"), ["2026-10-03T15:30:00Z", "2026-10-03T15:45:00Z"]);
    // At 2:00 it becomes 1:30.
    let autumn = |expr| fires(expr, zone, "2026-04-04T13:30:00Z", "2026-04-04T16:00:00Z");
    assert_eq!(autumn("0 45 1 * * ?"), ["2026-04-04T14:45:00Z"]);
    assert_eq!(
        autumn("0 15/30 * * * ?"),
        ["2026-04-04T13:45:00Z", "2026-04-04T14:15:00Z", "2026-04-04T14:45:00Z"]
            .into_iter()
            .chain(["2026-04-04T15:15:00Z", "2026-04-04T15:45:00Z"])
            .collect::<Vec<_>>()
    );
}

#[test]
fn a_day_that_a_zone_left_out_fires_once_at_its_end() {
    // Apia went from the end of 29 December 2011 to the beginning of the 31st.
    let span = |expr| fires(expr, "Pacific/Apia", "2011-12-29T10:00:00Z", "2011-12-31T09:59:59Z");
    assert_eq!(span("0 0 12 30 12 ? 2011"), ["2011-12-30T10:00:00Z"]);
    assert_eq!(span("0 0 6,12,18 * * ?").len(), 3 + 1 + 3);
    assert_eq!(span("0 0 0 * * ?"), ["2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"]);
    assert_eq!(span("0 0 * * * ?").len(), 48);
    let skipping = schedule("0 0 12 30 12 ? 2011", "Pacific/Apia").with_gap(GapPolicy::Skip);
    assert_eq!(skipping.next(at("2011-01-01T00:00:00Z")), None);
}

#[test]
fn casablanca_sets_its_clock_back_for_ramadan() {
    // In 2026 from 15 February, 3:00 (to 2:00), until 22 March, 2:00 (to 3:00).
    let span = |expr, from, to| fires(expr, "Africa/Casablanca", from, to);
    assert_eq!(
        span("0 30 2 * * ?", "2026-02-15T00:00:00Z", "2026-02-15T22:59:59Z"),
        ["2026-02-15T01:30:00Z"]
    );
    assert_eq!(span("0 0/30 * * * ?", "2026-02-15T00:00:00Z", "2026-02-15T03:59:59Z").len(), 8);
    assert_eq!(
        span("0 30 2 * * ?", "2026-03-22T00:00:00Z", "2026-03-22T22:59:59Z"),
        ["2026-03-22T02:00:00Z"]
    );
}
