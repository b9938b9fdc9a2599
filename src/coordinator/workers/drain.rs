//! A worker leaves, in two phases: it requests to drain, the attachment says so (from then on starts conflict), and
//! Draining is sent after the last Trigger. Later it says Goodbye: runs that are still in flight are handed back,
//! the attachment goes, and only then the worker is told that it may exit. A clean exit is not a crash.

use rosterd_domain::id::{Item, JobName, Version, WorkerId};
use rosterd_domain::snapshot::Attachment;
use rosterd_domain::txn::{Commit, Purpose, Txn, Write};
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::ToWorker;

use crate::io::cluster_event::WorkerEvent;
use crate::io::event::Query;
use crate::io::pending::{ReadFor, TxnFor};
use crate::io::timers::Timer;
use crate::workers::parts::link::AttachmentPhase;
use crate::workers::worker::Worker;
use crate::workers::{WorkerChange, WorkersTurn};

impl WorkersTurn<'_> {
    pub(crate) fn drain_requested(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.table.get_mut(id) else { return };
        if worker.link.drain_again() {
            return self.workers.changes.push(WorkerChange::Leaving(id.clone()));
        }
        let Some((version, node)) = worker.link.drain() else { return };
        self.workers.leavers.all.insert(id.clone());
        let mut txn = Txn::new(Purpose::Drain);
        txn.write(Write::Attachment { worker: id.clone(), expect: Some(version), node: Box::new(node) });
        self.io.commit(TxnFor::Draining(id.clone()), txn);
    }

    pub(crate) fn drained(&mut self, id: &WorkerId, commit: Commit) {
        let Some(worker) = self.workers.table.get_mut(id) else { return };
        worker.link.write_ended();
        match commit {
            Commit::Committed(_) => {
                worker.link.was_written();
                self.leaves(id);
            }
            _ => self.io.read(ReadFor::Own(id.clone()), Query::Attachment(id.clone())),
        }
    }

    /// A write of the attachment has ended: does what waited for that.
    pub(crate) fn go_on_leaving(&mut self, id: &WorkerId) {
        if self.workers.table.get(id).is_some_and(|worker| worker.link.wants_to_drain()) {
            self.drain_requested(id);
        }
        self.tell_to_leave(id);
        self.workers.changes.push(WorkerChange::Leaving(id.clone()));
    }

    /// Sends Draining once no Trigger can follow it: no start is in flight, and `nothing_follows` from its jobs.
    pub(crate) fn confirm_draining(&mut self, id: &WorkerId, nothing_follows: impl FnOnce(&Worker) -> bool) {
        let Some(worker) = self.workers.table.get_mut(id) else { return };
        if !worker.link.is_to_confirm() || worker.ledger.is_reserved() || !nothing_follows(worker) {
            return;
        }
        worker.link.confirm_draining();
        if let Some(stream) = worker.link.stream() {
            self.workers.send(self.io, stream, ToWorker::Draining);
        }
    }

    /// The attachment says that the worker is draining: its instances are removed.
    pub(crate) fn leaves(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.table.get(id) else { return };
        self.io.tell_worker(&worker.instance, WorkerEvent::Draining);
        self.workers.changes.push(WorkerChange::Draining(id.clone()));
    }

    /// The worker's attachment is gone.
    pub(crate) fn gone(&mut self, id: &WorkerId, how: WorkerEvent) {
        let Some(worker) = self.workers.table.remove(id) else { return };
        if let Some(stream) = worker.link.stream() {
            if worker.link.phase() == AttachmentPhase::Leaving {
                self.workers.send(self.io, stream, ToWorker::GoodbyeAck);
                self.workers.close(self.io, stream, None);
            } else {
                let why = "worker lease expired: connect again under a new identity";
                self.workers.close(self.io, stream, Some(Refusal::new(Code::StreamSuperseded, why)));
            }
        }
        self.io.tell_worker(&worker.instance, how);
        self.workers.changes.push(WorkerChange::Gone { worker: Box::new(worker), dead: true });
    }

    /// Another stream or host acts for the worker now.
    pub(crate) fn lost_to_another(&mut self, id: &WorkerId, version: Version, stored: Attachment) {
        let Some(worker) = self.workers.table.remove(id) else { return };
        if let Some(stream) = worker.link.stream() {
            let why = "the worker is attached elsewhere";
            self.workers.close(self.io, stream, Some(Refusal::new(Code::StreamSuperseded, why)));
        }
        self.workers.changes.push(WorkerChange::Gone { worker: Box::new(worker), dead: false });
        self.seen_remote(id.clone(), version, stored);
    }

    pub(crate) fn goodbye(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.table.get_mut(id) else { return };
        if !worker.link.leave() {
            return;
        }
        self.workers.leavers.all.insert(id.clone());
        self.workers.changes.push(WorkerChange::Leaving(id.clone()));
    }

    /// What a worker that said Goodbye still has in flight, if that can be handed back now, and at which version of its
    /// attachment. If it has nothing, its attachment is deleted.
    pub(crate) fn finish_goodbye(&mut self, id: &WorkerId) -> Option<(Version, Vec<(JobName, Item)>)> {
        let worker = self.workers.table.get(id)?;
        if worker.link.phase() != AttachmentPhase::Leaving
            || worker.link.is_writing()
            || worker.ledger.is_reserved()
        {
            return None;
        }
        if worker.ledger.runs().is_empty() {
            self.delete_attachment(id);
            return None;
        }
        Some((worker.link.version(), worker.ledger.runs().iter().cloned().collect()))
    }

    pub(crate) fn delete_attachment(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.table.get_mut(id) else { return };
        let expect = worker.link.begin_writing();
        let mut txn = Txn::new(Purpose::Goodbye);
        txn.write(Write::RemoveAttachment { worker: id.clone(), expect });
        self.io.commit(TxnFor::Goodbye(id.clone()), txn);
    }

    pub(crate) fn said_goodbye(&mut self, id: &WorkerId, commit: Commit) {
        if let Some(worker) = self.workers.table.get_mut(id) {
            worker.link.write_ended();
        }
        match commit {
            Commit::Committed(_) => self.gone(id, WorkerEvent::Left),
            Commit::Unavailable(_) | Commit::TooLarge(_) => {
                self.io.set_timer(self.io.settings.store_retry, Timer::Lease(id.clone()))
            }
            _ => self.io.read(ReadFor::Own(id.clone()), Query::Attachment(id.clone())),
        }
    }
}
