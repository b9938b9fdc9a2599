//! Executes changes, independent of the protocol: rights within the jobs, the coordinator, the audit.

use std::sync::Arc;

use crate::access::Principal;
use crate::audit::AuditLine;
use crate::backend::Backend;
use crate::history::History;
use crate::rights;
use rosterd_coordinator::handle::{Done, FieldChange, MachineAction, Operation};
use rosterd_domain::id::ServerAddress;
use rosterd_session::code::Refusal;

/// The dependencies.
pub struct Operator {
    /// The coordinator.
    pub backend: Arc<dyn Backend>,
    /// The history, which has the audit.
    pub history: Arc<dyn History>,
}

impl Operator {
    /// Answered once its effect is durable. Logged with its caller, whatever the outcome.
    pub async fn operate(&self, who: Option<Principal>, operation: Operation) -> Result<Done, Refusal> {
        let line = AuditLine::change(&operation);
        let done = match rights::check(who.as_ref(), &operation, &*self.backend).await {
            Ok(()) => self.backend.operate(operation, who.as_ref().map(|who| who.name.clone())).await,
            Err(refusal) => Err(refusal),
        };
        if done.is_ok() {
            // A caller that gets the answer finds the row in the audit, even after a crash.
            self.history.settle().await;
        }
        line.log(who.as_ref(), done.as_ref().err());
        done
    }

    /// What an operation would do: it changes nothing, so the audit has no row of it.
    pub async fn try_out(&self, who: Option<Principal>, operation: Operation) -> Result<Done, Refusal> {
        debug_assert!(matches!(operation, Operation::Apply { dry_run: true, .. }));
        rights::check(who.as_ref(), &operation, &*self.backend).await?;
        self.backend.operate(operation, None).await
    }

    /// Changes a machine for all jobs that know it. Each job is a change of its own: the result includes those that
    /// were refused.
    pub async fn on_machine(
        &self,
        who: Option<Principal>,
        machine: ServerAddress,
        action: MachineAction,
    ) -> Result<Done, Refusal> {
        let rows = self.backend.servers(None).await?;
        let jobs = rows.into_iter().filter(|row| row.server == machine).map(|row| row.job).collect();
        self.operate(who, Operation::Machine { machine, jobs, action }).await
    }
}

/// The old and the new value of a field. A value that may be a secret is replaced by its length.
pub(crate) fn shown(change: &FieldChange) -> (Option<String>, Option<String>) {
    let shown = |value: &Option<String>| {
        let value = value.as_ref()?;
        Some(if change.secret { format!("(hidden, {} bytes)", value.len()) } else { value.clone() })
    };
    (shown(&change.from), shown(&change.to))
}
