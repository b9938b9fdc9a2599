//! The note beside the database: which batch was acknowledged last.
//!
//! SQLite takes a damaged or missing write-ahead log for one that ends earlier, and continues without the rest:
//! acknowledged writes would be lost and nobody would know. The note is written after each sync and before the answers,
//! without a sync of its own. So it survives a kill, and after a power loss it can only be older than the database,
//! which is harmless.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rosterd_runtime::private;

use super::error::OpenError;

const NAME: &str = "registry.note";
const TITLE: &str = "rosterd registry, last acknowledged batch ";

/// The open note.
#[derive(Debug)]
pub(super) struct Note {
    file: File,
    warned: bool,
}

impl Note {
    pub(super) fn path(dir: &Path) -> PathBuf {
        dir.join(NAME)
    }

    /// The batch that the note names; `None`: there is no note.
    pub(super) fn read(dir: &Path) -> Result<Option<u64>, OpenError> {
        let path = Self::path(dir);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(OpenError::io("reading", &path, e)),
        };
        let parsed = std::str::from_utf8(&text).ok().and_then(|text| {
            let (batch, complement) = text.strip_prefix(TITLE)?.trim_end().split_once(" ~")?;
            let (batch, complement): (u64, u64) = (batch.parse().ok()?, complement.parse().ok()?);
            (batch == !complement).then_some(batch)
        });
        parsed.map(Some).ok_or_else(|| {
            OpenError::damaged(&path, "it does not name a batch (if the database is sound, delete this file)")
        })
    }

    /// Opens the note, or creates it durably.
    pub(super) fn open(dir: &Path, batch: u64) -> Result<Self, OpenError> {
        let path = Self::path(dir);
        if !path.exists() {
            let draft = path.with_extension("note.new");
            write_new(&draft, batch).map_err(|e| OpenError::io("writing", &draft, e))?;
            std::fs::rename(&draft, &path).map_err(|e| OpenError::io("naming", &path, e))?;
            sync_dir(dir)?;
        }
        let file =
            OpenOptions::new().write(true).open(&path).map_err(|e| OpenError::io("opening", &path, e))?;
        Ok(Self { file, warned: false })
    }

    /// Overwrites the note in place. A failure only weakens a check, so it is logged once.
    pub(super) fn write(&mut self, batch: u64) {
        if let Err(error) = self.file.write_all_at(text(batch).as_bytes(), 0)
            && !std::mem::replace(&mut self.warned, true)
        {
            tracing::warn!(%error, "the note beside the store's database cannot be written: a lost write-ahead log would not be noticed");
        }
    }
}

fn text(batch: u64) -> String {
    format!("{TITLE}{batch:020} ~{:020}\n", !batch)
}

fn write_new(path: &Path, batch: u64) -> std::io::Result<()> {
    // Left by a crash, or put there by somebody else: never write through it.
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = private::create(path)?;
    file.write_all(text(batch).as_bytes())?;
    file.sync_all()
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(dir: &Path) -> Result<(), OpenError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|e| OpenError::io("syncing", dir, e))
}
