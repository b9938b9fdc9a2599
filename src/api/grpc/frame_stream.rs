//! The body of the answer to a worker: its frames, then the end of the stream.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use rosterd_wire::proto::v1::SessionResponse;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::DropGuard;
use tonic::Status;

/// How a stream ended; `Ok`: orderly, or the worker is gone.
pub(super) type End = Result<(), Status>;

/// The frames for a worker, then the end of the stream.
pub struct FrameStream {
    queue: mpsc::Receiver<Box<SessionResponse>>,
    ended: oneshot::Receiver<End>,
    _gone: DropGuard,
}

impl FrameStream {
    /// `gone` is dropped with the stream: nobody reads it any longer.
    pub(super) fn new(
        queue: mpsc::Receiver<Box<SessionResponse>>,
        ended: oneshot::Receiver<End>,
        gone: DropGuard,
    ) -> Self {
        Self { queue, ended, _gone: gone }
    }
}

impl Stream for FrameStream {
    type Item = Result<SessionResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(frame) = ready!(self.queue.poll_recv(cx)) {
            return Poll::Ready(Some(Ok(*frame)));
        }
        if self.ended.is_terminated() {
            return Poll::Ready(None);
        }
        Poll::Ready(match ready!(Pin::new(&mut self.ended).poll(cx)) {
            Ok(Ok(())) => None,
            Ok(Err(status)) => Some(Err(status)),
            // Its task panicked, which its owner has counted and logged.
            Err(_) => Some(Err(Status::internal("the stream was lost to a defect: connect again"))),
        })
    }
}
