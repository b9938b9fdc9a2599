//! The in-memory registry: the model that the simulation runs on, and the fastest way to test a coordinator.
//!
//! It is deterministic: no threads, no clock, no unordered maps. Without delays a transaction is applied within the
//! call that hands it over; delays come from the [`Faults`] and use tokio's clock, which a test can pause. It keeps
//! nothing on disk and is not part of the server. Used by tests only.

mod faults;
mod session;
mod state;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rosterd_domain::id::{CoordinatorId, JobName, Namespace, Revision};
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Commit, Txn, Write};
use tokio::sync::oneshot;

pub use faults::{Cause, CommitFault, Faults, HintFault, NoFaults, Observer, Seen, StoreStep};
pub use session::MemoryRegistry;

use self::state::SharedSession;
use super::hints::{HintQueue, told};
use super::paths::{Path, Paths};
use super::tree::{Applied, Op, Refusal, SessionId, Tree};
use super::{Hint, SessionState, View, conflict, forms, lower};

/// How a session is opened.
#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// What `session_timeout` says. The store itself never ends a session: see [`MemoryStore::expire`].
    pub timeout: Option<Duration>,
}

/// What a store held at one time, without its sessions: like a copy of its directory.
#[derive(Debug, Clone)]
pub struct Copied(Tree);

/// The store's own clock.
pub type StoreClock = Box<dyn Fn() -> Time + Send>;

/// One store, shared by its clones and by the sessions opened on it.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    paths: Paths,
    faults: Arc<dyn Faults>,
    inner: Mutex<Inner>,
}

struct Inner {
    tree: Tree,
    sessions: BTreeMap<SessionId, Session>,
    opened: u64,
    observer: Option<Observer>,
    clock: Option<StoreClock>,
    /// When each coordinator last wrote about itself.
    told: BTreeMap<CoordinatorId, Time>,
}

struct Session {
    name: Arc<str>,
    state: SharedSession,
    watched: BTreeSet<JobName>,
    /// The jobs for whose disabled marks it gets hints.
    items: BTreeSet<JobName>,
    hints: HintQueue,
    /// Hints that came while the session was suspended.
    missed: Vec<Hint>,
    /// The session has ended in the tree, and its holder does not know yet.
    over: bool,
    /// Transactions that were handed over and are not applied yet, in order.
    queue: VecDeque<QueuedTxn>,
    handed_over: u64,
}

struct QueuedTxn {
    number: u64,
    txn: Txn,
    fault: CommitFault,
    /// Its delay is over.
    arrived: bool,
    reply: oneshot::Sender<Commit>,
}

/// A hint on its way to a session.
struct Delivery {
    session: Arc<str>,
    queue: HintQueue,
    hint: Hint,
}

impl MemoryStore {
    /// An empty store without faults.
    pub fn new(namespace: &Namespace) -> Self {
        Self::with_faults(namespace, Arc::new(NoFaults))
    }

    /// An empty store with these faults.
    pub fn with_faults(namespace: &Namespace, faults: Arc<dyn Faults>) -> Self {
        let paths = Paths::new(namespace);
        let mut tree = Tree::new(Revision(0));
        let roots: Vec<Op> =
            paths.roots().into_iter().map(|path| Op::Ensure { path, data: forms::empty() }).collect();
        // Nothing can refuse to create folders in an empty tree.
        let _ = tree.apply(&roots, SessionId(0));
        let inner = Inner {
            tree,
            sessions: BTreeMap::new(),
            opened: 0,
            observer: None,
            clock: None,
            told: BTreeMap::new(),
        };
        Self { shared: Arc::new(Shared { paths, faults, inner: Mutex::new(inner) }) }
    }

    /// Calls `observer` after every change from now on.
    pub fn observe(&self, observer: Observer) {
        self.shared.lock().observer = Some(observer);
    }

    /// Gives the store a clock of its own, like that of servers on other machines.
    pub fn set_clock(&self, clock: StoreClock) {
        self.shared.lock().clock = Some(clock);
    }

    /// The sessions that were opened and their states, in order of opening.
    pub fn sessions(&self) -> Vec<(String, SessionState)> {
        let inner = self.shared.lock();
        inner.sessions.values().map(|s| (s.name.to_string(), s.state.get())).collect()
    }

    /// The jobs that a session watches.
    pub fn watched(&self, session: &str) -> BTreeSet<JobName> {
        let inner = self.shared.lock();
        let session = inner.named(session).and_then(|id| inner.sessions.get(&id));
        session.map(|session| session.watched.clone()).unwrap_or_default()
    }

