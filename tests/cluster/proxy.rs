//! A TCP proxy whose connections can be made to do what networks do: nothing at all, without either end being told;
//! lose what one end says; or break. It runs on a thread of its own, so that no test stalls it.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
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
    /// They stay where they are: nobody is told, nothing is closed. New connections wait as well.
    Hole,
    /// What the servers answer is lost.
    NoAnswers,
}

/// One proxy before several servers: each connection goes to the next.
pub struct Proxy {
    pub port: u16,
    mode: watch::Sender<Mode>,
    /// Connections begun before the last change of this are over.
    age: watch::Sender<u64>,
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
        let (stop, stopped) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                tokio::select! {
                    () = accept(TcpListener::from_std(listener).unwrap(), servers, modes, ages) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { port, mode, age, stop: Some(stop) }
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
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

async fn accept(
    listener: TcpListener,
    servers: Vec<SocketAddr>,
    modes: watch::Receiver<Mode>,
    ages: watch::Receiver<u64>,
) {
    let servers = Arc::new(servers);
    for next in 0.. {
        let Ok((client, _)) = listener.accept().await else { continue };
        let (servers, modes, mut ages) = (servers.clone(), modes.clone(), ages.clone());
        ages.mark_unchanged();
        tokio::spawn(async move {
            let mut open = modes.clone();
            drop(open.wait_for(|mode| *mode != Mode::Hole).await.map(|mode| *mode));
            let Ok(server) = TcpStream::connect(servers[next % servers.len()]).await else { return };
            let _nodelay = (client.set_nodelay(true), server.set_nodelay(true));
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::select! {
                () = carry(from_client, to_server, modes.clone(), false) => {}
                () = carry(from_server, to_client, modes, true) => {}
                _ = ages.changed() => {}
            }
        });
    }
}

async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut modes: watch::Receiver<Mode>,
    answers: bool,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        let Ok(mode) = modes.wait_for(|mode| *mode != Mode::Hole).await.map(|mode| *mode) else { return };
        match mode {
            Mode::NoAnswers if answers => continue,
            Mode::Slow(by) => tokio::time::sleep(by).await,
            _ => {}
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
