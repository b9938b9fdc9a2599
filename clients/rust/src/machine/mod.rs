//! The worker's side of the conversation, as a machine without I/O.
//!
//! `handle(now, event)` returns what to do about it; `deadline()` returns when to call it with a Tick. Timers are
//! handled before the event, so that a process that slept past its lease starts nothing that waited in its socket; only
//! an acknowledged heartbeat comes first, since it proves the lease. No clock, no async, no randomness except the
//! seed's. The driver calls it. The rules are those of `clients/spec/machine.md`, and its vectors play here.

mod in_flight;
mod jobs;
mod lease;
mod leave;
mod leaving;
pub(crate) mod limits;
mod link;
mod one_way_delay;
mod registering;
mod runs;
mod stream;
#[cfg(all(test, in_repository))]
mod tests;
pub(crate) mod types;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use self::in_flight::{InFlight, Why};
use self::jobs::RegisteredJobs;
use self::lease::Lease;
use self::leave::Leave;
use self::link::{Link, LinkPhase};
use self::one_way_delay::OneWayDelay;
use self::types::{Clocks, Effect, Exit, MachineEvent, RunId, Settings};
use crate::hooks::News;
use crate::mutants;
use crate::proto::session_request::Frame as Request;
use crate::proto::session_response::Frame as Response;
use crate::proto::{CallbackDone, ReportAck, ReportResult};

/// The identity from the coordinators.
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
    jobs: RegisteredJobs,
    in_flight: InFlight,
    /// How many reports may be unacknowledged on this stream.
    credit: usize,
    /// How long its frames take.
    one_way_delay: OneWayDelay,
    /// Callbacks in user code, and the deadline of each.
    callbacks: BTreeMap<String, Option<Duration>>,
    /// Answers to callbacks that had no open stream.
    answers: Vec<CallbackDone>,
    /// The latest answers: the coordinator asks again for one that was lost on its way.
    answered: VecDeque<CallbackDone>,
    leave: Option<Leave>,
    /// The exit in place of `Left` once the leave is complete.
    after_leave: Option<Exit>,
    /// Coordinators in a row that rejected this worker before any welcomed it.
    rejections: usize,
    effects: Vec<Effect>,
    /// Events of the stream, for hooks and health.
    news: Vec<News>,
    exited: bool,
}

impl Machine {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            link: Link::new(settings.servers.clone(), settings.seed).learning(settings.learn.clone()),
            lease: Lease::none(),
            me: None,
            jobs: RegisteredJobs::new(&settings.jobs),
            in_flight: InFlight::default(),
            credit: 1,
            one_way_delay: OneWayDelay::default(),
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

    /// The actions, in this order.
    pub(crate) fn handle(&mut self, now: Clocks, event: MachineEvent) -> Vec<Effect> {
        let mut event = event;
        if !self.exited && proves_lease(&event) {
            self.on(now, std::mem::replace(&mut event, MachineEvent::Tick));
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
        consider(self.in_flight.wakes_at());
        consider(self.in_flight.begins_at());
        // Nearly always the first run decides.
        if self.in_flight.runs.values().any(|run| !run.urgent) {
            consider(Some(lease_end));
        }
        next
    }

    /// From when on user code must not start, as far as is known now.
    pub(crate) fn lease_end(&self) -> Duration {
        self.lease.stops_at().unwrap_or_default()
    }

    /// When user code must have stopped. Half of the stop budget is kept for slow stops.
    pub(crate) fn lease_over(&self) -> Duration {
        self.lease.stops_at().map(|stop| stop + self.lease.budget() / 2).unwrap_or_default()
    }

    /// Events of the stream since the last call.
    pub(crate) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leave.is_some()
    }

    /// The effects of time. The lease first: nothing below may rely on an expired right.
    fn due(&mut self, now: Clocks) {
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

    fn on(&mut self, now: Clocks, event: MachineEvent) {
        match event {
            MachineEvent::Tick => {}
            MachineEvent::Connected { connection } if self.counts(connection) => self.on_connected(now),
            MachineEvent::Closed { connection, error } if self.counts(connection) => {
                self.on_closed(now, error);
            }
            MachineEvent::Frame { connection, frame } if self.counts(connection) => {
                self.on_frame(now, frame);
            }
            // From an abandoned stream.
            MachineEvent::Connected { .. } | MachineEvent::Closed { .. } | MachineEvent::Frame { .. } => {}
            MachineEvent::Ended(ended) => self.on_ended(now, ended),
            MachineEvent::Progress { run, percent, message } => self.on_progress(now, &run, percent, message),
            MachineEvent::Offset { run, offset } => self.on_offset(now, &run, offset),
            MachineEvent::CallbackEnded { callback_id, error } => self.on_callback_ended(callback_id, error),
            MachineEvent::Leave => self.begin_leave(now, self.settings.drain_timeout),
            MachineEvent::Signal => self.on_signal(now),
            MachineEvent::Kill => self.exit(Exit::Killed),
        }
    }

    /// Whether a connection is the current one: frames of any other are ignored.
    fn counts(&self, connection: u64) -> bool {
        self.link.current() == Some(connection) || mutants::is_on(mutants::LEFT_STREAMS_HEARD)
    }

    fn on_frame(&mut self, now: Clocks, frame: Response) {
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
        let Some(report) = self.in_flight.acknowledge(&id) else { return };
        let ReportAck { code, message, .. } = ack;
        match ack.result() {
            ReportResult::Accepted => {}
            ReportResult::Invalid if self.in_flight.replace(&report, &format!("{code}: {message}")) => {
                tracing::error!(%id, code, "report refused, the run is reported as failed: {message}");
            }
            _ => tracing::warn!(%id, code, "report not accepted: {message}"),
        }
    }

    /// The actions that the new state requires.
    fn settle(&mut self, now: Clocks) {
        // In a burst, user code whose time has come runs before reports of what has ended. The wait is a few events:
        // each brings one run at most, and lets many begin.
        let begun = self.in_flight.begins_at().is_none_or(|at| now.mono < at);
        if begun && self.link.is_open() {
            for report in self.in_flight.sendable(self.credit) {
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

/// An acknowledgement that waited in the socket while the process was frozen still proves a lease.
pub(crate) fn proves_lease(event: &MachineEvent) -> bool {
    matches!(event, MachineEvent::Frame { frame: Response::HeartbeatAck(_), .. })
}
