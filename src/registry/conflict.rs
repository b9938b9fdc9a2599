//! Explains a refused step in terms of the transaction that the caller submitted.
//!
//! The text is for logs and for people. No code decides from it: a caller that is refused reads again.

use rosterd_domain::txn::{Guard, Txn, Write};

use super::lower::{Lowered, Origin};
use super::tree::{Reason, Refusal};

/// The text of `Commit::Conflict`.
pub(crate) fn explain(txn: &Txn, lowered: &Lowered, refusal: Refusal) -> String {
    let what = match lowered.origin(txn, refusal.index) {
        Some(Origin::Guard(guard)) => guard_words(guard),
        Some(Origin::Write(write)) => write_words(write),
        None => "the transaction does not hold".to_owned(),
    };
    format!("{what} ({})", reason_words(refusal.reason))
}

fn reason_words(reason: Reason) -> String {
    match reason {
        Reason::Exists => "it is there already".into(),
        Reason::Absent => "it is not there".into(),
        Reason::NoParent => "what it belongs to is not there".into(),
        Reason::Version { expected, found } => format!("version {expected} was read, it is at {found}"),
        Reason::OtherVersion { expected } => format!("version {expected} was read, it has changed"),
        Reason::NotEmpty => "something is left below it".into(),
    }
}

fn guard_words(guard: &Guard) -> String {
    match guard {
        Guard::Incarnation(job, _) => format!("job {job} was removed or made again"),
        Guard::NoJob(job) => format!("job {job} exists, or something is left of a removed one"),
        Guard::Generation(job, _) => format!("the assignment of job {job} has changed"),
        Guard::Epoch(job, _) => format!("job {job} has had another election"),
        Guard::Config(job, _) => format!("the config of job {job} has changed"),
        Guard::Record(job, item, _) => format!("the record of item {item} of job {job} has changed"),
        Guard::Attachment(worker, _) => {
            format!("worker {worker} is attached otherwise, or was marked dead")
        }
        Guard::Prepared(job, _) => format!("job {job} is put together by somebody else, or was removed"),
        Guard::NoAttachment(worker) => format!("worker {worker} is attached"),
    }
}

fn write_words(write: &Write) -> String {
    match write {
        Write::Numbering { .. } => "the numbering of the tokens has changed".to_owned(),
        Write::RevealJob { job, .. } => format!("job {job} is put together by somebody else, or was removed"),
        Write::PrepareJob { job, .. } | Write::CreateJob { job, .. } => format!("job {job} cannot be made"),
        Write::RenewJob { job, .. } => format!("job {job} was removed or made again"),
        Write::Config(job, _) => format!("job {job} has no config to replace"),
        Write::Policy(job, _) => format!("the policy of job {job} cannot be written"),
        Write::HandlerType(job, _) => format!("the handler type of job {job} cannot be written"),
        Write::EndJob(job) => format!("job {job} is another one than was to be removed"),
        Write::SweepJob { job, .. } => format!("what is left of job {job} cannot be removed"),
        Write::Paused(job, _) => format!("job {job} cannot be paused or resumed"),
        Write::Assignment { job, .. } => format!("the assignment of job {job} has changed"),
        Write::RaiseNecessary(job) => format!("a new assignment of job {job} cannot be asked for"),
        Write::ClearNecessary(job, _) => format!("a new assignment of job {job} was asked for meanwhile"),
        Write::Elect { job, .. } => format!("job {job} has another leader"),
        Write::Abdicate { job, .. } => format!("job {job} has had another election"),
        Write::Record { job, item, .. } => format!("the record of item {item} of job {job} has changed"),
        Write::Offset { job, item, .. } => {
            format!("the offset of item {item} of job {job} cannot be written")
        }
        Write::Running { job, item, .. }
        | Write::Failover { job, item, .. }
        | Write::Misfire { job, item, .. }
        | Write::ItemDisabled { job, item, .. }
        | Write::ItemInstance { job, item, .. }
        | Write::FailoverItem { job, item, .. }
        | Write::Started { job, item, .. }
        | Write::Completed { job, item, .. } => {
            format!("a mirror of item {item} of job {job} cannot be written")
        }
        Write::Announced { job, .. } => format!("an announcement of job {job} cannot be written"),
        Write::Server { job, server, .. } => format!("server {server} of job {job} cannot be written"),
        Write::RemoveServer(job, server) => format!("server {server} of job {job} cannot be removed"),
        Write::Instance { job, instance, .. } => {
            format!("instance {instance} of job {job} cannot be written")
        }
        Write::RemoveInstance(job, instance) => format!("instance {instance} of job {job} cannot be removed"),
        Write::Trigger { job, item, .. } => format!("a trigger of item {item} of job {job} waits already"),
        Write::Command { job, name, .. } | Write::RemoveCommand(job, name) => {
            format!("command {name} of job {job} cannot be written")
        }
        Write::RemoveTrigger(job, item) => {
            format!("the trigger of item {item} of job {job} cannot be removed")
        }
        Write::ClearForeignTrigger { job, instance, .. } => {
            format!("the trigger of instance {instance} of job {job} cannot be cleared")
        }
        Write::Attachment { worker, .. } | Write::RemoveAttachment { worker, .. } => {
            format!("worker {worker} is attached otherwise, or was marked dead")
        }
        Write::Coordinator { id, .. } => format!("the node of coordinator {id} cannot be written"),
    }
}
