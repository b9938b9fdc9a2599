//! Parses an expression by Quartz's rules: six or seven fields, names in any case, exactly one day field set. With five
//! fields the seconds are 0, and both day fields may be `*`: every day. Decides nothing about time; called by
//! [`super::wall`] once per schedule.

use std::collections::BTreeSet;

use super::days::DayRule;
use super::error::ScheduleError;
use super::field::{self, DAY_OF_MONTH, DAY_OF_WEEK, number};

/// The furthest that a day may be counted back from the end of the month: `L-30` is the 1st of a month with 31 days.
const MAX_OFFSET: u16 = 30;

/// The values of each field, with lists, ranges and steps expanded.
pub(super) struct Fields {
    pub(super) seconds: BTreeSet<u16>,
    pub(super) minutes: BTreeSet<u16>,
    pub(super) hours: BTreeSet<u16>,
    pub(super) days: DayRule,
    pub(super) months: BTreeSet<u16>,
    pub(super) years: BTreeSet<u16>,
}

impl Fields {
    /// Parses an expression.
    pub(super) fn parse(expr: &str) -> Result<Self, ScheduleError> {
        let expr = expr.to_ascii_uppercase();
        let parts = parts(&expr);
        let (seconds, minutes, hours, of_month, month, of_week, year) = match parts[..] {
            [m, h, dom, month, dow] => ("0", m, h, dom, month, dow, "*"),
            [s, m, h, dom, month, dow] => (s, m, h, dom, month, dow, "*"),
            [s, m, h, dom, month, dow, year] => (s, m, h, dom, month, dow, year),
            _ => return Err(ScheduleError::FieldCount { found: parts.len() }),
        };
        Ok(Self {
            seconds: field::SECONDS.values(seconds)?,
            minutes: field::MINUTES.values(minutes)?,
            hours: field::HOURS.values(hours)?,
            days: days(of_month, of_week)?,
            months: field::MONTH.values(month)?,
            years: field::YEAR.values(year)?,
        })
    }
}

/// The fields as they are written.
pub(super) fn parts(expr: &str) -> Vec<&str> {
    expr.split([' ', '\t']).filter(|part| !part.is_empty()).collect()
}

fn days(of_month: &str, of_week: &str) -> Result<DayRule, ScheduleError> {
    match (of_month, of_week) {
        ("?", "?") => Err(both(of_month, of_week)),
        ("*", "*") => days_of_month(of_month),
        ("?", of_week) => days_of_week(of_week),
        (of_month, "?") => days_of_month(of_month),
        _ => Err(both(of_month, of_week)),
    }
}

fn both(of_month: &str, of_week: &str) -> ScheduleError {
    ScheduleError::Days { day_of_month: of_month.into(), day_of_week: of_week.into() }
}

fn days_of_month(text: &str) -> Result<DayRule, ScheduleError> {
    let (mut days, mut from_end, mut nearest, mut nearest_from_end) = (0u32, 0u32, 0u32, 0u32);
    for part in text.split(',') {
        if let Some(rest) = part.strip_prefix('L') {
            let (offset, set) = match rest.strip_suffix('W') {
                Some(offset) => (offset, &mut nearest_from_end),
                None => (rest, &mut from_end),
            };
            *set |= 1 << offset_from_end(part, offset)?;
        } else if let Some(day) = part.strip_suffix('W') {
            nearest |= 1 << DAY_OF_MONTH.value(day)?;
        } else {
            days |= mask(&DAY_OF_MONTH.part(part)?);
        }
    }
    Ok(DayRule::OfMonth { days, from_end, nearest, nearest_from_end })
}

/// The `-3` of `L-3`; 0 if it has none.
fn offset_from_end(part: &str, text: &str) -> Result<u16, ScheduleError> {
    if text.is_empty() {
        return Ok(0);
    }
    match text.strip_prefix('-').and_then(number) {
        Some(offset) if offset <= MAX_OFFSET => Ok(offset),
        _ => Err(DAY_OF_MONTH.refuse(part, "after L comes nothing, -1 to -30, or W")),
    }
}

fn days_of_week(text: &str) -> Result<DayRule, ScheduleError> {
    // A single L is the last day of the week.
    if text == "L" {
        return Ok(DayRule::OfWeek(1 << DAY_OF_WEEK.max));
    }
    if text.contains(',') && (text.contains('#') || text.contains('L')) {
        return Err(DAY_OF_WEEK.refuse(text, "L and # cannot be part of a list"));
    }
    if let Some((day, nth)) = text.split_once('#') {
        return match number(nth) {
            Some(nth @ 1..=5) => Ok(DayRule::NthOfWeek(u32::from(DAY_OF_WEEK.value(day)?), u32::from(nth))),
            _ => Err(DAY_OF_WEEK.refuse(text, "after # comes a number from 1 to 5")),
        };
    }
    if let Some(day) = text.strip_suffix('L') {
        return Ok(DayRule::LastOfWeek(u32::from(DAY_OF_WEEK.value(day)?)));
    }
    Ok(DayRule::OfWeek(mask(&DAY_OF_WEEK.values(text)?)))
}

/// One bit per value; all fields that go through here end at 31 or below.
fn mask(values: &BTreeSet<u16>) -> u32 {
    values.iter().map(|value| 1 << (value & 31)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_rules_are_distinguished() {
        let days = |dom, dow| days(dom, dow).unwrap();
        assert_eq!(
            days("1,15,L,L-2,3W,LW,L-3W", "?"),
            DayRule::OfMonth {
                days: 1 << 1 | 1 << 15,
                from_end: 1 << 0 | 1 << 2,
                nearest: 1 << 3,
                nearest_from_end: 1 << 0 | 1 << 3
            }
        );
        assert_eq!(days("?", "L"), DayRule::OfWeek(1 << 7));
        assert_eq!(days("?", "FRIL"), DayRule::LastOfWeek(6));
        assert_eq!(days("?", "6L"), DayRule::LastOfWeek(6));
        assert_eq!(days("?", "MON#1"), DayRule::NthOfWeek(2, 1));
    }

    #[test]
    fn bad_days_are_refused() {
        for bad in
            ["L-31", "LX", "L-", "L-3WW", "WL", "W", "0W", "32W", "1-5W", "32", "0", "LW-3", "?,1", "JAN"]
        {
            assert!(days(bad, "?").is_err(), "{bad:?} was accepted");
        }
        for bad in
            ["0", "8", "6#6", "6#0", "#1", "8#1", "6#3,2#1", "FRIL,MON", "8L", "XL", "MONDAY", "MON-FRI/2"]
        {
            assert!(days("?", bad).is_err(), "{bad:?} was accepted");
        }
    }
}
