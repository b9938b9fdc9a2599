//! Writes the database: persistent nodes as rows, one SQLite transaction per batch.
//!
//! Checkpoints are made here and not by SQLite itself, which hides their errors: a page of the database whose sync
//! failed must not count as written. Called by the store's thread only.

use std::path::PathBuf;

use rosterd_domain::id::Revision;
use rusqlite::{Connection, ErrorCode, params};

use super::note::Note;
use super::open::{Ledger, Lock, Opened};
use crate::paths::Path as NodePath;
use crate::tree::{Stat, Tree};

/// How many revisions are reserved at once. Transactions that touch only ephemeral nodes raise the revision without a
/// write; after a restart the count continues above everything that may have been used.
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
    /// Certainly not written, for lack of space; the next batch may succeed.
    Full(String),
    /// Certainly not written, and the database can no longer be trusted.
    Failed(String),
    /// It may or may not be there after a restart, and the database can no longer be trusted.
    Unknown(String),
}

/// The open database.
#[derive(Debug)]
pub(super) struct Disk {
    file: PathBuf,
    connection: Connection,
    note: Note,
    ledger: Ledger,
    /// About how many pages of the log have not been moved to the database yet.
    pages: usize,
    /// The number of pages at which they are moved.
    checkpoint_pages: usize,
    /// Dropped last, after the connection is closed.
    _lock: Lock,
}

impl Disk {
    /// Continues with a database that was opened and checked.
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
            ledger.digest.change(row.path.as_str(), row.before, row.after);
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

    /// Moves the log's pages to the database if there are enough of them. `Err`: the database can no longer be trusted.
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
            // Without space the log keeps everything; the next try is after as many pages again.
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
            // The write that ran out of space came before the frame that commits. Once all pages of a log are in the
            // database, SQLite writes the log from its start again, which needs no space.
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
    let mut insert = connection.prepare_cached(
        "INSERT INTO node (path, data, version, created, modified) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    // Nearly every row that is written exists already: trying to insert it first would cost another search.
    let mut update = connection.prepare_cached(
        "UPDATE node SET data = ?2, version = ?3, created = ?4, modified = ?5 WHERE path = ?1",
    )?;
    let mut delete = connection.prepare_cached("DELETE FROM node WHERE path = ?1")?;
    for Row { path, before, after } in rows {
        let put = if before.is_some() { &mut update } else { &mut insert };
        let changed = match after {
            Some(stat) => put.execute(params![
                path.as_str(),
                &*stat.data,
                signed(stat.version.0),
                signed(stat.created.0),
                signed(stat.modified.0)
            ])?,
            None => delete.execute([path.as_str()])?,
        };
        if changed != 1 {
            // The rows are not the ones that we left there, so the database cannot be trusted.
            return Err(rusqlite::Error::StatementChangedRows(changed));
        }
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

/// SQLite's integers are signed; this keeps the 64 bits as they are.
fn signed(number: u64) -> i64 {
    i64::from_ne_bytes(number.to_ne_bytes())
}
