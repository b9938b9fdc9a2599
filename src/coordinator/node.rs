//! The coordinator as a machine without I/O: events in, effects out, both clocks as arguments.
//!
//! It holds caches of the registry and the conversations with its workers. Decisions about a job are the
//! domain's; here is only when to decide, and what follows a commit. It is level-triggered: an event changes
//! what is known, marks jobs as worth a look, and [`Node::handle`] ends by looking at each of those once;
//! [`Node::handle_event`] and [`Node::poll`] are its two halves.
//!
//! The parts are in sibling files: `session_proof` (its own node), `admission`, `attach` and `leave` (a worker's coming and
//! going), `failure_detector` (its death), `advance` (one job's turn), `background` (what a fire need not wait for),
//! `lead_time` (fires written before their time), `commit` (what follows a transaction), `dispatch` (what workers are
//! told), `batching` (reports that share a transaction), `presence` (what tools read of workers), `operate` (people).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rosterd_domain::id::{Item, JobName, StreamNumber, WorkerId};
use rosterd_domain::mutants;
use rosterd_domain::time::{Mono, Time};
use rosterd_domain::txn::Txn;

use super::admission::Admission;
use super::background::BackgroundBudget;
use super::batching::SingleFlight;
use super::calendar::CalendarWatch;
use super::drain::Requester;
use super::event::{Answer, Effect, Event, Now, Query, ReadId, RequestId, StreamId, TxnId};
pub use super::event::{Frames, Numbered};
use super::failure_detector::{PendingExpiry, RemoteAttachment};
use super::handle::{Health, Peer};
use super::job::Jobs;
use super::lead_time::LeadTime;
use super::member::Members;
use super::operate::Pending;
use super::quota::Counted;
use super::run_queue::RunQueue;
use super::settings::Settings;
use super::tell::Telling;
use super::timers::Timer;
use super::worker::Worker;
use rosterd_registry::Hint;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::{FromWorker, Hello, ToWorker};

/// The machine.
pub struct Node {
    pub(super) settings: Settings,
    /// Names this process's registry session.
    pub(super) session: String,
    /// New identities; a seeded source in a simulation.
    pub(super) ids: Box<dyn FnMut() -> String + Send>,
    pub(super) now: Now,
    /// By how much the calendar is ahead of what is believed, in milliseconds.
    wall_ahead: i64,
    pub(super) up_since: Time,
    pub(super) calendar_watch: CalendarWatch,
    pub(super) jobs: Jobs,
    pub(super) workers: BTreeMap<WorkerId, Worker>,
    /// Workers on their way here.
    pub(super) admission: Admission,
    /// By job, the workers that cannot be welcomed before its records were read.
    pub(super) awaiting_read: BTreeMap<JobName, BTreeSet<WorkerId>>,
    /// Those of them that were attached before the reading that is under way was asked for: it is theirs, whoever comes
    /// meanwhile.
    pub(super) covered_by_read: BTreeMap<JobName, BTreeSet<WorkerId>>,
    /// Workers that are draining or leaving.
    pub(super) leavers: BTreeSet<WorkerId>,
    /// Something has happened that they may have waited for. Looking takes a while, so it is done once for all of it.
    pub(super) look_at_leavers: bool,
    pub(super) streams: BTreeMap<StreamId, Stream>,
    /// Attachments that are hosted elsewhere, or by nobody any more.
    pub(super) elsewhere: BTreeMap<WorkerId, RemoteAttachment>,
    /// Those that are about to be marked dead.
    pub(super) pending_expiry: PendingExpiry,
    pub(super) coordinators: Members,
    /// Since when they are these.
    pub(super) members_since: Mono,
    pub(super) numbering: Numbered,
    /// From a scheduled time to its Trigger, the longest since this coordinator's own node was written.
    pub(super) longest_lag: Duration,
    pub(super) reads: BTreeMap<ReadId, ReadFor>,
    /// Workers elsewhere whose attachments are looked at in a moment.
    pub(super) lookups_pending: BTreeSet<WorkerId>,
    /// Transactions under way: for whom, and when they were handed over.
    pub(super) txns: BTreeMap<TxnId, (TxnFor, Mono)>,
    /// When the last transaction that was committed was handed over: the session lived at least then.
    pub(super) session_proved_at: Mono,
    /// When this coordinator's own node was last written.
    pub(super) member_written_at: Mono,
    pub(super) calendar: BTreeSet<(Time, JobName)>,
    pub(super) lead_time: LeadTime,
    /// How many frames have come from workers, and how many of them were taken in.
    pub(super) frames: Frames,
    /// Streams whose next frame waits for room to be taken in.
    pub(super) waiting: BTreeSet<StreamId>,
    /// Nothing tells of a job's changes, its own included: a fault of tests.
    pub(super) drop_hints: bool,
    pub(super) timers: BTreeSet<(Mono, Timer)>,
    pub(super) run_queue: RunQueue,
    /// Workers with slots that have become free and that others wait for.
    pub(super) slots_freed: BTreeSet<WorkerId>,
    /// What may wait until the jobs that fire have had their turn.
    pub(super) background: BackgroundBudget,
    /// Reads of all there is of a kind: one at a time.
    pub(super) single_flight: SingleFlight,
    pub(super) requests: BTreeMap<RequestId, Pending>,
    /// What the jobs of credentials come to.
    pub(super) counted: Counted,
    /// What people and monitoring are yet to be told.
    pub(super) telling: Telling,
    pub(super) out: Vec<Effect>,
    pub(super) health: Health,
    /// Attachments were read: no lease expires before.
    pub(super) synced: bool,
    pub(super) stopping: bool,
    pub(super) stopped: bool,
    pub(super) last_id: u64,
    /// This coordinator's own node stands: without it others take this coordinator for dead.
    pub(super) registered: bool,
    /// Workers that came before.
    pub(super) hellos_before_ready: Vec<(StreamId, Box<Hello>)>,
}

