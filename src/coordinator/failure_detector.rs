//! A worker is marked dead: by its host, when nothing was received for its lease; by anybody, when its host
//! has gone and its attachment stayed as it was for as long. Deleting the attachment marks it dead; whoever
//! attaches first makes it fail.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rosterd_domain::id::{Version, WorkerId};
use rosterd_domain::mutants;
use rosterd_domain::snapshot::Attachment;
use rosterd_domain::time::Mono;
use rosterd_domain::txn::{Commit, Purpose, Txn, Write};
use rosterd_domain::view::Job;

use super::command::is_told;
use super::event::{Query, ReadId, StreamId};
use super::handle::WorkerChange;
use super::job::JobState;
use super::node::{Node, ReadFor, TxnFor};
use super::settings::Settings;
use super::timers::Timer;
use super::worker::Phase;
use rosterd_registry::ReadError;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::{RunRef, ToWorker};

/// An attachment that is not this coordinator's.
#[derive(Debug)]
pub(super) struct RemoteAttachment {
    pub(super) version: Version,
    pub(super) attachment: Attachment,
    /// The last number that was given away before this was known: what was asked for since has a higher one.
    pub(super) seen: ReadId,
    /// Since when this coordinator knows that its host has gone, and sees it at this version; none: the host lives.
    pub(super) gone_since: Option<Mono>,
    /// It is being deleted.
    pub(super) expiring: bool,
}

impl RemoteAttachment {
    /// When its host has been gone for a lease; none: it is not known to have gone.
    pub(super) fn orphaned_at(&self, settings: &Settings) -> Option<Mono> {
        let lease = self.attachment.lease().max(settings.lease);
        self.gone_since.map(|since| since.plus(settings.verdict_after(lease)))
    }
}

/// Verdicts on workers of hosts that have gone. All who were hosted there come due together, and one reading of the living
/// coordinators is enough for them.
#[derive(Debug, Default)]
pub(super) struct PendingExpiry {
    /// Their turn comes when the reading under way has ended.
    pub(super) waiting: BTreeSet<WorkerId>,
    pub(super) under_way: bool,
}

