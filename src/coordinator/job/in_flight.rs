//! Compares a worker's runs in flight with the records, both ways: a run in flight that no record names is cancelled.

use std::collections::BTreeSet;

use rosterd_domain::id::{Item, JobName, WorkerId};
use rosterd_domain::mutants;
use rosterd_domain::plan::{Report, Reported};
use rosterd_session::frame::{CancelReason, RunRef};

use crate::job::state::JobState;
use crate::job::{AllJobs, JobTurn};
use crate::workers::parts::flight::Unheeded;
use crate::workers::parts::link::AttachmentPhase;

/// How often a worker is sent a run before the run is ended: each time followed by three heartbeats that do not list
/// it.
const MOST_TOLD: u32 = 5;

impl AllJobs<'_> {
    /// After Welcome: compares the worker's runs in flight with the records of its jobs.
    pub(crate) fn reconcile_worker(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.get(id) else { return };
        let in_flight: Vec<RunRef> = worker.flight.told().keys().cloned().collect();
        self.compare_runs(id, &in_flight);
    }

    /// Compares a worker's runs in flight with the records, both ways.
    pub(crate) fn compare_runs(&mut self, id: &WorkerId, in_flight: &[RunRef]) {
        for reference in in_flight {
            self.check_in_flight(id, reference);
        }
        let Some(worker) = self.workers.get_mut(id) else { return };
        if worker.link.phase() == AttachmentPhase::Attaching {
            return;
        }
        let (now, patience) = (self.io.now.mono, self.io.settings.heartbeat * 3);
        // Runs that were sent a while ago and are not in flight did not arrive.
        let held: BTreeSet<&RunRef> = in_flight.iter().collect();
        let recorded = worker.ledger.runs();
        let is_recorded = |run: &RunRef| recorded.contains(&(run.job.clone(), run.item));
        worker.flight.holds(&held, (now, patience), is_recorded);
        let mut gone = worker.ledger.forget_untracked(|run| worker.flight.knows(run));
        gone.extend(worker.ledger.let_go_but(&held));
        let freed = !gone.is_empty();
        self.schedule.run_queue.extend(gone.into_iter().map(|run| run.job));
        let (jobs, known) = (&self.jobs.all, worker.flight.told());
        let told = |(name, item): &&(JobName, Item)| {
            let token =
                jobs.get(name).and_then(|job| job.cache.record(*item)).map(|(_, record)| record.token);
            token.is_some_and(|token| known.contains_key(&RunRef { job: name.clone(), item: *item, token }))
        };
        let mut untold: Vec<(JobName, Item)> =
            worker.ledger.runs().iter().filter(|run| !told(run)).cloned().collect();
        if mutants::is_on(mutants::UNTOLD_STAYS_UNTOLD) {
            untold.clear();
        }
        let mut last = None;
        for (name, item) in untold {
            let Some((mut turn, job)) = self.turn_of(&name) else { continue };
            if turn.is_forgotten(id, &name, job, item) {
                continue;
            }
            // The properties of a run are in the Assignment, which must not come after it.
            if let Some(view) = job.cache.view().cloned().filter(|_| last.as_ref() != Some(&name)) {
                turn.tell_assignments(&name, job, &view);
                last = Some(name.clone());
            }
            turn.dispatch(&name, job, item);
        }
        if freed {
            self.workers.slot_freed(id);
        }
    }

    fn check_in_flight(&mut self, id: &WorkerId, reference: &RunRef) {
        // Jobs that the worker is not concerned with are ignored: those named in a Hello were read for it.
        let concerns = self.workers.get(id).is_some_and(|worker| worker.concerns(&reference.job));
        let Some(job) = self.jobs.all.get(&reference.job).filter(|_| concerns) else { return };
        if !job.records_are_known() {
            return;
        }
        // Lower tokens belong to an earlier job of this name.
        let unmonitored =
            job.cache.view().is_some_and(|view| !view.rules.monitor && reference.token.0 > view.first.0);
        let mut apart = false;
        let named = job.cache.record(reference.item).is_some_and(|(_, record)| {
            let runs =
                record.running().is_some_and(|run| run.worker == *id) && record.token == reference.token;
            let ended =
                record.last.as_ref().is_some_and(|last| last.token == reference.token && last.reported);
            apart = unmonitored && !runs && !ended && reference.token <= record.token;
            runs || ended || apart
        });
        if let Some(worker) =
            self.workers.get_mut(id).filter(|worker| apart && worker.flight.knows(reference))
        {
            worker.ledger.found_untracked(reference);
        }
        if !named {
            self.workers_turn().cancel(
                id,
                reference.clone(),
                CancelReason::Fenced,
                "another run of the item took its place",
            );
        }
    }
}

impl JobTurn<'_> {
    /// Whether its worker was sent a run again and again and never listed it, so that it cannot know the run. If true,
    /// the run is ended as crashed.
    fn is_forgotten(&mut self, id: &WorkerId, name: &JobName, job: &mut JobState, item: Item) -> bool {
        let Some((_, record)) = job.cache.record(item) else { return false };
        let (token, run) = (record.token, RunRef { job: name.clone(), item, token: record.token });
        let Some(worker) = self.workers.get_mut(id) else { return false };
        let Unheeded { times: told, since } = worker.flight.unheeded(&run);
        let theirs = record.running().is_some_and(|running| running.worker == *id);
        // A frame sent a lease before a heartbeat had arrived by then; otherwise no acknowledgement after it had
        // arrived either, and the lease had expired. And that heartbeat is not older than a lease, or the lease has
        // expired now.
        let arrives = 2 * self.io.settings.verdict_after(self.io.settings.lease);
        let arrived = since.is_some_and(|since| self.io.now.mono.since(since) > arrives)
            || mutants::is_on(mutants::FORGOTTEN_TOO_SOON);
        if told < MOST_TOLD || !arrived || !theirs || mutants::is_on(mutants::FORGOTTEN_RUNS_STAY) {
            return false;
        }
        let ended = Reported::Forgotten(worker.link.version());
        job.reports.put_if_none(item, || {
            tracing::warn!(job = %name, item = item.0, %token, worker = %id, "a worker was told of a run {told} times and never named it: the run is ended as crashed");
            Report { token, worker: id.clone(), ended, offset: None }
        });
        self.schedule.run_queue.insert(name.clone());
        true
    }
}
