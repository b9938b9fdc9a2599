//! Reports of runs from workers here that are not committed yet.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rosterd_domain::id::{Item, Token, WorkerId};
use rosterd_domain::plan::Report;
use rosterd_domain::time::Mono;
use rosterd_session::frame::Completed;

/// Reports of runs from workers here that are not committed yet.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    /// Reports to be committed.
    by_item: BTreeMap<Item, Report>,
    /// The same reports in full, for the history and the answer.
    details: BTreeMap<Item, (WorkerId, Arc<Completed>)>,
    /// Reports of other runs of the same items: which of them counts is decided once the records have been read.
    disputed: VecDeque<(WorkerId, Completed)>,
    /// Until when the reports wait for more of them.
    batching_until: Option<Mono>,
}

impl Reports {
    /// Returns the reports to be committed.
    pub(crate) fn by_item(&self) -> &BTreeMap<Item, Report> {
        &self.by_item
    }

    pub(crate) fn of(&self, item: Item) -> Option<&Report> {
        self.by_item.get(&item)
    }

    pub(crate) fn has(&self, item: Item) -> bool {
        self.by_item.contains_key(&item)
    }

    /// Whether there is no report to be committed.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_item.is_empty()
    }

    /// Returns the disputed reports: which of them counts is decided once the records have been read.
    pub(crate) fn disputed(&self) -> &VecDeque<(WorkerId, Completed)> {
        &self.disputed
    }

    /// Stores this host's own report of a run.
    pub(crate) fn put(&mut self, item: Item, report: Report) {
        self.by_item.insert(item, report);
    }

    /// The same, unless the item has a report.
    pub(crate) fn put_if_none(&mut self, item: Item, report: impl FnOnce() -> Report) {
        self.by_item.entry(item).or_insert_with(report);
    }

    /// Stores a worker's report of a run.
    pub(crate) fn said(&mut self, item: Item, report: Report, completed: Completed) {
        self.details.insert(item, (report.worker.clone(), Arc::new(completed)));
        self.by_item.insert(item, report);
    }

    /// Stores a worker's report of a run whose item has a report of another run.
    pub(crate) fn dispute(&mut self, worker: WorkerId, completed: Completed) {
        self.disputed.push_back((worker, completed));
    }

    pub(crate) fn take_disputed(&mut self) -> VecDeque<(WorkerId, Completed)> {
        std::mem::take(&mut self.disputed)
    }

    /// Removes the reports for which `stays` is false.
    pub(crate) fn retain(&mut self, mut stays: impl FnMut(Item, &Report) -> bool) {
        self.by_item.retain(|item, report| stays(*item, report));
    }

    /// Removes the report of an item, since it is decided.
    pub(crate) fn take(&mut self, item: Item) -> Option<Report> {
        self.by_item.remove(&item)
    }

    pub(crate) fn take_detail(&mut self, item: Item) -> Option<Arc<Completed>> {
        self.details.remove(&item).map(|(_, detail)| detail)
    }

    /// Returns the full report of this run, if its worker sent one.
    pub(crate) fn detail(&self, item: Item, token: Token, worker: &WorkerId) -> Option<&Arc<Completed>> {
        let (of, detail) = self.details.get(&item)?;
        (of == worker && detail.run.token == token).then_some(detail)
    }

    /// Returns until when the reports wait for more of them: `until`, unless they wait already.
    pub(crate) fn wait_until(&mut self, until: Mono) -> Mono {
        *self.batching_until.get_or_insert(until)
    }

    pub(crate) fn wait_no_more(&mut self) {
        self.batching_until = None;
    }
}
