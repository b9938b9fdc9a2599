//! What a store of the history must provide to be read: one method per question, each answered as of one moment. `sql`
//! implements it for SQLite. The set of questions, the order of pages and the results of fires are defined here and in
//! the reader, and are the same for every store. A store that cannot answer returns [`HistoryError::Unavailable`], and
//! never a partial answer.

use std::fmt;
use std::pin::Pin;

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::time::Time;

use super::rows::{
    EventFilter, EventRow, NotRunRow, OwnerFilter, OwnerRow, Page, Pulse, Recent, RunFilter, RunRow,
};
use super::{HistoryError, MAX_PAGE};

/// A page ends after this many bytes of texts: an answer has to fit into a message.
const PAGE_BYTES: usize = 2 << 20;

/// An answer on its way.
pub(super) type ShelfAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, HistoryError>> + Send + 'a>>;

/// A count of a job within an interval: the job, the start of the interval, the name of the counter, and the number.
pub(super) type Tally = (JobName, Time, String, u64);

/// Milliseconds of an hour: counts are stored by the hour. For shorter intervals they are computed from the rows.
pub(super) const HOUR: i64 = 3_600_000;
/// Milliseconds of a day.
pub(super) const DAY: i64 = 24 * HOUR;

/// Which counts to return.
#[derive(Debug, Clone)]
pub(super) struct Intervals {
    /// Of this job, or of all.
    pub(super) job: Option<JobName>,
    /// The beginning of the first interval.
    pub(super) from: i64,
    /// The end, exclusive: no interval starts at or after it.
    pub(super) to: i64,
    /// How long each is, in milliseconds.
    pub(super) width: i64,
}

/// What is known of an item's scheduled times: the input of its ledger.
#[derive(Debug)]
pub(super) struct ItemHistory {
    pub(super) item: Item,
    /// Runs of scheduled times in the span, and of the first one after it that was run as a misfire, in the order of
    /// their tokens for each; without their texts.
    pub(super) runs: Vec<RunRow>,
    /// Gaps that reach into the span, the oldest first.
    pub(super) gaps: Vec<NotRunRow>,
    /// The latest scheduled time that anything is known of.
    pub(super) latest: Option<Time>,
}

/// The questions. An answer without pages that would have more rows than [`super::MAX_ANSWER`] is
/// [`HistoryError::TooMuch`].
pub(super) trait Shelves: fmt::Debug + Send + Sync {
    /// Runs, the newest first: by `since`, then by number.
    fn runs(&self, filter: RunFilter, page: Paged<RunRow>) -> ShelfAnswer<'_, Paged<RunRow>>;

    /// Events of both kinds, in the same way.
    fn events(&self, filter: EventFilter, page: Paged<EventRow>) -> ShelfAnswer<'_, Paged<EventRow>>;

    /// Who owned a job's items, the newest first: by the start of the ownership, then by number.
    fn owners(&self, filter: OwnerFilter, page: Paged<OwnerRow>) -> ShelfAnswer<'_, Paged<OwnerRow>>;

    /// All runs of the fire that this run belongs to, in the order of their tokens, at most [`MAX_PAGE`]; empty: the
    /// run is not known.
    fn attempts(&self, job: JobName, item: Item, token: Token) -> ShelfAnswer<'_, Vec<RunRow>>;

    /// Recent activity: runs since the first time, missed scheduled times since the second. The lags may be of the
    /// latest runs only.
    fn pulse(&self, runs: Time, missed: Time) -> ShelfAnswer<'_, Pulse>;

    /// A job's runs since a time, counted by their state.
    fn recent(&self, job: JobName, from: Time) -> ShelfAnswer<'_, Vec<Recent>>;

    /// A job's gaps that reach into `[from, to)`, the oldest first.
    fn not_run(&self, job: JobName, from: Time, to: Time) -> ShelfAnswer<'_, Vec<NotRunRow>>;

    /// What is known of the items' scheduled times in `[from, to)`, all of it as of one moment.
    fn known(
        &self,
        job: JobName,
        items: Vec<Item>,
        from: Time,
        to: Time,
    ) -> ShelfAnswer<'_, Vec<ItemHistory>>;

    /// Counts by job and interval.
    fn tallies(&self, asked: Intervals) -> ShelfAnswer<'_, Vec<Tally>>;
}

/// The position of a row in a list: its time and its number.
pub(super) type Mark = (i64, i64);

/// A page that is being filled.
#[derive(Debug)]
pub(super) struct Paged<T> {
    size: usize,
    /// It begins after this position.
    pub(super) after: Option<Mark>,
    rows: Vec<T>,
    bytes: usize,
    last: Option<Mark>,
    more: bool,
}

impl<T> Paged<T> {
    pub(super) fn new(page: Page) -> Result<Self, HistoryError> {
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

    /// Adds a row with this many bytes of texts; false: the page is full, and the row belongs to the next one.
    pub(super) fn take(&mut self, at: Mark, row: T, bytes: usize) -> bool {
        self.more = self.rows.len() >= self.size || self.bytes > 0 && self.bytes + bytes > PAGE_BYTES;
        if !self.more {
            self.rows.push(row);
            self.bytes += bytes;
            self.last = Some(at);
        }
        !self.more
    }

    /// Most rows that it needs: one more than it holds shows that there is a next page.
    pub(super) fn most(&self) -> usize {
        self.size + 1
    }

    pub(super) fn done(self) -> (Vec<T>, Option<String>) {
        let next = self.last.filter(|_| self.more).map(|(at, id)| format!("{at}.{id}"));
        (self.rows, next)
    }
}

fn read_token(token: &str) -> Option<Mark> {
    let (at, id) = token.split_once('.')?;
    Some((at.parse().ok()?, id.parse().ok()?))
}
