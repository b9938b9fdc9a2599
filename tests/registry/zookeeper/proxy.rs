//! A TCP proxy before one server, whose connections can be cut, or held without anybody being told.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What happens to bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// They pass.
    Open,
    /// Connections end at once, new ones as well.
    Cut,
    /// What the server says stays here; what it is told passes.
    HoldAnswers,
    /// Nothing passes; connections stay.
    HoldAll,
}

pub struct Proxy {
    pub address: SocketAddr,
    way: Arc<watch::Sender<Way>>,
    task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    pub async fn before(server: String) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let way = Arc::new(watch::Sender::new(Way::Open));
        let ways = way.clone();
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                if *ways.borrow() == Way::Cut {
                    continue;
                }
                let Ok(server) = TcpStream::connect(&server).await else { continue };
                tokio::spawn(pass(client, server, ways.subscribe()));
            }
        });
        Self { address, way, task }
    }

    pub fn set(&self, way: Way) {
        self.way.send_replace(way);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.set(Way::Cut);
    }
}

async fn pass(client: TcpStream, server: TcpStream, mut way: watch::Receiver<Way>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let asked = copy(from_client, to_server, way.clone(), |way| way != Way::HoldAll);
    let answered = copy(from_server, to_client, way.clone(), |way| way == Way::Open);
    tokio::select! {
        () = asked => {}
        () = answered => {}
        _ = way.wait_for(|way| *way == Way::Cut) => {}
    }
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut way: watch::Receiver<Way>,
    passes: fn(Way) -> bool,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count) = from.read(&mut buffer).await {
        let open = way.wait_for(|way| passes(*way)).await.is_ok();
        if count == 0 || !open || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
