//! The lines, and how they are read.

use serde::{Deserialize, Serialize};

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// User code of a run begins.
    Start,
    /// User code is alive.
    Tick,
    /// User code was told to stop; it may go on for a while.
    Told,
    /// User code returned; `detail` says how.
    End,
    /// User code was told to stop, and did.
    Cancel,
    /// User code was dropped.
    Drop,
    /// The process was killed: written by whoever killed it, once it was gone.
    Killed,
    /// The process was frozen: written by whoever did it, once it stood still.
    Frozen,
    /// The process goes on: written by whoever lets it, before it does.
    Thawed,
    /// A hook or callback was called; `detail` says which.
    #[serde(alias = "callback")]
    Hook,
    /// The worker process ended by itself; `detail` says how.
    Exit,
    /// The run's outcome was written down by its coordinator; `detail` names it. Not a worker's to write.
    Settled,
    /// The run is over, and nobody knows how it ended. Not a worker's to write.
    Lost,
    /// The item was scheduled for `fire`: it must have a result. Not a worker's to write.
    Scheduled,
    /// The item was not run for `fire` itself; `detail` names the result. Not a worker's to write.
    NotRun,
}

impl What {
    /// The word for it in a line.
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

    /// It is about a process, and so about all its runs.
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
    /// The worker process; never the same name for two.
    pub worker: String,
    /// What happened.
    pub what: What,
    /// The run's job; empty where the line is about the process.
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
    /// For how many nanoseconds the worker is believed if it is not heard again; none: it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<u64>,
    /// More, in words.
    #[serde(default)]
    pub detail: String,
}

/// A line that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Which, from 1.
    pub line: usize,
    /// Why.
    pub why: String,
}

/// Reads a log of JSON lines; what is none is passed over, as the last line of a killed process may be.
pub fn read(text: &str) -> Vec<Line> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Reads a log of which nothing may be passed over but blank lines and the torn end of a killed process: each line with
/// its number, from 1. A judge who passes over what it cannot read calls too much clean.
pub fn read_all(text: &str) -> Result<Vec<(usize, Line)>, Unreadable> {
    let mut lines = Vec::new();
    for (n, piece) in text.split_inclusive('\n').enumerate() {
        if piece.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(piece) {
            Ok(line) => lines.push((n + 1, line)),
            // Only the last piece has no end.
            Err(_) if !piece.ends_with('\n') => {}
            Err(error) => return Err(Unreadable { line: n + 1, why: error.to_string() }),
        }
    }
    Ok(lines)
}
