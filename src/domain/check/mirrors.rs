//! Mirrors follow the record: the last write to each mirror matches the change of the record, and there is no write
//! that no change explains.

use std::collections::BTreeMap;

use super::Case;
use crate::id::Item;
use crate::item::{Record, Running, Source};
use crate::plan::Report;
use crate::txn::Write;

pub(super) fn check(case: &mut Case<'_>, item: Item) {
    let Some((_, before)) = case.before.get(&item) else { return };
    let expected = expected(case, item, before);
    let mut found = BTreeMap::new();
    for write in case.plan.txn.writes.iter().filter(|write| is_about(write, item)) {
        if let Some(kind) = kind(write) {
            found.insert(kind, write.clone());
        }
    }
    case.expect(found == expected, item, || format!("the mirrors are {found:?} rather than {expected:?}"));
}

fn expected(case: &Case<'_>, item: Item, before: &Record) -> BTreeMap<&'static str, Write> {
    let job = case.job.name.clone();
    let mut expected = BTreeMap::new();
    let mut put = |write: Write| {
        if let Some(kind) = kind(&write) {
            expected.insert(kind, write);
        }
    };
    if let Some(data) = case.goes_on(item) {
        put(Write::Offset { job: job.clone(), item, data });
    }
    let Some(after) = case.written(item) else { return expected };
    let marks = |run: &Running| case.job.rules.guarantee_completed && run.source != Source::Manual;
    let ended = before.running().filter(|_| ended(before, after));
    let started: Option<&Running> = after.running().filter(|_| after.token > before.token);
    if let Some(run) = ended {
        put(Write::Running { job: job.clone(), item, instance: None });
        if run.source == Source::Failover {
            put(Write::Failover { job: job.clone(), item, instance: None });
        }
        if run.held {
            put(Write::Started { job: job.clone(), item, present: false });
        }
        if marks(run) && after.crashed().is_none() {
            put(Write::Completed { job: job.clone(), item, present: true });
        }
    }
    if let Some(crashed) = after.crashed().filter(|_| before.crashed().is_none()) {
        let crashed = Some((crashed.fire, before.token));
        put(Write::FailoverItem { job: job.clone(), item, crashed });
    }
    let claimed = started.is_some_and(|run| run.source == Source::Failover);
    if claimed || before.crashed().is_some() && after.crashed().is_none() {
        put(Write::FailoverItem { job: job.clone(), item, crashed: None });
    }
    if let Some(run) = started {
        let instance = Some(run.instance.clone());
        put(Write::Running { job: job.clone(), item, instance: instance.clone() });
        if claimed {
            put(Write::Failover { job: job.clone(), item, instance });
        }
    }
    let apart = case.plan.unmonitored.iter().find(|(told, ..)| *told == item).map(|(.., run)| run);
    if started.is_some_and(|run| run.held) {
        put(Write::Started { job: job.clone(), item, present: true });
    }
    if started.or(apart).is_some_and(marks) {
        put(Write::Completed { job: job.clone(), item, present: false });
    }
    if started.or(apart).is_some_and(|run| run.source == Source::Manual) {
        put(Write::RemoveTrigger(job.clone(), item));
    }
    if before.misfire.is_some() != after.misfire.is_some() {
        put(Write::Misfire { job: job.clone(), item, marked: after.misfire.is_some() });
    }
    let report = ended.and_then(|run| case.report_of(item, before.token, run));
    let left = |report: &Report| report.offset.clone().or_else(|| case.progressed(item, before));
    if let Some(data) = report.and_then(left) {
        put(Write::Offset { job, item, data });
    }
    expected
}

fn ended(before: &Record, after: &Record) -> bool {
    before.running().is_some() && (after.running().is_none() || after.token != before.token)
}

/// What a host may write besides records; `None`: it is a record, or not a host's to write.
fn kind(write: &Write) -> Option<&'static str> {
    Some(match write {
        Write::Running { .. } => "running",
        Write::Failover { .. } => "failover",
        Write::FailoverItem { .. } => "failover item",
        Write::Misfire { .. } => "misfire",
        Write::Started { .. } => "started",
        Write::Completed { .. } => "completed",
        Write::RemoveTrigger(..) => "trigger",
        Write::Offset { .. } => "offset",
        Write::Record { .. } => return None,
        _ => "a write that is not a host's",
    })
}

fn is_about(write: &Write, of: Item) -> bool {
    match write {
        Write::Running { item, .. }
        | Write::Failover { item, .. }
        | Write::FailoverItem { item, .. }
        | Write::Misfire { item, .. }
        | Write::Started { item, .. }
        | Write::Completed { item, .. }
        | Write::RemoveTrigger(_, item)
        | Write::Offset { item, .. } => *item == of,
        Write::Record { .. } => false,
        _ => true,
    }
}