/// A stream, from its opening on.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) peer: Peer,
    pub(super) phase: StreamPhase,
}

#[derive(Debug)]
pub(super) enum StreamPhase {
    /// Nothing was said.
    Fresh,
    /// It said Hello, which is being worked on.
    Greeting,
    /// It is the stream of this worker.
    Bound(WorkerId),
    /// It was told to end.
    Closing,
}

/// Whom a read is for.
#[derive(Debug)]
pub(super) enum ReadFor {
    Jobs,
    Nodes(JobName),
    Job(JobName),
    Switches(JobName),
    Offset(JobName, Item),
    /// A Hello of a worker that says who it is.
    Hello(StreamId, Box<Hello>, Mono),
    /// A worker of ours whose attachment was written with unknown outcome, or taken from us.
    Own(WorkerId),
    /// A record names it.
    Suspect(WorkerId),
    /// The living coordinators, before these workers are marked dead because their hosts are not among them.
    Expire(BTreeSet<WorkerId>),
    Attachments,
    Coordinators,
    Clock,
}

/// Whom a transaction is for.
#[derive(Debug)]
pub(super) enum TxnFor {
    Job(JobName),
    /// The attachment of a Hello.
    Attach {
        stream: StreamId,
        hello: Box<Hello>,
        worker: Box<Worker>,
        key: String,
    },
    Draining(WorkerId),
    /// Somebody asked a worker here to leave.
    AskToLeave {
        worker: WorkerId,
        grace_ms: u64,
        requester: Requester,
    },
    /// The lease that an attachment states.
    Lease(WorkerId),
    Expire(WorkerId),
    Goodbye(WorkerId),
    /// The lease of a worker that another coordinator hosts has expired.
    ExpireRemote(WorkerId),
    Own,
}

impl Node {
    /// A machine that has not started; `ids` gives unique names.
    pub fn new(settings: Settings, session: String, ids: Box<dyn FnMut() -> String + Send>) -> Self {
        let now = Now { wall: Time::default(), mono: Mono::default() };
        Self {
            lead_time: LeadTime::new(settings.ahead),
            frames: Frames::default(),
            waiting: BTreeSet::new(),
            drop_hints: false,
            settings,
            session,
            ids,
            now,
            wall_ahead: 0,
            up_since: now.wall,
            calendar_watch: CalendarWatch::default(),
            jobs: Jobs::new(),
            workers: BTreeMap::new(),
            admission: Admission::default(),
            awaiting_read: BTreeMap::new(),
            covered_by_read: BTreeMap::new(),
            pending_expiry: PendingExpiry::default(),
            leavers: BTreeSet::new(),
            look_at_leavers: false,
            streams: BTreeMap::new(),
            elsewhere: BTreeMap::new(),
            coordinators: Members::default(),
            members_since: Mono::default(),
            numbering: Numbered::default(),
            longest_lag: Duration::ZERO,
            reads: BTreeMap::new(),
            txns: BTreeMap::new(),
            lookups_pending: BTreeSet::new(),
            session_proved_at: Mono::default(),
            member_written_at: Mono::default(),
            calendar: BTreeSet::new(),
            timers: BTreeSet::new(),
            run_queue: RunQueue::default(),
            slots_freed: BTreeSet::new(),
            background: BackgroundBudget::default(),
            single_flight: SingleFlight::default(),
            requests: BTreeMap::new(),
            counted: Counted::new(),
            telling: Telling::default(),
            out: Vec::new(),
            health: Health::Starting,
            synced: false,
            stopping: false,
            stopped: false,
            last_id: 0,
            registered: false,
            hellos_before_ready: Vec::new(),
        }
    }

