//! A connection as the edge holds it: it takes one of a limited number of places, and must send its first request in
//! time. Below it is a [`Link`], a socket with or without TLS; above it is the HTTP stack, which has no
//! deadline of its own for the first bytes. The handshake happens when the HTTP stack first reads: it has the
//! connection's place and the deadline of its opening. Created by `listen` alone.

use std::collections::BTreeMap;
use std::future::Future as _;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::AbortHandle;
use tokio::time::Sleep;

use super::access::subject::PeerNames;
use super::link::{Link, Socket};
use super::peer::network;
use super::seldom::Seldom;
use rosterd_runtime::clock::SharedClock;
use rosterd_runtime::telemetry::Metrics;

/// The peer of a connection, in the extensions of each of its requests.
#[derive(Debug, Clone)]
pub struct Remote {
    /// Its address.
    pub address: SocketAddr,
    /// The names in its verified certificate; empty without one. Set before the first request.
    pub certificate: Arc<OnceLock<PeerNames>>,
    /// The task that carries the connection. Set once there is one.
    pub(super) carrier: Arc<OnceLock<AbortHandle>>,
}

impl Remote {
    /// A peer whose certificate is not known yet.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, certificate: Arc::default(), carrier: Arc::default() }
    }

    /// Cuts the connection.
    pub fn cut(&self) {
        if let Some(carrier) = self.carrier.get() {
            carrier.abort();
        }
    }
}

/// The limits for connections.
#[derive(Debug, Clone, Copy)]
pub struct Caps {
    /// In total.
    pub total: usize,
    /// From one address; of IPv6, one /64.
    pub per_peer: usize,
}

/// The places for connections.
pub struct Places {
    caps: Caps,
    metrics: Arc<Metrics>,
    clock: SharedClock,
    refused: Seldom,
    unshaken: Seldom,
    taken: Mutex<(usize, BTreeMap<IpAddr, usize>)>,
}

/// The place of one connection; given back when it is dropped.
pub struct ConnectionSlot {
    places: Arc<Places>,
    peer: IpAddr,
}

impl Places {
    /// All places are free.
    pub fn new(caps: Caps, metrics: Arc<Metrics>, clock: SharedClock) -> Arc<Self> {
        let [refused, unshaken] = [Seldom::default(), Seldom::default()];
        // Registered from the start: a counter that appears with its first event shows no rate for it.
        for reason in ["total", "per_peer", "silent", "handshake"] {
            drop(metrics.connections_refused.get_or_create(&[("reason", reason)]));
        }
        Arc::new(Self { caps, metrics, clock, refused, unshaken, taken: Mutex::default() })
    }

    /// Takes a place for a peer; `Err`: the limit that was reached.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Result<ConnectionSlot, &'static str> {
        let peer = network(address);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (total, peers) = &mut *taken;
        if *total >= self.caps.total {
            return Err("total");
        }
        if peers.get(&peer).is_some_and(|count| *count >= self.caps.per_peer) {
            return Err("per_peer");
        }
        *total += 1;
        *peers.entry(peer).or_default() += 1;
        self.metrics.connections.inc();
        Ok(ConnectionSlot { places: self.clone(), peer })
    }

    /// Counts a connection that got no place, and logs it, once a minute for each network.
    pub(super) fn refuse(&self, peer: SocketAddr, reason: &'static str) {
        self.metrics.connections_refused.get_or_create(&[("reason", reason)]).inc();
        if let Some(before) = self.refused.admits(peer.ip(), self.clock.mono()) {
            let field = if reason == "total" { "max_connections" } else { "max_connections_per_ip" };
            tracing::warn!(%peer, reason, before, "a connection was closed: there are as many as {field} allows");
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (total, peers) = &mut *taken;
        *total -= 1;
        if let Some(count) = peers.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                peers.remove(&self.peer);
            }
        }
        self.places.metrics.connections.dec();
    }
}

/// A connection.
pub struct Connection<S> {
    link: Link<S>,
    remote: Remote,
    opening: Option<Opening>,
    place: ConnectionSlot,
}

/// What was received on a connection without a complete first request.
struct Opening {
    deadline: Pin<Box<Sleep>>,
    seen: usize,
    http2: bool,
    /// How much of an empty line was received.
    blank: usize,
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const BLANK: &[u8] = b"\r\n\r\n";

impl Opening {
    fn new(patience: Duration) -> Self {
        Self { deadline: Box::pin(tokio::time::sleep(patience)), seen: 0, http2: true, blank: 0 }
    }

