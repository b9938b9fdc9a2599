//! The network: in-memory streams between workers and coordinators that delay, fall silent one way, and break.
//!
//! What passes is what would pass on a real wire: the client's frames as bytes, decoded by the server's types and
//! through the edge's own conversion, and back. Acknowledgements that pass are shown to a listener, which holds
//! them against the store.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use prost::Message as _;
use rosterd::api::grpc::{convert, status};
use rosterd::coordinator::handle::{Handle, Inbox, Peer};
use rosterd::session::frame::{FromWorker, ToWorker};
use rosterd_client::proto::{SessionRequest, SessionResponse};
use rosterd_client::{Connector, LinkError, Wire};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::rng::Rng;

/// Sees every frame on its way from a coordinator to a worker, when it leaves.
pub type Listener = Box<dyn FnMut(&str, &str, &ToWorker) + Send>;

/// Sees every frame of a worker when it arrives at a coordinator.
pub type Overhearer = Box<dyn FnMut(&str, &FromWorker) + Send>;

/// The network.
#[derive(Clone)]
pub struct Net(Arc<Mutex<Inner>>);

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
}

struct Connection {
    worker: String,
    host: String,
    state: watch::Sender<State>,
}

/// What a connection does with frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct State {
    silent_up: bool,
    silent_down: bool,
    cut: bool,
}

/// Which way a connection falls silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Up,
    Down,
    Both,
}

impl Net {
    pub fn new(rng: Rng) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            rng,
            hosts: BTreeMap::new(),
            black_holes: BTreeMap::new(),
            connections: BTreeMap::new(),
            last: 0,
            listener: None,
            overhearer: None,
            slow: 3,
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

    /// The longest delay of a frame.
    pub fn slow(&self, millis: u64) {
        self.lock().slow = millis.max(1);
    }

    pub fn up(&self, url: &str, handle: Handle) {
        let mut inner = self.lock();
        inner.black_holes.remove(url);
        inner.hosts.insert(url.to_owned(), handle);
    }

    /// The host has gone; `vanished`: without a word, so that its connections hang.
    pub fn down(&self, url: &str, vanished: bool) {
        let mut inner = self.lock();
        inner.hosts.remove(url);
        if vanished {
            inner.black_holes.insert(url.to_owned(), true);
            for connection in inner.connections.values().filter(|connection| connection.host == url) {
                connection.state.send_modify(|state| (state.silent_up, state.silent_down) = (true, true));
            }
        }
    }

    /// A worker's machine has gone without a word.
    pub fn vanish(&self, worker: &str) {
        self.silence_of(worker, Way::Both, true);
    }

    /// Breaks every stream of `worker`.
    pub fn cut(&self, worker: &str) {
        let inner = self.lock();
        for connection in inner.connections.values().filter(|connection| connection.worker == worker) {
            connection.state.send_modify(|state| state.cut = true);
        }
    }

    /// The streams of `worker` fall silent, or talk again.
    pub fn silence_of(&self, worker: &str, way: Way, silent: bool) {
        let inner = self.lock();
        for connection in inner.connections.values().filter(|connection| connection.worker == worker) {
            connection.state.send_modify(|state| {
                if way != Way::Down {
                    state.silent_up = silent;
                }
                if way != Way::Up {
                    state.silent_down = silent;
                }
            });
        }
    }

