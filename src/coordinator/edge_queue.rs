//! The queue from the edge to the driver. Most of what is in it wakes the driver at once. A heartbeat of an idle worker,
//! and the report that user code has started, can wait for [`GATHER`], so that a fleet of idle workers costs a wake-up
//! per batch, not one per heartbeat, and a short run one for both reports. The order stays: whatever wakes the driver
//! earlier takes along what waits.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rosterd_session::code::Refusal;
use rosterd_session::frame::FromWorker;
use tokio::sync::mpsc::error::{SendError, TryRecvError};
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::{Sleep, sleep};

use crate::io::event::StreamId;
use crate::io::operation::{Done, Operation, Peer};
use crate::outbox::OutboxSender;

/// How long a frame that can wait does so: invisible in a lease of seconds.
const GATHER: Duration = Duration::from_millis(5);

/// An event from the edge to the driver.
#[derive(Debug)]
pub(crate) enum FromEdge {
    Opened(StreamId, Peer, OutboxSender),
    Frame(StreamId, FromWorker, Room),
    Closed(StreamId),
    Operate(Operation, Option<Arc<str>>, oneshot::Sender<Result<Done, Refusal>>),
    Stop,
}

impl FromEdge {
    /// Whether a little later is as good: a heartbeat of a worker without runs; that user code has started, by a clock
    /// of the worker's.
    pub(crate) fn can_wait(&self) -> bool {
        match self {
            Self::Frame(_, FromWorker::Heartbeat { in_flight, .. }, _) => in_flight.is_empty(),
            Self::Frame(_, FromWorker::RunStarted { .. }, _) => true,
            _ => false,
        }
    }
}

/// Room for one frame, released when the frame has been handled.
#[derive(Debug)]
pub struct Room {
    _own: Option<OwnedSemaphorePermit>,
    _shared: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// The room that these permits stand for: of the stream, and of its credential.
    pub(crate) fn of(own: Option<OwnedSemaphorePermit>, shared: Option<OwnedSemaphorePermit>) -> Self {
        Self { _own: own, _shared: shared }
    }

    /// Room without a limit, for tests.
    pub fn uncounted() -> Self {
        Self::of(None, None)
    }
}

/// What wakes the driver.
#[derive(Debug, Default)]
struct Signals {
    now: Notify,
    soon: Notify,
    /// `soon` was given, and the queue was not emptied since.
    gathering: AtomicBool,
}

/// The edge's end.
#[derive(Debug, Clone)]
pub(crate) struct EdgeSender {
    // Dropped in this order: the driver must find the queue closed when it is woken for that.
    queue: mpsc::UnboundedSender<FromEdge>,
    signals: WakeOnDrop,
}

#[derive(Debug, Clone)]
struct WakeOnDrop(Arc<Signals>);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        self.0.now.notify_one();
    }
}

/// The driver's end.
#[derive(Debug)]
pub(crate) struct EdgeReceiver {
    queue: mpsc::UnboundedReceiver<FromEdge>,
    signals: Arc<Signals>,
    /// The driver leaves in the queue what can wait until this ends.
    gather: Option<Pin<Box<Sleep>>>,
}

/// Creates the queue.
pub(crate) fn edge_queue() -> (EdgeSender, EdgeReceiver) {
    let (sender, queue) = mpsc::unbounded_channel();
    let signals = Arc::new(Signals::default());
    let receiver = EdgeReceiver { queue, signals: signals.clone(), gather: None };
    (EdgeSender { queue: sender, signals: WakeOnDrop(signals) }, receiver)
}

impl EdgeSender {
    /// Fails if the driver is gone.
    pub(crate) fn send(&self, event: FromEdge) -> Result<(), SendError<FromEdge>> {
        let can_wait = event.can_wait();
        self.queue.send(event)?;
        let signals = &self.signals.0;
        if !can_wait {
            signals.now.notify_one();
        } else if !signals.gathering.swap(true, Ordering::AcqRel) {
            signals.soon.notify_one();
        }
        Ok(())
    }
}

impl EdgeReceiver {
    /// Waits for an event; `None`: all senders are gone. Nothing is lost if the wait is given up.
    pub(crate) async fn recv(&mut self) -> Option<FromEdge> {
        loop {
            if let Some(gather) = &mut self.gather {
                tokio::select! {
                    biased;
                    () = self.signals.now.notified() => {}
                    () = gather => {}
                }
                self.gather = None;
            }
            match self.try_recv() {
                Ok(event) => return Some(event),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => {}
            }
            tokio::select! {
                biased;
                () = self.signals.now.notified() => {}
                () = self.signals.soon.notified() => self.gather = Some(Box::pin(sleep(GATHER))),
            }
        }
    }