    /// Ends a session: its ephemeral nodes go, and its pending requests are answered `Fenced`. Returns whether there
    /// was such a session.
    pub fn expire(&self, session: &str) -> bool {
        let mut inner = self.shared.lock();
        let Some(id) = inner.named(session) else { return false };
        let mut deliveries = Vec::new();
        if let Some(applied) = inner.tree.end_session(id) {
            deliveries = inner.applied(&self.shared.paths, id, &applied, Cause::SessionEnd);
        }
        if let Some(session) = inner.sessions.get_mut(&id) {
            session.state.set(SessionState::Gone);
            for waiting in session.queue.drain(..) {
                let _ = waiting.reply.send(Commit::Fenced);
            }
            session.hints.push(Hint::Session(SessionState::Gone));
            session.hints.close();
        }
        drop(inner);
        self.deliver(deliveries);
        true
    }

    /// Ends a session in the tree alone: its ephemeral nodes go, and other sessions get hints. A holder that is cut off
    /// does not notice before [`Self::expire`]; one that is connected notices at once.
    pub fn end_unheard(&self, session: &str) -> bool {
        let mut inner = self.shared.lock();
        let Some(id) = inner.named(session) else { return false };
        if inner.sessions.get(&id).is_some_and(|session| session.state.get() == SessionState::Connected) {
            drop(inner);
            return self.expire(session);
        }
        let mut deliveries = Vec::new();
        if let Some(applied) = inner.tree.end_session(id) {
            deliveries = inner.applied(&self.shared.paths, id, &applied, Cause::SessionEnd);
        }
        if let Some(session) = inner.sessions.get_mut(&id) {
            session.over = true;
        }
        drop(inner);
        self.deliver(deliveries);
        true
    }

    /// A copy of what it holds.
    pub fn copied(&self) -> Copied {
        Copied(self.shared.lock().tree.persistent())
    }

    /// Ends all sessions and restores the content of the copy.
    pub fn put_back(&self, copied: Copied) {
        for (session, _) in self.sessions().iter().filter(|(_, state)| *state != SessionState::Gone) {
            self.expire(session);
        }
        self.shared.lock().tree = copied.0;
    }

    /// Cuts a session off: commits, reads and hints wait until it is resumed or ended.
    pub fn suspend(&self, session: &str) -> bool {
        self.move_to(session, SessionState::Connected, SessionState::Suspended)
    }

    /// Reconnects a suspended session: what waits is carried out in order. If the session is over, its holder learns
    /// that now.
    pub fn resume(&self, session: &str) -> bool {
        let is_over = |inner: &Inner| {
            inner.named(session).and_then(|id| inner.sessions.get(&id)).is_some_and(|session| session.over)
        };
        if is_over(&self.shared.lock()) {
            return self.expire(session);
        }
        let moved = self.move_to(session, SessionState::Suspended, SessionState::Connected);
        let id = self.shared.lock().named(session);
        if let (true, Some(id)) = (moved, id) {
            self.pump(id);
        }
        moved
    }

    /// Writes (or, without data, deletes) a node as a foreign tool would: `path` is relative to the job, as `dump`
    /// shows it. Returns whether that was possible.
    pub fn foreign(&self, job: &JobName, path: &str, data: Option<&[u8]>, ephemeral: bool) -> bool {
        let Some(path) = Path::stored(&format!("{}{path}", self.shared.paths.job(job))) else { return false };
        let mut inner = self.shared.lock();
        let op = match data {
            // The owner of the node does not change.
            Some(data) if inner.tree.get(&path).is_some() => {
                Op::Set { path, data: data.into(), expect: None }
            }
            Some(data) => Op::Put { path, data: data.into(), ephemeral },
            None => Op::Remove { path },
        };
        let Ok(applied) = inner.tree.apply(&[op], SessionId(0)) else { return false };
        let deliveries = inner.applied(&self.shared.paths, SessionId(0), &applied, Cause::Foreign);
        drop(inner);
        self.deliver(deliveries);
        true
    }

