//! The layers for plain HTTP beside those that it shares with gRPC, all of them from tower-http: an id for each
//! request, a span, compression, a deadline, a limit for the body. If the library refuses a request without a message,
//! it is given one here, with a code.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode};
use tower::ServiceBuilder;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, Predicate as _, SizeAbove};
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::request_id::{MakeRequestId, PropagateRequestIdLayer, RequestId, SetRequestIdLayer};
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::{DefaultOnResponse, TraceLayer};
use tower_http::{CompressionLevel, LatencyUnit};
use tracing::Level;

use super::methods::Methods;
use super::refused;
use crate::rest::problem;
use rosterd_session::code::{Code, Refusal};

/// The header of the id, in requests and answers.
pub(crate) const ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longer ones are replaced.
const LONGEST_ID: usize = 128;
/// Shorter answers are not worth compressing.
const WORTH: u64 = 512;

/// The layers directly around the handlers: the deadline, and the size limit of the body.
pub(crate) fn bounded(router: Router, time: Duration, bytes: usize) -> Router {
    let bounds = ServiceBuilder::new()
        .layer(from_fn(explain))
        .layer(TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, time))
        .layer(RequestBodyLimitLayer::new(bytes));
    router.layer(axum::extract::DefaultBodyLimit::disable()).layer(bounds)
}

/// The layers around all others. `name`: unique to this run of this coordinator.
pub(crate) fn around(router: Router, methods: Arc<Methods>, name: &str) -> Router {
    let span = move |request: &Request| {
        let id = request.extensions().get::<RequestId>().and_then(|id| id.header_value().to_str().ok());
        let path = methods.label(request.uri().path());
        tracing::info_span!("request", id, method = %request.method(), path)
    };
    let worth = DefaultPredicate::new().and(SizeAbove::new(WORTH));
    let layers = ServiceBuilder::new()
        .map_request(fit)
        .layer(SetRequestIdLayer::new(ID, Numbered::new(name)))
        .layer(PropagateRequestIdLayer::new(ID))
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(worth))
        .layer(
            TraceLayer::new_for_http()
                .make_span_with(span)
                .on_request(())
                .on_response(DefaultOnResponse::new().level(Level::DEBUG).latency_unit(LatencyUnit::Micros))
                // Whatever refuses a request logs and counts it.
                .on_failure(()),
        )
        .layer(from_fn(problem::layer));
    router.layer(layers)
}

/// Removes an id that should not be shown or kept, since a header can hold any bytes.
fn fit(mut request: Request) -> Request {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte);
    let is_fit = |id: &HeaderValue| (1..=LONGEST_ID).contains(&id.len()) && id.as_bytes().iter().all(plain);
    if request.headers().get(ID).is_some_and(|id| !is_fit(id))
        || request.headers().get_all(ID).iter().count() > 1
    {
        request.headers_mut().remove(ID);
    }
    request
}

/// Ids of one run of one coordinator: its mark and a number, without randomness.
#[derive(Debug, Clone)]
struct Numbered {
    mark: u32,
    next: Arc<AtomicU64>,
}

impl Numbered {
    fn new(name: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let mark = u32::try_from(hasher.finish() >> 32).unwrap_or_default();
        Self { mark, next: Arc::default() }
    }
}

impl MakeRequestId for Numbered {
    fn make_request_id<B>(&mut self, _: &http::Request<B>) -> Option<RequestId> {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        HeaderValue::from_str(&format!("{:08x}-{number}", self.mark)).ok().map(RequestId::new)
    }
}

/// The library's own refusals have no message.
async fn explain(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let refusal = match response.status() {
        _ if response.extensions().get::<Refusal>().is_some() || problem::is_one(&response) => {
            return response;
        }
        StatusCode::GATEWAY_TIMEOUT => Refusal::new(
            Code::DeadlineExceeded,
            "it took longer than request_timeout: what it would have changed may yet be changed",
        ),
        StatusCode::PAYLOAD_TOO_LARGE => Refusal::new(
            Code::MessageTooLarge,
            "the body is longer than max_receive_bytes: send less at a time, or raise that on the coordinator",
        ),
        _ => return response,
    };
    let mut answer = refused(false, &refusal);
    *answer.status_mut() = response.status();
    answer
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn an_id_that_is_not_fit_to_be_shown_is_replaced() {
        let kept = |ids: &[&[u8]]| {
            let request = ids.iter().fold(Request::builder(), |request, id| request.header(ID, *id));
            let request = fit(request.body(Body::empty()).unwrap());
            request.headers().get(ID).map(|id| id.as_bytes().to_vec())
        };
        let good = b"01J9-a_b.c:d/e+f=@x";
        assert_eq!(kept(&[good]).as_deref(), Some(&good[..]));
        for bad in [&b""[..], b"a b", b"a\xff", b"<a>", b"a\"", &[b'a'; LONGEST_ID + 1]] {
            assert_eq!(kept(&[bad]), None, "{bad:?}");
        }
        assert_eq!(kept(&[b"a", b"b"]), None, "two ids are ambiguous");
    }

    #[test]
    fn ids_are_of_one_run_and_follow_one_another() {
        let id = |made: &mut Numbered| {
            made.make_request_id(&http::Request::new(()))
                .unwrap()
                .into_header_value()
                .to_str()
                .unwrap()
                .to_owned()
        };
        let (mut here, mut there) = (Numbered::new("a-1"), Numbered::new("a-2"));
        let (first, second) = (id(&mut here), id(&mut here.clone()));
        assert!(
            first.ends_with("-1") && second.ends_with("-2") && first[..8] == second[..8],
            "{first} {second}"
        );
        assert_ne!(first, id(&mut there));
        assert_eq!(first, id(&mut Numbered::new("a-1")), "a simulation is repeatable");
    }
}
