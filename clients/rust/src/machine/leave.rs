//! Leaving in two phases, so that an exit is never mistaken for a crash: DrainRequest, Draining, the last reports and
//! their acknowledgements, Goodbye, GoodbyeAck. Every step is bounded.

use std::time::Duration;

/// A Goodbye without its acknowledgement, or a DrainRequest at rest without its Draining, is sent again on another
/// stream after this.
pub(crate) const GOODBYE_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct Leave {
    /// Runs may go on until this time; then they are stopped and handed back.
    pub(super) runs_until: Duration,
    pub(super) stopped: bool,
    /// Since when nothing is in flight.
    pub(super) idle_since: Option<Duration>,
    /// DrainRequest was sent on the current stream.
    pub(super) asked_at: Option<Duration>,
    /// Draining was received on the current stream.
    pub(super) confirmed: bool,
    pub(super) goodbye_until: Option<Duration>,
    /// How long the rest of the leave may take for a worker with nothing in flight, or past its drain deadline.
    pub(super) timeout: Duration,
}

impl Leave {
    /// When the worker exits, acknowledged or not.
    pub(super) fn gives_up_at(&self) -> Duration {
        let last = self.runs_until + self.timeout;
        self.idle_since.map_or(last, |idle| last.min(idle + self.timeout))
    }

    pub(crate) fn deadline(&self) -> Duration {
        let runs = if self.stopped { Duration::MAX } else { self.runs_until };
        let answer = self.answer_until().unwrap_or(Duration::MAX);
        runs.min(self.gives_up_at()).min(answer)
    }

    /// When to try another coordinator, unless this one answers the last frame. While something is in flight, the
    /// worker does not wait for Draining.
    pub(super) fn answer_until(&self) -> Option<Duration> {
        let draining = self.asked_at.zip(self.idle_since).filter(|_| !self.confirmed);
        self.goodbye_until.or(draining.map(|(asked, idle)| asked.max(idle) + GOODBYE_TIMEOUT))
    }

    pub(crate) fn asked(&mut self, now: Duration) {
        self.asked_at = Some(now);
    }

    /// The drain deadline has passed: nothing more may start.
    pub(crate) fn too_late(&self) -> bool {
        self.stopped
    }

    /// Goodbye was sent on this stream: the coordinator hands back the runs that the records still assign to this
    /// worker: they may start elsewhere at any moment.
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
