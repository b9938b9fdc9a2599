//! The one judge of what workers did: reads the lines that worker processes wrote about themselves and says
//! which runs there were, whether two runs of an item overlapped, whether tokens rose, and whether a fire was run
//! twice. It believes the workers' own clocks only, never the coordinator.
//!
//! All processes of a test share one machine, so the times of `CLOCK_BOOTTIME` compare between them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// User code of a run begins.
    Start,
    /// User code is alive: the last one of a frozen process says when it stopped working.
    Tick,
    /// User code returned; `detail` says how.
    End,
    /// User code was told to stop, and did.
    Cancel,
    /// User code was dropped.
    Drop,
    /// The process was killed: written by whoever killed it, once it was gone.
    Killed,
    /// The process was frozen, written by whoever did it, once it stood still.
    Frozen,
    /// The process goes on, written by whoever lets it, before it does.
    Thawed,
    /// A hook or callback was called; `detail` says which.
    Hook,
    /// The worker process ended by itself; `detail` says how.
    Exit,
}

/// One line of a worker's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Nanoseconds of `CLOCK_BOOTTIME`.
    pub at: u64,
    /// Milliseconds since 1970.
    pub wall: i64,
    /// The worker process, as the test names it.
    pub worker: String,
    pub what: What,
    #[serde(default)]
    pub job: String,
    #[serde(default)]
    pub item: u32,
    #[serde(default)]
    pub token: u64,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub fire: i64,
    #[serde(default)]
    pub source: String,
    #[serde(default)]
    pub attempt: u32,
    #[serde(default)]
    pub instance: String,
    #[serde(default)]
    pub detail: String,
}

/// One execution of one item: all attempts under one token in one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub job: String,
    pub item: u32,
    pub token: u64,
    pub fire: i64,
    pub source: String,
    pub worker: String,
    pub instance: String,
    pub attempts: u32,
    pub start: u64,
    /// When the last attempt stopped working; none: it never did.
    pub stop: Option<u64>,
    /// How it stopped; none: it never did, or its process was killed.
    pub how: Option<What>,
    /// The detail of its end.
    pub detail: String,
}

impl Run {
    pub fn ended(&self) -> bool {
        self.how == Some(What::End)
    }

    pub fn stopped_by_order(&self) -> bool {
        matches!(self.how, Some(What::Cancel | What::Drop))
    }
}

/// A broken promise, in words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
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

    /// How many runs there were per (item, fire, source).
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

    /// Fails where a promise is broken.
    #[track_caller]
    pub fn is_clean(&self) {
        let faults: Vec<String> = self.faults.iter().map(ToString::to_string).collect();
        assert!(faults.is_empty(), "broken promises:\n  {}\nruns:\n{}", faults.join("\n  "), self.table());
    }

    /// The runs, for people.
    pub fn table(&self) -> String {
        let from = self.runs.iter().map(|run| run.start).min().unwrap_or_default();
        let ms = |at: u64| at.saturating_sub(from) / 1_000_000;
        let line = |run: &Run| {
            let stop = run.stop.map_or_else(|| "never".to_owned(), |stop| ms(stop).to_string());
            format!(
                "  {}/{} token {} fire {} {} on {}: {} to {stop} ms {:?} {}\n",
                run.job,
                run.item,
                run.token,
                run.fire,
                run.source,
                run.worker,
                ms(run.start),
                run.how,
                run.detail
            )
        };
        self.runs.iter().map(line).collect()
    }
}

/// Judges.
pub fn judge(lines: &[Line]) -> Verdict {
    let mut lines = lines.to_vec();
    lines.sort_by_key(|line| line.at);
    let mut runs: BTreeMap<(String, String, u32, u64), Run> = BTreeMap::new();
    let mut faults = Vec::new();
    for line in &lines {
        match line.what {
            What::Start => begin(&mut runs, &mut faults, line),
            What::Tick => {}
            What::End | What::Cancel | What::Drop => end(&mut runs, line),
            What::Killed => {
                for run in runs.values_mut().filter(|run| run.worker == line.worker && run.stop.is_none()) {
                    run.stop = Some(line.at);
                }
            }
            What::Frozen | What::Thawed | What::Hook | What::Exit => {}
        }
    }
    let mut runs: Vec<Run> = runs.into_values().collect();
    runs.sort_by_key(|run| run.start);
    overlaps(&runs, &lines, &mut faults);
    tokens(&runs, &mut faults);
    once_per_fire(&runs, &mut faults);
    Verdict { runs, faults }
}

fn begin(runs: &mut BTreeMap<(String, String, u32, u64), Run>, faults: &mut Vec<Fault>, line: &Line) {
    let key = (line.worker.clone(), line.job.clone(), line.item, line.token);
    if let Some(run) = runs.get_mut(&key) {
        if line.attempt <= run.attempts {
            faults.push(Fault(format!(
                "attempt {} of {}/{} token {} began twice",
                line.attempt, line.job, line.item, line.token
            )));
        }
        run.attempts = line.attempt;
        (run.stop, run.how) = (None, None);
        return;
    }
    let run = Run {
        job: line.job.clone(),
        item: line.item,
        token: line.token,
        fire: line.fire,
        source: line.source.clone(),
        worker: line.worker.clone(),
        instance: line.instance.clone(),
        attempts: line.attempt,
        start: line.at,
        stop: None,
        how: None,
        detail: String::new(),
    };
    runs.insert(key, run);
}

