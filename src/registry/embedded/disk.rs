//! The database: persistent nodes as rows, one SQLite transaction per batch.
//!
//! Opening reads everything once and checks it: structure, digest, and that nothing acknowledged is missing.
//! Checkpoints are made here and not by SQLite itself, which hides their errors: a database page whose sync
//! failed must not be taken for written. Called by the store's thread only.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rosterd_domain::id::{Namespace, Revision, Version};
use rusqlite::{Connection, ErrorCode, OpenFlags, params};

use super::digest::Digest;
use super::error::OpenError;
use super::note::{Note, sync_dir};
use crate::registry::forms;
use crate::registry::paths::{Path as NodePath, Paths};
use crate::registry::tree::{Stat, Tree};

const DATABASE: &str = "registry.db";
const LOCK: &str = "registry.lock";
/// `rstd`: tells a registry from any other SQLite database.
const APPLICATION: i64 = 0x7273_7464;
const FORMAT: i64 = 1;
/// How many revisions are reserved at once. Transactions on ephemeral nodes alone raise the revision without
/// writing; after a restart the count goes on behind everything that may have been used.
const REVISIONS: u64 = 65_536;
/// After about so many pages in the log they are moved to the database.
const CHECKPOINT_PAGES: usize = 4_096;

const SCHEMA: &str = "
    CREATE TABLE node (
        path TEXT PRIMARY KEY NOT NULL, data BLOB NOT NULL,
        version INTEGER NOT NULL, created INTEGER NOT NULL, modified INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE ledger (
        id INTEGER PRIMARY KEY CHECK (id = 1), namespace TEXT NOT NULL,
        batch INTEGER NOT NULL, rows INTEGER NOT NULL, sum INTEGER NOT NULL, ceiling INTEGER NOT NULL
    ) STRICT;";

/// What a batch did to one persistent node.
pub(super) struct Row<'a> {
    pub(super) path: &'a NodePath,
    pub(super) before: Option<&'a Stat>,
    pub(super) after: Option<&'a Stat>,
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
    pages: usize,
    /// Held as long as the database is open; the lock goes with it.
    _lock: File,
}

#[derive(Debug, Clone, Copy)]
struct Ledger {
    batch: u64,
    digest: Digest,
    /// No revision above it was ever answered.
    ceiling: Revision,
}

impl Disk {
    /// Opens or makes the database and reads the tree.
    pub(super) fn open(dir: &Path, namespace: &Namespace, paths: &Paths) -> Result<(Self, Tree), OpenError> {
        std::fs::create_dir_all(dir).map_err(|e| OpenError::io("making", dir, e))?;
        let lock = lock(dir)?;
        let file = dir.join(DATABASE);
        let noted = Note::read(dir)?;
        prepare(dir, &file, noted, namespace)?;
        let connection = connect(&file)?;
        check(&connection, &file)?;
        let ledger = read_ledger(&connection, &file, namespace)?;
        if let Some(noted) = noted
            && ledger.batch < noted
        {
            let note = Note::path(dir);
            return Err(OpenError::LostTail { file, note, noted, found: ledger.batch });
        }
        let tree = read_tree(&connection, &file, ledger, paths)?;
        let note = Note::open(dir, ledger.batch)?;
        Ok((Self { file, connection, note, ledger, pages: 0, _lock: lock }, tree))
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
        self.pages += rows.len() + 3;
        Ok(())
    }

