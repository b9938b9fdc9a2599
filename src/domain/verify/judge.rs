//! The rules.

use std::collections::{BTreeMap, BTreeSet};

use super::fault::{Fault, RunId};
use super::line::{Line, What};
use super::run::{AuditedRun, Verdict};
use crate::time::Time;

/// Judges the lines. `waking`: how many nanoseconds a process that was frozen may continue with a run that was given
/// away meanwhile, before it notices; `u64::MAX` if that is not known, as on a real machine.
pub fn judge(lines: &[Line], waking: u64) -> Verdict {
    let mut lines: Vec<&Line> = lines.iter().collect();
    lines.sort_by_key(|line| line.at);
    let mut log = Log::default();
    for line in lines {
        log.take(line);
    }
    let mut runs: Vec<AuditedRun> = log.runs.into_values().collect();
    // If two started at the same time, the lower token comes first.
    runs.sort_by_key(|run| (run.start, run.token));
    let mut faults = log.faults;
    let mut by_item: BTreeMap<(&str, u32), Vec<&AuditedRun>> = BTreeMap::new();
    for run in &runs {
        by_item.entry((&run.job, run.item)).or_default().push(run);
    }
    for ((job, item), runs) in by_item {
        let name = format!("{job}/{item}");
        overlaps(&name, &runs, &log.still, waking, &mut faults);
        tokens(&name, &runs, &mut faults);
        once_per_fire(&name, &runs, &mut faults);
    }
    faults.extend(log.due.nothing_became());
    Verdict { runs, faults }
}

/// Scheduled times of items, and those that have a result.
#[derive(Default)]
struct DueTimes {
    due: BTreeSet<(String, u32, i64)>,
    accounted: BTreeSet<(String, u32, i64)>,
}

impl DueTimes {
    fn nothing_became(&self) -> impl Iterator<Item = Fault> {
        self.due.difference(&self.accounted).map(|due| {
            let (job, item, fire) = due;
            let text = format!("{job}/{item}: no result is recorded for {}", Time(*fire));
            Fault { rule: "no_outcome", text, runs: Vec::new(), due: Some(due.clone()) }
        })
    }
}

/// Outcomes that a worker reached: a run that crashed or was handed back may be run again.
const FINAL: [&str; 3] = ["succeeded", "failed", "timed_out"];

/// A run by its process, job, item and token.
type Key = (String, String, u32, u64);
/// When each process was frozen: from, until.
type Still = BTreeMap<String, Vec<(u64, u64)>>;

#[derive(Default)]
struct Log {
    runs: BTreeMap<Key, AuditedRun>,
    /// The process that first started each token.
    starters: BTreeMap<(String, u32, u64), String>,
    still: Still,
    due: DueTimes,
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
            What::Settled => {
                if let Some(run) = self.run(line) {
                    run.settled.get_or_insert_with(|| line.detail.clone());
                }
            }
            What::Lost => self.lose(line),
            What::Scheduled => drop(self.due.due.insert((line.job.clone(), line.item, line.fire))),
            What::NotRun => drop(self.due.accounted.insert((line.job.clone(), line.item, line.fire))),
            What::Killed => {
                for run in self.runs.values_mut().filter(|run| run.worker == line.worker) {
                    run.stop.get_or_insert(line.at);
                }
                self.thaw(line);
            }
            What::Frozen => self.freeze(line),
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

    fn lose(&mut self, line: &Line) {
        let Some(run) = self.run(line).filter(|run| run.stop.is_none()) else { return };
        (run.stop, run.how) = (Some(line.at), Some(line.what));
        let (id, Line { job, item, token, worker, .. }) = (run.id(), line);
        let text = format!("{job}/{item}: nobody knows how token {token} on {worker} ended");
        self.faults.push(Fault::new("no_outcome", text, vec![id]));
    }

    fn run(&mut self, line: &Line) -> Option<&mut AuditedRun> {
        self.runs.get_mut(&(line.worker.clone(), line.job.clone(), line.item, line.token))
    }

    /// A process that is resumed and frozen again in one instant has not run in between.
    fn freeze(&mut self, line: &Line) {
        let spans = self.still.entry(line.worker.clone()).or_default();
        match spans.last_mut() {
            Some((_, until)) if *until == line.at => *until = u64::MAX,
            _ => spans.push((line.at, u64::MAX)),
        }
    }

    fn thaw(&mut self, line: &Line) {
        if let Some(last) = self.still.get_mut(&line.worker).and_then(|spans| spans.last_mut()) {
            last.1 = last.1.min(line.at);
        }
    }

    fn begin(&mut self, line: &Line) {
        let Line { job, item, token, worker, attempt, .. } = line;
        self.due.accounted.insert((job.clone(), *item, line.fire));
        let begun = AuditedRun::begun(line);
        let mut fault = |rule, what: String, runs: Vec<RunId>| {
            let text = format!("{job}/{item}: token {token} on {worker} {what}");
            self.faults.push(Fault::new(rule, text, runs));
        };
        if line.lease == Some(0) {
            fault("lease", format!("began attempt {attempt} without a lease"), vec![begun.id()]);
        }
        let first = self.starters.entry((job.clone(), *item, *token)).or_insert_with(|| worker.clone());
        if first != worker {
            let before = RunId { worker: first.clone(), ..begun.id() };
            fault("started_twice", format!("had begun on {first}"), vec![before, begun.id()]);
        }
        let key = (worker.clone(), job.clone(), *item, *token);
        let Some(run) = self.runs.get_mut(&key) else {
            self.runs.insert(key, begun);
            return;
        };
        if *attempt <= run.attempts {
            let what = format!("began attempt {attempt} after attempt {}", run.attempts);
            fault("started_twice", what, vec![begun.id()]);
        }
        (run.attempts, run.stop, run.how) = (*attempt, None, None);
    }
}

