//! The cached records of a job's items, and the slots of workers that they take.

use std::sync::Arc;

use rosterd_domain::id::{Item, JobName, Token, Version};
use rosterd_domain::item::Record;
use rosterd_domain::mutants;
use rosterd_domain::plan::Report;

use crate::job::JobTurn;
use crate::job::state::JobState;

/// Offsets up to this many bytes are kept in memory between runs.
pub(crate) const SHORT_OFFSET: usize = 1024;

impl JobTurn<'_> {
    pub(crate) fn drop_record(&mut self, name: &JobName, job: &mut JobState, item: Item) {
        let removed = job.cache.drop_record(item);
        let worker = removed.as_ref().and_then(|(_, record)| record.running()).map(|run| &run.worker);
        self.index.record_changed(name, worker, None);
        if let Some(worker) = worker {
            self.workers.run_ended(worker, name, item);
        }
    }

    /// Puts a record into the cache and updates the workers' slots.
    pub(crate) fn put_record(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        item: Item,
        version: Version,
        record: Arc<Record>,
    ) {
        let before =
            job.cache.record(item).and_then(|(_, before)| before.running()).map(|run| run.worker.clone());
        let after = record.running().map(|run| run.worker.clone());
        let stays = before == after;
        self.index.record_changed(name, before.as_ref(), after.as_ref());
        if let Some(before) = before.filter(|_| !stays) {
            self.workers.run_ended(&before, name, item);
        }
        // Even if nothing has changed: the worker may have attached here since.
        if let Some(worker) = after.as_ref().and_then(|after| self.workers.get_mut(after))
            && worker.ledger.run_began(name, item)
            && stays
        {
            // Its last host may have written the run's progress.
            job.dispatch.forget_offset(item);
        }
        if last_end(job, item) != record.last.as_ref().map(|last| last.token)
            && !mutants::is_on(mutants::OFFSETS_STAY)
        {
            job.dispatch.forget_offset(item);
        }
        job.progress.is_of(item, record.running().map(|_| record.token));
        job.cache.put_record(item, version, record);
    }

    /// The same after this coordinator's own transaction: the offset in the report that it wrote need not be read.
    pub(crate) fn put_written(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        item: Item,
        (version, record): (Version, Arc<Record>),
    ) {
        let ended = record.last.as_ref().filter(|last| last.reported);
        // Only the report of the run's own worker contains the offset.
        let report = job.reports.of(item).filter(|report| {
            ended.is_some_and(|last| last.token == report.token && last.instance.is_of(&report.worker))
        });
        let progressed = |report: &Report| {
            let said = job.progress.said().get(&item).filter(|said| said.token == report.token);
            said.map(|said| said.offset.clone())
        };
        let left = report.and_then(|report| match report.offset.clone().or_else(|| progressed(report)) {
            Some(left) => Some(Some(left)),
            None => job.dispatch.offset(item).cloned(),
        });
        self.put_record(name, job, item, version, record);
        // A long one is read again when needed, rather than kept for every item.
        if let Some(left) = left.filter(|left| left.as_ref().is_none_or(|left| left.len() <= SHORT_OFFSET)) {
            job.dispatch.put_offset(item, left);
        }
    }
}

/// The item's last ended run, as far as it was read.
pub(crate) fn last_end(job: &JobState, item: Item) -> Option<Token> {
    job.cache.record(item).and_then(|(_, record)| Some(record.last.as_ref()?.token))
}
