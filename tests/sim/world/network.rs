//! The network: in-memory streams between workers and coordinators that delay, fall silent one way, and break.
//!
//! Frames are as on a real wire: the client's frames as bytes, decoded by the server's types and through the edge's own
//! conversion, and back. Acknowledgements are shown to a listener, which compares them with the store.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use prost::Message as _;
use rosterd_client::embedding::proto::{SessionRequest, SessionResponse};
use rosterd_client::embedding::{Connector, LinkError, Wire};
use rosterd_coordinator::handle::{Handle, Inbox, Outbox, Peer};
use rosterd_session::frame::{FromWorker, ToWorker};
use rosterd_wire::{convert, status};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::faults::partition::{Partition, Partitions};
use crate::oracle::coverage::Coverage;
use crate::rng::Rng;
use crate::world::process::ProcessControl;

/// Sees every frame on its way from a coordinator to a worker, when it leaves.
pub type Listener = Box<dyn FnMut(&str, &str, &ToWorker) + Send>;

/// Sees every frame of a worker when it arrives at a coordinator.
pub type Overhearer = Box<dyn FnMut(&str, &FromWorker) + Send>;

/// The network.
#[derive(Clone)]
pub struct Network(Arc<Mutex<Inner>>);

struct Inner {
    rng: Rng,
    hosts: BTreeMap<String, Handle>,
    /// Hosts that answer nothing at all: a connection to them hangs.
    black_holes: BTreeMap<String, bool>,
    connections: BTreeMap<u64, Connection>,
    last: u64,
    listener: Option<Listener>,
    overhearer: Option<Overhearer>,
    /// Longest delay of a frame, in milliseconds.
    slow: u64,
    partitions: Partitions,
    /// Processes that die after this many more frames, and whether the last one arrives.
    doomed: BTreeMap<String, (u64, bool, ProcessControl)>,
    /// Processes whose frames are repeated.
    repeated: BTreeSet<String>,
    /// Frames in flight on a stream that its worker has left still arrive.
    lingers: bool,
    /// The latest stream of a worker from which anything has arrived.
    latest: BTreeMap<String, u64>,
    coverage: Coverage,
}

struct Connection {
    worker: String,
    host: String,
    /// Its own state; partitions come on top.
    own: ConnectionState,
    /// The directions that are still open.
    open: u8,
    /// One channel per direction: if two wait on one channel, either may wake first.
    states: [watch::Sender<ConnectionState>; 2],
}

/// What a connection does with frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectionState {
    pub silent_up: bool,
    pub silent_down: bool,
    cut: bool,
}

/// The direction in which a connection falls silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    Up,
    Down,
    Both,
}

impl Inner {
    /// Changes the own state of some connections. Returns whether any changed.
    fn change(&mut self, which: impl Fn(&Connection) -> bool, change: impl Fn(&mut ConnectionState)) -> bool {
        let mut changed = false;
        for connection in self.connections.values_mut().filter(|connection| which(connection)) {
            let before = connection.own;
            change(&mut connection.own);
            changed |= connection.own != before;
        }
        self.apply();
        changed
    }

    /// The state of a connection combines its own state and the partitions.
    fn apply(&mut self) {
        for connection in self.connections.values() {
            let mut state = connection.own;
            self.partitions.silence(&connection.worker, &connection.host, &mut state);
            for told in &connection.states {
                told.send_if_modified(|before| std::mem::replace(before, state) != state);
            }
        }
    }
}

impl Network {
    pub fn new(rng: Rng, coverage: Coverage) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            rng,
            hosts: BTreeMap::new(),
            black_holes: BTreeMap::new(),
            connections: BTreeMap::new(),
            last: 0,
            listener: None,
            overhearer: None,
            slow: 3,
            partitions: Partitions::default(),
            doomed: BTreeMap::new(),
            repeated: BTreeSet::new(),
            lingers: false,
            latest: BTreeMap::new(),
            coverage,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn listen(&self, listener: Listener) {
        self.lock().listener = Some(listener);
    }

    pub fn overhear(&self, overhearer: Overhearer) {
        self.lock().overhearer = Some(overhearer);
    }

    /// Sets the longest delay of a frame. Returns whether it changed.
    pub fn slow(&self, millis: u64) -> bool {
        let millis = millis.max(1);
        std::mem::replace(&mut self.lock().slow, millis) != millis
    }

    pub fn up(&self, url: &str, handle: Handle) {
        let mut inner = self.lock();
        inner.black_holes.remove(url);
        inner.hosts.insert(url.to_owned(), handle);
    }

    /// The host is gone; `vanished`: silently, so that its connections hang.
    pub fn down(&self, url: &str, vanished: bool) {
        let mut inner = self.lock();
        inner.hosts.remove(url);
        if vanished {
            inner.black_holes.insert(url.to_owned(), true);
            inner.change(
                |connection| connection.host == url,
                |own| (own.silent_up, own.silent_down) = (true, true),
            );
        }
    }

