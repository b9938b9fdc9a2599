//! Commands about workers of other coordinators. No coordinator talks to another: who cannot do something itself leaves
//! a command with the job, and who can does it and takes the command away. What has nothing left to do is cleared by
//! whoever finds that.

use std::sync::Arc;

use rosterd_domain::id::{CommandName, InstanceId, Item, JobName, Token, Version, WorkerId};
use rosterd_domain::item::{Event, Record};
use rosterd_domain::mutants;
use rosterd_domain::snapshot::Command;
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Purpose, Txn, Write};
use rosterd_domain::view::Job;

use super::change::guarded;
use super::guarantee::skipped;
use super::job::{Intent, JobState};
use super::node::Node;
use super::operate::ASKED;
use super::worker::Phase;
use rosterd_session::frame::{CancelReason, RunRef, ToWorker};

/// What this coordinator does about a command.
pub(super) enum CommandProgress {
    /// Nothing is left to do.
    Done,
    /// Whom it is for was told, and tells when it is done.
    Delivered,
    /// It is somebody else's, or is not known to be over.
    Pending,
}

impl Node {
    /// Carries out the commands that are for workers here; true when a transaction is under way.
    pub(super) fn commands(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        let mut txn = guarded(Purpose::Commands, view);
        let mut waits = false;
        job.told_to_stop.retain(|item, (token, _)| stops(view, *item, *token));
        for (command_name, command) in &view.commands {
            match self.now_for(name, job, command) {
                // The others have their turn after this.
                CommandProgress::Done if txn.writes.len() >= self.settings.max_records_per_txn => {}
                CommandProgress::Done => txn.write(Write::RemoveCommand(name.clone(), command_name.clone())),
                CommandProgress::Delivered => {}
                CommandProgress::Pending => waits = true,
            }
        }
        if waits && job.leads() {
            // Run state gives no hint: whether a run elsewhere has ended is looked up.
            self.look_soon(name, job);
        }
        if txn.writes.is_empty() {
            return false;
        }
        self.submit(name, job, txn, Intent::Commands);
        true
    }

    /// A worker that is not here: its host does what is asked, or the next one does. That it has gone for good is all that ends
    /// this otherwise.
    pub(super) fn now_elsewhere(&mut self, job: &JobState, worker: WorkerId) -> CommandProgress {
        if job.dead.contains(&worker) {
            return CommandProgress::Done;
        }
        if job.leads() {
            self.look_later(worker);
        }
        CommandProgress::Pending
    }

    /// A run is stopped once its worker says so, or has gone: until then it is told on each of its streams.
    fn now_stop(&mut self, name: &JobName, job: &mut JobState, item: Item, token: Token) -> CommandProgress {
        // Records outlive the item count: one that is not here was not read.
        let Some((_, record)) = job.records.get(&item) else { return CommandProgress::Pending };
        let Some(run) = record.running().filter(|_| record.token == token) else {
            return if record.token >= token { CommandProgress::Done } else { CommandProgress::Pending };
        };
        let Some(worker) = self.workers.get(&run.worker) else { return CommandProgress::Pending };
        if run.held && !mutants::is_on(mutants::HELD_IS_NOT_CANCELLED) {
            // Its worker was never told of it.
            let report = skipped(run, token);
            job.reports.entry(item).or_insert(report);
            self.run_queue.insert(name.clone());
            return CommandProgress::Pending;
        }
        let run = RunRef { job: name.clone(), item, token };
        // What it does not know of yet it is told of first.
        let knows = worker.phase != Phase::Attaching && worker.dispatched.contains_key(&run);
        let Some(stream) = worker.stream.filter(|_| knows) else { return CommandProgress::Delivered };
        if job.told_to_stop.insert(item, (token, stream)) != Some((token, stream)) {
            let message = ASKED.to_string();
            self.send(stream, ToWorker::Cancel { run, reason: CancelReason::Operator, message });
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
}

/// Whether a run is to be stopped.
pub(super) fn stops(view: &Job, item: Item, token: Token) -> bool {
    !view.commands.is_empty()
        && cancel_name(item, token).is_some_and(|name| view.commands.contains_key(&name))
}

/// Adds the command to stop a run, wherever its worker is. Its record says so too: whoever ends the run does not offer it
/// to others.
pub(super) fn stop(txn: &mut Txn, job: &JobName, item: Item, version: Version, record: &Record) {
    let token = record.token;
    if let Some(name) = cancel_name(item, token) {
        txn.write(Write::Command { job: job.clone(), name, command: Command::Cancel { item, token } });
    }
    if let Ok(cancelled) = record.apply(&Event::Cancel) {
        txn.write(rewritten(job, item, version, cancelled));
    }
}

/// Adds that a crashed run is not run again.
pub(super) fn give_up(
    txn: &mut Txn,
    job: &JobName,
    item: Item,
    version: Version,
    record: &Record,
    now: Time,
) {
    if let Ok(given_up) = record.apply(&Event::GiveUp { at: now }) {
        txn.write(rewritten(job, item, version, given_up));
        txn.write(Write::FailoverItem { job: job.clone(), item, crashed: None });
    }
}

fn rewritten(job: &JobName, item: Item, version: Version, record: Record) -> Write {
    Write::Record { job: job.clone(), item, expect: Some(version), record: Box::new(record) }
}

/// Another for each run, so that what takes one away takes no later one with it.
fn cancel_name(item: Item, token: Token) -> Option<CommandName> {
    CommandName::new(format!("cancel-{item}-{token}")).ok()
}

/// The same of a command to tell when a run has begun.
pub(super) fn await_start_name(item: Item, token: Token) -> Option<CommandName> {
    CommandName::new(format!("await-start-{item}-{token}")).ok()
}

/// The name of a command to a worker, the same for all such commands to it.
pub(super) fn named(what: &str, instance: &InstanceId) -> Option<CommandName> {
    CommandName::new(format!("{what}-{}", instance.worker()?)).ok()
}

/// Whether a command of the job is for this worker.
pub(super) fn is_told(view: &Job, worker: &WorkerId) -> bool {
    view.commands.values().filter_map(Command::instance).any(|instance| instance.is_of(worker))
}
