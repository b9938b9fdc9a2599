//! What happens after a read of a job.

use std::collections::BTreeSet;
use std::sync::Arc;

use rosterd_domain::id::{Item, JobName, WorkerId};
use rosterd_domain::item::Outcome;
use rosterd_domain::mutants;
use rosterd_domain::plan::Entry;
use rosterd_domain::snapshot::{JobNodes, Snapshot};
use rosterd_domain::view::Job;
use rosterd_registry::ReadError;
use rosterd_session::frame::ToWorker;

use crate::io::event::Effect;
use crate::job::gauges::has_orphans;
use crate::job::parts::cache::{Damaged, KnownJob, Torn};
use crate::job::state::JobState;
use crate::job::{AllJobs, JobTurn};

/// Why a job with a config and without an incarnation is left alone.
const UNFINISHED: &str = "it has a config and no incarnation: it is being imported, an import of it did not end (run \
                          that again), or it is Elastic-Job's own (`rosterd import elastic-job` takes it over)";

fn torn(nodes: &JobNodes) -> Option<Torn> {
    Some(Torn {
        incarnation: nodes.incarnation.clone()?,
        config_version: nodes.config.as_ref()?.version,
        generation: nodes.generation,
        assignment: nodes.assignment.clone(),
    })
}

impl AllJobs<'_> {
    /// A job was changed.
    pub(crate) fn job_moved(&mut self, name: JobName) {
        if self.jobs.drop_hints {
            return;
        }
        if let Some(job) = self.jobs.all.get_mut(&name) {
            job.cache.went_stale();
            self.schedule.run_queue.insert(name);
        }
    }

    /// Changes in the meantime gave no hints.
    pub(crate) fn read_all_again(&mut self) {
        for (name, job) in self.jobs.all.iter_mut() {
            job.cache.records_went_stale();
            self.schedule.run_queue.insert(name.clone());
        }
    }

    /// Reads the records of a job again, unless the timer is stale.
    pub(crate) fn reread(&mut self, name: JobName) {
        let now = self.io.now.mono;
        if let Some(job) = self.jobs.all.get_mut(&name)
            && job.wakeups.take_reread(now)
        {
            job.cache.records_went_stale();
            self.schedule.run_queue.insert(name);
        }
    }

    // ---- reads

    pub(crate) fn nodes_read(&mut self, name: JobName, read: Result<Option<JobNodes>, ReadError>) {
        let Some((mut turn, job)) = self.turn_of(&name) else { return };
        job.writer.read_ended();
        match read {
            Ok(nodes) => {
                let before = job.cache.view().cloned();
                turn.take_nodes(&name, job, nodes);
                if records_are_behind(job, before.as_deref()) {
                    job.cache.records_went_stale();
                }
            }
            Err(error) => turn.read_failed(&name, job, &error),
        }
        // A worker that drains waits for every read of its jobs, including this one.
        self.workers.leavers_may_go_on();
        self.schedule.run_queue.insert(name);
    }

    pub(crate) fn job_read(&mut self, name: JobName, read: Result<Option<Snapshot>, ReadError>) {
        let Some((mut turn, job)) = self.turn_of(&name) else { return };
        job.writer.read_ended();
        // Workers that arrived meanwhile wait for the next read; this one covers those that arrived before it.
        let came_meanwhile = job.cache.take_records_stale();
        if read.is_ok() {
            for reserved in job.writer.take_doubts() {
                turn.workers.release_slots(&reserved);
            }
        }
        match read {
            Ok(None) => turn.take_nodes(&name, job, None),
            Ok(Some(snapshot)) => {
                let gone: Vec<Item> = job
                    .cache
                    .records()
                    .keys()
                    .filter(|item| !snapshot.records.contains_key(item))
                    .copied()
                    .collect();
                for item in gone {
                    turn.drop_record(&name, job, item);
                }
                for (item, (version, record)) in snapshot.records {
                    turn.put_record(&name, job, item, version, record);
                }
                turn.take_nodes(&name, job, Some(snapshot.nodes));
                turn.look_at_runs(&name, job);
            }
            Err(error) => turn.read_failed(&name, job, &error),
        }
        let (read, exists) = (job.cache.records_are_current(), job.cache.view().is_some());
        if came_meanwhile {
            job.cache.records_went_stale();
        }
        let readers = turn.workers.read_ended(&name);
        if !job.cache.existed() {
            job.roster.was_named_by(readers.iter().cloned());
        }
        if read {
            self.moved_in_all(readers, &name, exists);
        } else {
            self.workers.wait_again(&name, readers);
        }
        self.workers.leavers_may_go_on();
        self.schedule.run_queue.insert(name);
    }

    fn moved_in_all(&mut self, readers: BTreeSet<WorkerId>, name: &JobName, exists: bool) {
        for id in readers {
            self.moved_in(&id, name, exists);
        }
    }

    /// The records of a job were read after the worker's attachment was written.
    fn moved_in(&mut self, id: &WorkerId, name: &JobName, exists: bool) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        if worker.link.moved(name) {
            let brings = worker.link.is_taken_over() && worker.ledger.has_runs_of(name);
            if let Some(job) = self.jobs.all.get_mut(name).filter(|_| brings) {
                job.roster.comes_unmarked(id.clone());
            }
            let hosted = self.jobs.all.get(name).is_some_and(|job| job.roster.hosts(&worker.instance));
            if hosted && exists {
                worker.work.begin(name);
            }
            self.workers_turn().welcome_if_moved(id);
            self.hand_on();
        }
    }
}

