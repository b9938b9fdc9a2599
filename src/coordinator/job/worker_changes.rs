//! The effects of workers' changes on jobs.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::{InstanceId, Item, JobName, WorkerId};
use rosterd_domain::mutants;
use rosterd_domain::plan::{Report, Reported};
use rosterd_session::frame::RunRef;

use crate::job::AllJobs;
use crate::job::Jobs;
use crate::workers::worker::Worker;
use crate::workers::{WorkerChange, WorkersTurn};

impl AllJobs<'_> {
    /// Applies the changes of workers to jobs, in order.
    pub(crate) fn hand_on(&mut self) {
        loop {
            let changes = self.workers.take_changes();
            if changes.is_empty() {
                return;
            }
            changes.into_iter().for_each(|change| self.worker_changed(change));
        }
    }

    fn worker_changed(&mut self, change: WorkerChange) {
        match change {
            WorkerChange::Attached { worker, instance, jobs, lost, narrowed, moving } => {
                self.lose(&worker, lost, narrowed);
                for name in jobs {
                    let job = self.jobs.all.entry(name.clone()).or_default();
                    job.roster.join(&name, &instance, &worker, &mut self.jobs.index);
                    job.roster.forget_published(&instance);
                }
                for name in moving {
                    self.moves(name, worker.clone());
                }
            }
            WorkerChange::Welcomed(worker) => self.welcomed(&worker),
            WorkerChange::AttachmentWritten(worker) => self.jobs_have_their_turn(&worker),
            WorkerChange::Draining(worker) => self.drains(&worker),
            WorkerChange::Leaving(worker) => self.goes_on_leaving(&worker),
            WorkerChange::Gone { worker, dead } => self.worker_gone(&worker, dead),
            WorkerChange::Orphaned(worker) => self.mark_dead(&worker),
            WorkerChange::SeenElsewhere(worker) => self.seen_elsewhere(&worker),
            WorkerChange::AttachmentsRead => {
                self.look_for_the_gone();
                self.look_at_all();
            }
        }
    }

    /// Gives every job a turn.
    pub(crate) fn look_at_all(&mut self) {
        self.schedule.run_queue.extend(self.jobs.all.keys().cloned());
    }

    fn welcomed(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.get(id) else { return };
        let runs = worker.ledger.runs().iter().map(|(name, _)| name);
        let jobs: BTreeSet<JobName> = worker.work.jobs().chain(runs).cloned().collect();
        self.reconcile_worker(id);
        self.schedule.run_queue.extend(jobs);
    }

    fn drains(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.get(id) else { return };
        for name in worker.work.jobs() {
            if let Some(job) = self.jobs.all.get_mut(name) {
                job.roster.leave(&worker.instance);
                self.schedule.run_queue.insert(name.clone());
            }
        }
        self.confirm_draining(id);
    }

    /// Confirms that a worker drains once no Trigger can follow.
    pub(crate) fn confirm_draining(&mut self, id: &WorkerId) {
        let jobs = &self.jobs.all;
        let settled = |name: &JobName| {
            jobs.get(name).is_none_or(|job| !job.cache.records_are_stale() && !job.writer.is_reading())
        };
        let nothing_follows = |worker: &Worker| {
            // A Trigger may wait for its offset to be read; until then the worker must not be told that none follows.
            let unsent = |(name, item): &(JobName, Item)| {
                jobs.get(name).and_then(|job| job.cache.record(*item)).is_some_and(|(_, record)| {
                    let run = RunRef { job: name.clone(), item: *item, token: record.token };
                    record.running().is_some_and(|run| !run.held) && !worker.flight.knows(&run)
                })
            };
            !worker.ledger.runs().iter().any(unsent) && worker.work.jobs().all(settled)
        };
        let mut turn = WorkersTurn {
            workers: self.workers,
            cluster: self.cluster,
            schedule: self.schedule,
            io: self.io,
        };
        turn.confirm_draining(id, nothing_follows);
    }

    /// A worker may be able to proceed with leaving. Its runs in flight after its Goodbye are handed back.
    pub(crate) fn goes_on_leaving(&mut self, id: &WorkerId) {
        self.confirm_draining(id);
        let Some((version, in_flight)) = self.workers_turn().finish_goodbye(id) else { return };
        for (name, item) in in_flight {
            let Some(job) = self.jobs.all.get_mut(&name) else { continue };
            let Some((_, record)) = job.cache.record(item) else { continue };
            let ended = Reported::HandedBackByHost(version);
            let report = Report { token: record.token, worker: id.clone(), ended, offset: None };
            // A report from the worker itself overrides this.
            if job.reports.of(item).is_none_or(|known| known.ended.is_left()) {
                job.reports.put(item, report);
            }
            self.schedule.run_queue.insert(name);
        }
    }

    /// Checks whether workers can proceed with leaving.
    pub(crate) fn look_at_leavers(&mut self) {
        for id in self.workers.take_leavers() {
            self.goes_on_leaving(&id);
        }
    }

    /// A worker is no longer here: it is dead, or attached elsewhere.
    fn worker_gone(&mut self, worker: &Worker, dead: bool) {
        for name in self.jobs_of(worker) {
            let Some(job) = self.jobs.all.get_mut(&name) else { continue };
            let _hosted = job.roster.part(&name, &worker.instance, &mut self.jobs.index);
            job.dispatch.forget_assignment(&worker.instance);
            if dead {
                job.roster.mark_dead(&worker.id, Some(&worker.instance));
            }
            job.drop_handoff_reports(&worker.id);
            self.schedule.run_queue.insert(name);
        }
        if dead {
            // Jobs that it never moved here may name it as well.
            self.mark_dead(&worker.id);
        }
    }

    /// Leaders of jobs that lack the worker's instance check again.
    fn seen_elsewhere(&mut self, id: &WorkerId) {
        let jobs = &self.jobs.all;
        let leads = |name: &JobName| jobs.get(name).is_some_and(|job| job.leads());
        let named = self.jobs.index.of(id).filter(|(name, mention)| mention.is_planned() && leads(name));
        self.schedule.run_queue.extend(named.map(|(name, _)| name.clone()));
    }

    /// For workers that were just attached: jobs that know them although their Hello does not name these, since their
    /// runs take slots as well; and their runs in known records. Once for all workers that arrived together: a scan of
    /// a job for each of thousands takes longer than they wait.
    pub(crate) fn settle_attached(&mut self) {
        let attached = self.workers.take_attached();
        if attached.is_empty() {
            return;
        }
        let known =
            attached.keys().filter_map(|id| Some((self.workers.get(id)?.instance.clone(), id.clone())));
        let instances: BTreeMap<InstanceId, WorkerId> = known.collect();
        let unread = mutants::is_on(mutants::RECORDS_READ_BEFORE_ATTACHMENT);
        let (mut moving, mut runs) = (Vec::new(), Vec::new());
        let concerned: BTreeSet<&JobName> =
            attached.keys().flat_map(|id| self.jobs.index.of(id)).map(|(name, _)| name).collect();
        for name in concerned {
            let Some(job) = self.jobs.all.get(name) else { continue };
            if let Some(view) = job.cache.view().filter(|_| !unread) {
                let named = view.instances.keys().chain(view.sharding.instances());
                let named: BTreeSet<&WorkerId> =
                    named.filter_map(|instance| instances.get(instance)).collect();
                moving.extend(named.into_iter().map(|id| (name.clone(), id.clone())));
            }
            for (item, (_, record)) in job.cache.records() {
                let Some(run) = record.running() else { continue };
                if attached.get(&run.worker).is_some_and(|has_runs| *has_runs) {
                    runs.push((run.worker.clone(), name.clone(), *item));
                }
            }
        }
        for (name, id) in &moving {
            if self.workers.get(id).is_some_and(|worker| !worker.work.may_have(name)) {
                self.loses(id, name);
            }
        }
        for (id, name, item) in runs {
            if let Some(worker) = self.workers.get_mut(&id) {
                worker.ledger.run_began(&name, item);
            }
        }
        for (name, id) in moving {
            if self.workers.get(&id).is_some_and(|worker| !worker.link.is_fresh()) {
                self.moves(name, id);
            }
        }
        for id in attached.into_keys() {
            self.workers_turn().welcome_if_moved(&id);
            self.hand_on();
        }
    }

    /// A worker is welcomed only after this job's records have been read, after its attachment was written.
    pub(crate) fn moves(&mut self, name: JobName, id: WorkerId) {
        if !self.workers.wait_for_read(id, &name) {
            return;
        }
        let job = self.jobs.all.entry(name.clone()).or_default();
        job.cache.records_went_stale();
        self.schedule.run_queue.insert(name);
    }

    /// A worker that is attached nowhere left, or was marked dead. The coordinator that did so ends its runs, but may
    /// have died before: jobs whose records name a worker of which nothing is known are read again, and then its runs
    /// are handled.
    fn look_for_the_gone(&mut self) {
        let Jobs { all, index, .. } = &mut *self.jobs;
        let gone = index.all().filter(|(id, _)| !self.workers.is_anywhere(id));
        for (id, jobs) in gone {
            for (name, _) in jobs.iter().filter(|(_, mention)| mention.has_runs()) {
                if let Some(job) = all.get_mut(name).filter(|job| !job.roster.is_dead(id)) {
                    job.cache.records_went_stale();
                }
            }
        }
    }

    /// A worker is dead: updates every job whose records, instances or commands name it.
    pub(crate) fn mark_dead(&mut self, id: &WorkerId) {
        self.check_index();
        let Jobs { all, index, .. } = &mut *self.jobs;
        for (name, mention) in index.of(id).filter(|(_, mention)| mention.is_stored()) {
            let Some(job) = all.get_mut(name) else { continue };
            job.roster.mark_dead(id, mention.instance());
            // Another host wrote the records of its runs.
            job.cache.records_went_stale();
            self.schedule.run_queue.insert(name.clone());
        }
    }

    /// The simulation compares the index with a full scan, at each death.
    fn check_index(&self) {
        debug_assert_eq!(self.jobs.indexed(), self.jobs.index, "a full scan and the index differ");
    }

    /// The jobs that know a worker of this host: those that it works for, those that host it although its move or
    /// registration has not ended, and may never end, and those of its runs.
    pub(crate) fn jobs_of(&self, worker: &Worker) -> BTreeSet<JobName> {
        let hosting = self.jobs.index.of(&worker.id).filter(|(_, mention)| mention.is_hosted());
        let running = worker.ledger.runs().iter().map(|(name, _)| name);
        worker.work.jobs().chain(hosting.map(|(name, _)| name)).chain(running).cloned().collect()
    }

    /// A write of the worker's attachment has ended, which its jobs may have waited for: those above, and those with a
    /// command for it, which may be done now.
    pub(crate) fn jobs_have_their_turn(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.get(id) else { return };
        let commanded = self.jobs.index.of(id).filter(|(_, mention)| mention.is_commanded());
        let commanded = commanded.map(|(name, _)| name.clone());
        let jobs: BTreeSet<JobName> = self.jobs_of(worker).into_iter().chain(commanded).collect();
        self.schedule.run_queue.extend(jobs);
    }

    /// Takes jobs away from a worker that was just attached: those `named` that its credential is not for, and, if it
    /// had more before, those that are known here.
    pub(crate) fn lose(&mut self, id: &WorkerId, named: Vec<JobName>, narrowed: bool) {
        let Some(worker) = self.workers.get(id) else { return };
        let known = if narrowed { self.jobs_of(worker) } else { BTreeSet::new() };
        let known = known.into_iter().filter(|name| !worker.work.may_have(name));
        let lost: BTreeSet<JobName> = known.chain(named).collect();
        for name in lost {
            self.loses(id, &name);
        }
    }

    /// The worker is no longer an instance of the job. A job that is not known here gets no state.
    pub(crate) fn loses(&mut self, id: &WorkerId, name: &JobName) {
        let stays = mutants::is_on(mutants::LOST_JOBS_STAY);
        let Some(worker) = self.workers.get_mut(id).filter(|_| !stays) else { return };
        worker.work.lose(name);
        let Some(job) = self.jobs.all.get_mut(name) else { return };
        let instance = &worker.instance;
        job.roster.forget_registration(id);
        job.roster.forget_published(instance);
        job.dispatch.forget_assignment(instance);
        let hosted = job.roster.part(name, instance, &mut self.jobs.index).is_some();
        let stands = job.cache.view().is_some_and(|view| {
            view.instances.contains_key(instance) || view.sharding.instances().contains(instance)
        });
        if hosted || stands {
            tracing::warn!(job = %name, %instance, "a worker's credential no longer covers the job: its instance is removed");
            job.roster.leave(instance);
            self.schedule.run_queue.insert(name.clone());
        }
    }
}
