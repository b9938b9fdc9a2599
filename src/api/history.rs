//! What the edge needs of the history: an interface to the reader, so that tests can replace it. Called by the admin
//! service alone.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::time::Time;

use super::backend::BackendAnswer;
use rosterd_history::{
    Counted, EventFilter, EventRow, FireRow, HistoryError, OwnerFilter, OwnerRow, Page, Pulse, Reader,
    Recent, RunFilter, RunRow, Status,
};
use rosterd_session::code::{Code, Refusal};

/// How long the answer to a change waits for its row in the audit: a slow disk must not block operators.
const SETTLED: Duration = Duration::from_secs(1);

/// Reads the history.
pub trait History: Send + Sync + 'static {
    /// Runs, latest first, and the token of the next page.
    fn runs(&self, filter: RunFilter, page: Page) -> BackendAnswer<'_, (Vec<RunRow>, Option<String>)>;

    /// Events and the audit, latest first, and the token of the next page.
    fn events(&self, filter: EventFilter, page: Page) -> BackendAnswer<'_, (Vec<EventRow>, Option<String>)>;

    /// All runs of the fire that a run belongs to, in the order of their tokens; empty: the run is not known.
    fn attempts<'a>(&'a self, job: &'a JobName, item: Item, token: Token) -> BackendAnswer<'a, Vec<RunRow>>;

    /// Recent activity: runs since the first time, missed scheduled times since the second.
    fn pulse(&self, runs: Time, missed: Time) -> BackendAnswer<'_, Pulse>;

    /// Who owned a job's items, latest first, and the token of the next page.
    fn owners(&self, filter: OwnerFilter, page: Page) -> BackendAnswer<'_, (Vec<OwnerRow>, Option<String>)>;

    /// Returns once everything recorded before is on disk, or after a timeout.
    fn settle(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }

    /// A job's runs that started at `from` or later, counted by their state.
    fn recent<'a>(&'a self, job: &'a JobName, from: Time) -> BackendAnswer<'a, Vec<Recent>>;

    /// Counts by job and interval, the oldest first.
    fn counts(
        &self,
        job: Option<JobName>,
        from: Time,
        to: Time,
        interval: Duration,
    ) -> BackendAnswer<'_, Vec<Counted>>;

    /// Its status.
    fn status(&self) -> Status {
        Status::default()
    }

    /// The results of the scheduled times, in ascending order, for each of the items.
    fn fires<'a>(
        &'a self,
        job: &'a JobName,
        items: Vec<Item>,
        due: Vec<Time>,
    ) -> BackendAnswer<'a, Vec<FireRow>>;
}

impl History for Reader {
    fn runs(&self, filter: RunFilter, page: Page) -> BackendAnswer<'_, (Vec<RunRow>, Option<String>)> {
        async { self.runs(filter, page).await.map_err(refusal) }.boxed()
    }

    fn events(&self, filter: EventFilter, page: Page) -> BackendAnswer<'_, (Vec<EventRow>, Option<String>)> {
        async { self.events(filter, page).await.map_err(refusal) }.boxed()
    }

    fn attempts<'a>(&'a self, job: &'a JobName, item: Item, token: Token) -> BackendAnswer<'a, Vec<RunRow>> {
        async move { self.attempts(job, item, token).await.map_err(refusal) }.boxed()
    }

    fn pulse(&self, runs: Time, missed: Time) -> BackendAnswer<'_, Pulse> {
        async move { self.pulse(runs, missed).await.map_err(refusal) }.boxed()
    }

    fn owners(&self, filter: OwnerFilter, page: Page) -> BackendAnswer<'_, (Vec<OwnerRow>, Option<String>)> {
        async { self.owners(filter, page).await.map_err(refusal) }.boxed()
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        async {
            if !self.settle(SETTLED).await {
                tracing::warn!(
                    "a change was made whose line in the audit is not on the disk after {SETTLED:?}"
                );
            }
        }
        .boxed()
    }

    fn recent<'a>(&'a self, job: &'a JobName, from: Time) -> BackendAnswer<'a, Vec<Recent>> {
        async move { self.recent(job, from).await.map_err(refusal) }.boxed()
    }

    fn counts(
        &self,
        job: Option<JobName>,
        from: Time,
        to: Time,
        interval: Duration,
    ) -> BackendAnswer<'_, Vec<Counted>> {
        async move { self.counts(job, from, to, interval).await.map_err(refusal) }.boxed()
    }

    fn status(&self) -> Status {
        self.status()
    }

    fn fires<'a>(
        &'a self,
        job: &'a JobName,
        items: Vec<Item>,
        due: Vec<Time>,
    ) -> BackendAnswer<'a, Vec<FireRow>> {
        async {
            let (Some(from), Some(last)) = (due.first().copied(), due.last().copied()) else {
                return Ok(Vec::new());
            };
            self.fires(job, due, items, from, Time(last.0 + 1)).await.map_err(refusal)
        }
        .boxed()
    }
}

fn refusal(error: HistoryError) -> Refusal {
    let code = match error {
        HistoryError::Thread(_) | HistoryError::Unavailable(_) => Code::StoreUnavailable,
        HistoryError::PageToken(_) | HistoryError::TooMuch => Code::RequestInvalid,
    };
    Refusal::new(code, error.to_string())
}
