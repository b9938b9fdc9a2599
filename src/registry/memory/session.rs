//! One session of the in-memory store: implements the registry port.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rosterd_domain::id::{CoordinatorId, Item, JobName, Version, WorkerId};
use rosterd_domain::snapshot::{Attachment, JobNodes, Numbering, Snapshot, Switches, Whole};
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Commit, Txn};

use super::state::SharedSession;
use super::{MemoryStore, Session, SessionOptions, StoreStep};
use crate::hints::HintQueue;
use crate::tree::SessionId;
use crate::{DumpNode, Hints, Read, ReadError, Registry, View};

/// One session with a [`MemoryStore`].
pub struct MemoryRegistry {
    store: MemoryStore,
    id: SessionId,
    name: Arc<str>,
    options: SessionOptions,
}

impl MemoryStore {
    /// Opens a session. Its name is `{name}#{n}` and was never used before. Dropping the registry does not end the
    /// session, just as a crash of its coordinator would not: [`expire`](Self::expire) does.
    pub fn open(&self, name: &str, options: SessionOptions) -> MemoryRegistry {
        let mut inner = self.shared.lock();
        inner.opened += 1;
        let id = SessionId(inner.opened);
        let name: Arc<str> = format!("{name}#{}", id.0).into();
        let session = Session {
            name: name.clone(),
            state: SharedSession::new(),
            watched: BTreeSet::new(),
            items: BTreeSet::new(),
            hints: HintQueue::default(),
            missed: Vec::new(),
            over: false,
            queue: VecDeque::new(),
            handed_over: 0,
        };
        inner.sessions.insert(id, session);
        drop(inner);
        MemoryRegistry { store: self.clone(), id, name, options }
    }
}

impl MemoryRegistry {
    /// The store it is a session of.
    pub fn store(&self) -> &MemoryStore {
        &self.store
    }

    fn read<T, F>(&self, what: &'static str, look: F) -> Read<T>
    where
        T: Send + 'static,
        F: FnOnce(View<'_>) -> Result<T, ReadError> + Send + 'static,
    {
        let faults = &self.store.shared.faults;
        let fault = faults.on_read(&self.name, what);
        let delay = faults.delay(&self.name, StoreStep::Read);
        let (store, id) = (self.store.clone(), self.id);
        Box::pin(async move {
            if let Some(delay) = delay {
                tokio::time::sleep(delay).await;
            }
            if let Some(text) = fault {
                return Err(ReadError::Unavailable(text));
            }
            let state = store.shared.lock().sessions.get(&id).map(|session| session.state.clone());
            let Some(state) = state else { return Err(ReadError::Fenced) };
            if !state.is_connected().await {
                return Err(ReadError::Fenced);
            }
            look(View::new(&store.shared.lock().tree, &store.shared.paths, Some(id)))
        })
    }

    fn watching(&self, change: impl FnOnce(&mut BTreeSet<JobName>) -> bool) {
        if let Some(session) = self.store.shared.lock().sessions.get_mut(&self.id) {
            change(&mut session.watched);
        }
    }
}

impl Registry for MemoryRegistry {
    fn commit(&self, txn: Txn) -> BoxFuture<'static, Commit> {
        let answer = self.store.hand_over(self.id, &self.name, txn);
        let delay = self.store.shared.faults.delay(&self.name, StoreStep::Reply);
        Box::pin(async move {
            // Dropped only along with the store, or with the runtime that a delayed transaction waited in.
            let commit = answer.await.unwrap_or(Commit::Unknown);
            if let Some(delay) = delay {
                tokio::time::sleep(delay).await;
            }
            commit
        })
    }

    fn jobs(&self) -> Read<BTreeSet<JobName>> {
        self.read("jobs", |view| Ok(view.jobs()))
    }

    fn job(&self, job: &JobName) -> Read<Option<JobNodes>> {
        let job = job.clone();
        self.read("job", move |view| view.job(&job))
    }

    fn snapshot(&self, job: &JobName) -> Read<Option<Snapshot>> {
        let job = job.clone();
        self.read("snapshot", move |view| view.snapshot(&job))
    }

    fn switches(&self, job: &JobName) -> Read<Option<Switches>> {
        let job = job.clone();
        self.read("switches", move |view| Ok(view.switches(&job)))
    }

    fn whole(&self, job: &JobName) -> Read<Option<Whole>> {
        let job = job.clone();
        self.read("whole", move |view| view.whole(&job))
    }

    fn numbering(&self) -> Read<Numbering> {
        self.read("numbering", |view| view.numbering())
    }

    fn offset(&self, job: &JobName, item: Item) -> Read<Option<Arc<[u8]>>> {
        let job = job.clone();
        self.read("offset", move |view| Ok(view.offset(&job, item)))
    }

    fn attachment(&self, worker: &WorkerId) -> Read<Option<(Version, Attachment)>> {
        let worker = worker.clone();
        self.read("attachment", move |view| view.attachment(&worker))
    }

    fn attachments(&self) -> Read<BTreeMap<WorkerId, (Version, Attachment)>> {
        self.read("attachments", |view| view.attachments())
    }

    fn coordinators(&self) -> Read<BTreeMap<CoordinatorId, Arc<str>>> {
        self.read("coordinators", |view| Ok(view.coordinators()))
    }

    fn told_at(&self, id: &CoordinatorId) -> Read<Option<Time>> {
        let (store, id) = (self.store.clone(), id.clone());
        let there = self.read("clock", move |view| Ok(view.coordinators().contains_key(&id).then_some(id)));
        Box::pin(async move { Ok(there.await?.and_then(|id| store.shared.lock().told.get(&id).copied())) })
    }

    fn dump(&self, job: &JobName) -> Read<Option<BTreeMap<String, DumpNode>>> {
        let job = job.clone();
        self.read("dump", move |view| Ok(view.dump(&job)))
    }

    fn watch(&self, job: &JobName) {
        self.watching(|watched| watched.insert(job.clone()));
    }

    fn watch_items(&self, job: &JobName, items: u32) {
        if let Some(session) = self.store.shared.lock().sessions.get_mut(&self.id) {
            let _was = match items {
                0 => session.items.remove(job),
                _ => session.items.insert(job.clone()),
            };
        }
    }

    fn unwatch(&self, job: &JobName) {
        self.watch_items(job, 0);
        self.watching(|watched| watched.remove(job));
    }

    fn hints(&self) -> Hints {
        match self.store.shared.lock().sessions.get(&self.id) {
            Some(session) => session.hints.take(),
            None => Hints::over(),
        }
    }

    fn session(&self) -> String {
        self.name.to_string()
    }

    fn session_timeout(&self) -> Option<Duration> {
        self.options.timeout
    }
}
