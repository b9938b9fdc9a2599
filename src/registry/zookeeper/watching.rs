//! Watches, and the hints that they give.
//!
//! A job is watched by a handful of persistent watches. One connection must not carry many: a client with more than 128
//! KiB of watched paths can never reconnect, so when one is full, another session is opened, which owns nothing. The
//! client library does not set persistent watches again after a reconnect: we do, the new one before the old one is
//! dropped, since dropping removes the path's watch. Events in between are lost, so everything watched gets a hint
//! then.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::{join_all, try_join_all};
use futures_util::stream::{self, StreamExt};
use rosterd_domain::id::JobName;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use zookeeper_client::{
    AddWatchMode, Client, Error, EventType, PersistentWatcher, SessionState as ClientState, StateWatcher,
    WatchedEvent,
};

use super::connect::Opener;
use super::core::Core;
use crate::paths::{NodeRole, Path};
use crate::{Hint, SessionState};
use rosterd_runtime::mutants;

/// Bytes of watched paths on one connection.
const LANE_BYTES: usize = 48 << 10;

/// What is watched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Namespace,
    Job(JobName),
    /// The disabled marks of this many items of a job.
    Items(JobName, u32),
}

/// A request of the registry.
#[derive(Debug)]
pub(super) enum WatchCommand {
    Watch(JobName, u64),
    WatchItems(JobName, u32, u64),
    Unwatch(JobName),
}

#[derive(Debug)]
enum Order {
    Arm(Key, u64),
    Disarm(Key),
}

/// Spreads what is watched over connections.
pub(super) struct Watching {
    core: Arc<Core>,
    opener: Opener,
    lanes: Vec<(mpsc::UnboundedSender<Order>, usize)>,
    /// The connection of each watched key, and the bytes that it takes.
    watched: BTreeMap<Key, (usize, usize)>,
    /// The number of items whose marks are watched, by job.
    items: BTreeMap<JobName, u32>,
}

impl Watching {
    /// Watches the namespace on the session's own connection; `number` is marked as done in the barrier once that is
    /// set.
    pub(super) fn start(core: Arc<Core>, opener: Opener, client: Client, number: u64) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        let lane = Lane::new(core.clone(), client, None);
        core.run_part("zookeeper lane", lane.run(inbox));
        let _ = orders.send(Order::Arm(Key::Namespace, number));
        let bytes = core.paths.roots().iter().map(|root| root.as_str().len()).sum();
        Self { core, opener, lanes: vec![(orders, bytes)], watched: BTreeMap::new(), items: BTreeMap::new() }
    }

    pub(super) async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<WatchCommand>) {
        let stopped = self.core.stopped.clone();
        loop {
            let command = tokio::select! {
                command = inbox.recv() => command,
                () = stopped.cancelled() => None,
            };
            mutants::panic_if_injected("panic-zookeeper-watches");
            match command {
                Some(WatchCommand::Watch(job, number)) => self.watch(Key::Job(job), number),
                Some(WatchCommand::WatchItems(job, items, number)) => self.watch_items(job, items, number),
                Some(WatchCommand::Unwatch(job)) => {
                    self.unwatch_items(&job);
                    self.unwatch(Key::Job(job));
                }
                None => return,
            }
        }
    }

    fn watch_items(&mut self, job: JobName, items: u32, number: u64) {
        if self.items.get(&job).copied().unwrap_or(0) == items {
            return self.core.gate.done(number);
        }
        self.unwatch_items(&job);
        if items == 0 {
            return self.core.gate.done(number);
        }
        self.items.insert(job.clone(), items);
        self.watch(Key::Items(job, items), number);
    }

    fn unwatch_items(&mut self, job: &JobName) {
        if let Some(items) = self.items.remove(job) {
            self.unwatch(Key::Items(job.clone(), items));
        }
    }

    fn watch(&mut self, key: Key, number: u64) {
        if self.watched.contains_key(&key) {
            return self.core.gate.done(number);
        }
        let paths = watched(&self.core, &key);
        let bytes = self.core.terms.chroot_bytes * paths.len()
            + paths.iter().map(|(path, _)| path.as_str().len()).sum::<usize>();
        let lane = match self.lanes.iter().position(|(_, used)| used + bytes <= LANE_BYTES) {
            Some(lane) => lane,
            None => self.open_lane(),
        };
        let (orders, used) = &mut self.lanes[lane];
        *used += bytes;
        self.watched.insert(key.clone(), (lane, bytes));
        if orders.send(Order::Arm(key, number)).is_err() {
            self.core.gate.done(number);
        }
    }

    fn unwatch(&mut self, key: Key) {
        let Some((lane, bytes)) = self.watched.remove(&key) else { return };
        let (orders, used) = &mut self.lanes[lane];
        *used -= bytes;
        let _ = orders.send(Order::Disarm(key));
    }

    fn open_lane(&mut self) -> usize {
        let (orders, inbox) = mpsc::unbounded_channel();
        let (core, opener) = (self.core.clone(), self.opener.clone());
        tracing::debug!("a session more for watches");
        self.core.run_part("zookeeper lane", async move {
            if let Some(client) = reopen(&core, &opener).await {
                Lane::new(core, client, Some(opener)).run(inbox).await;
            }
        });
        self.lanes.push((orders, 0));
        self.lanes.len() - 1
    }
}

