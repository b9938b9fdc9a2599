//! Asks a worker to drain. This is written to its attachment before the request is answered, so that every later host
//! of the worker tells it: a frame may be lost with its stream, and a host with its memory.

use std::time::Duration;

use rosterd_domain::id::WorkerId;
use rosterd_domain::snapshot::Attachment;
use rosterd_domain::txn::{Commit, Purpose, Txn, Write};
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::ToWorker;

use crate::io::cluster_event::{Action, ClusterEvent};
use crate::io::event::{Effect, Query};
use crate::io::operation::{ASKED, Done};
use crate::io::pending::{ReadFor, Requester, TxnFor};
use crate::workers::parts::link::AttachmentPhase;
use crate::workers::worker::Worker;
use crate::workers::{WorkerChange, WorkersTurn};

/// Whether it drains by its own request, or will be told to whatever happens to its host.
pub(crate) fn is_asked(worker: &Worker) -> bool {
    matches!(worker.link.phase(), AttachmentPhase::Draining { .. } | AttachmentPhase::Leaving)
        || worker.link.attachment().leave_grace_ms.is_some()
}

impl WorkersTurn<'_> {
    /// Records that a worker here must drain.
    pub(crate) fn ask_to_leave(&mut self, id: &WorkerId, grace: Duration, requester: Requester) {
        let Some(worker) = self.workers.table.get_mut(id) else { return };
        if is_asked(worker) {
            return self.answer_requester(id, requester, Ok(()));
        }
        if worker.link.is_writing() || worker.link.phase() == AttachmentPhase::Expiring {
            let why = format!("the attachment of worker {id} is being written: ask again");
            return self.answer_requester(id, requester, Err(Refusal::new(Code::Contended, why)));
        }
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let expect = Some(worker.link.begin_writing());
        let node = Attachment { leave_grace_ms: Some(grace_ms), ..worker.link.attachment().clone() };
        let node = Box::new(node);
        let mut txn = Txn::new(Purpose::AskToLeave);
        txn.write(Write::Attachment { worker: id.clone(), expect, node });
        self.io.commit(TxnFor::AskToLeave { worker: id.clone(), grace_ms, requester }, txn);
    }

    pub(crate) fn asked_to_leave(
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
        let Some(worker) = self.workers.table.get_mut(id) else { return };
        worker.link.write_ended();
        if !matches!(commit, Commit::Committed(_)) {
            return self.io.read(ReadFor::Own(id.clone()), Query::Attachment(id.clone()));
        }
        worker.link.was_written();
        worker.link.was_asked_to_leave(grace_ms);
        self.workers.changes.push(WorkerChange::AttachmentWritten(id.clone()));
        self.go_on_leaving(id);
    }

    /// Tells a worker on its current stream; one that is draining already ignores it.
    pub(crate) fn tell_to_leave(&mut self, id: &WorkerId) {
        let Some(worker) =
            self.workers.table.get(id).filter(|worker| worker.link.phase() == AttachmentPhase::Attached)
        else {
            return;
        };
        if let (Some(stream), Some(grace)) = (worker.link.stream(), worker.link.attachment().leave_grace_ms) {
            // No grace was given: the worker's own applies.
            let grace = if grace == u64::MAX { Duration::MAX } else { Duration::from_millis(grace) };
            self.workers.send(self.io, stream, ToWorker::Drain { message: ASKED.into(), grace });
        }
    }

    fn answer_requester(&mut self, id: &WorkerId, requester: Requester, answer: Result<(), Refusal>) {
        let Some((request, by)) = requester else { return };
        if let (Ok(()), Some(worker)) = (&answer, self.workers.table.get(id)) {
            let what = format!("{} is asked to leave", worker.instance);
            self.io.out.push(Effect::Publish(ClusterEvent::Asked {
                job: None,
                action: Action::Drain,
                what,
                by,
            }));
        }
        self.io.out.push(Effect::Reply(request, answer.map(|()| Done::default())));
    }
}
