//! The history: results of fires and runs, and the audit, kept for people to read: in SQLite by one coordinator, or in
//! PostgreSQL by all coordinators of a namespace.
//!
//! It is a projection. The counters in the records are the truth; the history may lose a row (its queue is full, the
//! disk is full, the process is killed) and counts the rows that it lost, but nothing waits for it and nothing is
//! decided from it. Only the answer to a person's request waits a moment, until its row of the audit is written.
//! Opening it never fails because of what is on the disk: a damaged file, or one that a newer version wrote, is set
//! aside under another name and a new one is created; if nothing can be written, rows are dropped and counted until it
//! can.
//!
//! The coordinator holds the [`Recorder`] and passes it what was committed; the API layers hold the [`Reader`]. One
//! thread writes, in batches; the reader asks through a port (`port`), and all SQL is behind it: SQLite's in `sql`,
//! PostgreSQL's in `postgres`. For PostgreSQL that thread writes to the disk (`spool`, `outbox`), and another sends
//! what is there. Nothing here reads a clock: it is passed in as a closure.

mod aside;
mod ledger;
mod numbers;
mod open;
mod outbox;
mod owners;
mod port;
mod postgres;
mod queue;
mod reader;
mod record;
mod recorder;
mod rows;
mod spool;
mod sql;
#[cfg(test)]
mod tests;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::time::Time;

pub use ledger::{Fate, FireRow, FireRun};
pub use open::History;
pub use outbox::Status;
pub use postgres::{Address, AddressError, Roots, Trust};
pub use reader::Reader;
pub use recorder::Recorder;
pub use rows::{
    Counted, Detail, EventFilter, EventKind, EventRow, MissedRow, NotRunRow, OwnerFilter, OwnerRow, Page,
    Pulse, Recent, RunFilter, RunRow, RunState,
};

/// Returns the current time.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// Longest error text that is kept, in bytes; the rest is cut off.
pub const MAX_ERROR: usize = 8 << 10;
/// Longest output, and longest text of an event, that is kept, in bytes; the rest is cut off.
pub const MAX_OUTPUT: usize = 64 << 10;
/// Longest text of a row of the audit, in bytes; the rest is cut off.
pub const MAX_AUDIT: usize = 4 << 10;
/// Most rows of a page.
pub const MAX_PAGE: usize = 1000;
/// Most rows of an answer without pages: a question with a longer answer is refused.
pub const MAX_ANSWER: usize = 100_000;

/// Limits of the history.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long rows are kept.
    pub retention: Duration,
    /// Most rows kept, over all tables but the audit; the oldest are deleted first.
    pub max_rows: u64,
    /// Most rows of the audit kept, whatever their age. The oldest rows of the principal with the most rows are deleted
    /// first.
    pub max_audit: u64,
    /// Most bytes kept in the file; the oldest rows are deleted first. The file does not shrink, its space is reused.
    pub max_bytes: u64,
    /// How long a row may wait for others to be written with it.
    pub flush: Duration,
    /// Most rows written in one transaction.
    pub batch: usize,
    /// Most rows that wait; any further row is dropped and counted.
    pub queue: usize,
    /// Most bytes of texts that wait; any further row is kept without its texts.
    pub queue_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            retention: Duration::from_secs(30 * 86_400),
            max_rows: 5_000_000,
            max_audit: 200_000,
            max_bytes: 8 << 30,
            flush: Duration::from_millis(400),
            // The number of rows within one flush if thousands of runs start each second: a run that starts and ends
            // within one batch is written once.
            batch: 16_000,
            queue: 65_536,
            queue_bytes: 64 << 20,
        }
    }
}

/// Why the history cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The writer's thread could not be started.
    #[error("the history's writer cannot be started: {0}")]
    Thread(#[source] std::io::Error),
    /// The file cannot be read at the moment.
    #[error("the history cannot be read: {0}")]
    Unavailable(String),
    /// The page token is not one that we gave out.
    #[error("{0:?} is no page token: give the one of the last answer, with the same filter")]
    PageToken(String),
    /// The answer would be too long.
    #[error("the answer would have more than {MAX_ANSWER} rows: ask for a shorter span, or for fewer items")]
    TooMuch,
}