impl Node {
    pub(super) fn heartbeat(
        &mut self,
        stream: StreamId,
        id: &WorkerId,
        sequence: u64,
        in_flight: &[RunRef],
        lease: Option<Duration>,
    ) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        // Once the lease has expired nothing is acknowledged: the lease must not grow again.
        if worker.phase == Phase::Expiring || worker.stream != Some(stream) {
            return;
        }
        worker.heard = self.now.mono;
        let shorter = lease.filter(|lease| *lease < worker.lease && *lease >= Duration::from_millis(50));
        if let Some(lease) = shorter {
            worker.lease = lease;
            self.state_lease(id);
        }
        // Without a proof of the session the lease must not grow: another may soon be given this worker's runs.
        if self.proven() || mutants::is_on(mutants::ACK_WITHOUT_PROOF) {
            self.send(stream, ToWorker::HeartbeatAck { sequence });
        }
        self.compare_runs(id, in_flight);
        self.named_in_flight(id, in_flight);
    }

    /// Writes the lease that a worker counts with into its attachment, so that a finder need not wait longer.
    fn state_lease(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        if !worker.writing {
            worker.writing = true;
            worker.attachment.lease_ms = u64::try_from(worker.lease.as_millis()).unwrap_or(u64::MAX);
            let node = Box::new(worker.attachment.clone());
            let mut txn = Txn::new(Purpose::Lease);
            txn.write(Write::Attachment { worker: id.clone(), expect: Some(worker.version), node });
            self.commit(TxnFor::Lease(id.clone()), txn);
        }
        if let Some(worker) = self.workers.get(id) {
            let until = worker.heard.plus(self.settings.verdict_after(worker.lease));
            self.timers.insert((until, Timer::Lease(id.clone())));
        }
    }

    pub(super) fn lease_stated(&mut self, id: &WorkerId, commit: Commit) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        worker.writing = false;
        match commit {
            Commit::Committed(_) => {
                worker.version = worker.version.next();
                self.jobs_have_their_turn(id);
                self.go_on_leaving(id);
            }
            _ => self.read(ReadFor::Own(id.clone()), Query::Attachment(id.clone())),
        }
    }

    pub(super) fn lease_timer(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.get(id) else { return };
        let until = worker.heard.plus(self.settings.verdict_after(worker.lease));
        if until > self.now.mono {
            self.timers.insert((until, Timer::Lease(id.clone())));
            return;
        }
        if worker.writing || self.stopping || self.is_coming(id) {
            self.set_timer(self.settings.heartbeat, Timer::Lease(id.clone()));
            return;
        }
        if self.may_be_heard(id) {
            self.set_timer(self.settings.heartbeat / 4, Timer::Lease(id.clone()));
            return;
        }
        let Some(worker) = self.workers.get(id) else { return };
        // It said goodbye, and nothing is left to be handed back: that it has gone is what it waits to hear.
        let handed_back = worker.runs.is_empty() || mutants::is_on(mutants::LEASE_ENDS_GOODBYES);
        let (leaving, version) = (worker.phase == Phase::Leaving && handed_back, worker.version);
        tracing::warn!(worker = %id, instance = %worker.instance, "worker lease expired");
        if let Some(worker) = self.workers.get_mut(id) {
            if !leaving {
                worker.phase = Phase::Expiring;
            }
            worker.writing = true;
        }
        let mut txn = Txn::new(Purpose::Verdict);
        txn.write(Write::RemoveAttachment { worker: id.clone(), expect: version });
        self.commit(if leaving { TxnFor::Goodbye(id.clone()) } else { TxnFor::Expire(id.clone()) }, txn);
    }

    /// Whether its heartbeats may be among the frames that waited to be taken in when its lease was over, or behind one for
    /// which there is no room yet. They wait in the order in which they came: once all of those are taken in, however long
    /// that lasts, silence is silence.
    fn may_be_heard(&mut self, id: &WorkerId) -> bool {
        let Some(worker) = self.workers.get_mut(id) else { return false };
        let came = match worker.lease_expired_at {
            Some((heard, came)) if heard == worker.heard => came,
            _ => self.frames.came,
        };
        worker.lease_expired_at = Some((worker.heard, came));
        let held_back = worker.stream.is_some_and(|stream| self.waiting.contains(&stream));
        self.frames.taken < came || held_back
    }

    pub(super) fn expiry_committed(&mut self, id: &WorkerId, commit: Commit) {
        if let Some(worker) = self.workers.get_mut(id) {
            worker.writing = false;
        }
        match commit {
            Commit::Committed(_) => self.gone(id, WorkerChange::Dead),
            Commit::Unavailable(_) | Commit::TooLarge(_) => {
                self.set_timer(self.settings.store_retry, Timer::Lease(id.clone()))
            }
            _ => self.read(ReadFor::Own(id.clone()), Query::Attachment(id.clone())),
        }
    }

    /// What the registry says of a worker of ours after a write that failed or may have failed.
    pub(super) fn own_read(&mut self, id: &WorkerId, read: Result<Option<(Version, Attachment)>, ReadError>) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        match read {
            Err(_) => self.set_timer(self.settings.store_retry, Timer::Lease(id.clone())),
            Ok(None) => self.gone(id, WorkerChange::Dead),
            // It was asked for before what is being written now, whose end says more; or before what was written since.
            Ok(Some((version, _))) if worker.writing || version < worker.version => {}
            Ok(Some((version, stored)))
                if stored.session == self.session && stored.stream == worker.stream_number =>
            {
                worker.version = version;
                worker.attachment = stored;
                match worker.phase {
                    Phase::Expiring => self.set_timer(Duration::ZERO, Timer::Lease(id.clone())),
                    Phase::Leaving => self.finish_goodbye(id),
                    Phase::Draining { .. } if !worker.attachment.draining => {
                        worker.phase = Phase::Attached;
                        self.drain_requested(id);
                    }
                    Phase::Draining { .. } => self.leaves(id),
                    _ => self.go_on_leaving(id),
                }
                self.jobs_have_their_turn(id);
            }
            Ok(Some((version, stored))) => self.lost_to_another(id, version, stored),
        }
    }

    /// Another stream or host speaks for the worker now.
    fn lost_to_another(&mut self, id: &WorkerId, version: Version, stored: Attachment) {
        let Some(worker) = self.workers.remove(id) else { return };
        if let Some(stream) = worker.stream {
            self.close(
                stream,
                Some(Refusal::new(Code::StreamSuperseded, "the worker is attached elsewhere")),
            );
        }
        for name in self.jobs_of(&worker) {
            if let Some(job) = self.jobs.get_mut(&name) {
                job.drop_handoff_reports(id);
                job.hosted.remove(&worker.instance);
                job.last_assignment_sent.remove(&worker.instance);
                self.run_queue.insert(name);
            }
        }
        self.seen_remote(id.clone(), version, stored);
    }

    pub(super) fn attachments_read(&mut self, read: BTreeMap<WorkerId, (Version, Attachment)>) {
        self.elsewhere.retain(|id, _| read.contains_key(id));
        for (id, (version, attachment)) in read {
            if !self.workers.contains_key(&id) {
                self.note_remote(id, version, attachment);
            }
        }
        // Once for all of them: there may be thousands.
        self.look_at_hosts();
        self.look_for_the_gone();
        if !self.synced {
            self.synced = true;
            self.set_health(super::handle::Health::Serving);
            self.read(ReadFor::Jobs, Query::Jobs);
        }
        self.run_queue.extend(self.jobs.keys().cloned());
    }

    /// Who is attached nowhere any more left, or was marked dead. Whoever wrote that ends the runs that it had, but may
    /// have died before: jobs whose records name somebody of whom nothing is known are read again, and what they say
    /// then is looked into.
    fn look_for_the_gone(&mut self) {
        let (here, elsewhere) = (&self.workers, &self.elsewhere);
        for job in self.jobs.values_mut() {
            let dead = &job.dead;
            let gone =
                |id: &WorkerId| !here.contains_key(id) && !elsewhere.contains_key(id) && !dead.contains(id);
            let mut runs = job.records.values().filter_map(|(_, record)| record.running());
            let lost = runs.any(|run| gone(&run.worker));
            job.stale_records |= lost;
        }
    }

    fn seen_remote(&mut self, id: WorkerId, version: Version, attachment: Attachment) {
        self.note_remote(id.clone(), version, attachment);
        self.look_at_host_of(&id);
    }

    fn note_remote(&mut self, id: WorkerId, version: Version, attachment: Attachment) {
        if self.elsewhere.get(&id).is_some_and(|known| known.version == version) {
            return;
        }
        let seen = self.last_id;
        let found = RemoteAttachment { version, attachment, seen, gone_since: None, expiring: false };
        self.elsewhere.insert(id, found);
    }

    /// Workers whose hosts are not among the living coordinators have a lease from now on to attach elsewhere.
    /// While its host lives, its host judges. One that this coordinator hosted in a session before has no host.
    pub(super) fn look_at_hosts(&mut self) {
        let all: Vec<WorkerId> = self.elsewhere.keys().cloned().collect();
        all.iter().for_each(|id| self.look_at_host_of(id));
    }

    fn look_at_host_of(&mut self, id: &WorkerId) {
        let Some(found) = self.elsewhere.get_mut(id) else { return };
        let (now, settings, host) = (self.now.mono, &self.settings, &found.attachment.host);
        let lives = self.coordinators.contains(host) && *host != settings.id;
        if lives {
            found.gone_since = None;
        } else if found.gone_since.is_none() && found.seen >= self.coordinators.asked {
            // The coordinators were asked for before its host was known, which may have come since, and lets it believe in
            // its lease for as long as it lives itself: only who is missing among those of now has gone.
            self.read_members();
        } else if found.gone_since.is_none() {
            found.gone_since = Some(now);
            self.timers.extend(found.orphaned_at(settings).map(|at| (at, Timer::RemoteLease(id.clone()))));
        }
    }

    /// Whether a worker's host has been gone for a lease.
    fn is_orphaned(&self, id: &WorkerId) -> bool {
        let Some(found) = self.elsewhere.get(id) else { return false };
        if mutants::is_on(mutants::FORSAKEN_UNJUDGED) {
            return false;
        }
        !found.expiring
            && !self.stopping
            && found.orphaned_at(&self.settings).is_some_and(|at| at <= self.now.mono)
            && !self.is_coming(id)
    }

    pub(super) fn remote_lease_timer(&mut self, id: &WorkerId) {
        if self.is_orphaned(id) {
            self.pending_expiry.waiting.insert(id.clone());
            self.expire_next();
        } else {
            self.wait_for_host_of(id);
        }
    }

    /// Not from what was heard some time ago: the host may have come meanwhile.
    fn expire_next(&mut self) {
        if !self.pending_expiry.waiting.is_empty()
            && !std::mem::replace(&mut self.pending_expiry.under_way, true)
        {
            let workers = std::mem::take(&mut self.pending_expiry.waiting);
            self.read(ReadFor::Expire(workers), Query::Coordinators);
        }
    }

    /// The living coordinators were just read.
    pub(super) fn expire_all(&mut self, workers: &BTreeSet<WorkerId>) {
        self.pending_expiry.under_way = false;
        workers.iter().for_each(|id| self.expire(id));
        self.expire_next();
    }

    /// They could not be read.
    pub(super) fn expire_later(&mut self, workers: BTreeSet<WorkerId>) {
        self.pending_expiry.under_way = false;
        for id in workers {
            self.set_timer(self.settings.store_retry, Timer::RemoteLease(id));
        }
        self.expire_next();
    }

    /// It was heard meanwhile, or its Hello is being worked on: it has a lease from then on.
    fn wait_for_host_of(&mut self, id: &WorkerId) {
        let Some(found) = self.elsewhere.get(id).filter(|found| !found.expiring) else { return };
        if let Some(at) = found.orphaned_at(&self.settings).filter(|_| !self.stopping) {
            let soon = self.now.mono.plus(self.settings.heartbeat);
            self.timers.insert((at.max(soon), Timer::RemoteLease(id.clone())));
        }
    }

    fn expire(&mut self, id: &WorkerId) {
        if !self.is_orphaned(id) {
            return self.wait_for_host_of(id);
        }
        let Some(found) = self.elsewhere.get_mut(id) else { return };
        found.expiring = true;
        tracing::warn!(worker = %id, "worker marked dead: its host is gone and it attached nowhere else");
        let mut txn = Txn::new(Purpose::Verdict);
        txn.write(Write::RemoveAttachment { worker: id.clone(), expect: found.version });
        self.commit(TxnFor::ExpireRemote(id.clone()), txn);
    }

    pub(super) fn remote_expired(&mut self, id: &WorkerId, commit: Commit) {
        match commit {
            Commit::Committed(_) => {
                self.elsewhere.remove(id);
                self.mark_dead(id);
            }
            _ => self.read(ReadFor::Suspect(id.clone()), Query::Attachment(id.clone())),
        }
    }

    /// A worker elsewhere may have gone: its attachment is read in a moment, once for all who ask.
    pub(super) fn look_later(&mut self, id: WorkerId) {
        if self.lookups_pending.insert(id.clone()) {
            self.set_timer(self.settings.store_retry, Timer::Absent(id));
        }
    }

    /// Nodes of ours of workers that are nowhere any more. They were hosted here before, by another since, and both went before
    /// that one had put nodes of its own or had taken ours away: as long as our session lives, nobody else looks after these.
    pub(super) fn look_at_left_behind(&mut self, job: &JobState, view: &Job) {
        let mine = view.instances.iter().filter(|(_, seen)| seen.mine).map(|(instance, _)| instance);
        for instance in mine.filter(|instance| !job.hosted.contains_key(*instance)) {
            let Some(worker) = instance.worker() else { continue };
            let known = self.workers.contains_key(&worker) || self.elsewhere.contains_key(&worker);
            if !known && !job.leaving.contains(instance) {
                self.look_later(worker);
            }
        }
    }

    /// A record names a worker that is not ours, or what is known of its attachment is in doubt.
    pub(super) fn suspect_read(
        &mut self,
        id: &WorkerId,
        read: Result<Option<(Version, Attachment)>, ReadError>,
    ) {
        match read {
            // It is asked for until there is an answer: nothing else tells whether it was marked dead.
            Err(_) => self.look_later(id.clone()),
            Ok(None) => {
                self.elsewhere.remove(id);
                self.mark_dead(id);
            }
            Ok(Some((version, attachment))) => {
                if self.elsewhere.get(id).is_some_and(|known| known.expiring) {
                    self.elsewhere.remove(id);
                }
                if !self.workers.contains_key(id) {
                    self.seen_remote(id.clone(), version, attachment);
                }
                // Who leads a job that lacks its instance looks again.
                let named = |job: &JobState| {
                    let view = job.view.as_ref();
                    view.is_some_and(|view| view.sharding.instances().iter().any(|i| i.is_of(id)))
                };
                let jobs = self.jobs.iter().filter(|(_, job)| job.leads() && named(job));
                let jobs: Vec<_> = jobs.map(|(name, _)| name.clone()).collect();
                self.run_queue.extend(jobs);
            }
        }
    }

    /// A worker that was never here is dead: every job whose records or instances name it is told.
    pub(super) fn mark_dead(&mut self, id: &WorkerId) {
        for (name, job) in &mut self.jobs {
            let runs =
                job.records.values().any(|(_, record)| record.running().is_some_and(|run| run.worker == *id));
            let instance = job.view.as_ref().and_then(|view| {
                let planned = view.sharding.instances().iter();
                view.instances.keys().chain(planned).find(|i| i.is_of(id)).cloned()
            });
            let told = job.view.as_ref().is_some_and(|view| is_told(view, id));
            if runs || told || instance.is_some() {
                job.dead.insert(id.clone());
                job.leaving.extend(instance);
                // Its runs were recorded by another host.
                job.stale_records = true;
                self.run_queue.insert(name.clone());
            }
        }
    }
}

#[cfg(test)]
#[path = "failure_detector_tests.rs"]
pub(super) mod tests;
