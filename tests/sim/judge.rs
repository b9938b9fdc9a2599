//! Judges runs by what their handlers wrote down, and by nothing else: JSON lines of the form of [`Line`].
//!
//! It knows nothing of coordinators or stores, so logs of real processes can be judged as well as those of the
//! simulation. Times are milliseconds of one clock that all writers share.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// One line of a handler's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When, in milliseconds.
    pub at: u64,
    /// The worker process.
    pub process: String,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What a worker process writes down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// User code begins.
    Start { job: String, item: u32, token: u64, fire: u64, source: String },
    /// User code was told to stop.
    Cancelled { job: String, item: u32, token: u64 },
    /// User code is over; `dropped`: it did not end by itself.
    End { job: String, item: u32, token: u64, dropped: bool },
    /// The process stands still, or goes on.
    Frozen { frozen: bool },
    /// The process is dead: whatever it ran is over.
    Dead,
}

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The rule.
    pub rule: &'static str,
    /// How.
    pub text: String,
}

/// Reads a log of JSON lines; a line that is none is skipped, as the last one of a killed process may be.
#[allow(dead_code, reason = "for logs of real processes")]
pub fn read(text: &str) -> Vec<Line> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// One run as its handler lived it.
#[derive(Debug, Clone)]
struct Lived {
    process: String,
    token: u64,
    fire: u64,
    source: String,
    from: u64,
    /// Until it ended or was told to stop.
    until: u64,
}

/// Judges a log. The rules: `once_per_fire`, `overlap`, `tokens`, `started_twice`.
pub fn judge(log: &[Line]) -> Vec<Broken> {
    let mut broken = Vec::new();
    let runs = lived(log, &mut broken);
    let frozen = frozen(log);
    for ((job, item), runs) in &runs {
        let of = format!("item {item} of {job}");
        once_per_fire(&of, runs, &mut broken);
        tokens(&of, runs, &mut broken);
        overlap(&of, runs, &frozen, &mut broken);
    }
    broken
}

type Runs = BTreeMap<(String, u32), Vec<Lived>>;

fn lived(log: &[Line], broken: &mut Vec<Broken>) -> Runs {
    let mut runs: Runs = BTreeMap::new();
    let mut tokens: BTreeSet<(String, u32, u64)> = BTreeSet::new();
    for line in log {
        match &line.what {
            What::Start { job, item, token, fire, source } => {
                if !tokens.insert((job.clone(), *item, *token)) {
                    let text =
                        format!("item {item} of {job}: token {token} started again on {}", line.process);
                    broken.push(Broken { rule: "started_twice", text });
                }
                runs.entry((job.clone(), *item)).or_default().push(Lived {
                    process: line.process.clone(),
                    token: *token,
                    fire: *fire,
                    source: source.clone(),
                    from: line.at,
                    until: u64::MAX,
                });
            }
            What::Cancelled { job, item, token } | What::End { job, item, token, .. } => {
                let of_item = runs.get_mut(&(job.clone(), *item)).into_iter().flatten();
                for run in of_item.filter(|run| run.token == *token && run.process == line.process) {
                    run.until = run.until.min(line.at);
                }
            }
            What::Dead => {
                for run in runs.values_mut().flatten().filter(|run| run.process == line.process) {
                    run.until = run.until.min(line.at);
                }
            }
            What::Frozen { .. } => {}
        }
    }
    runs
}

/// When each process stood still.
fn frozen(log: &[Line]) -> BTreeMap<String, Vec<(u64, u64)>> {
    let mut still: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for line in log {
        match line.what {
            What::Frozen { frozen: true } => {
                still.entry(line.process.clone()).or_default().push((line.at, u64::MAX));
            }
            What::Frozen { frozen: false } | What::Dead => {
                if let Some(last) = still.get_mut(&line.process).and_then(|spans| spans.last_mut()) {
                    last.1 = last.1.min(line.at);
                }
            }
            _ => {}
        }
    }
    still
}

fn once_per_fire(of: &str, runs: &[Lived], broken: &mut Vec<Broken>) {
    let mut fires = BTreeSet::new();
    for run in runs.iter().filter(|run| run.source == "NORMAL_TRIGGER") {
        if !fires.insert(run.fire) {
            let text = format!("{of}: a second normal run (token {}) of the fire {}", run.token, run.fire);
            broken.push(Broken { rule: "once_per_fire", text });
        }
    }
}

/// On one process tokens only grow; over all processes each later start that does not overlap has a larger one.
fn tokens(of: &str, runs: &[Lived], broken: &mut Vec<Broken>) {
    let mut highest: BTreeMap<&str, u64> = BTreeMap::new();
    for run in runs {
        let before = highest.insert(&run.process, run.token);
        if before.is_some_and(|before| before >= run.token) {
            let text = format!("{of}: token {} on {} after {before:?}", run.token, run.process);
            broken.push(Broken { rule: "tokens", text });
        }
    }
}

/// No two runs of an item are in user code at one moment, processes that stand still and runs that were told to
/// stop left out.
fn overlap(of: &str, runs: &[Lived], frozen: &BTreeMap<String, Vec<(u64, u64)>>, broken: &mut Vec<Broken>) {
    let mut spans: Vec<(u64, u64, &Lived)> = Vec::new();
    for run in runs {
        let mut from = run.from;
        for (still, again) in frozen.get(&run.process).into_iter().flatten() {
            if *again > from && *still < run.until {
                spans.push((from, (*still).max(from), run));
                from = *again;
            }
        }
        if from < run.until {
            spans.push((from, run.until, run));
        }
    }
    spans.sort_by_key(|(from, until, _)| (*from, *until));
    let mut last: Option<(u64, &Lived)> = None;
    for (from, until, run) in spans {
        if let Some((busy_until, other)) = last
            && from < busy_until
            && until > from
            && other.token != run.token
        {
            let text = format!(
                "{of}: token {} runs on {} from {from} to {until} while token {} runs on {} until {busy_until}",
                run.token, run.process, other.token, other.process
            );
            broken.push(Broken { rule: "overlap", text });
        }
        if last.is_none_or(|(busy, _)| until > busy) {
            last = Some((until, run));
        }
    }
}
