//! Refusals in the format of RFC 9457: `application/problem+json` with the code, what is wrong, and a page that says
//! what to do.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use rosterd_session::code::{Code, Refusal};
use rosterd_wire::status;
use serde::Serialize;
use tower_http::request_id::RequestId;
use utoipa::ToSchema;

use super::table::is_api;

pub(super) const KIND: &str = "application/problem+json";

/// A refusal.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Problem {
    /// Where the code is explained, relative to this server.
    #[serde(rename = "type")]
    kind: String,
    /// The code, for programs: one of the table of error codes.
    code: &'static str,
    /// What the code means.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What is wrong here: the field, the value, the remedy.
    detail: String,
    /// The id of the request, as in the header x-request-id and in the coordinator's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    /// Boxed: a refusal is passed by value everywhere, and few have any.
    #[serde(skip)]
    heads: Box<Heads>,
}

/// Additional headers of the answer.
#[derive(Debug, Clone, Default)]
struct Heads {
    allow: Option<&'static str>,
    /// In seconds.
    retry_after: Option<u64>,
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("/api/errors/{code}"),
            code: code.as_str(),
            title: code.remedy().trim(),
            status: status::http(code.class()).as_u16(),
            detail: detail.into(),
            request_id: None,
            heads: Box::default(),
        }
    }

    /// The code.
    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    /// The same, to be retried after this many seconds.
    #[must_use]
    pub(crate) fn after(mut self, seconds: u64) -> Self {
        self.heads.retry_after = Some(seconds);
        self
    }

    /// An invalid field or parameter.
    pub(crate) fn invalid(field: &str, what: impl std::fmt::Display) -> Self {
        Self::new(Code::RequestInvalid, format!("{field}: {what}"))
    }

    /// The same under another HTTP status.
    #[must_use]
    pub(crate) fn under(self, status: StatusCode) -> Self {
        Self { status: status.as_u16(), ..self }
    }

    /// The path does not support the method.
    pub(crate) fn method(path: &str, allowed: &'static str) -> Self {
        let what = format!("{path} takes {allowed}: send the request with that method");
        let mut problem = Self::new(Code::RequestInvalid, what).under(StatusCode::METHOD_NOT_ALLOWED);
        problem.heads.allow = Some(allowed);
        problem
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code, refusal.message)
    }
}

impl Problem {
    fn body(&self) -> Body {
        Body::from(serde_json::to_vec(self).unwrap_or_default())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(self.body());
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(KIND));
        if let Some(seconds) = self.heads.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(allowed) = self.heads.allow {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
        }
        // For the layer, which knows the request.
        response.extensions_mut().insert(self);
        response
    }
}

/// Whether an answer is a problem already.
pub(crate) fn is_one(response: &Response) -> bool {
    response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == KIND)
}

/// A layer around all others: whatever they, the router or a library refuse below `/api` becomes a problem as well, and
/// names its request.
pub(crate) async fn layer(request: Request, next: Next) -> Response {
    let api = is_api(request.uri().path());
    let id = request.extensions().get::<RequestId>().cloned();
    let response = next.run(request).await;
    if !api || !(response.status().is_client_error() || response.status().is_server_error()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let problem = match (parts.extensions.remove::<Problem>(), parts.extensions.remove::<Refusal>()) {
        (Some(problem), _) => problem,
        (None, Some(refusal)) => Problem::from(refusal).under(parts.status),
        (None, None) => foreign(parts.status, body).await,
    };
    let id = id.as_ref().and_then(|id| id.header_value().to_str().ok()).map(str::to_owned);
    let problem = Problem { request_id: id, ..problem };
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(KIND));
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, problem.body())
}

/// A refusal by a library, with its own text.
async fn foreign(status: StatusCode, body: Body) -> Problem {
    let text = to_bytes(body, 2048).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let code = if status.is_server_error() { Code::Defect } else { Code::RequestInvalid };
    let what = if text.trim().is_empty() { "see /api for what it takes" } else { text.trim() };
    Problem::new(code, format!("the request cannot be taken: {what}")).under(status)
}
