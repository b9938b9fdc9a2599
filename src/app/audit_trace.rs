//! What the files of a coordinator say happened, for `rosterd verify`: its history, and where nobody serves from the
//! directory, the scheduled times of its jobs. It reads and changes nothing of a job; without a coordinator.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{Item, JobName, Namespace};
use rosterd_domain::time::Time;
use rosterd_domain::verify::history::{Kept, RecordedResult, Trace, TraceBuilder};
use rosterd_domain::view::{Job, Timeline};

use rosterd_history::{
    EventFilter, EventKind, Fate, FireRow, History, HistoryError, Page, Reader, RunFilter, RunRow,
};
use rosterd_registry::embedded::{EmbeddedOptions, EmbeddedRegistry, OpenError};
use rosterd_registry::{ReadError, Registry};
use rosterd_runtime::clock::{Clock as _, System};

/// Most runs that are judged at once.
pub const MOST_RUNS: usize = 250_000;
/// Most scheduled times that are judged at once, over all items.
pub const MOST_DUE: usize = 5_000_000;
/// Most assignments that are looked at, of each history; the latest.
pub const MOST_ASSIGNMENTS: usize = 10_000;
/// The file of the history in a data directory.
const HISTORY: &str = "history.db";
/// How many scheduled times of an item are asked for at a time.
const STRIDE: usize = 20_000;

/// Which runs and scheduled times to trace.
#[derive(Debug, Clone)]
pub struct TraceRequest {
    /// Data directories: of one embedded store, or of the coordinators of one ensemble.
    pub dirs: Vec<PathBuf>,
    /// The namespace of an embedded store.
    pub namespace: Namespace,
    /// Only this job.
    pub job: Option<JobName>,
    /// Runs that began, and scheduled times, not before this.
    pub from: Time,
    /// And before this; none: now.
    pub to: Option<Time>,
    /// By how much clocks may differ.
    pub skew: Duration,
    /// What was due in an ensemble, all of whose coordinators' histories are read.
    pub due: Option<Due>,
}

/// What the coordinators of an ensemble say of its jobs.
#[derive(Debug, Clone, Default)]
pub struct Due {
    /// When the items were due, in order of time.
    pub times: DueTimes,
    /// Jobs without monitorExecution.
    pub unmonitored: Vec<JobName>,
}

