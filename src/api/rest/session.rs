//! Logging in and out, for people in a browser: exchanges a credential for a cookie. Programs send their credential
//! with each request and need none of this.

use std::net::{IpAddr, Ipv4Addr};

use axum::Extension;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, header};
use rosterd_session::code::Code;
use serde::Deserialize;
use utoipa::ToSchema;

use super::desk::{SessionView, throttled};
use super::problem::Problem;
use super::{Json, JsonResult, Shared, Who};
use crate::access::session::{Holder, Session};
use crate::connection::Remote;

/// A login is a credential and its field.
const LARGEST: usize = 4096;

/// A login.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LoginRequest {
    /// The secret: `rosterd_…`.
    credential: String,
}

#[utoipa::path(get, path = "/api/session", tag = "session", responses((status = 200, body = SessionView)))]
/// Shows the caller, and the ways to log in. Requires no credential.
pub(super) async fn get_session(
    State(rest): Shared,
    who: Who,
    session: Option<Extension<Session>>,
) -> JsonResult<SessionView> {
    Ok(Json(rest.desk.view(who.0.as_ref(), session.as_deref())))
}

#[utoipa::path(post, path = "/api/session", tag = "session", request_body(content = LoginRequest, content_type = "application/json"), responses((status = 200, body = SessionView, description = "The cookie rosterd_session is set: HttpOnly, SameSite=Strict."), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem), (status = 429, body = Problem)))]
/// Logs in: accepts a credential and sets a cookie, for browsers.
pub(super) async fn log_in(
    State(rest): Shared,
    remote: Option<Extension<Remote>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let desk = &rest.desk;
    let Some(sessions) = desk.sessions.as_ref().filter(|_| !desk.credentials.is_open()) else {
        let what = "this coordinator has no credentials and does not authenticate callers: there is nothing to log in to";
        return Err(Problem::new(Code::RequestInvalid, what));
    };
    let peer = peer(remote);
    if let Some(seconds) = desk.wait(peer) {
        return Err(Problem::from(throttled(seconds)).after(seconds));
    }
    let request = login_request(&headers, body).await?;
    let now = rest.clock.wall();
    let checked = desk.authenticate(&request.credential, now);
    let who = checked.inspect_err(|problem| desk.failed(sessions, peer, problem.code()))?;
    let Some(id) = crate::access::secret::Secret::parse(request.credential.trim()) else {
        return Err(Problem::invalid("credential", "it is not one"));
    };
    let session = sessions.begin(Holder::Secret(id.id().to_owned()), now)?;
    desk.logged_in(sessions, peer, &who.name).await;
    let mut response = Json(desk.view(Some(&who), Some(&session))).into_response();
    let cookie = sessions.cookie(&session, now, forwarded(&headers));
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

async fn login_request(headers: &HeaderMap, body: Body) -> Result<LoginRequest, Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.to_ascii_lowercase().starts_with("application/json") {
        let what = format!("{kind:?}: send {{\"credential\": \"rosterd_…\"}} as application/json");
        return Err(Problem::invalid("content-type", what));
    }
    let bytes = to_bytes(body, LARGEST).await;
    let bytes = bytes
        .map_err(|_| Problem::invalid("body", format!("it is longer than {LARGEST} bytes, or broke off")))?;
    // The error's text could contain parts of a secret.
    serde_json::from_slice(&bytes)
        .map_err(|_| Problem::invalid("body", "it is not {\"credential\": \"rosterd_…\"}"))
}

#[utoipa::path(delete, path = "/api/session", tag = "session", responses((status = 204, description = "The session, if there was one, has ended, and its cookie is removed.")))]
/// Logs out.
pub(super) async fn log_out(
    State(rest): Shared,
    session: Option<Extension<Session>>,
    headers: HeaderMap,
) -> Response {
    let mut response = http::StatusCode::NO_CONTENT.into_response();
    let Some(sessions) = &rest.desk.sessions else { return response };
    if let Some(session) = session {
        sessions.end(&session, rest.clock.wall());
    }
    response.headers_mut().insert(header::SET_COOKIE, sessions.no_cookie(forwarded(&headers)));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The peer of the connection; unspecified without one.
pub(crate) fn peer(remote: Option<Extension<Remote>>) -> IpAddr {
    remote.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |remote| remote.address.ip())
}

/// Whether a proxy says that the browser uses TLS. Trusted only to set a stricter cookie.
pub(crate) fn forwarded(headers: &HeaderMap) -> bool {
    headers.get("x-forwarded-proto").is_some_and(|scheme| scheme.as_bytes().eq_ignore_ascii_case(b"https"))
}
