//! Opens a connection, with TLS where the other side speaks it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

/// Why there was no answer. None of these texts holds a path, a query, a header or a body.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    /// It cannot be asked at all.
    #[error("the address cannot be used: {0}: write https://host[:port]/path")]
    Address(&'static str),
    /// Nobody could be reached.
    #[error("{server} cannot be reached: {source}")]
    Connect {
        /// Host and port.
        server: String,
        /// Why.
        source: io::Error,
    },
    /// The server is not believed, or speaks no TLS.
    #[error("no TLS with {server}: {source}")]
    Tls {
        /// Host and port.
        server: String,
        /// Why.
        source: io::Error,
    },
    /// The connection broke, or what came is not what was to come.
    #[error("{server} gave no answer that can be read: {why}")]
    Exchange {
        /// Host and port.
        server: String,
        /// Why.
        why: String,
    },
    /// More came than is taken.
    #[error("the answer of {server} is longer than {most} bytes")]
    TooLong {
        /// Host and port.
        server: String,
        /// How much is taken.
        most: usize,
    },
    /// It took too long.
    #[error("{server} did not answer within {after:?}")]
    Late {
        /// Host and port.
        server: String,
        /// How long was waited.
        after: Duration,
    },
}

/// A connection, plain or not.
pub(crate) enum Link {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

pub(crate) async fn plain(host: &str, port: u16) -> Result<TcpStream, OutboundError> {
    let connected = TcpStream::connect((host, port)).await;
    let stream =
        connected.map_err(|source| OutboundError::Connect { server: format!("{host}:{port}"), source })?;
    // What goes out is written at once; waiting for more of it helps nobody.
    let _slower = stream.set_nodelay(true);
    Ok(stream)
}

pub(crate) async fn secured(
    stream: TcpStream,
    tls: &TlsConnector,
    host: &str,
    port: u16,
) -> Result<Link, OutboundError> {
    let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(bare)
        .map_err(|_| OutboundError::Address("its host is not a name or an address"))?;
    let shaken = tls.connect(name, stream).await;
    let failed = |source| OutboundError::Tls { server: format!("{host}:{port}"), source };
    shaken.map(|stream| Link::Tls(Box::new(stream))).map_err(failed)
}

impl AsyncRead for Link {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Link {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, from),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, from),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
