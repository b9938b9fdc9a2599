//! The one judge of what workers did: from the lines that they wrote about their own runs it says which runs there
//! were, and which promises were broken. It believes no coordinator and asks no store.
//!
//! A line is a JSON object ([`Line`]); who writes it is up to the worker. All writers share one clock that goes on
//! while a process stands still, such as `CLOCK_BOOTTIME` of one machine. The rules:
//!
//! | rule | what breaks it |
//! | --- | --- |
//! | `started_twice` | a token, or an attempt of it, enters user code again |
//! | `overlap` | two runs of an item are in user code at once; one that was told to stop, or that stands still, does not count, but must not end afterwards as if nothing had been |
//! | `tokens` | a run begins with a token that is not above that of the item's run before |
//! | `once_per_fire` | a due time is run as such a second time |
//! | `lease` | user code begins without a lease, or a run begins while the lease of the last one's worker is good, that run having neither ended nor stopped |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// User code of a run begins.
    Start,
    /// User code is alive.
    Tick,
    /// User code was told to stop; it may go on for a while.
    Told,
    /// User code returned; `detail` says how.
    End,
    /// User code was told to stop, and did.
    Cancel,
    /// User code was dropped.
    Drop,
    /// The process was killed: written by whoever killed it, once it was gone.
    Killed,
    /// The process was frozen: written by whoever did it, once it stood still.
    Frozen,
    /// The process goes on: written by whoever lets it, before it does.
    Thawed,
    /// A hook or callback was called; `detail` says which.
    Hook,
    /// The worker process ended by itself; `detail` says how.
    Exit,
}

/// One line of a worker's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Nanoseconds of the clock that all writers share.
    pub at: u64,
    /// Milliseconds since 1970, for people.
    #[serde(default)]
    pub wall: i64,
    /// The worker process; never the same name for two.
    pub worker: String,
    /// What happened.
    pub what: What,
    /// The run's job; empty where the line is about the process.
    #[serde(default)]
    pub job: String,
    /// The run's item.
    #[serde(default)]
    pub item: u32,
    /// The run's token.
    #[serde(default)]
    pub token: u64,
    /// The run's due time, milliseconds since 1970.
    #[serde(default)]
    pub fire: i64,
    /// NORMAL_TRIGGER, MISFIRE, FAILOVER or MANUAL.
    #[serde(default)]
    pub source: String,
    /// The run's attempt, from 1.
    #[serde(default)]
    pub attempt: u32,
    /// The instance that runs it.
    #[serde(default)]
    pub instance: String,
    /// For how many nanoseconds the worker is believed if it is not heard again; none: it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<u64>,
    /// More, in words.
    #[serde(default)]
    pub detail: String,
}

/// One execution of one item: all attempts under one token in one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its job.
    pub job: String,
    /// Its item.
    pub item: u32,
    /// Its token.
    pub token: u64,
    /// Its due time.
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
    /// When its worker said until when it is believed; both only grow.
    leases: Vec<(u64, u64)>,
}

impl Run {
    fn begun(line: &Line) -> Self {
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
            leases: Vec::new(),
        }
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
    fn believed(&self, by: u64) -> Option<u64> {
        self.leases.iter().rev().find(|(at, _)| *at <= by).map(|(_, until)| *until)
    }

    /// Until when it counts as being in user code.
    fn until(&self) -> u64 {
        self.told.into_iter().chain(self.stop).min().unwrap_or(u64::MAX)
    }
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The rule.
    pub rule: &'static str,
    /// Where and how.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.text)
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
}

/// Reads a log of JSON lines; what is none is passed over, as the last line of a killed process may be.
pub fn read(text: &str) -> Vec<Line> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Judges. `waking`: for how many nanoseconds a process that stood still may go on with a run that was given away
/// meanwhile, until it has noticed; `u64::MAX` where nobody can say, as on a real machine.
pub fn judge(lines: &[Line], waking: u64) -> Verdict {
    let mut lines: Vec<&Line> = lines.iter().collect();
    lines.sort_by_key(|line| line.at);
    let mut log = Log::default();
    for line in lines {
        log.take(line);
    }
    let mut runs: Vec<Run> = log.runs.into_values().collect();
    // Of two that began at once the lower token came first.
    runs.sort_by_key(|run| (run.start, run.token));
    let mut faults = log.faults;
    let mut by_item: BTreeMap<(&str, u32), Vec<&Run>> = BTreeMap::new();
    for run in &runs {
        by_item.entry((&run.job, run.item)).or_default().push(run);
    }
    for ((job, item), runs) in by_item {
        let name = format!("{job}/{item}");
        overlaps(&name, &runs, &log.still, waking, &mut faults);
        tokens(&name, &runs, &mut faults);
        once_per_fire(&name, &runs, &mut faults);
    }
    Verdict { runs, faults }
}

/// A run by its process, job, item and token.
type Key = (String, String, u32, u64);
/// When each process stood still: from, until.
type Still = BTreeMap<String, Vec<(u64, u64)>>;

#[derive(Default)]
struct Log {
    runs: BTreeMap<Key, Run>,
    /// Who started a token first.
    starters: BTreeMap<(String, u32, u64), String>,
    still: Still,
    faults: Vec<Fault>,
}

