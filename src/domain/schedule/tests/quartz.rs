//! Quartz's own fire times, made by `tests/data/cron/generator`: equal to ours on every day on which the
//! clock does not change. On the others our rule is another one by intent, and ours are compared with the
//! rule itself.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::super::{GapPolicy, Schedule};
use super::oracle::{Oracle, Shown, shown};
use crate::time::Time;

const DATA: &str = include_str!("../../../../tests/data/cron/quartz.tsv");

/// What Quartz refuses, and is taken here: five fields, and every day said twice.
const OURS: [&str; 2] = ["* * * * *", "0 0 0 * * *"];

struct Row {
    expr: &'static str,
    zone: &'static str,
    start: Time,
    /// Whether Quartz has no further fire before the year 2100.
    ended: bool,
    fires: Vec<Time>,
}

/// A clock on the days on which it changes, read once for all expressions.
struct Changes {
    zone: TimeZone,
    clocks: BTreeMap<Date, Vec<Shown>>,
}

#[test]
fn the_fires_are_those_of_quartz_except_where_the_clock_changes() {
    let (mut rows, mut compared) = (0, 0);
    let mut zones: BTreeMap<&str, Changes> = BTreeMap::new();
    for row in DATA.lines().filter_map(parse) {
        let changes = zones.entry(row.zone).or_insert_with(|| Changes::of(row.zone));
        let ours = ours(&row);
        let quiet = |times: &[Time]| -> Vec<Time> {
            times.iter().copied().filter(|t| !changes.clocks.contains_key(&changes.date(*t))).collect()
        };
        assert_eq!(quiet(&ours), quiet(&row.fires), "{} in {} from {}", row.expr, row.zone, row.start);
        rows += 1;
        compared += ours.len();
    }
    assert!(rows >= 40 * 3 && compared > 100_000, "only {rows} rows with {compared} fires");
}

#[test]
fn where_the_clock_changes_the_fires_are_those_of_the_rule() {
    let mut days: BTreeMap<(&str, &str), BTreeSet<Date>> = BTreeMap::new();
    let mut zones: BTreeMap<&str, Changes> = BTreeMap::new();
    for row in DATA.lines().filter_map(parse) {
        let changes = zones.entry(row.zone).or_insert_with(|| Changes::of(row.zone));
        let (first, last) = (row.start, row.fires.last().copied().unwrap_or(row.start));
        let span = changes.date(first)..=changes.date(last);
        days.entry((row.expr, row.zone))
            .or_default()
            .extend(changes.clocks.range(span).map(|(date, _)| *date));
    }
    let mut compared = 0;
    for ((expr, zone), dates) in days {
        let changes = &zones[zone];
        let schedule = Schedule::parse(expr, zone).unwrap();
        let oracle = Oracle::new(expr, GapPolicy::FireAtEnd);
        for date in dates {
            let on_the_day = |t: &Time| changes.date(*t) == date;
            let expected: Vec<Time> = oracle
                .by_clock(&changes.clocks[&date])
                .into_iter()
                .map(Time::from)
                .filter(on_the_day)
                .collect();
            let midnight = Time::from(changes.zone.to_timestamp(date.at(0, 0, 0, 0)).unwrap());
            let found: Vec<Time> = schedule.iter(Time(midnight.0 - 1)).take_while(on_the_day).collect();
            assert_eq!(found, expected, "{expr} in {zone} on {date}");
            compared += 1;
        }
    }
    assert!(compared > 200, "only {compared} days");
}

#[test]
fn what_quartz_refuses_is_refused_but_for_forms_of_our_own() {
    let refused: Vec<&str> = DATA.lines().filter_map(|line| line.strip_prefix("refused\t")).collect();
    assert!(refused.len() >= 10);
    for expr in refused {
        assert_eq!(Schedule::parse(expr, "UTC").is_ok(), OURS.contains(&expr), "{expr:?}");
    }
}

/// Our fires over the span of Quartz's.
fn ours(row: &Row) -> Vec<Time> {
    let schedule = Schedule::parse(row.expr, row.zone).unwrap();
    let fires = schedule.iter(row.start);
    if row.ended {
        return fires.collect();
    }
    let last = *row.fires.last().unwrap();
    fires.take_while(|fire| *fire <= last).collect()
}

fn parse(line: &'static str) -> Option<Row> {
    let columns: Vec<&str> = line.strip_prefix("fires\t")?.split('\t').collect();
    let [expr, zone, start, rest, steps] = columns[..] else { panic!("not a row: {line}") };
    let start = Time::parse(start).unwrap();
    let mut fires = Vec::new();
    for step in steps.split(' ').filter(|step| !step.is_empty()) {
        let (seconds, times) = step.split_once('*').unwrap_or((step, "1"));
        for _ in 0..times.parse().unwrap() {
            let last: Time = *fires.last().unwrap_or(&start);
            fires.push(Time(last.0 + seconds.parse::<i64>().unwrap() * 1000));
        }
    }
    Some(Row { expr, zone, start, ended: rest == "end", fires })
}

impl Changes {
    fn of(zone: &str) -> Self {
        let zone = TimeZone::get(zone).unwrap();
        let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let end: Timestamp = "2100-01-01T00:00:00Z".parse().unwrap();
        let instants = zone.following(begin).map(|change| change.timestamp()).take_while(|t| *t < end);
        let midnight = |date: Date| zone.to_timestamp(date.at(0, 0, 0, 0)).unwrap();
        let clock = |change| {
            let date = zone.to_datetime(change).date();
            (date, shown(&zone, midnight(date), midnight(date.tomorrow().unwrap()), 60))
        };
        let clocks = instants.map(clock).collect();
        Self { zone, clocks }
    }

    fn date(&self, time: Time) -> Date {
        self.zone.to_datetime(time.timestamp()).date()
    }
}
