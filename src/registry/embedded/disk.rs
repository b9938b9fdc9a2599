//! Writing the database: persistent nodes as rows, one SQLite transaction per batch.
//!
//! Checkpoints are made here and not by SQLite itself, which hides their errors: a database page whose sync
//! failed must not be taken for written. Called by the store's thread only.

use std::path::PathBuf;

use rosterd_domain::id::Revision;
use rusqlite::{Connection, ErrorCode, params};

use super::note::Note;
use super::open::{Ledger, Lock, Opened};
use crate::paths::Path as NodePath;
use crate::tree::{Stat, Tree};

/// How many revisions are reserved at once. Transactions on ephemeral nodes alone raise the revision without
/// writing; after a restart the count goes on behind everything that may have been used.
const REVISIONS: u64 = 65_536;

/// What a batch did to one persistent node.
pub(super) struct Row<'a> {
    pub(super) path: &'a NodePath,
    pub(super) before: Option<&'a Stat>,
    pub(super) after: Option<&'a Stat>,
}

impl Row<'_> {
    fn pages(&self) -> usize {
        1 + self.after.map_or(0, |stat| stat.data.len() / 4096)
    }
}

/// A batch that was not acknowledged by the disk.
#[derive(Debug)]
pub(super) enum WriteError {
    /// Surely not written, for want of space; the next one may be.
    Full(String),
    /// Surely not written, and nothing can be trusted any more.
    Failed(String),
    /// It may be found there after a restart, or not; nothing can be trusted any more.
    Unknown(String),
}

/// The open database.
#[derive(Debug)]
pub(super) struct Disk {
    file: PathBuf,
    connection: Connection,
    note: Note,
    ledger: Ledger,
    /// About how many pages the log holds that were not asked into the database yet.
    pages: usize,
    /// At how many they are.
    checkpoint_pages: usize,
    /// Released last, when the connection is closed.
    _lock: Lock,
}

impl Disk {
    /// Goes on with a database that was opened and checked.
    pub(super) fn new(opened: Opened, checkpoint_pages: usize) -> (Self, Tree) {
        let Opened { file, connection, note, ledger, tree, lock } = opened;
        (Self { file, connection, note, ledger, pages: 0, checkpoint_pages, _lock: lock }, tree)
    }

    /// Whether a revision may be answered without a write.
    pub(super) fn covers(&self, revision: Revision) -> bool {
        revision <= self.ledger.ceiling
    }

    /// Writes a batch, whole or not at all. `Ok`: it is synced.
    pub(super) fn write(&mut self, rows: &[Row<'_>], revision: Revision) -> Result<(), WriteError> {
        let mut ledger = Ledger { batch: self.ledger.batch + 1, ..self.ledger };
        if !self.covers(revision) {
            ledger.ceiling = Revision(revision.0 + REVISIONS);
        }
        for row in rows {
            if let Some(stat) = row.before {
                ledger.digest.remove(row.path.as_str(), stat);
            }
            if let Some(stat) = row.after {
                ledger.digest.add(row.path.as_str(), stat);
            }
        }
        if let Err(error) = stage(&self.connection, rows, ledger) {
            return Err(self.give_up(&error, false));
        }
        if let Err(error) = self.connection.prepare_cached("COMMIT").and_then(|mut s| s.execute([])) {
            return Err(self.give_up(&error, true));
        }
        self.ledger = ledger;
        self.note.write(ledger.batch);
        self.pages += 3 + rows.iter().map(Row::pages).sum::<usize>();
        Ok(())
    }

    /// Moves the log's pages to the database if there are enough of them. `Err`: nothing can be trusted.
    pub(super) fn checkpoint(&mut self) -> Result<(), String> {
        if self.pages < self.checkpoint_pages { Ok(()) } else { self.checkpoint_now("PASSIVE") }
    }

    /// Moves the log's pages to the database and empties the log.
    pub(super) fn close(mut self) -> Result<(), String> {
        self.checkpoint_now("TRUNCATE")
    }

    fn checkpoint_now(&mut self, mode: &str) -> Result<(), String> {
        self.pages = 0;
        match self.connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(())) {
            // Without space the log keeps everything; it is tried again after as many pages.
            Err(error) if code(&error) != Some(ErrorCode::DiskFull) => Err(self.failed(&error)),
            _ => Ok(()),
        }
    }

    fn give_up(&mut self, error: &rusqlite::Error, committing: bool) -> WriteError {
        // SQLite may have rolled back by itself.
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        match code(error) {
            // The write that found no space came before the frame that makes a commit. A log whose pages are
            // all in the database is written from its start again, which needs no space.
            Some(ErrorCode::DiskFull) => match self.checkpoint_now("PASSIVE") {
                Ok(()) => WriteError::Full(format!(
                    "the disk of {} is full: free some space, the store then goes on by itself",
                    self.file.display()
                )),
                Err(text) => WriteError::Failed(text),
            },
            _ if committing => WriteError::Unknown(self.failed(error)),
            _ => WriteError::Failed(self.failed(error)),
        }
    }

    fn failed(&self, error: &rusqlite::Error) -> String {
        format!(
            "writing {} failed ({error}); what the disk holds is no longer known: check the disk, then restart",
            self.file.display()
        )
    }
}

fn code(error: &rusqlite::Error) -> Option<ErrorCode> {
    error.sqlite_error_code()
}

fn stage(connection: &Connection, rows: &[Row<'_>], ledger: Ledger) -> rusqlite::Result<()> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let mut put = connection.prepare_cached(
        "INSERT INTO node (path, data, version, created, modified) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (path) DO UPDATE SET data = ?2, version = ?3, created = ?4, modified = ?5",
    )?;
    let mut delete = connection.prepare_cached("DELETE FROM node WHERE path = ?1")?;
    for Row { path, after, .. } in rows {
        match after {
            Some(stat) => put.execute(params![
                path.as_str(),
                &*stat.data,
                signed(stat.version.0),
                signed(stat.created.0),
                signed(stat.modified.0)
            ])?,
            None => delete.execute([path.as_str()])?,
        };
    }
    connection
        .prepare_cached("UPDATE ledger SET batch = ?1, rows = ?2, sum = ?3, ceiling = ?4 WHERE id = 1")?
        .execute(params![
            signed(ledger.batch),
            signed(ledger.digest.rows),
            signed(ledger.digest.sum),
            signed(ledger.ceiling.0)
        ])?;
    Ok(())
}

/// SQLite's integers are signed: the same 64 bits.
fn signed(number: u64) -> i64 {
    i64::from_ne_bytes(number.to_ne_bytes())
}
