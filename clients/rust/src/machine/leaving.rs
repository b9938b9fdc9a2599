//! The machine's leave: what it sends, what it waits for, and what it hands back.

use std::time::Duration;

use super::leave::{GOODBYE_TIMEOUT, Leave};
use super::types::{Clocks, Effect, Exit, RunId};
use super::{LinkPhase, Machine, Request, Why};
use crate::proto::{DrainRequest, Goodbye};

/// How many runs the answer to a signal names.
const NAMED: usize = 5;

impl Machine {
    pub(crate) fn begin_leave(&mut self, now: Clocks, grace: Duration) {
        if let Some(leave) = &mut self.leave {
            // A further request may only shorten it.
            leave.runs_until = leave.runs_until.min(now.mono + grace);
            return;
        }
        tracing::info!(in_flight = self.in_flight.refs().len(), "leaving");
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

    /// The log tells the sender of the signal what the process waits for, and how to end it immediately.
    pub(crate) fn on_signal(&mut self, now: Clocks) {
        let runs: Vec<String> = self.in_flight.runs.keys().map(RunId::to_string).collect();
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

    /// The effects of time on a leave.
    pub(crate) fn leave_due(&mut self, now: Clocks) {
        let Some(leave) = &mut self.leave else { return };
        if now.mono >= leave.gives_up_at() {
            let in_flight = self.in_flight.refs().len();
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
    pub(crate) fn leave_step(&mut self, now: Clocks) {
        let Some(leave) = &mut self.leave else { return };
        let idle = self.in_flight.is_empty() && self.callbacks.is_empty();
        leave.idle_since = if idle { leave.idle_since.or(Some(now.mono)) } else { None };
        if !idle || self.exited {
            return;
        }
        let unknown = self.me.is_none();
        match &self.link.phase {
            // No coordinator knows this worker, so it needs no goodbye.
            LinkPhase::Waiting { .. } | LinkPhase::Connecting { .. } if unknown => self.exit(Exit::Left),
            LinkPhase::Open(_) if leave.confirmed && leave.goodbye_until.is_none() => {
                leave.goodbye_until = Some(now.mono + GOODBYE_TIMEOUT);
                self.effects.push(Effect::Send(Request::Goodbye(Goodbye {})));
            }
            _ => {}
        }
    }
}
