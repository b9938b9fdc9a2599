//! A stream, and its worker.

use rosterd_domain::id::WorkerId;

use crate::io::operation::Peer;

/// A stream, since it was opened.
#[derive(Debug)]
pub(crate) struct Stream {
    peer: Peer,
    phase: StreamPhase,
}

impl Stream {
    pub(crate) fn new(peer: Peer) -> Self {
        Self { peer, phase: StreamPhase::Fresh }
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn phase(&self) -> &StreamPhase {
        &self.phase
    }

    /// Whether its Hello is being processed.
    pub(crate) fn is_greeting(&self) -> bool {
        matches!(self.phase, StreamPhase::Greeting)
    }

    /// Its Hello has arrived.
    pub(crate) fn greet(&mut self) {
        self.phase = StreamPhase::Greeting;
    }

    /// It is the stream of this worker.
    pub(crate) fn bind(&mut self, worker: WorkerId) {
        self.phase = StreamPhase::Bound(worker);
    }

    /// Marks it as closing. Returns the worker whose stream it was.
    pub(crate) fn close(&mut self) -> Option<WorkerId> {
        match std::mem::replace(&mut self.phase, StreamPhase::Closing) {
            StreamPhase::Bound(worker) => Some(worker),
            StreamPhase::Fresh | StreamPhase::Greeting | StreamPhase::Closing => None,
        }
    }
}

#[derive(Debug)]
pub(crate) enum StreamPhase {
    /// No frame was received.
    Fresh,
    /// Its Hello is being processed.
    Greeting,
    /// It is the stream of this worker.
    Bound(WorkerId),
    /// The coordinator is ending it.
    Closing,
}
