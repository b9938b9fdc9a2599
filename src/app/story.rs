//! What the files of a coordinator say happened, for `rosterd verify`: its history, and where nobody serves from the
//! directory, the due times of its jobs. It reads and changes nothing of a job; without a coordinator.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rosterd_domain::id::{Item, JobName, Namespace};
use rosterd_domain::time::Time;
use rosterd_domain::verify::history::{Became, Kept, Story, Teller};
use rosterd_domain::view::{Job, Timeline};

use crate::history::{Fate, FireRow, History, HistoryError, Page, Reader, RunFilter, RunRow};
use crate::registry::embedded::{EmbeddedOptions, EmbeddedRegistry, OpenError};
use crate::registry::{ReadError, Registry};
use crate::runtime::clock::{Clock as _, System};

/// Most runs that are judged at once.
pub const MOST_RUNS: usize = 250_000;
/// Most due times that are judged at once, over all items.
pub const MOST_DUE: usize = 5_000_000;
/// The file of the history in a data directory.
const HISTORY: &str = "history.db";
/// How many due times of an item are asked for at a time.
const STRIDE: usize = 20_000;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Data directories: of one embedded store, or of the coordinators of one ensemble.
    pub dirs: Vec<PathBuf>,
    /// The namespace of an embedded store.
    pub namespace: Namespace,
    /// Only this job.
    pub job: Option<JobName>,
    /// Runs that began, and due times, not before this.
    pub from: Time,
    /// And before this; none: now.
    pub to: Option<Time>,
    /// By how much clocks may differ.
    pub skew: Duration,
}

/// Why nothing can be told.
#[derive(Debug, thiserror::Error)]
pub enum StoryError {
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
pub async fn story(asked: &Asked) -> Result<(Story, Vec<String>), StoryError> {
    let (mut teller, mut notes) = (Teller::default(), Vec::new());
    for dir in &asked.dirs {
        let file = dir.join(HISTORY);
        if !file.exists() {
            return Err(StoryError::Nothing(dir.display().to_string()));
        }
        runs(asked, &History::look_at(&file), dir, &mut teller).await?;
    }
    let whole = match asked.dirs.as_slice() {
        [dir] if EmbeddedRegistry::is_in(dir) => {
            due_times(asked, dir, &mut teller, &mut notes).await?;
            true
        }
        _ => {
            notes.push(ENSEMBLE.to_owned());
            false
        }
    };
    Ok((teller.tell(asked.skew, whole), notes))
}

/// Said where the registry is an ensemble.
pub const ENSEMBLE: &str =
    "each coordinator of an ensemble keeps the history of what it did itself: due times were not compared";

async fn runs(asked: &Asked, history: &Reader, dir: &Path, teller: &mut Teller) -> Result<(), StoryError> {
    let filter =
        RunFilter { job: asked.job.clone(), from: Some(asked.from), to: asked.to, ..RunFilter::default() };
    let mut token = None;
    loop {
        let (rows, next) = history
            .runs(filter.clone(), Page { size: 0, token })
            .await
            .map_err(|error| StoryError::History(dir.display().to_string(), error))?;
        rows.into_iter().map(kept).for_each(|run| teller.run(run));
        if teller.runs() > MOST_RUNS {
            return Err(StoryError::TooMuch(MOST_RUNS, "runs"));
        }
        if next.is_none() {
            return Ok(());
        }
        token = next;
    }
}

fn kept(run: RunRow) -> Kept {
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
    }
}

/// Compares what the schedules say with the history; not while a coordinator works with the store.
async fn due_times(
    asked: &Asked,
    dir: &Path,
    teller: &mut Teller,
    notes: &mut Vec<String>,
) -> Result<(), StoryError> {
    let store = match EmbeddedRegistry::open(dir, EmbeddedOptions::new(asked.namespace.clone())) {
        Ok(store) => store,
        Err(OpenError::InUse { dir }) => {
            notes.push(format!(
                "a coordinator works with {}: due times were not compared; ask it with --server",
                dir.display()
            ));
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let history = History::look_at(dir.join(HISTORY));
    let mut room = MOST_DUE;
    for name in store.jobs().await? {
        if asked.job.as_ref().is_some_and(|job| *job != name) {
            continue;
        }
        let Some(nodes) = store.job(&name).await? else { continue };
        let job = Job::decode(&name, &nodes).map_err(|why| StoryError::Job(name, why))?;
        let Some(job) = job else { continue };
        fires(asked, &history, dir, &job, &mut room, teller).await?;
    }
    Ok(())
}

async fn fires(
    asked: &Asked,
    history: &Reader,
    dir: &Path,
    job: &Job,
    room: &mut usize,
    teller: &mut Teller,
) -> Result<(), StoryError> {
    let from = job.sharding.made.map_or(asked.from, |made| made.max(asked.from));
    let to = asked.to.unwrap_or_else(|| System.wall());
    let timeline = Timeline::new(job);
    let next = |after: &Time| timeline.next(*after).filter(|due| *due < to);
    let mut due = std::iter::successors(next(&from.minus(Duration::from_millis(1))), next).peekable();
    while due.peek().is_some() {
        let part: Vec<Time> = due.by_ref().take(STRIDE).collect();
        let (Some(first), Some(last)) = (part.first().copied(), part.last().copied()) else { break };
        for item in (0..job.rules.items).map(Item) {
            *room =
                room.checked_sub(part.len()).ok_or(StoryError::TooMuch(MOST_DUE, "due times of items"))?;
            let until = last.plus(Duration::from_millis(1));
            let rows = history.fires(&job.name, part.iter().copied(), [item], first, until).await;
            let rows = rows.map_err(|error| StoryError::History(dir.display().to_string(), error))?;
            rows.iter().for_each(|row| tell(&job.name, row, teller));
        }
    }
    Ok(())
}

fn tell(job: &JobName, row: &FireRow, teller: &mut Teller) {
    let missed;
    let became = match (row.became, row.reason) {
        (Fate::Pending, _) => Became::Pending,
        (Fate::Unknown, _) => Became::Unknown,
        (fate, Some(reason)) => {
            missed = format!("{} ({reason})", fate.as_str());
            Became::Known(&missed)
        }
        (fate, None) => Became::Known(fate.as_str()),
    };
    teller.due(job.as_str(), row.item.0, row.fire, became);
}
