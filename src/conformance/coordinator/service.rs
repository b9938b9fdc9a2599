//! The worker's service, by hand around a codec of our own: each stream is handed to the script.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, stream};
use rosterd_wire::proto::v1::SessionRequest;
use rosterd_wire::proto::v1::session_request::Frame;
use tokio::sync::mpsc;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, StreamingService};
use tonic::{Code, Request, Response, Status, Streaming};

use super::acknowledging::Acknowledging;
use super::codec::FramesInBytesOut;
use super::frames;
use super::stream::{Connection, OUTGOING, Out, Stream};
use crate::event::{Events, WorkerEvent};
use crate::owned::Tasks;

const SESSION: &str = "/rosterd.v1.WorkerService/Session";

/// What one connection leads to.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) at: usize,
    pub(super) events: Events,
    pub(super) streams: Arc<AtomicUsize>,
    pub(super) acknowledging: Acknowledging,
    pub(super) connection: Connection,
    pub(super) tasks: Tasks,
}

impl Service<http::Request<tonic::body::Body>> for Door {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let door = self.clone();
        Box::pin(async move {
            if request.uri().path() != SESSION {
                return Ok(Status::unimplemented("only the worker's stream is served here").into_http());
            }
            Ok(Grpc::new(FramesInBytesOut).streaming(door, request).await)
        })
    }
}

type WorkerFrames = BoxStream<'static, Result<Bytes, Status>>;

impl StreamingService<SessionRequest> for Door {
    type Response = Bytes;
    type ResponseStream = WorkerFrames;
    type Future = BoxFuture<Response<WorkerFrames>, Status>;

    fn call(&mut self, request: Request<Streaming<SessionRequest>>) -> Self::Future {
        let door = self.clone();
        Box::pin(async move { Ok(Response::new(door.opened(request).await)) })
    }
}

impl Door {
    /// Tells of the stream and of what comes on it; gives what the script writes.
    async fn opened(self, request: Request<Streaming<SessionRequest>>) -> WorkerFrames {
        let (out, outgoing) = mpsc::channel(OUTGOING);
        let number = self.streams.fetch_add(1, Ordering::SeqCst);
        let authorization = request.metadata().get("authorization");
        let stream = Stream {
            number,
            at: self.at,
            authorization: authorization.and_then(|value| value.to_str().ok()).map(ToOwned::to_owned),
            out: out.clone(),
            connection: self.connection.clone(),
        };
        self.events.tell(WorkerEvent::Opened(stream)).await;
        let reader = self.read(number, request.into_inner(), out);
        self.tasks.spawn(reader);
        let frames = stream::unfold(Some(outgoing), |outgoing| async move {
            let mut outgoing = outgoing?;
            match outgoing.recv().await? {
                Out::Frame(bytes) => Some((Ok(bytes), Some(outgoing))),
                Out::End(None) => None,
                Out::End(Some(code)) => Some((Err(status(code)), None)),
            }
        });
        frames.boxed()
    }

    fn read(
        &self,
        number: usize,
        mut incoming: Streaming<SessionRequest>,
        out: mpsc::Sender<Out>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (events, acknowledging) = (self.events.clone(), self.acknowledging.clone());
        async move {
            let how = loop {
                let frame = match incoming.message().await {
                    Ok(Some(SessionRequest { frame })) => frame,
                    Ok(None) => break "by the worker".to_owned(),
                    Err(status) => break format!("{:?}: {}", status.code(), status.message()),
                };
                if let Some(Frame::Heartbeat(beat)) = &frame
                    && acknowledging.is_on()
                {
                    let ack = frames::heartbeat_ack(beat.sequence);
                    // Where it is full the script floods, and the next one says the same.
                    let _ = out.try_send(Out::Frame(frames::encode(ack)));
                }
                events.tell(WorkerEvent::Frame(number, frame)).await;
            };
            events.tell(WorkerEvent::Closed(number, how)).await;
            let _ = out.send(Out::End(None)).await;
        }
    }
}

fn status(code: Code) -> Status {
    Status::new(code, "as the script says")
}
