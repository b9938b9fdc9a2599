//! What is told as it happens, after its commit, to whoever watches and to the history. Each is a value; the texts beside them
//! are for people.

use std::sync::Arc;

use rosterd_domain::id::{InstanceId, Item, JobName, Token};
use rosterd_domain::item::{Outcome, Running};
use rosterd_domain::plan::{Entry, FireResult, Why};
use rosterd_domain::time::Time;

use rosterd_session::frame::Completed;

#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
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
    Unrun {
        job: JobName,
        item: Item,
        first: Time,
        latest: Time,
        count: u64,
        became: FireResult,
    },
    Assigned {
        job: JobName,
        generation: u64,
        owners: Vec<(InstanceId, Vec<Item>)>,
        /// Known to the leader alone.
        why: Option<Why>,
    },
    Worker {
        instance: InstanceId,
        change: WorkerChange,
    },
    /// Something was done to a job as a whole.
    Job {
        job: JobName,
        action: Action,
        what: String,
        /// Who asked for it.
        by: Option<Arc<str>>,
    },
    /// Somebody asked something of workers, which changes no job.
    Asked {
        job: Option<JobName>,
        action: Action,
        what: String,
        by: Option<Arc<str>>,
    },
}

/// What became of a worker process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerChange {
    /// It has come to this coordinator.
    Attached,
    /// It leaves: it is given nothing any more.
    Draining,
    /// It has left in order.
    Left,
    /// Its lease expired.
    Dead,
}

impl WorkerChange {
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

/// What was done to a job, or asked of its workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Create,
    /// Its configuration was changed.
    Change,
    Trigger,
    Pause,
    Resume,
    /// It, an item, a machine or an instance was taken back into service.
    Enable,
    Disable,
    Remove,
    /// Runs are to stop.
    Cancel,
    /// A worker is to leave.
    Drain,
    /// An instance is to give the job up.
    Shutdown,
    /// A machine was forgotten.
    ForgetMachine,
    /// A run that killed its workers is not run again.
    GiveUp,
    Backup,
    Restore,
}

impl Action {
    /// The word for programs: that of the protocol, in small letters.
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

impl Happening {
    /// What an entry of the history is to who watches; `detail`: the report of an end.
    pub fn of(job: JobName, entry: Entry, detail: Option<&Completed>) -> Self {
        match entry {
            Entry::Started { item, token, run } => Self::Started { job, item, token, run },
            Entry::Ended { item, token, run, outcome, .. } => {
                let said = detail.map(|detail| (detail.error.clone(), detail.output.clone()));
                let (error, output) = said.unwrap_or_default();
                Self::Ended { job, item, token, run, outcome, error, output }
            }
            Entry::Unrun { item, first, latest, count, became } => {
                Self::Unrun { job, item, first, latest, count, became }
            }
        }
    }
}
