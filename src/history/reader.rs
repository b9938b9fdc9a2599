//! The reader: queries the store of the history, behind its port, and computes ledgers and counts from the answers.
//! Held by the API layers. Its reads and the writer do not block each other; rows of the last moments may not be there
//! yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::item::Counters;
use rosterd_domain::time::Time;

use super::ledger::{FireRow, Ledger};
use super::outbox::{Shared, Status};
use super::port::{Intervals, Paged, Shelves};
use super::queue::Queue;
use super::rows::{
    Counted, EventFilter, EventRow, NotRunRow, OwnerFilter, OwnerRow, Page, Pulse, Recent, RunFilter, RunRow,
    missed_named,
};
use super::{HistoryError, MAX_ANSWER};

/// Reads the history. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Reader {
    shelves: Arc<dyn Shelves>,
    /// The rows that wait to be written, if this process writes the history.
    queue: Option<Arc<Queue>>,
    /// The outbox, if rows are sent to a database.
    outbox: Option<Shared>,
}

impl Reader {
    pub(super) fn new(shelves: Arc<dyn Shelves>, queue: Option<Arc<Queue>>) -> Self {
        Self { shelves, queue, outbox: None }
    }

    /// The same with an outbox.
    pub(super) fn of(self, outbox: Shared) -> Self {
        Self { outbox: Some(outbox), ..self }
    }

    /// The status of the history.
    pub fn status(&self) -> Status {
        self.queue.as_ref().map(|queue| Status::of(queue, self.outbox.as_ref())).unwrap_or_default()
    }

    /// Waits until all that was recorded before is written or dropped; returns whether it was in time.
    pub async fn settle(&self, most: Duration) -> bool {
        let Some(queue) = self.queue.clone() else { return true };
        // Fails only while the runtime shuts down, when no caller is left.
        tokio::task::spawn_blocking(move || queue.settle(most)).await.unwrap_or(false)
    }

    /// Runs, newest first, and where the next page begins.
    pub async fn runs(
        &self,
        filter: RunFilter,
        page: Page,
    ) -> Result<(Vec<RunRow>, Option<String>), HistoryError> {
        match filter.token {
            Some(token) => Ok((self.run_of(token, &filter).await?.into_iter().collect(), None)),
            None => Ok(self.shelves.runs(filter, Paged::new(page)?).await?.done()),
        }
    }

    /// The run with this token, if the filter matches it.
    async fn run_of(&self, token: Token, filter: &RunFilter) -> Result<Option<RunRow>, HistoryError> {
        let (Some(job), Some(item)) = (&filter.job, filter.item) else { return Ok(None) };
        let attempts = self.attempts(job, item, token).await?;
        let is_wanted = |run: &RunRow| {
            run.token == token
                && filter.state.is_none_or(|state| run.state == state)
                && filter.instance.as_ref().is_none_or(|instance| run.instance == *instance)
                && filter.from.is_none_or(|from| run.since >= from)
                && filter.to.is_none_or(|to| run.since < to)
        };
        Ok(attempts.into_iter().find(is_wanted))
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
        self.shelves.recent(job.clone(), from).await
    }

    /// All runs of the fire that this run belongs to, in the order of their tokens; empty: the run is not known.
    pub async fn attempts(
        &self,
        job: &JobName,
        item: Item,
        token: Token,
    ) -> Result<Vec<RunRow>, HistoryError> {
        self.shelves.attempts(job.clone(), item, token).await
    }

    /// Recent activity: runs since `runs`, missed scheduled times since `missed`.
    pub async fn pulse(&self, runs: Time, missed: Time) -> Result<Pulse, HistoryError> {
        self.shelves.pulse(runs, missed).await
    }

    /// Events, newest first, and where the next page begins.
    pub async fn events(
        &self,
        filter: EventFilter,
        page: Page,
    ) -> Result<(Vec<EventRow>, Option<String>), HistoryError> {
        Ok(self.shelves.events(filter, Paged::new(page)?).await?.done())
    }

    /// Who owned a job's items, the latest first, and where the next page begins.
    pub async fn owners(
        &self,
        filter: OwnerFilter,
        page: Page,
    ) -> Result<(Vec<OwnerRow>, Option<String>), HistoryError> {
        Ok(self.shelves.owners(filter, Paged::new(page)?).await?.done())
    }

    /// A job's gaps that reach into `[from, to)`, the oldest first.
    pub async fn not_run(&self, job: &JobName, from: Time, to: Time) -> Result<Vec<NotRunRow>, HistoryError> {
        self.shelves.not_run(job.clone(), from, to).await
    }

    /// The result of every scheduled time in `[from, to)` for each of the items: a row for each pair, by scheduled
    /// time.
    ///
    /// `expected` are the times of the schedule; it is read only up to `to`. Duplicates, and times before `from`, are
    /// skipped. Manual triggers have no scheduled time; they are among the runs.
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
        let mut rows = Vec::with_capacity(due.len() * items.len());
        for known in self.shelves.known(job.clone(), items.into_iter().collect(), from, to).await? {
            let ledger = Ledger::new(known.item, known.runs, known.gaps, known.latest);
            rows.extend(due.iter().map(|due| ledger.fate(*due)));
        }
        rows.sort_by_key(|row| (row.fire, row.item));
        Ok(rows)
    }

    /// Counts of all jobs or of one, by job and interval (whole minutes that divide an hour, hours that divide a day,
    /// or days, of UTC): the intervals that overlap `[from, to)`, the oldest first. A run counts in the interval in
    /// which it started and in the one in which it ended, a gap at its last scheduled time. Intervals below an hour are
    /// computed from the rows, for a short span, and miss runs that took longer than a day.
    pub async fn counts(
        &self,
        job: Option<JobName>,
        from: Time,
        to: Time,
        interval: Duration,
    ) -> Result<Vec<Counted>, HistoryError> {
        let width = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX).max(1);
        let from = from.0.div_euclid(width).saturating_mul(width);
        // The interval of `to` is counted as a whole, like the first one: the stored hours cannot be split.
        let to = to.0.saturating_add(width - 1).div_euclid(width).saturating_mul(width);
        let mut counted: BTreeMap<(Time, JobName), Counted> = BTreeMap::new();
        for (job, at, what, n) in self.shelves.tallies(Intervals { job, from, to, width }).await? {
            let fresh = || Counted {
                job: job.clone(),
                from: at,
                counters: Counters::default(),
                processed: 0,
                records_failed: 0,
            };
            count(counted.entry((at, job.clone())).or_insert_with(fresh), &what, n);
            if counted.len() > MAX_ANSWER {
                return Err(HistoryError::TooMuch);
            }
        }
        Ok(counted.into_values().collect())
    }
}

fn count(counted: &mut Counted, what: &str, n: u64) {
    let counters = &mut counted.counters;
    let counter = match what {
        "fired" => &mut counters.fired,
        "succeeded" => &mut counters.succeeded,
        "failed" => &mut counters.failed,
        "cancelled" => &mut counters.cancelled,
        "crashed" => &mut counters.crashed,
        "timed_out" => &mut counters.timed_out,
        "misfired" => &mut counters.misfired,
        "skipped" => &mut counters.skipped,
        "processed" => &mut counted.processed,
        "failed_records" => &mut counted.records_failed,
        other => match missed_named(other) {
            Some(reason) => counters.missed.entry(reason).or_default(),
            None => return,
        },
    };
    *counter = counter.saturating_add(n);
}
