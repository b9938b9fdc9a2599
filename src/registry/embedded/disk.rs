//! Writes the database: one SQLite transaction per batch, which appends to the journal and merges a part of it.
//!
//! Checkpoints are made here and not by SQLite itself, which hides their errors: a page of the database whose sync
//! failed must not count as written. Called by the store's thread only.

use std::path::PathBuf;

use rosterd_domain::id::Revision;
use rusqlite::{Connection, ErrorCode};

use super::journal::{self, Merging, Step};
use super::ledger::{Ledger, Row};
use super::note::Note;
use super::open::{FORMAT, Lock, Opened};
use crate::paths::Path as NodePath;
use crate::tree::{Stat, Tree};

/// How many revisions are reserved at once. Transactions that touch only ephemeral nodes raise the revision without a
/// write; after a restart the count continues above everything that may have been used.
const REVISIONS: u64 = 65_536;

/// How many bytes are kept for the next entry: memory that is given back and taken again at once costs more than what is
/// written to it.
const KEPT: usize = 1 << 20;

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
    /// Whether the database is still of the first format. The first write changes that.
    first_format: bool,
    merging: Merging,
    /// The entry of the last batch.
    entry: Vec<u8>,
    /// About how many pages of the log have not been moved to the database yet.
    pages: usize,
    /// The number of pages at which they are moved.
    checkpoint_pages: usize,
    /// Dropped last, after the connection is closed.
    _lock: Lock,
}

impl Disk {
    /// Continues with a database that was opened and checked.
    pub(super) fn new(opened: Opened, checkpoint_pages: usize, journal_bytes: usize) -> (Self, Tree) {
        let Opened { file, connection, note, ledger, first_format, journal, tree, lock } = opened;
        let merging = Merging::new(journal_bytes, journal);
        let disk = Self {
            file,
            connection,
            note,
            ledger,
            first_format,
            merging,
            entry: Vec::new(),
            pages: 0,
            checkpoint_pages,
            _lock: lock,
        };
        (disk, tree)
    }

    /// Whether a revision may be answered without a write.
    pub(super) fn covers(&self, revision: Revision) -> bool {
        revision <= self.ledger.ceiling
    }

    /// Writes a batch, whole or not at all. `current` gives the state of a node after it. `Ok`: it is synced.
    pub(super) fn write<'a>(
        &mut self,
        rows: &[Row<'_>],
        revision: Revision,
        current: impl Fn(&NodePath) -> Option<&'a Stat>,
    ) -> Result<(), WriteError> {
        let mut ledger = Ledger { batch: self.ledger.batch + 1, ..self.ledger };
        if !self.covers(revision) {
            ledger.ceiling = Revision(revision.0 + REVISIONS);
        }
        for row in rows {
            ledger.digest.change(row.path.as_str(), row.before, row.after);
        }
        journal::encode(rows, &mut self.entry);
        let bytes = journal::size(&self.entry);
        let step = self.merging.step(bytes);
        let staged = self.stage(ledger, &self.entry, step, current);
        self.entry.clear();
        self.entry.shrink_to(KEPT);
        if let Err(error) = staged {
            return Err(self.give_up(&error, false));
        }
        if let Err(error) = self.commit() {
            return Err(self.give_up(&error, true));
        }
        self.ledger = ledger;
        self.first_format = false;
        self.note.write(ledger.batch);
        self.merging.committed(step, ledger.batch, bytes, rows);
        // Nodes that are merged together are neighbors, so that several share a page.
        self.pages += 3 + bytes / 4096 + step.merge / 2;
        Ok(())
    }

    /// Everything that belongs to a batch, in a transaction that is open then.
    fn stage<'a>(
        &self,
        ledger: Ledger,
        entry: &[u8],
        step: Step,
        current: impl Fn(&NodePath) -> Option<&'a Stat>,
    ) -> rusqlite::Result<()> {
        self.begin()?;
        if self.first_format {
            self.connection.execute_batch(journal::SCHEMA)?;
            self.connection.pragma_update(None, "user_version", FORMAT)?;
        }
        journal::append(&self.connection, ledger, entry)?;
        self.merging.write(&self.connection, step, current)
    }

    fn begin(&self) -> rusqlite::Result<()> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([]).map(drop)
    }

    fn commit(&self) -> rusqlite::Result<()> {
        self.connection.prepare_cached("COMMIT")?.execute([]).map(drop)
    }

    /// Moves the log's pages to the database if there are enough of them. `Err`: the database can no longer be trusted.
    pub(super) fn checkpoint(&mut self) -> Result<(), String> {
        if self.pages < self.checkpoint_pages { Ok(()) } else { self.checkpoint_now("PASSIVE") }
    }

    /// Merges the journal, so that the rows say everything, and moves the log's pages to the database.
    pub(super) fn close<'a>(mut self, current: impl Fn(&NodePath) -> Option<&'a Stat>) -> Result<(), String> {
        if let Err(error) = self.merge_all(current) {
            // Nothing is lost: whoever opens it reads the journal.
            if let WriteError::Failed(text) | WriteError::Unknown(text) = self.give_up(&error, false) {
                return Err(text);
            }
        }
        self.checkpoint_now("TRUNCATE")
    }

    fn merge_all<'a>(&mut self, current: impl Fn(&NodePath) -> Option<&'a Stat>) -> rusqlite::Result<()> {
        let Some(step) = self.merging.last_step(self.ledger.batch) else { return Ok(()) };
        self.begin()?;
        self.merging.write(&self.connection, step, current)?;
        journal::write_ledger(&self.connection, self.ledger)?;
        self.commit()
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
