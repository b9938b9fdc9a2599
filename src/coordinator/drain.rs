//! Somebody asks a worker to leave. That stands in its attachment before it is answered, so that whoever hosts the worker from
//! then on tells it: a frame may be lost with its stream, and a host with all it knew.
//!
//! Of a worker that is hosted elsewhere it stands in a command of one of its jobs until its host has taken it over.

use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{InstanceId, WorkerId};
use rosterd_domain::mutants;
use rosterd_domain::snapshot::Command;
use rosterd_domain::txn::{Commit, Purpose, Txn, Write};
use rosterd_domain::view::Job;

use super::change::{Step, guarded, rewrite};
use super::command::{CommandProgress, named};
use super::event::{Effect, Query, RequestId};
use super::handle::{Action, Change, ChangeEffect, Done, Happening, Health};
use super::job::{JobOperation, JobState};
use super::node::{Node, ReadFor, TxnFor};
use super::operate::ASKED;
use super::worker::{Phase, Worker};
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::ToWorker;

/// Who is told that it was asked: the request, and by whom. Nobody, where a command is carried out.
pub(super) type Requester = Option<(RequestId, Option<Arc<str>>)>;

/// Whether it says itself that it leaves, or will be told to whatever becomes of its host.
fn is_asked(worker: &Worker) -> bool {
    matches!(worker.phase, Phase::Draining { .. } | Phase::Leaving)
        || worker.attachment.leave_grace_ms.is_some()
}

impl Node {
    /// A worker that is here is asked at once; for another, a command is left with one of its jobs.
    pub(super) fn drain_instance(
        &mut self,
        request: RequestId,
        instance: &InstanceId,
        grace: Duration,
        by: Option<Arc<str>>,
    ) {
        let here = self.workers.values().find(|worker| worker.instance == *instance);
        if let Some(id) = here.map(|worker| worker.id.clone()) {
            return self.ask_to_leave(&id, grace, Some((request, by)));
        }
        let named =
            |job: &JobState| job.view.as_ref().is_some_and(|view| view.instances.contains_key(instance));
        let job = self.jobs.iter().find(|(_, job)| named(job)).map(|(name, _)| name.clone());
        let Some(name) = job else {
            let refusal = Refusal::new(
                Code::InstanceUnknown,
                format!("instance {instance} has no stream at any coordinator"),
            );
            return self.out.push(Effect::Reply(request, Err(refusal)));
        };
        self.ask_alone(request, by, name, JobOperation::Drain { instance: instance.clone(), grace });
    }