    /// A worker's machine is silently gone.
    pub fn vanish(&self, worker: &str) {
        self.silence_of(worker, Direction::Both, true);
    }

    /// Sets whether frames in flight on a stream that its worker has left still arrive.
    pub fn linger(&self, lingers: bool) {
        self.lock().lingers = lingers;
    }

    /// One direction of a stream has ended.
    fn ended(&self, stream: u64, down: bool) {
        let mut inner = self.lock();
        let lingers = inner.lingers;
        let Some(connection) = inner.connections.get_mut(&stream) else { return };
        connection.open -= 1;
        if connection.open == 0 || (down && !lingers) {
            inner.connections.remove(&stream);
        }
    }

    /// Breaks every stream of `worker`. Returns whether it had any.
    pub fn cut(&self, worker: &str) -> bool {
        self.lock().change(|connection| connection.worker == worker, |own| own.cut = true)
    }

    /// The streams of `worker` fall silent, or resume. Returns whether any changed.
    pub fn silence_of(&self, worker: &str, direction: Direction, silent: bool) -> bool {
        self.lock().change(
            |connection| connection.worker == worker,
            |own| {
                own.silent_up = if direction == Direction::Down { own.silent_up } else { silent };
                own.silent_down = if direction == Direction::Up { own.silent_down } else { silent };
            },
        )
    }

    /// Starts a partition. Returns the number that heals it.
    pub fn part(&self, partition: Partition) -> u64 {
        let mut inner = self.lock();
        let number = inner.partitions.begin(partition);
        inner.apply();
        number
    }

    /// Heals a partition.
    pub fn join(&self, number: u64) {
        let mut inner = self.lock();
        inner.partitions.end(number);
        inner.apply();
    }

    /// The process dies right after its frame number `after` from now, which arrives or not.
    pub fn doom(&self, worker: &str, after: u64, arrives: bool, control: ProcessControl) {
        self.lock().doomed.insert(worker.to_owned(), (after, arrives, control));
    }

    /// Sets whether repeatable frames of this process are repeated.
    pub fn repeat(&self, worker: &str, repeated: bool) {
        let mut inner = self.lock();
        if repeated {
            inner.repeated.insert(worker.to_owned());
        } else {
            inner.repeated.remove(worker);
        }
    }

    /// Every stream resumes; hosts that are up are reachable, and frames are fast and arrive once.
    pub fn heal(&self) {
        let mut inner = self.lock();
        inner.slow = 3;
        inner.black_holes.clear();
        inner.partitions = Partitions::default();
        inner.doomed.clear();
        inner.repeated.clear();
        let hosts: BTreeSet<String> = inner.hosts.keys().cloned().collect();
        let lost = |connection: &Connection| !hosts.contains(&connection.host);
        inner.change(lost, |own| own.cut = true);
        inner.change(|_| true, |own| *own = ConnectionState { cut: own.cut, ..ConnectionState::default() });
    }

    /// What happens to a frame that a worker's process sends: it is its last one; it arrives; it arrives once more
    /// later.
    fn fate(&self, worker: &str) -> (bool, bool, bool) {
        let mut inner = self.lock();
        if let Some((after, arrives, _)) = inner.doomed.get_mut(worker) {
            if let Some(left) = after.checked_sub(1) {
                *after = left;
                return (false, true, false);
            }
            let arrives = *arrives;
            if let Some((_, _, control)) = inner.doomed.remove(worker) {
                control.kill();
            }
            return (true, arrives, false);
        }
        let repeated = inner.repeated.contains(worker) && inner.rng.permille(400);
        (false, true, repeated)
    }

    /// Whether a frame on its way to a worker arrives once more later.
    fn again(&self, worker: &str) -> bool {
        let mut inner = self.lock();
        inner.repeated.contains(worker) && inner.rng.permille(400)
    }

    /// A frame of a stream has arrived, perhaps after the Hello of a later stream.
    fn arrived(&self, worker: &str, stream: u64) {
        let mut inner = self.lock();
        let latest = inner.latest.entry(worker.to_owned()).or_default();
        if stream < *latest {
            inner.coverage.count("fault: frame of a left stream after the next Hello");
        } else {
            *latest = stream;
        }
    }

    fn count(&self, what: &'static str) {
        self.lock().coverage.count(what);
    }

    /// How many streams of each process are open in both directions.
    pub fn streams(&self) -> BTreeMap<String, usize> {
        let mut streams = BTreeMap::new();
        for connection in self.lock().connections.values().filter(|connection| connection.open == 2) {
            *streams.entry(connection.worker.clone()).or_default() += 1;
        }
        streams
    }

