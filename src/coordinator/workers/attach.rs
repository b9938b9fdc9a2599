//! Attaches a worker: Hello, the attachment, its jobs moved here, Welcome.
//!
//! Every Welcome follows a committed write of the attachment, even on the same host: the attachment decides which
//! coordinator acts for a worker. Records are read after that write, not before.

use std::collections::BTreeSet;
use std::time::Duration;

use rosterd_domain::id::{InstanceId, JobName, Version, WorkerId};
use rosterd_domain::mutants;
use rosterd_domain::snapshot::Attachment;
use rosterd_domain::time::Mono;
use rosterd_domain::txn::{Commit, Purpose, Txn, Write};
use rosterd_registry::ReadError;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::{Hello, ToWorker, Welcome};
use rosterd_session::key;

use crate::cluster::calendar_watch::millis;
use crate::io::cluster_event::WorkerEvent;
use crate::io::event::{Query, StreamId};
use crate::io::pending::{ReadFor, TxnFor};
use crate::io::timers::Timer;
use crate::workers::admission::Attaching;
use crate::workers::parts::lease::WELCOME_TIMEOUT;
use crate::workers::parts::link::{AttachmentPhase, Link};
use crate::workers::streams::superseded;
use crate::workers::worker::Worker;
use crate::workers::{WorkerChange, WorkersTurn};

