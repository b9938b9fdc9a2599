//! The worker's half of the conversation, as a machine without I/O.
//!
//! `handle(now, event)` returns what is to be done about it; `deadline()` says when to call it with a Tick. Time is
//! looked at before the event, so that a process that slept past its lease starts nothing that waited in its socket; an
//! acknowledged heartbeat alone comes first, since it proves the lease. No clock, no async, no randomness but the seed's.
//! The driver calls it. The rules are those of `clients/spec/machine.md`, and its vectors play here.

mod hand;
mod jobs;
mod lease;
mod leave;
pub(crate) mod limits;
mod link;
mod runs;
mod stream;
#[cfg(all(test, in_repository))]
mod tests;
mod transit;
pub(crate) mod words;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use self::hand::{Hand, Why};
use self::jobs::Jobs;
use self::lease::Lease;
use self::leave::Leave;
use self::link::{Link, Phase};
use self::transit::Transit;
use self::words::{Effect, Event, Exit, Now, RunId, Settings};
use crate::hooks::News;
use crate::mutants;
use crate::proto::session_request::Frame as Request;
use crate::proto::session_response::Frame as Response;
use crate::proto::{CallbackDone, ReportAck, ReportResult};

/// Who the coordinators say we are.
#[derive(Debug, Clone)]
struct Identity {
    worker_id: String,
    instance_id: String,
    resume_key: String,
}

pub(crate) struct Machine {
    settings: Settings,
    link: Link,
    lease: Lease,
    me: Option<Identity>,
    jobs: Jobs,
    hand: Hand,
    /// How many reports may be unacknowledged on this stream.
    credit: usize,
    /// How long its frames take.
    transit: Transit,
    /// Callbacks in user code and when each is over.
    callbacks: BTreeMap<String, Option<Duration>>,
    /// Answers to callbacks that found no open stream.
    answers: Vec<CallbackDone>,
    /// The latest answers: one that was lost on its way is asked for again.
    answered: VecDeque<CallbackDone>,
    leave: Option<Leave>,
    /// What is told instead of Left once the leave is through.
    after_leave: Option<Exit>,
    /// Coordinators in a row that rejected us before anyone welcomed us.
    rejections: usize,
    effects: Vec<Effect>,
    /// What became of the stream, for hooks and health.
    news: Vec<News>,
    exited: bool,
}

