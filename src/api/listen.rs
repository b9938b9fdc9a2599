//! Accepts connections and serves them: gRPC and HTTP/1 on one port. The HTTP stack has no deadline for a silent
//! connection and no limit for their number, so the accept loop here does both; every limit of HTTP/2 is set, none is
//! left to a default. Tonic's own server is not used: what it puts around each connection and each body costs more than
//! what is spoken there, for a fleet of idle workers.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::poll;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::connection::{Caps, Connection, Places, Remote};
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
    fn accept(
        &self,
        keepalive: Keepalive,
    ) -> impl Future<Output = io::Result<(Self::Socket, SocketAddr)>> + Send;
}

/// How silent connections are probed.
#[derive(Debug, Clone, Copy)]
pub struct Keepalive {
    /// How long a connection is silent before it is probed.
    pub interval: Duration,
    /// How long the answer may take.
    pub timeout: Duration,
}

impl Incoming for TcpListener {
    type Socket = TcpStream;

    async fn accept(&self, keepalive: Keepalive) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, address) = Self::accept(self).await?;
        if let Err(error) = set_options(&socket, keepalive) {
            tracing::debug!(%error, "a connection without its options");
        }
        Ok((socket, address))
    }
}

/// The system probes a connection, whatever is spoken on it: pings of HTTP/2 would cost something with every frame. A peer
/// that takes none of what was sent to it has as long as one that is silent.
fn set_options(socket: &TcpStream, Keepalive { interval, timeout }: Keepalive) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = SockRef::from(socket);
    let probes = TcpKeepalive::new().with_time(interval).with_interval(timeout).with_retries(1);
    socket.set_tcp_keepalive(&probes)?;
    socket.set_tcp_user_timeout(Some(interval + timeout))
}

/// Limits of the listener and its connections.
#[derive(Debug, Clone, Copy)]
pub struct ListenLimits {
    /// How many connections.
    pub caps: Caps,
    /// How long a connection may take to open: its TLS handshake, and its preface or the head of its first
    /// request.
    pub preface: Duration,
    /// How silent connections are probed.
    pub keepalive: Keepalive,
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
            keepalive: Keepalive { interval: Duration::from_secs(20), timeout: Duration::from_secs(10) },
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
    let places = Places::new(limits.caps, metrics, clock);
    let http = http(limits);
    let mut connections = JoinSet::new();
    let server = async {
        let accepting = async {
            loop {
                let mut next = pin!(accept(&listener, tls.as_deref(), limits, &places));
                let connection = loop {
                    tokio::select! {
                        biased;
                        Some(_ended) = connections.join_next() => {}
                        connection = &mut next => break connection,
                    }
                };
                let carrier = connection.remote().carrier.clone();
                let task = connections.spawn(carry(connection, routes.clone(), http.clone(), stop.clone()));
                // Set once: it has one task.
                let _ = carrier.set(task);
            }
        };
        stop.run_until_cancelled(accepting).await;
        // From now on a connection to this port is refused, not left to wait.
        drop(listener);
        while connections.join_next().await.is_some() {}
    };
    let deadline = async {
        stop.cancelled().await;
        tokio::time::sleep(limits.shutdown).await;
        tracing::info!("streams were still open at the shutdown deadline; they are ended");
        late.cancel();
        tokio::time::sleep(LAST_FRAMES).await;
    };
    tokio::select! {
        biased;
        () = server => {}
        () = deadline => {}
    }
    // Those that are left are cut, as they are if this is dropped.
    let _busy = tokio::time::timeout(LAST_FRAMES, connections.shutdown()).await;
    Ok(())
}

/// HTTP/1 and HTTP/2, each connection as it opens.
fn http(limits: ListenLimits) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new());
    http.http2()
        .timer(TokioTimer::new())
        .initial_connection_window_size(limits.connection_window)
        .initial_stream_window_size(limits.stream_window)
        .max_concurrent_streams(limits.streams_per_connection)
        .max_frame_size(16 << 10)
        .max_header_list_size(limits.header_list)
        .max_pending_accept_reset_streams(Some(20))
        .max_local_error_reset_streams(Some(1024));
    http
}

/// Serves a connection until it ends. Once `stop` is cancelled it takes no new requests.
async fn carry<S: Socket>(
    connection: Connection<S>,
    routes: axum::Router,
    http: auto::Builder<TokioExecutor>,
    stop: CancellationToken,
) {
    let remote = connection.remote().clone();
    let noted = move |mut request: http::Request<_>| {
        request.extensions_mut().insert(remote.clone());
        request
    };
    let service = TowerToHyperService::new(routes.map_request(noted));
    let mut served = pin!(http.serve_connection(TokioIo::new(connection), service));
    let mut stopped = pin!(stop.cancelled());
    // Asked once, so that it wakes this task. What it says is read where all connections read it, which is in the
    // processor's caches.
    let _ = poll!(&mut stopped);
    let mut told = false;
    let ended = poll_fn(|cx| {
        if !told && stop.is_cancelled() {
            told = true;
            served.as_mut().graceful_shutdown();
        }
        served.as_mut().poll(cx)
    });
    if let Err(error) = ended.await {
        tracing::debug!(%error, "a connection has failed");
    }
}

/// The next connection that has a place.
async fn accept<I: Incoming>(
    listener: &I,
    tls: Option<&ServerTls>,
    limits: ListenLimits,
    places: &Arc<Places>,
) -> Connection<I::Socket> {
    loop {
        let (socket, address) = match listener.accept(limits.keepalive).await {
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
                let remote = Remote::new(address);
                // No handshake happens here, so a slow peer delays no other.
                let link = match tls {
                    Some(tls) => Link::shaking(tls.accept(socket)),
                    None => Link::Plain(socket),
                };
                return Connection::new(link, remote, place, limits.preface);
            }
            Err(reason) => places.refuse(address, reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_system_probes_silent_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let keepalive = Keepalive { interval: Duration::from_secs(7), timeout: Duration::from_secs(3) };
        let (accepted, _) = Incoming::accept(&listener, keepalive).await.unwrap();
        assert!(accepted.nodelay().unwrap());
        let socket = SockRef::from(&accepted);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), keepalive.interval);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), keepalive.timeout);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 1);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(10)));
    }
}