fn end(runs: &mut BTreeMap<(String, String, u32, u64), Run>, line: &Line) {
    let key = (line.worker.clone(), line.job.clone(), line.item, line.token);
    if let Some(run) = runs.get_mut(&key)
        && run.stop.is_none()
    {
        run.stop = Some(line.at);
        run.how = Some(line.what);
        run.detail.clone_from(&line.detail);
    }
}

/// The time until which a worker was frozen, if it was at `at`.
fn frozen_until(lines: &[Line], worker: &str, at: u64) -> Option<u64> {
    let mut frozen = false;
    for line in lines.iter().filter(|line| line.worker == worker) {
        match line.what {
            What::Frozen if line.at <= at => frozen = true,
            What::Thawed if line.at <= at => frozen = false,
            What::Thawed if frozen => return Some(line.at),
            _ => {}
        }
    }
    frozen.then_some(u64::MAX)
}

/// A later run of an item may begin only when the earlier one has stopped, or cannot work since its process stands
/// still; then it must do nothing when it wakes but stop.
fn overlaps(runs: &[Run], lines: &[Line], faults: &mut Vec<Fault>) {
    let mut by_item: BTreeMap<(&str, u32), Vec<&Run>> = BTreeMap::new();
    for run in runs {
        by_item.entry((&run.job, run.item)).or_default().push(run);
    }
    for ((job, item), runs) in by_item {
        for (i, later) in runs.iter().enumerate() {
            for earlier in &runs[..i] {
                let stop = earlier.stop.unwrap_or(u64::MAX);
                if stop <= later.start {
                    continue;
                }
                let name = format!(
                    "{job}/{item}: token {} on {} began while token {} on {}",
                    later.token, later.worker, earlier.token, earlier.worker
                );
                match frozen_until(lines, &earlier.worker, later.start) {
                    None => faults.push(Fault(format!("{name} was still in user code"))),
                    Some(_) if earlier.ended() => faults.push(Fault(format!(
                        "{name} was frozen, and that one then ended as if nothing had been"
                    ))),
                    Some(_) => {}
                }
            }
        }
    }
}

/// Tokens of an item rise with every run.
fn tokens(runs: &[Run], faults: &mut Vec<Fault>) {
    let mut last: BTreeMap<(&str, u32), u64> = BTreeMap::new();
    for run in runs {
        if let Some(before) = last.insert((&run.job, run.item), run.token)
            && run.token <= before
        {
            faults.push(Fault(format!("{}/{}: token {} after {before}", run.job, run.item, run.token)));
        }
    }
}

/// A due time is run as such at most once per item.
fn once_per_fire(runs: &[Run], faults: &mut Vec<Fault>) {
    let mut seen: BTreeMap<(&str, u32, i64), u64> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.source == "NORMAL_TRIGGER") {
        if let Some(before) = seen.insert((&run.job, run.item, run.fire), run.token) {
            faults.push(Fault(format!(
                "{}/{}: fire {} was run as token {before} and {}",
                run.job, run.item, run.fire, run.token
            )));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at: u64, worker: &str, what: What, token: u64) -> Line {
        Line {
            at,
            wall: 0,
            worker: worker.into(),
            what,
            job: "j".into(),
            item: 0,
            token,
            fire: 1000,
            source: if token == 1 { "NORMAL_TRIGGER" } else { "FAILOVER" }.into(),
            attempt: 1,
            instance: worker.into(),
            detail: String::new(),
        }
    }

    fn faults(lines: &[Line]) -> Vec<String> {
        judge(lines).faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_run_after_the_end_or_the_death_of_the_first_is_in_order() {
        assert!(
            faults(&[
                line(1, "a", What::Start, 1),
                line(2, "a", What::Cancel, 1),
                line(3, "b", What::Start, 2)
            ])
            .is_empty()
        );
        assert!(
            faults(&[
                line(1, "a", What::Start, 1),
                line(2, "a", What::Killed, 0),
                line(3, "b", What::Start, 2)
            ])
            .is_empty()
        );
    }

    #[test]
    fn overlaps_are_seen() {
        let seen = faults(&[
            line(1, "a", What::Start, 1),
            line(3, "b", What::Start, 2),
            line(4, "a", What::Cancel, 1),
        ]);
        assert!(seen[0].contains("still in user code"), "{seen:?}");
        assert_eq!(faults(&[line(1, "a", What::Start, 1), line(3, "b", What::Start, 2)]).len(), 1);
    }

    #[test]
    fn a_frozen_run_may_be_replaced_if_it_stops_when_it_wakes() {
        let frozen = |how| {
            faults(&[
                line(1, "a", What::Start, 1),
                line(2, "a", What::Frozen, 0),
                line(3, "b", What::Start, 2),
                line(4, "a", What::Thawed, 0),
                line(5, "a", how, 1),
            ])
        };
        assert!(frozen(What::Cancel).is_empty());
        assert!(frozen(What::End)[0].contains("as if nothing had been"));
    }

    #[test]
    fn tokens_that_fall_and_fires_that_come_twice_are_seen() {
        let twice = |token: u64| {
            let normal = |mut line: Line| {
                line.source = "NORMAL_TRIGGER".into();
                line
            };
            faults(&[
                normal(line(1, "a", What::Start, 5)),
                normal(line(2, "a", What::End, 5)),
                normal(line(3, "b", What::Start, token)),
            ])
        };
        assert_eq!(twice(6), ["j/0: fire 1000 was run as token 5 and 6"]);
        assert_eq!(twice(4).len(), 2);
    }
}
