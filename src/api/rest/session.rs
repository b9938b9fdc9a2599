//! Logging in and out, for people in a browser: a credential becomes a cookie. Programs send their credential with each request
//! and need none of this.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, header};
use rosterd_domain::time::Time;
use rosterd_runtime::clock::SharedClock;
use rosterd_runtime::telemetry::Metrics;
use rosterd_session::code::{Code, Refusal};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::problem::Problem;
use super::shape::time;
use super::{Answer, Json, Shared, Who};
use crate::access::attempts::Attempts;
use crate::access::provider::Provider;
use crate::access::session::{Holder, Session, Sessions};
use crate::access::{Credentials, Principal};
use crate::connection::Remote;
use crate::history::History;
use crate::layers::methods::{Access, Role};

/// A login is a credential and its field.
const LARGEST: usize = 4096;

/// What logging in takes.
pub(crate) struct Desk {
    pub(crate) credentials: Arc<Credentials>,
    /// None: nobody can log in here.
    pub(crate) sessions: Option<Arc<Sessions>>,
    /// None: by credentials alone.
    pub(crate) provider: Option<Arc<dyn Provider>>,
    pub(crate) attempts: Attempts,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: SharedClock,
    pub(crate) history: Arc<dyn History>,
}

/// Who asks, and how one can log in.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionView {
    /// Whether who asks is known, or nobody needs to be: then `/api` may be looked at.
    authenticated: bool,
    /// Whether credentials are asked for at all.
    login_required: bool,
    /// The credential's name; null where nobody is known.
    principal: Option<String>,
    /// worker, viewer, operator or admin.
    role: Option<&'static str>,
    /// Names and patterns of the jobs that may be changed.
    jobs: Vec<String>,
    /// When the session ends; null without one: the request itself showed a credential or a certificate.
    expires_at: Option<String>,
    /// To be sent as X-CSRF-Token with requests that change something; null without a session.
    csrf_token: Option<String>,
    /// The ways to log in.
    logins: Vec<Login>,
}

/// A way to log in.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Login {
    /// `credential`: POST it here. `oidc`: send the browser to `href`.
    kind: &'static str,
    /// An address, relative to the console's; with `?to=` a page to go on with.
    href: Option<&'static str>,
    /// How people know the provider.
    name: Option<String>,
}

/// A login.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Given {
    /// The secret: `rosterd_…`.
    credential: String,
}

impl Desk {
    fn view(&self, who: Option<&Principal>, session: Option<&Session>) -> SessionView {
        let open = self.credentials.is_open();
        let mut logins = Vec::new();
        if self.sessions.is_some() && !open {
            logins.push(Login { kind: "credential", href: None, name: None });
            let at = |provider: &Arc<dyn Provider>| Login {
                kind: "oidc",
                href: Some("login/oidc"),
                name: Some(provider.name().to_owned()),
            };
            logins.extend(self.provider.as_ref().map(at));
        }
        let jobs = match who {
            Some(who) if !who.jobs.are_all() => who.jobs.patterns().to_vec(),
            Some(_) => vec!["*".to_owned()],
            None if open => vec!["*".to_owned()],
            None => Vec::new(),
        };
        SessionView {
            authenticated: open || who.is_some(),
            login_required: !open,
            principal: who.map(|who| who.name.to_string()),
            role: who.map(|who| who.role.as_str()).or(open.then(|| Role::Admin.as_str())),
            jobs,
            expires_at: session.map(|session| time(session.until)),
            csrf_token: self.sessions.as_ref().zip(session).map(|(sessions, session)| sessions.csrf(session)),
            logins,
        }
    }

    /// Whether a login from there is looked at.
    pub(crate) fn may(&self, peer: IpAddr) -> Result<(), Refusal> {
        self.wait(peer).map_or(Ok(()), |seconds| Err(throttled(seconds)))
    }

    /// How many seconds somebody there has to wait.
    fn wait(&self, peer: IpAddr) -> Option<u64> {
        self.attempts.may(peer, self.clock.mono()).err().map(|wait| wait.as_secs() + 1)
    }

    /// Counts a login that failed, and writes it down.
    pub(crate) fn failed(&self, sessions: &Sessions, peer: IpAddr, code: &'static str) {
        self.attempts.failed(peer, self.clock.mono());
        self.metrics.refused.get_or_create(&[("code", code)]).inc();
        self.note(sessions, peer, code, None);
    }

    /// Writes down a login. Whoever is told that it is done finds it in the audit, also after a crash.
    pub(crate) async fn came_in(&self, sessions: &Sessions, peer: IpAddr, who: &str) {
        self.note(sessions, peer, "done", Some(who));
        self.history.settle().await;
    }

