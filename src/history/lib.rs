//! The history: what became of fires and runs, and who did what, kept for people to look at: in SQLite by one coordinator, or
//! in PostgreSQL by all that share a namespace.
//!
//! It is a projection. The counters in the records are the truth; the history may lose a row (its queue is full,
//! the disk is full, the process is killed) and says how many, but nothing waits for it and nothing is decided
//! from it; only the answer to what a person asked for waits a moment, until its row of the audit is written. Opening it
//! never fails because of what is on the disk: a damaged file, or one that a newer version
//! wrote, is set aside under another name and a new one begun; where nothing can be written, rows are dropped
//! and counted until it can.
//!
//! The coordinator holds the [`Recorder`] and tells it what was committed; the API layers hold the [`Reader`].
//! One thread writes, in batches; the reader asks through a port (`port`), and all SQL is behind it: SQLite's in `sql`,
//! PostgreSQL's in `postgres`. For PostgreSQL that thread writes to the disk (`spool`, `outbox`), and another sends what is there. Nothing here reads a clock: it comes in as a closure.

mod aside;
mod ledger;
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

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use rosterd_domain::time::Time;

pub use ledger::{Fate, FireRow, FireRun};
pub use outbox::Status;
pub use postgres::{Address, AddressError, Roots, Trust};
pub use reader::Reader;
pub use recorder::Recorder;
pub use rows::{
    Counted, Detail, EventFilter, EventKind, EventRow, MissedRow, OwnerFilter, OwnerRow, Page, Pulse, Recent,
    RunFilter, RunRow, RunState, UnrunRow,
};

use outbox::{Outbox, Spooler};
use postgres::{Library, Sender};
use queue::Queue;
use sql::FileShelves;
use writer::Writer;

/// Says what time it is.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// Longest error text that is kept, in bytes; the rest is cut.
pub const MAX_ERROR: usize = 8 << 10;
/// Longest output, and longest text of an event, that is kept, in bytes; the rest is cut.
pub const MAX_OUTPUT: usize = 64 << 10;
/// Longest text of a row of the audit, in bytes; the rest is cut.
pub const MAX_AUDIT: usize = 4 << 10;
/// Most rows of a page.
pub const MAX_PAGE: usize = 1000;
/// Most rows that one question may be answered with where there are no pages: more is refused.
pub const MAX_ANSWER: usize = 100_000;

/// Limits of the history.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long rows are kept.
    pub retention: Duration,
    /// Most rows kept, over all tables but the audit's; the oldest go first.
    pub max_rows: u64,
    /// Most rows of the audit kept, whatever their age: who did what. Of who has the most, the oldest go first.
    pub max_audit: u64,
    /// Most bytes kept in the file; the oldest rows go first. The file does not shrink, its space is used again.
    pub max_bytes: u64,
    /// How long a row may wait for others to be written with it.
    pub flush: Duration,
    /// Most rows written in one transaction.
    pub batch: usize,
    /// Most rows that wait; a row too many is dropped and counted.
    pub queue: usize,
    /// Most bytes of texts that wait; a row that comes then is kept without its texts.
    pub queue_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            retention: Duration::from_secs(30 * 86_400),
            max_rows: 5_000_000,
            max_audit: 200_000,
            max_bytes: 8 << 30,
            flush: Duration::from_millis(200),
            batch: 2_000,
            queue: 65_536,
            queue_bytes: 64 << 20,
        }
    }
}

/// What keeps the history from being written or read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// No thread for the writer.
    #[error("the history's writer cannot be started: {0}")]
    Thread(#[source] std::io::Error),
    /// The file cannot be read now.
    #[error("the history cannot be read: {0}")]
    Unavailable(String),
    /// A page token that no answer of ours held.
    #[error("{0:?} is no page token: give the one of the last answer, with the same filter")]
    PageToken(String),
    /// The answer would be too long.
    #[error("the answer would have more than {MAX_ANSWER} rows: ask for a shorter span, or for fewer items")]
    TooMuch,
}

/// The history's door.
#[derive(Debug)]
pub struct History;

impl History {
    /// Opens the history at `path`, or begins one, and starts its writer.
    ///
    /// Blocks while the file is opened. Fails only if there is no thread to be had. The writer stops with
    /// [`Recorder::stop`], or after the last recorder is dropped; both write what waits.
    pub fn open(
        path: impl Into<PathBuf>,
        options: Options,
        clock: Clock,
    ) -> Result<(Recorder, Reader), HistoryError> {
        let path = path.into();
        let file = Arc::new(AtomicU64::new(0));
        let queue = Arc::new(Queue::new(options.queue, options.queue_bytes));
        let writer = Writer::new(path.clone(), options, clock, queue.clone(), file.clone());
        let thread = std::thread::Builder::new()
            .name("history".into())
            .spawn(move || writer.run())
            .map_err(HistoryError::Thread)?;
        let shelves = Arc::new(FileShelves::new(path, file));
        Ok((Recorder::new(queue.clone(), Some(thread)), Reader::new(shelves, Some(queue))))
    }

    /// Opens the history in a database that other coordinators share, and starts what sends there. Rows wait in the file
    /// `spool` until the database has them, within `spool_bytes`; what is beyond is dropped and counted.
    ///
    /// Fails only if there are no threads to be had: the database may be away. Sending stops with [`Recorder::stop`], a moment
    /// after what waits is in the file; what is left there is sent after the next start.
    pub fn share(
        address: Address,
        spool: impl Into<PathBuf>,
        spool_bytes: u64,
        options: Options,
        clock: Clock,
    ) -> Result<(Recorder, Reader), HistoryError> {
        let outbox = Outbox::new(spool.into(), spool_bytes);
        let queue = Arc::new(Queue::new(options.queue, options.queue_bytes));
        let spooler = Spooler::new(outbox.clone(), options.clone(), clock.clone(), queue.clone());
        let sender = Sender::new(outbox.clone(), address.clone(), options, clock, queue.clone());
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        let sending = thread("history sender").spawn(move || sender.run()).map_err(HistoryError::Thread)?;
        let spooling = thread("history").spawn(move || spooler.run(sending)).map_err(HistoryError::Thread)?;
        let shared = (outbox, Arc::from(address.shown()));
        let recorder = Recorder::sharing(queue.clone(), spooling, shared.clone());
        Ok((recorder, Reader::new(Arc::new(Library::new(address)), Some(queue)).of(shared)))
    }

    /// Reads a history that coordinators share. Nothing is connected to before the first question.
    pub fn look_into(address: Address) -> Reader {
        Reader::new(Arc::new(Library::new(address)), None)
    }

    /// Reads a history that another process writes, or has written. Nothing is opened before the first question.
    pub fn look_at(path: impl Into<PathBuf>) -> Reader {
        Reader::new(Arc::new(FileShelves::new(path.into(), Arc::default())), None)
    }
}
