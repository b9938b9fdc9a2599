//! What carries a connection's bytes: the socket itself, or TLS over it, whose handshake is driven by the first read.
//! Knows nothing of deadlines and places; those belong to the connection.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::Accept;
use tokio_rustls::server::TlsStream;

use super::access::subject::PeerNames;

/// A byte stream: a TCP stream, or its counterpart in a simulated network.
pub trait Socket: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Socket for S {}

/// The bytes of a connection.
pub(super) enum Link<S> {
    /// Unencrypted.
    Plain(S),
    /// A handshake in progress.
    Shaking(Box<Accept<S>>),
    /// Encrypted.
    Tls(Box<TlsStream<S>>),
    /// The handshake failed.
    Broken,
}

impl<S: Socket> Link<S> {
    pub(super) fn shaking(accept: Accept<S>) -> Self {
        Self::Shaking(Box::new(accept))
    }

    /// Drives a handshake to its end; returns the names in the peer's certificate, if it has just presented one.
    pub(super) fn poll_shaken(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<PeerNames>>> {
        let Self::Shaking(accept) = self else { return Poll::Ready(Ok(None)) };
        match ready!(Pin::new(accept.as_mut()).poll(cx)) {
            Ok(stream) => {
                let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                let names = certificate.map(PeerNames::of);
                *self = Self::Tls(Box::new(stream));
                Poll::Ready(Ok(names))
            }
            Err(error) => {
                *self = Self::Broken;
                Poll::Ready(Err(error))
            }
        }
    }
}

/// The bytes to be written, if they are in one piece, as those of most frames are: the system writes them for less.
fn only<'a>(bufs: &'a [io::IoSlice<'_>]) -> Option<&'a [u8]> {
    let mut pieces = bufs.iter().filter(|buf| !buf.is_empty());
    let first = pieces.next()?;
    pieces.next().is_none().then_some(&**first)
}

fn unshaken() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "there was no TLS handshake")
}

impl<S: Socket> AsyncRead for Link<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
            Self::Shaking(_) | Self::Broken => Poll::Ready(Err(unshaken())),
        }
    }
}

impl<S: Socket> AsyncWrite for Link<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, buf),
            Self::Shaking(_) | Self::Broken => Poll::Ready(Err(unshaken())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
            Self::Shaking(_) | Self::Broken => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
            Self::Shaking(_) | Self::Broken => Poll::Ready(Ok(())),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => match only(bufs) {
                Some(bytes) => Pin::new(socket).poll_write(cx, bytes),
                None => Pin::new(socket).poll_write_vectored(cx, bufs),
            },
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write_vectored(cx, bufs),
            Self::Shaking(_) | Self::Broken => Poll::Ready(Err(unshaken())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
            Self::Shaking(_) | Self::Broken => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_one_piece_are_found() {
        let pieces = |pieces: &[&'static str]| {
            let bufs: Vec<_> = pieces.iter().map(|piece| io::IoSlice::new(piece.as_bytes())).collect();
            only(&bufs).map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
        };
        assert_eq!(pieces(&["a frame"]).as_deref(), Some("a frame"));
        assert_eq!(pieces(&["", "a frame", ""]).as_deref(), Some("a frame"));
        assert_eq!(pieces(&["its head", "its body"]), None);
        assert_eq!(pieces(&[""]), None);
    }
}
