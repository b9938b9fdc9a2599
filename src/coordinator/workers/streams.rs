//! The streams of workers.

use rosterd_domain::id::{StreamNumber, WorkerId};
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::ToWorker;

use crate::io::Io;
use crate::io::event::{Effect, StreamId};
use crate::io::operation::Peer;
use crate::workers::stream::Stream;
use crate::workers::{Workers, WorkersTurn};

impl Workers {
    /// A worker's stream was opened.
    pub(crate) fn opened(&mut self, io: &mut Io, id: StreamId, peer: Peer, stopping: bool) {
        self.streams.insert(id, Stream::new(peer));
        if stopping {
            self.close(io, id, Some(Refusal::new(Code::Draining, "this coordinator is stopping")));
        }
    }

    fn leave_stream(&mut self, io: &Io, id: StreamId, of: Option<WorkerId>) {
        if let Some(worker) = of.and_then(|of| self.table.get_mut(&of))
            && worker.link.stream_ended(id)
        {
            worker.lease.stops_waiting(io.now.mono);
        }
    }

    /// Sends a frame on a stream that is open.
    pub(crate) fn send(&mut self, io: &mut Io, stream: StreamId, frame: ToWorker) {
        if self.streams.contains_key(&stream) {
            io.out.push(Effect::Send(stream, frame));
        }
    }

    /// Ends a stream.
    pub(crate) fn close(&mut self, io: &mut Io, id: StreamId, why: Option<Refusal>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if let Some(refusal) = &why {
            tracing::info!(peer = %stream.peer().address, code = %refusal.code, "a stream is ended: {}", refusal.message);
        }
        let of = stream.close();
        io.out.push(Effect::Send(id, ToWorker::Close(why)));
        self.leave_stream(io, id, of);
        self.admission.arrived(id);
    }

    /// Ends all streams: this coordinator is stopping.
    pub(crate) fn close_all(&mut self, io: &mut Io) {
        let streams: Vec<StreamId> = self.streams.keys().copied().collect();
        for stream in streams {
            let why = "this coordinator is stopping: connect to another one";
            self.close(io, stream, Some(Refusal::new(Code::Draining, why)));
        }
    }

    /// Whether a stream waits for the outcome of its Hello.
    pub(crate) fn is_greeting(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_some_and(Stream::is_greeting)
    }

    /// The credential of a stream.
    pub(crate) fn credential_of(&self, stream: StreamId) -> Option<String> {
        self.streams.get(&stream).and_then(|stream| stream.peer().principal.clone())
    }
}

impl WorkersTurn<'_> {
    /// Its client ended a stream. A worker's lease continues: it may come back, here or elsewhere; unless it does not
    /// know its name yet.
    pub(crate) fn closed(&mut self, id: StreamId) {
        let Some(mut stream) = self.workers.streams.remove(&id) else { return };
        self.workers.admission.arrived(id);
        let of = stream.close();
        self.workers.leave_stream(self.io, id, of.clone());
        let is_nobodys = |of: &WorkerId| self.workers.get(of).is_some_and(|worker| worker.link.is_nobodys());
        if let Some(worker) = of.filter(is_nobodys) {
            self.goodbye(&worker);
        }
    }
}

/// The refusal for a stream of a worker that has one with a higher number.
pub(crate) fn superseded(number: StreamNumber, stored: StreamNumber) -> Refusal {
    Refusal::new(
        Code::StreamSuperseded,
        format!(
            "stream_number {number} is not above {stored}, the stream that is attached: a worker process numbers its streams upwards and closes the old one first"
        ),
    )
}