/// Opens a session for watches; `None`: it is no longer needed.
async fn reopen(core: &Core, opener: &Opener) -> Option<Client> {
    for n in 1.. {
        let opened = tokio::select! {
            opened = opener.open() => opened,
            () = core.stopped.cancelled() => return None,
        };
        match opened {
            Ok(client) => return Some(client),
            Err(error) => tracing::info!("no session for watches yet: {error}"),
        }
        tokio::select! {
            () = tokio::time::sleep(core.terms.backoff.pause(n)) => {}
            () = core.stopped.cancelled() => return None,
        }
    }
    None
}

/// The watches of one connection.
struct Lane {
    core: Arc<Core>,
    client: Client,
    /// `None`: it is the session's own connection, and the session ends with it.
    opener: Option<Opener>,
    /// Observed from the moment of connecting, so that no change is missed.
    states: StateWatcher,
    armed: BTreeMap<Key, Armed>,
}

/// The watches of one key.
#[derive(Debug, Default)]
struct Armed {
    listener: Option<Listener>,
    /// Whether they are set in the current connection.
    stand: bool,
    /// An event may have been missed: give hints as soon as they are set.
    missed: bool,
}

/// The task that listens. It ends when this is dropped, for whatever reason.
#[derive(Debug)]
struct Listener(AbortHandle);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Lane {
    fn new(core: Arc<Core>, client: Client, opener: Option<Opener>) -> Self {
        let states = client.state_watcher();
        Self { core, client, opener, states, armed: BTreeMap::new() }
    }

    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Order>) {
        let stopped = self.core.stopped.clone();
        let mut again = tokio::time::interval(self.core.terms.limit / 2);
        let mut orders = Vec::new();
        loop {
            tokio::select! {
                taken = inbox.recv_many(&mut orders, 1_000) => {
                    if taken == 0 {
                        break;
                    }
                    self.obey(std::mem::take(&mut orders)).await;
                }
                state = self.states.changed() => {
                    if !self.follow(state).await {
                        break;
                    }
                }
                _ = again.tick() => {
                    mutants::panic_if_injected("panic-zookeeper-lane");
                    self.arm_what_is_not().await;
                }
                () = stopped.cancelled() => break,
            }
        }
    }

    async fn obey(&mut self, orders: Vec<Order>) {
        let mut numbers = Vec::new();
        for order in orders {
            match order {
                Order::Arm(key, number) => {
                    self.armed.entry(key).or_default();
                    numbers.push(number);
                }
                Order::Disarm(key) => {
                    self.armed.remove(&key);
                }
            }
        }
        self.arm_what_is_not().await;
        // Even on failure: the reads that follow will report it, and the reconnect gives hints about everything.
        numbers.into_iter().for_each(|number| self.core.gate.done(number));
    }

    /// Handles a state of the connection; returns whether to continue.
    async fn follow(&mut self, state: ClientState) -> bool {
        let own = self.opener.is_none();
        match state {
            ClientState::Disconnected if own => self.core.life.enter(SessionState::Suspended),
            ClientState::Disconnected => {}
            ClientState::SyncConnected => {
                if own {
                    // The loss itself may have been too short to be observed.
                    self.core.life.enter(SessionState::Suspended);
                    if !self.core.recognise(&self.client).await {
                        return true;
                    }
                    self.core.life.enter(SessionState::Connected);
                }
                self.arm_again().await;
            }
            _ => match self.opener.clone() {
                None => {
                    self.core.end();
                    return false;
                }
                Some(opener) => {
                    let Some(client) = reopen(&self.core, &opener).await else { return false };
                    self.states = client.state_watcher();
                    self.client = client;
                    self.arm_again().await;
                }
            },
        }
        true
    }

    /// After a reconnect no watch is set, and any event may have been missed.
    async fn arm_again(&mut self) {
        for armed in self.armed.values_mut() {
            (armed.stand, armed.missed) = (false, true);
        }
        self.arm_what_is_not().await;
    }

    /// Sets all watches that are not set, in parallel. Failures are retried with the next tick.
    async fn arm_what_is_not(&mut self) {
        let keys = self.armed.iter().filter(|(_, armed)| !armed.stand).map(|(key, _)| key.clone());
        let client = &self.client;
        let armings = keys.map(|key| {
            let paths = watched(&self.core, &key);
            async move {
                let sent: Vec<_> =
                    paths.iter().map(|(path, mode)| client.watch(path.as_str(), *mode)).collect();
                (key, try_join_all(sent).await)
            }
        });
        let armings: Vec<_> = armings.collect();
        if armings.is_empty() {
            return;
        }
        let done = tokio::select! {
            done = tokio::time::timeout(self.core.terms.limit, join_all(armings)) => done.unwrap_or_default(),
            // A request without a connection waits for one, and meanwhile nobody would learn that it was lost.
            () = lost(client.state_watcher()) => Vec::new(),
        };
        for (key, watchers) in done {
            match watchers {
                Ok(watchers) => self.stands(key, watchers),
                Err(Error::ConnectionLoss) => {}
                Err(error) => tracing::warn!("a watch cannot be set, once more: {error}"),
            }
        }
        // Those that failed may have been set before: give their hints once they are set.
        self.armed.values_mut().filter(|armed| !armed.stand).for_each(|armed| armed.missed = true);
    }

    /// Listens to the new watches, and only then drops those that they replace.
    fn stands(&mut self, key: Key, watchers: Vec<PersistentWatcher>) {
        let next = self.listen(watchers);
        let Some(armed) = self.armed.get_mut(&key) else { return };
        armed.stand = true;
        armed.listener = Some(next);
        if !std::mem::take(&mut armed.missed) {
            return;
        }
        match key {
            // Nobody saw which nodes changed meanwhile, so it may have been any.
            Key::Job(job) => {
                [Hint::Job(job.clone()), Hint::Guarantee(job)]
                    .into_iter()
                    .for_each(|hint| self.core.tell(hint));
            }
            Key::Items(job, _) => self.core.tell(Hint::Switches(job)),
            Key::Namespace => {
                [Hint::Jobs, Hint::Coordinators].into_iter().for_each(|hint| self.core.tell(hint))
            }
        }
    }

    fn listen(&self, watchers: Vec<PersistentWatcher>) -> Listener {
        let core = self.core.clone();
        let each = watchers.into_iter().map(|watcher| Box::pin(stream::unfold(watcher, next_event)));
        let mut events = stream::select_all(each);
        Listener(self.core.run_part("zookeeper listener", async move {
            while let Some(event) = events.next().await {
                mutants::panic_if_injected("panic-zookeeper-listener");
                if let Some(hint) = hint(&core, &event) {
                    core.tell(hint);
                }
            }
        }))
    }
}

