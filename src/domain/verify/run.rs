//! What the lines come to: runs, and who had the items.

use std::collections::{BTreeMap, BTreeSet};

use super::fault::{Fault, RunId};
use super::given::{self, Given};
use super::line::{Line, What};
use crate::time::Time;

/// One execution of one item: all attempts under one token in one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
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
    /// When its first attempt began.
    pub start: u64,
    /// When it was told to stop.
    pub told: Option<u64>,
    /// When the last attempt stopped working; none: it never did.
    pub stop: Option<u64>,
    /// How it stopped; none: it never did, or its process was killed.
    pub how: Option<What>,
    /// The detail of its end.
    pub detail: String,
    /// The outcome that was written down.
    pub settled: Option<String>,
    /// When its worker said until when it is believed; both only grow.
    pub(super) leases: Vec<(u64, u64)>,
}

impl Run {
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

    /// Which it is.
    pub fn id(&self) -> RunId {
        let (worker, job) = (self.worker.clone(), self.job.clone());
        RunId { worker, job, item: self.item, token: self.token }
    }

    /// It came to its own end.
    pub fn ended(&self) -> bool {
        self.how == Some(What::End)
    }

    /// It ended because it was told to.
    pub fn stopped_by_order(&self) -> bool {
        matches!(self.how, Some(What::Cancel | What::Drop))
    }

    /// Until when its worker was believed, from what it had said by then.
    pub(super) fn believed(&self, by: u64) -> Option<u64> {
        self.leases.iter().rev().find(|(at, _)| *at <= by).map(|(_, until)| *until)
    }

    /// Until when it counts as being in user code.
    pub(super) fn until(&self) -> u64 {
        self.told.into_iter().chain(self.stop).min().unwrap_or(u64::MAX)
    }
}

/// What the lines come to.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// All runs, in order of their starts.
    pub runs: Vec<Run>,
    /// Broken promises.
    pub faults: Vec<Fault>,
}

impl Verdict {
    /// Takes out what was never promised to these jobs, which are without monitorExecution; how much that is.
    pub fn leave_out(&mut self, unmonitored: &BTreeSet<String>) -> usize {
        let before = self.faults.len();
        let of_them = |fault: &Fault| fault.runs.first().is_some_and(|run| unmonitored.contains(&run.job));
        self.faults.retain(|fault| !(fault.needs_a_record() && of_them(fault)));
        before - self.faults.len()
    }

    /// Runs of a job.
    pub fn of<'a>(&'a self, job: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| run.job == job)
    }

    /// Runs of a job for this reason.
    pub fn by_source<'a>(&'a self, job: &'a str, source: &'a str) -> Vec<&'a Run> {
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
        let line = |run: &Run| {
            let stop = run.stop.map_or_else(|| "never".to_owned(), |stop| ms(stop).to_string());
            let (job, item, token, fire, source) = (&run.job, run.item, run.token, run.fire, &run.source);
            let (worker, start, how, detail) = (&run.worker, ms(run.start), run.how, &run.detail);
            format!(
                "  {job}/{item} token {token} fire {fire} {source} on {worker}: {start} to {stop} ms {how:?} {detail}\n"
            )
        };
        self.runs.iter().map(line).collect()
    }

    /// The same, and who ran nothing of what it was given; these assignments are in order of time. Who had lost it by
    /// `since` is left out.
    pub fn owners_by(&self, given: &[Given], since: Time) -> Vec<Owner> {
        given::add_idle(self.owners(), given, given::nanos(since))
    }

    /// Who had each item from when to when, as far as its runs tell: runs in a row by one instance are one line.
    pub fn owners(&self) -> Vec<Owner> {
        let mut by_item: BTreeMap<(&str, u32), Vec<Owner>> = BTreeMap::new();
        for run in &self.runs {
            let owners = by_item.entry((&run.job, run.item)).or_default();
            match owners
                .last_mut()
                .filter(|last| (&last.worker, &last.instance) == (&run.worker, &run.instance))
            {
                Some(last) => last.go_on(run),
                None => owners.push(Owner::new(run)),
            }
        }
        by_item.into_values().flatten().collect()
    }
}

/// An instance that had an item for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The job.
    pub job: String,
    /// The item.
    pub item: u32,
    /// The process.
    pub worker: String,
    /// The instance.
    pub instance: String,
    /// When its first run began; of who ran nothing, when it was given the item.
    pub from: u64,
    /// When its last run stopped, or the item was given to another; none: it did not, was not.
    pub until: Option<u64>,
    /// Its first run's token; 0: it ran nothing.
    pub first: u64,
    /// Its last run's token.
    pub last: u64,
    /// How many runs.
    pub runs: usize,
}

impl Owner {
    fn new(run: &Run) -> Self {
        Self {
            job: run.job.clone(),
            item: run.item,
            worker: run.worker.clone(),
            instance: run.instance.clone(),
            from: run.start,
            until: run.stop,
            first: run.token,
            last: run.token,
            runs: 1,
        }
    }

    fn go_on(&mut self, run: &Run) {
        (self.until, self.last) = (run.stop, run.token);
        self.runs += 1;
    }
}
