//! The path of workers' frames into the coordinator: the bytes that wait to be handled are limited per stream, and for
//! all streams of one credential. A frame without room waits at the edge, which reads no more from that stream until
//! there is some. So a worker that sends more than its share slows down only itself.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::FromWorker;
use tokio::sync::Semaphore;

use crate::edge_queue::{EdgeSender, FromEdge, Room};
use crate::io::event::StreamId;

/// Bytes of one stream that may wait, besides [`UNCOUNTED_BYTES`]. Enough for one small frame per run that a worker has to
/// report.
pub(crate) const STREAM_BYTES: usize = 3 << 20;
/// While fewer bytes than this wait of all streams of a credential, the smallest frames are counted for the credential
/// alone, and not for their streams: a heartbeat then touches only what those of other streams touch as well.
const UNCOUNTED_BYTES: usize = 1 << 20;
/// Bytes of all streams of one credential that may wait.
pub(crate) const CREDENTIAL_BYTES: usize = 16 << 20;
/// The minimum that a frame counts: handling one costs more than its bytes.
const LEAST: usize = 256;

/// Streams whose next frame waits for room.
#[derive(Debug, Clone, Default)]
pub(crate) struct WaitingStreams(Arc<Mutex<BTreeSet<StreamId>>>);

impl WaitingStreams {
    /// The current streams.
    pub(crate) fn streams(&self) -> BTreeSet<StreamId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn enter(&self, stream: StreamId) -> Entered {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(stream);
        Entered(self.clone(), stream)
    }
}

/// Marks a stream as waiting.
struct Entered(WaitingStreams, StreamId);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }
}

/// Accepts a worker's frames.
#[derive(Debug)]
pub struct Inbox {
    stream: StreamId,
    queue: EdgeSender,
    own: Arc<Semaphore>,
    shared: Arc<Semaphore>,
    waiting: WaitingStreams,
}

impl Inbox {
    pub(crate) fn new(
        stream: StreamId,
        queue: EdgeSender,
        shared: Arc<Semaphore>,
        waiting: WaitingStreams,
    ) -> Self {
        Self { stream, queue, own: Arc::new(Semaphore::new(STREAM_BYTES)), shared, waiting }
    }

    /// Reserves room for a frame of this size, if there is some now.
    pub fn try_room(&self, bytes: usize) -> Option<Room> {
        let bytes = counted(bytes);
        let little_waits = self.shared.available_permits() > CREDENTIAL_BYTES - UNCOUNTED_BYTES;
        let own = match bytes as usize {
            LEAST if little_waits => None,
            _ => Some(self.own.clone().try_acquire_many_owned(bytes).ok()?),
        };
        let shared = self.shared.clone().try_acquire_many_owned(bytes).ok()?;
        Some(Room::of(own, Some(shared)))
    }

    /// Waits for room: first for the stream's own, then in line with the others of its credential.
    pub fn room(&self, bytes: usize) -> impl Future<Output = Room> + Send + 'static {
        let (own, shared, bytes) = (self.own.clone(), self.shared.clone(), counted(bytes));
        let entered = self.waiting.enter(self.stream);
        async move {
            let _entered = entered;
            // The semaphores are never closed.
            let own = own.acquire_many_owned(bytes).await.ok();
            let shared = shared.acquire_many_owned(bytes).await.ok();
            Room::of(own, shared)
        }
    }

    /// Hands a frame over.
    pub fn put(&self, frame: FromWorker, room: Room) -> Result<(), Refusal> {
        self.queue.send(FromEdge::Frame(self.stream, frame, room)).map_err(|_| stopped())
    }
}

pub(crate) fn stopped() -> Refusal {
    Refusal::new(Code::Draining, "this coordinator has stopped: connect to another one")
}

/// The room that a frame of this size takes; one larger than the limit takes all of it.
fn counted(bytes: usize) -> u32 {
    u32::try_from(bytes.clamp(LEAST, STREAM_BYTES)).unwrap_or(u32::MAX)
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // Fails if the coordinator has stopped already.
        let _stopped = self.queue.send(FromEdge::Closed(self.stream));
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use futures_util::poll;

    use super::*;
    use crate::edge_queue::{EdgeReceiver, edge_queue};

    fn inbox(shared: &Arc<Semaphore>, waiting: &WaitingStreams) -> (Inbox, EdgeReceiver) {
        let (queue, taken) = edge_queue();
        (Inbox::new(1, queue, shared.clone(), waiting.clone()), taken)
    }

    /// A worker with many jobs whose runs all end at once finds room for its reports.
    #[test]
    fn as_many_small_frames_wait_as_a_worker_has_credits() {
        let shared = Arc::new(Semaphore::new(CREDENTIAL_BYTES));
        let (inbox, _taken) = inbox(&shared, &WaitingStreams::default());
        for _ in 0..8192 {
            let room = inbox.try_room(100).unwrap();
            inbox.put(FromWorker::DrainRequest, room).unwrap();
        }
    }

    /// The bound of a stream holds for frames of any size.
    #[test]
    fn a_stream_has_no_more_room_than_its_own_and_what_is_not_counted() {
        let shared = Arc::new(Semaphore::new(CREDENTIAL_BYTES));
        for size in [1, LEAST + 1] {
            let (inbox, _taken) = inbox(&shared, &WaitingStreams::default());
            let rooms: Vec<Room> = std::iter::from_fn(|| inbox.try_room(size)).collect();
            let (waits, most) = (rooms.len() * size.max(LEAST), STREAM_BYTES + UNCOUNTED_BYTES);
            assert!(waits <= most && waits + UNCOUNTED_BYTES + LEAST > most, "{waits} of {most}");
            drop(rooms);
            assert_eq!(shared.available_permits(), CREDENTIAL_BYTES, "all of it comes back");
        }
    }

    #[tokio::test]
    async fn what_finds_no_room_waits_until_a_frame_was_handled() {
        let (shared, waiting) = (Arc::new(Semaphore::new(CREDENTIAL_BYTES)), WaitingStreams::default());
        let (inbox, mut taken) = inbox(&shared, &waiting);
        let large = inbox.try_room(STREAM_BYTES * 2).unwrap();
        inbox.put(FromWorker::DrainRequest, large).unwrap();
        assert!(inbox.try_room(1).is_none() && waiting.streams().is_empty());
        let mut room = Box::pin(inbox.room(1));
        assert!(poll!(&mut room).is_pending());
        assert!(waiting.streams().contains(&1), "its next frame is on its way");
        drop(taken.try_recv());
        let Poll::Ready(room) = poll!(&mut room) else { panic!("the frame was handled") };
        drop((room, waiting.streams().is_empty().then_some(()).unwrap()));
    }

    #[tokio::test]
    async fn streams_of_one_credential_share_and_those_of_another_do_not_wait_for_them() {
        let shares = rosterd_runtime::shares::Shares::new(|| Semaphore::new(CREDENTIAL_BYTES));
        let waiting = WaitingStreams::default();
        let hostile: Vec<_> = (0..8).map(|_| inbox(&shares.of(Some("hostile")), &waiting)).collect();
        let rooms: Vec<Room> = hostile.iter().filter_map(|(inbox, _)| inbox.try_room(STREAM_BYTES)).collect();
        assert_eq!(rooms.len(), CREDENTIAL_BYTES / STREAM_BYTES);
        let (honest, _taken) = inbox(&shares.of(Some("honest")), &waiting);
        assert!(honest.try_room(STREAM_BYTES).is_some());
    }
}
