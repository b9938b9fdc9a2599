//! What comes to a script, in one order: streams, frames, lines of the worker, its end; and what the script said itself.

use std::process::ExitStatus;
use std::time::Duration;

use rosterd_domain::verify::Line;
use rosterd_runtime::clock::{Clock as _, System};
use rosterd_wire::proto::v1::session_request::Frame;
use tokio::sync::mpsc;

use crate::coordinator::Stream;

/// What waits for the script.
const WAITING: usize = 64 * 1024;

#[derive(Debug, Clone)]
pub(crate) enum WorkerEvent {
    Opened(Stream),
    /// On the stream of this number; none: a frame that we do not know.
    Frame(usize, Option<Frame>),
    Closed(usize, String),
    /// Standard output.
    Line(Line),
    /// Standard output, which is not what it should be.
    Garbage(String),
    Exited(ExitStatus),
    /// What the script itself did, for people.
    Did(String),
}

#[derive(Debug, Clone)]
pub(crate) struct TimedEvent {
    /// On the clock of the worker's lines.
    pub(crate) at: Duration,
    pub(crate) event: WorkerEvent,
}

/// Where events go.
#[derive(Clone)]
pub(crate) struct Events(mpsc::Sender<TimedEvent>);

pub(crate) fn channel() -> (Events, mpsc::Receiver<TimedEvent>) {
    let (send, receive) = mpsc::channel(WAITING);
    (Events(send), receive)
}

impl Events {
    pub(crate) async fn tell(&self, event: WorkerEvent) {
        let _ = self.0.send(TimedEvent { at: now(), event }).await;
    }
}

/// The clock of the worker's lines.
pub(crate) fn now() -> Duration {
    System.mono().0
}