    /// Examines the next bytes; returns whether an HTTP/2 preface or the head of a first request is complete.
    fn see(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            self.http2 &= PREFACE.get(self.seen) == Some(byte);
            self.seen += 1;
            self.blank = match BLANK.get(self.blank) {
                Some(expected) if expected == byte => self.blank + 1,
                _ => usize::from(*byte == BLANK[0]),
            };
            let complete = if self.http2 { self.seen == PREFACE.len() } else { self.blank == BLANK.len() };
            if complete {
                return true;
            }
        }
        false
    }
}

impl<S: Socket> Connection<S> {
    /// Wraps a socket that has its place; `patience` is how long the opening may take.
    pub(super) fn new(link: Link<S>, remote: Remote, place: ConnectionSlot, patience: Duration) -> Self {
        Self { link, remote, opening: Some(Opening::new(patience)), place }
    }

    /// Its peer.
    pub(super) fn remote(&self) -> &Remote {
        &self.remote
    }

    fn poll_opening(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Some(opening) = &mut self.opening else { return Ok(()) };
        if opening.deadline.as_mut().poll(cx).is_pending() {
            return Ok(());
        }
        self.place.places.metrics.connections_refused.get_or_create(&[("reason", "silent")]).inc();
        tracing::debug!(peer = %self.remote.address, bytes = opening.seen, "closed: no request in time");
        Err(io::Error::new(io::ErrorKind::TimedOut, "no request in time"))
    }
}

impl<S: Socket> Connection<S> {
    /// Drives the handshake to its end.
    fn poll_shaken(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shaken = ready!(self.link.poll_shaken(cx));
        match shaken {
            Ok(None) => Poll::Ready(Ok(())),
            Ok(Some(names)) => {
                // Set once: there is one handshake.
                let _ = self.remote.certificate.set(names);
                Poll::Ready(Ok(()))
            }
            Err(error) => {
                self.place.places.metrics.connections_refused.get_or_create(&[("reason", "handshake")]).inc();
                let (places, peer) = (&self.place.places, self.remote.address);
                if let Some(before) = places.unshaken.admits(peer.ip(), places.clock.mono()) {
                    tracing::info!(%peer, %error, before, "a connection was closed: the TLS handshake failed");
                }
                Poll::Ready(Err(error))
            }
        }
    }
}

impl<S: Socket> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_opening(cx)?;
        ready!(self.poll_shaken(cx))?;
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.link).poll_read(cx, buf);
        let complete = self.opening.as_mut().is_some_and(|opening| opening.see(&buf.filled()[before..]));
        if complete {
            self.opening = None;
        }
        polled
    }
}

impl<S: Socket> AsyncWrite for Connection<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.link).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.link).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.link).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.link).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.link.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use rosterd_runtime::clock::System;

    use super::*;

    #[tokio::test]
    async fn an_opening_is_a_preface_or_a_whole_head_in_any_pieces() {
        let complete = |text: &[u8]| {
            let mut opening = Opening::new(Duration::from_secs(1));
            text.iter().position(|byte| opening.see(&[*byte]))
        };
        assert_eq!(complete(PREFACE), Some(23));
        assert_eq!(complete(&PREFACE[..20]), None, "the preface does not end at its empty line");
        assert_eq!(complete(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nmore"), Some(26));
        assert_eq!(complete(b"GET / HTTP/1.1\r\nHost: a\r\n\r\r\n\r\n"), Some(29));
        assert_eq!(complete(b"PRI * HTTP/2.0\r\nHost: a\r\n"), None);
    }

    #[test]
    fn places_are_counted_by_network_and_given_back() {
        let places = Places::new(Caps { total: 3, per_peer: 2 }, Metrics::new(), System::shared());
        let peer = |text: &str| text.parse::<IpAddr>().unwrap();
        let first = places.take(peer("2001:db8::1")).unwrap();
        let _second = places.take(peer("2001:db8::2")).unwrap();
        assert_eq!(places.take(peer("2001:db8::3")).err(), Some("per_peer"));
        let _other = places.take(peer("10.0.0.1")).unwrap();
        assert_eq!(places.take(peer("10.0.0.2")).err(), Some("total"));
        drop(first);
        places.take(peer("::ffff:10.0.0.1")).unwrap();
    }
}
