//! Requests to `/api` are answered on threads of lower priority than runs: reading, serializing JSON, compressing.

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderValue, header};

use super::refused;
use crate::rest::is_api;
use rosterd_runtime::aside::Aside;
use rosterd_session::code::{Code, Refusal};

/// The layer. Probes and the files of the console are answered where they arrive.
pub(crate) async fn layer(State(aside): State<Aside>, request: Request, next: Next) -> Response {
    if !is_api(request.uri().path()) {
        return next.run(request).await;
    }
    aside.run(async { whole(next.run(request).await).await }).await
}

/// Reads the whole body, so that the sending task need not. Bodies that are not JSON may have no end.
async fn whole(response: Response) -> Response {
    let is_json = |kind: &HeaderValue| kind.as_bytes().starts_with(b"application/");
    if !response.headers().get(header::CONTENT_TYPE).is_some_and(is_json) {
        return response;
    }
    let (head, body) = response.into_parts();
    match to_bytes(body, usize::MAX).await {
        Ok(body) => Response::from_parts(head, Body::from(body)),
        Err(error) => {
            tracing::error!(%error, "an answer cannot be made: this is a defect, report it");
            refused(false, &Refusal::new(Code::Defect, "the answer cannot be made"))
        }
    }
}
