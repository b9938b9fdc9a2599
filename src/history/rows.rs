//! The rows of the history as callers pass and get them, with the names that the file uses.

use std::fmt;

use rosterd_domain::id::{InstanceId, Item, JobName, Token, TriggerId, WorkerId};
use rosterd_domain::item::{Counters, Missed, Outcome, Source};
use rosterd_domain::plan::FireResult;
use rosterd_domain::time::Time;

/// Details of a worker's report besides the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Detail {
    /// What went wrong; cut to [`MAX_ERROR`](super::MAX_ERROR).
    pub error: String,
    /// A result, or the tail of a program's output; cut to [`MAX_OUTPUT`](super::MAX_OUTPUT).
    pub output: String,
    /// Records processed.
    pub processed: u64,
    /// Records that failed.
    pub failed: u64,
    /// Attempts it took.
    pub attempt: u32,
    /// When user code started, by the worker's clock.
    pub started_at: Option<Time>,
    /// When it ended, by the worker's clock.
    pub ended_at: Option<Time>,
}

/// The state of a run, with Elastic-Job's names for people and tools that know them.
///
/// Elastic-Job-Lite itself writes TASK_RUNNING, TASK_FINISHED and TASK_ERROR for each fire; here they mean the same for
/// each run. The others are also its names, with the nearest meaning. Its TASK_STAGING is the start of a fire before
/// its items are called; here, a recorded run whose user code is not known to have started. TASK_DROPPED, TASK_GONE and
/// the like are from Mesos.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunState {
    /// It was assigned to an instance, and its user code is not known to have started.
    Staging,
    /// Its user code has started, and no end of it is known.
    Running,
    /// Succeeded.
    Finished,
    /// Failed, after its last attempt.
    Error,
    /// Timed out.
    Failed,
    /// Cancelled, or handed back by a worker that had to shut down.
    Killed,
    /// Crashed: its worker was marked dead, aborted it, or never started it.
    Lost,
    /// It is over, since a later run of its item has started, but the history never saw its end.
    Unknown,
}

impl RunState {
    /// All states.
    pub const ALL: [Self; 8] = [
        Self::Staging,
        Self::Running,
        Self::Finished,
        Self::Error,
        Self::Failed,
        Self::Killed,
        Self::Lost,
        Self::Unknown,
    ];

    /// Elastic-Job's name for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Staging => "TASK_STAGING",
            Self::Running => "TASK_RUNNING",
            Self::Finished => "TASK_FINISHED",
            Self::Error => "TASK_ERROR",
            Self::Failed => "TASK_FAILED",
            Self::Killed => "TASK_KILLED",
            Self::Lost => "TASK_LOST",
            Self::Unknown => "TASK_UNKNOWN",
        }
    }

    /// How the run ended, if that is known.
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            Self::Finished => Some(Outcome::Succeeded),
            Self::Error => Some(Outcome::Failed),
            Self::Failed => Some(Outcome::TimedOut),
            Self::Killed => Some(Outcome::Cancelled),
            Self::Lost => Some(Outcome::Crashed),
            Self::Staging | Self::Running | Self::Unknown => None,
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

impl From<Outcome> for RunState {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Finished,
            Outcome::Failed => Self::Error,
            Outcome::TimedOut => Self::Failed,
            Outcome::Cancelled => Self::Killed,
            Outcome::Crashed => Self::Lost,
        }
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The counts of a job within an interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// The job.
    pub job: JobName,
    /// The interval's beginning.
    pub from: Time,
    /// Runs and scheduled times.
    pub counters: Counters,
    /// Records processed by the runs that ended in the interval.
    pub processed: u64,
    /// Records that failed in them.
    pub records_failed: u64,
}

/// Runs of one state, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recent {
    /// The state.
    pub state: RunState,
    /// How many.
    pub runs: u64,
    /// Records that they processed.
    pub processed: u64,
    /// Records that failed.
    pub failed: u64,
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// Items were assigned to instances.
    Assigned,
    /// A worker joined, left or was marked dead.
    Worker,
    /// A job was created, changed, paused, resumed or removed.
    Job,
    /// A person's action: the audit.
    Operation,
    /// The coordinator itself: started, stopped, leads, lost the store.
    Coordinator,
    /// A run crashed, or was run again as failover.
    Run,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Assigned, Self::Worker, Self::Job, Self::Operation, Self::Coordinator, Self::Run];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Assigned => "assigned",
            Self::Worker => "worker",
            Self::Job => "job",
            Self::Operation => "operation",
            Self::Coordinator => "coordinator",
            Self::Run => "run",
        }
    }

    /// Whether it belongs to the audit: those rows have a table, a limit and room in the queue of their own.
    pub fn is_audit(self) -> bool {
        matches!(self, Self::Job | Self::Operation)
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// One run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// Its job.
    pub job: JobName,
    /// Its item.
    pub item: Item,
    /// Its token.
    pub token: Token,
    /// Its scheduled time, or the trigger's time.
    pub fire: Time,
    /// Why it existed.
    pub source: Source,
    /// The instance that ran it.
    pub instance: InstanceId,
    /// That instance's worker.
    pub worker: WorkerId,
    /// The trigger, of a manual run.
    pub trigger: Option<TriggerId>,
    /// Its state; the outcome is [`RunState::outcome`].
    pub state: RunState,
    /// It was put up for failover.
    pub requeued: bool,
    /// When its start was decided: determines the order of pages and the age of the row.
    pub since: Time,
    /// When user code started, by the worker's clock.
    pub started: Option<Time>,
    /// When it ended: by the worker's clock if reported, else when the end was decided.
    pub ended: Option<Time>,
    /// What went wrong.
    pub error: String,
    /// A result, or the tail of a program's output.
    pub output: String,
    /// Records processed.
    pub processed: u64,
    /// Records that failed.
    pub failed: u64,
    /// Attempts it took; 0: not reported.
    pub attempt: u32,
}

