//! Workers of other hosts: one whose host is gone, and whose attachment does not change for a lease, is marked dead.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::{Version, WorkerId};
use rosterd_domain::mutants;
use rosterd_domain::snapshot::Attachment;
use rosterd_domain::txn::{Commit, Purpose, Txn, Write};
use rosterd_registry::ReadError;

use crate::io::event::Query;
use crate::io::pending::{ReadFor, TxnFor};
use crate::io::timers::Timer;
use crate::workers::remote::RemoteAttachment;
use crate::workers::{WorkerChange, WorkersTurn};

impl WorkersTurn<'_> {
    pub(crate) fn attachments_read(&mut self, read: BTreeMap<WorkerId, (Version, Attachment)>) {
        self.workers.elsewhere.retain(|id, _| read.contains_key(id));
        for (id, (version, attachment)) in read {
            if !self.workers.table.contains_key(&id) {
                self.note_remote(id, version, attachment);
            }
        }
        // Once for all of them, since there may be thousands.
        self.look_at_hosts();
        if self.cluster.attachments_read() {
            self.cluster.set_health(self.io, crate::io::operation::Health::Serving);
            self.io.read(ReadFor::Jobs, Query::Jobs);
        }
        self.workers.changes.push(WorkerChange::AttachmentsRead);
    }

    pub(crate) fn seen_remote(&mut self, id: WorkerId, version: Version, attachment: Attachment) {
        self.note_remote(id.clone(), version, attachment);
        self.look_at_host_of(&id);
    }

    fn note_remote(&mut self, id: WorkerId, version: Version, attachment: Attachment) {
        if self.workers.elsewhere.get(&id).is_some_and(|known| known.version() == version) {
            return;
        }
        let found = RemoteAttachment::new(version, attachment, self.io.last_id);
        self.workers.elsewhere.insert(id, found);
    }

    /// Workers whose hosts are not among the live coordinators have a lease from now on to attach elsewhere. While a
    /// worker's host is alive, that host decides. A worker that this coordinator hosted in an earlier session has no
    /// host.
    pub(crate) fn look_at_hosts(&mut self) {
        let all: Vec<WorkerId> = self.workers.elsewhere.keys().cloned().collect();
        all.iter().for_each(|id| self.look_at_host_of(id));
    }

    fn look_at_host_of(&mut self, id: &WorkerId) {
        let Some(found) = self.workers.elsewhere.get_mut(id) else { return };
        let (now, settings, host) = (self.io.now.mono, &self.io.settings, found.host());
        let lives = self.cluster.members().contains(host) && *host != settings.id;
        if lives {
            found.host_lives();
        } else if found.gone_since().is_none() && !found.was_seen_before(self.cluster.members().asked()) {
            // The coordinators were requested before its host was known. The host may have appeared since, and the
            // worker's lease is valid as long as it lives: only a host that is missing in a newer read is gone.
            self.schedule.single_flight.read_members(self.io);
        } else if found.gone_since().is_none() {
            found.host_has_gone(now);
            self.io.timers.extend(found.orphaned_at(settings).map(|at| (at, Timer::RemoteLease(id.clone()))));
        }
    }

    /// Whether a worker's host has been gone for a lease.
    fn is_orphaned(&self, id: &WorkerId) -> bool {
        let Some(found) = self.workers.elsewhere.get(id) else { return false };
        if mutants::is_on(mutants::FORSAKEN_UNJUDGED) {
            return false;
        }
        !found.is_expiring()
            && !self.cluster.is_stopping()
            && found.orphaned_at(&self.io.settings).is_some_and(|at| at <= self.io.now.mono)
            && !self.workers.admission.is_coming(id)
    }

    pub(crate) fn remote_lease_timer(&mut self, id: &WorkerId) {
        if self.is_orphaned(id) {
            self.workers.expiry.add(id.clone());
            self.expire_next();
        } else {
            self.wait_for_host_of(id);
        }
    }

    /// Based on a new read, since the host may have appeared meanwhile.
    fn expire_next(&mut self) {
        if let Some(workers) = self.workers.expiry.begin() {
            self.io.read(ReadFor::Expire(workers), Query::Coordinators);
        }
    }

    /// The live coordinators were just read.
    pub(crate) fn expire_all(&mut self, workers: &BTreeSet<WorkerId>) {
        self.workers.expiry.end();
        workers.iter().for_each(|id| self.expire(id));
        self.expire_next();
    }

    /// They could not be read.
    pub(crate) fn expire_later(&mut self, workers: BTreeSet<WorkerId>) {
        self.workers.expiry.end();
        for id in workers {
            self.io.set_timer(self.io.settings.store_retry, Timer::RemoteLease(id));
        }
        self.expire_next();
    }

    /// It sent a heartbeat meanwhile, or its Hello is being processed: it has a lease from then on.
    fn wait_for_host_of(&mut self, id: &WorkerId) {
        let Some(found) = self.workers.elsewhere.get(id).filter(|found| !found.is_expiring()) else { return };
        if let Some(at) = found.orphaned_at(&self.io.settings).filter(|_| !self.cluster.is_stopping()) {
            let soon = self.io.now.mono.plus(self.io.settings.heartbeat);
            self.io.timers.insert((at.max(soon), Timer::RemoteLease(id.clone())));
        }
    }

    fn expire(&mut self, id: &WorkerId) {
        if !self.is_orphaned(id) {
            return self.wait_for_host_of(id);
        }
        let Some(found) = self.workers.elsewhere.get_mut(id) else { return };
        let expect = found.expire();
        tracing::warn!(worker = %id, "worker marked dead: its host is gone and it attached nowhere else");
        let mut txn = Txn::new(Purpose::Expire);
        txn.write(Write::RemoveAttachment { worker: id.clone(), expect });
        self.io.commit(TxnFor::ExpireRemote(id.clone()), txn);
    }

    pub(crate) fn remote_expired(&mut self, id: &WorkerId, commit: Commit) {
        match commit {
            Commit::Committed(_) => {
                self.workers.elsewhere.remove(id);
                self.workers.changes.push(WorkerChange::Orphaned(id.clone()));
            }
            _ => self.io.read(ReadFor::Suspect(id.clone()), Query::Attachment(id.clone())),
        }
    }

    /// A worker elsewhere may be gone: its attachment is read after a delay, once for all requests.
    pub(crate) fn look_later(&mut self, id: WorkerId) {
        if self.workers.expiry.look_later(&id) {
            self.io.set_timer(self.io.settings.store_retry, Timer::Absent(id));
        }
    }

    /// The delay is over.
    pub(crate) fn look_now(&mut self, id: WorkerId) {
        self.workers.expiry.look_now(&id);
        self.io.read(ReadFor::Suspect(id.clone()), Query::Attachment(id));
    }

    /// A record names a worker that is not ours, or its attachment is in doubt.
    pub(crate) fn suspect_read(
        &mut self,
        id: &WorkerId,
        read: Result<Option<(Version, Attachment)>, ReadError>,
    ) {
        match read {
            // Retried until there is an answer: nothing else shows whether it was marked dead.
            Err(_) => self.look_later(id.clone()),
            Ok(None) => {
                self.workers.elsewhere.remove(id);
                self.workers.changes.push(WorkerChange::Orphaned(id.clone()));
            }
            Ok(Some((version, attachment))) => {
                if self.workers.elsewhere.get(id).is_some_and(RemoteAttachment::is_expiring) {
                    self.workers.elsewhere.remove(id);
                }
                if !self.workers.table.contains_key(id) {
                    self.seen_remote(id.clone(), version, attachment);
                }
                self.workers.changes.push(WorkerChange::SeenElsewhere(id.clone()));
            }
        }
    }
}
