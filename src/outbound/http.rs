//! One request and its answer, over HTTP/1.1.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, USER_AGENT};
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::dial::{Link, OutboundError, plain, secured};
use super::trust::{Trust, TrustError, connector};

/// How much, and how long.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Until there is a connection, a TLS handshake included.
    pub connect: Duration,
    /// From then until the answer is whole.
    pub exchange: Duration,
    /// Most bytes of an answer's body.
    pub max_body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), exchange: Duration::from_secs(10), max_body: 1 << 20 }
    }
}

/// Asks servers. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    tls: TlsConnector,
    limits: Limits,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Where a request goes.
struct Target {
    host: String,
    port: u16,
    secure: bool,
}

impl Target {
    fn of(uri: &Uri) -> Result<Self, OutboundError> {
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(OutboundError::Address("it is neither https nor http")),
        };
        let authority = uri.authority().ok_or(OutboundError::Address("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(OutboundError::Address("it holds a user"));
        }
        let host = authority.host().to_owned();
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        Ok(Self { host, port, secure })
    }

    fn server(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// As names are resolved: an IPv6 address without its brackets.
    fn name(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }
}

impl Client {
    /// One that believes these authorities. Reads the machine's where it is told to: not in the middle of anything urgent.
    pub fn new(trust: Trust<'_>, limits: Limits) -> Result<Self, TrustError> {
        Ok(Self { tls: connector(trust, Some(b"http/1.1"))?, limits })
    }

    /// The same with other limits.
    #[must_use]
    pub fn limited(&self, limits: Limits) -> Self {
        Self { tls: self.tls.clone(), limits }
    }

    /// Sends a request with an absolute address and waits for the whole answer, whatever its status. Dropping it closes the
    /// connection.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, OutboundError> {
        let target = Target::of(request.uri())?;
        let late = |after| OutboundError::Late { server: target.server(), after };
        let connected = timeout(self.limits.connect, self.connect(&target)).await;
        let link = connected.map_err(|_| late(self.limits.connect))??;
        let exchanged = timeout(self.limits.exchange, self.exchange(&target, link, request)).await;
        exchanged.map_err(|_| late(self.limits.exchange))?
    }

    async fn connect(&self, target: &Target) -> Result<Link, OutboundError> {
        let stream = plain(target.name(), target.port).await?;
        if target.secure {
            secured(stream, &self.tls, &target.host, target.port).await
        } else {
            Ok(Link::Plain(stream))
        }
    }

    async fn exchange(
        &self,
        target: &Target,
        link: Link,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, OutboundError> {
        let failed = |why: String| OutboundError::Exchange { server: target.server(), why };
        let request = relative(request)?;
        let shaken = http1::handshake(TokioIo::new(link)).await;
        let (mut sender, connection) = shaken.map_err(|error| failed(error.to_string()))?;
        let answer = async {
            let response = sender.send_request(request).await.map_err(|error| failed(error.to_string()))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, self.limits.max_body).collect().await.map_err(|error| {
                match error.downcast_ref::<LengthLimitError>() {
                    Some(_) => OutboundError::TooLong { server: target.server(), most: self.limits.max_body },
                    None => failed(error.to_string()),
                }
            })?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };
        // The connection is carried on beside its one request, in the same task: nobody is left to own it afterwards.
        let carried = async {
            // How it ended, the request tells.
            let _ended = connection.await;
            std::future::pending::<()>().await;
        };
        let (answer, carried) = (pin!(answer), pin!(carried));
        tokio::select! {
            biased;
            answer = answer => answer,
            () = carried => unreachable!("it waits for ever"),
        }
    }
}

/// Who asks, unless the request says.
const AGENT: &str = concat!("rosterd/", env!("CARGO_PKG_VERSION"));

/// As HTTP/1.1 has it: the path in the first line, the host in a header.
fn relative(request: Request<Bytes>) -> Result<Request<Full<Bytes>>, OutboundError> {
    let (mut head, body) = request.into_parts();
    let wrong = |_| OutboundError::Address("its host or path cannot be sent");
    let authority = head.uri.authority().map_or("", http::uri::Authority::as_str);
    head.headers.insert(HOST, HeaderValue::from_str(authority).map_err(wrong)?);
    head.headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
    head.headers.insert(CONTENT_LENGTH, body.len().into());
    let path = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    head.uri = path.parse().map_err(|_| OutboundError::Address("its path cannot be sent"))?;
    Ok(Request::from_parts(head, Full::new(body)))
}

#[cfg(test)]
mod tests;
