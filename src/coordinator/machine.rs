//! The only type that sees all parts: it passes an event to its part, hands the consequences on to others, and returns
//! the effects. It decides nothing.
//!
//! The coordinator is a machine without I/O: events in, effects out, both clocks as arguments. It is level-triggered:
//! an event changes what is known and queues jobs for a turn, and [`Machine::poll`] gives each of those one turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{CoordinatorId, JobName, Revision, WorkerId};
use rosterd_domain::mutants;
use rosterd_domain::time::{Mono, Time};
use rosterd_domain::txn::Commit;
use rosterd_registry::Hint;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::FromWorker;

use crate::cluster::Cluster;
use crate::io::Io;
use crate::io::event::{Answer, Effect, Event, FrameCounts, Now, Numbered, Query, ReadId, StreamId, TxnId};
use crate::io::pending::{ReadFor, TxnFor};
use crate::io::settings::Settings;
use crate::io::standing::Standing;
use crate::io::timers::Timer;
use crate::job::{AllJobs, Jobs};
use crate::schedule::Schedule;
use crate::schedule::background::BackgroundBudget;
use crate::workers::stream::StreamPhase;
use crate::workers::{Workers, WorkersTurn};

/// The coordinator, without I/O.
pub(crate) struct Machine {
    pub(crate) io: Io,
    pub(crate) cluster: Cluster,
    pub(crate) schedule: Schedule,
    pub(crate) workers: Workers,
    pub(crate) jobs: Jobs,
}

impl Machine {
    /// A machine that has not started; `ids` gives unique names.
    pub(crate) fn new(settings: Settings, session: String, ids: Box<dyn FnMut() -> String + Send>) -> Self {
        Self {
            schedule: Schedule::new(settings.ahead),
            io: Io::new(settings, session, ids),
            cluster: Cluster::default(),
            workers: Workers::default(),
            jobs: Jobs::default(),
        }
    }