    /// The hosts that are up.
    pub fn hosts(&self) -> Vec<(String, Handle)> {
        self.lock().hosts.iter().map(|(url, handle)| (url.clone(), handle.clone())).collect()
    }

    fn delay(&self) -> Duration {
        let mut inner = self.lock();
        let slow = inner.slow;
        inner.rng.millis(1, slow)
    }

    fn heard(&self, worker: &str, host: &str, frame: &ToWorker) {
        let listener = self.lock().listener.take();
        if let Some(mut listener) = listener {
            listener(worker, host, frame);
            self.lock().listener = Some(listener);
        }
    }
}

impl Network {
    fn said(&self, worker: &str, frame: &FromWorker) {
        let overhearer = self.lock().overhearer.take();
        if let Some(mut overhearer) = overhearer {
            overhearer(worker, frame);
            self.lock().overhearer = Some(overhearer);
        }
    }
}

/// One worker's connector to the network.
pub struct SimConnector {
    pub net: Network,
    pub worker: String,
}

impl Connector for SimConnector {
    fn connect(&self, address: &str) -> impl Future<Output = Result<Wire, LinkError>> + Send + 'static {
        let (net, worker, url) = (self.net.clone(), self.worker.clone(), address.to_owned());
        async move {
            tokio::time::sleep(net.delay()).await;
            let walled = net.lock().partitions.between(&worker, &url);
            if walled || net.lock().black_holes.contains_key(&url) {
                return std::future::pending().await;
            }
            let handle = net.lock().hosts.get(&url).cloned();
            let Some(handle) = handle else { return Err(LinkError::lost(format!("{url} is not up"))) };
            let peer = Peer { address: worker.clone(), ..Peer::default() };
            let stream = handle.open(peer).map_err(|refusal| LinkError::from(status::status(&refusal)))?;
            let (requests, from_client) = mpsc::channel(256);
            let (to_client, responses) = mpsc::unbounded_channel();
            let (up_state, up_seen) = watch::channel(ConnectionState::default());
            let (down_state, down_seen) = watch::channel(ConnectionState::default());
            let id = {
                let mut inner = net.lock();
                inner.last += 1;
                let id = inner.last;
                let own = ConnectionState::default();
                let (worker, host, states) = (worker.clone(), url.clone(), [up_state, down_state]);
                inner.connections.insert(id, Connection { worker, host, own, open: 2, states });
                id
            };
            let (answers, answered) = mpsc::unbounded_channel();
            let up = Up { net: net.clone(), id, worker: worker.clone(), inbox: stream.inbox, answers };
            tokio::spawn(async move {
                let net = up.net.clone();
                up.carry(from_client, up_seen).await;
                net.ended(id, false);
            });
            let down = Down { net, id, worker, host: url, to_client };
            tokio::spawn(down.carry(stream.outbox, answered, down_seen));
            let responses = futures_util::stream::unfold(responses, |mut responses| async move {
                responses.recv().await.map(|frame| (frame, responses))
            });
            Ok(Wire { requests, responses: responses.boxed() })
        }
    }
}

/// Frames in flight in one direction; `None` is the end.
struct Flight<T> {
    queue: VecDeque<(Instant, Option<T>)>,
    last: Instant,
}

impl<T> Flight<T> {
    fn new() -> Self {
        Self { queue: VecDeque::new(), last: Instant::now() }
    }

    fn put(&mut self, net: &Network, frame: Option<T>) {
        self.last = self.last.max(Instant::now() + net.delay());
        self.queue.push_back((self.last, frame));
    }

    /// Waits for the next frame; never returns while the direction is silent.
    async fn next(&mut self, silent: bool) -> Option<T> {
        match self.queue.front() {
            Some((at, _)) if !silent => tokio::time::sleep_until(*at).await,
            _ => std::future::pending().await,
        }
        self.queue.pop_front().and_then(|(_, frame)| frame)
    }
}

struct Up {
    net: Network,
    id: u64,
    worker: String,
    inbox: Inbox,
    answers: mpsc::UnboundedSender<Result<SessionResponse, LinkError>>,
}

impl Up {
    async fn carry(
        self,
        mut from: mpsc::Receiver<SessionRequest>,
        mut state: watch::Receiver<ConnectionState>,
    ) {
        let (mut flight, mut open, mut last) = (Flight::new(), true, None);
        loop {
            let now = *state.borrow_and_update();
            if now.cut {
                return;
            }
            tokio::select! {
                biased;
                changed = state.changed() => if changed.is_err() { return },
                frame = from.recv(), if open => open = self.take(frame, &mut flight, &mut last),
                frame = flight.next(now.silent_up) => match frame {
                    Some(bytes) => if !self.deliver(&bytes).await { return },
                    None => return,
                },
            }
        }
    }

