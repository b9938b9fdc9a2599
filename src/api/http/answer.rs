//! The answers of plain pages: their headers, and a refusal as text.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use rosterd_session::code::Refusal;
use rosterd_wire::status;

use crate::console::secure;

pub(super) const TEXT: &str = "text/plain; charset=utf-8";

pub(super) fn refused(refusal: &Refusal) -> Response {
    answer(status::http(refusal.code.class()), TEXT, format!("{refusal}\n"))
}

pub(super) fn answer(code: StatusCode, kind: &'static str, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    secure(headers, "default-src 'none'; frame-ancestors 'none'");
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