    /// Takes the next event without waiting.
    pub(crate) fn try_recv(&mut self) -> Result<FromEdge, TryRecvError> {
        match self.queue.try_recv() {
            // What came before the mark was cleared gave no signal of its own.
            Err(TryRecvError::Empty) if self.signals.gathering.swap(false, Ordering::AcqRel) => {
                self.gather = None;
                self.queue.try_recv()
            }
            taken => taken,
        }
    }

    /// How many events wait.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether all senders are gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use futures_util::poll;
    use rosterd_domain::id::{Item, JobName, Token};
    use rosterd_session::frame::RunRef;
    use tokio::task::JoinSet;
    use tokio::time::advance;

    use super::*;

    fn heartbeat(stream: u64) -> FromEdge {
        let frame = FromWorker::Heartbeat { sequence: 1, in_flight: Vec::new(), lease: None };
        FromEdge::Frame(stream, frame, Room::uncounted())
    }

    fn started(stream: u64) -> FromEdge {
        let run = RunRef { job: JobName::new("job").unwrap(), item: Item(0), token: Token(1) };
        FromEdge::Frame(stream, FromWorker::RunStarted { run, at: None, attempt: 1 }, Room::uncounted())
    }

    fn stream(event: Option<FromEdge>) -> Option<u64> {
        match event? {
            FromEdge::Frame(stream, ..) | FromEdge::Closed(stream) => Some(stream),
            _ => None,
        }
    }

    fn taken(polled: Poll<Option<FromEdge>>) -> Option<u64> {
        match polled {
            Poll::Ready(event) => stream(event),
            Poll::Pending => panic!("it waits"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_and_starts_wait_for_each_other() {
        let (sender, mut receiver) = edge_queue();
        for round in 0..2 {
            let mut wait = Box::pin(receiver.recv());
            assert!(poll!(&mut wait).is_pending());
            for event in [heartbeat(1), started(2), heartbeat(3)] {
                sender.send(event).unwrap();
                assert!(poll!(&mut wait).is_pending(), "round {round}");
                advance(Duration::from_millis(1)).await;
            }
            assert!(poll!(&mut wait).is_pending(), "round {round}");
            advance(GATHER).await;
            assert_eq!(taken(poll!(&mut wait)), Some(1), "round {round}");
            drop(wait);
            assert_eq!(
                [stream(receiver.try_recv().ok()), stream(receiver.try_recv().ok())],
                [Some(2), Some(3)]
            );
            assert!(receiver.try_recv().is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_wait_takes_the_heartbeats_before_it_along() {
        let (sender, mut receiver) = edge_queue();
        let mut wait = Box::pin(receiver.recv());
        assert!(poll!(&mut wait).is_pending());
        sender.send(heartbeat(1)).unwrap();
        assert!(poll!(&mut wait).is_pending());
        // The driver was needed for something else in between.
        drop(wait);
        sender.send(FromEdge::Closed(2)).unwrap();
        for expected in [1, 2] {
            assert_eq!(taken(poll!(Box::pin(receiver.recv()))), Some(expected));
        }
        // A heartbeat after that is not forgotten.
        sender.send(heartbeat(3)).unwrap();
        assert_eq!(stream(receiver.recv().await), Some(3));
    }

    /// Whatever the order of the two threads, no heartbeat is left without a signal.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_heartbeat_arrives() {
        const COUNT: u64 = 20_000;
        let (sender, mut receiver) = edge_queue();
        let (go_on, stays) = oneshot::channel::<()>();
        let mut threads = JoinSet::new();
        threads.spawn(async move {
            for stream in 0..COUNT {
                sender.send(heartbeat(stream)).unwrap();
                if stream % 7 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            // The end of the queue would wake the driver.
            drop(stays.await);
        });
        let all = async {
            for expected in 0..COUNT {
                assert_eq!(stream(receiver.recv().await), Some(expected));
            }
        };
        tokio::time::timeout(Duration::from_secs(60), all).await.expect("a heartbeat was left in the queue");
        drop(go_on);
        threads.join_all().await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_all_senders_ends_the_wait() {
        let (sender, mut receiver) = edge_queue();
        let mut wait = Box::pin(receiver.recv());
        assert!(poll!(&mut wait).is_pending());
        drop(sender);
        assert!(wait.await.is_none());
    }
}
