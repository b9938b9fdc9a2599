//! The lines, and their parser.

use serde::{Deserialize, Serialize};

/// What a line reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// User code of a run starts.
    Start,
    /// User code is alive.
    Tick,
    /// User code was told to stop; it may continue for a while.
    Told,
    /// User code returned; `detail` says how.
    End,
    /// User code was told to stop, and did.
    Cancel,
    /// User code was dropped.
    Drop,
    /// The process was killed: written by its killer, after it was gone.
    Killed,
    /// The process was frozen: written by whatever froze it, after it stood still.
    Frozen,
    /// The process is resumed: written by whatever resumes it, before that.
    Thawed,
    /// A hook or callback was called; `detail` says which.
    #[serde(alias = "callback")]
    Hook,
    /// The worker process ended by itself; `detail` says how.
    Exit,
    /// The run's coordinator recorded the outcome, which `detail` names. Not written by workers.
    Settled,
    /// The run is over, and it is not known how it ended. Not written by workers.
    Lost,
    /// The item was scheduled for `fire`: it must have a result. Not written by workers.
    Scheduled,
    /// The item was not run for `fire` itself; `detail` names the result. Not written by workers.
    NotRun,
}

impl What {
    /// Its name in a line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Tick => "tick",
            Self::Told => "told",
            Self::End => "end",
            Self::Cancel => "cancel",
            Self::Drop => "drop",
            Self::Killed => "killed",
            Self::Frozen => "frozen",
            Self::Thawed => "thawed",
            Self::Hook => "hook",
            Self::Exit => "exit",
            Self::Settled => "settled",
            Self::Lost => "lost",
            Self::Scheduled => "scheduled",
            Self::NotRun => "not_run",
        }
    }

    /// Whether it is about a process, and so about all its runs.
    pub fn is_about_a_process(self) -> bool {
        matches!(self, Self::Killed | Self::Frozen | Self::Thawed | Self::Exit)
    }
}

/// One line of a worker's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Nanoseconds of the clock that all writers share.
    pub at: u64,
    /// Milliseconds since 1970, for people.
    #[serde(default)]
    pub wall: i64,
    /// The worker process; no two have the same name.
    pub worker: String,
    /// What happened.
    pub what: What,
    /// The run's job; empty if the line is about the process.
    #[serde(default)]
    pub job: String,
    /// The run's item.
    #[serde(default)]
    pub item: u32,
    /// The run's token.
    #[serde(default)]
    pub token: u64,
    /// The run's scheduled time, milliseconds since 1970.
    #[serde(default)]
    pub fire: i64,
    /// NORMAL_TRIGGER, MISFIRE, FAILOVER or MANUAL.
    #[serde(default)]
    pub source: String,
    /// The run's attempt, from 1.
    #[serde(default)]
    pub attempt: u32,
    /// The instance that runs it.
    #[serde(default)]
    pub instance: String,
    /// How many nanoseconds the worker's lease lasts from here unless it is renewed; `None`: not stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<u64>,
    /// Details, as text.
    #[serde(default)]
    pub detail: String,
}

/// A line that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Its number, from 1.
    pub line: usize,
    /// Why.
    pub why: String,
}

/// Parses a log of JSON lines; malformed ones are skipped, as the last line of a killed process may be.
pub fn read(text: &str) -> Vec<Line> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Parses a log strictly, except for blank lines and the torn end of a killed process: each line with its
/// number, counted from 1. A judge that skips what it cannot read would miss violations.
pub fn read_all(text: &str) -> Result<Vec<(usize, Line)>, Unreadable> {
    let mut lines = Vec::new();
    for (n, piece) in text.split_inclusive('\n').enumerate() {
        if piece.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(piece) {
            Ok(line) => lines.push((n + 1, line)),
            // Only the last piece has no line break.
            Err(_) if !piece.ends_with('\n') => {}
            Err(error) => return Err(Unreadable { line: n + 1, why: error.to_string() }),
        }
    }
    Ok(lines)
}
