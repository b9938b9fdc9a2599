//! The reader: answers questions from two connections of its own. Held by the API layers. Its reads neither wait
//! for the writer nor make it wait; what was recorded within the last moments may not be there yet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rosterd_domain::id::{Item, JobName};
use rosterd_domain::item::Counters;
use rosterd_domain::time::Time;
use tokio::sync::Semaphore;

use super::ledger::{FireRow, Ledger};
use super::queue::Queue;
use super::rows::{EventFilter, EventRow, Page, Recent, RunFilter, RunRow, UnrunRow, missed_named};
use super::sql::{Shelf, Tally};
use super::{HistoryError, MAX_ANSWER, MAX_PAGE};

/// How many questions are answered at a time; others wait for their turn.
const READERS: usize = 2;
/// A page ends after so many bytes of texts: an answer has to fit into a message.
const PAGE_BYTES: usize = 2 << 20;

/// Reads the history. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Reader {
    shelves: Arc<Shelves>,
    /// What waits to be written, where this process writes it.
    queue: Option<Arc<Queue>>,
}

#[derive(Debug)]
struct Shelves {
    path: PathBuf,
    file: Arc<AtomicU64>,
    turns: Arc<Semaphore>,
    free: Mutex<Vec<(u64, Shelf)>>,
}

impl Reader {
    pub(super) fn new(path: PathBuf, file: Arc<AtomicU64>, queue: Option<Arc<Queue>>) -> Self {
        let (turns, free) = (Arc::new(Semaphore::new(READERS)), Mutex::default());
        Self { shelves: Arc::new(Shelves { path, file, turns, free }), queue }
    }

    /// Waits until all that was recorded before is written, or dropped; whether it was done in time.
    pub async fn settle(&self, most: Duration) -> bool {
        let Some(queue) = self.queue.clone() else { return true };
        // Fails only while the runtime shuts down, when there is nobody left to wait.
        tokio::task::spawn_blocking(move || queue.settle(most)).await.unwrap_or(false)
    }

    /// Runs, newest first, and where the next page begins.
    pub async fn runs(
        &self,
        filter: RunFilter,
        page: Page,
    ) -> Result<(Vec<RunRow>, Option<String>), HistoryError> {
        let mut rows = Paged::new(page)?;
        self.ask(move |shelf| {
            shelf.runs(&filter, rows.after, |at, run| {
                let bytes = run.error.len() + run.output.len();
                rows.take(at, run, bytes)
            })?;
            Ok(rows.done())
        })
        .await
    }

    /// The newest `n` runs of a job, at most [`MAX_PAGE`].
    pub async fn last_runs(&self, job: &JobName, n: usize) -> Result<Vec<RunRow>, HistoryError> {
        if n == 0 {
            return Ok(Vec::new());
        }
        let filter = RunFilter { job: Some(job.clone()), ..RunFilter::default() };
        Ok(self.runs(filter, Page { size: n, token: None }).await?.0)
    }

    /// A job's runs that started at `from` or later, counted by their state.
    pub async fn recent(&self, job: &JobName, from: Time) -> Result<Vec<Recent>, HistoryError> {
        let job = job.clone();
        self.ask(move |shelf| Ok(shelf.recent(&job, from)?)).await
    }

    /// Events, newest first, and where the next page begins.
    pub async fn events(
        &self,
        filter: EventFilter,
        page: Page,
    ) -> Result<(Vec<EventRow>, Option<String>), HistoryError> {
        let mut rows = Paged::new(page)?;
        self.ask(move |shelf| {
            shelf.events(&filter, rows.after, |at, event| {
                let bytes = event.text.len();
                rows.take(at, event, bytes)
            })?;
            Ok(rows.done())
        })
        .await
    }

    /// A job's gaps that reach into `[from, to)`, the oldest first.
    pub async fn unrun(&self, job: &JobName, from: Time, to: Time) -> Result<Vec<UnrunRow>, HistoryError> {
        let job = job.clone();
        self.ask(move |shelf| gaps(shelf, &job, from, to)).await
    }

    /// What became of every scheduled time in `[from, to)` for each of the items: a row for each pair, by scheduled time.
    ///
    /// `expected` are the schedule's scheduled times; it is read only up to `to`. Scheduled times that come twice, or lie
    /// before `from`, are left out. Triggers by hand are no scheduled times; they are among the runs.
    pub async fn fires(
        &self,
        job: &JobName,
        expected: impl IntoIterator<Item = Time>,
        items: impl IntoIterator<Item = Item>,
        from: Time,
        to: Time,
    ) -> Result<Vec<FireRow>, HistoryError> {
        let items: BTreeSet<Item> = items.into_iter().collect();
        let room = MAX_ANSWER / items.len().max(1);
        let mut due = BTreeSet::new();
        for time in expected.into_iter().take_while(|time| *time < to).filter(|time| *time >= from) {
            due.insert(time);
            if due.len() > room {
                return Err(HistoryError::TooMuch);
            }
        }
        let job = job.clone();
        self.ask(move |shelf| shelf.at_once(|shelf| fires(shelf, &job, &due, &items, from, to))).await
    }

