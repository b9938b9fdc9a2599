//! Implements the port for a file: questions run on threads that may block, a few at a time, over connections that stay
//! open.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::time::Time;
use tokio::sync::Semaphore;

use super::Shelf;
use crate::port::{Intervals, ItemHistory, Paged, ShelfAnswer, Shelves, Tally};
use crate::rows::{
    EventFilter, EventRow, NotRunRow, OwnerFilter, OwnerRow, Pulse, Recent, RunFilter, RunRow,
};
use crate::{HistoryError, MAX_ANSWER, MAX_PAGE};

/// How many questions run at a time; others wait.
const READERS: usize = 2;

/// The history in a file, for readers. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct FileShelves {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// Changes when the writer puts a new file at the path.
    file: Arc<AtomicU64>,
    turns: Arc<Semaphore>,
    free: Mutex<Vec<(u64, Shelf)>>,
}

impl FileShelves {
    pub(crate) fn new(path: PathBuf, file: Arc<AtomicU64>) -> Self {
        let (turns, free) = (Arc::new(Semaphore::new(READERS)), Mutex::default());
        Self { inner: Arc::new(Inner { path, file, turns, free }) }
    }

    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Shelf) -> Result<T, HistoryError> + Send + 'static,
    ) -> ShelfAnswer<'_, T> {
        let unavailable = |error: &dyn std::fmt::Display| HistoryError::Unavailable(error.to_string());
        let inner = self.inner.clone();
        Box::pin(async move {
            let turn = inner.turns.clone().acquire_owned().await.map_err(|e| unavailable(&e))?;
            let answer = tokio::task::spawn_blocking(move || {
                // Held until the work is done, even if the caller no longer waits for the answer.
                let _turn = turn;
                inner.answer(question)
            });
            answer.await.map_err(|e| unavailable(&e))?
        })
    }
}

impl Shelves for FileShelves {
    fn runs(&self, filter: RunFilter, mut page: Paged<RunRow>) -> ShelfAnswer<'_, Paged<RunRow>> {
        self.ask(move |shelf| {
            shelf.runs(&filter, page.after, page.most(), |at, run| {
                let bytes = run.error.len() + run.output.len();
                page.take(at, run, bytes)
            })?;
            Ok(page)
        })
    }

    fn events(&self, filter: EventFilter, mut page: Paged<EventRow>) -> ShelfAnswer<'_, Paged<EventRow>> {
        self.ask(move |shelf| {
            shelf.events(&filter, page.after, |at, event| {
                let bytes = event.text.len();
                page.take(at, event, bytes)
            })?;
            Ok(page)
        })
    }

    fn owners(&self, filter: OwnerFilter, mut page: Paged<OwnerRow>) -> ShelfAnswer<'_, Paged<OwnerRow>> {
        self.ask(move |shelf| {
            shelf.owners(&filter, page.after, |at, owner| {
                let bytes = owner.reason.len() + owner.end_reason.len();
                page.take(at, owner, bytes)
            })?;
            Ok(page)
        })
    }

    fn attempts(&self, job: JobName, item: Item, token: Token) -> ShelfAnswer<'_, Vec<RunRow>> {
        self.ask(move |shelf| {
            shelf.at_once(|shelf| match shelf.fire_of(&job, item, token)? {
                Some(fire) => Ok(shelf.runs_of_fire(&job, item, fire, MAX_PAGE)?),
                None => Ok(Vec::new()),
            })
        })
    }

    fn pulse(&self, runs: Time, missed: Time) -> ShelfAnswer<'_, Pulse> {
        self.ask(move |shelf| Ok(shelf.pulse(runs, missed)?))
    }

    fn recent(&self, job: JobName, from: Time) -> ShelfAnswer<'_, Vec<Recent>> {
        self.ask(move |shelf| Ok(shelf.recent(&job, from)?))
    }

    fn not_run(&self, job: JobName, from: Time, to: Time) -> ShelfAnswer<'_, Vec<NotRunRow>> {
        self.ask(move |shelf| gaps(shelf, &job, from, to))
    }

    fn known(
        &self,
        job: JobName,
        items: Vec<Item>,
        from: Time,
        to: Time,
    ) -> ShelfAnswer<'_, Vec<ItemHistory>> {
        self.ask(move |shelf| shelf.at_once(|shelf| known(shelf, &job, &items, from, to)))
    }

    fn tallies(&self, asked: Intervals) -> ShelfAnswer<'_, Vec<Tally>> {
        self.ask(move |shelf| Ok(shelf.tallies(&asked)?))
    }
}

impl Inner {
    fn answer<T>(&self, question: impl FnOnce(&Shelf) -> Result<T, HistoryError>) -> Result<T, HistoryError> {
        let file = self.file.load(Ordering::Acquire);
        let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let known = free().pop().filter(|(of, _)| *of == file);
        let shelf = match known {
            Some((_, shelf)) => shelf,
            None => Shelf::open(&self.path)?.of_this_version(&self.path)?,
        };
        let answer = question(&shelf);
        // After a failure, use a new connection.
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

fn gaps(shelf: &Shelf, job: &JobName, from: Time, to: Time) -> Result<Vec<NotRunRow>, HistoryError> {
    let gaps = shelf.not_run(job, from, to, MAX_ANSWER + 1)?;
    if gaps.len() > MAX_ANSWER { Err(HistoryError::TooMuch) } else { Ok(gaps) }
}

fn known(
    shelf: &Shelf,
    job: &JobName,
    items: &[Item],
    from: Time,
    to: Time,
) -> Result<Vec<ItemHistory>, HistoryError> {
    let mut by_item: BTreeMap<Item, Vec<NotRunRow>> = BTreeMap::new();
    for gap in gaps(shelf, job, from, to)? {
        by_item.entry(gap.item).or_default().push(gap);
    }
    let known = items.iter().map(|item| {
        let runs = shelf.runs_of_fires(job, *item, from, to, MAX_ANSWER + 1)?;
        if runs.len() > MAX_ANSWER {
            return Err(HistoryError::TooMuch);
        }
        let gaps = by_item.remove(item).unwrap_or_default();
        Ok(ItemHistory { item: *item, runs, gaps, latest: shelf.latest_known(job, *item)? })
    });
    known.collect()
}
