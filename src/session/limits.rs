//! How much the workers of one credential may bring.

use std::fmt;

/// The limits of a credential. They hold for what workers bring with their registrations; what people apply counts towards
/// them, and is not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Streams open at one coordinator.
    pub streams: u32,
    /// Jobs that exist under the credential's names when a registration makes one.
    pub jobs: u32,
    /// The items of these jobs.
    pub items: u32,
    /// What the schedules of these jobs come to in their busiest minutes: fires times items.
    pub runs_per_minute: u32,
}

/// More than an honest fleet has, and few enough that one credential does not fill a coordinator.
impl Default for Limits {
    fn default() -> Self {
        Self { streams: 5_000, jobs: 5_000, items: 100_000, runs_per_minute: 100_000 }
    }
}

impl Limits {
    /// The limit that `load` is above, which its remedy names.
    pub fn broken_by(&self, load: Load) -> Option<Broken> {
        let of = |limit, most: u32, would| (would > u64::from(most)).then_some(Broken { limit, most, would });
        of("max_jobs", self.jobs, load.jobs)
            .or_else(|| of("max_items", self.items, load.items))
            .or_else(|| of("max_runs_per_minute", self.runs_per_minute, load.runs_per_minute))
    }
}

/// What jobs come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// How many there are.
    pub jobs: u64,
    /// Their items.
    pub items: u64,
    /// Fires times items in their busiest minutes.
    pub runs_per_minute: u64,
}

impl Load {
    /// Of one job.
    pub fn of_job(items: u32, fires_per_minute: u32) -> Self {
        let items = u64::from(items);
        Self { jobs: 1, items, runs_per_minute: items.saturating_mul(u64::from(fires_per_minute)) }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            jobs: self.jobs.saturating_add(other.jobs),
            items: self.items.saturating_add(other.items),
            runs_per_minute: self.runs_per_minute.saturating_add(other.runs_per_minute),
        }
    }

    /// Without the other.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self {
            jobs: self.jobs.saturating_sub(other.jobs),
            items: self.items.saturating_sub(other.items),
            runs_per_minute: self.runs_per_minute.saturating_sub(other.runs_per_minute),
        }
    }

    /// Whether it is more than the other in something.
    pub fn exceeds(self, other: Self) -> bool {
        self.jobs > other.jobs || self.items > other.items || self.runs_per_minute > other.runs_per_minute
    }
}

/// A limit that would be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    /// As the credential file names it.
    pub limit: &'static str,
    /// Its value.
    pub most: u32,
    /// What it would come to.
    pub would: u64,
}

/// The limit, and what to do about it.
impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, most, would } = self;
        let (what, instead) = match *limit {
            "max_jobs" => ("jobs", "remove one that is not needed"),
            "max_items" => ("items", "use fewer items"),
            _ => ("runs in the busiest minute", "fire less often or use fewer items"),
        };
        write!(
            f,
            "its jobs would come to {would} {what}, and {limit} of the credential is {most}: {instead}, or have {limit} raised in the credential file"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_limit_that_is_broken_is_named_with_its_value_and_the_remedy() {
        let limits = Limits { streams: 1, jobs: 2, items: 10, runs_per_minute: 60 };
        let load = Load::of_job(5, 6);
        assert_eq!(load, Load { jobs: 1, items: 5, runs_per_minute: 30 });
        assert_eq!(limits.broken_by(load.and(load)), None, "up to the limit");
        let broken = |load| limits.broken_by(load).unwrap().to_string();
        assert!(broken(Load { jobs: 3, ..load }).contains("3 jobs, and max_jobs of the credential is 2"));
        assert!(broken(Load { items: 11, ..load }).contains("use fewer items, or have max_items raised"));
        let often = broken(Load { runs_per_minute: 61, ..load });
        assert!(
            often.contains("61 runs in the busiest minute") && often.contains("fire less often"),
            "{often}"
        );
    }

    #[test]
    fn a_load_is_taken_away_again() {
        let (one, other) = (Load::of_job(5, 6), Load::of_job(2, 0));
        assert_eq!(one.and(other).without(one), other);
        assert_eq!(other.without(one), Load { jobs: 0, items: 0, runs_per_minute: 0 });
        assert!(one.exceeds(other) && !other.exceeds(one) && !one.exceeds(one));
    }
}
