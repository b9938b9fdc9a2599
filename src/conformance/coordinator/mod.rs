//! The scripted coordinator: a real gRPC server on loopback that says nothing by itself but the acknowledgements of
//! heartbeats. It tells the stage what comes, and gives it each stream to write to, to end, and to cut.

mod codec;
pub(crate) mod frames;
mod link;
mod service;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::{StreamExt as _, stream};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tonic::transport::Server;

use self::link::Link;
use self::service::Door;
use crate::event::{Event, Events};
use crate::owned::Tasks;

/// What waits to be written on one stream; a script that floods waits where it is full.
const OUTGOING: usize = 16 * 1024;

/// Whether heartbeats are acknowledged by themselves: of all coordinators of a script.
#[derive(Clone)]
pub(crate) struct Acknowledging(Arc<AtomicBool>);

impl Default for Acknowledging {
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl Acknowledging {
    pub(crate) fn set(&self, on: bool) {
        self.0.store(on, Ordering::SeqCst);
    }

    fn is_on(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// What goes out on a stream.
#[derive(Debug)]
pub(crate) enum Out {
    Frame(bytes::Bytes),
    /// Its end: with a status, or without an error.
    End(Option<Code>),
}

/// One stream of the worker, as a script holds it.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    /// Over all coordinators of the script, in the order in which they came.
    pub(crate) number: usize,
    /// Which coordinator, from 0.
    pub(crate) at: usize,
    pub(crate) authorization: Option<String>,
    out: mpsc::Sender<Out>,
    connection: Connection,
}

impl Stream {
    /// False: the stream is gone.
    pub(crate) async fn send(&self, out: Out) -> bool {
        self.out.send(out).await.is_ok()
    }

    /// As if the coordinator had been killed.
    pub(crate) fn cut(&self) {
        self.connection.cut.cancel();
    }

    /// Says GOAWAY; the stream goes on.
    pub(crate) fn go_away(&self) {
        self.connection.go_away.cancel();
    }
}

#[derive(Debug, Clone, Default)]
struct Connection {
    cut: CancellationToken,
    go_away: CancellationToken,
}

/// A coordinator that listens. It is gone, and every connection cut, once it is dropped.
pub(crate) struct Coordinator {
    pub(crate) address: SocketAddr,
    over: CancellationToken,
}

impl Coordinator {
    /// The coordinator number `at` of a script, on a port of its own.
    pub(crate) async fn start(
        at: usize,
        events: &Events,
        streams: &Arc<AtomicUsize>,
        acknowledging: &Acknowledging,
        tasks: &Tasks,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let over = CancellationToken::new();
        let (events, streams, acknowledging, of_all, stop) =
            (events.clone(), streams.clone(), acknowledging.clone(), tasks.clone(), over.clone());
        tasks.spawn(async move {
            while let Some(Ok((socket, _))) = stop.run_until_cancelled(listener.accept()).await {
                let _ = socket.set_nodelay(true);
                let connection = Connection { cut: stop.child_token(), go_away: CancellationToken::new() };
                let door = Door {
                    at,
                    events: events.clone(),
                    streams: streams.clone(),
                    acknowledging: acknowledging.clone(),
                    connection: connection.clone(),
                    tasks: of_all.clone(),
                };
                let one = stream::iter([io::Result::Ok(Link::new(socket, connection.cut.clone()))]);
                let cut = connection.cut.clone();
                let served = Server::builder().serve_with_incoming_shutdown(
                    door,
                    one.chain(stream::pending()),
                    connection.go_away.cancelled_owned(),
                );
                of_all.spawn(async move {
                    let _ = cut.run_until_cancelled(served).await;
                });
            }
        });
        Ok(Self { address, over })
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.over.cancel();
    }
}

/// A port where somebody listens and nobody ever answers.
pub(crate) fn deaf() -> io::Result<std::net::TcpListener> {
    std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
}

/// A port where nobody listens, a moment ago at least.
pub(crate) fn nobody() -> io::Result<SocketAddr> {
    deaf()?.local_addr()
}

/// Tells of what came, unless nobody listens any more.
async fn tell(events: &Events, event: Event) {
    events.tell(event).await;
}