fn watched(core: &Core, key: &Key) -> Vec<(Path, AddWatchMode)> {
    let paths = &core.paths;
    let mode = |below| if below { AddWatchMode::PersistentRecursive } else { AddWatchMode::Persistent };
    let with_mode = |(path, below)| (path, mode(below));
    match key {
        Key::Namespace => vec![(paths.jobs(), mode(false)), (paths.coordinators(), mode(false))],
        Key::Job(job) => paths.watched(job).into_iter().map(with_mode).collect(),
        Key::Items(job, items) => paths.watched_items(job, *items).into_iter().map(with_mode).collect(),
    }
}

/// Returns once the connection is lost.
async fn lost(mut states: StateWatcher) {
    while states.peek_state() == ClientState::SyncConnected {
        states.changed().await;
    }
}

/// The library panics if it is polled again after the last event.
async fn next_event(mut watcher: PersistentWatcher) -> Option<(WatchedEvent, PersistentWatcher)> {
    let event = watcher.changed().await;
    let last = event.event_type == EventType::Session && event.session_state.is_terminated();
    (!last).then_some((event, watcher))
}

fn hint(core: &Core, event: &WatchedEvent) -> Option<Hint> {
    let path = Path::stored(&event.path)?;
    if path == core.paths.jobs() {
        return (event.event_type != EventType::NodeDataChanged).then_some(Hint::Jobs);
    }
    if path == core.paths.coordinators() {
        // A hint for every coordinator that appears or disappears, but not for a change of its node's data.
        return (event.event_type != EventType::NodeDataChanged).then_some(Hint::Coordinators);
    }
    if !matches!(
        event.event_type,
        EventType::NodeCreated | EventType::NodeDeleted | EventType::NodeDataChanged
    ) {
        return None;
    }
    match core.paths.place(&path) {
        NodeRole::Decision(job) => JobName::new(job).ok().map(Hint::Job),
        NodeRole::Switch(job) => JobName::new(job).ok().map(Hint::Switches),
        NodeRole::Guarantee(job) => JobName::new(job).ok().map(Hint::Guarantee),
        NodeRole::Coordinator | NodeRole::Job | NodeRole::Quiet => None,
    }
}