impl Log {
    fn take(&mut self, line: &Line) {
        match line.what {
            What::Start => self.begin(line),
            What::Tick | What::Hook | What::Exit => {}
            What::Told => {
                if let Some(run) = self.run(line) {
                    run.told.get_or_insert(line.at);
                }
            }
            What::End | What::Cancel | What::Drop => {
                if let Some(run) = self.run(line).filter(|run| run.stop.is_none()) {
                    (run.stop, run.how) = (Some(line.at), Some(line.what));
                    run.detail.clone_from(&line.detail);
                }
            }
            What::Killed => {
                for run in self.runs.values_mut().filter(|run| run.worker == line.worker) {
                    run.stop.get_or_insert(line.at);
                }
                self.thaw(line);
            }
            What::Frozen => self.still.entry(line.worker.clone()).or_default().push((line.at, u64::MAX)),
            What::Thawed => self.thaw(line),
        }
        if let Some(lease) = line.lease
            && let Some(run) = self.run(line)
        {
            let until = line.at.saturating_add(lease);
            if run.leases.last().is_none_or(|(_, before)| *before < until) {
                run.leases.push((line.at, until));
            }
        }
    }

    fn run(&mut self, line: &Line) -> Option<&mut Run> {
        self.runs.get_mut(&(line.worker.clone(), line.job.clone(), line.item, line.token))
    }

    fn thaw(&mut self, line: &Line) {
        if let Some(last) = self.still.get_mut(&line.worker).and_then(|spans| spans.last_mut()) {
            last.1 = last.1.min(line.at);
        }
    }

    fn begin(&mut self, line: &Line) {
        let Line { job, item, token, worker, attempt, .. } = line;
        let mut fault = |rule, what: String| {
            let text = format!("{job}/{item}: token {token} on {worker} {what}");
            self.faults.push(Fault { rule, text });
        };
        if line.lease == Some(0) {
            fault("lease", format!("began attempt {attempt} without a lease"));
        }
        let first = self.starters.entry((job.clone(), *item, *token)).or_insert_with(|| worker.clone());
        if first != worker {
            fault("started_twice", format!("had begun on {first}"));
        }
        let key = (worker.clone(), job.clone(), *item, *token);
        let Some(run) = self.runs.get_mut(&key) else {
            self.runs.insert(key, Run::begun(line));
            return;
        };
        if *attempt <= run.attempts {
            fault("started_twice", format!("began attempt {attempt} after attempt {}", run.attempts));
        }
        (run.attempts, run.stop, run.how) = (*attempt, None, None);
    }
}

/// The time until which a worker stands still, if it does at `at`.
fn still_until(still: &Still, worker: &str, at: u64) -> Option<u64> {
    let spans = still.get(worker)?;
    spans.iter().find(|(from, until)| *from <= at && at < *until).map(|(_, until)| *until)
}

/// A later run of an item may begin only when the earlier one has stopped, or cannot work since its process stands
/// still and is not believed any more; then it must do nothing when it wakes but stop.
fn overlaps(name: &str, runs: &[&Run], still: &Still, waking: u64, faults: &mut Vec<Fault>) {
    for (i, later) in runs.iter().enumerate() {
        for earlier in &runs[..i] {
            let mut fault = |rule, what: &str| {
                let (new, on, old, of) = (later.token, &later.worker, earlier.token, &earlier.worker);
                let text = format!("{name}: token {new} on {on} began while token {old} on {of} {what}");
                faults.push(Fault { rule, text });
            };
            // Who was killed has stopped, and is believed for the rest of its lease all the same.
            let over = earlier.how.is_some() && earlier.until() <= later.start || earlier.told.is_some();
            if !over && earlier.believed(later.start).is_some_and(|until| later.start < until) {
                fault("lease", "had a good lease");
            }
            if earlier.until() <= later.start {
                continue;
            }
            match still_until(still, &earlier.worker, later.start) {
                None => fault("overlap", "was still in user code"),
                Some(_) if earlier.ended() && earlier.told.is_none() => {
                    fault("overlap", "stood still, and that one then ended as if nothing had been");
                }
                Some(awake) if earlier.until() > awake.saturating_add(waking) => {
                    fault("overlap", "stood still, and that one went on when it woke");
                }
                Some(_) => {}
            }
        }
    }
}

/// Tokens of an item rise with every run.
fn tokens(name: &str, runs: &[&Run], faults: &mut Vec<Fault>) {
    for pair in runs.windows(2) {
        let (before, token) = (pair[0].token, pair[1].token);
        if token <= before {
            faults.push(Fault { rule: "tokens", text: format!("{name}: token {token} after {before}") });
        }
    }
}

/// A due time is run as such at most once per item.
fn once_per_fire(name: &str, runs: &[&Run], faults: &mut Vec<Fault>) {
    let mut seen: BTreeMap<i64, u64> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.source == "NORMAL_TRIGGER") {
        if let Some(before) = seen.insert(run.fire, run.token) {
            let text = format!("{name}: fire {} was run as token {before} and {}", run.fire, run.token);
            faults.push(Fault { rule: "once_per_fire", text });
        }
    }
}

#[cfg(test)]
#[path = "verify_test.rs"]
mod tests;
