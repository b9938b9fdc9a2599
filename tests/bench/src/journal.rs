//! The workers' journal of their runs, line by line as events happen, and its judgment: the promises are judged from
//! these lines alone.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rosterd_client::Run;
use rosterd_domain::verify::{self, Line, Verdict, What};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

use crate::Result;
use crate::machine::wall;
use crate::server::scratch;

/// The first word of a line's detail when a worker logs its coordinator.
pub(crate) const ATTACHED: &str = "attached";

/// Nanoseconds of the clock that all processes share.
pub(crate) fn boot() -> u64 {
    let at: Duration = clock_gettime(ClockId::Boottime).try_into().unwrap_or_default();
    u64::try_from(at.as_nanos()).unwrap_or(u64::MAX)
}

/// A file of lines. Each is written immediately, so that everything before a kill is there.
#[derive(Debug)]
pub(crate) struct Journal {
    name: String,
    file: File,
}

impl Journal {
    pub(crate) fn open(path: &Path, name: &str) -> Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { name: name.to_owned(), file })
    }

    pub(crate) fn write(&self, what: What, run: Option<&Run>, detail: &str) {
        let line = Line {
            at: boot(),
            wall: wall() / 1000,
            worker: self.name.clone(),
            what,
            job: run.map(|run| run.job().to_owned()).unwrap_or_default(),
            item: run.map(Run::item).unwrap_or_default(),
            token: run.map(Run::token).unwrap_or_default(),
            fire: run.map(fire).unwrap_or_default(),
            source: run.map(|run| run.source().to_string()).unwrap_or_default(),
            attempt: run.map(Run::attempt).unwrap_or_default(),
            instance: run.map(|run| run.instance_id().to_owned()).unwrap_or_default(),
            lease: run.map(|run| u64::try_from(run.lease_left().as_nanos()).unwrap_or(u64::MAX)),
            detail: detail.to_owned(),
        };
        let written = serde_json::to_vec(&line).map_err(std::io::Error::other).and_then(|mut text| {
            text.push(b'\n');
            (&self.file).write_all(&text)
        });
        if let Err(error) = written {
            // A missing line would falsify the judgment.
            eprintln!("{}: the journal cannot be written: {error}", self.name);
            std::process::exit(4);
        }
    }
}

fn fire(run: &Run) -> i64 {
    let since = run.fire_time().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The journals of a run, read as they grow.
pub(crate) struct Reading {
    folder: TempDir,
    /// How far each was read.
    read: BTreeMap<PathBuf, usize>,
    /// The lines so far, in order of time, except for lines of the same moment.
    pub(crate) lines: Vec<Line>,
}

impl Reading {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { folder: scratch()?, read: BTreeMap::new(), lines: Vec::new() })
    }

    /// The journal of a worker with this name.
    pub(crate) fn of(&mut self, worker: &str) -> (String, String) {
        let path = self.folder.path().join(format!("{worker}.jsonl"));
        self.read.insert(path.clone(), 0);
        (path.display().to_string(), worker.to_owned())
    }

    /// Logs an action on a worker.
    pub(crate) fn note(&mut self, worker: &str, what: What) -> Result {
        let (path, _) = self.of(&format!("{worker}-was"));
        Journal::open(path.as_ref(), worker)?.write(what, None, "");
        Ok(())
    }

    /// Reads new lines. A partial line is ignored.
    pub(crate) fn poll(&mut self) -> Result {
        let before = self.lines.len();
        for (path, read) in &mut self.read {
            let Ok(mut file) = File::open(path) else { continue };
            file.seek(SeekFrom::Start(*read as u64))?;
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            text.truncate(whole);
            *read += whole;
            self.lines.extend(verify::read(&text));
        }
        self.lines[before..].sort_by_key(|line| line.at);
        Ok(())
    }

    /// The lines about starts of user code.
    pub(crate) fn starts(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.what == What::Start)
    }
}

/// Judges. On a real machine it is unknown how long a process takes to notice that it resumed.
pub(crate) fn judge(lines: &[Line]) -> Verdict {
    verify::judge(lines, u64::MAX)
}

/// Prints the broken promises. Returns how many.
pub(crate) fn broken(verdict: &Verdict) -> usize {
    for fault in verdict.faults.iter().take(10) {
        println!("  BROKEN {fault}");
    }
    verdict.faults.len()
}

/// The coordinator that accepted a worker, if the line has it.
pub(crate) fn attached(line: &Line) -> Option<(&str, &str)> {
    let words: Vec<&str> = line.detail.split(' ').collect();
    match words.as_slice() {
        [ATTACHED, address, instance] if line.what == What::Hook => Some((address, instance)),
        _ => None,
    }
}
