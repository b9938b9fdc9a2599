//! A worker leaves, in two phases: it asks to drain, the attachment says so (from then on starts conflict),
//! and Draining is sent after the last Trigger. Later it says Goodbye: what is still in flight is handed back,
//! the attachment goes, and only then it is told that it may exit. A clean exit is no crash.

use std::collections::BTreeSet;

use rosterd_domain::id::{Item, JobName, WorkerId};
use rosterd_domain::mutants;
use rosterd_domain::plan::{Report, Reported};
use rosterd_domain::txn::{Commit, Purpose, Txn, Write};

use super::command::is_told;
use super::event::Query;
use super::handle::WorkerChange;
use super::job::JobState;
use super::node::{Node, ReadFor, TxnFor};
use super::worker::{Phase, Worker};
use rosterd_session::frame::{RunRef, ToWorker};

impl Node {
    pub(super) fn drain_requested(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        match worker.phase {
            Phase::Attached => {}
            // Asked again, for example on another stream: answered again.
            Phase::Draining { .. } => {
                worker.phase = Phase::Draining { confirmed: false };
                return self.confirm_draining(id);
            }
            Phase::Attaching | Phase::Leaving | Phase::Expiring => return,
        }
        if worker.writing {
            worker.drain_wanted = true;
            return;
        }
        worker.drain_wanted = false;
        worker.writing = true;
        worker.phase = Phase::Draining { confirmed: false };
        self.leavers.insert(id.clone());
        let mut node = worker.attachment.clone();
        node.draining = true;
        worker.attachment = node.clone();
        let mut txn = Txn::new(Purpose::Drain);
        txn.write(Write::Attachment {
            worker: id.clone(),
            expect: Some(worker.version),
            node: Box::new(node),
        });
        self.commit(TxnFor::Draining(id.clone()), txn);
    }

