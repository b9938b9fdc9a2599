//! How much is carried out at a time: what is too much is refused at once and waits in no queue. Calls count
//! until their answer's head, streams until their end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::methods::Methods;
use super::{is_grpc, refused};
use rosterd_runtime::telemetry::Metrics;
use rosterd_session::code::{Code, Refusal};

/// Places for requests.
pub struct Limits {
    methods: Arc<Methods>,
    calls: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    metrics: Arc<Metrics>,
}

impl Limits {
    /// At most so many calls and streams at a time.
    pub fn new(methods: Arc<Methods>, calls: usize, streams: usize, metrics: Arc<Metrics>) -> Arc<Self> {
        let [calls, streams] = [calls, streams].map(|most| Arc::new(Semaphore::new(most)));
        Arc::new(Self { methods, calls, streams, metrics })
    }
}

/// The layer.
pub async fn layer(State(limits): State<Arc<Limits>>, request: Request, next: Next) -> Response {
    let streams = limits.methods.streams(request.uri().path());
    let places = if streams { &limits.streams } else { &limits.calls };
    let Ok(place) = places.clone().try_acquire_owned() else {
        let what = if streams { "streams" } else { "requests" };
        limits.metrics.refused.get_or_create(&[("code", Code::Overloaded.as_str())]).inc();
        let what = format!("this coordinator has as many {what} as it takes: try another one, or later");
        return refused(is_grpc(request.headers()), &Refusal::new(Code::Overloaded, what));
    };
    let response = next.run(request).await;
    if streams { response.map(|body| Body::new(Placed { body, _place: place })) } else { response }
}

/// A body that holds its place until it has ended.
struct Placed {
    body: Body,
    _place: OwnedSemaphorePermit,
}

impl http_body::Body for Placed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
