//! The layers that every request passes, pages and gRPC alike: observe (metrics, panics), origin, limits, auth. In this
//! order, so that everything is counted and an unauthenticated request costs as little as possible. Then, for gRPC,
//! `deadlines`; around these, for plain HTTP, `web`, and around that, for `/api`, `aside`.

pub(crate) mod aside;
pub mod auth;
pub mod deadlines;
pub mod limits;
pub mod methods;
pub mod observe;
pub mod origin;
pub mod takes;
pub(crate) mod web;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, header};

use rosterd_session::code::Refusal;
use rosterd_wire::status;

/// Whether a request is gRPC, and expects a gRPC answer.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// A refusal in the format that the client reads.
fn refused(grpc: bool, refusal: &Refusal) -> Response {
    if grpc {
        return status::status(refusal).into_http();
    }
    let mut response = Response::new(Body::from(format!("{refusal}\n")));
    // For layers that write it in another format.
    response.extensions_mut().insert(refusal.clone());
    *response.status_mut() = status::http(refusal.code.class());
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}
