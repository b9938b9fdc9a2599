//! A worker comes: Hello, the attachment, its jobs moved here, Welcome, registrations.
//!
//! Every Welcome follows a committed write of the attachment, on the same host too: the attachment decides who
//! speaks for a worker. Records are read after that write, not before.

use std::collections::BTreeSet;
use std::time::Duration;

use rosterd_domain::id::{InstanceId, JobName, StreamNumber, Version, WorkerId};
use rosterd_domain::mutants;
use rosterd_domain::snapshot::Attachment;
use rosterd_domain::time::Mono;
use rosterd_domain::txn::{Commit, Purpose, Txn, Write};

use super::event::{Query, StreamId};
use super::handle::WorkerChange;
use super::job::Registering;
use super::node::{Node, ReadFor, StreamPhase, TxnFor};
use super::timers::Timer;
use super::worker::{Phase, Worker};
use rosterd_registry::ReadError;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::{Hello, Offer, ToWorker, Welcome};
use rosterd_session::key;

impl Node {
    /// The turn of a Hello that was read at `heard`.
    pub(super) fn hello(&mut self, stream: StreamId, hello: Box<Hello>, heard: Mono) {
        self.compare_workers_clock(&hello);
        match &hello.identity {
            None => self.attach_new(stream, hello, heard),
            Some((worker, _)) => {
                let worker = worker.clone();
                self.read(ReadFor::Hello(stream, hello, heard), Query::Attachment(worker));
            }
        }
    }

    pub(super) fn check_hello(&self, hello: &Hello) -> Result<(), Refusal> {
        let served = &self.settings.namespace;
        if let Some(wanted) = hello.namespace.as_ref().filter(|wanted| *wanted != served) {
            return Err(Refusal::new(
                Code::NamespaceMismatch,
                format!("namespace {wanted} is not served here: this coordinator serves {served}"),
            ));
        }
        if hello.slots == 0 || hello.slots > self.settings.max_slots {
            let most = self.settings.max_slots;
            return Err(Refusal::new(
                Code::HelloInvalid,
                format!("slots is {}: a worker takes 1 to {most} runs at a time", hello.slots),
            ));
        }
        if hello.jobs.len() > self.settings.max_jobs_per_worker {
            let most = self.settings.max_jobs_per_worker;
            return Err(Refusal::new(
                Code::TooManyJobs,
                format!("jobs names {}: at most {most}", hello.jobs.len()),
            ));
        }
        Ok(())
    }

