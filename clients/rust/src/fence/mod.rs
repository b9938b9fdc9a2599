//! Writes that a store refuses from a late run.
//!
//! A run may learn too late that another one has taken its place: its process was frozen, or the network stalled. Its
//! token is too low by then, so a store that has seen a higher one can refuse it. Nothing here opens a connection or
//! brings a driver: this module has the statements and scripts, and interprets their answers. The formats are those of
//! all clients, so workers in several languages share them.
//!
//! ```
//! # use rosterd_client::fence::{Guard, postgres};
//! # struct Transaction;
//! # impl Transaction {
//! #     fn execute(&self, _: &str, _: (&str, i32, i64)) -> Result<u64, std::io::Error> { Ok(1) }
//! #     fn commit(self) -> Result<(), std::io::Error> { Ok(()) }
//! # }
//! # fn write(transaction: Transaction, run: Guard<'_>) -> Result<(), Box<dyn std::error::Error>> {
//! // In the transaction that writes: the item's row is locked to its end.
//! let rows = transaction.execute(postgres::CLAIM, postgres::values(&run))?;
//! postgres::claimed(&run, rows)?;
//! // … the run's own statements …
//! transaction.commit()?;
//! # Ok(())
//! # }
//! ```

mod file;
pub mod postgres;
pub mod redis;
pub mod s3;

use std::fmt;

use crate::run::Run;

pub use self::file::FencedFile;

/// The fields of a run that a fence needs. Convert a [`Run`] with `into`, or use [`Guard::new`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Guard<'r> {
    /// The job's name.
    pub job: &'r str,
    /// The item.
    pub item: u32,
    /// The fencing token.
    pub token: u64,
}

impl<'r> From<&'r Run> for Guard<'r> {
    fn from(run: &'r Run) -> Self {
        Self { job: run.job(), item: run.item(), token: run.token() }
    }
}

impl<'r> From<&Guard<'r>> for Guard<'r> {
    fn from(guard: &Guard<'r>) -> Self {
        *guard
    }
}

impl<'r> Guard<'r> {
    /// The guard of an item's run with this token.
    pub const fn new(job: &'r str, item: u32, token: u64) -> Self {
        Self { job, item, token }
    }

    /// Whether a token that a store has seen refuses this run.
    pub(crate) fn judge(&self, what: impl Into<String>, seen: Option<u64>) -> Result<(), Fenced> {
        match seen {
            Some(seen) if seen > self.token => {
                Err(Fenced { what: what.into(), token: self.token, seen: Some(seen) })
            }
            _ => Ok(()),
        }
    }
}

/// The store has seen a higher token: another run of the item took this one's place, and nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("{what}: token {token} came too late, {}: another run of the item took this one's place", than(*.seen))]
pub struct Fenced {
    /// Which write was refused.
    pub what: String,
    /// The run's token.
    pub token: u64,
    /// The token that the store has seen; None: unknown.
    pub seen: Option<u64>,
}

fn than(seen: Option<u64>) -> String {
    seen.map_or_else(|| "a higher one was seen".to_owned(), |seen| format!("token {seen} was seen"))
}

/// Why a write was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError<E: std::error::Error + 'static> {
    /// A higher token was seen.
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// The store failed.
    #[error("{0}")]
    Store(#[source] E),
    /// It kept changing before the write.
    #[error("{0}: it changed again and again while it was to be written: is it written without fences?")]
    Contended(String),
}

impl<E: std::error::Error> FenceError<E> {
    /// Whether a higher token was seen: the run should end.
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Fenced(_))
    }
}

impl fmt::Display for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.job, self.item)
    }
}
