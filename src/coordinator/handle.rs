//! The coordinator as its callers see it: worker streams, operations, views and health. The API layers hold a
//! [`Handle`] and nothing else of the coordinator; the registry is behind it.

pub use crate::edge_queue::Room;
pub use crate::inbox::Inbox;
pub use crate::io::cluster_event::{Action, ClusterEvent, WorkerEvent};
pub use crate::io::operation::{
    Change, ChangeEffect, Done, FieldChange, Health, JobStatus, MachineAction, Operation, Peer, Target,
};
pub use crate::outbox::{Ended, Outbox, OutboxMonitor, OutboxSender, Sent, Taken, outbox};
pub use crate::queries::rows::{
    Birth, InstanceRow, ItemRow, ItemStatus, JobDetail, JobRow, MachineRow, MemberRow, ServerRow, Survey,
    Surveyed,
};
pub use rosterd_registry::DumpNode;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rosterd_domain::id::{CoordinatorId, Namespace};
use rosterd_registry::Registry;
use rosterd_runtime::clock::SharedClock;
use rosterd_runtime::shares::Shares;
use rosterd_session::code::{Code, Refusal};
use tokio::sync::{Semaphore, broadcast, oneshot, watch};

use crate::edge_queue::{EdgeSender, FromEdge};
use crate::inbox::{WaitingStreams, stopped};

const REQUESTS: usize = 1024;

/// A worker's stream, as seen by the edge. Dropping it ends the conversation, but not the worker's lease.
#[derive(Debug)]
pub struct WorkerStream {
    /// Frames for the worker, in order; ends after a `Close`.
    pub outbox: Outbox,
    /// Accepts the worker's frames.
    pub inbox: Inbox,
}

/// The coordinator, for the layers that serve it. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) namespace: Namespace,
    pub(crate) id: CoordinatorId,
    pub(crate) registry: Arc<dyn Registry>,
    pub(crate) clock: SharedClock,
    pub(crate) looks: crate::queries::looks::Looks,
    pub(crate) health: watch::Receiver<Health>,
    pub(crate) events: broadcast::Sender<Arc<ClusterEvent>>,
    /// When a committed write last proved the session, in milliseconds of the monotonic clock.
    pub(crate) proved: Arc<AtomicU64>,
    pub(crate) queue: EdgeSender,
    pub(crate) streams: StreamOpener,
    /// How many operations wait for their answer.
    pub(crate) asked: Arc<AtomicUsize>,
}

/// What it takes to open the stream of a worker.
pub(crate) struct StreamOpener {
    pub(crate) last: AtomicU64,
    /// How many frames may wait for a worker.
    pub(crate) max_outbox: usize,
    /// How much the streams of each credential may have waiting here.
    pub(crate) shares: Shares<Semaphore>,
    pub(crate) waiting: WaitingStreams,
}

impl Handle {
    /// The coordinator's namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.inner.namespace
    }

    /// The identity of this coordinator.
    pub fn id(&self) -> &CoordinatorId {
        &self.inner.id
    }

    /// Opens a worker's stream.
    pub fn open(&self, peer: Peer) -> Result<WorkerStream, Refusal> {
        let streams = &self.inner.streams;
        let stream = streams.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, outbox) = outbox(streams.max_outbox);
        let shared = streams.shares.of(peer.principal.as_deref());
        let opened = self.inner.queue.send(FromEdge::Opened(stream, peer, sender));
        opened.map_err(|_| stopped())?;
        let inbox = Inbox::new(stream, self.inner.queue.clone(), shared, streams.waiting.clone());
        Ok(WorkerStream { outbox, inbox })
    }

    /// Executes an operation without a principal; answered once its effect is durable.
    pub async fn operate(&self, operation: Operation) -> Result<Done, Refusal> {
        self.operate_as(operation, None).await
    }

    /// Executes an operation that `by` requested.
    pub async fn operate_as(&self, operation: Operation, by: Option<Arc<str>>) -> Result<Done, Refusal> {
        let asked = self.inner.asked.clone();
        if asked.fetch_add(1, Ordering::Relaxed) >= REQUESTS {
            asked.fetch_sub(1, Ordering::Relaxed);
            let message = format!("more than {REQUESTS} operations wait: try again later");
            return Err(Refusal::new(Code::Overloaded, message));
        }
        let (reply, answer) = oneshot::channel();
        let sent = self.inner.queue.send(FromEdge::Operate(operation, by, reply));
        let answer = match sent {
            Ok(()) => answer.await.unwrap_or_else(|_| Err(stopped())),
            Err(_) => Err(stopped()),
        };
        asked.fetch_sub(1, Ordering::Relaxed);
        answer
    }

    /// The session of this coordinator, for code that reads or writes whole jobs: backup and restore.
    pub fn registry(&self) -> Arc<dyn Registry> {
        self.inner.registry.clone()
    }

    /// Asks the coordinator to stop: streams are ended, leaderships given up, reports committed.
    pub fn stop(&self) {
        // Fails if it has stopped already.
        let _stopped = self.inner.queue.send(FromEdge::Stop);
    }

    /// Events from now on; a reader that is too slow loses the oldest.
    pub fn watch(&self) -> broadcast::Receiver<Arc<ClusterEvent>> {
        self.inner.events.subscribe()
    }

    /// Whether the coordinator can do its work.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.inner.health.clone()
    }
}