    /// What was counted, of all jobs or of one, by day (UTC, each given by its beginning): the days that reach
    /// into `[from, to)`. Runs count on the day they began and on the day they ended, gaps on their last day.
    pub async fn counts(
        &self,
        job: Option<&JobName>,
        from: Time,
        to: Time,
    ) -> Result<BTreeMap<Time, Counters>, HistoryError> {
        let job = job.cloned();
        let tallies = self.ask(move |shelf| Ok(shelf.tallies(job.as_ref(), from, to)?)).await?;
        let mut days: BTreeMap<Time, Counters> = BTreeMap::new();
        for tally in tallies {
            count(days.entry(tally.0).or_default(), &tally);
        }
        Ok(days)
    }

    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Shelf) -> Result<T, HistoryError> + Send + 'static,
    ) -> Result<T, HistoryError> {
        let unavailable = |error: &dyn std::fmt::Display| HistoryError::Unavailable(error.to_string());
        let shelves = self.shelves.clone();
        let turn = shelves.turns.clone().acquire_owned().await.map_err(|e| unavailable(&e))?;
        let answer = tokio::task::spawn_blocking(move || {
            // Kept until the work is done, also if nobody waits for the answer any more.
            let _turn = turn;
            shelves.answer(question)
        });
        answer.await.map_err(|e| unavailable(&e))?
    }
}

impl Shelves {
    fn answer<T>(&self, question: impl FnOnce(&Shelf) -> Result<T, HistoryError>) -> Result<T, HistoryError> {
        let file = self.file.load(Ordering::Acquire);
        let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let known = free().pop().filter(|(of, _)| *of == file);
        let shelf = match known {
            Some((_, shelf)) => shelf,
            None => Shelf::open(&self.path)?,
        };
        let answer = question(&shelf);
        // After a failure a new connection is the better one.
        if !matches!(answer, Err(HistoryError::Unavailable(_))) {
            free().push((file, shelf));
        }
        answer
    }
}

impl From<rusqlite::Error> for HistoryError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Unavailable(error.to_string())
    }
}

fn gaps(shelf: &Shelf, job: &JobName, from: Time, to: Time) -> Result<Vec<UnrunRow>, HistoryError> {
    let gaps = shelf.unrun(job, from, to, MAX_ANSWER + 1)?;
    if gaps.len() > MAX_ANSWER { Err(HistoryError::TooMuch) } else { Ok(gaps) }
}

fn fires(
    shelf: &Shelf,
    job: &JobName,
    due: &BTreeSet<Time>,
    items: &BTreeSet<Item>,
    from: Time,
    to: Time,
) -> Result<Vec<FireRow>, HistoryError> {
    let mut by_item: BTreeMap<Item, Vec<UnrunRow>> = BTreeMap::new();
    for gap in gaps(shelf, job, from, to)? {
        by_item.entry(gap.item).or_default().push(gap);
    }
    let mut rows = Vec::with_capacity(due.len() * items.len());
    for item in items {
        let runs = shelf.runs_of_fires(job, *item, from, to, MAX_ANSWER + 1)?;
        if runs.len() > MAX_ANSWER {
            return Err(HistoryError::TooMuch);
        }
        let known = shelf.latest_known(job, *item)?;
        let ledger = Ledger::new(*item, runs, by_item.remove(item).unwrap_or_default(), known);
        rows.extend(due.iter().map(|due| ledger.fate(*due)));
    }
    rows.sort_by_key(|row| (row.fire, row.item));
    Ok(rows)
}

fn count(counters: &mut Counters, (_, what, n): &Tally) {
    let counter = match what.as_str() {
        "fired" => &mut counters.fired,
        "succeeded" => &mut counters.succeeded,
        "failed" => &mut counters.failed,
        "cancelled" => &mut counters.cancelled,
        "crashed" => &mut counters.crashed,
        "timed_out" => &mut counters.timed_out,
        "misfired" => &mut counters.misfired,
        "skipped" => &mut counters.skipped,
        other => match missed_named(other) {
            Some(reason) => counters.missed.entry(reason).or_default(),
            None => return,
        },
    };
    *counter += n;
}

/// A page on its way to being full.
struct Paged<T> {
    size: usize,
    /// Where it begins: after this.
    after: Option<(i64, i64)>,
    rows: Vec<T>,
    bytes: usize,
    last: Option<(i64, i64)>,
    more: bool,
}

impl<T> Paged<T> {
    fn new(page: Page) -> Result<Self, HistoryError> {
        let size = if page.size == 0 { MAX_PAGE } else { page.size.min(MAX_PAGE) };
        let after = match page.token {
            Some(token) => Some(
                read_token(&token)
                    .ok_or_else(|| HistoryError::PageToken(token.chars().take(64).collect()))?,
            ),
            None => None,
        };
        Ok(Self { size, after, rows: Vec::new(), bytes: 0, last: None, more: false })
    }

    fn take(&mut self, at: (i64, i64), row: T, bytes: usize) -> bool {
        self.more = self.rows.len() >= self.size || self.bytes > 0 && self.bytes + bytes > PAGE_BYTES;
        if !self.more {
            self.rows.push(row);
            self.bytes += bytes;
            self.last = Some(at);
        }
        !self.more
    }

    fn done(self) -> (Vec<T>, Option<String>) {
        let next = self.last.filter(|_| self.more).map(|(at, id)| format!("{at}.{id}"));
        (self.rows, next)
    }
}

fn read_token(token: &str) -> Option<(i64, i64)> {
    let (at, id) = token.split_once('.')?;
    Some((at.parse().ok()?, id.parse().ok()?))
}
