//! The rules once more, as slow and as literal as possible, and without a line of the product's code.
//!
//! Fields are parsed again for every moment; the zone is read minute by minute or second by second from jiff.

use std::collections::BTreeSet;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::schedule::GapPolicy;

/// How many hours before a span its clock is read, so that the second pass of an hour is not mistaken for the first.
const BEFORE: i64 = 3;

/// A valid expression.
pub(super) struct Oracle {
    fields: Vec<String>,
    seconds: Vec<bool>,
    minutes: Vec<bool>,
    hours: Vec<bool>,
    gap: GapPolicy,
}

impl Oracle {
    pub(super) fn new(expr: &str, gap: GapPolicy) -> Self {
        let mut fields: Vec<String> = expr.to_uppercase().split_whitespace().map(String::from).collect();
        if fields.len() == 6 {
            fields.push("*".into());
        }
        let table = |field: usize, max| (0..=max).map(|v| listed(&fields[field], v, 0, max, &[])).collect();
        Self { seconds: table(0, 59), minutes: table(1, 59), hours: table(2, 23), fields, gap }
    }

    /// Whether the clock on the wall shows a fire.
    pub(super) fn matches(&self, wall: DateTime) -> bool {
        self.seconds[wall.second() as usize] && self.minute_matches(wall)
    }

    fn minute_matches(&self, wall: DateTime) -> bool {
        const MONTHS: [&str; 12] =
            ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
        self.minutes[wall.minute() as usize]
            && self.hours[wall.hour() as usize]
            && listed(&self.fields[4], wall.month().into(), 1, 12, &MONTHS)
            && listed(&self.fields[6], wall.year().into(), 1970, 2099, &[])
            && self.day_matches(wall.date())
    }

    fn day_matches(&self, date: Date) -> bool {
        if self.fields[3] == "?" {
            return weekday_matches(&self.fields[5], date);
        }
        self.fields[3].split(',').any(|part| monthday_matches(part, date))
    }

    fn elapsed(&self) -> bool {
        self.hours.iter().all(|listed| *listed)
    }

    /// The fires of a span (both ends included), second by second.
    pub(super) fn by_second(&self, zone: &TimeZone, from: Timestamp, to: Timestamp) -> BTreeSet<Timestamp> {
        let clock = shown(zone, from, to, 1);
        self.fires(&clock, 1, |wall| if self.matches(wall) { vec![0] } else { Vec::new() })
    }

    /// The same by whole minutes, whose seconds are examined only if the minute matches.
    pub(super) fn by_minute(&self, zone: &TimeZone, from: Timestamp, to: Timestamp) -> BTreeSet<Timestamp> {
        self.by_clock(&shown(zone, from, to, 60))
    }

    /// The same on a clock that was read before.
    pub(super) fn by_clock(&self, clock: &[Shown]) -> BTreeSet<Timestamp> {
        self.fires(clock, 60, |wall| {
            if !self.minute_matches(wall) {
                return Vec::new();
            }
            (0..60).filter(|s| self.seconds[*s as usize]).collect()
        })
    }

    /// The rule itself, on readings `step` seconds apart; `hits` returns the seconds of a step at which fires are.
    fn fires(&self, clock: &[Shown], step: i64, hits: impl Fn(DateTime) -> Vec<i64>) -> BTreeSet<Timestamp> {
        let elapsed = self.elapsed();
        let (mut fires, mut seen, mut furthest) = (BTreeSet::new(), BTreeSet::new(), i64::MAX);
        for shown in clock {
            let found = hits(shown.wall);
            if !found.is_empty() && (elapsed || seen.insert(shown.reading)) {
                fires.extend(found.into_iter().map(|second| shown.instant + second.seconds()));
            }
            if !elapsed && self.gap == GapPolicy::FireAtEnd {
                let skipped = (furthest.saturating_add(step)..shown.reading).step_by(step as usize);
                let mut skipped = skipped.map(|reading| shown.wall - (shown.reading - reading).seconds());
                if skipped.any(|wall| !hits(wall).is_empty()) {
                    fires.insert(shown.instant);
                }
            }
            furthest = if furthest == i64::MAX { shown.reading } else { furthest.max(shown.reading) };
        }
        fires
    }
}

/// What the clock shows at an instant, as a date and as a number to calculate with.
pub(super) struct Shown {
    instant: Timestamp,
    wall: DateTime,
    reading: i64,
}

/// What the clock shows at each step of a span and of some hours before.
pub(super) fn shown(zone: &TimeZone, from: Timestamp, to: Timestamp, step: i64) -> Vec<Shown> {
    let (from, to) = (from.as_second() - BEFORE * 3600, to.as_second());
    let seconds = (from..=to).step_by(step as usize);
    seconds.map(|second| at(zone, Timestamp::from_second(second).unwrap())).collect()
}

fn at(zone: &TimeZone, instant: Timestamp) -> Shown {
    let offset = zone.to_offset(instant);
    let reading = instant.as_second() + i64::from(offset.seconds());
    Shown { instant, wall: offset.to_datetime(instant), reading }
}

/// Whether a list names the value.
fn listed(field: &str, value: i32, min: i32, max: i32, names: &[&str]) -> bool {
    let number = |text: &str| match names.iter().position(|name| *name == text) {
        Some(at) => min + at as i32,
        None => text.parse().unwrap(),
    };
    field.split(',').any(|part| {
        let (range, step) = part.split_once('/').map_or((part, None), |(r, s)| (r, Some(number(s))));
        let (from, to) = match range.split_once('-') {
            Some((from, to)) => (number(from), number(to)),
            None if range == "*" || range.is_empty() => (min, max),
            None => (number(range), if step.is_some() { max } else { number(range) }),
        };
        // Steps through the range as the hand of a clock would.
        let (mut hand, mut left) = (from, (to - from).rem_euclid(max - min + 1));
        loop {
            if hand == value {
                return true;
            }
            let step = step.unwrap_or(1);
            if step > left {
                return false;
            }
            left -= step;
            hand = (hand + step - min).rem_euclid(max - min + 1) + min;
        }
    })
}

fn monthday_matches(part: &str, date: Date) -> bool {
    let last = i32::from(date.days_in_month());
    let day = i32::from(date.day());
    let target = |text: &str| match text.strip_prefix('L') {
        Some("") => last,
        Some(back) => last + back.parse::<i32>().unwrap(),
        None => text.parse().unwrap(),
    };
    match part.strip_suffix('W') {
        Some(text) => {
            let target = target(text);
            let working = |day: &i32| {
                let date = date.with().day(*day as i8).build().unwrap();
                date.weekday().to_monday_one_offset() <= 5
            };
            (1..=last).contains(&target)
                && (1..=last).filter(working).min_by_key(|d| (d - target).abs()) == Some(day)
        }
        None if part.starts_with('L') => day == target(part),
        None => listed(part, day, 1, 31, &[]),
    }
}

fn weekday_matches(field: &str, date: Date) -> bool {
    const NAMES: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
    let weekday = i32::from(date.weekday().to_sunday_one_offset());
    let is = |text: &str| listed(text, weekday, 1, 7, &NAMES);
    if field == "L" {
        weekday == 7
    } else if let Some((day, nth)) = field.split_once('#') {
        is(day) && (date.day() + 6) / 7 == nth.parse::<i8>().unwrap()
    } else if let Some(day) = field.strip_suffix('L') {
        is(day) && date.day() + 7 > date.days_in_month()
    } else {
        is(field)
    }
}
