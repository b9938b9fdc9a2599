//! Refusals as RFC 9457 has them: `application/problem+json` with the code, what is wrong, and a page that says what to do.

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use rosterd_session::code::{Code, Refusal};
use rosterd_wire::status;
use serde::Serialize;
use utoipa::ToSchema;

const KIND: &str = "application/problem+json";

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
    #[serde(skip)]
    allow: Option<&'static str>,
    /// In seconds.
    #[serde(skip)]
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
            allow: None,
            retry_after: None,
        }
    }

    /// The code.
    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    /// The same, to be tried again after so many seconds.
    #[must_use]
    pub(crate) fn after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// A field or parameter that cannot be.
    pub(crate) fn invalid(field: &str, what: impl std::fmt::Display) -> Self {
        Self::new(Code::RequestInvalid, format!("{field}: {what}"))
    }

    /// The same under another HTTP status.
    #[must_use]
    pub(crate) fn under(self, status: StatusCode) -> Self {
        Self { status: status.as_u16(), ..self }
    }

    /// The path is asked with another method.
    pub(crate) fn method(path: &str, allowed: &'static str) -> Self {
        let what = format!("{path} takes {allowed}: send the request with that method");
        Self {
            allow: Some(allowed),
            ..Self::new(Code::RequestInvalid, what).under(StatusCode::METHOD_NOT_ALLOWED)
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code, refusal.message)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(serde_json::to_vec(&self).unwrap_or_default()));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(KIND));
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(allowed) = self.allow {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
        }
        response
    }
}

/// A layer around all others: what they refuse of `/api` is a problem as well.
pub(crate) async fn layer(request: Request, next: Next) -> Response {
    let api = super::is_api(request.uri().path());
    let response = next.run(request).await;
    if !api {
        return response;
    }
    let Some(refusal) = response.extensions().get::<Refusal>().cloned() else { return response };
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(header::CONTENT_TYPE);
    parts.headers.remove(header::CONTENT_LENGTH);
    let mut problem = Problem::from(refusal).into_response();
    let kind = problem.headers_mut().remove(header::CONTENT_TYPE);
    parts.headers.extend(kind.map(|kind| (header::CONTENT_TYPE, kind)));
    Response::from_parts(parts, problem.into_body())
}
