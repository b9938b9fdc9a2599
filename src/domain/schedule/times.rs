//! The times of day of a schedule: every listed hour with every listed minute and second. They are the same on
//! each of its days, so their number before a given second is plain arithmetic. Called by [`super::wall`].

use std::collections::BTreeSet;

const ALL_HOURS: u64 = (1 << 24) - 1;

/// One bit per value; none of the three is empty.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    hours: u64,
    minutes: u64,
    seconds: u64,
}

impl Times {
    pub(super) fn new(hours: &BTreeSet<u16>, minutes: &BTreeSet<u16>, seconds: &BTreeSet<u16>) -> Self {
        let mask = |values: &BTreeSet<u16>| values.iter().fold(0, |mask, value| mask | 1 << (value & 63));
        Self { hours: mask(hours), minutes: mask(minutes), seconds: mask(seconds) }
    }

    pub(super) fn all_hours(self) -> bool {
        self.hours == ALL_HOURS
    }

    /// How many in a whole day.
    pub(super) fn per_day(self) -> u64 {
        count(self.hours) * self.per_hour()
    }

    /// How many from midnight to this second of the day, that second included.
    pub(super) fn count_through(self, second: u32) -> u64 {
        let (h, m, s) = split(second);
        let mut times = count(below(self.hours, h)) * self.per_hour();
        if has(self.hours, h) {
            times += count(below(self.minutes, m)) * count(self.seconds);
            if has(self.minutes, m) {
                times += count(below(self.seconds, s + 1));
            }
        }
        times
    }

    /// The last one of a day, as a second of that day.
    pub(super) fn last(self) -> u32 {
        self.last_through(86_399).unwrap_or(0)
    }

    /// The last one that is not after this second of the day.
    pub(super) fn last_through(self, second: u32) -> Option<u32> {
        let (h, m, s) = split(second);
        let in_minute = || top(below(self.seconds, s + 1)).map(|s| m * 60 + s);
        let in_hour = || Some(top(below(self.minutes, m))? * 60 + top(self.seconds)?);
        let earlier =
            || Some(top(below(self.hours, h))? * 3600 + top(self.minutes)? * 60 + top(self.seconds)?);
        let minute_listed = has(self.hours, h) && has(self.minutes, m);
        let in_minute = if minute_listed { in_minute() } else { None };
        let in_hour = in_minute.or_else(|| if has(self.hours, h) { in_hour() } else { None });
        in_hour.map(|second| h * 3600 + second).or_else(earlier)
    }

    fn per_hour(self) -> u64 {
        count(self.minutes) * count(self.seconds)
    }
}

fn split(second: u32) -> (u32, u32, u32) {
    (second / 3600, second / 60 % 60, second % 60)
}

fn count(mask: u64) -> u64 {
    u64::from(mask.count_ones())
}

fn has(mask: u64, value: u32) -> bool {
    mask & 1 << value != 0
}

/// The values smaller than `value`, which is at most 60.
fn below(mask: u64, value: u32) -> u64 {
    mask & ((1 << value) - 1)
}

fn top(mask: u64) -> Option<u32> {
    mask.checked_ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_agrees_with_a_walk_through_the_day() {
        let set = |values: &[u16]| values.iter().copied().collect::<BTreeSet<u16>>();
        let (hours, minutes, seconds) = ([0, 7, 23], [0, 30, 59], [3, 59]);
        let times = Times::new(&set(&hours), &set(&minutes), &set(&seconds));
        let (mut seen, mut last) = (0, None);
        for second in 0..86_400u32 {
            let (h, m, s) = split(second);
            let listed = |values: &[u16], value: u32| values.iter().any(|v| u32::from(*v) == value);
            if listed(&hours, h) && listed(&minutes, m) && listed(&seconds, s) {
                (seen, last) = (seen + 1, Some(second));
            }
            assert_eq!(
                (times.count_through(second), times.last_through(second)),
                (seen, last),
                "{h}:{m}:{s}"
            );
        }
        assert_eq!((times.per_day(), Some(times.last())), (seen, last));
    }
}
