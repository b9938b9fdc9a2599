//! Violations, and the lines that prove them.

use std::collections::BTreeSet;
use std::fmt;

use super::line::{Line, What};

/// Identifies a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunId {
    /// The process.
    pub worker: String,
    /// Its job.
    pub job: String,
    /// Its item.
    pub item: u32,
    /// Its token.
    pub token: u64,
}

impl RunId {
    fn is_told_of(&self, line: &Line) -> bool {
        (line.item, line.token, &line.job, &line.worker) == (self.item, self.token, &self.job, &self.worker)
    }
}

/// A violation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The rule.
    pub rule: &'static str,
    /// Where and how it was broken.
    pub text: String,
    /// The runs that it is about, the earlier first.
    pub runs: Vec<RunId>,
    /// The scheduled time of an item, if it is not about a run: job, item, milliseconds since 1970.
    pub due: Option<(String, u32, i64)>,
}

impl Fault {
    /// A violation that is about runs.
    pub fn new(rule: &'static str, text: String, runs: Vec<RunId>) -> Self {
        Self { rule, text, runs, due: None }
    }

    /// Whether the rule holds only if a record of runs is kept (`monitorExecution`). Without one nobody knows of runs
    /// in flight elsewhere, so they may overlap and start in any order; nor is it known how a run ended whose worker
    /// died.
    pub fn needs_a_record(&self) -> bool {
        match self.rule {
            "overlap" | "lease" | "tokens" => self.runs.len() == 2,
            "no_outcome" => !self.runs.is_empty(),
            _ => false,
        }
    }

    /// The indexes in `lines` that show it, in order of time: how its runs started and stopped, what was done to their
    /// processes, and the lease that was violated.
    pub fn proof(&self, lines: &[Line]) -> Vec<usize> {
        let mut places: BTreeSet<usize> = BTreeSet::new();
        let workers: BTreeSet<&str> = self.runs.iter().map(|run| run.worker.as_str()).collect();
        for (place, line) in lines.iter().enumerate() {
            let of_a_run = self.runs.iter().any(|run| run.is_told_of(line));
            let told = match line.what {
                What::Tick | What::Hook => false,
                What::Scheduled => self.due.as_ref().is_some_and(|due| is_due(due, line)),
                what if what.is_about_a_process() => workers.contains(line.worker.as_str()),
                _ => of_a_run,
            };
            if told {
                places.insert(place);
            }
        }
        places.extend(self.lease(lines));
        let mut places: Vec<usize> = places.into_iter().collect();
        places.sort_by_key(|place| lines[*place].at);
        places
    }

    /// The last extension of the earlier run's lease before the later run started.
    fn lease(&self, lines: &[Line]) -> Option<usize> {
        let [earlier, later] = self.runs.as_slice() else { return None };
        if self.rule != "lease" {
            return None;
        }
        let began = |line: &&Line| line.what == What::Start && later.is_told_of(line);
        let began = lines.iter().find(began)?.at;
        let says =
            |(_, line): &(usize, &Line)| line.lease.is_some() && line.at <= began && earlier.is_told_of(line);
        lines.iter().enumerate().filter(says).max_by_key(|(_, line)| line.at).map(|(place, _)| place)
    }
}

fn is_due((job, item, fire): &(String, u32, i64), line: &Line) -> bool {
    (&line.job, line.item, line.fire) == (job, *item, *fire)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.text)
    }
}
