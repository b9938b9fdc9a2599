//! Commands about workers of other coordinators. No coordinator talks to another: who cannot do something itself leaves
//! a command with the job, and who can does it and takes the command away. What has nothing left to do is cleared by
//! the leader.

use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{CommandName, InstanceId, Item, JobName, Token};
use rosterd_domain::snapshot::Command;
use rosterd_domain::txn::{Txn, Write};
use rosterd_domain::view::Job;

use super::change::{Step, guarded};
use super::job::{Intent, JobState};
use super::node::Node;
use super::operate::ASKED;
use crate::code::{Code, Refusal};
use crate::session::frame::ToWorker;

/// What this coordinator does about a command.
enum Now {
    Stop {
        item: Item,
        token: Token,
    },
    Leave {
        instance: InstanceId,
        grace: Duration,
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
            match self.now_for(job, view, command) {
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
                Now::Leave { instance, grace } => {
                    let worker = self.workers.values().find(|worker| worker.instance == instance);
                    if let Some(stream) = worker.and_then(|worker| worker.stream) {
                        self.send(stream, ToWorker::Drain { message: ASKED.into(), grace });
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

    fn now_for(&self, job: &JobState, view: &Job, command: &Command) -> Now {
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
            Command::Drain { instance, grace_ms } => {
                let here = self.workers.values().any(|w| w.instance == *instance && w.stream.is_some());
                match (here, view.instances.contains_key(instance)) {
                    (true, _) => {
                        Now::Leave { instance: instance.clone(), grace: Duration::from_millis(*grace_ms) }
                    }
                    (false, true) => Now::Wait,
                    (false, false) => Now::Clear,
                }
            }
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
    let name = named(format!("cancel-{item}"))?;
    txn.write(Write::Command { job: job.clone(), name, command: Command::Cancel { item, token } });
    Ok(())
}

/// Leaves the command to drain an instance of another host.
pub(super) fn drain(view: &Job, instance: &InstanceId, grace: Duration) -> Result<Step, Refusal> {
    let worker = instance.worker().map_or_else(|| "unknown".to_string(), |worker| worker.to_string());
    let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
    let name = named(format!("drain-{worker}"))?;
    let mut txn = guarded("command", view);
    let command = Command::Drain { instance: instance.clone(), grace_ms };
    txn.write(Write::Command { job: view.name.clone(), name, command });
    Ok(Step::Commit(txn, format!("{instance} is asked to leave")))
}

fn named(name: String) -> Result<CommandName, Refusal> {
    CommandName::new(name).map_err(|error| Refusal::new(Code::NameInvalid, error.to_string()))
}
