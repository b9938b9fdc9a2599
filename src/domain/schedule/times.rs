//! The times of day of a schedule: every listed hour with every listed minute and second. They are the same on each of
//! its days, so their number before a given second is plain arithmetic. Called by [`super::wall`].

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

    /// The number in each of the listed minutes.
    pub(super) fn per_minute(self) -> u32 {
        self.seconds.count_ones()
    }

    /// The number in a whole day.
    pub(super) fn per_day(self) -> u64 {
        count(self.hours) * self.per_hour()
    }

    /// The number from midnight to this second of the day, inclusive.
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
        let in_hour = if has(self.hours, h) { self.last_in_hour(m, s) } else { None };
        match in_hour {
            Some(second) => Some(h * 3600 + second),
            None => Some(top(below(self.hours, h))? * 3600 + self.last_in_hour(59, 59)?),
        }
    }

    /// The last second of a listed hour that is not after this minute and second.
    fn last_in_hour(self, m: u32, s: u32) -> Option<u32> {
        let in_minute = if has(self.minutes, m) { top(below(self.seconds, s + 1)) } else { None };
        match in_minute {
            Some(second) => Some(m * 60 + second),
            None => Some(top(below(self.minutes, m))? * 60 + top(self.seconds)?),
        }
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
