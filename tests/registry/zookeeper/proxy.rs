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

/// What happens to bytes now, and how often connections were cut: a cut that is over at once is one still.
#[derive(Debug, Clone, Copy)]
struct State {
    way: Way,
    cuts: u64,
}

pub struct Proxy {
    pub address: SocketAddr,
    state: Arc<watch::Sender<State>>,
    task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    pub async fn before(server: String) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(watch::Sender::new(State { way: Way::Open, cuts: 0 }));
        let states = state.clone();
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                if states.borrow().way == Way::Cut {
                    continue;
                }
                let Ok(server) = TcpStream::connect(&server).await else { continue };
                tokio::spawn(pass(client, server, states.subscribe()));
            }
        });
        Self { address, state, task }
    }

    pub fn set(&self, way: Way) {
        self.state.send_modify(|state| {
            state.cuts += u64::from(way == Way::Cut);
            state.way = way;
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.set(Way::Cut);
    }
}

async fn pass(client: TcpStream, server: TcpStream, mut state: watch::Receiver<State>) {
    let cuts = state.borrow().cuts;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let asked = copy(from_client, to_server, state.clone(), |way| way != Way::HoldAll);
    let answered = copy(from_server, to_client, state.clone(), |way| way == Way::Open);
    tokio::select! {
        () = asked => {}
        () = answered => {}
        _ = state.wait_for(|state| state.cuts > cuts) => {}
    }
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut state: watch::Receiver<State>,
    passes: fn(Way) -> bool,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count) = from.read(&mut buffer).await {
        let open = state.wait_for(|state| passes(state.way)).await.is_ok();
        if count == 0 || !open || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
