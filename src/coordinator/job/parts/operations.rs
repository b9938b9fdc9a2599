//! Requested operations on one job that wait.

use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{InstanceId, Item, ServerAddress};
use rosterd_domain::job::JobSpec;
use rosterd_domain::mutants;

use crate::io::cluster_event::Action;
use crate::io::event::RequestId;
use crate::io::operation::{Change, ChangeEffect, Target};
use crate::job::parts::barrier::Barrier;

/// An operation on this job that was requested.
#[derive(Debug, Clone)]
pub(crate) struct PendingRequest {
    pub(crate) request: RequestId,
    /// The principal that requested it.
    pub(crate) by: Option<Arc<str>>,
    pub(crate) operation: JobOperation,
    pub(crate) tries: u32,
    /// The records were read for it.
    pub(crate) informed: bool,
    /// The runs that it waits for before it is executed or answered.
    pub(crate) barrier: Option<Barrier>,
}

impl PendingRequest {
    /// The operation that has to follow before it is answered with `said`. There may be more runs to cancel than fit in
    /// one transaction.
    pub(super) fn then_cancel(&self, said: &Change) -> Option<JobOperation> {
        match &self.operation {
            JobOperation::Enable { target, enabled: false, cancel: true } => {
                Some(JobOperation::CancelAll { target: target.clone(), said: said.clone() })
            }
            JobOperation::CancelAll { .. } => Some(self.operation.clone()),
            _ => None,
        }
    }
}

/// An operation on one job.
#[derive(Debug, Clone)]
pub(crate) enum JobOperation {
    Apply {
        spec: Box<JobSpec>,
        dry_run: bool,
        /// The configuration that it is to replace; `None`: any.
        expected: Option<Box<JobSpec>>,
    },
    Trigger {
        items: Vec<Item>,
        after_current: bool,
    },
    Pause(bool),
    Enable {
        target: Target,
        enabled: bool,
        cancel: bool,
    },
    Remove {
        cancel: bool,
    },
    Cancel {
        item: Item,
    },
    /// Cancels the runs of a target; follows an operation that requested it, and is answered with that operation's
    /// result.
    CancelAll {
        target: Target,
        said: Change,
    },
    Drain {
        instance: InstanceId,
        grace: Duration,
    },
    Shutdown {
        instance: InstanceId,
    },
    ShutdownMachine(ServerAddress),
    RemoveMachine(ServerAddress),
}

impl JobOperation {
    /// The action that watchers see, after it had this effect.
    pub(crate) fn action(&self, effect: ChangeEffect) -> Action {
        match self {
            Self::Apply { .. } if effect == ChangeEffect::Created => Action::Create,
            Self::Apply { .. } => Action::Change,
            Self::Trigger { .. } => Action::Trigger,
            Self::Pause(true) => Action::Pause,
            Self::Pause(false) => Action::Resume,
            Self::Enable { enabled: true, .. } => Action::Enable,
            Self::Enable { enabled: false, .. } => Action::Disable,
            Self::Remove { .. } => Action::Remove,
            Self::Cancel { .. } | Self::CancelAll { .. } => Action::Cancel,
            Self::Drain { .. } => Action::Drain,
            Self::Shutdown { .. } | Self::ShutdownMachine(_) => Action::Shutdown,
            Self::RemoveMachine(_) => Action::ForgetMachine,
        }
    }
}

impl PendingRequest {
    /// Whether the runs are awaited before the operation itself is executed, because afterwards nothing shows them.
    pub(crate) fn waits_first(&self) -> bool {
        matches!(self.operation, JobOperation::Remove { cancel: true })
            && !mutants::is_on(mutants::CHANGES_ANSWER_AT_ONCE)
    }

    /// What has to follow before the operation is answered with `said`: runs are cancelled, then awaited. `wrote`: the
    /// result is from a write, and not because the job had that state already.
    pub(crate) fn next(&self, said: &Change, wrote: bool) -> Option<Self> {
        if self.barrier.is_some() {
            return None;
        }
        let fresh = Self { tries: 0, informed: false, ..self.clone() };
        let cancels = matches!(self.operation, JobOperation::CancelAll { .. });
        if let Some(operation) = self.then_cancel(said).filter(|_| wrote || !cancels) {
            return Some(Self { operation, ..fresh });
        }
        let target = self.forbids().filter(|_| said.effect != ChangeEffect::Created)?;
        let barrier = Barrier::after(target, said.clone());
        (!mutants::is_on(mutants::CHANGES_ANSWER_AT_ONCE)).then_some(Self { barrier: Some(barrier), ..fresh })
    }

    /// The target of which nothing may start once the operation is acknowledged.
    fn forbids(&self) -> Option<Target> {
        match &self.operation {
            JobOperation::Apply { dry_run: false, .. } | JobOperation::Pause(true) => Some(Target::Job),
            JobOperation::Enable { target, enabled: false, .. } | JobOperation::CancelAll { target, .. } => {
                Some(target.clone())
            }
            JobOperation::Cancel { item } => Some(Target::Item(*item)),
            _ => None,
        }
    }
}