    pub(super) fn drained(&mut self, id: &WorkerId, commit: Commit) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        worker.writing = false;
        match commit {
            Commit::Committed(_) => {
                worker.version = worker.version.next();
                self.leaves(id);
            }
            _ => self.read(ReadFor::Own(id.clone()), Query::Attachment(id.clone())),
        }
    }

    /// The attachment says that the worker is leaving: its instances go.
    pub(super) fn leaves(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.get(id) else { return };
        let (instance, jobs) = (worker.instance.clone(), worker.jobs.clone());
        self.tell_worker(&instance, WorkerChange::Draining);
        for name in jobs {
            if let Some(job) = self.jobs.get_mut(&name) {
                job.leaving.insert(instance.clone());
                self.run_queue.insert(name);
            }
        }
        self.confirm_draining(id);
    }

    /// A write of the attachment is over: what waited for that is done.
    pub(super) fn go_on_leaving(&mut self, id: &WorkerId) {
        if self.workers.get(id).is_some_and(|worker| worker.drain_wanted) {
            self.drain_requested(id);
        }
        self.tell_to_leave(id);
        self.confirm_draining(id);
        self.finish_goodbye(id);
    }

    /// Says Draining once nothing can follow it: no start is under way, and every job's cache is true.
    pub(super) fn confirm_draining(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.get(id) else { return };
        if worker.phase != (Phase::Draining { confirmed: false }) || worker.writing || worker.reserved > 0 {
            return;
        }
        let settled =
            |name: &JobName| self.jobs.get(name).is_none_or(|job| !job.stale_records && !job.reading);
        // A Trigger may wait for its offset to be read; its worker must not hear that none follows.
        let unsent = |(name, item): &(JobName, Item)| {
            self.jobs.get(name).and_then(|job| job.records.get(item)).is_some_and(|(_, record)| {
                let run = RunRef { job: name.clone(), item: *item, token: record.token };
                record.running().is_some_and(|run| !run.held) && !worker.dispatched.contains_key(&run)
            })
        };
        if worker.runs.iter().any(unsent) || !worker.jobs.iter().all(settled) {
            return;
        }
        let stream = worker.stream;
        if let Some(worker) = self.workers.get_mut(id) {
            worker.phase = Phase::Draining { confirmed: true };
        }
        if let Some(stream) = stream {
            self.send(stream, ToWorker::Draining);
        }
    }

    pub(super) fn goodbye(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        match worker.phase {
            Phase::Expiring | Phase::Leaving => return,
            _ => worker.phase = Phase::Leaving,
        }
        self.leavers.insert(id.clone());
        self.finish_goodbye(id);
    }

    /// Hands back what is still in flight; when nothing is, deletes the attachment.
    pub(super) fn finish_goodbye(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.get(id) else { return };
        if worker.phase != Phase::Leaving || worker.writing || worker.reserved > 0 {
            return;
        }
        let version = worker.version;
        let in_flight: Vec<(JobName, Item)> = worker.runs.iter().cloned().collect();
        if in_flight.is_empty() {
            return self.delete_attachment(id);
        }
        for (name, item) in in_flight {
            let Some(job) = self.jobs.get_mut(&name) else { continue };
            let Some((_, record)) = job.records.get(&item) else { continue };
            let report = Report {
                token: record.token,
                worker: id.clone(),
                ended: Reported::HandedBackByHost(version),
                offset: None,
            };
            // What the worker itself said of the run goes before.
            if job.reports.get(&item).is_none_or(|known| known.ended.is_left()) {
                job.reports.insert(item, report);
            }
            self.run_queue.insert(name);
        }
    }

    /// A run that waits for an announcement, on an instance that has left the job: it will not be told there, so it is handed
    /// back. As things are now: what was to be handed back before may have been released meanwhile, and its worker may have
    /// another attachment.
    pub(super) fn hand_back_held(&self, name: &JobName, job: &mut JobState) {
        let stays = mutants::is_on(mutants::HANDED_BACK_BY_THE_DEAD);
        let is_leaving =
            |id: &WorkerId| self.workers.get(id).is_none_or(|worker| worker.phase == Phase::Leaving || stays);
        let is_at =
            |id: &WorkerId, version| self.workers.get(id).is_some_and(|worker| worker.version == version);
        job.reports.retain(|_, report| match report.ended {
            Reported::HandedBackByHost(_) => is_leaving(&report.worker),
            Reported::Forgotten(version) => is_at(&report.worker, version),
            _ => true,
        });
        if mutants::is_on(mutants::HELD_OUTLIVES_INSTANCE) {
            return;
        }
        for (item, (_, record)) in &job.records {
            let Some(run) = record.running().filter(|run| run.held) else { continue };
            let Some(worker) = self.workers.get(&run.worker) else { continue };
            let registers = || job.registering.iter().any(|registering| registering.worker == run.worker);
            let has_it = job.hosted.contains_key(&run.instance)
                || worker.pending_registrations.contains(name)
                || registers();
            let here = matches!(worker.phase, Phase::Attached | Phase::Draining { .. });
            if here && !has_it && !job.reports.contains_key(item) {
                let (token, ended) = (record.token, Reported::HandedBackByHost(worker.version));
                job.reports.insert(*item, Report { token, worker: run.worker.clone(), ended, offset: None });
            }
        }
    }

    fn delete_attachment(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        worker.writing = true;
        if let Some(stream) = worker.stream.filter(|_| mutants::is_on(mutants::GOODBYE_ACK_BEFORE_COMMIT)) {
            self.out.push(super::event::Effect::Send(stream, ToWorker::GoodbyeAck));
        }
        let mut txn = Txn::new(Purpose::Goodbye);
        txn.write(Write::RemoveAttachment { worker: id.clone(), expect: worker.version });
        self.commit(TxnFor::Goodbye(id.clone()), txn);
    }

    pub(super) fn said_goodbye(&mut self, id: &WorkerId, commit: Commit) {
        if let Some(worker) = self.workers.get_mut(id) {
            worker.writing = false;
        }
        match commit {
            Commit::Committed(_) => self.gone(id, WorkerChange::Left),
            Commit::Unavailable(_) | Commit::TooLarge(_) => {
                self.set_timer(self.settings.store_retry, super::timers::Timer::Lease(id.clone()))
            }
            _ => self.read(ReadFor::Own(id.clone()), Query::Attachment(id.clone())),
        }
    }

    /// The jobs that know a worker of this host: those it works for, and those that host it already though its move or its
    /// registration has not come to an end, and so may never; and those of its runs.
    pub(super) fn jobs_of(&self, worker: &Worker) -> BTreeSet<JobName> {
        let hosting = self.jobs.iter().filter(|(_, job)| job.hosted.contains_key(&worker.instance));
        let running = worker.runs.iter().map(|(name, _)| name);
        worker.jobs.iter().chain(hosting.map(|(name, _)| name)).chain(running).cloned().collect()
    }

    /// A write of the worker's attachment is over, for which its jobs may have waited: those above, and those with a command for
    /// it, which may have been done with that.
    pub(super) fn jobs_have_their_turn(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.get(id) else { return };
        let told = |job: &JobState| job.view.as_ref().is_some_and(|view| is_told(view, id));
        let told = self.jobs.iter().filter(|(_, job)| told(job)).map(|(name, _)| name.clone());
        let jobs: BTreeSet<JobName> = self.jobs_of(worker).into_iter().chain(told).collect();
        self.run_queue.extend(jobs);
    }

    /// The worker's attachment is gone: so is everything that hangs on it.
    pub(super) fn gone(&mut self, id: &WorkerId, how: WorkerChange) {
        let Some(worker) = self.workers.remove(id) else { return };
        if let Some(stream) = worker.stream {
            if worker.phase == Phase::Leaving {
                self.send(stream, ToWorker::GoodbyeAck);
                self.close(stream, None);
            } else {
                let refusal = rosterd_session::code::Refusal::new(
                    rosterd_session::code::Code::StreamSuperseded,
                    "worker lease expired: connect again under a new identity",
                );
                self.close(stream, Some(refusal));
            }
        }
        self.tell_worker(&worker.instance, how);
        for name in self.jobs_of(&worker) {
            let Some(job) = self.jobs.get_mut(&name) else { continue };
            job.hosted.remove(&worker.instance);
            job.last_assignment_sent.remove(&worker.instance);
            job.leaving.insert(worker.instance.clone());
            job.dead.insert(id.clone());
            job.drop_handoff_reports(id);
            self.run_queue.insert(name);
        }
        // Jobs that it never came to move here may name it as well.
        self.mark_dead(id);
    }
}