    /// Who came in, and who did not: in the log and in the audit.
    fn note(&self, sessions: &Sessions, peer: IpAddr, outcome: &str, who: Option<&str>) {
        let principal = who.unwrap_or("unknown");
        tracing::info!(target: "rosterd::audit", principal, %peer, operation = "Login", outcome, "a login was asked for");
        sessions.note(self.clock.wall(), format!("log in to the console from {peer}: {outcome}"), who);
    }

    /// Whose credential it is, if it may look.
    fn judge(&self, text: &str, now: Time) -> Result<Principal, Problem> {
        let Some(who) = self.credentials.by_secret(text.trim(), now) else {
            let what = "credential: it is not valid (any more): paste the whole of one that `rosterd credentials add` printed";
            return Err(Problem::new(Code::Unauthenticated, what));
        };
        if !Access::View.allows(who.role) {
            let what = format!(
                "the credential {:?} has the role {}, and the console takes viewer: log in with another one",
                who.name,
                who.role.as_str()
            );
            return Err(Problem::new(Code::PermissionDenied, what));
        }
        Ok(who)
    }
}

#[utoipa::path(get, path = "/api/session", tag = "session", responses((status = 200, body = SessionView)))]
/// Says who asks, and how one can log in. Open to everybody.
pub(super) async fn get_session(
    State(rest): Shared,
    who: Who,
    session: Option<Extension<Session>>,
) -> Answer<SessionView> {
    Ok(Json(rest.desk.view(who.0.as_ref(), session.as_deref())))
}

#[utoipa::path(post, path = "/api/session", tag = "session", request_body(content = Given, content_type = "application/json"), responses((status = 200, body = SessionView, description = "The cookie rosterd_session is set: HttpOnly, SameSite=Strict."), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem), (status = 429, body = Problem)))]
/// Logs in: takes a credential and sets a cookie, for browsers.
pub(super) async fn log_in(
    State(rest): Shared,
    remote: Option<Extension<Remote>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let desk = &rest.desk;
    let Some(sessions) = desk.sessions.as_ref().filter(|_| !desk.credentials.is_open()) else {
        let what =
            "this coordinator has no credentials and asks nobody who they are: there is nothing to log in to";
        return Err(Problem::new(Code::RequestInvalid, what));
    };
    let peer = peer(remote);
    if let Some(seconds) = desk.wait(peer) {
        return Err(Problem::from(throttled(seconds)).after(seconds));
    }
    let given = given(&headers, body).await?;
    let now = rest.clock.wall();
    let judged = desk.judge(&given.credential, now);
    let who = judged.inspect_err(|problem| desk.failed(sessions, peer, problem.code()))?;
    let Some(id) = crate::access::secret::Secret::parse(given.credential.trim()) else {
        return Err(Problem::invalid("credential", "it is not one"));
    };
    let session = sessions.begin(Holder::Secret(id.id().to_owned()), now)?;
    desk.came_in(sessions, peer, &who.name).await;
    let mut response = Json(desk.view(Some(&who), Some(&session))).into_response();
    let cookie = sessions.cookie(&session, now, forwarded(&headers));
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

fn throttled(seconds: u64) -> Refusal {
    let what = format!("too many logins from this address have failed: try again in {seconds} s");
    Refusal::new(Code::LoginThrottled, what)
}

async fn given(headers: &HeaderMap, body: Body) -> Result<Given, Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.to_ascii_lowercase().starts_with("application/json") {
        let what = format!("{kind:?}: send {{\"credential\": \"rosterd_…\"}} as application/json");
        return Err(Problem::invalid("content-type", what));
    }
    let bytes = to_bytes(body, LARGEST).await;
    let bytes = bytes
        .map_err(|_| Problem::invalid("body", format!("it is longer than {LARGEST} bytes, or broke off")))?;
    // The error's words would say parts of a secret.
    serde_json::from_slice(&bytes)
        .map_err(|_| Problem::invalid("body", "it is not {\"credential\": \"rosterd_…\"}"))
}

#[utoipa::path(delete, path = "/api/session", tag = "session", responses((status = 204, description = "The session has ended, if there was one, and its cookie is taken away.")))]
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

/// Whose connection it is; without one, nobody's.
pub(crate) fn peer(remote: Option<Extension<Remote>>) -> IpAddr {
    remote.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |remote| remote.address.ip())
}

/// Whether a proxy says that the browser speaks TLS. Believed for no more than a stricter cookie.
pub(crate) fn forwarded(headers: &HeaderMap) -> bool {
    headers.get("x-forwarded-proto").is_some_and(|scheme| scheme.as_bytes().eq_ignore_ascii_case(b"https"))
}
