//! A TCP proxy before one server, whose connections can be cut, or silently held, or opened as if the server did not
//! know the requested session.

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
    /// The server's answers are held; requests pass.
    HoldAnswers,
    /// Nothing passes; connections stay.
    HoldAll,
}

/// What happens to bytes now, and how often connections were cut: even a very short cut counts.
#[derive(Debug, Clone, Copy)]
struct State {
    way: Way,
    cuts: u64,
    /// Answers that were held since the state was set.
    held: u64,
    /// A client that requests its session silently gets another one.
    forgetful: bool,
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
        let state =
            Arc::new(watch::Sender::new(State { way: Way::Open, cuts: 0, held: 0, forgetful: false }));
        let states = state.clone();
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                if states.borrow().way == Way::Cut {
                    continue;
                }
                let Ok(server) = TcpStream::connect(&server).await else { continue };
                tokio::spawn(pass(client, server, states.clone()));
            }
        });
        Self { address, state, task }
    }

    pub fn set(&self, way: Way) {
        self.state.send_modify(|state| {
            state.cuts += u64::from(way == Way::Cut);
            (state.way, state.held) = (way, 0);
        });
    }

    /// From now on a reconnect silently gets another session.
    pub fn forget_sessions(&self) {
        self.state.send_modify(|state| state.forgetful = true);
    }

    /// Waits until an answer of the server is held.
    pub async fn holds_an_answer(&self) {
        let mut states = self.state.subscribe();
        // It ends only with the proxy.
        let _ = states.wait_for(|state| state.held > 0).await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.set(Way::Cut);
    }
}

async fn pass(client: TcpStream, server: TcpStream, states: Arc<watch::Sender<State>>) {
    let mut state = states.subscribe();
    let cuts = state.borrow().cuts;
    let forgetful = state.borrow().forgetful;
    let (mut from_client, to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    if forgetful && ask_for_a_new_session(&mut from_client, &mut to_server).await.is_err() {
        return;
    }
    let asked = copy(from_client, to_server, &states, |way| way != Way::HoldAll);
    let answered = copy(from_server, to_client, &states, |way| way == Way::Open);
    tokio::select! {
        () = asked => {}
        () = answered => {}
        _ = state.wait_for(|state| state.cuts > cuts) => {}
    }
}

/// Passes the packet that opens a session, without the number and the password of the requested one.
async fn ask_for_a_new_session(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf) -> std::io::Result<()> {
    /// Behind the protocol's version, the last transaction that was seen, and the time-out.
    const NUMBER: std::ops::Range<usize> = 16..24;
    /// Behind its length.
    const PASSWORD: std::ops::Range<usize> = 28..44;
    let length = from.read_u32().await?;
    let mut packet = vec![0; length as usize];
    from.read_exact(&mut packet).await?;
    packet[NUMBER].fill(0);
    packet[PASSWORD].fill(0);
    to.write_u32(length).await?;
    to.write_all(&packet).await
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    states: &watch::Sender<State>,
    passes: fn(Way) -> bool,
) {
    let mut state = states.subscribe();
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count) = from.read(&mut buffer).await {
        states.send_if_modified(|state| {
            let held = count > 0 && state.way == Way::HoldAnswers && !passes(state.way);
            state.held += u64::from(held);
            held
        });
        let open = state.wait_for(|state| passes(state.way)).await.is_ok();
        if count == 0 || !open || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
