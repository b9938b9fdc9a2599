//! What happens in the cluster, for watchers and the audit. [`crate::io::event`] has what the machine is given.

use std::sync::Arc;

use rosterd_domain::id::{InstanceId, Item, JobName, Token};
use rosterd_domain::item::{Outcome, Running};
use rosterd_domain::plan::{Entry, FireResult, Why};
use rosterd_domain::time::Time;
use rosterd_session::frame::Completed;

#[derive(Debug, Clone, PartialEq)]
pub enum ClusterEvent {
    Started {
        job: JobName,
        item: Item,
        token: Token,
        run: Running,
    },
    Ended {
        job: JobName,
        item: Item,
        token: Token,
        run: Running,
        outcome: Outcome,
        error: String,
        output: String,
    },
    Progress {
        job: JobName,
        item: Item,
        token: Token,
        percent: u32,
        message: String,
    },
    NotRun {
        job: JobName,
        item: Item,
        first: Time,
        latest: Time,
        count: u64,
        result: FireResult,
    },
    Assigned {
        job: JobName,
        generation: u64,
        owners: Vec<(InstanceId, Vec<Item>)>,
        /// Only the leader knows it.
        why: Option<Why>,
    },
    Worker {
        instance: InstanceId,
        change: WorkerEvent,
    },
    /// An operation on a job.
    Job {
        job: JobName,
        action: Action,
        what: String,
        /// The principal that requested it.
        by: Option<Arc<str>>,
    },
    /// Workers were asked for something; no job changes.
    Asked {
        job: Option<JobName>,
        action: Action,
        what: String,
        by: Option<Arc<str>>,
    },
}

/// A change of a worker process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerEvent {
    /// It has attached to this coordinator.
    Attached,
    /// It drains: it gets no new runs.
    Draining,
    /// It has left cleanly.
    Left,
    /// Its lease expired.
    Dead,
}

impl WorkerEvent {
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Attached => "attached",
            Self::Draining => "draining",
            Self::Left => "left",
            Self::Dead => "dead",
        }
    }
}

/// An operation on a job, or on its workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Create,
    /// Its configuration was changed.
    Change,
    Trigger,
    Pause,
    Resume,
    /// It, an item, a machine or an instance was enabled.
    Enable,
    Disable,
    Remove,
    /// Runs are to be cancelled.
    Cancel,
    /// A worker is to drain.
    Drain,
    /// An instance is to give the job up.
    Shutdown,
    /// A machine was removed.
    ForgetMachine,
    /// A run that killed its workers is not run again.
    GiveUp,
    Backup,
    Restore,
}

impl Action {
    /// The name for programs: that of the protocol, in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Change => "change",
            Self::Trigger => "trigger",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Enable => "enable",
            Self::Disable => "disable",
            Self::Remove => "remove",
            Self::Cancel => "cancel",
            Self::Drain => "drain",
            Self::Shutdown => "shutdown",
            Self::ForgetMachine => "remove_machine",
            Self::GiveUp => "give_up",
            Self::Backup => "backup",
            Self::Restore => "restore",
        }
    }
}

impl ClusterEvent {
    /// Returns the job that it is about; `None` if it is about a worker, or about several jobs.
    pub fn job(&self) -> Option<&JobName> {
        match self {
            Self::Started { job, .. }
            | Self::Ended { job, .. }
            | Self::Progress { job, .. }
            | Self::NotRun { job, .. }
            | Self::Assigned { job, .. }
            | Self::Job { job, .. } => Some(job),
            Self::Asked { job, .. } => job.as_ref(),
            Self::Worker { .. } => None,
        }
    }

    /// The event of an entry of the history; `detail`: the report of an end.
    pub fn of(job: JobName, entry: Entry, detail: Option<&Completed>) -> Self {
        match entry {
            Entry::Started { item, token, run } => Self::Started { job, item, token, run },
            Entry::Ended { item, token, run, outcome, .. } => {
                let said = detail.map(|detail| (detail.error.clone(), detail.output.clone()));
                let (error, output) = said.unwrap_or_default();
                Self::Ended { job, item, token, run, outcome, error, output }
            }
            Entry::NotRun { item, first, latest, count, result } => {
                Self::NotRun { job, item, first, latest, count, result }
            }
        }
    }
}
