//! Opens the database: reads everything once and checks it.
//!
//! It checks the lock, the structure, the digest over all rows, and that nothing acknowledged is missing. A check that
//! fails is an error that says what to do; nothing is repaired, emptied or changed. Called when the registry is opened.

use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rosterd_domain::id::{Namespace, Revision, Version};
use rosterd_runtime::private;
use rusqlite::{Connection, OpenFlags};

use super::digest::{Digest, first_format_hash};
use super::error::OpenError;
use super::journal::{self, Found, Left};
use super::ledger::{Ledger, unsigned};
use super::note::{Note, sync_dir};
use crate::forms;
use crate::paths::{Path as NodePath, Paths};
use crate::tree::{Stat, Tree};

const DATABASE: &str = "registry.db";
const LOCK: &str = "registry.lock";
/// `rstd`: tells a registry from any other SQLite database.
const APPLICATION: i64 = 0x7273_7464;
/// The first format had no journal and another digest; it is read, and becomes this one with the first write.
pub(super) const FORMAT: i64 = 2;
const FIRST_FORMAT: i64 = 1;
const SCHEMA: &str = "
    CREATE TABLE node (
        path TEXT PRIMARY KEY NOT NULL, data BLOB NOT NULL,
        version INTEGER NOT NULL, created INTEGER NOT NULL, modified INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE ledger (
        id INTEGER PRIMARY KEY CHECK (id = 1), namespace TEXT NOT NULL,
        batch INTEGER NOT NULL, rows INTEGER NOT NULL, sum INTEGER NOT NULL, ceiling INTEGER NOT NULL
    ) STRICT;";

/// An open database and what it holds.
pub(super) struct Opened {
    pub(super) file: PathBuf,
    pub(super) connection: Connection,
    pub(super) note: Note,
    pub(super) ledger: Ledger,
    /// Whether the database is of the first format.
    pub(super) first_format: bool,
    pub(super) journal: Found,
    pub(super) tree: Tree,
    /// Held as long as the database is open.
    pub(super) lock: Lock,
}

impl Opened {
    /// Opens or creates the database and reads the tree.
    pub(super) fn open(dir: &Path, namespace: &Namespace, paths: &Paths) -> Result<Self, OpenError> {
        private::dir(dir).map_err(|source| OpenError::Shared { dir: dir.to_owned(), source })?;
        let file = dir.join(DATABASE);
        for path in [&dir.join(LOCK), &Note::path(dir), &file, &with_suffix(&file, "-wal")] {
            private::close(path).map_err(|e| OpenError::io("closing to others", path, e))?;
        }
        let lock = lock(dir)?;
        let noted = Note::read(dir)?;
        prepare(dir, &file, noted, namespace)?;
        let (connection, format) = connect(&file)?;
        check(&connection, &file)?;
        let mut ledger = read_ledger(&connection, &file, namespace)?;
        let first_format = format == FIRST_FORMAT;
        let (mut left, mut journal) = (Left::new(), Found::default());
        if !first_format {
            journal.bytes = read_journal(&connection, &file, &mut ledger, &mut left)?;
        }
        for path in left.keys() {
            journal.changed.insert(path.clone(), ());
        }
        if let Some(noted) = noted
            && ledger.batch < noted
        {
            let note = Note::path(dir);
            return Err(OpenError::LostTail { file, note, noted, found: ledger.batch });
        }
        let tree;
        (tree, ledger.digest) = read_tree(&connection, &file, ledger, first_format, left, paths)?;
        sync_found(dir, &file)?;
        let note = Note::open(dir, ledger.batch)?;
        Ok(Self { file, connection, note, ledger, first_format, journal, tree, lock })
    }
}

/// The modification time of the latest of the files that each commit writes.
pub(super) fn last_written(dir: &Path) -> Option<std::time::SystemTime> {
    let file = dir.join(DATABASE);
    let files = [Note::path(dir), with_suffix(&file, "-wal"), file];
    files.iter().filter_map(|file| file.metadata().ok()?.modified().ok()).max()
}

/// Whether there is a database, or evidence of one.
pub(super) fn is_in(dir: &Path) -> bool {
    dir.join(DATABASE).exists() || Note::path(dir).exists()
}

/// The lock on the directory.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that is being started holds a copy of it for a moment.
        let _ = self.0.unlock();
    }
}

