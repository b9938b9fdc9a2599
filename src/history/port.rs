//! What a store of the history must provide to be read: one method a question, each answered as of one moment. SQLite is
//! behind it in `sql`; what is asked, in which order pages are and what becomes of a fire is decided here and in the reader,
//! and is the same for every store. A store that cannot answer says so ([`HistoryError::Unavailable`]), and never answers in part.

use std::fmt;
use std::pin::Pin;

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::time::Time;

use super::rows::{
    EventFilter, EventRow, OwnerFilter, OwnerRow, Page, Pulse, Recent, RunFilter, RunRow, UnrunRow,
};
use super::{HistoryError, MAX_PAGE};

/// A page ends after so many bytes of texts: an answer has to fit into a message.
const PAGE_BYTES: usize = 2 << 20;

/// An answer on its way.
pub(super) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, HistoryError>> + Send + 'a>>;

/// What was counted of a job within an interval: the job, the interval's beginning, what it is called, and how many.
pub(super) type Tally = (JobName, Time, String, u64);

/// Milliseconds of an hour: counts are kept by hours. Of shorter intervals they are made from the rows.
pub(super) const HOUR: i64 = 3_600_000;
/// Milliseconds of a day.
pub(super) const DAY: i64 = 24 * HOUR;

/// Which counts.
#[derive(Debug, Clone)]
pub(super) struct Intervals {
    /// Of this job, or of all.
    pub(super) job: Option<JobName>,
    /// The beginning of the first interval.
    pub(super) from: i64,
    /// Not of intervals from here on.
    pub(super) to: i64,
    /// How long each is, in milliseconds.
    pub(super) width: i64,
}

/// What is known of an item's scheduled times: what its ledger is made of.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) item: Item,
    /// Runs of scheduled times of the span, and of the first one after it that was run as a misfire, in the order of their
    /// tokens for each; without their texts.
    pub(super) runs: Vec<RunRow>,
    /// Gaps that reach into the span, the oldest first.
    pub(super) gaps: Vec<UnrunRow>,
    /// The latest scheduled time that anything is known of.
    pub(super) latest: Option<Time>,
}

/// The questions. Of more rows than [`super::MAX_ANSWER`] where there are no pages, the answer is [`HistoryError::TooMuch`].
pub(super) trait Shelves: fmt::Debug + Send + Sync {
    /// Runs, the newest first: by `since`, then by number.
    fn runs(&self, filter: RunFilter, page: Paged<RunRow>) -> Answer<'_, Paged<RunRow>>;

    /// Events of both kinds, in the same way.
    fn events(&self, filter: EventFilter, page: Paged<EventRow>) -> Answer<'_, Paged<EventRow>>;

    /// Who owned a job's items, the newest first: by when it came to the owner, then by number.
    fn owners(&self, filter: OwnerFilter, page: Paged<OwnerRow>) -> Answer<'_, Paged<OwnerRow>>;

    /// All runs of the fire that a run was of, in the order of their tokens, at most [`MAX_PAGE`]; empty: the run is not known.
    fn attempts(&self, job: JobName, item: Item, token: Token) -> Answer<'_, Vec<RunRow>>;

    /// How much has happened: runs since the first time, scheduled times that were missed since the second. Of the lags the
    /// latest will do.
    fn pulse(&self, runs: Time, missed: Time) -> Answer<'_, Pulse>;

    /// A job's runs since a time, counted by their state.
    fn recent(&self, job: JobName, from: Time) -> Answer<'_, Vec<Recent>>;

    /// A job's gaps that reach into `[from, to)`, the oldest first.
    fn unrun(&self, job: JobName, from: Time, to: Time) -> Answer<'_, Vec<UnrunRow>>;

    /// What is known of the items' scheduled times in `[from, to)`, all of it as of one moment.
    fn known(&self, job: JobName, items: Vec<Item>, from: Time, to: Time) -> Answer<'_, Vec<Known>>;

    /// What was counted, by job and interval.
    fn tallies(&self, asked: Intervals) -> Answer<'_, Vec<Tally>>;
}

/// Where a row is in a list: its time, and its number.
pub(super) type Mark = (i64, i64);

/// A page on its way to being full.
#[derive(Debug)]
pub(super) struct Paged<T> {
    size: usize,
    /// Where it begins: after this.
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

    /// Takes a row with so many bytes of texts; false: the page is full, and this row is the next one's.
    pub(super) fn take(&mut self, at: Mark, row: T, bytes: usize) -> bool {
        self.more = self.rows.len() >= self.size || self.bytes > 0 && self.bytes + bytes > PAGE_BYTES;
        if !self.more {
            self.rows.push(row);
            self.bytes += bytes;
            self.last = Some(at);
        }
        !self.more
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
