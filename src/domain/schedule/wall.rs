//! A schedule on a plain wall clock: no zone, no clock changes, each second passes exactly once.
//!
//! The next fire comes from the `cron` crate, which gets wall-clock time as if it were UTC, so that its answers always
//! increase. What it does not support (`L`, `W`, `#`) is a day rule of ours: it then runs on every day, and days
//! without a match are skipped. Counting and looking back need no search and are done here. Called by
//! [`super::Schedule`].

use std::collections::BTreeSet;
use std::str::FromStr;

use chrono::{DateTime, NaiveDate, Utc};

use super::days::{DayRule, Days};
use super::error::ScheduleError;
use super::field::{self, Field};
use super::fields::Fields;
use super::times::Times;

const DAY: i64 = 86_400;

/// A reading of the wall clock: what UTC would show this many seconds after 1970-01-01T00:00:00.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wall(pub(super) i64);

impl Wall {
    /// The last second before the first year of a schedule.
    const BEGIN: Self = Self(-1);
    /// The last second of the last year of a schedule, 2099-12-31T23:59:59.
    pub(super) const END: Self = Self(4_102_444_799);

    fn at(date: NaiveDate, second: u32) -> Self {
        Self(i64::from(date.to_epoch_days()) * DAY + i64::from(second))
    }

    pub(super) fn capped(self) -> Self {
        self.clamp(Self::BEGIN, Self::END)
    }

    fn date(self) -> NaiveDate {
        NaiveDate::from_epoch_days(self.0.div_euclid(DAY) as i32).unwrap_or_default()
    }

    fn second(self) -> u32 {
        self.0.rem_euclid(DAY) as u32
    }
}

/// An expression without a zone.
#[derive(Debug)]
pub(super) struct WallSchedule {
    engine: cron::Schedule,
    /// Whether the engine runs on every day, because it does not support the day rule.
    any_day: bool,
    days: Days,
    times: Times,
}

impl WallSchedule {
    pub(super) fn parse(expr: &str) -> Result<Self, ScheduleError> {
        let fields = Fields::parse(expr)?;
        let text = engine_text(&fields);
        // Unreachable for the texts of `engine_text`; if the engine disagrees, refusing is the safe answer.
        let engine = cron::Schedule::from_str(&text).map_err(|_| never(expr, "it cannot be scheduled"))?;
        let any_day = plain_days(&fields.days).is_none();
        let times = Times::new(&fields.hours, &fields.minutes, &fields.seconds);
        let days = Days::new(fields.years, fields.months, fields.days);
        if days.first(Wall(0).date(), Wall::END.date()).is_none() {
            return Err(never(expr, "no date from 1970 to 2099 has this day, month and year"));
        }
        Ok(Self { engine, any_day, days, times })
    }

    /// The maximum number of fires in a minute.
    pub(super) fn per_minute(&self) -> u32 {
        self.times.per_minute()
    }

    /// Whether the hours field lists all hours.
    pub(super) fn all_hours(&self) -> bool {
        self.times.all_hours()
    }

    /// The first fire after `after`.
    pub(super) fn next(&self, after: Wall) -> Option<Wall> {
        let found = self.engine_next(after)?;
        if !self.any_day || self.days.contains(found.date()) {
            return Some(found);
        }
        let day = self.days.first(found.date(), Wall::END.date())?;
        self.engine_next(Wall(Wall::at(day, 0).0 - 1))
    }

    /// How many fires after `after`, up to and with `until`.
    pub(super) fn count(&self, after: Wall, until: Wall) -> u64 {
        let (after, until) = (after.capped(), until.capped());
        if after >= until {
            return 0;
        }
        let whole_days = self.days.count(after.date(), until.date()) * self.times.per_day();
        whole_days + self.count_on_day(until) - self.count_on_day(after)
    }

    /// The last fire that is not after `until`, if it is after `after`.
    pub(super) fn last(&self, after: Wall, until: Wall) -> Option<Wall> {
        let (after, until) = (after.capped(), until.capped());
        self.last_on_day(until)
            .or_else(|| {
                let day = self.days.last(after.date(), until.date().pred_opt()?)?;
                Some(Wall::at(day, self.times.last()))
            })
            .filter(|found| *found > after)
    }

    fn engine_next(&self, after: Wall) -> Option<Wall> {
        let after = DateTime::<Utc>::from_timestamp(after.capped().0, 0)?;
        let found = self.engine.after(&after).next()?;
        Some(Wall(found.timestamp())).filter(|found| *found <= Wall::END)
    }

    /// The number of fires from the midnight before `until` on, up to and including `until`.
    fn count_on_day(&self, until: Wall) -> u64 {
        if self.days.contains(until.date()) { self.times.count_through(until.second()) } else { 0 }
    }

    fn last_on_day(&self, until: Wall) -> Option<Wall> {
        let date = Some(until.date()).filter(|date| self.days.contains(*date))?;
        self.times.last_through(until.second()).map(|second| Wall::at(date, second))
    }
}

fn never(expr: &str, reason: &'static str) -> ScheduleError {
    ScheduleError::NeverFires { expression: expr.into(), reason }
}

/// The expression in the engine's own notation: plain lists, and both day fields `*` for a day rule.
fn engine_text(fields: &Fields) -> String {
    let (of_month, of_week) = plain_days(&fields.days).unwrap_or_else(|| ("*".into(), "*".into()));
    [
        list(&field::SECONDS, &fields.seconds),
        list(&field::MINUTES, &fields.minutes),
        list(&field::HOURS, &fields.hours),
        of_month,
        list(&field::MONTH, &fields.months),
        of_week,
        list(&field::YEAR, &fields.years),
    ]
    .join(" ")
}

/// The two day fields of a rule that the engine supports.
fn plain_days(rule: &DayRule) -> Option<(String, String)> {
    let values = |mask: u32| (0..32).filter(|bit| mask & 1 << bit != 0).collect();
    match *rule {
        DayRule::OfMonth { days, from_end: 0, nearest: 0, nearest_from_end: 0 } => {
            Some((list(&field::DAY_OF_MONTH, &values(days)), "*".into()))
        }
        DayRule::OfWeek(days) => Some(("*".into(), list(&field::DAY_OF_WEEK, &values(days)))),
        _ => None,
    }
}

fn list(field: &Field, values: &BTreeSet<u16>) -> String {
    if values.len() == usize::from(field.max - field.min) + 1 {
        return "*".into();
    }
    values.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}