    /// Looks at the tree from outside every session. `look` must not call the store.
    pub fn view<T>(&self, look: impl FnOnce(View<'_>) -> T) -> T {
        look(View::new(&self.shared.lock().tree, &self.shared.paths, None))
    }

    fn move_to(&self, session: &str, from: SessionState, to: SessionState) -> bool {
        let mut inner = self.shared.lock();
        let Some(session) = inner.named(session).and_then(|id| inner.sessions.get_mut(&id)) else {
            return false;
        };
        if session.state.get() != from {
            return false;
        }
        session.hints.push(Hint::Session(to));
        if to == SessionState::Connected {
            for hint in session.missed.drain(..) {
                session.hints.push(hint);
            }
        }
        session.state.set(to);
        true
    }

    /// Takes a transaction over.
    fn hand_over(&self, id: SessionId, session: &str, txn: Txn) -> oneshot::Receiver<Commit> {
        let fault = self.shared.faults.on_commit(session, &txn);
        let delay = self.shared.faults.delay(session, StoreStep::Commit);
        let (reply, answer) = oneshot::channel();
        let mut inner = self.shared.lock();
        let Some(session) = inner.sessions.get_mut(&id) else { return answer };
        if session.state.get() == SessionState::Gone {
            let _ = reply.send(Commit::Fenced);
            return answer;
        }
        session.handed_over += 1;
        let number = session.handed_over;
        session.queue.push_back(QueuedTxn { number, txn, fault, arrived: delay.is_none(), reply });
        drop(inner);
        match delay {
            None => self.pump(id),
            Some(delay) => {
                let store = self.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    store.arrive(id, number);
                });
            }
        }
        answer
    }

    fn arrive(&self, id: SessionId, number: u64) {
        if let Some(session) = self.shared.lock().sessions.get_mut(&id)
            && let Some(waiting) = session.queue.iter_mut().find(|waiting| waiting.number == number)
        {
            waiting.arrived = true;
        }
        self.pump(id);
    }

    /// Applies what has arrived at the head of a session's queue.
    fn pump(&self, id: SessionId) {
        loop {
            let mut inner = self.shared.lock();
            let Some(waiting) = inner.sessions.get_mut(&id).and_then(Session::next) else { return };
            let (commit, deliveries) = inner.carry_out(&self.shared.paths, id, &waiting);
            drop(inner);
            self.deliver(deliveries);
            let _ = waiting.reply.send(commit);
        }
    }

    fn deliver(&self, deliveries: Vec<Delivery>) {
        for Delivery { session, queue, hint } in deliveries {
            match self.shared.faults.on_hint(&session, &hint) {
                HintFault::None => queue.push(hint),
                HintFault::Lose => {}
                HintFault::Delay(delay) => drop(tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    queue.push(hint);
                })),
            }
        }
    }
}

impl Shared {
    /// A panicking observer is a failed test, not a damaged tree: the change that it saw was complete.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    fn next(&mut self) -> Option<QueuedTxn> {
        let ready = self.state.get() == SessionState::Connected && self.queue.front()?.arrived;
        if ready { self.queue.pop_front() } else { None }
    }
}

impl Inner {
    fn named(&self, name: &str) -> Option<SessionId> {
        let live = |s: &Session| &*s.name == name && s.state.get() != SessionState::Gone;
        self.sessions.iter().find(|(_, session)| live(session)).map(|(id, _)| *id)
    }

    fn carry_out(&mut self, paths: &Paths, id: SessionId, waiting: &QueuedTxn) -> (Commit, Vec<Delivery>) {
        let (commit, deliveries) = match &waiting.fault {
            CommitFault::Refuse(text) => return (Commit::Unavailable(text.clone()), Vec::new()),
            CommitFault::LoseBefore => return (Commit::Unknown, Vec::new()),
            CommitFault::None | CommitFault::LoseAfter => self.apply(paths, id, &waiting.txn),
        };
        (if waiting.fault == CommitFault::LoseAfter { Commit::Unknown } else { commit }, deliveries)
    }

    fn apply(&mut self, paths: &Paths, id: SessionId, txn: &Txn) -> (Commit, Vec<Delivery>) {
        let lowered = match lower::lower(paths, txn) {
            Ok(lowered) => lowered,
            Err(text) => return (Commit::Conflict(text), Vec::new()),
        };
        match self.tree.apply(&lowered.ops, id) {
            Ok(applied) => {
                let deliveries = self.applied(paths, id, &applied, Cause::Txn(txn));
                if let Some(clock) = &self.clock {
                    let now = clock();
                    self.told.extend(txn.writes.iter().filter_map(|write| match write {
                        Write::Coordinator { id, .. } => Some((id.clone(), now)),
                        _ => None,
                    }));
                }
                (Commit::Committed(applied.revision), deliveries)
            }
            Err(refusal @ Refusal { .. }) => {
                (Commit::Conflict(conflict::explain(txn, &lowered, refusal)), Vec::new())
            }
        }
    }

    /// Shows a change to the observer and returns the hints to deliver.
    fn applied(&mut self, paths: &Paths, id: SessionId, change: &Applied, cause: Cause<'_>) -> Vec<Delivery> {
        if let Some(observer) = &mut self.observer {
            let session = self.sessions.get(&id).map_or("", |session| &session.name);
            let view = View::new(&self.tree, paths, Some(id));
            observer(&Seen { revision: change.revision, session, cause, view });
        }
        let mut deliveries = Vec::new();
        for hint in told(paths, &change.changes) {
            for session in self.sessions.values_mut() {
                if hint.job().is_some_and(|job| !session.watched.contains(job))
                    || matches!(&hint, Hint::Switches(job) if !session.items.contains(job))
                {
                    continue;
                }
                let state = session.state.get();
                match state {
                    SessionState::Gone => {}
                    SessionState::Suspended => session.missed.push(hint.clone()),
                    SessionState::Connected => deliveries.push(Delivery {
                        session: session.name.clone(),
                        queue: session.hints.clone(),
                        hint: hint.clone(),
                    }),
                }
            }
        }
        deliveries
    }
}
