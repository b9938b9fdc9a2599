//! The dates of a schedule. A month is handled as a whole, as one bit per day, so counting the days of years takes some
//! hundred steps. Knows nothing of times and zones; called by [`super::wall`].

use std::collections::BTreeSet;

use chrono::{Datelike, NaiveDate};

/// The meaning of the two day fields. A bit of a mask is the number itself; weekdays count from 1 = Sunday.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DayRule {
    /// Days of the month, in four notations that may be mixed.
    OfMonth {
        /// `15`: this day.
        days: u32,
        /// `L-3`: this many days before the last one.
        from_end: u32,
        /// `15W`: the weekday nearest to this day, within the month; no day if the month is shorter.
        nearest: u32,
        /// `L-3W`: the weekday nearest to the day this many days before the last one.
        nearest_from_end: u32,
    },
    /// Days of the week.
    OfWeek(u32),
    /// `6L`: the last one of this weekday in the month.
    LastOfWeek(u32),
    /// `6#3`: the n-th one of this weekday in the month.
    NthOfWeek(u32, u32),
}

/// All dates of a schedule.
#[derive(Debug)]
pub(super) struct Days {
    years: BTreeSet<u16>,
    months: BTreeSet<u16>,
    rule: DayRule,
}

impl Days {
    pub(super) fn new(years: BTreeSet<u16>, months: BTreeSet<u16>, rule: DayRule) -> Self {
        Self { years, months, rule }
    }

    pub(super) fn contains(&self, date: NaiveDate) -> bool {
        self.month(Month::of(date)) & 1 << date.day() != 0
    }

    /// The number of dates from `from` on, before `end`.
    pub(super) fn count(&self, from: NaiveDate, end: NaiveDate) -> u64 {
        let Some(last) = end.pred_opt().filter(|last| *last >= from) else { return 0 };
        let months = Month::of(from).0..=Month::of(last).0;
        months.map(|month| u64::from(self.part(Month(month), from, last).count_ones())).sum()
    }

    /// The first one from `from` to `last`, both included.
    pub(super) fn first(&self, from: NaiveDate, last: NaiveDate) -> Option<NaiveDate> {
        let mut months = (Month::of(from).0..=Month::of(last).0).map(Month);
        months.find_map(|month| match self.part(month, from, last) {
            0 => None,
            days => month.day(days.trailing_zeros()),
        })
    }

    /// The last one from `from` to `last`, both included.
    pub(super) fn last(&self, from: NaiveDate, last: NaiveDate) -> Option<NaiveDate> {
        let mut months = (Month::of(from).0..=Month::of(last).0).rev().map(Month);
        months.find_map(|month| match self.part(month, from, last) {
            0 => None,
            days => month.day(days.ilog2()),
        })
    }

    /// The days of one month that lie from `from` to `last`.
    fn part(&self, month: Month, from: NaiveDate, last: NaiveDate) -> u32 {
        let mut days = self.month(month);
        if month == Month::of(from) {
            days &= u32::MAX << from.day();
        }
        if month == Month::of(last) {
            days &= u32::MAX >> (31 - last.day());
        }
        days
    }

    fn month(&self, month: Month) -> u32 {
        let (year, number) = month.year_and_number();
        let listed = |set: &BTreeSet<u16>, value: i32| u16::try_from(value).is_ok_and(|v| set.contains(&v));
        if !listed(&self.months, number) || !listed(&self.years, year) {
            return 0;
        }
        Shape::of(month).map_or(0, |shape| self.rule.days(shape))
    }
}

impl DayRule {
    fn days(&self, shape: Shape) -> u32 {
        match *self {
            Self::OfMonth { days, from_end, nearest, nearest_from_end } => {
                let targets = (nearest | shape.mirror(nearest_from_end)) & shape.all();
                let moved = bits(targets).fold(0, |moved, day| moved | 1 << shape.nearest_weekday(day));
                (days | shape.mirror(from_end) | moved) & shape.all()
            }
            // Different weekdays have no day in common.
            Self::OfWeek(week) => bits(week).map(|weekday| shape.every(weekday)).sum(),
            Self::LastOfWeek(weekday) => 1 << shape.every(weekday).ilog2(),
            Self::NthOfWeek(weekday, nth) => {
                let first = shape.every(weekday).trailing_zeros();
                1u32.checked_shl(first + 7 * (nth - 1)).unwrap_or(0) & shape.all()
            }
        }
    }
}

