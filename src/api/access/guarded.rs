//! The body of a streaming answer which ends when its credential is revoked or its session expires, in gRPC's own way:
//! with a status.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::revoked;
use rosterd_wire::status;
use tokio::time::{Instant, Sleep, sleep_until};

/// A body that ends early once its token is cancelled.
pub struct Guarded {
    body: Option<Body>,
    revoked: Pin<Box<WaitForCancellationFutureOwned>>,
    over: Option<Pin<Box<Sleep>>>,
}

impl Guarded {
    /// Wraps `body`, which may continue at most until `until`.
    pub fn new(body: Body, token: CancellationToken, until: Option<Instant>) -> Self {
        let over = until.map(|until| Box::pin(sleep_until(until)));
        Self { body: Some(body), revoked: Box::pin(token.cancelled_owned()), over }
    }

    fn poll_ended(&mut self, cx: &mut Context<'_>) -> bool {
        self.revoked.as_mut().poll(cx).is_ready()
            || self.over.as_mut().is_some_and(|over| over.as_mut().poll(cx).is_ready())
    }
}

impl http_body::Body for Guarded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.body.is_some() && self.poll_ended(cx) {
            self.body = None;
            let mut trailers = http::HeaderMap::new();
            // Fails only if the message is not a valid header, and ours is.
            let _ = status::status(&revoked()).add_header(&mut trailers);
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), http_body::Body::size_hint)
    }
}
