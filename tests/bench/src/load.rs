//! A number of jobs with a number of items, and which of their fires ran when.

use std::collections::BTreeMap;

use crate::machine::percentile;
use crate::worker::Seen;

/// A number of jobs with a number of items.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) jobs: u32,
    pub(crate) items: u32,
    /// The period of each job in seconds; the jobs fire one after the other.
    pub(crate) every: u32,
    pub(crate) processes: u32,
}

impl Load {
    pub(crate) fn name(&self) -> String {
        let Self { jobs, items, every, processes } = self;
        format!("{jobs} jobs × {items} items every {every} s, {processes} workers")
    }

    /// Runs due each second.
    pub(crate) fn rate(&self) -> f64 {
        f64::from(self.jobs * self.items) / f64::from(self.every)
    }

    /// A job's file, without its name.
    pub(crate) fn file(&self) -> String {
        let cron = if self.every == 1 {
            "* * * * * ?".to_owned()
        } else {
            format!("{{n}}/{} * * * * ?", self.every)
        };
        format!("cron: '{cron}'\nshardingTotalCount: {}\n", self.items)
    }

    /// The scheduled times of a job from `from` until before `until`, in seconds.
    fn due(&self, job: u32, from: i64, until: i64) -> impl Iterator<Item = i64> {
        let (every, offset) = (i64::from(self.every), i64::from(job % 10));
        (from..until).filter(move |second| every == 1 || second % every == offset % every)
    }
}

/// The observed runs, compared with the scheduled times.
#[derive(Debug, Default)]
pub(crate) struct Fires {
    /// Milliseconds, sorted.
    pub(crate) lags: Vec<f64>,
    pub(crate) expected: usize,
    pub(crate) missed: usize,
    pub(crate) twice: usize,
    /// Later than a second.
    pub(crate) late: usize,
}

impl Fires {
    /// Of the seconds from `first` until before `last`.
    pub(crate) fn count(load: &Load, seen: &[Seen], first: i64, last: i64) -> Self {
        let mut fires = Self::default();
        let mut runs: BTreeMap<(u32, u32, i64), u32> = BTreeMap::new();
        for seen in seen {
            let second = seen.fire.div_euclid(1000);
            if (first..last).contains(&second) {
                *runs.entry((seen.job, seen.item, second)).or_default() += 1;
                fires.lags.push(seen.lag as f64 / 1e3);
                fires.late += usize::from(seen.lag > 1_000_000);
            }
        }
        fires.lags.sort_by(f64::total_cmp);
        fires.twice = runs.values().filter(|times| **times > 1).count();
        for job in 0..load.jobs {
            for second in load.due(job, first, last) {
                for item in 0..load.items {
                    fires.expected += 1;
                    fires.missed += usize::from(!runs.contains_key(&(job, item, second)));
                }
            }
        }
        fires
    }

    /// Counts the whole seconds between two moments, in microseconds.
    pub(crate) fn between(load: &Load, seen: &[Seen], from: i64, until: i64) -> Self {
        Self::count(load, seen, from.div_euclid(1_000_000) + 1, until.div_euclid(1_000_000))
    }

    /// Nothing missed, nothing twice, nothing later than a second.
    pub(crate) fn is_clean(&self) -> bool {
        self.missed + self.twice + self.late == 0 && self.expected > 0 && self.percentile(99.0) < 1000.0
    }

    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        percentile(&self.lags, percent)
    }
}

impl std::fmt::Display for Fires {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let p = |percent| self.percentile(percent);
        write!(
            f,
            "lag p50 {:.2} p90 {:.2} p99 {:.2} max {:.2} ms; of {} due {} missed, {} twice, {} later than 1 s",
            p(50.0),
            p(90.0),
            p(99.0),
            p(100.0),
            self.expected,
            self.missed,
            self.twice,
            self.late
        )
    }
}