    /// Takes what the process sends, if anything. Returns whether there may be more. A stream is ordered, so a
    /// repetition is an earlier frame after a later one.
    fn take(
        &self,
        frame: Option<SessionRequest>,
        flight: &mut Flight<Vec<u8>>,
        last: &mut Option<Vec<u8>>,
    ) -> bool {
        let Some(frame) = frame else {
            flight.put(&self.net, None);
            return false;
        };
        let bytes = frame.encode_to_vec();
        let (dies, arrives, again) = self.net.fate(&self.worker);
        let earlier = if repeatable(&frame) { last.replace(bytes.clone()) } else { last.clone() };
        if arrives {
            flight.put(&self.net, Some(bytes));
        }
        if let (true, Some(earlier)) = (again, earlier) {
            self.net.count("fault: frame to a coordinator repeated");
            flight.put(&self.net, Some(earlier));
        }
        if dies {
            flight.put(&self.net, None);
        }
        !dies
    }

    async fn deliver(&self, bytes: &[u8]) -> bool {
        let Ok(frame) = rosterd_wire::proto::v1::SessionRequest::decode(bytes) else { return false };
        self.net.arrived(&self.worker, self.id);
        match convert::from_worker(frame) {
            Ok(None) => true,
            Ok(Some(frame)) => {
                self.net.said(&self.worker, &frame);
                let room = self.inbox.room(bytes.len()).await;
                match self.inbox.put(frame, room) {
                    Ok(()) => true,
                    Err(refusal) => {
                        let _gone = self.answers.send(Err(status::status(&refusal).into()));
                        false
                    }
                }
            }
            Err(defect) => match defect.answer {
                Some(answer) => self.answers.send(Ok(client_frame(&answer))).is_ok(),
                None => {
                    let _gone = self.answers.send(Err(status::malformed(&defect.malformed).into()));
                    false
                }
            },
        }
    }
}

/// Whether a worker may send this frame twice.
fn repeatable(frame: &SessionRequest) -> bool {
    use rosterd_client::embedding::proto::session_request::Frame;
    matches!(frame.frame, Some(Frame::RunCompleted(_) | Frame::Heartbeat(_) | Frame::RunStarted(_)))
}

struct Down {
    net: Network,
    id: u64,
    worker: String,
    host: String,
    to_client: mpsc::UnboundedSender<Result<SessionResponse, LinkError>>,
}

impl Down {
    async fn carry(
        self,
        mut outbox: Outbox,
        mut answers: mpsc::UnboundedReceiver<Result<SessionResponse, LinkError>>,
        mut state: watch::Receiver<ConnectionState>,
    ) {
        let (mut flight, mut open, mut earlier) = (Flight::new(), true, None);
        loop {
            let now = *state.borrow_and_update();
            if now.cut {
                let _gone = self.to_client.send(Err(LinkError::lost("the connection broke")));
                break;
            }
            tokio::select! {
                biased;
                changed = state.changed() => if changed.is_err() { break },
                () = self.to_client.closed() => break,
                Some(answer) = answers.recv() => flight.put(&self.net, Some(answer)),
                frame = outbox.recv(), if open => match frame {
                    None => {
                        open = false;
                        flight.put(&self.net, None);
                    }
                    Some(frame) => {
                        self.net.heard(&self.worker, &self.host, &frame);
                        let repeatable = matches!(
                            frame,
                            ToWorker::Trigger(_) | ToWorker::Cancel { .. } | ToWorker::ReportAck { .. } | ToWorker::HeartbeatAck { .. }
                        );
                        match convert::to_worker(frame) {
                            Ok(frame) => {
                                let frame = client_frame(&frame);
                                flight.put(&self.net, Some(Ok(frame.clone())));
                                let earlier = if repeatable { earlier.replace(frame) } else { earlier.clone() };
                                if let (true, Some(earlier)) = (self.net.again(&self.worker), earlier) {
                                    self.net.count("fault: frame to a worker repeated");
                                    flight.put(&self.net, Some(Ok(earlier)));
                                }
                            }
                            Err(None) => { open = false; flight.put(&self.net, None); }
                            Err(Some(refusal)) => {
                                open = false;
                                flight.put(&self.net, Some(Err(status::status(&refusal).into())));
                                flight.put(&self.net, None);
                            }
                        }
                    }
                },
                frame = flight.next(now.silent_down) => match frame {
                    Some(frame) => if self.to_client.send(frame).is_err() { break },
                    None => break,
                },
            }
        }
        self.net.ended(self.id, true);
    }
}

fn client_frame(frame: &rosterd_wire::proto::v1::SessionResponse) -> SessionResponse {
    SessionResponse::decode(frame.encode_to_vec().as_slice()).unwrap_or_default()
}
