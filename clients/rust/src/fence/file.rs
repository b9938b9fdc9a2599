//! Files: each run writes its own name, which ends in its token; readers use the highest token. A run that resumes
//! after another has taken its place can only create a name that is no longer read. No lock is needed, so a process
//! that dies leaves none behind, and a sleeping one does not appear to hold one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::{FenceError, Guard};

/// 63 bits have 19 digits: names of one length sort as their tokens do.
const DIGITS: usize = 19;

/// One file that runs of an item write as a whole: `PATH.0000000000000000005` and so on. Its calls block.
#[derive(Debug, Clone)]
pub struct FencedFile {
    path: PathBuf,
}

impl FencedFile {
    /// The file at `path`, whose folder exists.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Writes it, unless a run with a higher token has. Older content is removed. Readers see the old content or the new.
    pub fn write<'r>(&self, content: &[u8], run: impl Into<Guard<'r>>) -> Result<(), FenceError<io::Error>> {
        let run = run.into();
        self.judge(&run)?;
        let own = self.named(run.token);
        let mut unfinished = own.clone().into_os_string();
        unfinished.push(".new");
        let written =
            write_durably(Path::new(&unfinished), content).and_then(|()| fs::rename(&unfinished, &own));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written.and_then(|()| sync_folder(self.folder())).map_err(FenceError::Store)?;
        // A newer run may have written meanwhile: then readers ignore ours.
        self.judge(&run)?;
        for token in self.tokens().map_err(FenceError::Store)?.into_iter().filter(|token| *token < run.token)
        {
            let _ = fs::remove_file(self.named(token));
        }
        Ok(())
    }

    /// The path of the current content; None: none was written. A newer write may remove it.
    pub fn current(&self) -> io::Result<Option<PathBuf>> {
        Ok(self.tokens()?.last().map(|token| self.named(*token)))
    }

    /// The current content; None: none was written.
    pub fn read(&self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let Some(path) = self.current()? else { return Ok(None) };
            match fs::read(path) {
                // It was replaced between the two steps: there is a newer one.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                read => return read.map(Some),
            }
        }
    }

    fn judge(&self, run: &Guard<'_>) -> Result<(), FenceError<io::Error>> {
        let seen = self.tokens().map_err(FenceError::Store)?.last().copied();
        Ok(run.judge(format!("file {}", self.path.display()), seen)?)
    }

    /// Ascending.
    fn tokens(&self) -> io::Result<Vec<u64>> {
        let mut prefix = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        prefix.push('.');
        let mut tokens = Vec::new();
        for entry in fs::read_dir(self.folder())? {
            let name = entry?.file_name();
            let ending = name.to_str().and_then(|name| name.strip_prefix(&prefix)).unwrap_or_default();
            if ending.len() == DIGITS && ending.bytes().all(|digit| digit.is_ascii_digit()) {
                tokens.extend(ending.parse::<u64>());
            }
        }
        tokens.sort_unstable();
        Ok(tokens)
    }

    fn folder(&self) -> &Path {
        self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    fn named(&self, token: u64) -> PathBuf {
        let mut name: OsString = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{token:0DIGITS$}"));
        self.folder().join(name)
    }
}

fn write_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(windows) {
        // Windows cannot sync a folder, and writes a rename through by itself.
        return Ok(());
    }
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Guard<'_> = Guard { job: "hello", item: 0, token: 999_999_999_999_999 };
    const OLD: Guard<'_> = Guard { token: 9_007_199_254_740_993, ..SHORT };
    const NEW: Guard<'_> = Guard { token: 9_007_199_254_740_994, ..SHORT };

    #[test]
    fn what_a_newer_run_has_written_is_what_is_read_and_an_older_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = FencedFile::new(folder.path().join("report.csv"));
        assert_eq!(file.read().unwrap(), None);
        for (content, run) in [("short", SHORT), ("old", OLD), ("new", NEW)] {
            file.write(content.as_bytes(), run).unwrap();
        }
        let refused = file.write(b"late", OLD).unwrap_err();
        assert!(refused.is_fenced(), "{refused}");
        assert_eq!(file.read().unwrap().as_deref(), Some(b"new".as_slice()));
        let names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["report.csv.0009007199254740994"]);
        file.write(b"new again", NEW).unwrap();
        assert_eq!(file.read().unwrap().as_deref(), Some(b"new again".as_slice()));
    }

    #[test]
    fn a_run_that_wakes_with_its_rename_still_to_come_makes_a_name_that_nobody_reads() {
        let folder = tempfile::tempdir().unwrap();
        let file = FencedFile::new(folder.path().join("report.csv"));
        file.write(b"new", NEW).unwrap();
        // As if it had slept: it has passed all its checks.
        fs::write(folder.path().join("report.csv.0009007199254740993"), "late").unwrap();
        fs::write(folder.path().join("report.csv.bak"), "none of ours").unwrap();
        assert_eq!(file.read().unwrap().as_deref(), Some(b"new".as_slice()));
    }
}
