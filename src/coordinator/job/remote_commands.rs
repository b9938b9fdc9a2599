//! Commands to workers of other coordinators. Coordinators do not talk to each other: one that cannot do something
//! itself writes a command below the job, and the one that can does it and removes the command. Any coordinator clears
//! a command that has nothing left to do.

use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{InstanceId, Item, JobName, Token, WorkerId};
use rosterd_domain::mutants;
use rosterd_domain::snapshot::Command;
use rosterd_domain::txn::{Purpose, Write};
use rosterd_domain::view::Job;
use rosterd_session::frame::{CancelReason, RunRef, ToWorker};

use crate::io::operation::{ASKED, Health};
use crate::job::JobTurn;
use crate::job::commands::{CommandProgress, stops};
use crate::job::parts::callbacks::skipped;
use crate::job::parts::writer::Intent;
use crate::job::state::JobState;
use crate::job::txn::guarded;
use crate::workers::drain_request::is_asked;
use crate::workers::parts::link::AttachmentPhase;

impl JobTurn<'_> {
    /// A run has started when its worker reports that to its host, and is over when its record shows it.
    pub(crate) fn now_await_start(
        &mut self,
        name: &JobName,
        job: &JobState,
        item: Item,
        token: Token,
    ) -> CommandProgress {
        let Some((_, record)) = job.cache.record(item) else { return CommandProgress::Pending };
        let Some(run) = record.running().filter(|_| record.token == token) else {
            return if record.token >= token { CommandProgress::Done } else { CommandProgress::Pending };
        };
        let begun = self.has_begun(name, item, token, run);
        let gone = !self.workers.is_here(&run.worker) && mutants::is_on(mutants::SETTLED_BY_ANYBODY);
        if begun || gone {
            return CommandProgress::Done;
        }
        if job.leads() {
            self.workers_turn().look_later(run.worker.clone());
        }
        CommandProgress::Pending
    }

    /// Executes the commands that are for workers here; true if a transaction is in flight.
    pub(crate) fn commands(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        let mut txn = guarded(Purpose::Commands, view);
        let mut waits = false;
        job.dispatch.retain_stops(|item, token| stops(view, item, token));
        for (command_name, command) in &view.commands {
            match self.now_for(name, job, command) {
                // The others have their turn after this.
                CommandProgress::Done if txn.writes.len() >= self.io.settings.max_records_per_txn => {}
                CommandProgress::Done => txn.write(Write::RemoveCommand(name.clone(), command_name.clone())),
                CommandProgress::Delivered => {}
                CommandProgress::Pending => waits = true,
            }
        }
        if waits && job.leads() {
            // Run state gives no hint: whether a run elsewhere has ended must be read.
            self.look_soon(name, job);
        }
        if txn.writes.is_empty() {
            return false;
        }
        self.submit(name, job, txn, Intent::Commands);
        true
    }

    /// A worker that is not here: its host does what the command says, or the next host does. Otherwise the command
    /// ends only when the worker is gone for good.
    pub(crate) fn now_elsewhere(&mut self, job: &JobState, worker: WorkerId) -> CommandProgress {
        if job.roster.is_dead(&worker) {
            return CommandProgress::Done;
        }
        if job.leads() {
            self.workers_turn().look_later(worker);
        }
        CommandProgress::Pending
    }

    /// A run is cancelled once its worker reports that, or is gone: until then the worker is told on each of its
    /// streams.
    fn now_stop(&mut self, name: &JobName, job: &mut JobState, item: Item, token: Token) -> CommandProgress {
        // Records outlive the item count, so one that is missing was not read.
        let Some((_, record)) = job.cache.record(item) else { return CommandProgress::Pending };
        let Some(run) = record.running().filter(|_| record.token == token) else {
            return if record.token >= token { CommandProgress::Done } else { CommandProgress::Pending };
        };
        let Some(worker) = self.workers.get(&run.worker) else { return CommandProgress::Pending };
        if run.held && !mutants::is_on(mutants::HELD_IS_NOT_CANCELLED) {
            // Its worker was never sent the run.
            job.reports.put_if_none(item, || skipped(run, token));
            self.schedule.run_queue.insert(name.clone());
            return CommandProgress::Pending;
        }
        let run = RunRef { job: name.clone(), item, token };
        // If the worker does not know the run yet, it is sent first.
        let knows = worker.link.phase() != AttachmentPhase::Attaching && worker.flight.knows(&run);
        let Some(stream) = worker.link.stream().filter(|_| knows) else { return CommandProgress::Delivered };
        if job.dispatch.tells_to_stop(item, token, stream) {
            let message = ASKED.to_string();
            self.workers.send(
                self.io,
                stream,
                ToWorker::Cancel { run, reason: CancelReason::Operator, message },
            );
        }
        if mutants::is_on(mutants::CANCELS_ARE_ONLY_SAID) {
            CommandProgress::Done
        } else {
            CommandProgress::Delivered
        }
    }

    fn now_for(&mut self, name: &JobName, job: &mut JobState, command: &Command) -> CommandProgress {
        match command {
            Command::Cancel { item, token } => self.now_stop(name, job, *item, *token),
            Command::Drain { instance, grace_ms } => self.now_drain(job, instance, *grace_ms),
            Command::Shutdown { instance } => self.now_shut_down(name, job, instance),
            Command::AwaitStart { item, token } => self.now_await_start(name, job, *item, *token),
        }
    }

    /// The progress of the command to drain an instance.
    pub(crate) fn now_drain(
        &mut self,
        job: &JobState,
        instance: &InstanceId,
        grace_ms: u64,
    ) -> CommandProgress {
        let here = self.workers.here().unordered_values().find(|worker| worker.instance == *instance);
        if let Some(worker) = here {
            if is_asked(worker) {
                return CommandProgress::Done;
            }
            let id = worker.id.clone();
            // A store that cannot write is not asked again and again; when it can, every job has its turn.
            if self.cluster.health() != Health::Suspended {
                self.workers_turn().ask_to_leave(&id, Duration::from_millis(grace_ms), None);
            }
            return CommandProgress::Pending;
        }
        let Some(worker) = instance.worker() else { return CommandProgress::Done };
        self.now_elsewhere(job, worker)
    }

    /// The progress of the command to shut an instance down for this job. Its worker was told, if that message arrived;
    /// a worker that attaches to another host with the job has not received it.
    pub(crate) fn now_shut_down(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        instance: &InstanceId,
    ) -> CommandProgress {
        let Some(id) = instance.worker() else { return CommandProgress::Done };
        let Some(worker) = self.workers.get(&id) else { return self.now_elsewhere(job, id) };
        if worker.work.has_unregistered(name) {
            return CommandProgress::Done;
        }
        if job.roster.hosts(instance) {
            self.release_instance(name, job, instance, ASKED);
        }
        CommandProgress::Pending
    }
}
