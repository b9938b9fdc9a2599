//! Taking leave in two phases, so that an exit is never mistaken for a crash: DrainRequest, Draining, the last
//! reports and their acknowledgements, Goodbye, GoodbyeAck. Every step is bounded.

use std::time::Duration;

use super::words::{Effect, Exit, Now, RunId};
use super::{Machine, Phase, Request, Why};
use crate::proto::{DrainRequest, Goodbye};

/// A Goodbye without its acknowledgement, or a DrainRequest at rest without its Draining, is said again on another
/// stream after this.
pub(crate) const GOODBYE_TIMEOUT: Duration = Duration::from_secs(3);
/// How many runs the answer to a signal names.
const NAMED: usize = 5;

#[derive(Debug)]
pub(crate) struct Leave {
    /// Runs may go on until here; then they are stopped and handed back.
    runs_until: Duration,
    stopped: bool,
    /// Nothing is in flight since.
    idle_since: Option<Duration>,
    /// DrainRequest was sent on the current stream.
    asked_at: Option<Duration>,
    /// Draining was received on the current stream.
    confirmed: bool,
    goodbye_until: Option<Duration>,
    /// What a worker with nothing in flight, or past its drain deadline, gives to the rest of the leave.
    timeout: Duration,
}

impl Leave {
    /// When the worker exits, acknowledged or not.
    fn gives_up_at(&self) -> Duration {
        let last = self.runs_until + self.timeout;
        self.idle_since.map_or(last, |idle| last.min(idle + self.timeout))
    }

    pub(crate) fn deadline(&self) -> Duration {
        let runs = if self.stopped { Duration::MAX } else { self.runs_until };
        let answer = self.answer_until().unwrap_or(Duration::MAX);
        runs.min(self.gives_up_at()).min(answer)
    }

    /// When another coordinator is asked, unless this one answers what was said last. While something is in flight
    /// nobody waits for Draining.
    fn answer_until(&self) -> Option<Duration> {
        let draining = self.asked_at.zip(self.idle_since).filter(|_| !self.confirmed);
        self.goodbye_until.or(draining.map(|(asked, idle)| asked.max(idle) + GOODBYE_TIMEOUT))
    }

    pub(crate) fn asked(&mut self, now: Duration) {
        self.asked_at = Some(now);
    }

    /// The drain deadline has passed: nothing may start any more.
    pub(crate) fn too_late(&self) -> bool {
        self.stopped
    }

    /// Goodbye was said on this stream: what the records still give this worker is handed back for it, and may begin
    /// elsewhere at any moment.
    pub(crate) fn said_goodbye(&self) -> bool {
        self.goodbye_until.is_some()
    }

    /// A new stream knows nothing of the leave yet.
    pub(crate) fn restart(&mut self) {
        self.asked_at = None;
        self.confirmed = false;
        self.goodbye_until = None;
    }
}

impl Machine {
    pub(crate) fn begin_leave(&mut self, now: Now, grace: Duration) {
        if let Some(leave) = &mut self.leave {
            // Whoever asks again may only shorten it.
            leave.runs_until = leave.runs_until.min(now.mono + grace);
            return;
        }
        tracing::info!(in_flight = self.hand.refs().len(), "leaving");
        self.leave = Some(Leave {
            runs_until: now.mono + grace,
            stopped: false,
            idle_since: None,
            asked_at: self.link.is_open().then_some(now.mono),
            confirmed: false,
            goodbye_until: None,
            timeout: self.settings.leave_timeout,
        });
        if self.link.is_open() {
            self.send(Request::DrainRequest(DrainRequest {}));
        }
    }

    /// The one who sent the signal reads what the process waits for, and how to end it at once.
    pub(crate) fn on_signal(&mut self, now: Now) {
        let runs: Vec<String> = self.hand.runs.keys().map(RunId::to_string).collect();
        let deadline = self.settings.drain_timeout;
        if runs.is_empty() {
            tracing::info!("signal received: leaving; nothing is in flight");
        } else {
            let more = if runs.len() > NAMED { ", …" } else { "" };
            let names = runs[..runs.len().min(NAMED)].join(", ");
            let (count, runs) = (runs.len(), if runs.len() == 1 { "run" } else { "runs" });
            tracing::warn!(
                "signal received: leaving once {count} {runs} in flight ({names}{more}) ended, after {deadline:?} at \
                 the latest; a second signal exits immediately and records them as crashed"
            );
        }
        self.begin_leave(now, deadline);
    }

    pub(crate) fn on_draining(&mut self) {
        if let Some(leave) = &mut self.leave {
            leave.confirmed = true;
        }
    }

    pub(crate) fn on_goodbye_ack(&mut self) {
        if self.leave.as_ref().is_some_and(|leave| leave.goodbye_until.is_some()) {
            self.exit(Exit::Left);
        }
    }

    /// What time alone brings to a leave.
    pub(crate) fn leave_due(&mut self, now: Now) {
        let Some(leave) = &mut self.leave else { return };
        if now.mono >= leave.gives_up_at() {
            let in_flight = self.hand.refs().len();
            tracing::warn!(in_flight, "left without acknowledgement");
            return self.exit(Exit::LeaveTimedOut { in_flight });
        }
        if leave.answer_until().is_some_and(|until| now.mono >= until) {
            let what = if leave.goodbye_until.is_some() { "goodbye" } else { "request to drain" };
            self.lose(now, &format!("no answer to the {what}"));
        }
        let Some(leave) = &mut self.leave else { return };
        if !leave.stopped && now.mono >= leave.runs_until {
            leave.stopped = true;
            self.stop_all(now, &Why::DrainDeadline);
            self.stop_callbacks();
        }
    }

    /// Goes one step further when the state allows it.
    pub(crate) fn leave_step(&mut self, now: Now) {
        let Some(leave) = &mut self.leave else { return };
        let idle = self.hand.is_empty() && self.callbacks.is_empty();
        leave.idle_since = if idle { leave.idle_since.or(Some(now.mono)) } else { None };
        if !idle || self.exited {
            return;
        }
        let unknown = self.me.is_none();
        match &self.link.phase {
            // Nobody knows of this worker: there is nobody to take leave of.
            Phase::Waiting { .. } | Phase::Connecting { .. } if unknown => self.exit(Exit::Left),
            Phase::Open(_) if leave.confirmed && leave.goodbye_until.is_none() => {
                leave.goodbye_until = Some(now.mono + GOODBYE_TIMEOUT);
                self.effects.push(Effect::Send(Request::Goodbye(Goodbye {})));
            }
            _ => {}
        }
    }
}
