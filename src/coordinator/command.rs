//! Commands about workers of other coordinators. No coordinator talks to another: who cannot do something itself leaves
//! a command with the job, and who can does it and takes the command away. What has nothing left to do is cleared by
//! whoever finds that.

use std::sync::Arc;

use rosterd_domain::id::{CommandName, InstanceId, Item, JobName, Token, WorkerId};
use rosterd_domain::snapshot::Command;
use rosterd_domain::txn::{Txn, Write};
use rosterd_domain::view::Job;

use super::change::guarded;
use super::job::{Intent, JobState};
use super::node::Node;
use crate::code::{Code, Refusal};

/// What this coordinator does about a command.
pub(super) enum Now {
    Stop {
        item: Item,
        token: Token,
    },
    /// Nothing is left to do.
    Clear,
    /// It is somebody else's, or is not known to be over.
    Wait,
}

impl Node {
    /// Carries out the commands that are for workers here; true when a transaction is under way.
    pub(super) fn commands(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        let mut txn = guarded("commands", view);
        let mut waits = false;
        for (command_name, command) in &view.commands {
            match self.now_for(name, job, command) {
                Now::Wait => {
                    waits = true;
                    continue;
                }
                Now::Clear => {}
                Now::Stop { item, token } => {
                    let worker = job.records.get(&item).and_then(|(_, record)| record.running());
                    if let Some(worker) = worker.map(|run| run.worker.clone()) {
                        self.cancel_run(name, item, token, &worker);
                    }
                }
            }
            txn.write(Write::RemoveCommand(name.clone(), command_name.clone()));
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
    pub(super) fn now_elsewhere(&mut self, job: &JobState, worker: WorkerId) -> Now {
        if job.dead.contains(&worker) {
            return Now::Clear;
        }
        if job.leads() {
            self.look_later(worker);
        }
        Now::Wait
    }

    fn now_for(&mut self, name: &JobName, job: &mut JobState, command: &Command) -> Now {
        match command {
            Command::Cancel { item, token } => {
                let Some((_, record)) = job.records.get(item) else { return Now::Clear };
                match record.running().filter(|_| record.token == *token) {
                    Some(run)
                        if self.workers.get(&run.worker).is_some_and(|worker| worker.stream.is_some()) =>
                    {
                        Now::Stop { item: *item, token: *token }
                    }
                    Some(_) => Now::Wait,
                    None if record.token >= *token => Now::Clear,
                    None => Now::Wait,
                }
            }
            Command::Drain { instance, grace_ms } => self.now_drain(job, instance, *grace_ms),
            Command::Shutdown { instance } => self.now_shut_down(name, job, instance),
        }
    }
}

/// Adds the command to stop a run of another host.
pub(super) fn cancel_elsewhere(
    txn: &mut Txn,
    job: &JobName,
    item: Item,
    token: Token,
) -> Result<(), Refusal> {
    let name = CommandName::new(format!("cancel-{item}"))
        .map_err(|error| Refusal::new(Code::NameInvalid, error.to_string()))?;
    txn.write(Write::Command { job: job.clone(), name, command: Command::Cancel { item, token } });
    Ok(())
}

/// The name of a command to a worker, the same for all such commands to it.
pub(super) fn named(what: &str, instance: &InstanceId) -> Option<CommandName> {
    CommandName::new(format!("{what}-{}", instance.worker()?)).ok()
}

/// Whether a command of the job is for this worker.
pub(super) fn is_told(view: &Job, worker: &WorkerId) -> bool {
    view.commands.values().filter_map(Command::instance).any(|instance| instance.is_of(worker))
}
