//! Membership as tools read it: the `instances` nodes of a job's workers here, and the marks of their runs. Both are
//! ephemeral, end with the session of the host that wrote them, and are written again by the next one.

use std::sync::Arc;

use rosterd_domain::id::{InstanceId, JobName, WorkerId};
use rosterd_domain::item::Source;
use rosterd_domain::mutants;
use rosterd_domain::plan::{Report, Reported};
use rosterd_domain::txn::{Guard, Purpose, Txn, Write};
use rosterd_domain::view::Job;
use rosterd_session::frame::ToWorker;

use crate::job::JobTurn;
use crate::job::changes::evict_instances;
use crate::job::parts::writer::Intent;
use crate::job::state::JobState;
use crate::job::txn::{CHUNK, guarded, rewrite};
use crate::workers::parts::link::AttachmentPhase;
use crate::workers::worker::Worker;

impl JobTurn<'_> {
    /// Checks our instance nodes of workers that are attached nowhere. Such a worker was hosted here, then by another
    /// host, and both went away before that host had written its own node or removed ours: as long as our session
    /// lives, nobody else removes these.
    pub(crate) fn look_at_left_behind(&mut self, job: &JobState, view: &Job) {
        let mine = view.instances.iter().filter(|(_, seen)| seen.mine).map(|(instance, _)| instance);
        for instance in mine.filter(|instance| !job.roster.hosts(instance)) {
            let Some(worker) = instance.worker() else { continue };
            let known = self.workers.is_anywhere(&worker);
            if !known && !job.roster.is_leaving(instance) {
                self.workers_turn().look_later(worker);
            }
        }
    }

    /// Hands back held runs whose instance has left the job, since they will not be sent there. Earlier reports are
    /// checked against the current state: such a run may have been released meanwhile, and its worker may have another
    /// attachment.
    pub(crate) fn hand_back_held(&self, name: &JobName, job: &mut JobState) {
        let stays = mutants::is_on(mutants::HANDED_BACK_BY_THE_DEAD);
        let is_leaving = |id: &WorkerId| {
            self.workers.get(id).is_none_or(|worker| worker.link.phase() == AttachmentPhase::Leaving || stays)
        };
        let is_at = |id: &WorkerId, version| {
            self.workers.get(id).is_some_and(|worker| worker.link.version() == version)
        };
        job.reports.retain(|_, report| match report.ended {
            Reported::HandedBackByHost(_) => is_leaving(&report.worker),
            Reported::Forgotten(version) => is_at(&report.worker, version),
            _ => true,
        });
        if mutants::is_on(mutants::HELD_OUTLIVES_INSTANCE) {
            return;
        }
        for (item, (_, record)) in job.cache.records() {
            let Some(run) = record.running().filter(|run| run.held) else { continue };
            let Some(worker) = self.workers.get(&run.worker) else { continue };
            let registers =
                || job.roster.registering().iter().any(|registering| registering.worker == run.worker);
            let has_it =
                job.roster.hosts(&run.instance) || worker.work.is_yet_to_register(name) || registers();
            let here =
                matches!(worker.link.phase(), AttachmentPhase::Attached | AttachmentPhase::Draining { .. });
            if here && !has_it && !job.reports.has(*item) {
                let (token, ended) = (record.token, Reported::HandedBackByHost(worker.link.version()));
                job.reports.put(*item, Report { token, worker: run.worker.clone(), ended, offset: None });
            }
        }
    }

    /// Writes instances of workers here that are missing or not ours, removes those that left, and marks the runs that
    /// came with their workers.
    pub(crate) fn instances(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        if self.cluster.is_stopping() {
            return false;
        }
        self.answer_registrations(name, job, view);
        if job.writer.is_writing() {
            return true;
        }
        if job.roster.is_settled(view) {
            return false;
        }
        if self.handle_foreign_deletion(name, job, view) {
            return true;
        }
        self.look_at_left_behind(job, view);
        let mut txn = guarded(Purpose::Instances, view);
        let (mut put, mut removed, mut joined) = (Vec::new(), Vec::new(), false);
        for (instance, id) in job.roster.hosted() {
            let Some(worker) =
                self.workers.get(id).filter(|worker| worker.present() && !worker.link.is_writing())
            else {
                continue;
            };
            if view.commands.values().any(|command| command.shuts_down(instance)) {
                continue;
            }
            let seen = view.instances.get(instance);
            // A machine may have been removed just as this instance joined.
            if seen.is_some_and(|seen| seen.mine && seen.node.is_some())
                && view.servers.contains_key(&worker.address)
            {
                continue;
            }
            joined |= seen.is_none() && !view.sharding.instances().contains(instance);
            txn.guard(Guard::Attachment(id.clone(), worker.link.version()));
            txn.write(Write::Server { job: name.clone(), server: worker.address.clone(), enabled: None });
            let node = Box::new(worker.node());
            txn.write(Write::Instance { job: name.clone(), instance: instance.clone(), node });
            if view.rules.monitor {
                mark_runs(&mut txn, name, job, worker);
            }
            put.push(id.clone());
            if put.len() >= CHUNK {
                // The others have their turn after this.
                break;
            }
        }
        let marked = self.mark_what_came(&mut txn, name, job, view, &put);
        let mut sharding = None;
        for instance in job.roster.leaving() {
            // A worker that stays without this job does not come back: nobody should wait for it.
            let stays = instance.worker().and_then(|id| self.workers.get(&id)).is_some_and(Worker::present);
            let planned = stays && view.sharding.instances().contains(instance);
            if planned {
                sharding = Some(sharding.as_ref().unwrap_or(&view.sharding).without(instance));
            }
            // It may have ended with the session of the worker's last host, before that host had removed it.
            let stands = view.instances.contains_key(instance);
            if stands && stays && !planned {
                // A plan in flight may still assign items to it, and would wait for it like for one that is about to
                // come back.
                txn.guard(Guard::Generation(name.clone(), view.generation));
            }
            if stands {
                txn.write(Write::RemoveInstance(name.clone(), instance.clone()));
            }
            if stands || planned {
                removed.push(instance.clone());
            }
        }
        if let Some(sharding) = sharding {
            rewrite(&mut txn, view, &sharding);
        }
        if put.is_empty() && removed.is_empty() && marked.is_empty() {
            job.roster.all_have_left();
            self.answer_unregistering(name, job);
            job.roster.settle(view);
            return false;
        }
        if joined || !removed.is_empty() {
            txn.write(Write::RaiseNecessary(name.clone()));
        }
        self.submit(name, job, txn, Intent::Instances { put, removed, marked });
        true
    }

    /// Tells workers that gave the job up that they are no longer instances of it.
    pub(crate) fn answer_unregistering(&mut self, name: &JobName, job: &mut JobState) {
        for stream in job.roster.take_unregistered() {
            self.workers.send(self.io, stream, ToWorker::Unregistered { job: name.clone() });
        }
    }

    /// Marks the runs of workers that came from another host; if the instance is written, its runs are marked along
    /// with it.
    fn mark_what_came(
        &self,
        txn: &mut Txn,
        name: &JobName,
        job: &mut JobState,
        view: &Job,
        put: &[WorkerId],
    ) -> Vec<WorkerId> {
        let runs_here =
            |id: &WorkerId| self.workers.get(id).is_some_and(|worker| worker.ledger.has_runs_of(name));
        job.roster.retain_unmarked(|id| view.rules.monitor && runs_here(id));
        let mut marked = Vec::new();
        for id in job.roster.unmarked() {
            let Some(worker) = self.workers.get(id).filter(|worker| !worker.link.is_writing()) else {
                continue;
            };
            if !put.contains(id) {
                txn.guard(Guard::Attachment(id.clone(), worker.link.version()));
                mark_runs(txn, name, job, worker);
            }
            marked.push(id.clone());
        }
        marked
    }

    /// If a node of ours that existed in this session is gone, a tool deleted it, which is a command. One that ended
    /// with an earlier session of ours never existed in this one, and is written again. True if a transaction is in
    /// flight.
    pub(crate) fn handle_foreign_deletion(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        view: &Arc<Job>,
    ) -> bool {
        let mut standing = job.roster.take_published();
        let mut deleted = None;
        for (instance, id) in job.roster.hosted() {
            let Some(worker) =
                self.workers.get(id).filter(|worker| worker.present() && !worker.link.is_writing())
            else {
                continue;
            };
            match view.instances.get(instance) {
                Some(seen) if seen.mine => drop(standing.insert(instance.clone())),
                None if standing.contains(instance) || absence_is_a_command(worker) => {
                    deleted = Some((instance.clone(), worker))
                }
                _ => {}
            }
        }
        job.roster.put_back_published(standing);
        let Some((instance, worker)) = deleted else { return false };
        tracing::warn!(job = %name, %instance, "an instance was deleted: it is shut down for this job");
        let mut txn = guarded(Purpose::Dismiss, view);
        // Not if the worker is dead, or attached elsewhere.
        txn.guard(Guard::Attachment(worker.id.clone(), worker.link.version()));
        evict_instances(&mut txn, view, [&instance]);
        let worker = worker.id.clone();
        self.submit(name, job, txn, Intent::Dismiss { worker, instance });
        true
    }

    /// The instance is gone: tells its worker, which no longer has the job. Runs in flight finish.
    pub(crate) fn release_instance(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        instance: &InstanceId,
        why: &str,
    ) {
        job.cache.went_stale();
        let hosted = job.roster.worker_of(instance).and_then(|id| self.workers.get(id));
        if hosted.is_some_and(|worker| worker.link.phase() == AttachmentPhase::Attaching) {
            // The command tells it, after its Welcome.
            return;
        }
        job.roster.forget_published(instance);
        job.dispatch.forget_assignment(instance);
        let Some(id) = job.roster.part(name, instance, self.index) else { return };
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.work.end(name);
        self.schedule.run_queue.insert(name.clone());
        job.roster.forget_registration(&worker.id);
        if let Some(stream) = worker.link.stream() {
            self.workers.send(
                self.io,
                stream,
                ToWorker::Shutdown { job: Some(name.clone()), message: why.to_string() },
            );
        }
    }
}

/// The marks of a worker's runs end with the session of the host that wrote them, so its next host writes them again. A
/// report that the last host had accepted may end such a run in between, and then nobody would remove its marks: each
/// record must still be the one that was read.
fn mark_runs(txn: &mut Txn, name: &JobName, job: &JobState, worker: &Worker) {
    for item in worker.ledger.items_of(name) {
        let Some((version, record)) = job.cache.record(item) else { continue };
        let Some(run) = record.running().filter(|run| run.worker == worker.id) else { continue };
        if !mutants::is_on(mutants::MARKS_IGNORE_RECORDS) {
            // Pushed directly: searching for duplicates among the guards is slow if many workers arrive at once.
            txn.guards.push(Guard::Record(name.clone(), item, *version));
        }
        let instance = Some(run.instance.clone());
        if run.source == Source::Failover {
            let instance = instance.clone();
            txn.write(Write::Failover { job: name.clone(), item, instance });
        }
        txn.write(Write::Running { job: name.clone(), item, instance });
    }
}

/// With this built-in bug, absence counts as a command even if the node never existed in this session.
fn absence_is_a_command(worker: &Worker) -> bool {
    !worker.link.is_fresh() && mutants::is_on(mutants::ABSENCE_IS_A_COMMAND)
}