    /// How tokens are numbered; told before anything is read.
    pub fn set_numbering(&mut self, numbering: Numbered) {
        self.numbering = numbering;
    }

    /// Takes an event in and answers with all that is to be done.
    pub fn handle(&mut self, now: Now, event: Event) -> Vec<Effect> {
        self.handle_event(now, event);
        self.poll(now, usize::MAX)
    }

    /// Takes an event in. What follows from several is decided once, by [`Node::poll`].
    pub fn handle_event(&mut self, now: Now, event: Event) {
        if self.session_ended() {
            // It acknowledges nothing any more: others count from the end of its session.
            return;
        }
        let jump = self.calendar_watch.look(now, &self.settings);
        self.tell_time(now);
        if let Some(jump) = jump {
            self.calendar_jumped(&jump);
        }
        self.apply(event);
    }

    /// Looks at no more than `most` of the jobs that are worth it, and answers with what is to be done. While
    /// [`Node::is_settled`] says no, it is to be called again.
    pub fn poll(&mut self, now: Now, most: usize) -> Vec<Effect> {
        if self.session_ended() {
            return std::mem::take(&mut self.out);
        }
        self.tell_time(now);
        self.run_timers();
        self.tell_due_runs(most);
        if self.lead_time.is_due(self.now.wall) {
            // What is due now goes before what follows from it.
            return std::mem::take(&mut self.out);
        }
        self.settle_attached();
        self.admit();
        self.offer_freed_slots();
        // Whatever is written by a calendar that may be wrong would outlast its error.
        for _ in 0..if self.clock_is_unknown() { 0 } else { most } {
            let Some(job) = self.run_queue.pop().or_else(|| self.background.pop()) else { break };
            self.advance(&job);
        }
        if self.look_at_leavers {
            self.look_at_leavers();
        }
        if self.run_queue.is_empty() {
            self.stop_if_done();
        }
        std::mem::take(&mut self.out)
    }

    /// What the calendar says when it is `at` by what is believed.
    pub fn by_the_clock(&self, at: Time) -> Time {
        Time(at.0.saturating_add(self.wall_ahead))
    }

    /// How long a run may be told before its time.
    pub fn longest_ahead(&self) -> Duration {
        self.settings.ahead.1
    }

    pub(super) fn tell_time(&mut self, now: Now) {
        let wall = self.calendar_watch.believed(now, &self.settings);
        self.wall_ahead = now.wall.0.saturating_sub(wall.0);
        self.now = Now { wall, ..now };
    }

    /// How many jobs there are, and how many of them this coordinator leads.
    pub fn count_jobs(&self) -> (usize, usize) {
        (self.jobs.len(), self.jobs.values().filter(|job| job.leads()).count())
    }

    /// No job is left that is worth a look now, and nobody to be told of a run.
    pub fn is_settled(&self) -> bool {
        (self.run_queue.is_empty() || self.clock_is_unknown())
            && self.slots_freed.is_empty()
            && self.admission.is_settled()
            && !self.background.has_turn()
            && !self.lead_time.is_due(self.now.wall)
    }

    /// How many frames have come so far, and were taken in: what those between say of a worker may be that it lives.
    pub fn set_frames(&mut self, frames: Frames) {
        self.frames = frames;
    }

    /// Streams that have more to say than there was room for.
    pub fn set_waiting(&mut self, waiting: BTreeSet<StreamId>) {
        self.waiting = waiting;
    }

    /// How long to wait before trying again what the store could not do.
    pub fn store_retry(&self) -> Duration {
        self.settings.store_retry
    }

    /// Whether nothing tells of a job's changes: a fault that tests put in.
    pub fn set_drop_hints(&mut self, drop: bool) {
        self.drop_hints = drop;
    }

    /// Somebody is to be told of a run now.
    pub fn tells(&self, now: Now) -> bool {
        self.lead_time.is_due(self.calendar_watch.believed(now, &self.settings))
    }

    /// When the machine wants a [`Event::Tick`], by either clock.
    pub fn wake_at(&self) -> (Option<Time>, Option<Mono>) {
        let calendar = self.calendar.first().map(|(at, _)| *at);
        let wall = [calendar, self.lead_time.next()].into_iter().flatten().min();
        (wall.map(|at| self.by_the_clock(at)), self.timers.first().map(|(at, _)| *at))
    }

