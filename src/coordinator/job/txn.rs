//! The building blocks of transactions about a job.

use std::sync::Arc;

use rosterd_domain::id::{Item, JobName, Version};
use rosterd_domain::item::{ItemEvent, Record};
use rosterd_domain::sharding::{Sharding, Stated};
use rosterd_domain::txn::{Guard, Purpose, Txn, Write};
use rosterd_domain::view::Job;
use rosterd_session::code::{Code, Refusal};

use crate::io::operation::Change;

/// How many `instance` mirrors and new records one transaction writes.
pub(crate) const CHUNK: usize = 200;

/// The result of an operation.
pub(crate) enum OperationStep {
    Commit(Txn, Change),
    /// There is nothing to write.
    Unchanged(Change),
}

pub(crate) fn guarded(purpose: Purpose, view: &Job) -> Txn {
    let mut txn = Txn::new(purpose);
    txn.guard(Guard::Incarnation(view.name.clone(), view.incarnation.clone()));
    txn
}

/// The same for what only the leader may write.
pub(crate) fn led(purpose: Purpose, view: &Job) -> Txn {
    let mut txn = guarded(purpose, view);
    txn.guard(Guard::Epoch(view.name.clone(), view.epoch));
    txn
}

/// Adds a rewrite of `sharding`, so that whatever was decided before is refused.
pub(crate) fn rewrite(txn: &mut Txn, view: &Job, sharding: &Sharding) {
    let stated = || sharding.stating(Stated::by(view.spec.config())).encode();
    let data = if sharding.stated.is_some() { sharding.encode() } else { stated() };
    let (job, expect, data) = (view.name.clone(), view.generation, data.into());
    txn.write(Write::Assignment { job, expect, data });
}

pub(crate) fn check_item(view: &Job, item: Item) -> Result<(), Refusal> {
    let items = view.rules.items;
    if item.0 < items {
        return Ok(());
    }
    let message = format!("item {item} of {} does not exist: its items are 0 to {}", view.name, items - 1);
    Err(Refusal::new(Code::ItemUnknown, message))
}

/// The record after an event that must be legal here; unchanged if it is not.
pub(crate) fn applied(record: &Record, event: &ItemEvent) -> Record {
    record.apply(event).unwrap_or_else(|_| record.clone())
}

pub(crate) fn rewritten(job: &JobName, item: Item, version: Version, record: Record) -> Write {
    Write::Record { job: job.clone(), item, expect: Some(version), record: Arc::new(record) }
}
