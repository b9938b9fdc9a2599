//! The scripted coordinator: a real gRPC server on loopback that says nothing by itself but the acknowledgements of
//! heartbeats. It tells the stage what comes, and gives it each stream to write to, to end, and to cut.

mod acknowledging;
mod codec;
pub(crate) mod frames;
mod link;
mod service;
mod stream;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use futures_util::StreamExt as _;
use futures_util::stream::{iter, pending};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

pub(crate) use self::acknowledging::Acknowledging;
use self::link::Link;
use self::service::Door;
use self::stream::Connection;
pub(crate) use self::stream::{Out, Stream};
use crate::event::Events;
use crate::owned::Tasks;

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
                let one = iter([io::Result::Ok(Link::new(socket, connection.cut.clone()))]);
                let cut = connection.cut.clone();
                let served = Server::builder().serve_with_incoming_shutdown(
                    door,
                    one.chain(pending()),
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

/// A port on which nothing listened a moment ago.
pub(crate) fn nobody() -> io::Result<SocketAddr> {
    deaf()?.local_addr()
}
