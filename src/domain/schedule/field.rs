//! One field of an expression as text, and the values it names. Called by [`super::fields`] only.

use std::collections::BTreeSet;

use super::error::ScheduleError;

/// What one field accepts.
pub(super) struct Field {
    /// Its name in errors.
    pub(super) name: &'static str,
    /// The allowed values, as errors list them.
    pub(super) allowed: &'static str,
    /// The smallest value.
    pub(super) min: u16,
    /// The largest value.
    pub(super) max: u16,
    /// The largest step after `*` or a single value. Quartz refuses a larger one, so that `0/90` in the minutes is not
    /// mistaken for "every 90 minutes". After a range it accepts any.
    max_step: u16,
    /// Names of the values from `min` on.
    names: &'static [&'static str],
    /// Whether a range may wrap around, as in `22-2`.
    wraps: bool,
}

pub(super) const SECONDS: Field = Field { name: "seconds", ..MINUTES };
pub(super) const MINUTES: Field = Field {
    name: "minutes",
    allowed: "0-59, *, lists 0,30, ranges 10-20 or 50-10, steps 0/5 up to 59",
    min: 0,
    max: 59,
    max_step: 59,
    names: &[],
    wraps: true,
};
pub(super) const HOURS: Field = Field {
    name: "hours",
    allowed: "0-23, *, lists 8,20, ranges 9-17 or 22-2, steps 0/2 up to 23",
    min: 0,
    max: 23,
    max_step: 23,
    names: &[],
    wraps: true,
};
pub(super) const DAY_OF_MONTH: Field = Field {
    name: "day-of-month",
    allowed: "1-31, *, ?, lists, ranges, steps up to 31, L, L-3 (to L-30), LW, L-3W, 15W",
    min: 1,
    max: 31,
    max_step: 31,
    names: &[],
    wraps: true,
};
pub(super) const MONTH: Field = Field {
    name: "month",
    allowed: "1-12 or JAN-DEC, *, lists, ranges 3-5 or NOV-FEB, steps up to 12",
    min: 1,
    max: 12,
    max_step: 12,
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
    wraps: true,
};
pub(super) const DAY_OF_WEEK: Field = Field {
    name: "day-of-week",
    allowed: "1-7 or SUN-SAT, *, ?, lists, ranges MON-FRI or FRI-MON, steps up to 7; \
              alone: L, 6L or FRIL, 6#3 or FRI#3",
    min: 1,
    max: 7,
    max_step: 7,
    names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
    wraps: true,
};
pub(super) const YEAR: Field = Field {
    name: "year",
    allowed: "1970-2099, *, lists, ranges 2026-2030, steps 2026/2",
    min: 1970,
    max: 2099,
    max_step: u16::MAX,
    names: &[],
    wraps: false,
};

impl Field {
    /// The values of a whole field: a list of single values, ranges, steps and `*`.
    pub(super) fn values(&self, text: &str) -> Result<BTreeSet<u16>, ScheduleError> {
        let mut values = BTreeSet::new();
        for part in text.split(',') {
            values.append(&mut self.part(part)?);
        }
        Ok(values)
    }

    /// The values of one part of a list.
    pub(super) fn part(&self, part: &str) -> Result<BTreeSet<u16>, ScheduleError> {
        if part.is_empty() {
            return Err(self.refuse(part, "a value is missing"));
        }
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(self.step(part, step)?)),
            None => (part, None),
        };
        // Quartz reads "MON-FRI/2" as "MON-FRI": better refused than silently something else.
        if step.is_some() && range.contains(|c: char| c.is_ascii_alphabetic()) {
            return Err(self.refuse(part, "a step cannot follow a name, write numbers"));
        }
        let Some((from, to)) = range.split_once('-') else {
            return self.open_ended(part, range, step);
        };
        self.spread(part, self.value(from)?, self.value(to)?, step.unwrap_or(1))
    }

    /// One number or name.
    pub(super) fn value(&self, text: &str) -> Result<u16, ScheduleError> {
        if let Some(at) = self.names.iter().position(|name| *name == text) {
            return Ok(self.min.saturating_add(u16::try_from(at).unwrap_or(0)));
        }
        let Some(value) = number(text) else { return Err(self.refuse(text, "it is not a value")) };
        if !(self.min..=self.max).contains(&value) {
            return Err(self.refuse(text, "it is out of range"));
        }
        Ok(value)
    }

    /// The error for a part of this field; the part is cut to a length that can be shown.
    pub(super) fn refuse(&self, value: &str, problem: &'static str) -> ScheduleError {
        let value = value.chars().take(64).collect();
        ScheduleError::Field { field: self.name, value, problem, allowed: self.allowed }
    }

    /// `*`, `*/5`, `/5`, `3` and `3/5`.
    fn open_ended(&self, part: &str, start: &str, step: Option<u16>) -> Result<BTreeSet<u16>, ScheduleError> {
        if step.is_some_and(|step| step > self.max_step) {
            return Err(self.refuse(part, "the step is larger than the field"));
        }
        let from = if matches!(start, "*" | "") { self.min } else { self.value(start)? };
        let to = if start == "*" || step.is_some() { self.max } else { from };
        self.spread(part, from, to, step.unwrap_or(1))
    }

    fn step(&self, part: &str, text: &str) -> Result<u16, ScheduleError> {
        match number(text) {
            Some(step) if step > 0 => Ok(step),
            _ => Err(self.refuse(part, "the step after / is not a number from 1 on")),
        }
    }

    /// Every `step`-th value from `from` to `to`, wrapping around if `to` is the smaller one.
    fn spread(&self, part: &str, from: u16, to: u16, step: u16) -> Result<BTreeSet<u16>, ScheduleError> {
        if from > to && !self.wraps {
            return Err(self.refuse(part, "the range ends before it starts"));
        }
        let size = self.max - self.min + 1;
        let end = if from > to { to + size } else { to };
        Ok((from..=end).step_by(usize::from(step)).map(|v| (v - self.min) % size + self.min).collect())
    }
}

/// Digits only: the standard parser would accept a sign.
pub(super) fn number(text: &str) -> Option<u16> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(field: &Field, text: &str) -> Vec<u16> {
        field.values(text).unwrap().into_iter().collect()
    }

    #[test]
    fn ranges_run_over_the_end() {
        assert_eq!(list(&HOURS, "22-2"), [0, 1, 2, 22, 23]);
        assert_eq!(list(&HOURS, "22-3/2"), [0, 2, 22]);
        assert_eq!(list(&DAY_OF_WEEK, "FRI-MON"), [1, 2, 6, 7]);
        assert_eq!(list(&MONTH, "NOV-FEB"), [1, 2, 11, 12]);
        assert_eq!(list(&DAY_OF_MONTH, "30-2"), [1, 2, 30, 31]);
        assert!(YEAR.values("2030-2026").is_err());
    }

    #[test]
    fn steps_and_lists() {
        assert_eq!(list(&MINUTES, "7/20"), [7, 27, 47]);
        assert_eq!(list(&MINUTES, "*/20"), [0, 20, 40]);
        assert_eq!(list(&MINUTES, "/20"), [0, 20, 40]);
        assert_eq!(list(&MINUTES, "5-9/100,3"), [3, 5]);
        assert_eq!(list(&YEAR, "2096/2"), [2096, 2098]);
        for bad in
            ["0/60", "0/90", "*/0", "60", "-1", "+1", "", "1,", "1-", "*5", "?", "5-", "1/2/3", "99999"]
        {
            assert!(MINUTES.values(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
