//! `--run-log`: a line for each run that begins and stops, in the form that `rosterd verify` reads, each in one write,
//! so that whatever was done before a kill is in the file. What a guard does once this process is gone, the guard says.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rosterd_client::Run;
use rosterd_domain::verify::{Line, What};

use rosterd_runtime::clock::{Clock as _, System};

/// Where lines go.
#[derive(Debug, Clone)]
pub(super) struct RunLog {
    path: PathBuf,
    /// This process; no other has this name.
    worker: String,
}

impl RunLog {
    /// Makes the file, or goes on in it.
    pub(super) fn open(path: &Path, address: &str) -> std::io::Result<Self> {
        append(path, b"")?;
        let path = std::path::absolute(path)?;
        let worker = format!("{address}.{}.{}", std::process::id(), boottime());
        Ok(Self { path, worker })
    }

    /// A run of this process whose report is on its way.
    pub(super) fn run(&self, run: &Run) -> RunLine {
        let fire = jiff::Timestamp::try_from(run.fire_time()).unwrap_or_default();
        let line = Line {
            at: 0,
            wall: 0,
            worker: self.worker.clone(),
            what: What::Start,
            job: run.job().to_owned(),
            item: run.item(),
            token: run.token(),
            fire: fire.as_millisecond(),
            source: run.source().to_string(),
            attempt: run.attempt(),
            instance: run.instance_id().to_owned(),
            lease: None,
            detail: String::new(),
        };
        RunLine { path: self.path.clone(), line }
    }
}

/// One run's lines.
#[derive(Debug, Clone)]
pub(super) struct RunLine {
    pub(super) path: PathBuf,
    line: Line,
}

impl RunLine {
    /// What the guard gets, to report for this process.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(&self.line).unwrap_or_default()
    }

    /// What [`Self::text`] gave.
    pub(super) fn parse(path: PathBuf, text: &str) -> Option<Self> {
        Some(Self { path, line: serde_json::from_str(text).ok()? })
    }

    /// The run is about to begin, under this lease.
    pub(super) fn start(&self, run: &Run) -> std::io::Result<()> {
        let lease = u64::try_from(run.lease_left().as_nanos()).unwrap_or(u64::MAX);
        self.write(What::Start, Some(lease), "")
    }

    /// It has stopped, or is told to. What cannot be written keeps nothing from ending.
    pub(super) fn say(&self, what: What, detail: &str) {
        if let Err(error) = self.write(what, None, detail) {
            tracing::warn!(path = %self.path.display(), %error, "a run's end cannot be written to the run log");
        }
    }

    fn write(&self, what: What, lease: Option<u64>, detail: &str) -> std::io::Result<()> {
        let wall = System.wall().0;
        let detail = detail.to_owned();
        let line = Line { at: boottime(), wall, what, lease, detail, ..self.line.clone() };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        append(&self.path, &text)
    }
}

fn append(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    File::options().create(true).append(true).open(path)?.write_all(bytes)
}

/// Nanoseconds of the clock that all processes of a machine share.
fn boottime() -> u64 {
    u64::try_from(System.mono().0.as_nanos()).unwrap_or(u64::MAX)
}
