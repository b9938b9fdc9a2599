//! The rows of the history as callers give and get them, with the names that the file holds.

use std::fmt;

use rosterd_domain::id::{InstanceId, Item, JobName, Token, TriggerId, WorkerId};
use rosterd_domain::item::{Counters, Missed, Outcome, Source};
use rosterd_domain::plan::FireResult;
use rosterd_domain::time::Time;

/// What a worker's report tells besides the outcome.
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
    /// When user code began, by the worker's clock.
    pub started_at: Option<Time>,
    /// When it ended, by the worker's clock.
    pub ended_at: Option<Time>,
}

/// The state of a run, with Elastic-Job's names for people and tools that know them.
///
/// Elastic-Job-Lite itself writes TASK_RUNNING, TASK_FINISHED and TASK_ERROR of each fire, which mean the same here of
/// each run; the others are its names too, given the meaning that is nearest. Its TASK_STAGING is the beginning of a fire
/// before its items are called; here, of a run that is written down and whose user code is not known to have begun.
/// TASK_DROPPED, TASK_GONE and the like are Mesos's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunState {
    /// It was given to an instance, and its user code is not known to have begun.
    Staging,
    /// Its user code began, and no end of it is known.
    Running,
    /// Succeeded.
    Finished,
    /// Failed, after its last attempt.
    Error,
    /// Timed out.
    Failed,
    /// Cancelled, or handed back by a worker that had to leave.
    Killed,
    /// Crashed: its worker was marked dead, or aborted it, or never began.
    Lost,
    /// It is over, since a later run of its item began, but the history never saw its end.
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

    /// Elastic-Job's name of it.
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

    /// How the run ended, if it is known to have.
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

/// What was counted of a job within an interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// The job.
    pub job: JobName,
    /// The interval's beginning.
    pub from: Time,
    /// Runs and scheduled times.
    pub counters: Counters,
    /// Records that the runs that ended in it processed.
    pub processed: u64,
    /// Records of theirs that failed.
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

/// What kind of thing an event tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// Items were given to instances.
    Assigned,
    /// A worker came, left or died.
    Worker,
    /// A job was made, changed, paused, resumed or removed.
    Job,
    /// A person did something: the audit.
    Operation,
    /// The coordinator itself: started, stopped, leads, lost the registry.
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

    /// Whether somebody did it: such rows have a table, a bound and room in the queue of their own.
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
    /// Who ran it.
    pub instance: InstanceId,
    /// That instance's worker.
    pub worker: WorkerId,
    /// The trigger, of a manual run.
    pub trigger: Option<TriggerId>,
    /// Its state; the outcome is [`RunState::outcome`].
    pub state: RunState,
    /// It was put up to be run again.
    pub requeued: bool,
    /// When its start was decided: by this, pages are in order and rows grow old.
    pub since: Time,
    /// When user code began, by the worker's clock.
    pub started: Option<Time>,
    /// When it ended, by the worker's clock if that told, else when the end was decided.
    pub ended: Option<Time>,
    /// What went wrong.
    pub error: String,
    /// A result, or the tail of a program's output.
    pub output: String,
    /// Records processed.
    pub processed: u64,
    /// Records that failed.
    pub failed: u64,
    /// Attempts it took; 0: not told.
    pub attempt: u32,
}

/// Scheduled times of one item in a row that were not run on their own, for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnrunRow {
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
    /// What became of them, and why.
    pub became: FireResult,
    /// When that was last written.
    pub recorded: Time,
}

/// One thing that happened.
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
    /// Whose doing it was.
    pub principal: Option<String>,
}

/// Which runs; what is `None` does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunFilter {
    /// Of this job.
    pub job: Option<JobName>,
    /// Of this item.
    pub item: Option<Item>,
    /// The one of this token; only with job and item, without which none is found.
    pub token: Option<Token>,
    /// In this state; an [`Outcome`] turns into one.
    pub state: Option<RunState>,
    /// By this instance.
    pub instance: Option<InstanceId>,
    /// Whose start was decided then or later.
    pub from: Option<Time>,
    /// Whose start was decided before.
    pub to: Option<Time>,
}

/// How much happened lately, over all jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pulse {
    /// Runs whose start was decided since then.
    pub runs: u64,
    /// From scheduled times to when user code began by the workers' clocks, in milliseconds, ascending; of the latest runs.
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

/// An item in the hands of one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerRow {
    /// The item.
    pub item: Item,
    /// Its owner.
    pub instance: InstanceId,
    /// The generation of the assignment that gave it.
    pub generation: u64,
    /// Since when.
    pub from: Time,
    /// Until when; none: still.
    pub to: Option<Time>,
    /// Why it was given it.
    pub reason: String,
    /// Why it lost it; empty: it has not.
    pub end_reason: String,
}

/// Which of a job's owners; what is `None` does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerFilter {
    /// Of this job.
    pub job: JobName,
    /// Of this item.
    pub item: Option<Item>,
    /// Who owned it then or later.
    pub from: Option<Time>,
    /// And before.
    pub to: Option<Time>,
}

/// Which events; what is `None` does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventFilter {
    /// About this job.
    pub job: Option<JobName>,
    /// Of this kind.
    pub kind: Option<EventKind>,
    /// Done by this principal.
    pub principal: Option<String>,
    /// Then or later.
    pub from: Option<Time>,
    /// Before.
    pub to: Option<Time>,
}

/// Which part of a list, newest first. A page may hold fewer rows than asked for although more follow (long
/// texts); the answer's next token alone tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// At most so many rows; 0 and anything over [`MAX_PAGE`](super::MAX_PAGE) mean that many.
    pub size: usize,
    /// Where the last answer said that it goes on; `None`: at the newest.
    pub token: Option<String>,
}

/// The names of what became of scheduled times, and of why: two columns.
pub(super) fn became_names(became: FireResult) -> (&'static str, &'static str) {
    match became {
        FireResult::Misfired => ("misfired", ""),
        FireResult::Skipped => ("skipped", ""),
        FireResult::Missed(reason) => ("missed", reason.as_str()),
    }
}

/// The other way round.
pub(super) fn became_named(became: &str, reason: &str) -> Option<FireResult> {
    match became {
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

/// Cuts a text to at most `max` bytes, between characters, and says so at its end.
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
