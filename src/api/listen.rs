//! Accepts connections and serves them: gRPC and HTTP/1 on one port. The HTTP stack has no deadline for a silent
//! connection and no limit for their number, so the accept loop here does both; every limit of HTTP/2 is set, none is
//! left to a default.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::Server;
use tower::util::MapRequestLayer;

use super::connection::{Caps, Connection, Places, Remote};
use super::layers::deadlines::Arrived;
use super::link::{Link, Socket};
use super::tls::ServerTls;
use rosterd_runtime::clock::SharedClock;
use rosterd_runtime::mutants;
use rosterd_runtime::telemetry::Metrics;

/// Where connections come from: a listening TCP socket, or its counterpart in a simulated network.
pub trait Incoming: Send + Sync + 'static {
    /// The byte stream of a connection.
    type Socket: Socket;

    /// The next connection, and its peer's address.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Socket, SocketAddr)>> + Send;
}

impl Incoming for TcpListener {
    type Socket = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, address) = Self::accept(self).await?;
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "a connection without nodelay");
        }
        Ok((socket, address))
    }
}

/// Limits of the listener and its connections.
#[derive(Debug, Clone, Copy)]
pub struct ListenLimits {
    /// How many connections.
    pub caps: Caps,
    /// How long a connection may take to open: its TLS handshake, and its preface or the head of its first
    /// request.
    pub preface: Duration,
    /// How often a silent HTTP/2 connection is pinged, and how long the answer may take.
    pub keepalive: (Duration, Duration),
    /// Streams per connection.
    pub streams_per_connection: u32,
    /// How much one connection may send ahead. It also prevents a burst of small frames from being mistaken for an
    /// attack: the stack closes a connection whose unread small frames cost more than half of this.
    pub connection_window: u32,
    /// How much one stream may send ahead.
    pub stream_window: u32,
    /// Largest head of a request, in bytes.
    pub header_list: u32,
    /// How long open streams have to end at shutdown.
    pub shutdown: Duration,
}

impl Default for ListenLimits {
    fn default() -> Self {
        Self {
            caps: Caps { total: 20_000, per_peer: 5_000 },
            preface: Duration::from_secs(5),
            keepalive: (Duration::from_secs(20), Duration::from_secs(10)),
            streams_per_connection: 1024,
            connection_window: 48 << 20,
            stream_window: 1 << 20,
            header_list: 16 << 10,
            shutdown: Duration::from_secs(10),
        }
    }
}

/// How long the last frames of streams may take after these were told to end, before the connection is cut.
const LAST_FRAMES: Duration = Duration::from_millis(500);

/// Serves `routes`, with `tls` over nothing else, until `stop` is cancelled and its connections have ended. For those
/// that have not ended by [`ListenLimits::shutdown`], `late` is cancelled, and then they are cut.
pub async fn serve<I: Incoming>(
    listener: I,
    routes: axum::Router,
    tls: Option<Arc<ServerTls>>,
    limits: ListenLimits,
    (metrics, clock): (Arc<Metrics>, SharedClock),
    (stop, late): (CancellationToken, CancellationToken),
) -> io::Result<()> {
    let cut = CancellationToken::new();
    let _cut_if_dropped = cut.clone().drop_guard();
    let places = Places::new(limits.caps, metrics, clock);
    let connections = accept(listener, tls, limits, places, cut.clone());
    let (interval, timeout) = limits.keepalive;
    let server = Server::builder()
        .accept_http1(true)
        .initial_connection_window_size(limits.connection_window)
        .initial_stream_window_size(limits.stream_window)
        .max_concurrent_streams(limits.streams_per_connection)
        .max_frame_size(16 << 10)
        .http2_keepalive_interval(Some(interval))
        .http2_keepalive_timeout(Some(timeout))
        .http2_max_header_list_size(limits.header_list)
        .http2_max_pending_accept_reset_streams(Some(20))
        .http2_max_local_error_reset_streams(Some(1024))
        .layer(MapRequestLayer::new(Arrived::note))
        .add_routes(Routes::from(routes))
        .serve_with_incoming_shutdown(connections, stop.clone().cancelled_owned());
    let deadline = async {
        stop.cancelled().await;
        tokio::time::sleep(limits.shutdown).await;
        tracing::info!("streams were still open at the shutdown deadline; they are ended");
        late.cancel();
        tokio::time::sleep(LAST_FRAMES).await;
        cut.cancel();
        tokio::time::sleep(LAST_FRAMES).await;
    };
    tokio::select! {
        biased;
        served = server => served.map_err(io::Error::other),
        () = deadline => Ok(()),
    }
}

/// Connections that have a place.
fn accept<I: Incoming>(
    listener: I,
    tls: Option<Arc<ServerTls>>,
    limits: ListenLimits,
    places: Arc<Places>,
    cut: CancellationToken,
) -> impl Stream<Item = io::Result<Connection<I::Socket>>> {
    futures_util::stream::unfold((listener, tls, places, cut), move |state| async move {
        let (listener, tls, places, cut) = &state;
        loop {
            let (socket, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, or the peer left at once: neither ends the listener.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            mutants::panic_if_injected("panic-edge");
            match places.take(address.ip()) {
                Ok(place) => {
                    let remote = Remote::new(address, cut.child_token());
                    // No handshake happens here, so a slow peer delays no other.
                    let link = match tls {
                        Some(tls) => Link::shaking(tls.accept(socket)),
                        None => Link::Plain(socket),
                    };
                    let connection = Connection::new(link, remote, place, limits.preface);
                    return Some((Ok(connection), state));
                }
                Err(reason) => places.refuse(address, reason),
            }
        }
    })
}
