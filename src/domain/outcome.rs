//! Why a run exists, how it ended, and why a fire had none: the vocabulary of records, counters and the history.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a run exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Source {
    /// A scheduled time of the schedule.
    NormalTrigger,
    /// Scheduled times that were skipped while the item was busy, merged.
    Misfire,
    /// A crashed run that is run again.
    Failover,
    /// A manual trigger.
    Manual,
}

impl Source {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::NormalTrigger, Self::Misfire, Self::Failover, Self::Manual];

    /// The name that user code and tools see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NormalTrigger => "NORMAL_TRIGGER",
            Self::Misfire => "MISFIRE",
            Self::Failover => "FAILOVER",
            Self::Manual => "MANUAL",
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The handler returned.
    Succeeded,
    /// The handler failed, after its last attempt.
    Failed,
    /// Stopped on request, or handed back by a worker that had to shut down.
    Cancelled,
    /// Its worker was marked dead, or reported the run as aborted or not started.
    Crashed,
    /// It took longer than its timeout.
    TimedOut,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Succeeded, Self::Failed, Self::Cancelled, Self::Crashed, Self::TimedOut];

    /// The name that tools see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Crashed => "crashed",
            Self::TimedOut => "timed_out",
        }
    }
}

/// Why a fire was not run for an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// No coordinator was up.
    Down,
    /// No enabled worker owned the item.
    NoWorker,
    /// The owner's slots were all taken.
    NoSlot,
    /// Found due too late.
    TooLate,
    /// The coordinator's clock could not be trusted.
    Clock,
    /// The job was paused.
    Paused,
    /// The job or the item was disabled.
    Disabled,
}

impl Missed {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Down, Self::NoWorker, Self::NoSlot, Self::TooLate, Self::Clock, Self::Paused, Self::Disabled];

    /// The name that tools see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::NoWorker => "no_worker",
            Self::NoSlot => "no_slot",
            Self::TooLate => "too_late",
            Self::Clock => "clock",
            Self::Paused => "paused",
            Self::Disabled => "disabled",
        }
    }

    /// A sentence for people.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Down => "No coordinator was up.",
            Self::NoWorker => "No enabled worker owned the item.",
            Self::NoSlot => "All slots of the item's owner were taken until the next scheduled time.",
            Self::TooLate => "It was found too long after its time.",
            Self::Clock => "The coordinator's clock could not be trusted.",
            Self::Paused => "The job was paused.",
            Self::Disabled => "The job or the item was disabled.",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
