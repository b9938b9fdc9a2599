//! The result of the lines: runs, and the owners of items.

use std::collections::{BTreeMap, BTreeSet};

use super::fault::{Fault, RunId};
use super::given::{self, Given};
use super::line::{Line, What};
use super::owner::Owner;
use crate::time::Time;

/// One execution of one item: all attempts under one token in one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedRun {
    /// Its job.
    pub job: String,
    /// Its item.
    pub item: u32,
    /// Its token.
    pub token: u64,
    /// Its scheduled time.
    pub fire: i64,
    /// Why it exists.
    pub source: String,
    /// The process.
    pub worker: String,
    /// The instance.
    pub instance: String,
    /// The last attempt.
    pub attempts: u32,
    /// When its first attempt started.
    pub start: u64,
    /// When it was told to stop.
    pub told: Option<u64>,
    /// When the last attempt stopped working; `None`: it never did.
    pub stop: Option<u64>,
    /// How it stopped; `None`: it never did, or its process was killed.
    pub how: Option<What>,
    /// The detail of its end.
    pub detail: String,
    /// The recorded outcome.
    pub settled: Option<String>,
    /// When its worker stated its lease, and the end of that lease; both only grow.
    pub(super) leases: Vec<(u64, u64)>,
}

impl AuditedRun {
    /// The owner of the item, as far as this run shows.
    fn had(&self) -> Owner {
        Owner {
            job: self.job.clone(),
            item: self.item,
            worker: self.worker.clone(),
            instance: self.instance.clone(),
            from: self.start,
            until: self.stop,
            first: self.token,
            last: self.token,
            runs: 1,
        }
    }

    pub(super) fn begun(line: &Line) -> Self {
        Self {
            job: line.job.clone(),
            item: line.item,
            token: line.token,
            fire: line.fire,
            source: line.source.clone(),
            worker: line.worker.clone(),
            instance: line.instance.clone(),
            attempts: line.attempt,
            start: line.at,
            told: None,
            stop: None,
            how: None,
            detail: String::new(),
            settled: None,
            leases: Vec::new(),
        }
    }

    /// Identifies it.
    pub fn id(&self) -> RunId {
        let (worker, job) = (self.worker.clone(), self.job.clone());
        RunId { worker, job, item: self.item, token: self.token }
    }

    /// Whether it came to its own end.
    pub fn ended(&self) -> bool {
        self.how == Some(What::End)
    }

    /// Whether it ended because it was told to.
    pub fn stopped_by_order(&self) -> bool {
        matches!(self.how, Some(What::Cancel | What::Drop))
    }

    /// The end of its worker's lease, by what the worker had stated by then.
    pub(super) fn believed(&self, by: u64) -> Option<u64> {
        self.leases.iter().rev().find(|(at, _)| *at <= by).map(|(_, until)| *until)
    }

    /// Until when it counts as being in user code.
    pub(super) fn until(&self) -> u64 {
        self.told.into_iter().chain(self.stop).min().unwrap_or(u64::MAX)
    }
}

/// The result of judging.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// All runs, in order of their starts.
    pub runs: Vec<AuditedRun>,
    /// The violations.
    pub faults: Vec<Fault>,
}

impl Verdict {
    /// Removes violations of rules that do not apply to these jobs, which are without monitorExecution; returns how
    /// many.
    pub fn leave_out(&mut self, unmonitored: &BTreeSet<String>) -> usize {
        let before = self.faults.len();
        let of_them = |fault: &Fault| fault.runs.first().is_some_and(|run| unmonitored.contains(&run.job));
        self.faults.retain(|fault| !(fault.needs_a_record() && of_them(fault)));
        before - self.faults.len()
    }

    /// Runs of a job.
    pub fn of<'a>(&'a self, job: &'a str) -> impl Iterator<Item = &'a AuditedRun> {
        self.runs.iter().filter(move |run| run.job == job)
    }

    /// Runs of a job for this reason.
    pub fn by_source<'a>(&'a self, job: &'a str, source: &'a str) -> Vec<&'a AuditedRun> {
        self.of(job).filter(|run| run.source == source).collect()
    }

    /// How many runs there were per item, fire and source.
    pub fn counts(&self, job: &str) -> BTreeMap<(u32, i64, String), usize> {
        let mut counts = BTreeMap::new();
        for run in self.of(job) {
            *counts.entry((run.item, run.fire, run.source.clone())).or_default() += 1;
        }
        counts
    }

    /// Items of a job whose run for this reason came to its own end.
    pub fn done(&self, job: &str, source: &str) -> BTreeSet<u32> {
        self.by_source(job, source).into_iter().filter(|run| run.ended()).map(|run| run.item).collect()
    }

    /// The runs, for people.
    pub fn table(&self) -> String {
        let from = self.runs.iter().map(|run| run.start).min().unwrap_or_default();
        let ms = |at: u64| at.saturating_sub(from) / 1_000_000;
        let line = |run: &AuditedRun| {
            let stop = run.stop.map_or_else(|| "never".to_owned(), |stop| ms(stop).to_string());
            let (job, item, token, fire, source) = (&run.job, run.item, run.token, run.fire, &run.source);
            let (worker, start, how, detail) = (&run.worker, ms(run.start), run.how, &run.detail);
            format!(
                "  {job}/{item} token {token} fire {fire} {source} on {worker}: {start} to {stop} ms {how:?} {detail}\n"
            )
        };
        self.runs.iter().map(line).collect()
    }

    /// The same, with the owners that ran nothing of what they were assigned; these assignments are in order of time.
    /// Ownership that ended before `since` is left out.
    pub fn owners_by(&self, given: &[Given], since: Time) -> Vec<Owner> {
        given::add_idle(self.owners(), given, given::nanos(since))
    }

    /// The owners of each item over time, as far as its runs show: consecutive runs by one instance are one line.
    pub fn owners(&self) -> Vec<Owner> {
        let mut by_item: BTreeMap<(&str, u32), Vec<Owner>> = BTreeMap::new();
        for run in &self.runs {
            let owners = by_item.entry((&run.job, run.item)).or_default();
            match owners
                .last_mut()
                .filter(|last| (&last.worker, &last.instance) == (&run.worker, &run.instance))
            {
                Some(last) => {
                    (last.until, last.last) = (run.stop, run.token);
                    last.runs += 1;
                }
                None => owners.push(run.had()),
            }
        }
        by_item.into_values().flatten().collect()
    }
}
