//! How a worker reaches a coordinator: the seam between the conversation and the network.
//!
//! Production uses [`TonicConnector`]; a simulation or a test provides its own channels. A connector opens one stream
//! at a time and does not inspect its frames.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};
use tokio::sync::mpsc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};

use crate::access::{Access, explain, innermost};
use crate::error::Result;
use crate::link_error::LinkError;
use crate::proto::worker_service_client::WorkerServiceClient;
use crate::proto::{SessionRequest, SessionResponse};

/// Opens streams to coordinators.
pub trait Connector: Send + Sync + 'static {
    /// Opens one. `address` is as configured, or as a Welcome named it. The first frame will be the Hello; do not wait
    /// for it, or for an answer. Dropping the [`Wire`] closes the stream.
    fn connect(
        &self,
        address: &str,
    ) -> impl Future<Output = std::result::Result<Wire, LinkError>> + Send + 'static;
}

/// The two halves of an open stream.
pub struct Wire {
    /// Frames to the coordinator. If the channel is full, the worker queues; if it is closed, `responses` ends.
    pub requests: mpsc::Sender<SessionRequest>,
    /// Frames from the coordinator. The end, or an error, is the end of the stream.
    pub responses: BoxStream<'static, std::result::Result<SessionResponse, LinkError>>,
}

/// An error of the operating system without its number: `connection refused`.
fn without_number(error: String) -> String {
    match error.split_once(" (os error ") {
        Some((text, _)) => text.to_lowercase(),
        None => error,
    }
}

/// Many small frames may lie unread for a moment; HTTP/2 ends a connection whose window they fill.
const CONNECTION_WINDOW: u32 = 32 * 1024 * 1024;
const STREAM_WINDOW: u32 = 1024 * 1024;
const MESSAGE_BYTES: usize = 4 * 1024 * 1024;
const KEEPALIVE_EVERY: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Frames between the conversation and HTTP/2; when full, frames wait in the driver, whose queue is bounded.
const QUEUE: usize = 256;

/// How an address becomes a channel.
type Dial = dyn Fn(Endpoint) -> BoxFuture<'static, std::result::Result<Channel, tonic::transport::Error>>
    + Send
    + Sync;

/// gRPC over TCP, with TLS for `https://` addresses.
#[derive(Clone, Default)]
pub struct TonicConnector {
    access: Access,
    authorization: Option<MetadataValue<Ascii>>,
    /// `None`: over TCP, as always without the feature `embedding`.
    dial: Option<Arc<Dial>>,
}

impl fmt::Debug for TonicConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_its_own = self.dial.is_some();
        f.debug_struct("TonicConnector").field("access", &self.access).field("dials", &of_its_own).finish()
    }
}

impl TonicConnector {
    /// Every stream uses `access`.
    pub fn new(access: Access) -> Result<Self> {
        let authorization = access.authorization()?;
        Ok(Self { access, authorization, dial: None })
    }

    /// Through another network than the system's: a simulated one, a tunnel. The endpoint has all timeouts and limits
    /// set; [`Endpoint::connect_with_connector`] keeps them.
    #[cfg(feature = "embedding")]
    pub fn dialing<F, Fut>(mut self, dial: F) -> Self
    where
        F: Fn(Endpoint) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = std::result::Result<Channel, tonic::transport::Error>> + Send + 'static,
    {
        self.dial = Some(Arc::new(move |endpoint| dial(endpoint).boxed()));
        self
    }

    fn endpoint(&self, address: &str) -> std::result::Result<Endpoint, LinkError> {
        Ok(self
            .access
            .endpoint(address)?
            .tcp_nodelay(true)
            .connect_timeout(CONNECT_TIMEOUT)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_stream_window_size(STREAM_WINDOW)
            .http2_keep_alive_interval(KEEPALIVE_EVERY)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true))
    }
}

impl Connector for TonicConnector {
    fn connect(
        &self,
        address: &str,
    ) -> impl Future<Output = std::result::Result<Wire, LinkError>> + Send + 'static {
        let endpoint = self.endpoint(address);
        let (access, authorization) = (self.access.clone(), self.authorization.clone());
        let (address, dial) = (address.to_owned(), self.dial.clone());
        async move {
            let endpoint = endpoint?;
            let dialed = match dial {
                Some(dial) => dial(endpoint).await,
                None => endpoint.connect().await,
            };
            let channel = dialed.map_err(|error| {
                let plain = || LinkError::lost(without_number(innermost(&error)));
                explain(&address, &error).unwrap_or_else(plain)
            })?;
            let (requests, mut queue) = mpsc::channel(QUEUE);
            let mut request = tonic::Request::new(stream::poll_fn(move |context| queue.poll_recv(context)));
            if let Some(authorization) = authorization {
                request.metadata_mut().insert("authorization", authorization);
            }
            let mut client = WorkerServiceClient::new(channel.clone())
                .max_decoding_message_size(MESSAGE_BYTES)
                .max_encoding_message_size(MESSAGE_BYTES);
            // Called when the responses are first read: a coordinator may hold its headers back until the Hello.
            let call = async move {
                let why = |status: tonic::Status| {
                    access.explain_call(&address, &status).unwrap_or_else(|| LinkError::answered(&status))
                };
                let frames = client.session(request).await.map_err(why)?.into_inner();
                Ok(frames.map_err(|status| LinkError::answered(&status)))
            };
            let responses = call.try_flatten_stream().map(move |frame| {
                let _as_long_as_the_stream = &channel;
                frame
            });
            Ok(Wire { requests, responses: responses.boxed() })
        }
        .boxed()
    }
}