    /// Moves the log's pages to the database if there are enough of them. `Err`: nothing can be trusted.
    pub(super) fn checkpoint(&mut self, always: bool) -> Result<(), String> {
        if self.pages < CHECKPOINT_PAGES && !always {
            return Ok(());
        }
        match self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
            Ok(()) => self.pages = 0,
            // The log keeps everything; it is tried again after as many pages.
            Err(error) if code(&error) == Some(ErrorCode::DiskFull) => self.pages = 0,
            Err(error) => return Err(self.failed(&error)),
        }
        Ok(())
    }

    fn give_up(&mut self, error: &rusqlite::Error, committing: bool) -> WriteError {
        // SQLite may have rolled back by itself.
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        match code(error) {
            // The write that found no space came before the frame that makes a commit. A log whose pages are
            // all in the database is written from its start again, which needs no space.
            Some(ErrorCode::DiskFull) => match self.checkpoint(true) {
                Ok(()) => WriteError::Full(format!(
                    "the disk of {} is full: free some space, the registry then goes on by itself",
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

fn unsigned(number: i64) -> u64 {
    u64::from_ne_bytes(number.to_ne_bytes())
}

fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join(LOCK);
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|e| OpenError::io("opening", &path, e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { dir: dir.to_owned() }),
        Err(TryLockError::Error(e)) => Err(OpenError::io("locking", &path, e)),
    }
}

/// Makes sure that there is a database which SQLite may open without harm: ours, or a new one where nothing
/// ever was.
fn prepare(dir: &Path, file: &Path, noted: Option<u64>, namespace: &Namespace) -> Result<(), OpenError> {
    let log = with_suffix(file, "-wal");
    let start = match read_start(file) {
        Ok(start) => start,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let evidence = if noted.is_some() { Note::path(dir) } else { log };
            if noted.is_some() || evidence.exists() {
                return Err(OpenError::Missing { database: file.to_owned(), evidence });
            }
            return create(dir, file, namespace);
        }
        Err(e) => return Err(OpenError::io("reading", file, e)),
    };
    if start.is_empty() {
        return Err(OpenError::damaged(file, "it is empty"));
    }
    if !start.starts_with(b"SQLite format 3\0") {
        // Ours once, if the note says so.
        let reason = "it does not begin as an SQLite database does";
        return Err(match noted {
            Some(_) => OpenError::damaged(file, reason),
            None => OpenError::Foreign { file: file.to_owned(), reason: reason.into() },
        });
    }
    Ok(())
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn read_start(file: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut start = Vec::new();
    File::open(file)?.take(16).read_to_end(&mut start)?;
    Ok(start)
}

/// Makes the database under another name first, so that under its own it is always whole.
fn create(dir: &Path, file: &Path, namespace: &Namespace) -> Result<(), OpenError> {
    let draft = with_suffix(file, ".new");
    let made = (|| {
        for suffix in ["", "-journal", "-wal", "-shm"] {
            match std::fs::remove_file(with_suffix(&draft, suffix)) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        write_schema(&draft, namespace).map_err(std::io::Error::other)?;
        File::open(&draft)?.sync_all()?;
        std::fs::rename(&draft, file)
    })();
    made.map_err(|e| OpenError::io("making", file, e))?;
    sync_dir(dir)
}

fn write_schema(file: &Path, namespace: &Namespace) -> rusqlite::Result<()> {
    let connection = Connection::open(file)?;
    connection.pragma_update(None, "application_id", APPLICATION)?;
    connection.pragma_update(None, "user_version", FORMAT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.execute_batch(SCHEMA)?;
    connection.execute("INSERT INTO ledger VALUES (1, ?1, 0, 0, 0, 0)", [namespace.as_str()])?;
    connection.close().map_err(|(_, e)| e)
}

fn connect(file: &Path) -> Result<Connection, OpenError> {
    let damage = |e: rusqlite::Error| OpenError::damaged(file, e.to_string());
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags).map_err(damage)?;
    // SQLite must not make a checkpoint whose errors nobody sees, nor remove a log that could not be read.
    connection
        .set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .map_err(damage)?;
    // Exclusive before the first access: then there is no shared-memory file, which a full disk could tear away.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE").map_err(damage)?;
    let application: i64 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(damage)?;
    if application != APPLICATION {
        let reason = "another program's database".to_owned();
        return Err(OpenError::Foreign { file: file.to_owned(), reason });
    }
    let format: i64 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(damage)?;
    if format != FORMAT {
        return Err(OpenError::Format { file: file.to_owned(), found: format, known: FORMAT });
    }
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).map_err(damage)?;
    if mode != "wal" {
        return Err(OpenError::damaged(file, format!("it cannot be written with a log (mode {mode})")));
    }
    connection.pragma_update(None, "synchronous", "FULL").map_err(damage)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0).map_err(damage)?;
    connection.pragma_update(None, "cache_spill", false).map_err(damage)?;
    connection.pragma_update(None, "cache_size", -32_768).map_err(damage)?;
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(damage)?;
    Ok(connection)
}

fn check(connection: &Connection, file: &Path) -> Result<(), OpenError> {
    let damage = |e: rusqlite::Error| OpenError::damaged(file, e.to_string());
    let found: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(damage)?;
    if found == "ok" { Ok(()) } else { Err(OpenError::damaged(file, found)) }
}

fn read_ledger(connection: &Connection, file: &Path, namespace: &Namespace) -> Result<Ledger, OpenError> {
    let (found, ledger) = connection
        .query_row("SELECT namespace, batch, rows, sum, ceiling FROM ledger WHERE id = 1", [], |row| {
            let digest = Digest { rows: unsigned(row.get(2)?), sum: unsigned(row.get(3)?) };
            let ceiling = Revision(unsigned(row.get(4)?));
            Ok((row.get::<_, String>(0)?, Ledger { batch: unsigned(row.get(1)?), digest, ceiling }))
        })
        .map_err(|e| OpenError::damaged(file, format!("its ledger cannot be read: {e}")))?;
    if found != namespace.as_str() {
        let asked = namespace.to_string();
        return Err(OpenError::Namespace { file: file.to_owned(), found, asked });
    }
    Ok(ledger)
}

fn read_tree(connection: &Connection, file: &Path, ledger: Ledger, paths: &Paths) -> Result<Tree, OpenError> {
    let damage = |e: rusqlite::Error| OpenError::damaged(file, e.to_string());
    let mut tree = Tree::new(ledger.ceiling);
    for root in paths.roots() {
        tree.load_folder(&root);
    }
    let mut digest = Digest::default();
    let mut select = connection
        .prepare("SELECT path, data, version, created, modified FROM node ORDER BY path")
        .map_err(damage)?;
    let mut rows = select.query([]).map_err(damage)?;
    while let Some(row) = rows.next().map_err(damage)? {
        let path: String = row.get(0).map_err(damage)?;
        let stat = read_stat(row).map_err(damage)?;
        digest.add(&path, &stat);
        let stored = NodePath::stored(&path);
        if stored.is_none_or(|path| tree.load(&path, stat).is_err()) {
            return Err(OpenError::damaged(file, format!("node {path:?} hangs from nothing")));
        }
    }
    if digest == ledger.digest {
        return Ok(tree);
    }
    let (found, expected) = (digest.rows, ledger.digest.rows);
    Err(OpenError::damaged(
        file,
        format!("its contents do not match their digest ({found} nodes found, {expected} expected)"),
    ))
}

fn read_stat(row: &rusqlite::Row<'_>) -> rusqlite::Result<Stat> {
    let data = row.get_ref(1)?.as_blob()?;
    Ok(Stat {
        data: if data.is_empty() { forms::empty() } else { Arc::from(data) },
        version: Version(unsigned(row.get(2)?)),
        created: Revision(unsigned(row.get(3)?)),
        modified: Revision(unsigned(row.get(4)?)),
        owner: None,
    })
}
