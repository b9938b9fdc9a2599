//! A TCP proxy that simulates network faults: black holes, without notice to either end; loss in one direction; or
//! broken connections. It runs on a separate thread, so that no test stalls it.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What happens to bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They pass.
    Pass,
    /// They pass late.
    Slow(Duration),
    /// They are held: without notice, and without closing anything. New connections wait as well.
    Hole,
    /// The servers' answers are lost.
    NoAnswers,
}

/// One proxy before several servers: each connection goes to the next.
pub struct Proxy {
    pub port: u16,
    mode: watch::Sender<Mode>,
    /// Connections from before the last change of this are closed.
    age: watch::Sender<u64>,
    /// How many connections are still to be torn.
    to_tear: Arc<AtomicU64>,
    /// The largest request and answer.
    largest: Arc<[AtomicU64; 2]>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
}

impl Proxy {
    /// Before these servers (`host:port`, separated by commas).
    pub fn start(servers: &str) -> Self {
        let servers: Vec<SocketAddr> = servers.split(',').map(|server| server.parse().unwrap()).collect();
        let listener = StdListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mode, modes) = watch::channel(Mode::Pass);
        let (age, ages) = watch::channel(0);
        let to_tear = Arc::new(AtomicU64::new(0));
        let largest = Arc::<[AtomicU64; 2]>::default();
        let rules = Rules { modes, ages, to_tear: to_tear.clone(), largest: largest.clone() };
        let (stop, stopped) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                tokio::select! {
                    () = accept(TcpListener::from_std(listener).unwrap(), servers, rules) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { port, mode, age, to_tear, largest, stop: Some(stop) }
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// On the next `connections` connections with traffic, the next bytes pass only in part: then the connection is
    /// closed, in the middle of a frame. Later ones pass.
    pub fn tear(&self, connections: u64) {
        self.to_tear.store(connections, Ordering::Relaxed);
    }

    /// Whether all of them were torn.
    pub fn has_torn(&self) -> bool {
        self.to_tear.load(Ordering::Relaxed) == 0
    }

    /// Before ZooKeeper: the bytes of the largest request and of the largest answer so far.
    pub fn largest(&self) -> [u64; 2] {
        [0, 1].map(|way| self.largest[way].load(Ordering::Relaxed))
    }

    /// Breaks every connection.
    pub fn cut(&self) {
        self.age.send_modify(|age| *age += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _gone = stop.send(());
        }
    }
}

/// The current rules of connections.
#[derive(Clone)]
struct Rules {
    modes: watch::Receiver<Mode>,
    ages: watch::Receiver<u64>,
    to_tear: Arc<AtomicU64>,
    largest: Arc<[AtomicU64; 2]>,
}

/// The position in a stream whose frames begin with their length, as ZooKeeper's do.
#[derive(Default)]
struct Frames {
    length: Vec<u8>,
    rest: usize,
}

impl Frames {
    fn pass(&mut self, mut bytes: &[u8], largest: &AtomicU64) {
        while let Some((first, others)) = bytes.split_first() {
            if self.rest > 0 {
                let passed = self.rest.min(bytes.len());
                self.rest -= passed;
                bytes = &bytes[passed..];
                continue;
            }
            self.length.push(*first);
            bytes = others;
            if let Ok(length) = <[u8; 4]>::try_from(self.length.as_slice()) {
                let length = u32::from_be_bytes(length);
                largest.fetch_max(u64::from(length), Ordering::Relaxed);
                (self.length, self.rest) = (Vec::new(), length as usize);
            }
        }
    }
}

async fn accept(listener: TcpListener, servers: Vec<SocketAddr>, rules: Rules) {
    let servers = Arc::new(servers);
    for next in 0.. {
        let Ok((client, _)) = listener.accept().await else { continue };
        let (servers, mut rules) = (servers.clone(), rules.clone());
        rules.ages.mark_unchanged();
        tokio::spawn(async move {
            let mut open = rules.modes.clone();
            drop(open.wait_for(|mode| *mode != Mode::Hole).await.map(|mode| *mode));
            let Ok(server) = TcpStream::connect(servers[next % servers.len()]).await else { return };
            let _nodelay = (client.set_nodelay(true), server.set_nodelay(true));
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let mut ages = rules.ages.clone();
            tokio::select! {
                () = carry(from_client, to_server, rules.clone(), false) => {}
                () = carry(from_server, to_client, rules, true) => {}
                _ = ages.changed() => {}
            }
        });
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut rules: Rules, answers: bool) {
    let (mut buffer, mut frames) = (vec![0; 64 * 1024], Frames::default());
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        frames.pass(&buffer[..read], &rules.largest[usize::from(answers)]);
        let open = rules.modes.wait_for(|mode| *mode != Mode::Hole).await;
        let Ok(mode) = open.map(|mode| *mode) else { return };
        match mode {
            Mode::NoAnswers if answers => continue,
            Mode::Slow(by) => tokio::time::sleep(by).await,
            _ => {}
        }
        let one_less = |left: u64| left.checked_sub(1);
        // The last byte of a frame at least is missing.
        if read > 1 && rules.to_tear.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            let _closed = (to.write_all(&buffer[..read / 2]).await, to.shutdown().await);
            return;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
