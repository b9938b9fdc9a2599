//! Operations and their results, as types.

pub use rosterd_domain::job::Change as FieldChange;

use std::time::Duration;

use rosterd_domain::id::{InstanceId, Item, JobName, ServerAddress, TriggerId};
use rosterd_domain::item::Running;
use rosterd_domain::job::JobSpec;
use rosterd_domain::time::Time;
use rosterd_domain::view::{Job, Timeline};
use rosterd_domain::{job, view};
use rosterd_session::code::{Code, Refusal};
use rosterd_session::jobs::JobScope;
use rosterd_session::limits::Limits;

/// The other end of a stream, as the edge established it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Peer {
    /// The network address, for logs.
    pub address: String,
    /// The name that the credential stands for.
    pub principal: Option<String>,
    /// The jobs that the credential is for.
    pub jobs: JobScope,
    /// The limits of its workers; `None`: unlimited.
    pub limits: Option<Limits>,
}

/// An operation that a person requests. Each is answered once its effect is durable.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Creates or changes jobs; each job is changed as a whole or not at all. [`Operation::apply`] reads them from a
    /// job file. `expected`: the job is changed only if it is still equal to this.
    Apply { specs: Vec<JobSpec>, dry_run: bool, expected: Option<Box<JobSpec>> },
    /// Fires now: all items, or these.
    Trigger { job: JobName, items: Vec<Item>, after_current: bool },
    /// Pauses or resumes scheduled fires.
    Pause { job: JobName, paused: bool },
    /// Enables or disables a target.
    Enable { job: JobName, target: Target, enabled: bool, cancel: bool },
    /// Removes a job; refused while runs are in flight unless `cancel`.
    Remove { job: JobName, cancel: bool },
    /// Cancels a run.
    Cancel { job: JobName, item: Item },
    /// Asks an instance's worker to drain.
    Drain { instance: InstanceId, grace: Duration },
    /// Shuts an instance down for one job.
    Shutdown { job: JobName, instance: InstanceId },
    /// Changes a machine in each of these jobs. All are tried; the result includes those that were refused.
    Machine { machine: ServerAddress, jobs: Vec<JobName>, action: MachineAction },
}

impl Operation {
    /// Creates or changes the jobs of a job file. Every defect is reported at once; the coordinator never sees a file.
    pub fn apply(file: &str, dry_run: bool) -> Result<Self, Refusal> {
        let specs = job::parse_file_with(file.as_bytes(), view::validate);
        let specs = specs.map_err(|defects| Refusal::new(Code::ConfigInvalid, defects.to_string()))?;
        Ok(Self::Apply { specs, dry_run, expected: None })
    }
}

/// A change of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineAction {
    /// Enables or disables it.
    Enable { enabled: bool, cancel: bool },
    /// Shuts down all instances on it.
    Shutdown,
    /// Removes it; refused while it has instances.
    Remove,
}

/// The target of enabling or disabling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The job as a whole.
    Job,
    /// One item.
    Item(Item),
    /// All instances on a machine.
    Machine(ServerAddress),
    /// One instance.
    Instance(InstanceId),
}

/// The result of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Done {
    /// The effect on each job, in the order of the request.
    pub changes: Vec<(JobName, Change)>,
}

/// The effect of an operation on one job, or what it would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub effect: ChangeEffect,
    /// The fields that differ, each with its old and its new value.
    pub fields: Vec<FieldChange>,
    /// The same in a line for people.
    pub line: String,
    /// Fields of the job's file that have no effect, and what to use instead.
    pub warnings: Vec<String>,
    /// The id of the new trigger.
    pub trigger: Option<TriggerId>,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeEffect {
    /// The job had this state already.
    Unchanged,
    /// A dry run: it would be created.
    WouldCreate,
    /// A dry run: it would be changed.
    WouldChange,
    Created,
    Changed,
    Removed,
    /// Work was requested or cancelled, or an instance was asked to drain; the job's configuration stays.
    Requested,
    /// One of several jobs was refused, and stays as it was.
    Refused(Code),
}

impl Change {
    /// A change without fields.
    pub fn new(effect: ChangeEffect, line: impl Into<String>) -> Self {
        Self { effect, fields: Vec::new(), line: line.into(), warnings: Vec::new(), trigger: None }
    }

    /// The same with warnings.
    #[must_use]
    pub fn warning(self, warnings: Vec<String>) -> Self {
        Self { warnings, ..self }
    }

    /// There was nothing to do.
    pub fn unchanged(line: impl Into<String>) -> Self {
        Self::new(ChangeEffect::Unchanged, line)
    }
}

/// The status of a job: the first of these that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStatus {
    /// Its stored configuration cannot be read.
    Damaged,
    Removing,
    Disabled,
    Paused,
    /// No enabled instance works for it.
    NoWorker,
    /// Its items are about to be reassigned.
    Resharding,
    Enabled,
}

impl JobStatus {
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Removing => "removing",
            Self::Disabled => "disabled",
            Self::Paused => "paused",
            Self::NoWorker => "no_worker",
            Self::Resharding => "resharding",
            Self::Enabled => "enabled",
        }
    }
}

/// Whether the coordinator can do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Not yet.
    Starting,
    /// Yes.
    Serving,
    /// This machine's clock is off: nothing fires.
    ClockOff,
    /// The store does not answer.
    Suspended,
    /// It is stopping.
    Draining,
}

impl Health {
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Serving => "serving",
            Self::ClockOff => "clock_off",
            Self::Suspended => "suspended",
            Self::Draining => "draining",
        }
    }
}

impl Target {
    /// Whether a run belongs to it.
    pub(crate) fn has(&self, item: Item, run: &Running) -> bool {
        match self {
            Self::Job => true,
            Self::Item(wanted) => item == *wanted,
            Self::Machine(machine) => run.instance.address() == machine.as_str(),
            Self::Instance(instance) => run.instance == *instance,
        }
    }
}

/// The reason that a worker is given for a cancellation.
pub(crate) const ASKED: &str = "an operator asked for it";

pub(crate) fn status(decoded: Result<Option<&Job>, &String>) -> JobStatus {
    match decoded {
        Err(_) => JobStatus::Damaged,
        Ok(None) => JobStatus::Removing,
        Ok(Some(view)) if view.rules.disabled => JobStatus::Disabled,
        Ok(Some(view)) if view.paused => JobStatus::Paused,
        Ok(Some(view)) if !view.instances.keys().any(|instance| view.is_enabled(instance)) => {
            JobStatus::NoWorker
        }
        Ok(Some(view)) if view.necessary.is_some() => JobStatus::Resharding,
        Ok(Some(_)) => JobStatus::Enabled,
    }
}

pub(crate) fn next_fire(view: &Job, now: Time) -> Option<Time> {
    if view.paused || view.rules.disabled { None } else { Timeline::new(view).next(now) }
}