/// When the items of jobs were due, in order of time.
pub type DueTimes = BTreeMap<JobName, BTreeMap<Item, Vec<Time>>>;

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
pub enum AuditTraceError {
    /// No history there.
    #[error("there is no {HISTORY} in {0}: name the data_dir of a coordinator")]
    Nothing(String),
    /// It cannot be read.
    #[error("{0}: {1}")]
    History(String, HistoryError),
    /// The store beside it cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store beside it cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A job cannot be understood.
    #[error("job {0} cannot be understood: {1}; leave it out with --job")]
    Job(JobName, String),
    /// More than can be judged at once.
    #[error("there are more than {0} {1}: narrow --from and --to, or name one --job")]
    TooMuch(usize, &'static str),
}

/// What there is to judge, and what could not be looked at.
pub async fn trace(request: &TraceRequest) -> Result<(Trace, Vec<String>), AuditTraceError> {
    let (mut builder, mut notes) = (TraceBuilder::default(), Vec::new());
    for dir in &request.dirs {
        let file = dir.join(HISTORY);
        if !file.exists() {
            return Err(AuditTraceError::Nothing(dir.display().to_string()));
        }
        let history = History::look_at(&file);
        runs(request, &history, dir, &mut builder).await?;
        assignments(request, &history, dir, &mut builder).await?;
    }
    let whole = match (&request.due, request.dirs.as_slice()) {
        (Some(due), _) => {
            due.unmonitored.iter().for_each(|job| builder.unmonitored(job.as_str()));
            known_to_all(request, &due.times, &mut builder).await?;
            true
        }
        (None, [dir]) if EmbeddedRegistry::is_in(dir) => {
            due_times(request, dir, &mut builder, &mut notes).await?;
            true
        }
        _ => {
            notes.push(ENSEMBLE.to_owned());
            false
        }
    };
    Ok((builder.build(request.skew, whole), notes))
}

/// Said where the registry is an ensemble.
pub const ENSEMBLE: &str = "each coordinator of an ensemble keeps the history of what it did itself: scheduled times were not \
                            compared; give the --data-dir of each, and --whole";

async fn runs(
    request: &TraceRequest,
    history: &Reader,
    dir: &Path,
    builder: &mut TraceBuilder,
) -> Result<(), AuditTraceError> {
    let filter = RunFilter {
        job: request.job.clone(),
        from: Some(request.from),
        to: request.to,
        ..RunFilter::default()
    };
    let file: Arc<str> = dir.join(HISTORY).display().to_string().into();
    let mut token = None;
    loop {
        let (rows, next) = history
            .runs(filter.clone(), Page { size: 0, token })
            .await
            .map_err(|error| AuditTraceError::History(dir.display().to_string(), error))?;
        rows.into_iter().map(|row| kept(row, &file)).for_each(|run| builder.run(run));
        if builder.runs() > MOST_RUNS {
            return Err(AuditTraceError::TooMuch(MOST_RUNS, "runs"));
        }
        if next.is_none() {
            return Ok(());
        }
        token = next;
    }
}

/// The latest assignments, also from before the time that is judged: they may have been in force by then.
async fn assignments(
    request: &TraceRequest,
    history: &Reader,
    dir: &Path,
    builder: &mut TraceBuilder,
) -> Result<(), AuditTraceError> {
    let kind = Some(EventKind::Assigned);
    let filter = EventFilter { job: request.job.clone(), kind, to: request.to, ..EventFilter::default() };
    let (mut token, mut room) = (None, MOST_ASSIGNMENTS);
    loop {
        let (rows, next) = history
            .events(filter.clone(), Page { size: 0, token })
            .await
            .map_err(|error| AuditTraceError::History(dir.display().to_string(), error))?;
        for row in &rows {
            if let Some(job) = &row.job {
                builder.assigned(row.at, job.as_str(), &row.text);
            }
        }
        room = room.saturating_sub(rows.len());
        if next.is_none() || room == 0 {
            return Ok(());
        }
        token = next;
    }
}

fn kept(run: RunRow, file: &Arc<str>) -> Kept {
    Kept {
        job: run.job.into(),
        item: run.item.0,
        token: run.token.0,
        fire: run.fire,
        source: run.source.to_string(),
        instance: run.instance.into(),
        attempt: run.attempt,
        began: run.since,
        ended: run.ended,
        outcome: run.state.outcome().map(|outcome| outcome.as_str().to_owned()),
        kept_in: file.clone(),
    }
}

/// Compares what the schedules say with the history; not while a coordinator works with the store.
async fn due_times(
    request: &TraceRequest,
    dir: &Path,
    builder: &mut TraceBuilder,
    notes: &mut Vec<String>,
) -> Result<(), AuditTraceError> {
    let store = match EmbeddedRegistry::open(dir, EmbeddedOptions::new(request.namespace.clone())) {
        Ok(store) => store,
        Err(OpenError::InUse { dir }) => {
            notes.push(format!(
                "a coordinator works with {}: scheduled times were not compared; ask it with --server",
                dir.display()
            ));
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let history = History::look_at(dir.join(HISTORY));
    let mut room = MOST_DUE;
    for name in store.jobs().await? {
        if request.job.as_ref().is_some_and(|job| *job != name) {
            continue;
        }
        let Some(nodes) = store.job(&name).await? else { continue };
        let job = Job::decode(&name, &nodes).map_err(|why| AuditTraceError::Job(name, why))?;
        let Some(job) = job else { continue };
        if !job.rules.monitor {
            builder.unmonitored(job.name.as_str());
        }
        fires(request, &history, dir, &job, &mut room, builder).await?;
    }
    Ok(())
}

async fn fires(
    request: &TraceRequest,
    history: &Reader,
    dir: &Path,
    job: &Job,
    room: &mut usize,
    builder: &mut TraceBuilder,
) -> Result<(), AuditTraceError> {
    let from = job.sharding.made.map_or(request.from, |made| made.max(request.from));
    let to = request.to.unwrap_or_else(|| System.wall());
    let timeline = Timeline::new(job);
    let next = |after: &Time| timeline.next(*after).filter(|due| *due < to);
    let mut due = std::iter::successors(next(&from.minus(Duration::from_millis(1))), next).peekable();
    while due.peek().is_some() {
        let part: Vec<Time> = due.by_ref().take(STRIDE).collect();
        let (Some(first), Some(last)) = (part.first().copied(), part.last().copied()) else { break };
        for item in (0..job.rules.items).map(Item) {
            *room = room
                .checked_sub(part.len())
                .ok_or(AuditTraceError::TooMuch(MOST_DUE, "scheduled times of items"))?;
            let until = last.plus(Duration::from_millis(1));
            let rows = history.fires(&job.name, part.iter().copied(), [item], first, until).await;
            let rows = rows.map_err(|error| AuditTraceError::History(dir.display().to_string(), error))?;
            rows.iter().for_each(|row| add_due(&job.name, row, builder));
        }
    }
    Ok(())
}

/// Looks up what was due in all histories: the coordinator that ran it knows the result.
async fn known_to_all(
    request: &TraceRequest,
    due: &DueTimes,
    builder: &mut TraceBuilder,
) -> Result<(), AuditTraceError> {
    let histories: Vec<Reader> = request.dirs.iter().map(|dir| History::look_at(dir.join(HISTORY))).collect();
    for (job, items) in due {
        for (item, times) in items {
            for part in times.chunks(STRIDE) {
                let (Some(first), Some(last)) = (part.first().copied(), part.last().copied()) else { break };
                let until = last.plus(Duration::from_millis(1));
                let mut known: BTreeMap<Time, FireRow> = BTreeMap::new();
                for (history, dir) in histories.iter().zip(&request.dirs) {
                    let rows = history.fires(job, part.iter().copied(), [*item], first, until).await;
                    let rows =
                        rows.map_err(|error| AuditTraceError::History(dir.display().to_string(), error))?;
                    for row in rows {
                        let best = known.entry(row.fire).or_insert_with(|| row.clone());
                        if row.fate.outweighs(best.fate) {
                            *best = row;
                        }
                    }
                }
                known.values().for_each(|row| add_due(job, row, builder));
            }
        }
    }
    Ok(())
}

fn add_due(job: &JobName, row: &FireRow, builder: &mut TraceBuilder) {
    let missed;
    let result = match (row.fate, row.reason) {
        (Fate::Pending, _) => RecordedResult::Pending,
        (Fate::Unknown, _) => RecordedResult::Unknown,
        (fate, Some(reason)) => {
            missed = format!("{} ({reason})", fate.as_str());
            RecordedResult::Known(&missed)
        }
        (fate, None) => RecordedResult::Known(fate.as_str()),
    };
    builder.due(job.as_str(), row.item.0, row.fire, result);
}

#[cfg(test)]
mod tests {
    use rosterd_domain::id::{InstanceId, Token, WorkerId};
    use rosterd_domain::item::{Missed, Outcome, Running, Source};
    use rosterd_domain::plan::{Entry, FireResult};
    use rosterd_domain::verify::{given, judge};

    use super::*;
    use rosterd_history::{Options, Recorder};

    const NOON: i64 = 1_800_000_000;

    fn job() -> JobName {
        JobName::new("words").unwrap()
    }

    /// The second that a scheduled time is.
    fn due(n: i64) -> Time {
        Time::from_seconds(NOON + 60 * n)
    }

    fn run(n: i64, recorder: &Recorder) {
        let run = Running {
            fire: due(n),
            source: Source::NormalTrigger,
            instance: InstanceId::new("10.0.0.7@-@w").unwrap(),
            worker: WorkerId::new("w").unwrap(),
            since: due(n),
            trigger: None,
            held: false,
            cancelled: false,
            deaths: 0,
        };
        let (token, item) = (Token(u64::try_from(n).unwrap() + 1), Item(0));
        recorder.record(&job(), due(n), &Entry::Started { item, token, run: run.clone() }, None);
        let at = due(n).plus(Duration::from_secs(5));
        let ended = Entry::Ended { item, token, run, outcome: Outcome::Succeeded, at, requeued: false };
        recorder.record(&job(), at, &ended, None);
    }

    /// Two coordinators, of which each knows of some scheduled times; `missed` is what the second one says of the fourth.
    async fn two(dir: &Path, missed: bool) -> TraceRequest {
        let dirs = ["one", "two"].map(|name| dir.join(name));
        for (n, dir) in dirs.iter().enumerate() {
            std::fs::create_dir_all(dir).unwrap();
            let clock: rosterd_history::Clock = Arc::new(|| due(10));
            let (recorder, _) = History::open(dir.join(HISTORY), Options::default(), clock).unwrap();
            match n {
                0 => [0, 1, 4].iter().for_each(|n| run(*n, &recorder)),
                _ => run(2, &recorder),
            }
            // Both saw the first assignment, one of them a moment later; one is no longer there at the second.
            let given = |at, generation, instance| {
                let text = given::spell(generation, "", [(instance, [Item(0)].as_slice())]);
                recorder.event(at, Some(&job()), EventKind::Assigned, text, None);
            };
            given(due(0).plus(Duration::from_millis(n as u64)), 1, "10.0.0.7@-@w");
            if n == 1 {
                given(due(5), 2, "10.0.0.8@-@v");
            }
            if n == 1 && missed {
                let result = FireResult::Missed(Missed::NoWorker);
                let gap = Entry::NotRun { item: Item(0), first: due(3), latest: due(3), count: 1, result };
                recorder.record(&job(), due(3), &gap, None);
            }
            recorder.stop().await;
        }
        let times: Vec<Time> = (0..6).map(due).collect();
        TraceRequest {
            dirs: dirs.into(),
            namespace: Namespace::new("ns").unwrap(),
            job: None,
            from: due(0),
            to: None,
            skew: Duration::ZERO,
            due: Some(Due { times: [(job(), [(Item(0), times)].into())].into(), unmonitored: vec![job()] }),
        }
    }

    #[tokio::test]
    async fn what_is_due_in_an_ensemble_is_known_to_one_of_its_coordinators() {
        let dir = tempfile::tempdir().unwrap();
        let request = two(dir.path(), true).await;
        let (whole, notes) = trace(&request).await.unwrap();
        assert_eq!((judge(&whole.lines, 0).faults, notes), (Vec::new(), Vec::new()));
        assert_eq!(whole.unmonitored, ["words".to_owned()].into(), "as the coordinators report");
        let results: Vec<_> = whole.results.iter().map(|(what, n)| (what.as_str(), *n)).collect();
        assert_eq!(results, [("missed (no_worker)", 1), ("pending", 1), ("run", 4)]);
        assert!(whole.places[0].ends_with("one/history.db runs[words/0/1]"), "{:?}", whole.places);
        // One of them alone knows too little to say anything.
        let (alone, notes) = trace(&TraceRequest { due: None, ..request }).await.unwrap();
        assert_eq!((alone.results.len(), notes.len()), (0, 1));
    }

    #[tokio::test]
    async fn a_worker_that_was_given_an_item_and_ran_nothing_is_among_its_owners() {
        let dir = tempfile::tempdir().unwrap();
        let request = two(dir.path(), true).await;
        let (whole, _) = trace(&request).await.unwrap();
        assert_eq!(whole.given.iter().map(|given| given.at).collect::<Vec<_>>(), [due(0), due(5)]);
        let owners = judge(&whole.lines, 0).owners_by(&whole.given, request.from);
        let owned: Vec<_> =
            owners.iter().map(|owner| (owner.instance.as_str(), owner.from, owner.runs)).collect();
        let expected = [("10.0.0.7@-@w", due(0), 4), ("10.0.0.8@-@v", due(5), 0)];
        assert_eq!(owned, expected.map(|(instance, from, runs)| (instance, given::nanos(from), runs)));
    }

    #[tokio::test]
    async fn what_no_coordinator_of_an_ensemble_knows_of_has_no_outcome() {
        let dir = tempfile::tempdir().unwrap();
        let request = two(dir.path(), false).await;
        let (whole, _) = trace(&request).await.unwrap();
        let found = judge(&whole.lines, 0).faults;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            (found[0].rule, found[0].due.clone()),
            ("no_outcome", Some(("words".into(), 0, due(3).0)))
        );
    }
}