impl Machine {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            link: Link::new(settings.servers.clone(), settings.seed).learning(settings.learn.clone()),
            lease: Lease::none(),
            me: None,
            jobs: Jobs::new(&settings.jobs),
            hand: Hand::default(),
            credit: 1,
            transit: Transit::default(),
            callbacks: BTreeMap::new(),
            answers: Vec::new(),
            answered: VecDeque::new(),
            leave: None,
            after_leave: None,
            rejections: 0,
            effects: Vec::new(),
            news: Vec::new(),
            exited: false,
            settings,
        }
    }

    /// What is to be done, in this order.
    pub(crate) fn handle(&mut self, now: Now, event: Event) -> Vec<Effect> {
        let mut event = event;
        if !self.exited && proves_lease(&event) {
            self.on(now, std::mem::replace(&mut event, Event::Tick));
        }
        if !self.exited {
            self.due(now);
        }
        if !self.exited {
            self.on(now, event);
        }
        if !self.exited {
            self.settle(now);
        }
        std::mem::take(&mut self.effects)
    }

    /// When a Tick is due at the latest.
    pub(crate) fn deadline(&self) -> Duration {
        let lease_end = self.lease.stops_at().unwrap_or_default();
        let mut next = self.link.deadline(self.lease.silence(), lease_end);
        let mut consider = |at: Option<Duration>| next = next.min(at.unwrap_or(Duration::MAX));
        consider(self.leave.as_ref().map(Leave::deadline));
        consider(self.jobs.retry_at());
        consider(self.callbacks.values().flatten().min().copied());
        consider(self.hand.wakes_at());
        consider(self.hand.begins_at());
        // Nearly always the first one says so.
        if self.hand.runs.values().any(|held| !held.urgent) {
            consider(Some(lease_end));
        }
        next
    }

    /// When user code must not start any more, as far as is known now.
    pub(crate) fn lease_end(&self) -> Duration {
        self.lease.stops_at().unwrap_or_default()
    }

    /// When user code must have stopped. Half of the stop budget is kept for whatever is slow about stopping it.
    pub(crate) fn lease_over(&self) -> Duration {
        self.lease.stops_at().map(|stop| stop + self.lease.budget() / 2).unwrap_or_default()
    }

    /// What became of the stream since the last look.
    pub(crate) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leave.is_some()
    }

    /// What time alone has brought. The lease first: nothing below may lean on a right that is over.
    fn due(&mut self, now: Now) {
        if !self.lease.valid(now.mono) {
            self.stop_all(now, &Why::LeaseEnded);
        }
        self.runs_due(now);
        self.callbacks_due(now);
        self.leave_due(now);
        if !self.exited {
            self.stream_due(now);
            self.jobs_due(now);
        }
    }

    fn on(&mut self, now: Now, event: Event) {
        match event {
            Event::Tick => {}
            Event::Connected { connection } if self.counts(connection) => self.on_connected(now),
            Event::Closed { connection, error } if self.counts(connection) => {
                self.on_closed(now, error);
            }
            Event::Frame { connection, frame } if self.counts(connection) => {
                self.on_frame(now, frame);
            }
            // Of a stream that we have left.
            Event::Connected { .. } | Event::Closed { .. } | Event::Frame { .. } => {}
            Event::Ended(ended) => self.on_ended(now, ended),
            Event::Progress { run, percent, message } => self.on_progress(now, &run, percent, message),
            Event::Offset { run, offset } => self.on_offset(now, &run, offset),
            Event::CallbackEnded { callback_id, error } => self.on_callback_ended(callback_id, error),
            Event::Leave => self.begin_leave(now, self.settings.drain_timeout),
            Event::Signal => self.on_signal(now),
            Event::Kill => self.exit(Exit::Killed),
        }
    }

    /// Whether a connection is the one that we talk over: frames of any other count for nothing.
    fn counts(&self, connection: u64) -> bool {
        self.link.current() == Some(connection) || mutants::is_on(mutants::LEFT_STREAMS_HEARD)
    }

    fn on_frame(&mut self, now: Now, frame: Response) {
        if let Some(open) = self.link.open() {
            open.heard_at = now.mono;
        }
        match frame {
            Response::Welcome(welcome) => self.on_welcome(now, welcome),
            // The conversation starts with the Welcome.
            _ if !self.link.is_open() => {}
            Response::HeartbeatAck(ack) => self.on_heartbeat_ack(now, ack.sequence),
            Response::Registered(registered) => self.on_registered(registered),
            Response::Refused(refused) => self.on_refused(now, refused),
            Response::Unregistered(_) => {}
            Response::Assignment(assignment) => self.jobs.on_assignment(assignment),
            Response::Trigger(trigger) => self.on_trigger(now, trigger),
            Response::Cancel(cancel) => self.on_cancel(now, cancel),
            Response::ReportAck(ack) => self.on_report_ack(&ack),
            Response::Callback(callback) => self.on_callback(now, callback),
            Response::Drain(drain) => {
                tracing::info!("asked to leave: {}", drain.message);
                let grace = drain.grace.and_then(|grace| grace.try_into().ok());
                self.begin_leave(now, grace.unwrap_or(self.settings.drain_timeout));
            }
            Response::Draining(_) => self.on_draining(),
            Response::GoodbyeAck(_) => self.on_goodbye_ack(),
            Response::Shutdown(shutdown) => self.on_shutdown(now, &shutdown),
        }
    }

    fn on_report_ack(&mut self, ack: &ReportAck) {
        let Some(id) = ack.run.clone().map(RunId::from) else { return };
        let Some(report) = self.hand.acknowledge(&id) else { return };
        let ReportAck { code, message, .. } = ack;
        match ack.result() {
            ReportResult::Accepted => {}
            ReportResult::Invalid if self.hand.replace(&report, &format!("{code}: {message}")) => {
                tracing::error!(%id, code, "report refused, the run is reported as failed: {message}");
            }
            _ => tracing::warn!(%id, code, "report not accepted: {message}"),
        }
    }

    /// What the new state calls for.
    fn settle(&mut self, now: Now) {
        // In a burst, user code whose time has come goes before reports of what has ended. No more is due after a few
        // more events: each brings one run at most, and lets many begin.
        let begun = self.hand.begins_at().is_none_or(|at| now.mono < at);
        if begun && self.link.is_open() {
            for report in self.hand.sendable(self.credit) {
                self.send(Request::RunCompleted(report));
            }
        }
        self.leave_step(now);
    }

    fn send(&mut self, frame: Request) {
        self.effects.push(Effect::Send(frame));
    }

    fn exit(&mut self, how: Exit) {
        self.detached("the worker ends");
        if let Some(connection) = self.link.current() {
            self.effects.push(Effect::Close { connection });
        }
        self.exited = true;
        let how = match how {
            Exit::Left | Exit::LeaveTimedOut { .. } => self.after_leave.take().unwrap_or(how),
            _ => how,
        };
        self.effects.push(Effect::Exit(how));
    }
}

/// An acknowledgement that waited in the socket while the process stood still proves a lease all the same.
pub(crate) fn proves_lease(event: &Event) -> bool {
    matches!(event, Event::Frame { frame: Response::HeartbeatAck(_), .. })
}