    /// Transactions and reads under way, streams open: what a driver still has to wait for.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    fn session_ended(&self) -> bool {
        self.stopped && !mutants::is_on(mutants::OVER_AND_LISTENS)
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Start => self.start(),
            Event::Opened(stream, peer) => self.opened(stream, peer),
            Event::Frame(stream, frame) => self.frame(stream, frame),
            Event::Closed(stream) => self.closed(stream),
            Event::Committed(txn, commit) => self.committed(txn, commit),
            Event::Read(read, answer) => self.answered(read, answer),
            Event::Hint(hint) => self.hint(hint),
            Event::Operate(request, operation, by) => self.operate(request, operation, by),
            Event::Tick => {}
            Event::Stop => self.stop(),
        }
    }

    fn opened(&mut self, stream: StreamId, peer: Peer) {
        self.streams.insert(stream, Stream { peer, phase: StreamPhase::Fresh });
        if self.stopping {
            self.close(stream, Some(Refusal::new(Code::Draining, "this coordinator is stopping")));
        }
    }

    fn frame(&mut self, id: StreamId, frame: FromWorker) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        match (&stream.phase, frame) {
            (StreamPhase::Fresh, FromWorker::Hello(hello)) => {
                stream.phase = StreamPhase::Greeting;
                if self.is_open() {
                    self.arrives(id, hello);
                } else {
                    self.hellos_before_ready.push((id, hello));
                }
            }
            (StreamPhase::Fresh, _) => {
                self.close(id, Some(Refusal::new(Code::HelloExpected, "the first frame must be hello")));
            }
            (StreamPhase::Bound(worker), frame) => {
                let worker = worker.clone();
                self.bound_frame(id, &worker, frame);
            }
            (StreamPhase::Greeting, FromWorker::Hello(_)) => {
                self.close(id, Some(Refusal::new(Code::HelloExpected, "hello was said already")));
            }
            // What comes before Welcome is early, not wrong: heartbeats are simply not acknowledged yet.
            (StreamPhase::Greeting | StreamPhase::Closing, _) => {}
        }
    }

    fn bound_frame(&mut self, stream: StreamId, id: &WorkerId, frame: FromWorker) {
        match frame {
            FromWorker::Hello(_) => {
                self.close(stream, Some(Refusal::new(Code::HelloExpected, "hello was said already")));
            }
            FromWorker::Register { job, handler_type, config, overwrite } => {
                self.register(stream, id, job, handler_type, config, overwrite);
            }
            FromWorker::Unregister { job } => self.unregister(stream, id, &job),
            FromWorker::Heartbeat { sequence, in_flight, lease } => {
                self.heartbeat(stream, id, sequence, &in_flight, lease);
            }
            FromWorker::RunStarted { run, at, attempt } => self.run_started(id, run, at, attempt),
            FromWorker::RunProgress { run, percent, message, offset } => {
                self.progress(id, run, percent, message, offset);
            }
            FromWorker::RunCompleted(completed) => self.run_completed(stream, id, *completed),
            FromWorker::CallbackDone(done) => self.callback_done(stream, id, &done),
            FromWorker::DrainRequest => self.drain_requested(id),
            FromWorker::Goodbye => self.goodbye(id),
        }
    }

    fn closed(&mut self, id: StreamId) {
        let Some(stream) = self.streams.remove(&id) else { return };
        self.arrived(id);
        if let StreamPhase::Bound(worker) = stream.phase
            && let Some(worker) = self.workers.get_mut(&worker)
            && worker.stream == Some(id)
        {
            // Its lease goes on: it may come back, here or elsewhere.
            worker.stream = None;
        }
    }

    fn hint(&mut self, hint: Hint) {
        match hint {
            Hint::Jobs => self.read(ReadFor::Jobs, Query::Jobs),
            Hint::Job(_) if self.drop_hints => {}
            Hint::Job(job) => {
                if let Some(state) = self.jobs.get_mut(&job) {
                    state.stale = true;
                    self.run_queue.insert(job);
                }
            }
            Hint::Switches(job) => self.switches_moved(job),
            Hint::Guarantee(job) => self.guarantees_moved(&job),
            Hint::Coordinators => {
                self.read_members();
                self.read_attachments();
            }
            Hint::Session(state) => self.session_changed(state),
        }
    }

    fn answered(&mut self, id: ReadId, answer: Answer) {
        let Some(whom) = self.reads.remove(&id) else { return };
        self.read_again(&whom);
        match (whom, answer) {
            (ReadFor::Jobs, Answer::Jobs(Ok(jobs))) => self.jobs_read(jobs),
            (ReadFor::Nodes(job), Answer::Nodes(read)) => self.nodes_read(job, *read),
            (ReadFor::Job(job), Answer::Job(read)) => self.job_read(job, *read),
            (ReadFor::Switches(job), Answer::Switches(read)) => self.switches_read(job, read),
            (ReadFor::Offset(job, item), Answer::Offset(read)) => self.offset_read(&job, item, read),
            (ReadFor::Hello(stream, hello, heard), Answer::Attachment(read)) => {
                self.hello_read(stream, hello, heard, read);
            }
            (ReadFor::Own(worker), Answer::Attachment(read)) => self.own_read(&worker, read),
            (ReadFor::Suspect(worker), Answer::Attachment(read)) => self.suspect_read(&worker, read),
            (ReadFor::Attachments, Answer::Attachments(Ok(read))) => self.attachments_read(read),
            (ReadFor::Coordinators, Answer::Coordinators(Ok(read))) => {
                self.members_read(id, read);
            }
            (ReadFor::Expire(workers), Answer::Coordinators(Ok(read))) => {
                self.members_read(id, read);
                self.expire_all(&workers);
            }
            (ReadFor::Expire(workers), _) => self.expire_later(workers),
            (ReadFor::Clock, Answer::ToldAt(read)) => self.clock_read(read),
            // A read that failed is tried again by the sweep, or with the next hint.
            _ => self.set_timer(self.settings.store_retry, Timer::Sweep),
        }
    }

    fn jobs_read(&mut self, jobs: BTreeSet<JobName>) {
        for job in jobs {
            if !self.jobs.contains_key(&job) {
                self.jobs.insert(job.clone(), Box::default());
                self.run_queue.insert(job);
            }
        }
        // One that has gone is found so when it is read.
        let gone: Vec<JobName> =
            self.jobs.iter().filter(|(_, job)| job.ending).map(|(n, _)| n.clone()).collect();
        for job in gone {
            if let Some(state) = self.jobs.get_mut(&job) {
                state.stale = true;
            }
            self.run_queue.insert(job);
        }
    }

    // ---- what every part uses

    pub(super) fn id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn commit(&mut self, whom: TxnFor, txn: Txn) {
        let id = self.id();
        self.txns.insert(id, (whom, self.now.mono));
        self.out.push(Effect::Commit(id, txn));
    }

    pub(super) fn read(&mut self, whom: ReadFor, query: Query) {
        let id = self.id();
        self.reads.insert(id, whom);
        self.out.push(Effect::Read(id, query));
    }

    pub(super) fn send(&mut self, stream: StreamId, frame: ToWorker) {
        if self.streams.contains_key(&stream) {
            self.out.push(Effect::Send(stream, frame));
        }
    }

    pub(super) fn close(&mut self, id: StreamId, why: Option<Refusal>) {
        if let Some(stream) = self.streams.get_mut(&id) {
            if let Some(refusal) = &why {
                tracing::info!(peer = %stream.peer.address, code = %refusal.code, "a stream is ended: {}", refusal.message);
            }
            let before = std::mem::replace(&mut stream.phase, StreamPhase::Closing);
            self.out.push(Effect::Send(id, ToWorker::Close(why)));
            if let StreamPhase::Bound(worker) = before
                && let Some(worker) = self.workers.get_mut(&worker)
                && worker.stream == Some(id)
            {
                worker.stream = None;
            }
            self.arrived(id);
        }
    }

    pub(super) fn set_timer(&mut self, after: Duration, timer: Timer) {
        self.timers.insert((self.now.mono.plus(after), timer));
    }

    pub(super) fn set_health(&mut self, health: Health) {
        let again = (self.health, health) == (Health::Suspended, Health::Serving);
        if again && mutants::is_on(mutants::OUTAGE_NEVER_ENDS) {
            return;
        }
        if self.health != health {
            if health == Health::Suspended {
                self.prove_in(self.settings.store_retry);
            }
            self.health = health;
            self.out.push(Effect::Health(self.health_shown()));
        }
    }

    /// The highest number of a stream that is refused for a worker; for messages.
    pub(super) fn superseded(number: StreamNumber, stored: StreamNumber) -> Refusal {
        Refusal::new(
            Code::StreamSuperseded,
            format!(
                "stream_number {number} is not above {stored}, the stream that is attached: a worker process numbers its streams upwards and closes the old one first"
            ),
        )
    }
}