/// Months since the year 0.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Month(i32);

impl Month {
    fn of(date: NaiveDate) -> Self {
        Self(date.year() * 12 + date.month0() as i32)
    }

    fn year_and_number(self) -> (i32, i32) {
        (self.0.div_euclid(12), self.0.rem_euclid(12) + 1)
    }

    fn day(self, day: u32) -> Option<NaiveDate> {
        let (year, number) = self.year_and_number();
        NaiveDate::from_ymd_opt(year, number as u32, day)
    }
}

/// Length of a month and the weekday on which it starts: all that a day rule needs.
#[derive(Clone, Copy)]
struct Shape {
    length: u32,
    /// 1 = Sunday.
    first: u32,
}

impl Shape {
    fn of(month: Month) -> Option<Self> {
        let first = month.day(1)?;
        Some(Self {
            length: u32::from(first.num_days_in_month()),
            first: first.weekday().number_from_sunday(),
        })
    }

    /// Every day of the month.
    fn all(self) -> u32 {
        (u32::MAX >> (31 - self.length)) & !1
    }

    /// Every day that is this weekday; at least four.
    fn every(self, weekday: u32) -> u32 {
        const WEEKS: u32 = 1 << 0 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28;
        (WEEKS << ((weekday + 7 - self.first) % 7 + 1)) & self.all()
    }

    /// Days counted back from the last one, as days of the month; those before the 1st are dropped.
    fn mirror(self, from_end: u32) -> u32 {
        bits(from_end).filter(|back| *back < self.length).map(|back| 1 << (self.length - back)).sum()
    }

    /// Quartz's `W`: a Saturday moves to Friday and a Sunday to Monday, but never out of the month.
    fn nearest_weekday(self, day: u32) -> u32 {
        match (self.first + day - 1) % 7 {
            0 if day == 1 => 3,
            0 => day - 1,
            1 if day == self.length => day - 2,
            1 => day + 1,
            _ => day,
        }
    }
}

fn bits(mask: u32) -> impl Iterator<Item = u32> {
    (0..32).filter(move |bit| mask & 1 << bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(rule: DayRule, year: i32, month: u32) -> Vec<u32> {
        let date = NaiveDate::from_ymd_opt(year, month, 1).unwrap();
        bits(rule.days(Shape::of(Month::of(date)).unwrap())).collect()
    }

    fn nearest(day: u32) -> DayRule {
        DayRule::OfMonth { days: 0, from_end: 0, nearest: 1 << day, nearest_from_end: 0 }
    }

    #[test]
    fn the_nearest_weekday_stays_in_its_month() {
        // August 2026 starts on a Saturday, February 2026 on a Sunday; February ends on a Saturday, May on a
        // Sunday.
        assert_eq!(days(nearest(1), 2026, 8), [3]);
        assert_eq!(days(nearest(1), 2026, 2), [2]);
        assert_eq!(days(nearest(28), 2026, 2), [27]);
        assert_eq!(days(nearest(31), 2026, 5), [29]);
        assert_eq!(days(nearest(31), 2026, 6), [0u32; 0]);
    }

    #[test]
    fn weekdays_are_counted_within_the_month() {
        assert_eq!(days(DayRule::NthOfWeek(6, 3), 2026, 11), [20]);
        assert_eq!(days(DayRule::NthOfWeek(6, 5), 2026, 11), [0u32; 0]);
        assert_eq!(days(DayRule::LastOfWeek(6), 2026, 11), [27]);
        assert_eq!(days(DayRule::OfWeek(1 << 1 | 1 << 7), 2026, 2), [1, 7, 8, 14, 15, 21, 22, 28]);
        let last_days = DayRule::OfMonth { days: 0, from_end: 1 | 1 << 30, nearest: 0, nearest_from_end: 0 };
        assert_eq!(days(last_days.clone(), 2026, 2), [28]);
        assert_eq!(days(last_days, 2026, 3), [1, 31]);
    }
}
