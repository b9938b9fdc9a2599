//! The leases of workers here: heartbeats renew them, and a worker whose lease expires is marked dead.

use std::time::Duration;

use rosterd_domain::id::{Version, WorkerId};
use rosterd_domain::mutants;
use rosterd_domain::snapshot::Attachment;
use rosterd_domain::txn::{Commit, Purpose, Txn, Write};
use rosterd_registry::ReadError;
use rosterd_session::frame::ToWorker;

use crate::io::cluster_event::WorkerEvent;
use crate::io::event::{Query, StreamId};
use crate::io::pending::{ReadFor, TxnFor};
use crate::io::timers::Timer;
use crate::workers::parts::link::AttachmentPhase;
use crate::workers::{WorkerChange, WorkersTurn};

impl WorkersTurn<'_> {
    /// A worker's heartbeat. True: it is accepted, and so is its list of runs in flight.
    pub(crate) fn heartbeat(
        &mut self,
        stream: StreamId,
        id: &WorkerId,
        sequence: u64,
        lease: Option<Duration>,
    ) -> bool {
        let Some(worker) = self.workers.table.get_mut(id) else { return false };
        // Once the lease has expired nothing is acknowledged: the lease must not be extended.
        if worker.link.phase() == AttachmentPhase::Expiring || worker.link.stream() != Some(stream) {
            return false;
        }
        worker.lease.hear(self.io.now.mono);
        if worker.lease.shorten(lease) {
            self.state_lease(id);
        }
        // Without a proof of the session the lease must not be extended: another worker may soon get this one's runs.
        if self.cluster.proven(self.io) || mutants::is_on(mutants::ACK_WITHOUT_PROOF) {
            self.workers.send(self.io, stream, ToWorker::HeartbeatAck { sequence });
        }
        true
    }

    /// Writes a worker's own lease into its attachment, so that another coordinator need not wait longer than that.
    fn state_lease(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.table.get_mut(id) else { return };
        if !worker.link.is_writing() {
            let expect = Some(worker.link.begin_writing());
            worker.link.put_lease(u64::try_from(worker.lease.length().as_millis()).unwrap_or(u64::MAX));
            let node = Box::new(worker.link.attachment().clone());
            let mut txn = Txn::new(Purpose::Lease);
            txn.write(Write::Attachment { worker: id.clone(), expect, node });
            self.io.commit(TxnFor::Lease(id.clone()), txn);
        }
        if let Some(worker) = self.workers.table.get(id) {
            let until = worker.lease.until(&self.io.settings);
            self.io.timers.insert((until, Timer::Lease(id.clone())));
        }
    }

    pub(crate) fn lease_stated(&mut self, id: &WorkerId, commit: Commit) {
        let Some(worker) = self.workers.table.get_mut(id) else { return };
        worker.link.write_ended();
        match commit {
            Commit::Committed(_) => {
                worker.link.was_written();
                self.workers.changes.push(WorkerChange::AttachmentWritten(id.clone()));
                self.go_on_leaving(id);
            }
            _ => self.io.read(ReadFor::Own(id.clone()), Query::Attachment(id.clone())),
        }
    }

    pub(crate) fn lease_timer(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.table.get(id) else { return };
        let now = self.io.now.mono;
        if worker.lease.until(&self.io.settings) > now {
            self.io.timers.insert((worker.lease.look_at(now, &self.io.settings), Timer::Lease(id.clone())));
            return;
        }
        if worker.link.is_writing() || self.cluster.is_stopping() || self.workers.admission.is_coming(id) {
            self.io.set_timer(self.io.settings.heartbeat, Timer::Lease(id.clone()));
            return;
        }
        if self.may_be_heard(id) {
            self.io.set_timer(self.io.settings.heartbeat / 4, Timer::Lease(id.clone()));
            return;
        }
        let Some(worker) = self.workers.table.get(id) else { return };
        // It said goodbye, and nothing is left to be handed back: it waits for the confirmation that it is gone.
        let handed_back = worker.ledger.runs().is_empty() || mutants::is_on(mutants::LEASE_ENDS_GOODBYES);
        let (leaving, version) =
            (worker.link.phase() == AttachmentPhase::Leaving && handed_back, worker.link.version());
        tracing::warn!(worker = %id, instance = %worker.instance, "worker lease expired");
        if let Some(worker) = self.workers.table.get_mut(id) {
            if !leaving {
                worker.link.expire();
            }
            worker.link.begin_writing();
        }
        let mut txn = Txn::new(Purpose::Expire);
        txn.write(Write::RemoveAttachment { worker: id.clone(), expect: version });
        self.io.commit(if leaving { TxnFor::Goodbye(id.clone()) } else { TxnFor::Expire(id.clone()) }, txn);
    }

    /// Whether its heartbeat may be among the frames that were waiting when its lease expired, or behind one for which
    /// there is no room yet. Frames wait in the order of arrival: once all of those are handled, however long that
    /// takes, there was none.
    fn may_be_heard(&mut self, id: &WorkerId) -> bool {
        let Some(worker) = self.workers.table.get_mut(id) else { return false };
        let came = worker.lease.came_before_its_end(self.workers.inbox.frames.came);
        let held_back =
            worker.link.stream().is_some_and(|stream| self.workers.inbox.waiting.contains(&stream));
        self.workers.inbox.frames.taken < came || held_back
    }

    pub(crate) fn expiry_committed(&mut self, id: &WorkerId, commit: Commit) {
        if let Some(worker) = self.workers.table.get_mut(id) {
            worker.link.write_ended();
        }
        match commit {
            Commit::Committed(_) => self.gone(id, WorkerEvent::Dead),
            Commit::Unavailable(_) | Commit::TooLarge(_) => {
                self.io.set_timer(self.io.settings.store_retry, Timer::Lease(id.clone()))
            }
            _ => self.io.read(ReadFor::Own(id.clone()), Query::Attachment(id.clone())),
        }
    }

    /// The stored attachment of a worker of ours after a write that failed or may have failed.
    pub(crate) fn own_read(&mut self, id: &WorkerId, read: Result<Option<(Version, Attachment)>, ReadError>) {
        let Some(worker) = self.workers.table.get_mut(id) else { return };
        match read {
            Err(_) => self.io.set_timer(self.io.settings.store_retry, Timer::Lease(id.clone())),
            Ok(None) => self.gone(id, WorkerEvent::Dead),
            // It was read before the write in flight, whose result says more, or before a later write.
            Ok(Some((version, _))) if worker.link.is_writing() || version < worker.link.version() => {}
            Ok(Some((version, stored)))
                if stored.session == self.io.session && stored.stream == worker.link.stream_number() =>
            {
                worker.link.was_read(version, stored);
                match worker.link.phase() {
                    AttachmentPhase::Expiring => self.io.set_timer(Duration::ZERO, Timer::Lease(id.clone())),
                    AttachmentPhase::Leaving => self.workers.changes.push(WorkerChange::Leaving(id.clone())),
                    AttachmentPhase::Draining { .. } if worker.link.undrain() => self.drain_requested(id),
                    AttachmentPhase::Draining { .. } => self.leaves(id),
                    _ => self.go_on_leaving(id),
                }
                self.workers.changes.push(WorkerChange::AttachmentWritten(id.clone()));
            }
            Ok(Some((version, stored))) => self.lost_to_another(id, version, stored),
        }
    }
}