fn lock(dir: &Path) -> Result<Lock, OpenError> {
    let path = dir.join(LOCK);
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(|e| OpenError::io("opening", &path, e))?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { dir: dir.to_owned() }),
        Err(TryLockError::Error(e)) => Err(OpenError::io("locking", &path, e)),
    }
}

/// Makes sure that there is a database which SQLite may open without harm: ours, or a new one if there never was any.
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
        // It was ours once, if there is a note.
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

/// Creates the database under another name first, so that under its own name it is always complete.
fn create(dir: &Path, file: &Path, namespace: &Namespace) -> Result<(), OpenError> {
    let draft = with_suffix(file, ".new");
    let made = (|| {
        for suffix in ["", "-journal", "-wal", "-shm"] {
            match std::fs::remove_file(with_suffix(&draft, suffix)) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        // SQLite gives its other files the same mode.
        private::create(&draft)?;
        write_schema(&draft, namespace).map_err(std::io::Error::other)?;
        File::open(&draft)?.sync_all()?;
        std::fs::rename(&draft, file)
    })();
    made.map_err(|e| OpenError::io("making", file, e))?;
    sync_dir(dir)?;
    sync_way(dir)
}

/// Makes the names of the directories above a new store durable: their creator may not have done so, and a power loss
/// would take the store with them. Directories that were created along with it are on the same file system, and a
/// directory that we may not open was not created by us.
fn sync_way(dir: &Path) -> Result<(), OpenError> {
    use std::os::unix::fs::MetadataExt as _;
    let dir = dir.canonicalize().map_err(|e| OpenError::io("looking for", dir, e))?;
    let device = |path: &Path| path.metadata().map(|found| found.dev()).ok();
    let ours = device(&dir);
    for above in dir.ancestors().skip(1) {
        if device(above) != ours || File::open(above).is_err() {
            break;
        }
        sync_dir(above)?;
    }
    Ok(())
}

/// Makes what was found durable. The log of a killed process may still be in the page cache alone: callers act on what
/// they read from it, so a power loss must not revert it.
fn sync_found(dir: &Path, file: &Path) -> Result<(), OpenError> {
    let log = with_suffix(file, "-wal");
    match File::open(&log).and_then(|log| log.sync_all()) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(OpenError::io("syncing", &log, e)),
        _ => {}
    }
    sync_dir(dir)
}

fn write_schema(file: &Path, namespace: &Namespace) -> rusqlite::Result<()> {
    let connection = Connection::open(file)?;
    connection.pragma_update(None, "application_id", APPLICATION)?;
    connection.pragma_update(None, "user_version", FORMAT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.execute_batch(SCHEMA)?;
    connection.execute_batch(journal::SCHEMA)?;
    connection.execute("INSERT INTO ledger VALUES (1, ?1, 0, 0, 0, 0)", [namespace.as_str()])?;
    connection.close().map_err(|(_, e)| e)
}

/// Opens the file if it is ours; returns its format as well.
fn connect(file: &Path) -> Result<(Connection, i64), OpenError> {
    let damage = |e: rusqlite::Error| OpenError::damaged(file, e.to_string());
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags).map_err(damage)?;
    // SQLite must not make a checkpoint whose errors go unnoticed, nor remove a log that it could not read.
    connection
        .set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .map_err(damage)?;
    // Exclusive before the first access: then there is no shared-memory file, which fails badly on a full disk.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE").map_err(damage)?;
    let application: i64 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(damage)?;
    if application != APPLICATION {
        let reason = "another program's database".to_owned();
        return Err(OpenError::Foreign { file: file.to_owned(), reason });
    }
    let format: i64 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(damage)?;
    if ![FIRST_FORMAT, FORMAT].contains(&format) {
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
    connection.pragma_update(None, "cache_size", -8_192).map_err(damage)?;
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(damage)?;
    Ok((connection, format))
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
            Ok((row.get::<_, String>(0)?, read_numbers(row, 1)?))
        })
        .map_err(|e| OpenError::damaged(file, format!("its ledger cannot be read: {e}")))?;
    if found != namespace.as_str() {
        let asked = namespace.to_string();
        return Err(OpenError::Namespace { file: file.to_owned(), found, asked });
    }
    Ok(ledger)
}

