//! The slots of a worker: the runs that use them, and the items that wait for them.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::{Item, JobName};
use rosterd_domain::item::Running;
use rosterd_domain::mutants;
use rosterd_domain::plan::Waiting;
use rosterd_session::frame::RunRef;

use crate::workers::waitlist::Waitlist;

/// The slots of a worker: the runs that use them, and the items that wait for them.
#[derive(Debug, Default)]
pub(crate) struct SlotLedger {
    slots: u32,
    /// Runs in flight in the records.
    runs: BTreeSet<(JobName, Item)>,
    /// Starts in transactions in flight.
    reserved: u32,
    /// Runs without a record, since their jobs do not use monitorExecution; each as it was sent, or `None` if the
    /// worker attached with it.
    untracked_runs: BTreeMap<RunRef, Option<Running>>,
    /// Runs that were taken away from the worker and that it still lists: each keeps its slot.
    taken_away: BTreeSet<RunRef>,
    /// Items of all jobs that wait for a slot.
    waiting: Waitlist,
    /// The number of reports that are not acknowledged.
    unacknowledged: usize,
}

impl SlotLedger {
    pub(crate) fn new(slots: u32) -> Self {
        Self { slots, ..Self::default() }
    }

    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns the number of slots that neither a run nor a start in flight uses.
    pub(crate) fn free(&self) -> u32 {
        if mutants::is_on(mutants::SLOTS_UNCOUNTED) {
            return self.slots;
        }
        let runs = self.runs.len() + self.untracked_runs.len() + self.taken_away.len();
        let used = u32::try_from(runs).unwrap_or(u32::MAX).saturating_add(self.reserved);
        self.slots.saturating_sub(used)
    }

    /// The worker attached again: keeps its runs in the records, starts in flight, waiting items and unacknowledged
    /// reports.
    pub(crate) fn go_on(&mut self, before: Self) {
        self.runs = before.runs;
        self.reserved = before.reserved;
        self.waiting = before.waiting;
        self.unacknowledged = before.unacknowledged;
    }

    /// A job is gone, and its runs with it.
    pub(crate) fn forget_job(&mut self, job: &JobName) {
        self.untracked_runs.retain(|run, _| run.job != *job);
        self.taken_away.retain(|run| run.job != *job);
        self.runs.retain(|(of, _)| of != job);
        self.waiting.set(job, Vec::new());
    }

    // ---- runs in the records

    /// Returns the runs in flight in the records.
    pub(crate) fn runs(&self) -> &BTreeSet<(JobName, Item)> {
        &self.runs
    }

    /// Whether a record assigns a run of the job to the worker.
    pub(crate) fn has_runs_of(&self, job: &JobName) -> bool {
        self.items_of(job).next().is_some()
    }

    /// Returns the items of the job whose records assign a run to the worker.
    pub(crate) fn items_of(&self, job: &JobName) -> impl Iterator<Item = Item> {
        let runs = self.runs.range((job.clone(), Item(0))..);
        runs.take_while(move |(of, _)| of == job).map(|(_, item)| *item)
    }

    /// A record assigns a run to the worker; false: it already did.
    pub(crate) fn run_began(&mut self, job: &JobName, item: Item) -> bool {
        self.runs.insert((job.clone(), item))
    }

    /// The record no longer assigns the run to the worker.
    pub(crate) fn run_ended(&mut self, job: &JobName, item: Item) {
        self.runs.remove(&(job.clone(), item));
    }

    // ---- starts under way

    /// Reserves slots for starts in a transaction in flight.
    pub(crate) fn reserve(&mut self, starts: u32) {
        self.reserved += starts;
    }

    /// Releases the slots of starts whose transaction has ended.
    pub(crate) fn release(&mut self, starts: u32) {
        self.reserved = self.reserved.saturating_sub(starts);
    }

    /// Whether a start is in a transaction in flight.
    pub(crate) fn is_reserved(&self) -> bool {
        self.reserved > 0
    }

    // ---- runs that no record holds

    /// Returns the runs that use a slot although no record assigns them to the worker.
    pub(crate) fn unrecorded(&self) -> impl Iterator<Item = &RunRef> {
        self.untracked_runs.keys().chain(&self.taken_away)
    }

    pub(crate) fn is_untracked(&self, run: &RunRef) -> bool {
        self.untracked_runs.contains_key(run)
    }

    /// Returns a run without a record, if it was sent from here.
    pub(crate) fn untracked(&self, run: &RunRef) -> Option<&Running> {
        self.untracked_runs.get(run)?.as_ref()
    }

    /// The worker is sent a run without a record.
    pub(crate) fn put_untracked(&mut self, run: RunRef, told: Running) {
        self.untracked_runs.insert(run, Some(told));
    }

    /// The worker lists a run without a record.
    pub(crate) fn found_untracked(&mut self, run: &RunRef) {
        self.untracked_runs.entry(run.clone()).or_insert(None);
    }

    /// A run without a record has ended. Returns it as it was sent, or `Some(None)` if it was not sent from here.
    pub(crate) fn take_untracked(&mut self, run: &RunRef) -> Option<Option<Running>> {
        self.untracked_runs.remove(run)
    }

    /// Forgets the runs without a record that the worker does not know, and returns them.
    pub(crate) fn forget_untracked(&mut self, knows: impl Fn(&RunRef) -> bool) -> Vec<RunRef> {
        let unknown: Vec<RunRef> = self.untracked_runs.keys().filter(|run| !knows(run)).cloned().collect();
        for run in &unknown {
            self.untracked_runs.remove(run);
        }
        unknown
    }

    /// A run was taken away from the worker, and keeps its slot as long as the worker lists it.
    pub(crate) fn take_away(&mut self, run: RunRef) {
        self.taken_away.insert(run);
    }

    /// The worker no longer has a run. Returns whether the run was taken away before, and kept its slot until now.
    pub(crate) fn let_go(&mut self, run: &RunRef) -> bool {
        self.taken_away.remove(run)
    }

    /// The worker lists only the runs in `held`. Returns the runs that were taken away and that it no longer lists.
    pub(crate) fn let_go_but(&mut self, held: &BTreeSet<&RunRef>) -> BTreeSet<RunRef> {
        let taken_away = std::mem::take(&mut self.taken_away);
        let (kept, let_go) = taken_away.into_iter().partition(|run| held.contains(run));
        self.taken_away = kept;
        let_go
    }

    // ---- what waits

    /// Returns the items of all jobs that wait for a slot.
    pub(crate) fn waiting(&self) -> &Waitlist {
        &self.waiting
    }

    /// Sets the waiting items of a job.
    pub(crate) fn wait(&mut self, job: &JobName, waiting: Vec<Waiting>) {
        self.waiting.set(job, waiting);
    }

    // ---- reports

    /// Returns the number of reports that are not acknowledged.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.unacknowledged
    }

    pub(crate) fn one_report_more(&mut self) {
        self.unacknowledged += 1;
    }

    pub(crate) fn one_report_less(&mut self) {
        self.unacknowledged = self.unacknowledged.saturating_sub(1);
    }
}