    /// Writes down that a worker here is to leave.
    fn ask_to_leave(&mut self, id: &WorkerId, grace: Duration, requester: Requester) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        if is_asked(worker) {
            return self.answer_requester(id, requester, Ok(()));
        }
        if worker.writing || worker.phase == Phase::Expiring {
            let why = format!("the attachment of worker {id} is being written: ask again");
            return self.answer_requester(id, requester, Err(Refusal::new(Code::Contended, why)));
        }
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        if mutants::is_on(mutants::DRAINS_ARE_ONLY_SAID) {
            worker.attachment.leave_grace_ms = Some(grace_ms);
            self.tell_to_leave(id);
            return self.answer_requester(id, requester, Ok(()));
        }
        worker.writing = true;
        let mut node = worker.attachment.clone();
        node.leave_grace_ms = Some(grace_ms);
        let (expect, node) = (Some(worker.version), Box::new(node));
        let mut txn = Txn::new(Purpose::AskToLeave);
        txn.write(Write::Attachment { worker: id.clone(), expect, node });
        self.commit(TxnFor::AskToLeave { worker: id.clone(), grace_ms, requester }, txn);
    }

    pub(super) fn asked_to_leave(
        &mut self,
        id: &WorkerId,
        grace_ms: u64,
        requester: Requester,
        commit: Commit,
    ) {
        let answer = match &commit {
            Commit::Committed(_) => Ok(()),
            Commit::Unavailable(why) | Commit::TooLarge(why) => {
                Err(Refusal::new(Code::StoreUnavailable, why.clone()))
            }
            Commit::Unknown => Err(Refusal::new(
                Code::OutcomeUnknown,
                format!("worker {id} may have been asked to leave: ask again"),
            )),
            _ => Err(Refusal::new(
                Code::Contended,
                format!("the attachment of worker {id} was written by another: ask again"),
            )),
        };
        self.answer_requester(id, requester, answer);
        let Some(worker) = self.workers.get_mut(id) else { return };
        worker.writing = false;
        if !matches!(commit, Commit::Committed(_)) {
            return self.read(ReadFor::Own(id.clone()), Query::Attachment(id.clone()));
        }
        worker.version = worker.version.next();
        worker.attachment.leave_grace_ms = Some(grace_ms);
        self.jobs_have_their_turn(id);
        self.go_on_leaving(id);
    }

    /// Tells a worker on the stream that it has now; one that leaves already takes no notice.
    pub(super) fn tell_to_leave(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.get(id).filter(|worker| worker.phase == Phase::Attached) else {
            return;
        };
        if let (Some(stream), Some(grace)) = (worker.stream, worker.attachment.leave_grace_ms) {
            // Nobody has set one: it is the worker's own.
            let grace = if grace == u64::MAX { Duration::MAX } else { Duration::from_millis(grace) };
            self.send(stream, ToWorker::Drain { message: ASKED.into(), grace });
        }
    }

    fn answer_requester(&mut self, id: &WorkerId, requester: Requester, answer: Result<(), Refusal>) {
        let Some((request, by)) = requester else { return };
        if let (Ok(()), Some(worker)) = (&answer, self.workers.get(id)) {
            let what = format!("{} is asked to leave", worker.instance);
            self.out.push(Effect::Tell(Happening::Asked { job: None, action: Action::Drain, what, by }));
        }
        self.out.push(Effect::Reply(request, answer.map(|()| Done::default())));
    }

    /// What this coordinator does about the command to drain an instance.
    pub(super) fn now_drain(
        &mut self,
        job: &JobState,
        instance: &InstanceId,
        grace_ms: u64,
    ) -> CommandProgress {
        let here = self.workers.values().find(|worker| worker.instance == *instance);
        if let Some(worker) = here {
            if is_asked(worker) {
                return CommandProgress::Done;
            }
            let id = worker.id.clone();
            // A store that cannot write is not asked again and again; when it can, every job has its turn.
            if self.health != Health::Suspended {
                self.ask_to_leave(&id, Duration::from_millis(grace_ms), None);
            }
            return CommandProgress::Pending;
        }
        let Some(worker) = instance.worker() else { return CommandProgress::Done };
        let stands = job.view.as_ref().is_some_and(|view| view.instances.contains_key(instance));
        if !stands && mutants::is_on(mutants::COMMANDS_GO_WITH_INSTANCES) {
            return CommandProgress::Done;
        }
        self.now_elsewhere(job, worker)
    }
}

/// Leaves the command to drain an instance of another host. The job cannot be removed beside it: that rests on the same
/// generation, and finds the command when it is decided again.
pub(super) fn drain(view: &Job, instance: &InstanceId, grace: Duration) -> Result<Step, Refusal> {
    let Some(name) = named("drain", instance) else {
        let why = format!("this namespace has no instance {instance}");
        return Err(Refusal::new(Code::InstanceUnknown, why));
    };
    let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
    let mut txn = guarded(Purpose::Command, view);
    let command = Command::Drain { instance: instance.clone(), grace_ms };
    txn.write(Write::Command { job: view.name.clone(), name, command });
    rewrite(&mut txn, view, &view.sharding);
    Ok(Step::Commit(txn, Change::new(ChangeEffect::Requested, format!("{instance} is asked to leave"))))
}

/// Says no to the removal of a job that holds the command to drain an instance: that would be forgotten with it.
pub(super) fn nobody_is_asked_to_leave(view: &Job) -> Result<(), Refusal> {
    let asked = view.commands.values().find_map(|command| match command {
        Command::Drain { instance, .. } => Some(instance),
        Command::Cancel { .. } | Command::Shutdown { .. } | Command::AwaitStart { .. } => None,
    });
    let Some(instance) = asked else { return Ok(()) };
    let message = format!(
        "job {} holds what asks {instance} to leave until its host has heard it: try again",
        view.name
    );
    Err(Refusal::new(Code::Contended, message))
}
