//! The kinds of alarms, and what each of them takes.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What may be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlarmKind {
    /// No enabled worker is there for a job that is in service.
    NoWorker,
    /// A scheduled time has passed, and the item was neither run nor recorded as not run.
    NotStarted,
    /// Runs begin too long after their scheduled times.
    Late,
    /// An item's last runs failed, one after the other.
    Failed,
    /// Runs of a job crashed.
    Crashed,
    /// A fire is not finished at its time.
    NotFinished,
    /// Scheduled times were not run.
    Missed,
    /// The coordinator's clock is off: it fires nothing.
    ClockOff,
    /// The coordinator has lost its store: it fires nothing.
    StoreLost,
    /// The coordinator's certificate will be over soon.
    CertificateSoonOver,
}

/// What a kind takes of the fields of a rule, with their defaults; `None`: the field has no meaning for it.
#[derive(Debug, Clone, Copy)]
pub struct Takes {
    /// How long it must hold, or by how much.
    pub after: Option<Duration>,
    /// How often.
    pub times: Option<u64>,
    /// In what time.
    pub within: Option<Duration>,
    /// A time of the day.
    pub by: bool,
}

const fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

impl AlarmKind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::NoWorker,
        Self::NotStarted,
        Self::Late,
        Self::Failed,
        Self::Crashed,
        Self::NotFinished,
        Self::Missed,
        Self::ClockOff,
        Self::StoreLost,
        Self::CertificateSoonOver,
    ];

    /// As the configuration, the API and receivers have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoWorker => "no_worker",
            Self::NotStarted => "not_started",
            Self::Late => "late",
            Self::Failed => "failed",
            Self::Crashed => "crashed",
            Self::NotFinished => "not_finished",
            Self::Missed => "missed",
            Self::ClockOff => "clock_off",
            Self::StoreLost => "store_lost",
            Self::CertificateSoonOver => "certificate_soon_over",
        }
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether it is about jobs; else it is about the coordinator that raises it.
    pub fn of_jobs(self) -> bool {
        !matches!(self, Self::ClockOff | Self::StoreLost | Self::CertificateSoonOver)
    }

    /// What it takes, and the defaults.
    pub fn takes(self) -> Takes {
        let none = Takes { after: None, times: None, within: None, by: false };
        match self {
            Self::NoWorker => Takes { after: seconds(30), ..none },
            Self::NotStarted => Takes { after: seconds(60), ..none },
            Self::Late => Takes { after: seconds(10), times: Some(1), within: seconds(600), ..none },
            Self::Failed => Takes { times: Some(1), ..none },
            Self::Crashed => Takes { times: Some(3), within: seconds(3600), ..none },
            Self::NotFinished => Takes { after: seconds(6 * 3600), by: true, ..none },
            Self::Missed => Takes { times: Some(1), within: seconds(3600), ..none },
            Self::ClockOff | Self::StoreLost => Takes { after: seconds(10), ..none },
            Self::CertificateSoonOver => Takes { after: seconds(14 * 86_400), ..none },
        }
    }

    /// How bad it is unless a rule says otherwise.
    pub fn severity(self) -> Severity {
        match self {
            Self::NoWorker | Self::NotStarted | Self::ClockOff | Self::StoreLost => Severity::Critical,
            Self::Failed | Self::Crashed | Self::NotFinished | Self::Missed => Severity::Error,
            Self::Late | Self::CertificateSoonOver => Severity::Warning,
        }
    }
}

impl fmt::Display for AlarmKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How bad it is; the names are PagerDuty's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Severity {
    Info,
    Warning,
    Error,
    Critical,
}

impl Severity {
    /// All, the least first.
    pub const ALL: [Self; 4] = [Self::Info, Self::Warning, Self::Error, Self::Critical];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
