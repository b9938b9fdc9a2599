//! When jobs are due, computed independently of the schedule of the code under test: it checks the seconds one by one,
//! and changes of clocks are a table.
//!
//! Jobs of all hours follow elapsed time. Others follow local time: times in a gap are due once at its end, and of
//! doubled hours only the first one counts.

use rosterd_domain::time::Time;

const SECOND: i64 = 1000;

/// Changes of clocks in the year of the worlds: when, and the UTC offset in seconds before and after.
const NEW_YORK: [(&str, i64, i64); 2] =
    [("2026-03-08T07:00:00Z", -18_000, -14_400), ("2026-11-01T06:00:00Z", -14_400, -18_000)];
const LORD_HOWE: [(&str, i64, i64); 2] =
    [("2026-04-04T15:00:00Z", 39_600, 37_800), ("2026-10-03T15:30:00Z", 37_800, 39_600)];

/// A schedule: a period in milliseconds within a minute, in some hours of a zone's local time, or in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceSchedule {
    period: i64,
    hours: Vec<i64>,
    zone: String,
}

impl ReferenceSchedule {
    /// Parses a job's `cron`, as far as worlds use it.
    pub fn read(cron: &str, zone: Option<&str>) -> Option<Self> {
        let mut fields = cron.split(' ');
        let (seconds, _minutes, hours) = (fields.next()?, fields.next()?, fields.next()?);
        let period = if seconds == "0" { 60 } else { seconds.strip_prefix("0/")?.parse::<i64>().ok()? };
        let all = hours == "*";
        let hours =
            if all { Vec::new() } else { hours.split(',').filter_map(|hour| hour.parse().ok()).collect() };
        // If all hours count, the zone is irrelevant.
        let zone = zone.filter(|_| !all).unwrap_or("UTC").to_owned();
        Some(Self { period: period * SECOND, hours, zone })
    }

    /// How many scheduled times are in (after, until].
    pub fn count(&self, after: i64, until: i64) -> i64 {
        let (from, to) = (after.div_euclid(self.period), until.div_euclid(self.period));
        if self.hours.is_empty() {
            return to - from;
        }
        let due = (from + 1..=to).filter(|turn| self.is_due(turn * self.period)).count();
        i64::try_from(due).unwrap_or(i64::MAX)
    }

    /// Whether the clocks of a zone change between two moments.
    pub fn changes(zone: &str, from: Time, to: Time) -> bool {
        changes(zone).iter().any(|(at, _, _)| from.0 < *at && *at <= to.0)
    }

    fn is_due(&self, at: i64) -> bool {
        let changes = changes(&self.zone);
        let wall = at + offset(&self.zone, &changes, at);
        let came_before = |(change, before, _): &(i64, i64, i64)| *change <= at && wall < change + before;
        if self.shows(wall) && !changes.iter().any(came_before) {
            return true;
        }
        let ends_here = changes.iter().find(|(change, before, after)| *change == at && before < after);
        ends_here.is_some_and(|(change, before, after)| {
            (change + before..change + after).step_by(1000).any(|wall| self.shows(wall))
        })
    }

    /// Whether this local time is a scheduled time.
    fn shows(&self, wall: i64) -> bool {
        let hour = wall.rem_euclid(86_400 * SECOND) / (3600 * SECOND);
        wall.rem_euclid(self.period) == 0 && self.hours.contains(&hour)
    }
}

/// A zone's changes, in milliseconds.
fn changes(zone: &str) -> Vec<(i64, i64, i64)> {
    let table: &[_] = match zone {
        "America/New_York" => &NEW_YORK,
        "Australia/Lord_Howe" => &LORD_HOWE,
        _ => &[],
    };
    let millis = |(at, before, after): &(&str, i64, i64)| {
        (Time::parse(at).unwrap_or_default().0, before * SECOND, after * SECOND)
    };
    table.iter().map(millis).collect()
}

/// The UTC offset.
fn offset(zone: &str, changes: &[(i64, i64, i64)], at: i64) -> i64 {
    let last = changes.iter().rev().find(|(change, _, _)| *change <= at).map(|(_, _, after)| *after);
    last.or(changes.first().map(|(_, before, _)| *before)).unwrap_or(if zone == "GMT+8:00" {
        8 * 3600 * SECOND
    } else {
        0
    })
}

#[test]
fn a_gap_is_due_once_and_of_an_hour_that_comes_twice_the_first() {
    let between = |hours: &str, zone: &str, from: &str, to: &str| {
        let due = ReferenceSchedule::read(&format!("0/20 * {hours} * * ?"), Some(zone)).unwrap();
        due.count(Time::parse(from).unwrap().0, Time::parse(to).unwrap().0)
    };
    let (york, howe) = ("America/New_York", "Australia/Lord_Howe");
    assert_eq!(between("2", york, "2026-03-08T06:59:15Z", "2026-03-08T07:05:00Z"), 1);
    assert_eq!(between("1", york, "2026-03-08T06:59:15Z", "2026-03-08T07:05:00Z"), 2);
    assert_eq!(between("3", york, "2026-03-08T06:59:15Z", "2026-03-08T07:05:00Z"), 16);
    assert_eq!(between("1", york, "2026-11-01T05:59:15Z", "2026-11-01T06:05:00Z"), 2);
    assert_eq!(between("1", howe, "2026-04-04T14:59:15Z", "2026-04-04T15:05:00Z"), 2);
    assert_eq!(between("1", howe, "2026-04-04T15:29:00Z", "2026-04-04T15:31:00Z"), 0);
    assert_eq!(between("2", howe, "2026-04-04T15:29:00Z", "2026-04-04T15:31:00Z"), 4);
    assert_eq!(between("2", howe, "2026-10-03T15:29:15Z", "2026-10-03T15:30:30Z"), 2);
    assert_eq!(between("8", "GMT+8:00", "2026-03-01T00:00:00Z", "2026-03-01T00:01:00Z"), 3);
    assert_eq!(between("*", york, "2026-03-08T06:59:15Z", "2026-03-08T07:00:15Z"), 3);
}