/// Reads a ledger from the columns from `first` on.
fn read_numbers(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Ledger> {
    let number = |column| row.get(first + column).map(unsigned);
    let digest = Digest { rows: number(1)?, sum: number(2)? };
    Ok(Ledger { batch: number(0)?, digest, ceiling: Revision(number(3)?) })
}

/// Reads the journal: the states of the nodes that it changed, and what it says after its last entry. Returns its bytes.
fn read_journal(
    connection: &Connection,
    file: &Path,
    ledger: &mut Ledger,
    left: &mut Left,
) -> Result<usize, OpenError> {
    let damage = |e: rusqlite::Error| OpenError::damaged(file, format!("its journal cannot be read: {e}"));
    let mut bytes = 0;
    let mut select = connection
        .prepare("SELECT batch, rows, sum, ceiling, changes FROM journal ORDER BY batch")
        .map_err(damage)?;
    let mut rows = select.query([]).map_err(damage)?;
    while let Some(row) = rows.next().map_err(damage)? {
        *ledger = read_numbers(row, 0).map_err(damage)?;
        let entry = row.get_ref(4).map_err(damage)?.as_blob().map_err(|e| damage(e.into()))?;
        bytes += journal::size(entry);
        journal::decode(entry, left).map_err(|e| {
            OpenError::damaged(file, format!("entry {} of its journal cannot be read: {e}", ledger.batch))
        })?;
    }
    Ok(bytes)
}

/// Reads the tree: the rows, and over them the states that the journal left. Returns its digest as well, which a ledger
/// of the first format does not have.
fn read_tree(
    connection: &Connection,
    file: &Path,
    ledger: Ledger,
    first_format: bool,
    left: Left,
    paths: &Paths,
) -> Result<(Tree, Digest), OpenError> {
    let damage = |e: rusqlite::Error| OpenError::damaged(file, e.to_string());
    let mut tree = Tree::new(ledger.ceiling);
    for root in paths.roots() {
        tree.load_folder(&root);
    }
    let (mut digest, mut first_digest) = (Digest::default(), Digest::default());
    let hangs = |path: &str| OpenError::damaged(file, format!("node {path:?} hangs from nothing"));
    // A node that was deleted has no state.
    let mut load = |path: &NodePath, stat: Option<Stat>| {
        let Some(stat) = stat else { return Ok(()) };
        digest.change(path.as_str(), None, Some(&stat));
        if first_format {
            first_digest.add(first_format_hash(path.as_str(), &stat));
        }
        tree.load(path, stat).map_err(|_| hangs(path.as_str()))
    };
    let mut select = connection
        .prepare("SELECT path, data, version, created, modified FROM node ORDER BY path")
        .map_err(damage)?;
    let mut rows = select.query([]).map_err(damage)?;
    // Both are in the order of their paths, so that a node comes after its parent.
    let mut left = left.into_iter().peekable();
    while let Some(row) = rows.next().map_err(damage)? {
        let path: String = row.get(0).map_err(damage)?;
        let path = NodePath::stored(&path).ok_or_else(|| hangs(&path))?;
        while let Some((earlier, stat)) = left.next_if(|(next, _)| *next < path) {
            load(&earlier, stat)?;
        }
        let stat = match left.next_if(|(next, _)| *next == path) {
            Some((_, stat)) => stat,
            None => Some(read_stat(row).map_err(damage)?),
        };
        load(&path, stat)?;
    }
    for (path, stat) in left {
        load(&path, stat)?;
    }
    let found = if first_format { first_digest } else { digest };
    if found != ledger.digest {
        let (found, expected) = (found.rows, ledger.digest.rows);
        let reason =
            format!("its contents do not match their digest ({found} nodes found, {expected} expected)");
        return Err(OpenError::damaged(file, reason));
    }
    Ok((tree, digest))
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