impl JobTurn<'_> {
    pub(crate) fn read_failed(&mut self, name: &JobName, job: &mut JobState, error: &ReadError) {
        job.cache.records_went_stale();
        if let ReadError::Damaged { .. } = error {
            tracing::error!(job = %name, "{error}: the job is left alone until that node is mended or deleted");
            let before = job.cache.view().cloned();
            job.cache.cannot_be_read(format!("{error}: mend that node, or delete it"));
            return self.index.view_changed(name, before.as_deref(), None);
        }
        job.writer.back_off(self.io.now.mono.plus(self.io.settings.store_retry));
    }

    fn take_nodes(&mut self, name: &JobName, job: &mut JobState, nodes: Option<JobNodes>) {
        let known = job.cache.read_again();
        let (first, was_ending, before) = (known.is_unread(), known.is_ending(), known.view().cloned());
        let seen = before.clone();
        let is_there = nodes.as_ref().is_some_and(|nodes| nodes.config.is_some());
        if let Some(gone) = before.as_deref().filter(|_| !is_there) {
            self.tell_no_owners(gone);
        }
        let Some(nodes) = nodes else {
            self.index.view_changed(name, seen.as_deref(), None);
            // Its removal may have been observed in two steps.
            return self.job_has_gone(name, job, before.is_some() || was_ending);
        };
        let configured = nodes.config.is_some();
        let torn = torn(&nodes);
        match Job::decode_after(name, nodes, before.as_deref()) {
            Ok(Some(view)) => {
                let other = before.as_ref().is_some_and(|before| before.incarnation != view.incarnation);
                let again = other || was_ending;
                if again {
                    job.cache.records_went_stale();
                    job.dispatch.forget_offsets();
                    // The nodes of the removed job went with it: these instances were not shut down.
                    job.roster.forget_all_published();
                }
                let view = Arc::new(view);
                self.take_view(name, job, before.filter(|_| !again), view);
            }
            // A removed job has neither. A job with only a config is not ours to sweep.
            Ok(None) if !configured => job.cache.found(KnownJob::Ending),
            found => {
                let why = found.err().unwrap_or_else(|| UNFINISHED.to_owned());
                tracing::error!(job = %name, "the job cannot be understood and is left alone: {why}");
                job.cache.found(KnownJob::Damaged(Damaged { why, torn, ending: false }));
            }
        }
        self.index.view_changed(name, seen.as_deref(), job.cache.view().map(Arc::as_ref));
        if first && job.cache.view().is_some() {
            self.look_at_runs(name, job);
        }
    }

    fn job_has_gone(&mut self, name: &JobName, job: &mut JobState, was_there: bool) {
        self.end_runs_of_removed(name, job);
        let records: Vec<Item> = job.cache.records().keys().copied().collect();
        for item in records {
            self.drop_record(name, job, item);
        }
        job.dispatch.forget_job();
        for id in job.roster.hosted().values().filter(|_| was_there) {
            if let Some(stream) = self.workers.get(id).and_then(|worker| worker.link.stream()) {
                let message = "the job was removed".to_string();
                self.workers.send(self.io, stream, ToWorker::Shutdown { job: Some(name.clone()), message });
            }
        }
        for id in job.roster.part_all(name, self.index) {
            if let Some(worker) = self.workers.get_mut(&id) {
                worker.work.end(name);
            }
        }
    }

    /// Runs that were in flight here end with their job: their reports no longer find a record.
    fn end_runs_of_removed(&mut self, name: &JobName, job: &JobState) {
        let at = self.io.now.wall;
        for (item, (_, record)) in job.cache.records() {
            let Some(run) = record.running().filter(|run| self.workers.is_here(&run.worker)) else {
                continue;
            };
            let (item, token, run, outcome) = (*item, record.token, run.clone(), Outcome::Cancelled);
            let entry = Entry::Ended { item, token, run, outcome, at, requeued: false };
            self.io.out.push(Effect::Record { job: name.clone(), at, entry, detail: None });
        }
    }

    fn take_view(&mut self, name: &JobName, job: &mut JobState, before: Option<Arc<Job>>, view: Arc<Job>) {
        let hosted = view.sharding.owned().filter(|(_, owner)| job.roster.hosts(owner));
        let mine = hosted.map(|(item, _)| item);
        let generation_moved = before.as_ref().is_none_or(|before| before.generation != view.generation);
        if generation_moved {
            // A host that gains an item of a dead owner owns it from now on, even if the assignment named the dead one
            // until now.
            let goes_on = |item| {
                let owner = before.as_ref().map(|before| before.sharding.owner(item));
                owner.is_none_or(|owner| owner.is_some_and(|owner| job.roster.hosts(owner)))
                    || mutants::is_on(mutants::DEAD_OWNERS_COUNT)
            };
            let known = |item: &Item| job.roster.owned_since().get(item).copied().filter(|_| goes_on(*item));
            let since = |item| known(&item).unwrap_or(self.io.now.wall);
            let since = mine.map(|item| (item, since(item))).collect();
            job.roster.owns_since(since);
        }
        job.cache.found(KnownJob::Present(view.clone()));
        self.follow_interval(name, job, before.as_deref());
        self.tell_assignments(name, job, &view);
        self.tell_owners(name, job, &view, before.as_deref());
    }

    /// Runs in the records: those of workers here are sent if they do not know them, those of unknown workers are
    /// checked.
    fn look_at_runs(&mut self, name: &JobName, job: &mut JobState) {
        let runs: Vec<(Item, WorkerId)> = job
            .cache
            .records()
            .iter()
            .filter_map(|(item, (_, record))| Some((*item, record.running()?.worker.clone())))
            .collect();
        for (item, worker) in runs {
            if self.workers.is_here(&worker) {
                if !mutants::is_on(mutants::UNTOLD_STAYS_UNTOLD) {
                    self.dispatch(name, job, item);
                }
            } else if !self.workers.is_anywhere(&worker) && !job.roster.is_dead(&worker) {
                self.io.read(
                    crate::io::pending::ReadFor::Suspect(worker.clone()),
                    crate::io::event::Query::Attachment(worker),
                );
            }
        }
    }
}

