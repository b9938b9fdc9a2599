//! Counts every request by its method and outcome, and turns a panic of a handler into an answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt as _;
use http::Method;

use super::methods::Methods;
use super::{is_grpc, refused};
use crate::console::is_for;
use rosterd_runtime::clock::SharedClock;
use rosterd_runtime::tasks::panic_text;
use rosterd_runtime::telemetry::Metrics;
use rosterd_session::code::{Code, Refusal};

/// The dependencies.
pub struct Observer {
    /// The closed set of labels.
    pub methods: Arc<Methods>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The clock that measures latencies.
    pub clock: SharedClock,
}

/// The layer.
pub async fn layer(State(observer): State<Arc<Observer>>, request: Request, next: Next) -> Response {
    let (grpc, headers) = (is_grpc(request.headers()), request.headers());
    let console = is_for((request.method(), request.uri(), headers));
    let method = if console { "console".to_owned() } else { observer.methods.label(request.uri().path()) };
    let verb = verb(request.method());
    let begin = observer.clock.mono();
    let response = AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|panic| {
        observer.metrics.handler_panics.inc();
        tracing::error!(method, why = panic_text(&*panic), "a handler panicked: this is a defect, report it");
        broken(grpc)
    });
    let status = if grpc {
        // A status in the trailers belongs to an answer that has started successfully.
        let header = response.headers().get("grpc-status").and_then(|status| status.to_str().ok());
        grpc_code(header.unwrap_or("0"))
    } else {
        response.status().as_u16().to_string()
    };
    let metrics = &observer.metrics;
    let seconds = observer.clock.mono().since(begin).as_secs_f64();
    let (timed, labels) = if grpc {
        let called = method.trim_start_matches('/').to_owned();
        let labels = vec![
            ("rpc_system_name", "grpc".to_owned()),
            ("rpc_method", called),
            ("rpc_response_status_code", status.clone()),
        ];
        (&metrics.rpc_seconds, labels)
    } else {
        let labels = vec![
            ("http_request_method", verb.to_owned()),
            ("http_route", method.clone()),
            ("http_response_status_code", status.clone()),
        ];
        (&metrics.http_seconds, labels)
    };
    timed.get_or_create(&labels).observe(seconds);
    metrics.requests.get_or_create(&vec![("method", method), ("status", status)]).inc();
    response
}

/// One of a closed set: `_OTHER`, as the conventions have it, for an unknown method.
fn verb(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE"];
    known.into_iter().find(|known| method.as_str() == *known).unwrap_or("_OTHER")
}

/// The name of a gRPC status: `NOT_FOUND` for 5.
fn grpc_code(status: &str) -> String {
    let name = format!("{:?}", tonic::Code::from_bytes(status.as_bytes()));
    let mut code = String::with_capacity(name.len() + 2);
    for c in name.chars() {
        if c.is_ascii_uppercase() && !code.is_empty() {
            code.push('_');
        }
        code.push(c.to_ascii_uppercase());
    }
    code
}

fn broken(grpc: bool) -> Response {
    const WHAT: &str = "a defect in this coordinator; its log says more";
    if grpc {
        return tonic::Status::internal(WHAT).into_http();
    }
    refused(false, &Refusal::new(Code::Defect, WHAT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_the_name_of_their_grpc_code() {
        let named = ["0", "3", "5", "16", "99"].map(grpc_code);
        assert_eq!(named, ["OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNAUTHENTICATED", "UNKNOWN"]);
    }
}
