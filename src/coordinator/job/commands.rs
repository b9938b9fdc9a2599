//! Commands to hosts, as nodes of a job: their names, and the transactions that write them.

use std::time::Duration;

use rosterd_domain::id::{CommandName, InstanceId, Item, JobName, Token, Version, WorkerId};
use rosterd_domain::item::{ItemEvent, Record};
use rosterd_domain::snapshot::Command;
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Purpose, Txn, Write};
use rosterd_domain::view::Job;
use rosterd_session::code::{Code, Refusal};

use crate::io::operation::{Change, ChangeEffect};
use crate::job::txn::{OperationStep, guarded, rewrite, rewritten};

/// The progress of a command at this coordinator.
pub(crate) enum CommandProgress {
    /// Nothing is left to do.
    Done,
    /// The worker was told, and will report when it is done.
    Delivered,
    /// It is for another coordinator, or is not known to be done.
    Pending,
}

/// Whether a run has to be cancelled.
pub(crate) fn stops(view: &Job, item: Item, token: Token) -> bool {
    !view.commands.is_empty()
        && cancel_name(item, token).is_some_and(|name| view.commands.contains_key(&name))
}

/// Adds the command to cancel a run, wherever its worker is. Its record is marked as well, so that whichever host ends
/// the run does not offer it to others.
pub(crate) fn stop(txn: &mut Txn, job: &JobName, item: Item, version: Version, record: &Record) {
    let token = record.token;
    if let Some(name) = cancel_name(item, token) {
        txn.write(Write::Command { job: job.clone(), name, command: Command::Cancel { item, token } });
    }
    if let Ok(cancelled) = record.apply(&ItemEvent::Cancel) {
        txn.write(rewritten(job, item, version, cancelled));
    }
}

/// Marks a crashed run as not to be run again.
pub(crate) fn give_up(
    txn: &mut Txn,
    job: &JobName,
    item: Item,
    version: Version,
    record: &Record,
    now: Time,
) {
    if let Ok(given_up) = record.apply(&ItemEvent::GiveUp { at: now }) {
        txn.write(rewritten(job, item, version, given_up));
        txn.write(Write::FailoverItem { job: job.clone(), item, crashed: None });
    }
}

/// A different name for each run, so that removing the command of one run does not remove that of a later one.
fn cancel_name(item: Item, token: Token) -> Option<CommandName> {
    CommandName::new(format!("cancel-{item}-{token}")).ok()
}

/// The same for a command to report when a run has started.
pub(crate) fn await_start_name(item: Item, token: Token) -> Option<CommandName> {
    CommandName::new(format!("await-start-{item}-{token}")).ok()
}

/// The name of a command to a worker: the same for all such commands to it.
pub(crate) fn named(what: &str, instance: &InstanceId) -> Option<CommandName> {
    CommandName::new(format!("{what}-{}", instance.worker()?)).ok()
}

/// Whether a command of the job is for this worker.
pub(crate) fn is_told(view: &Job, worker: &WorkerId) -> bool {
    view.commands.values().filter_map(Command::instance).any(|instance| instance.is_of(worker))
}

/// Writes the command to drain an instance of another host. A concurrent removal of the job conflicts with it, since it
/// depends on the same generation, and finds the command when it is retried.
pub(crate) fn drain(view: &Job, instance: &InstanceId, grace: Duration) -> Result<OperationStep, Refusal> {
    let Some(name) = named("drain", instance) else {
        let why = format!("this namespace has no instance {instance}");
        return Err(Refusal::new(Code::InstanceUnknown, why));
    };
    let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
    let mut txn = guarded(Purpose::Command, view);
    let command = Command::Drain { instance: instance.clone(), grace_ms };
    txn.write(Write::Command { job: view.name.clone(), name, command });
    rewrite(&mut txn, view, &view.sharding);
    Ok(OperationStep::Commit(
        txn,
        Change::new(ChangeEffect::Requested, format!("{instance} is asked to leave")),
    ))
}

/// Refuses the removal of a job that holds the command to drain an instance, since that would be lost with the job.
pub(crate) fn nobody_is_asked_to_leave(view: &Job) -> Result<(), Refusal> {
    let asked = view.commands.values().find_map(|command| match command {
        Command::Drain { instance, .. } => Some(instance),
        Command::Cancel { .. } | Command::Shutdown { .. } | Command::AwaitStart { .. } => None,
    });
    let Some(instance) = asked else { return Ok(()) };
    let message = format!(
        "job {} holds what asks {instance} to leave until its host has heard it: try again",
        view.name
    );
    Err(Refusal::new(Code::Contended, message))
}