    pub(super) fn hello_read(
        &mut self,
        stream: StreamId,
        hello: Box<Hello>,
        heard: Mono,
        read: Result<Option<(Version, Attachment)>, ReadError>,
    ) {
        let Some((worker, shown)) = hello.identity.clone() else { return };
        let by = self.streams.get(&stream).and_then(|stream| stream.peer.principal.clone());
        let has_key = |stored: &Attachment| key::matches(&stored.resume_key, &shown);
        // Whoever had the key and another credential would have the rights of neither alone.
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
                self.close(stream, Some(refusal));
            }
            // Its client has given up, and comes again: what is written now would be for nothing. That saves work and
            // guards nothing: the end of a stream may be heard late, or never.
            _ if !self.is_greeting(stream) && !mutants::is_on(mutants::STREAM_NUMBERS_UNCHECKED) => {}
            // It was marked dead, or said goodbye: its name never returns.
            Ok(None) => self.attach_new(stream, hello, heard),
            Ok(Some((_, stored))) if !has_key(&stored) => {
                let refusal = Refusal::new(
                    Code::ResumeRefused,
                    format!(
                        "resume_key is not the one given to worker {worker}: leave worker_id empty to get an identity of its own"
                    ),
                );
                self.close(stream, Some(refusal));
            }
            Ok(Some((_, stored))) if is_another(&stored) => {
                let refusal = Refusal::new(
                    Code::ResumeRefused,
                    format!(
                        "worker {worker} came with another credential: come back with that one, or leave worker_id empty to get an identity of its own"
                    ),
                );
                self.close(stream, Some(refusal));
            }
            Ok(Some((_, stored)))
                if hello.stream <= stored.stream && !mutants::is_on(mutants::STREAM_NUMBERS_UNCHECKED) =>
            {
                self.close(stream, Some(Self::superseded(hello.stream, stored.stream)));
            }
            Ok(Some((version, stored))) => self.attach_again(stream, hello, heard, worker, version, stored),
        }
    }

    fn attach_new(&mut self, stream: StreamId, hello: Box<Hello>, heard: Mono) {
        let (id, resume_key) = ((self.ids)(), (self.ids)());
        let Ok(worker) = WorkerId::new(&id) else { return };
        let stored = key::digest(&resume_key);
        self.attach(stream, hello, heard, worker, None, resume_key, stored, None, self.settings.lease, None);
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
        // A worker stays on the machine that it came with: else one that is disabled would be left by another name.
        if !mutants::is_on(mutants::ADDRESS_AS_SAID) {
            hello.address = stored.address.clone();
        }
        if let Some(known) = self.workers.get_mut(&worker) {
            if known.phase == Phase::Expiring || known.writing {
                // What is under way decides; the client comes again.
                let refusal =
                    Refusal::new(Code::Contended, "the worker's attachment is being written: connect again");
                return self.close(stream, Some(refusal));
            }
            if let Some(old) = known.stream.filter(|old| *old != stream) {
                let refusal = Self::superseded(known.stream_number, hello.stream);
                self.close(old, Some(refusal));
            }
        }
        let shown = hello.identity.as_ref().map(|(_, key)| key.clone()).unwrap_or_default();
        let lease = stored.lease().min(self.settings.lease);
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
                return self
                    .close(stream, Some(Refusal::new(Code::HelloInvalid, format!("address: {error}"))));
            }
        };
        let peer = self.streams.get(&stream).map(|stream| stream.peer.clone()).unwrap_or_default();
        let node = Attachment {
            host: self.settings.id.clone(),
            session: self.session.clone(),
            stream: hello.stream,
            draining: false,
            leave_grace_ms,
            resume_key: stored,
            principal: peer.principal.or(came_by),
            address: hello.address.clone(),
            lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
        };
        let skips = mutants::is_on(mutants::TAKEOVER_SKIPS_ATTACHMENT);
        let (version, write) = match expect.filter(|_| skips) {
            Some(stays) => {
                let (id, data) = (self.settings.id.clone(), self.myself());
                (stays, Write::Coordinator { id, data })
            }
            None => {
                let node = Box::new(node.clone());
                let version = expect.map_or(Version(0), Version::next);
                (version, Write::Attachment { worker: worker.clone(), expect, node })
            }
        };
        let mut txn = Txn::new(Purpose::Attach);
        txn.write(write);
        let mut new = Worker::new(worker.clone(), instance, &hello, stream, node, version, heard);
        new.fresh = expect.is_none();
        new.rights = peer.jobs;
        if let Some(known) = self.workers.get_mut(&worker) {
            known.writing = true;
        }
        self.commit(TxnFor::Attach { stream, hello, worker: Box::new(new), key }, txn);
    }

    pub(super) fn attached(
        &mut self,
        stream: StreamId,
        hello: &Hello,
        mut worker: Worker,
        key: String,
        commit: Commit,
    ) {
        if let Some(known) = self.workers.get_mut(&worker.id) {
            known.writing = false;
        }
        if commit == Commit::Unknown {
            // It may stand, and its client may never come back: who speaks for nobody is looked after.
            self.read(ReadFor::Suspect(worker.id.clone()), Query::Attachment(worker.id.clone()));
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
            return self.close(stream, Some(refusal));
        }
        let id = worker.id.clone();
        // Two of its Hellos were written before the first answer was heard: the earlier stream will never be welcomed.
        if let Some(known) = self.workers.get(&id) {
            let (other, numbers) = (known.stream, [known.stream_number, worker.stream_number]);
            if known.version > worker.version {
                return self.close(stream, Some(Self::superseded(numbers[1], numbers[0])));
            }
            if let Some(left) = other.filter(|left| *left != stream) {
                self.close(left, Some(Self::superseded(numbers[0], numbers[1])));
            }
        }
        self.elsewhere.remove(&worker.id);
        let still_here = self.streams.contains_key(&stream);
        worker.stream = still_here.then_some(stream);
        worker.key = key;
        let old = self.workers.remove(&id);
        let narrowed = old.as_ref().is_some_and(|old| old.rights != worker.rights);
        let has_runs = old.is_none() && hello.identity.is_some();
        worker.taken_over = has_runs;
        if let Some(old) = old {
            worker.taken_over = old.taken_over;
            worker.runs = old.runs;
            worker.reserved = old.reserved;
            worker.unheeded = old.unheeded;
            // What its old stream still carries it leaves unread.
            worker.unheeded.values_mut().for_each(|unheeded| unheeded.since = None);
            worker.waiting = old.waiting;
            worker.jobs = old.jobs;
            worker.unacknowledged = old.unacknowledged;
        }
        let (jobs, lost): (Vec<_>, Vec<_>) =
            hello.jobs.iter().cloned().partition(|job| worker.rights.have(job));
        let instance = worker.instance.clone();
        let in_flight = hello.in_flight.iter().map(|run| run.job.clone());
        let in_flight =
            in_flight.collect::<BTreeSet<_>>().into_iter().take(self.settings.max_jobs_per_worker);
        // What its last host wrote of these may not have been told yet.
        let read =
            if mutants::is_on(mutants::ASKED_JOBS_UNREAD) { 0 } else { self.settings.max_jobs_per_worker };
        let asked = hello.asked.iter().take(read).cloned();
        let moving: BTreeSet<JobName> = jobs.iter().cloned().chain(in_flight).chain(asked).collect();
        let moving =
            if mutants::is_on(mutants::RECORDS_READ_BEFORE_ATTACHMENT) { BTreeSet::new() } else { moving };
        if let Some(bound) = self.streams.get_mut(&stream) {
            bound.phase = StreamPhase::Bound(id.clone());
        }
        self.set_lease_timer(&worker);
        self.tell_worker(&instance, WorkerChange::Attached);
        let nobodys = worker.fresh && !still_here;
        self.workers.insert(id.clone(), worker);
        self.lose(&id, lost, narrowed);
        for name in jobs {
            let job = self.jobs.entry(name.clone()).or_default();
            job.hosted.insert(instance.clone(), id.clone());
            job.published_instances.remove(&instance);
        }
        for name in moving {
            self.moves(name, id.clone());
        }
        if !nobodys {
            return self.admission.attached(id, has_runs);
        }
        // It was new and gave up before its Welcome: nobody has this identity, or ever will.
        self.goodbye(&id);
    }

    /// A worker is welcomed only when this job's records were read, after its attachment was written.
    pub(super) fn moves(&mut self, name: JobName, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.moving.insert(name.clone());
        self.awaiting_read.entry(name.clone()).or_default().insert(id);
        let job = self.jobs.entry(name.clone()).or_default();
        job.stale = true;
        job.stale_records = true;
        self.run_queue.insert(name);
    }

    /// All jobs of the Hello are moved and read: the worker is welcomed, and told what the records say.
    pub(super) fn welcome_if_moved(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        if worker.phase != Phase::Attaching || !worker.moving.is_empty() {
            return;
        }
        worker.phase = Phase::Attached;
        worker.taken_over = false;
        let lease = worker.lease;
        let heartbeat = self.heartbeat_for(lease);
        let Some(worker) = self.workers.get(id) else { return };
        let Some(stream) = worker.stream else { return };
        let welcome = Welcome {
            worker: id.clone(),
            instance: worker.instance.clone(),
            resume_key: worker.key.clone(),
            namespace: self.settings.namespace.clone(),
            lease,
            heartbeat,
            stop_budget: self.settings.stop_budget.min(worker.lease / 4),
            coordinators: self.coordinators.others(&self.settings.id),
            max_reports: u32::try_from(self.settings.max_reports).unwrap_or(u32::MAX),
            coordinator: self.settings.id.to_string(),
        };
        let runs = worker.runs.iter().map(|(name, _)| name);
        let jobs: BTreeSet<JobName> = worker.jobs.iter().chain(runs).cloned().collect();
        self.send(stream, ToWorker::Welcome(Box::new(welcome)));
        self.tell_lost(id, stream);
        self.arrived(stream);
        self.tell_to_leave(id);
        self.reconcile_worker(id);
        self.run_queue.extend(jobs);
    }

    /// How often a worker with this lease is to be heard.
    pub(super) fn heartbeat_for(&self, lease: Duration) -> Duration {
        self.settings.heartbeat.min(lease / 3)
    }

    pub(super) fn set_lease_timer(&mut self, worker: &Worker) {
        let until = worker.heard.plus(self.settings.verdict_after(worker.lease));
        self.timers.insert((until, Timer::Lease(worker.id.clone())));
    }

    pub(super) fn register(
        &mut self,
        stream: StreamId,
        id: &WorkerId,
        name: JobName,
        handler_type: String,
        config: Option<Offer>,
        overwrite: bool,
    ) {
        let most = self.settings.max_jobs_per_worker;
        let Some(worker) = self.workers.get_mut(id) else { return };
        worker.pending_registrations.remove(&name);
        let new = !worker.jobs.contains(&name) && !worker.registering.contains(&name);
        if new && worker.jobs.len() + worker.registering.len() >= most {
            let refusal = Refusal::new(Code::TooManyJobs, format!("a worker registers at most {most} jobs"));
            return self.send(stream, ToWorker::Refused { job: name.to_string(), refusal });
        }
        worker.unregistered.remove(&name);
        worker.registering.insert(name.clone());
        let registering = Registering { worker: id.clone(), stream, handler_type, config, overwrite };
        let job = self.jobs.entry(name.clone()).or_default();
        // What it asked for last counts.
        job.registering.retain(|before| before.worker != *id);
        job.registering.push_back(registering);
        if job.view.is_some() {
            self.run_queue.insert(name);
        } else {
            self.run_queue.insert_last(name);
        }
    }

    /// It is answered once the instance has gone.
    pub(super) fn unregister(&mut self, stream: StreamId, id: &WorkerId, name: &JobName) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        worker.jobs.remove(name);
        worker.pending_registrations.remove(name);
        let instance = worker.instance.clone();
        if let Some(job) = self.jobs.get_mut(name) {
            worker.unregistered.insert(name.clone());
            job.hosted.remove(&instance);
            job.published_instances.remove(&instance);
            job.last_assignment_sent.remove(&instance);
            // What it asked for before this and has no answer to would bring it back.
            job.registering.retain(|registering| registering.worker != *id);
            job.leaving.insert(instance.clone());
            job.unregistering.insert(instance, stream);
            self.run_queue.insert(name.clone());
        } else {
            self.send(stream, ToWorker::Unregistered { job: name.clone() });
        }
    }

    /// The stream number that a worker here has, for tests and views.
    pub fn stream_of(&self, id: &WorkerId) -> Option<StreamNumber> {
        self.workers.get(id).map(|worker| worker.stream_number)
    }
}
