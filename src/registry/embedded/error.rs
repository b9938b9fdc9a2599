//! Why the store cannot be opened, and what to do about it.

use std::path::{Path, PathBuf};

/// Why an embedded registry cannot be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The operating system refused something.
    #[error(
        "{action} {} failed: {source}; check that the directory exists, is writable by this user and has space",
        path.display()
    )]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The directory cannot be created, or others than its owner have access to it.
    #[error("data_dir {} cannot be used: {source}", dir.display())]
    Shared {
        /// The directory.
        dir: PathBuf,
        /// Why not, and what to do.
        source: std::io::Error,
    },
    /// Another process serves the directory.
    #[error(
        "{} is in use by another rosterd process; stop that one, or give this one a data directory of its own",
        dir.display()
    )]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// The database file is missing although there was one.
    #[error(
        "{} is missing, but {} says that a store was here; put the file back from a backup, or, to \
         start with an empty store, move the whole directory away",
        database.display(), evidence.display()
    )]
    Missing {
        /// The missing file.
        database: PathBuf,
        /// The file that shows that there was a database.
        evidence: PathBuf,
    },
    /// The file belongs to another program.
    #[error(
        "{} is not a store of rosterd ({reason}); check the data directory's path, and move the file away if \
         it does not belong there",
        file.display()
    )]
    Foreign {
        /// The file.
        file: PathBuf,
        /// How we can tell.
        reason: String,
    },
    /// Written by a later version.
    #[error(
        "{} has format {found}, this version of rosterd reads formats up to {known}; run the version that wrote it, or \
         a later one",
        file.display()
    )]
    Format {
        /// The file.
        file: PathBuf,
        /// Its format.
        found: i64,
        /// The latest format that this version knows.
        known: i64,
    },
    /// Another namespace's registry.
    #[error(
        "{} holds the store of namespace {found}, not of {asked}; set the namespace to {found}, or use \
         another data directory",
        file.display()
    )]
    Namespace {
        /// The file.
        file: PathBuf,
        /// The namespace that it belongs to.
        found: String,
        /// The namespace that was asked for.
        asked: String,
    },
    /// The file does not hold what was written.
    #[error(
        "{} is damaged: {reason}; check the disk, then restore the whole directory from a backup. Nothing was \
         changed",
        file.display()
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The latest changes are missing.
    #[error(
        "{} has lost its latest changes: {noted} batches were acknowledged, {found} are there; put {}-wal back \
         next to it, or restore the whole directory from a backup. To go on without the lost changes, delete {}",
        file.display(), file.display(), note.display()
    )]
    LostTail {
        /// The database.
        file: PathBuf,
        /// The file that records which batch was acknowledged last.
        note: PathBuf,
        /// The last acknowledged batch.
        noted: u64,
        /// The last batch found.
        found: u64,
    },
}

impl OpenError {
    pub(super) fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    pub(super) fn damaged(file: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { file: file.to_owned(), reason: reason.into() }
    }
}
