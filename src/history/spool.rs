//! The records that wait on the disk for the database: a table in an SQLite file, numbered in the order of arrival. A
//! record is deleted once the database has it. The file is bounded in bytes: if it is full, the caller drops and counts
//! the record, but the audit has extra room. If the process is killed nothing is lost; after a power loss the last
//! moments may be missing, but none of the audit. The spooler's thread fills it, the sender's empties it.

use std::path::Path;
use std::time::Duration;

use rosterd_runtime::private;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, params};

use super::record::Record;

/// The table's version.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE waiting (number INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL) STRICT;
    CREATE TABLE sender (name TEXT NOT NULL) STRICT;
";

/// Why a file cannot be used as the spool.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    /// A new one could be created in its place.
    #[error("{0}")]
    Useless(String),
    #[error(transparent)]
    File(#[from] std::io::Error),
    #[error(transparent)]
    Other(rusqlite::Error),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        if is_damage(&error) { Self::Useless(format!("it is damaged: {error}")) } else { Self::Other(error) }
    }
}

pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// How many bytes of the file a record takes: a long one has pages of its own.
fn room_of(body: &[u8]) -> u64 {
    const PAGE: u64 = 4096;
    let bytes = body.len() as u64 + 16;
    if bytes > PAGE { bytes.next_multiple_of(PAGE) } else { bytes }
}

/// A record and its number.
pub(super) type Numbered = (i64, Record);

/// The file.
#[derive(Debug)]
pub(super) struct Spool {
    db: Connection,
    most_bytes: u64,
    rows: u64,
    sender: String,
}

impl Spool {
    /// Opens or creates the file; `name` generates the name of the sender, which is stored in it.
    pub(super) fn open(
        path: &Path,
        most_bytes: u64,
        name: impl FnOnce() -> String,
    ) -> Result<Self, OpenError> {
        private::make_or_close(path)?;
        let mut db = Connection::open(path)?;
        db.busy_timeout(Duration::from_secs(5))?;
        // Before the first table, or it has no effect: freed pages are returned to the file system.
        db.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "NORMAL")?;
        db.pragma_update(None, "journal_size_limit", 16 << 20)?;
        match db.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))? {
            VERSION => {}
            0 => {
                let tx = db.transaction()?;
                tx.execute_batch(TABLES)?;
                tx.execute("INSERT INTO sender VALUES (?)", [name()])?;
                tx.pragma_update(None, "user_version", VERSION)?;
                tx.commit()?;
            }
            newer => return Err(OpenError::Useless(format!("a newer version wrote it (schema {newer})"))),
        }
        let sender = db.query_row("SELECT name FROM sender", [], |row| row.get(0)).optional()?;
        let sender = sender.ok_or_else(|| OpenError::Useless("it names no sender".to_owned()))?;
        let rows: i64 = db.query_row("SELECT count(*) FROM waiting", [], |row| row.get(0))?;
        Ok(Self { db, most_bytes, rows: u64::try_from(rows).unwrap_or(0), sender })
    }

    /// The sender name of its records.
    pub(super) fn sender(&self) -> &str {
        &self.sender
    }

    /// Changes the sender name.
    pub(super) fn rename(&mut self, sender: String) -> rusqlite::Result<()> {
        self.db.execute("UPDATE sender SET name = ?", [&sender])?;
        self.sender = sender;
        Ok(())
    }

    /// Records that wait.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of the file that are in use.
    pub(super) fn bytes(&self) -> rusqlite::Result<u64> {
        let pragma = |name| self.db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let used = (pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?;
        Ok(u64::try_from(used).unwrap_or(0))
    }

    /// The number of the last record ever added.
    pub(super) fn last_number(&self) -> rusqlite::Result<i64> {
        let last = self
            .db
            .query_row("SELECT seq FROM sqlite_sequence WHERE name = 'waiting'", [], |row| row.get(0))
            .optional()?;
        Ok(last.unwrap_or(0))
    }

    /// Appends records, all or none; returns how many did not fit.
    pub(super) fn append(&mut self, records: &[Record]) -> rusqlite::Result<usize> {
        // A tenth more is for the audit, so that rows that workers cause cannot displace it.
        let beyond = self.most_bytes / 10;
        let mut bytes = self.bytes()?;
        let lasting = records.iter().any(Record::is_audit);
        self.db.pragma_update(None, "synchronous", if lasting { "FULL" } else { "NORMAL" })?;
        let tx = self.db.transaction()?;
        let mut put = 0;
        {
            let mut insert = tx.prepare_cached("INSERT INTO waiting (body) VALUES (?)")?;
            for record in records {
                // A record is plain data: failing to serialize it would be a bug, and counts as a loss.
                let Ok(body) = serde_json::to_vec(record) else { continue };
                let room = room_of(&body);
                let most = if record.is_audit() { self.most_bytes + beyond } else { self.most_bytes };
                if bytes + room > most {
                    continue;
                }
                insert.execute([body])?;
                bytes += room;
                put += 1;
            }
        }
        tx.commit()?;
        self.rows += put as u64;
        Ok(records.len() - put)
    }

    /// The first records, at most this many and about this many bytes; and how many cannot be read, being of another
    /// version.
    pub(super) fn first(
        &self,
        most: usize,
        bytes: usize,
    ) -> rusqlite::Result<(Vec<Numbered>, Option<i64>, u64)> {
        let mut statement =
            self.db.prepare_cached("SELECT number, body FROM waiting ORDER BY number LIMIT ?")?;
        let mut rows = statement.query([i64::try_from(most).unwrap_or(i64::MAX)])?;
        let (mut records, mut last, mut unreadable, mut taken) = (Vec::new(), None, 0, 0);
        while let Some(row) = rows.next()? {
            let (number, body): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
            taken += body.len();
            last = Some(number);
            match serde_json::from_slice(&body) {
                Ok(record) => records.push((number, record)),
                Err(_) => unreadable += 1,
            }
            if taken >= bytes {
                break;
            }
        }
        Ok((records, last, unreadable))
    }

    /// Deletes the records up to this number.
    pub(super) fn remove(&mut self, last: i64) -> rusqlite::Result<()> {
        let gone = self.db.prepare_cached("DELETE FROM waiting WHERE number <= ?")?.execute(params![last])?;
        self.rows = self.rows.saturating_sub(gone as u64);
        if self.rows == 0 {
            // In portions: after a long outage the file shrinks over several batches, and none of them is delayed by
            // it.
            self.db.execute_batch("PRAGMA incremental_vacuum(2000)")?;
        }
        Ok(())
    }
}