    /// Every stream talks again; hosts that are up are reachable.
    pub fn heal(&self) {
        let mut inner = self.lock();
        inner.black_holes.clear();
        for connection in inner.connections.values() {
            let cut = !inner.hosts.contains_key(&connection.host);
            connection
                .state
                .send_modify(|state| *state = State { cut: state.cut || cut, ..State::default() });
        }
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

impl Net {
    fn said(&self, worker: &str, frame: &FromWorker) {
        let overhearer = self.lock().overhearer.take();
        if let Some(mut overhearer) = overhearer {
            overhearer(worker, frame);
            self.lock().overhearer = Some(overhearer);
        }
    }
}

/// One worker's way into the network.
pub struct SimConnector {
    pub net: Net,
    pub worker: String,
}

impl Connector for SimConnector {
    fn connect(&self, address: &str) -> impl Future<Output = Result<Wire, LinkError>> + Send + 'static {
        let (net, worker, url) = (self.net.clone(), self.worker.clone(), address.to_owned());
        async move {
            tokio::time::sleep(net.delay()).await;
            if net.lock().black_holes.contains_key(&url) {
                return std::future::pending().await;
            }
            let handle = net.lock().hosts.get(&url).cloned();
            let Some(handle) = handle else { return Err(LinkError::lost(format!("{url} is not up"))) };
            let peer = Peer { address: worker.clone(), principal: None };
            let stream = handle.open(peer).map_err(|refusal| LinkError::from(status::status(&refusal)))?;
            let (requests, from_client) = mpsc::channel(256);
            let (to_client, responses) = mpsc::unbounded_channel();
            let (state, seen) = watch::channel(State::default());
            let id = {
                let mut inner = net.lock();
                inner.last += 1;
                let id = inner.last;
                inner.connections.insert(id, Connection { worker: worker.clone(), host: url.clone(), state });
                id
            };
            let (answers, answered) = mpsc::unbounded_channel();
            let up = Up { net: net.clone(), worker: worker.clone(), inbox: stream.inbox, answers };
            tokio::spawn(up.carry(from_client, seen.clone()));
            let down = Down { net, id, worker, host: url, to_client };
            tokio::spawn(down.carry(stream.outbox, answered, seen));
            let responses = futures_util::stream::unfold(responses, |mut responses| async move {
                responses.recv().await.map(|frame| (frame, responses))
            });
            Ok(Wire { requests, responses: responses.boxed() })
        }
    }
}

/// Frames under way in one direction; `None` is the end.
struct Flight<T> {
    queue: VecDeque<(Instant, Option<T>)>,
    last: Instant,
}

impl<T> Flight<T> {
    fn new() -> Self {
        Self { queue: VecDeque::new(), last: Instant::now() }
    }

    fn put(&mut self, net: &Net, frame: Option<T>) {
        self.last = self.last.max(Instant::now() + net.delay());
        self.queue.push_back((self.last, frame));
    }

    /// When the next frame arrives; never while the way is silent.
    async fn next(&mut self, silent: bool) -> Option<T> {
        match self.queue.front() {
            Some((at, _)) if !silent => tokio::time::sleep_until(*at).await,
            _ => std::future::pending().await,
        }
        self.queue.pop_front().and_then(|(_, frame)| frame)
    }
}

struct Up {
    net: Net,
    worker: String,
    inbox: Inbox,
    answers: mpsc::UnboundedSender<Result<SessionResponse, LinkError>>,
}

impl Up {
    async fn carry(self, mut from: mpsc::Receiver<SessionRequest>, mut state: watch::Receiver<State>) {
        let (mut flight, mut open) = (Flight::new(), true);
        loop {
            let now = *state.borrow_and_update();
            if now.cut {
                return;
            }
            tokio::select! {
                biased;
                changed = state.changed() => if changed.is_err() { return },
                frame = from.recv(), if open => {
                    open = frame.is_some();
                    flight.put(&self.net, frame.map(|frame| frame.encode_to_vec()));
                }
                frame = flight.next(now.silent_up) => match frame {
                    Some(bytes) => if !self.deliver(&bytes) { return },
                    None => return,
                },
            }
        }
    }

    fn deliver(&self, bytes: &[u8]) -> bool {
        let Ok(frame) = rosterd::proto::v1::SessionRequest::decode(bytes) else { return false };
        match convert::from_worker(frame) {
            Ok(None) => true,
            Ok(Some(frame)) => {
                self.net.said(&self.worker, &frame);
                match self.inbox.put(frame) {
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

struct Down {
    net: Net,
    id: u64,
    worker: String,
    host: String,
    to_client: mpsc::UnboundedSender<Result<SessionResponse, LinkError>>,
}

impl Down {
    async fn carry(
        self,
        mut outbox: mpsc::Receiver<ToWorker>,
        mut answers: mpsc::UnboundedReceiver<Result<SessionResponse, LinkError>>,
        mut state: watch::Receiver<State>,
    ) {
        let (mut flight, mut open) = (Flight::new(), true);
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
                        match convert::to_worker(frame) {
                            Ok(frame) => flight.put(&self.net, Some(Ok(client_frame(&frame)))),
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
        self.net.lock().connections.remove(&self.id);
    }
}

fn client_frame(frame: &rosterd::proto::v1::SessionResponse) -> SessionResponse {
    SessionResponse::decode(frame.encode_to_vec().as_slice()).unwrap_or_default()
}