/// Consecutive scheduled times of one item that had no run of their own, for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRunRow {
    /// The job.
    pub job: JobName,
    /// The item.
    pub item: Item,
    /// The first of them.
    pub first: Time,
    /// The last of them.
    pub latest: Time,
    /// How many.
    pub count: u64,
    /// Their result, and the reason.
    pub result: FireResult,
    /// When that was last written.
    pub recorded: Time,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// When.
    pub at: Time,
    /// The job that it is about, if it is about one.
    pub job: Option<JobName>,
    /// Its kind.
    pub kind: EventKind,
    /// What happened, for people.
    pub text: String,
    /// The principal that caused it.
    pub principal: Option<String>,
}

/// A filter of runs; a `None` matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunFilter {
    /// Of this job.
    pub job: Option<JobName>,
    /// Of this item.
    pub item: Option<Item>,
    /// With this token; needs job and item, without which nothing is found.
    pub token: Option<Token>,
    /// In this state; an [`Outcome`] can be converted.
    pub state: Option<RunState>,
    /// By this instance.
    pub instance: Option<InstanceId>,
    /// Started (by decision) at this time or later.
    pub from: Option<Time>,
    /// Started (by decision) before this time.
    pub to: Option<Time>,
}

/// Recent activity, over all jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pulse {
    /// Runs whose start was decided since then.
    pub runs: u64,
    /// Delays from the scheduled time to the start of user code by the workers' clocks, in milliseconds, ascending; of
    /// the latest runs.
    pub lags: Vec<u64>,
    /// Scheduled times that were missed, by job and reason.
    pub missed: Vec<MissedRow>,
}

/// Scheduled times of a job that were missed for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissedRow {
    /// The job.
    pub job: JobName,
    /// Why.
    pub reason: Missed,
    /// How many, over all its items.
    pub count: u64,
    /// The last of them.
    pub latest: Time,
}

/// The ownership of an item by one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerRow {
    /// The item.
    pub item: Item,
    /// Its owner.
    pub instance: InstanceId,
    /// The generation of the assignment that began it.
    pub generation: u64,
    /// Since when.
    pub from: Time,
    /// Until when; `None`: it still is the owner.
    pub to: Option<Time>,
    /// Why the instance got it.
    pub reason: String,
    /// Why the instance lost it; empty: it still is the owner.
    pub end_reason: String,
}

/// A filter of a job's ownership rows; a `None` matches everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerFilter {
    /// Of this job.
    pub job: JobName,
    /// Of this item.
    pub item: Option<Item>,
    /// Owned at this time or later.
    pub from: Option<Time>,
    /// Owned before this time.
    pub to: Option<Time>,
}

/// A filter of events; a `None` matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventFilter {
    /// About this job.
    pub job: Option<JobName>,
    /// Of this kind.
    pub kind: Option<EventKind>,
    /// Done by this principal.
    pub principal: Option<String>,
    /// At this time or later.
    pub from: Option<Time>,
    /// Before this time.
    pub to: Option<Time>,
}

/// A page of a list, newest first. It may hold fewer rows than asked for although more follow (long texts): only the
/// answer's next token tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// At most this many rows; 0, and anything over [`MAX_PAGE`](super::MAX_PAGE), means that maximum.
    pub size: usize,
    /// The last answer's token, to continue there; `None`: start with the newest.
    pub token: Option<String>,
}

/// The names of a result and of its reason: two columns.
pub(super) fn result_names(result: FireResult) -> (&'static str, &'static str) {
    match result {
        FireResult::Misfired => ("misfired", ""),
        FireResult::Skipped => ("skipped", ""),
        FireResult::Missed(reason) => ("missed", reason.as_str()),
    }
}

/// The inverse of [`result_names`].
pub(super) fn result_named(result: &str, reason: &str) -> Option<FireResult> {
    match result {
        "misfired" => Some(FireResult::Misfired),
        "skipped" => Some(FireResult::Skipped),
        "missed" => missed_named(reason).map(FireResult::Missed),
        _ => None,
    }
}

pub(super) fn missed_named(name: &str) -> Option<Missed> {
    Missed::ALL.into_iter().find(|missed| missed.as_str() == name)
}

pub(super) fn source_named(name: &str) -> Option<Source> {
    Source::ALL.into_iter().find(|source| source.as_str() == name)
}

/// Cuts a text to at most `max` bytes, between characters, and marks the cut at its end.
pub(super) fn cut(text: &mut String, max: usize) {
    const MARK: &str = "… (cut)";
    if text.len() > max {
        let mut end = max.saturating_sub(MARK.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(MARK);
    }
}
