//! What waits on the disk for the database: a table of records in a SQLite file, numbered in the order in which they came. A
//! record is taken away once the database has it. The file is bounded in bytes: a record too many is dropped and counted by
//! who brought it, but the audit's have room beyond. A killed process loses nothing of it; a machine that loses its power
//! loses the last moments, and none of the audit. The spooler's thread fills it, the sender's empties it.

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

/// Why a file cannot be the spool.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    /// Another could be begun in its place.
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
    /// Opens or makes the file; `name` makes up a name for who sends from it, which is kept with it.
    pub(super) fn open(
        path: &Path,
        most_bytes: u64,
        name: impl FnOnce() -> String,
    ) -> Result<Self, OpenError> {
        private::make_or_close(path)?;
        let mut db = Connection::open(path)?;
        db.busy_timeout(Duration::from_secs(5))?;
        // Before the first table, or it is without effect: what is taken away is given back to the disk.
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

    /// Under which name its records are sent.
    pub(super) fn sender(&self) -> &str {
        &self.sender
    }

    /// From now on under this one.
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

    /// The number that the last record had that ever came.
    pub(super) fn last_number(&self) -> rusqlite::Result<i64> {
        let last = self
            .db
            .query_row("SELECT seq FROM sqlite_sequence WHERE name = 'waiting'", [], |row| row.get(0))
            .optional()?;
        Ok(last.unwrap_or(0))
    }

    /// Appends records, all or none; how many there was no room for.
    pub(super) fn append(&mut self, records: &[Record]) -> rusqlite::Result<usize> {
        // A tenth beyond is the audit's: what workers cause takes no room from who did what.
        let beyond = self.most_bytes / 10;
        let mut bytes = self.bytes()?;
        let lasting = records.iter().any(Record::is_audit);
        self.db.pragma_update(None, "synchronous", if lasting { "FULL" } else { "NORMAL" })?;
        let tx = self.db.transaction()?;
        let mut put = 0;
        {
            let mut insert = tx.prepare_cached("INSERT INTO waiting (body) VALUES (?)")?;
            for record in records {
                // A record is plain data: that it cannot be written would be a defect, and is counted as a loss.
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

    /// The first records, at most so many and about so many bytes; and how many of another version's cannot be read.
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

    /// Takes away the records up to this number.
    pub(super) fn remove(&mut self, last: i64) -> rusqlite::Result<()> {
        let gone = self.db.prepare_cached("DELETE FROM waiting WHERE number <= ?")?.execute(params![last])?;
        self.rows = self.rows.saturating_sub(gone as u64);
        if self.rows == 0 {
            // A portion: a long outage's file becomes small again over some batches, none of them late for it.
            self.db.execute_batch("PRAGMA incremental_vacuum(2000)")?;
        }
        Ok(())
    }
}