/// Until when a run's process is frozen, if it is at `at`. A process that woke a moment before, and was frozen when the
/// run's lease ended, may not have noticed that yet.
fn still_until(still: &Still, run: &AuditedRun, at: u64, waking: u64) -> Option<u64> {
    let believed = run.believed(at);
    let unnoticed = |from: u64, until: u64| {
        believed.is_some_and(|end| (from..until).contains(&end)) && at < until.saturating_add(waking)
    };
    let mut spans = still.get(&run.worker)?.iter();
    spans
        .find(|(from, until)| *from <= at && (at < *until || unnoticed(*from, *until)))
        .map(|(_, until)| *until)
}

/// A later run of an item may start only if the earlier one has stopped, or cannot work because its process is frozen
/// and its lease has expired; after waking it must do nothing but stop. A run that never ends is reported once, not
/// with every run after it.
fn overlaps(name: &str, runs: &[&AuditedRun], still: &Still, waking: u64, faults: &mut Vec<Fault>) {
    let mut open: Vec<&AuditedRun> = Vec::new();
    for later in runs {
        open.retain(|earlier| {
            let found = overlap(earlier, later, still, waking);
            let twice = found.iter().any(|(rule, _)| *rule == "overlap");
            faults.extend(found.into_iter().map(|(rule, what)| {
                let (new, on, old, of) = (later.token, &later.worker, earlier.token, &earlier.worker);
                let text = format!("{name}: token {new} on {on} began while token {old} on {of} {what}");
                Fault::new(rule, text, vec![earlier.id(), later.id()])
            }));
            !twice && matters_after(earlier, later.start)
        });
        open.push(later);
    }
}

/// Whether runs that start after `at` could still overlap the run.
fn matters_after(run: &AuditedRun, at: u64) -> bool {
    let believed = || run.leases.last().is_some_and(|(_, until)| *until > at);
    run.until() > at || run.how.is_none() && run.told.is_none() && believed()
}

/// What is wrong with the later run's start, if anything.
fn overlap(
    earlier: &AuditedRun,
    later: &AuditedRun,
    still: &Still,
    waking: u64,
) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    // A killed process has stopped, but the rest of its lease counts all the same.
    let over = earlier.how.is_some() && earlier.until() <= later.start || earlier.told.is_some();
    if !over && earlier.believed(later.start).is_some_and(|until| later.start < until) {
        found.push(("lease", "had a good lease"));
    }
    if earlier.until() <= later.start {
        return found;
    }
    match still_until(still, earlier, later.start, waking) {
        None => found.push(("overlap", "was still in user code")),
        Some(_) if earlier.ended() && earlier.told.is_none() => {
            found.push(("overlap", "stood still, and that one then ended as if nothing had been"));
        }
        Some(awake) if earlier.until() > awake.saturating_add(waking) => {
            found.push(("overlap", "stood still, and that one went on when it woke"));
        }
        Some(_) => {}
    }
    found
}

/// An item's tokens increase with every run.
fn tokens(name: &str, runs: &[&AuditedRun], faults: &mut Vec<Fault>) {
    for pair in runs.windows(2) {
        let (before, token) = (pair[0].token, pair[1].token);
        if token <= before {
            let text = format!("{name}: token {token} after {before}");
            faults.push(Fault::new("tokens", text, vec![pair[0].id(), pair[1].id()]));
        }
    }
}

/// A scheduled time is run as such at most once per item, and taken over only while no outcome of it was recorded.
fn once_per_fire(name: &str, runs: &[&AuditedRun], faults: &mut Vec<Fault>) {
    let mut seen: BTreeMap<i64, &AuditedRun> = BTreeMap::new();
    let mut last: BTreeMap<i64, &AuditedRun> = BTreeMap::new();
    for run in runs {
        let mut fault = |before: &AuditedRun, text: String| {
            faults.push(Fault::new("once_per_fire", text, vec![before.id(), run.id()]));
        };
        if run.source == "NORMAL_TRIGGER"
            && let Some(before) = seen.insert(run.fire, run)
        {
            let (fire, old, new) = (Time(run.fire), before.token, run.token);
            fault(before, format!("{name}: the fire of {fire} was run as token {old} and {new}"));
        }
        let before = last.insert(run.fire, run);
        if run.source == "FAILOVER"
            && let Some((before, outcome)) = before.and_then(|before| Some((before, settled(before)?)))
        {
            let (fire, old, new) = (Time(run.fire), before.token, run.token);
            let what = format!("was taken over as token {new} although token {old} had {outcome}");
            fault(before, format!("{name}: the fire of {fire} {what}"));
        }
    }
}

/// An outcome after which nothing is run again.
fn settled(run: &AuditedRun) -> Option<&str> {
    run.settled.as_deref().filter(|outcome| FINAL.contains(outcome))
}