impl AllJobs<'_> {
    pub(crate) fn jobs_read(&mut self, jobs: BTreeSet<JobName>) {
        for job in jobs {
            if !self.jobs.all.contains_key(&job) {
                self.jobs.all.insert(job.clone(), Box::default());
                self.schedule.run_queue.insert(job);
            }
        }
        // If one was removed, its read shows that.
        let gone: Vec<JobName> = self
            .jobs
            .all
            .iter()
            .filter(|(_, job)| job.cache.known().is_ending())
            .map(|(n, _)| n.clone())
            .collect();
        for job in gone {
            if let Some(state) = self.jobs.all.get_mut(&job) {
                state.cache.went_stale();
            }
            self.schedule.run_queue.insert(job);
        }
    }
}

/// Whether the decision state indicates records that others wrote: of items that we have just gained, and of runs that
/// crashed elsewhere and wait for failover. Run state itself gives no hint.
fn records_are_behind(job: &JobState, before: Option<&Job>) -> bool {
    let (Some(view), Some(before)) = (job.cache.view().map(Arc::as_ref), before) else { return false };
    let ours = |view: &Job| -> BTreeSet<Item> {
        view.sharding.owned().filter(|(_, owner)| job.roster.hosts(owner)).map(|(item, _)| item).collect()
    };
    let gains = view.generation != before.generation && !ours(view).is_subset(&ours(before));
    let waits = |item: &Item| job.cache.record(*item).is_some_and(|(_, record)| record.crashed().is_some());
    gains
        || has_orphans(view, before)
        || view.failover.iter().any(|item| !before.failover.contains(item) && !waits(item))
}