    pub(crate) fn all_jobs(&mut self) -> AllJobs<'_> {
        AllJobs {
            jobs: &mut self.jobs,
            workers: &mut self.workers,
            cluster: &mut self.cluster,
            schedule: &mut self.schedule,
            io: &mut self.io,
        }
    }

    fn workers_turn(&mut self) -> WorkersTurn<'_> {
        WorkersTurn {
            workers: &mut self.workers,
            cluster: &mut self.cluster,
            schedule: &mut self.schedule,
            io: &mut self.io,
        }
    }

    // ---- what the driver calls

    /// Sets how tokens are numbered; called before anything is read.
    pub(crate) fn set_numbering(&mut self, numbering: Numbered) {
        self.cluster.set_numbering(numbering);
    }

    /// Watches the wall clock from here on, before any event is handled: a jump before the first event counts as well.
    pub(crate) fn watch_calendar(&mut self, now: Now) {
        self.cluster.watch_calendar(&mut self.io, now);
    }

    /// Sets how many frames have arrived, and how many were handled, since the frames in between may contain a worker's
    /// heartbeat; and the streams whose next frame waits for room.
    pub(crate) fn set_inbox(&mut self, frames: FrameCounts, waiting: BTreeSet<StreamId>) {
        self.workers.set_inbox(frames, waiting);
    }

    /// Whether hints about jobs are dropped: a fault in tests.
    pub(crate) fn set_drop_hints(&mut self, drop: bool) {
        self.jobs.drop_hints = drop;
    }

    /// Handles an event and returns all effects.
    #[cfg(test)]
    pub(crate) fn handle(&mut self, now: Now, event: Event) -> Vec<Effect> {
        self.handle_event(now, event);
        self.poll(now, usize::MAX)
    }

    /// Handles an event. [`Machine::poll`] decides once what follows from several.
    pub(crate) fn handle_event(&mut self, now: Now, event: Event) {
        if self.cluster.session_ended() {
            return;
        }
        let jump = self.cluster.look_at_calendar(&self.io, now);
        self.cluster.tell_time(&mut self.io, now);
        if let Some(jump) = jump {
            self.cluster.calendar_jumped(&mut self.io, &jump);
            self.all_jobs().look_at_all();
        }
        self.apply(event);
        self.all_jobs().hand_on();
    }

    /// Gives a turn to at most `most` of the queued jobs, and returns the effects. Call it again while
    /// [`Machine::is_settled`] is false.
    pub(crate) fn poll(&mut self, now: Now, most: usize) -> Vec<Effect> {
        if self.cluster.session_ended() {
            return std::mem::take(&mut self.io.out);
        }
        self.cluster.tell_time(&mut self.io, now);
        self.run_timers();
        self.all_jobs().tell_due_runs(most);
        if self.tells_now() {
            // What is due now is sent first, before its consequences are computed.
            return std::mem::take(&mut self.io.out);
        }
        self.all_jobs().settle_attached();
        {
            let (mut turn, knows) = self.admission();
            turn.admit(&knows);
            turn.offer_freed_slots();
        }
        // Records with a time from a wrong clock would outlast its error.
        let most = if self.cluster.clock_is_unknown(&self.io) { 0 } else { most };
        for _ in 0..most {
            let Some(job) = self.schedule.next_turn() else { break };
            self.all_jobs().advance(&job);
        }
        if self.workers.has_leavers_to_look_at() {
            self.all_jobs().look_at_leavers();
        }
        if self.schedule.run_queue.is_empty() {
            let jobs = &self.jobs;
            self.cluster.stop_if_done(&mut self.io, || jobs.wait_for_this_coordinator());
        }
        std::mem::take(&mut self.io.out)
    }

    /// Whether no job is queued for a turn now, and no run has to be sent.
    pub(crate) fn is_settled(&self) -> bool {
        (self.schedule.run_queue.is_empty() || self.cluster.clock_is_unknown(&self.io))
            && self.workers.is_settled()
            && !self.schedule.background.has_turn()
            && !self.tells_now()
    }

    fn tells_now(&self) -> bool {
        self.schedule.lead_time.is_due(self.io.now.wall)
    }

    /// Whether a run is to be sent now.
    pub(crate) fn tells(&self, now: Now) -> bool {
        self.schedule.lead_time.is_due(self.cluster.believed(&self.io, now))
    }

    /// When the machine needs an [`Event::Tick`], by either clock.
    pub(crate) fn wake_at(&self) -> (Option<Time>, Option<Mono>) {
        let wall = self.schedule.next_by_calendar();
        (wall.map(|at| self.by_the_clock(at)), self.io.timers.first().map(|(at, _)| *at))
    }

    /// What the wall clock shows at the trusted time `at`.
    pub(crate) fn by_the_clock(&self, at: Time) -> Time {
        self.cluster.by_the_clock(at)
    }

    /// How long before its time a run may be sent.
    pub(crate) fn longest_ahead(&self) -> Duration {
        self.io.settings.ahead.1
    }

    /// How long to wait before retrying what the store could not do.
    pub(crate) fn store_retry(&self) -> Duration {
        self.io.settings.store_retry
    }

    /// When the session was last proved, in milliseconds; for views.
    pub(crate) fn proved_at(&self) -> u64 {
        self.cluster.proved_at()
    }

    /// How many milliseconds the wall clock is ahead of the store's; below zero: behind.
    pub(crate) fn clock_ahead(&self) -> i64 {
        self.cluster.clock_ahead()
    }

    /// How many jobs there are, and how many of them this coordinator leads.
    pub(crate) fn count_jobs(&self) -> (usize, usize) {
        self.jobs.count()
    }

    /// How many workers are attached here.
    pub(crate) fn count_workers(&self) -> usize {
        self.workers.count_attached()
    }

    /// Whether a job exists, as far as is known here.
    pub(crate) fn has_job(&self, name: &JobName) -> bool {
        self.jobs.has(name)
    }

    /// What is unattended; see [`AllJobs::unattended`].
    pub(crate) fn unattended(&mut self) -> (usize, usize, Duration) {
        self.all_jobs().unattended()
    }

    /// Reports the jobs whose standing has changed since the last report, and `None` for those that were removed.
    pub(crate) fn standings(&mut self, tell: impl FnMut(&JobName, Option<Standing>)) {
        self.all_jobs().standings(tell);
    }

    // ---- routing

    fn apply(&mut self, event: Event) {
        match event {
            Event::Start => {
                self.count();
                self.cluster.start(&mut self.io);
                self.schedule.single_flight.read_members(&mut self.io);
                self.schedule.single_flight.read_attachments(&mut self.io);
            }
            Event::Opened(stream, peer) => {
                self.workers.opened(&mut self.io, stream, peer, self.cluster.is_stopping());
            }
            Event::Frame(stream, frame) => self.frame(stream, frame),
            Event::Closed(stream) => self.workers_turn().closed(stream),
            Event::Committed(txn, commit) => self.committed(txn, commit),
            Event::Read(read, answer) => self.answered(read, answer),
            Event::Hint(hint) => self.hint(hint),
            Event::Operate(request, operation, by) => self.all_jobs().operate(request, operation, by),
            Event::Tick => {}
            Event::Stop => self.stop(),
        }
    }

    /// Counts the load of this coordinator, before it is written for the others.
    fn count(&mut self) {
        let leads = self.jobs.count().1 as u64;
        self.cluster.count(leads, self.workers.here().len() as u64);
    }

    fn stop(&mut self) {
        if self.cluster.stop(&mut self.io) {
            self.workers.close_all(&mut self.io);
            // Written before leaderships are given up, so that no other waits for this coordinator to take them again.
            self.count();
            self.cluster.prove(&mut self.io);
            self.all_jobs().look_at_all();
        }
    }

    /// The turn for admitting workers, and whether a job is known here: the number of look-ups for unknown names is
    /// limited.
    fn admission(&mut self) -> (WorkersTurn<'_>, impl Fn(&JobName) -> bool) {
        let Self { io, cluster, schedule, workers, jobs } = self;
        (WorkersTurn { workers, cluster, schedule, io }, |name| jobs.all.contains_key(name))
    }

    /// Admits workers that arrived before this coordinator could attach any.
    fn admit_early(&mut self) {
        let (mut turn, knows) = self.admission();
        turn.admit_early(&knows);
    }

    fn frame(&mut self, id: StreamId, frame: FromWorker) {
        let Some(stream) = self.workers.stream_mut(id) else { return };
        let refused = |what| Some(Refusal::new(Code::HelloExpected, what));
        match (stream.phase(), frame) {
            (StreamPhase::Fresh, FromWorker::Hello(hello)) => {
                stream.greet();
                if self.cluster.is_open(&self.io) {
                    let (mut turn, knows) = self.admission();
                    turn.arrives(id, hello, &knows);
                } else {
                    self.workers.comes_early(id, hello);
                }
            }
            (StreamPhase::Fresh, _) => {
                self.workers.close(&mut self.io, id, refused("the first frame must be hello"));
            }
            (StreamPhase::Greeting | StreamPhase::Bound(_), FromWorker::Hello(_)) => {
                self.workers.close(&mut self.io, id, refused("hello was said already"));
            }
            (StreamPhase::Bound(worker), frame) => {
                let worker = worker.clone();
                self.bound_frame(id, &worker, frame);
            }
            // Frames before Welcome are early, not wrong: heartbeats are not acknowledged yet.
            (StreamPhase::Greeting | StreamPhase::Closing, _) => {}
        }
    }

    fn bound_frame(&mut self, stream: StreamId, id: &WorkerId, frame: FromWorker) {
        match frame {
            FromWorker::Hello(_) => {}
            FromWorker::Register { job, handler_type, config, overwrite } => {
                self.all_jobs().register(stream, id, job, handler_type, config, overwrite);
            }
            FromWorker::Unregister { job } => self.all_jobs().unregister(stream, id, &job),
            FromWorker::Heartbeat { sequence, in_flight, lease } => {
                if self.workers_turn().heartbeat(stream, id, sequence, lease) {
                    self.all_jobs().compare_runs(id, &in_flight);
                    self.all_jobs().named_in_flight(id, &in_flight);
                }
            }
            FromWorker::RunStarted { run, at, attempt } => self.all_jobs().run_started(id, run, at, attempt),
            FromWorker::RunProgress { run, percent, message, offset } => {
                self.all_jobs().progress(id, run, percent, message, offset);
            }
            FromWorker::RunCompleted(completed) => self.all_jobs().run_completed(stream, id, *completed),
            FromWorker::CallbackDone(done) => self.all_jobs().callback_done(stream, id, &done),
            FromWorker::DrainRequest => self.workers_turn().drain_requested(id),
            FromWorker::Goodbye => self.workers_turn().goodbye(id),
        }
    }

    fn hint(&mut self, hint: Hint) {
        match hint {
            Hint::Jobs => self.io.read(ReadFor::Jobs, Query::Jobs),
            Hint::Job(job) => self.all_jobs().job_moved(job),
            Hint::Switches(job) => self.all_jobs().switches_moved(job),
            Hint::Guarantee(job) => self.all_jobs().guarantees_moved(&job),
            Hint::Coordinators => {
                self.schedule.single_flight.read_members(&mut self.io);
                self.schedule.single_flight.read_attachments(&mut self.io);
            }
            Hint::Session(state) => {
                if self.cluster.session_changed(&mut self.io, state) {
                    self.all_jobs().read_all_again();
                    self.io.read(ReadFor::Jobs, Query::Jobs);
                    self.schedule.single_flight.read_attachments(&mut self.io);
                }
            }
        }
    }

    fn answered(&mut self, id: ReadId, answer: Answer) {
        let Some(whom) = self.io.reads.remove(&id) else { return };
        self.schedule.single_flight.read_again(&mut self.io, &whom);
        match (whom, answer) {
            (ReadFor::Jobs, Answer::Jobs(Ok(jobs))) => self.all_jobs().jobs_read(jobs),
            (ReadFor::Nodes(job), Answer::Nodes(read)) => self.all_jobs().nodes_read(job, *read),
            (ReadFor::Job(job), Answer::Job(read)) => self.all_jobs().job_read(job, *read),
            (ReadFor::Switches(job), Answer::Switches(read)) => self.all_jobs().switches_read(job, read),
            (ReadFor::Offset(job, item), Answer::Offset(read)) => {
                self.all_jobs().offset_read(&job, item, read);
            }
            (ReadFor::Hello(stream, hello, heard), Answer::Attachment(read)) => {
                self.workers_turn().hello_read(stream, hello, heard, read);
            }
            (ReadFor::Own(worker), Answer::Attachment(read)) => self.workers_turn().own_read(&worker, read),
            (ReadFor::Suspect(worker), Answer::Attachment(read)) => {
                self.workers_turn().suspect_read(&worker, read);
            }
            (ReadFor::Attachments, Answer::Attachments(Ok(read))) => {
                self.workers_turn().attachments_read(read)
            }
            (ReadFor::Coordinators, Answer::Coordinators(Ok(read))) => {
                self.members_read(id, read);
            }
            (ReadFor::Expire(workers), Answer::Coordinators(Ok(read))) => {
                self.members_read(id, read);
                self.workers_turn().expire_all(&workers);
            }
            (ReadFor::Expire(workers), _) => self.workers_turn().expire_later(workers),
            (ReadFor::Clock, Answer::ToldAt(read)) => {
                let found = self.cluster.clock_read(&mut self.io, read);
                if found.first {
                    self.all_jobs().look_at_all();
                    self.admit_early();
                }
                if let Some(jump) = found.jump {
                    self.cluster.calendar_jumped(&mut self.io, &jump);
                    self.all_jobs().look_at_all();
                }
            }
            // The sweep, or the next hint, retries a read that failed.
            _ => self.io.set_timer(self.io.settings.store_retry, Timer::Sweep),
        }
    }

    fn members_read(&mut self, id: ReadId, read: BTreeMap<CoordinatorId, Arc<str>>) {
        self.count();
        if self.cluster.members_read(&mut self.io, id, read) {
            self.all_jobs().look_at_all();
        }
        self.workers_turn().look_at_hosts();
    }

    fn committed(&mut self, id: TxnId, mut commit: Commit) {
        if commit == Commit::Unknown && mutants::is_on(mutants::UNKNOWN_TAKEN_FOR_DONE) {
            commit = Commit::Committed(Revision::default());
        }
        if commit == Commit::Fenced {
            return self.fenced();
        }
        if let Commit::TooLarge(why) = &commit {
            tracing::error!("{why}");
        }
        if self.cluster.store_answered(&mut self.io, &commit) {
            self.all_jobs().look_at_all();
        }
        let Some((whom, sent)) = self.io.txns.remove(&id) else { return };
        if matches!(commit, Commit::Committed(_)) && self.cluster.proved(&self.io, sent) {
            // Elections and plans have waited for this, and nothing else would queue them again.
            self.all_jobs().look_at_all();
        }
        match whom {
            TxnFor::Job(job) => self.all_jobs().job_committed(&job, commit),
            TxnFor::Attach(stream) => self.workers_turn().attached(stream, commit),
            TxnFor::Draining(worker) => self.workers_turn().drained(&worker, commit),
            TxnFor::AskToLeave { worker, grace_ms, requester } => {
                self.workers_turn().asked_to_leave(&worker, grace_ms, requester, commit);
            }
            TxnFor::Lease(worker) => self.workers_turn().lease_stated(&worker, commit),
            TxnFor::Expire(worker) => self.workers_turn().expiry_committed(&worker, commit),
            TxnFor::Goodbye(worker) => self.workers_turn().said_goodbye(&worker, commit),
            TxnFor::ExpireRemote(worker) => self.workers_turn().remote_expired(&worker, commit),
            TxnFor::Own => {
                if self.cluster.registration_written(&mut self.io, matches!(commit, Commit::Committed(_))) {
                    if self.cluster.is_stopping() {
                        // It was written: the leaderships of this coordinator can be given up.
                        self.all_jobs().look_at_all();
                    }
                    self.admit_early();
                }
            }
        }
    }

    /// The session is over, and all rights with it.
    fn fenced(&mut self) {
        tracing::error!("the store session is over: this coordinator gives up everything");
        self.io.txns.clear();
        self.jobs.forget_writing();
        self.schedule.background = BackgroundBudget::default();
        self.cluster.stop_at_once(&mut self.io);
    }

    /// Runs what is due by the two clocks: timers by the monotonic one, jobs by the wall clock.
    fn run_timers(&mut self) {
        while let Some((at, timer)) = self.io.timers.first().cloned() {
            if at > self.io.now.mono {
                break;
            }
            self.io.timers.pop_first();
            match timer {
                Timer::Lease(worker) => self.workers_turn().lease_timer(&worker),
                Timer::RemoteLease(worker) => self.workers_turn().remote_lease_timer(&worker),
                Timer::Job(job) => self.schedule.run_queue.insert(job),
                Timer::Callback(job) => self.all_jobs().callback_timer(&job),
                Timer::Absent(worker) => self.workers_turn().look_now(worker),
                Timer::Proof => {
                    self.count();
                    self.cluster.prove_if_idle(&mut self.io);
                }
                Timer::Notes => self.jobs.telling.tell_counted(&mut self.io),
                Timer::Reconcile(job) => self.all_jobs().reconcile_job(&job),
                Timer::LookAgain(job) => self.all_jobs().reread(job),
                Timer::Sweep => {
                    self.schedule.single_flight.read_members(&mut self.io);
                    self.schedule.single_flight.read_attachments(&mut self.io);
                    self.io.read(ReadFor::Jobs, Query::Jobs);
                }
            }
            self.all_jobs().hand_on();
        }
        self.all_jobs().take_due();
    }
}
