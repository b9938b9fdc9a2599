//! All SQL of the history in SQLite, and nothing else: the tables and their upkeep ([`HistoryFile`], here), writes
//! ([`Batch`]) and reads ([`Shelf`]). Times are milliseconds since 1970 UTC, names are those of `rows`. The writer's
//! thread owns the store; the reader asks [`FileShelves`], this folder's side of the port.
//!
//! **Ownership** (`assignments`): [`owners::steps`](super::owners::steps) decides what a new assignment changes, the
//! same for every database. A backend provides, in one transaction per assignment: the job's last written assignment
//! ([`Batch::known_assignment`]), its rows without an end ([`Batch::open_assignments`]), and the execution of a step
//! ([`Batch::take_step`]). Several coordinators record the same assignment: a row is identified by job, incarnation,
//! item and generation, and has one start and one end; if they write concurrently, the row of `assigned` is locked
//! first. Rows without an end are not pruned.

mod read;
mod schema;
mod shelves;
mod write;

use std::path::Path;
use std::time::Duration;

use rosterd_domain::time::Time;
use rosterd_runtime::private;
use rusqlite::{Connection, ErrorCode, params};

use crate::numbers::{signed, unsigned};
use crate::port::HOUR;

pub(super) use read::Shelf;
#[cfg(test)]
pub(super) use read::{EventTable, events_sql, runs_sql};
pub(super) use schema::STEPS;
pub(super) use shelves::FileShelves;
pub(super) use write::Batch;
use write::OpenItems;

/// The tables whose rows are pruned, with the column that determines the age; rows where it is NULL are in force, and
/// stay.
pub(super) const AGING: [(&str, &str); 4] =
    [("runs", "since"), ("not_run", "recorded"), ("events", "at"), ("assignments", "ended")];

/// The page cache, in KiB; it grows as needed.
const CACHE_KIB: i64 = 16 << 10;
/// How many pages in the log trigger a checkpoint.
const CHECKPOINT_PAGES: i64 = 8_000;

/// Why a file cannot be used as the history.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error("it is damaged: {0}")]
    Damaged(rusqlite::Error),
    #[error("a newer version of rosterd wrote it (schema {0}); this one writes schema {known}", known = STEPS.len())]
    Newer(i64),
    #[error(transparent)]
    File(#[from] std::io::Error),
    #[error(transparent)]
    Other(rusqlite::Error),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        if is_damage(&error) { Self::Damaged(error) } else { Self::Other(error) }
    }
}

/// Whether the file's content is damaged.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Whether only the row is at fault, so that others can be written.
pub(super) fn is_the_rows_fault(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig)
    )
}

/// The history, for its writer.
#[derive(Debug)]
pub(super) struct HistoryFile {
    db: Connection,
    open_items: OpenItems,
}

impl HistoryFile {
    /// Opens or creates the file and migrates it to this version's schema.
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        private::make_or_close(path)?;
        let mut db = Connection::open(path)?;
        db.busy_timeout(Duration::from_secs(5))?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "NORMAL")?;
        db.pragma_update(None, "journal_size_limit", 64 << 20)?;
        // Thousands of jobs each have their own place in every index. Pages that are written again and again stay in
        // memory, and are checkpointed once for several batches.
        db.pragma_update(None, "cache_size", -CACHE_KIB)?;
        db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        db.set_prepared_statement_cache_capacity(64);
        let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let steps =
            usize::try_from(version).ok().and_then(|n| STEPS.get(n..)).ok_or(OpenError::Newer(version))?;
        for (n, step) in steps.iter().enumerate() {
            let tx = db.transaction()?;
            tx.execute_batch(step)?;
            tx.pragma_update(None, "user_version", version + signed(n as u64) + 1)?;
            tx.commit()?;
        }
        let open_items = OpenItems::read(&db)?;
        let store = Self { db, open_items };
        store.rows()?;
        Ok(store)
    }

    /// `lasting`: once committed it is on the disk, and survives a power loss.
    pub(super) fn begin(&mut self, lasting: bool) -> rusqlite::Result<Batch<'_>> {
        self.db.pragma_update(None, "synchronous", if lasting { "FULL" } else { "NORMAL" })?;
        Batch::new(&self.db, &mut self.open_items)
    }

    /// An upper bound of the rows of each table: the span of its row numbers.
    pub(super) fn rows(&self) -> rusqlite::Result<[u64; AGING.len()]> {
        let mut rows = [0; AGING.len()];
        for (n, (table, _)) in rows.iter_mut().zip(AGING) {
            let sql = format!("SELECT (SELECT max(id) FROM {table}) - (SELECT min(id) FROM {table}) + 1");
            let span: Option<i64> = self.db.prepare_cached(&sql)?.query_row([], |row| row.get(0))?;
            *n = unsigned(span.unwrap_or(0));
        }
        Ok(rows)
    }

    /// Bytes of the file that are in use.
    pub(super) fn bytes(&self) -> rusqlite::Result<u64> {
        let pragma = |name| self.db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        Ok(unsigned((pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?))
    }

    /// Deletes at most `most` rows of the table from before `cutoff`.
    pub(super) fn prune_older(&self, table: usize, cutoff: Time, most: usize) -> rusqlite::Result<usize> {
        let (table, age) = AGING[table];
        let sql = format!(
            "DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE {age} < ? ORDER BY {age} LIMIT ?)"
        );
        self.db.prepare_cached(&sql)?.execute(params![cutoff.0, signed(most as u64)])
    }

    /// Deletes the `most` oldest rows of the table.
    pub(super) fn prune_first(&self, table: usize, most: usize) -> rusqlite::Result<usize> {
        let (table, age) = AGING[table];
        let sql = format!(
            "DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE {age} IS NOT NULL ORDER BY id LIMIT ?)"
        );
        self.db.prepare_cached(&sql)?.execute([signed(most as u64)])
    }

    /// Deletes a portion of the audit beyond `most` rows: the oldest rows of the principal with the most. So a busy
    /// principal displaces its own rows, not those of others.
    pub(super) fn prune_audit(&self, most: u64, portion: usize) -> rusqlite::Result<usize> {
        let count: i64 =
            self.db.prepare_cached("SELECT count(*) FROM audit")?.query_row([], |row| row.get(0))?;
        let over = unsigned(count).saturating_sub(most);
        if over == 0 {
            return Ok(0);
        }
        let (who, rows): (Option<String>, i64) = self
            .db
            .prepare_cached(
                "SELECT principal, count(*) AS n FROM audit GROUP BY principal ORDER BY n DESC LIMIT 1",
            )?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        // At most a tenth, since another principal may have the most after that.
        let portion = over.min(portion as u64).min(unsigned(rows) / 10).max(1);
        let sql =
            "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE principal IS ? ORDER BY id LIMIT ?)";
        self.db.prepare_cached(sql)?.execute(params![who, signed(portion)])
    }

    /// Deletes the counts of hours that ended before `cutoff`.
    pub(super) fn prune_counts(&self, cutoff: Time) -> rusqlite::Result<usize> {
        self.db.execute("DELETE FROM hourly WHERE hour < ?", [cutoff.0.div_euclid(HOUR)])
    }

    /// Limits the file to this number of pages, as a full disk does.
    #[cfg(test)]
    pub(super) fn limit_pages(&self, pages: i64) -> i64 {
        self.db.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| row.get(0)).unwrap()
    }
}