impl WorkersTurn<'_> {
    /// Processes a Hello that was read at `heard`.
    pub(crate) fn hello(&mut self, stream: StreamId, hello: Box<Hello>, heard: Mono) {
        self.compare_workers_clock(&hello);
        match &hello.identity {
            None => self.attach_new(stream, hello, heard),
            Some((worker, _)) => {
                let worker = worker.clone();
                self.io.read(ReadFor::Hello(stream, hello, heard), Query::Attachment(worker));
            }
        }
    }

    /// Warns if a worker's clock is off: the times in its logs, and in its programs, are wrong then. A clock that seems
    /// to be behind may be right, and the Hello have waited to be read: not longer than its client waits.
    fn compare_workers_clock(&self, hello: &Hello) {
        let Some(sent) = hello.sent_at else { return };
        let ahead = sent.0.saturating_sub(self.io.now.wall.0);
        let waited = if ahead < 0 { WELCOME_TIMEOUT } else { Duration::ZERO };
        if ahead.unsigned_abs() > millis(self.io.settings.max_clock_difference + waited) {
            let by = Duration::from_millis(ahead.unsigned_abs());
            let side = if ahead < 0 { "behind" } else { "ahead of" };
            tracing::warn!(
                address = %hello.address,
                client = %hello.client,
                "the clock of a worker is {by:?} {side} this coordinator's: set it right, or times in its logs will mislead"
            );
        }
    }

    pub(crate) fn check_hello(&self, hello: &Hello) -> Result<(), Refusal> {
        let served = &self.io.settings.namespace;
        if let Some(wanted) = hello.namespace.as_ref().filter(|wanted| *wanted != served) {
            return Err(Refusal::new(
                Code::NamespaceMismatch,
                format!("namespace {wanted} is not served here: this coordinator serves {served}"),
            ));
        }
        if hello.slots == 0 || hello.slots > self.io.settings.max_slots {
            let most = self.io.settings.max_slots;
            return Err(Refusal::new(
                Code::HelloInvalid,
                format!("slots is {}: a worker takes 1 to {most} runs at a time", hello.slots),
            ));
        }
        if hello.jobs.len() > self.io.settings.max_jobs_per_worker {
            let most = self.io.settings.max_jobs_per_worker;
            return Err(Refusal::new(
                Code::TooManyJobs,
                format!("jobs names {}: at most {most}", hello.jobs.len()),
            ));
        }
        Ok(())
    }

    pub(crate) fn hello_read(
        &mut self,
        stream: StreamId,
        hello: Box<Hello>,
        heard: Mono,
        read: Result<Option<(Version, Attachment)>, ReadError>,
    ) {
        let Some((worker, shown)) = hello.identity.clone() else { return };
        let by = self.workers.streams.get(&stream).and_then(|stream| stream.peer().principal.clone());
        let has_key = |stored: &Attachment| key::matches(&stored.resume_key, &shown);
        // A caller with the key but another credential would have the rights of neither.
        let is_another = |stored: &Attachment| {
            let differs = by.is_some() && stored.principal.is_some() && stored.principal != by;
            differs && !mutants::is_on(mutants::ANY_CREDENTIAL_RESUMES)
        };
        if matches!(&read, Ok(Some((_, stored))) if has_key(stored) && !is_another(stored)) {
            self.lives(&worker, heard);
        }
        match read {
            Err(error) => {
                let refusal = Refusal::new(Code::StoreUnavailable, format!("{error}: try again"));
                self.workers.close(self.io, stream, Some(refusal));
            }
            // Its client has given up, and reconnects: writing would be useless now. This saves work but guarantees
            // nothing: the end of a stream may be noticed late, or never.
            _ if !self.workers.is_greeting(stream) && !mutants::is_on(mutants::STREAM_NUMBERS_UNCHECKED) => {}
            // It was marked dead, or said goodbye: its name is never used again.
            Ok(None) => self.attach_new(stream, hello, heard),
            Ok(Some((_, stored))) if !has_key(&stored) => {
                let refusal = Refusal::new(
                    Code::ResumeRefused,
                    format!(
                        "resume_key is not the one given to worker {worker}: leave worker_id empty to get an identity of its own"
                    ),
                );
                self.workers.close(self.io, stream, Some(refusal));
            }
            Ok(Some((_, stored))) if is_another(&stored) => {
                let refusal = Refusal::new(
                    Code::ResumeRefused,
                    format!(
                        "worker {worker} came with another credential: come back with that one, or leave worker_id empty to get an identity of its own"
                    ),
                );
                self.workers.close(self.io, stream, Some(refusal));
            }
            Ok(Some((_, stored)))
                if hello.stream <= stored.stream && !mutants::is_on(mutants::STREAM_NUMBERS_UNCHECKED) =>
            {
                self.workers.close(self.io, stream, Some(superseded(hello.stream, stored.stream)));
            }
            Ok(Some((version, stored))) => self.attach_again(stream, hello, heard, worker, version, stored),
        }
    }

    fn attach_new(&mut self, stream: StreamId, hello: Box<Hello>, heard: Mono) {
        let (id, resume_key) = ((self.io.ids)(), (self.io.ids)());
        let Ok(worker) = WorkerId::new(&id) else { return };
        let stored = key::digest(&resume_key);
        self.attach(
            stream,
            hello,
            heard,
            worker,
            None,
            resume_key,
            stored,
            None,
            self.io.settings.lease,
            None,
        );
    }

    fn attach_again(
        &mut self,
        stream: StreamId,
        mut hello: Box<Hello>,
        heard: Mono,
        worker: WorkerId,
        version: Version,
        stored: Attachment,
    ) {
        // A worker stays on its machine: otherwise it could leave a disabled one by stating another address.
        if !mutants::is_on(mutants::ADDRESS_AS_SAID) {
            hello.address = stored.address.clone();
        }
        if let Some(known) = self.workers.table.get_mut(&worker) {
            if known.link.phase() == AttachmentPhase::Expiring || known.link.is_writing() {
                // The transaction in flight decides; the client reconnects.
                let refusal =
                    Refusal::new(Code::Contended, "the worker's attachment is being written: connect again");
                return self.workers.close(self.io, stream, Some(refusal));
            }
            if let Some(old) = known.link.stream().filter(|old| *old != stream) {
                let refusal = superseded(known.link.stream_number(), hello.stream);
                self.workers.close(self.io, old, Some(refusal));
            }
        }
        let shown = hello.identity.as_ref().map(|(_, key)| key.clone()).unwrap_or_default();
        let lease = stored.lease().min(self.io.settings.lease);
        let (asked, by) = (stored.leave_grace_ms, stored.principal);
        self.attach(stream, hello, heard, worker, Some(version), shown, stored.resume_key, by, lease, asked);
    }

    #[allow(clippy::too_many_arguments)]
    fn attach(
        &mut self,
        stream: StreamId,
        hello: Box<Hello>,
        heard: Mono,
        worker: WorkerId,
        expect: Option<Version>,
        key: String,
        stored: String,
        came_by: Option<String>,
        lease: Duration,
        leave_grace_ms: Option<u64>,
    ) {
        let instance = match InstanceId::from_parts(&hello.address, &worker) {
            Ok(instance) => instance,
            Err(error) => {
                return self.workers.close(
                    self.io,
                    stream,
                    Some(Refusal::new(Code::HelloInvalid, format!("address: {error}"))),
                );
            }
        };
        let peer = self.workers.streams.get(&stream).map(|stream| stream.peer().clone()).unwrap_or_default();
        let node = Attachment {
            host: self.io.settings.id.clone(),
            session: self.io.session.clone(),
            stream: hello.stream,
            draining: false,
            leave_grace_ms,
            resume_key: stored,
            principal: peer.principal.or(came_by),
            address: hello.address.clone(),
            lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
        };
        let version = expect.map_or(Version(0), Version::next);
        let mut txn = Txn::new(Purpose::Attach);
        txn.write(Write::Attachment { worker: worker.clone(), expect, node: Box::new(node.clone()) });
        let link = Link::new(stream, node, expect, version);
        let new = Worker::new(worker.clone(), instance, &hello, link, peer.jobs, heard);
        if let Some(known) = self.workers.table.get_mut(&worker) {
            known.link.begin_writing();
        }
        self.workers.admission.attach(stream, Attaching { hello, worker: new, key });
        self.io.commit(TxnFor::Attach(stream), txn);
    }

    /// The write of an attachment ended.
    pub(crate) fn attached(&mut self, stream: StreamId, commit: Commit) {
        let Some(attaching) = self.workers.admission.take_attaching(stream) else { return };
        let Attaching { hello, mut worker, key } = attaching;
        if let Some(known) = self.workers.table.get_mut(&worker.id) {
            known.link.write_ended();
        }
        if commit == Commit::Unknown {
            // It may have been written, and its client may never come back, so the attachment is checked.
            self.io.read(ReadFor::Suspect(worker.id.clone()), Query::Attachment(worker.id.clone()));
        }
        if !matches!(commit, Commit::Committed(_)) {
            let refusal = match commit {
                Commit::Unavailable(why) | Commit::TooLarge(why) => Refusal::new(Code::StoreUnavailable, why),
                Commit::Unknown => Refusal::new(
                    Code::OutcomeUnknown,
                    "the attachment may have been written: connect again with a higher stream_number",
                ),
                _ => Refusal::new(
                    Code::Contended,
                    "the worker's attachment was written by another: connect again",
                ),
            };
            return self.workers.close(self.io, stream, Some(refusal));
        }
        let id = worker.id.clone();
        // Two of its Hellos were written before the first answer arrived: the earlier stream will never be welcomed.
        if let Some(known) = self.workers.table.get(&id) {
            let (other, numbers) =
                (known.link.stream(), [known.link.stream_number(), worker.link.stream_number()]);
            if known.link.version() > worker.link.version() {
                return self.workers.close(self.io, stream, Some(superseded(numbers[1], numbers[0])));
            }
            if let Some(left) = other.filter(|left| *left != stream) {
                self.workers.close(self.io, left, Some(superseded(numbers[0], numbers[1])));
            }
        }
        self.workers.elsewhere.remove(&worker.id);
        let still_here = self.workers.streams.contains_key(&stream);
        worker.key = key;
        let old = self.workers.table.remove(&id);
        let narrowed = old.as_ref().is_some_and(|old| old.work.rights() != worker.work.rights());
        let has_runs = old.is_none() && hello.identity.is_some();
        let taken_over = old.as_ref().map_or(has_runs, |old| old.link.is_taken_over());
        worker.link.attached(still_here.then_some(stream), taken_over);
        if !still_here {
            worker.lease.stops_waiting(self.io.now.mono);
        }
        if let Some(old) = old {
            worker.go_on(old);
        }
        let (jobs, lost): (Vec<_>, Vec<_>) =
            hello.jobs.iter().cloned().partition(|job| worker.work.may_have(job));
        let instance = worker.instance.clone();
        let in_flight = hello.in_flight.iter().map(|run| run.job.clone());
        let in_flight =
            in_flight.collect::<BTreeSet<_>>().into_iter().take(self.io.settings.max_jobs_per_worker);
        // What its last host wrote to these may not have given a hint yet.
        let read =
            if mutants::is_on(mutants::ASKED_JOBS_UNREAD) { 0 } else { self.io.settings.max_jobs_per_worker };
        let asked = hello.asked.iter().take(read).cloned();
        let moving: BTreeSet<JobName> = jobs.iter().cloned().chain(in_flight).chain(asked).collect();
        let moving =
            if mutants::is_on(mutants::RECORDS_READ_BEFORE_ATTACHMENT) { BTreeSet::new() } else { moving };
        if let Some(bound) = self.workers.streams.get_mut(&stream) {
            bound.bind(id.clone());
        }
        self.set_lease_timer(&worker);
        self.io.tell_worker(&instance, WorkerEvent::Attached);
        let nobodys = worker.link.is_nobodys();
        self.workers.table.insert(id.clone(), worker);
        let change = WorkerChange::Attached { worker: id.clone(), instance, jobs, lost, narrowed, moving };
        self.workers.changes.push(change);
        if !nobodys {
            return self.workers.admission.attached(id, has_runs);
        }
        self.goodbye(&id);
    }

    /// Once all jobs of the Hello are moved and read, welcomes the worker and sends what the records say.
    pub(crate) fn welcome_if_moved(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.table.get_mut(id) else { return };
        if !worker.link.welcome() {
            return;
        }
        worker.lease.stops_waiting(self.io.now.mono);
        let Some(stream) = worker.link.stream() else { return };
        let lease = worker.lease.length();
        let heartbeat = self.io.settings.heartbeat_for(lease);
        let welcome = Welcome {
            worker: id.clone(),
            instance: worker.instance.clone(),
            resume_key: worker.key.clone(),
            namespace: self.io.settings.namespace.clone(),
            lease,
            heartbeat,
            stop_budget: self.io.settings.stop_budget.min(lease / 4),
            coordinators: self.cluster.members().others(&self.io.settings.id),
            max_reports: u32::try_from(self.io.settings.max_reports).unwrap_or(u32::MAX),
            coordinator: self.io.settings.id.to_string(),
        };
        self.workers.send(self.io, stream, ToWorker::Welcome(Box::new(welcome)));
        self.tell_lost(id, stream);
        self.workers.admission.arrived(stream);
        self.tell_to_leave(id);
        self.workers.changes.push(WorkerChange::Welcomed(id.clone()));
    }

    pub(crate) fn set_lease_timer(&mut self, worker: &Worker) {
        let at = worker.lease.look_at(self.io.now.mono, &self.io.settings);
        self.io.timers.insert((at, Timer::Lease(worker.id.clone())));
    }
}
