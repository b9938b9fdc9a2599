//! Between the edge and the coordinator: shows the observer every frame that the coordinator sends or receives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use rosterd::app::supervisor::Supervisor;
use rosterd_api::backend::{Backend, BackendAnswer, Conversation, FrameSink};
use rosterd_coordinator::handle::{
    ClusterEvent, Done, DumpNode, Health, InstanceRow, ItemRow, JobDetail, JobRow, MachineRow, MemberRow,
    Operation, Peer, Room, Sent, ServerRow, Survey, outbox as pair,
};
use rosterd_domain::explain::{Sentence, Stay};
use rosterd_domain::id::{CoordinatorId, Item, JobName, Namespace};
use rosterd_domain::time::Time;
use rosterd_session::code::Refusal;
use rosterd_session::frame::{FromWorker, ToWorker};
use tokio::sync::{broadcast, watch};

use crate::oracle::observer::Observer;

/// Which process runs at an address, and which of its streams is the latest.
#[derive(Clone, Default)]
pub struct Processes(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    at: BTreeMap<String, String>,
    streams: BTreeMap<String, u64>,
}

impl Processes {
    /// A process starts.
    pub fn begin(&self, address: &str, process: String) {
        self.lock().at.insert(address.to_owned(), process);
    }

    /// A stream from an address opens. Returns its process and its number.
    fn open(&self, address: &str) -> (String, u64) {
        let mut known = self.lock();
        let process = known.at.get(address).cloned().unwrap_or_else(|| address.to_owned());
        let last = known.streams.entry(process.clone()).or_default();
        *last += 1;
        let number = *last;
        (process, number)
    }

    fn is_latest(&self, process: &str, stream: u64) -> bool {
        self.lock().streams.get(process) == Some(&stream)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct Tap {
    pub lives: Arc<Supervisor>,
    pub observer: Observer,
    pub processes: Processes,
}

struct Heard {
    inner: Box<dyn FrameSink>,
    process: String,
    observer: Observer,
}

impl FrameSink for Heard {
    fn try_room(&self, bytes: usize) -> Option<Room> {
        self.inner.try_room(bytes)
    }

    fn room(&self, bytes: usize) -> BoxFuture<'static, Room> {
        self.inner.room(bytes)
    }

    fn put(&self, frame: FromWorker, room: Room) -> Result<(), Refusal> {
        self.observer.lock().said(&self.process, &frame);
        self.inner.put(frame, room)
    }
}

impl Backend for Tap {
    fn open(&self, peer: Peer) -> Result<Conversation, Refusal> {
        let address = peer.address.rsplit_once(':').map_or("", |(host, _)| host).to_owned();
        let (process, stream) = self.processes.open(&address);
        let Conversation { mut outbox, inbox } = Backend::open(&*self.lives, peer)?;
        let (told, passed_on) = pair(outbox.most());
        let (observer, host, worker) = (self.observer.clone(), self.id(), process.clone());
        let processes = self.processes.clone();
        tokio::spawn(async move {
            while let Some(frame) = outbox.recv().await {
                // A worker that has sent Hello elsewhere has left this stream, and takes no lease from it.
                let left = !processes.is_latest(&worker, stream);
                if !(left && matches!(frame, ToWorker::HeartbeatAck { .. })) {
                    observer.lock().heard(&worker, host.as_str(), &frame);
                }
                // No worker here leaves as many frames unread as the coordinator allows.
                if told.send(frame) != Sent::Queued {
                    return;
                }
            }
        });
        Ok(Conversation {
            outbox: passed_on,
            inbox: Box::new(Heard { inner: inbox, process, observer: self.observer.clone() }),
        })
    }

    fn namespace(&self) -> &Namespace {
        self.lives.namespace()
    }

    fn id(&self) -> CoordinatorId {
        self.lives.id()
    }

    fn operate(&self, operation: Operation, by: Option<Arc<str>>) -> BackendAnswer<'_, Done> {
        self.lives.operate(operation, by)
    }

    fn due<'a>(
        &'a self,
        job: &'a JobName,
        after: Time,
        until: Time,
        most: usize,
    ) -> BackendAnswer<'a, Vec<Time>> {
        self.lives.due(job, after, until, most)
    }

    fn names(&self) -> BackendAnswer<'_, BTreeSet<JobName>> {
        self.lives.names()
    }

    fn jobs(&self) -> BackendAnswer<'_, Arc<Vec<JobRow>>> {
        self.lives.jobs()
    }

    fn some_jobs<'a>(&'a self, names: &'a [JobName]) -> BackendAnswer<'a, Vec<JobRow>> {
        self.lives.some_jobs(names)
    }

    fn job<'a>(&'a self, job: &'a JobName, upcoming: usize) -> BackendAnswer<'a, JobDetail> {
        self.lives.job(job, upcoming)
    }

    fn items<'a>(&'a self, job: &'a JobName) -> BackendAnswer<'a, Vec<ItemRow>> {
        self.lives.items(job)
    }

    fn explain<'a>(
        &'a self,
        job: &'a JobName,
        item: Item,
        stays: Vec<Stay>,
    ) -> BackendAnswer<'a, Vec<Sentence>> {
        self.lives.explain(job, item, stays)
    }

    fn instances<'a>(&'a self, job: Option<&'a JobName>) -> BackendAnswer<'a, Vec<InstanceRow>> {
        self.lives.instances(job)
    }

    fn servers<'a>(&'a self, job: Option<&'a JobName>) -> BackendAnswer<'a, Vec<ServerRow>> {
        self.lives.servers(job)
    }

    fn machines(&self) -> BackendAnswer<'_, Vec<MachineRow>> {
        self.lives.machines()
    }

    fn members(&self) -> BackendAnswer<'_, Vec<MemberRow>> {
        self.lives.members()
    }

    fn survey(&self) -> BackendAnswer<'_, Survey> {
        self.lives.survey()
    }

    fn dump<'a>(&'a self, job: &'a JobName) -> BackendAnswer<'a, BTreeMap<String, DumpNode>> {
        self.lives.dump(job)
    }

    fn watch(&self) -> broadcast::Receiver<Arc<ClusterEvent>> {
        self.lives.watch()
    }

    fn health(&self) -> watch::Receiver<Health> {
        self.lives.health()
    }
}
