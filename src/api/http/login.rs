//! The two pages of a login at an identity provider: one redirects the browser there, the other handles its return. The
//! state of a login is in a sealed cookie, so that nothing is kept for those that never return.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use rosterd_session::code::{Code, Refusal};
use serde::Deserialize;

use super::answer::{TEXT, answer, refused};
use crate::access::provider::{PendingLogin, Provider};
use crate::access::session::{Holder, Sessions};
use crate::connection::Remote;
use crate::rest::Desk;
use crate::rest::session::{forwarded, peer};

/// The pages. Without a provider they answer that they do not exist.
pub(super) fn routes(desk: Arc<Desk>) -> Router {
    Router::new().route("/login/oidc", get(begin)).route("/login/oidc/callback", get(finish)).with_state(desk)
}

/// Longest address of the page to open after the login.
const LONGEST: usize = 512;

#[derive(Debug, Default, Deserialize)]
struct Begin {
    #[serde(default)]
    to: String,
}

#[derive(Debug, Default, Deserialize)]
struct Back {
    #[serde(default)]
    code: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    error: String,
}

fn query<T: serde::de::DeserializeOwned + Default>(address: &Uri) -> T {
    Query::try_from_uri(address).map(|query| query.0).unwrap_or_default()
}

/// The dependencies of such a login, if it is configured.
fn parts(desk: &Desk) -> Option<(&Arc<Sessions>, &Arc<dyn Provider>)> {
    desk.sessions.as_ref().zip(desk.provider.as_ref())
}

async fn begin(
    State(desk): State<Arc<Desk>>,
    remote: Option<Extension<Remote>>,
    address: Uri,
    headers: HeaderMap,
) -> Response {
    let Some((sessions, provider)) = parts(&desk) else { return none() };
    if let Err(refusal) = desk.may(peer(remote)) {
        return refused(&refusal);
    }
    let secure = forwarded(&headers);
    let began = async {
        let to = page(sessions.base(), &query::<Begin>(&address).to);
        let pending = sessions.begin_login(desk.clock.wall(), callback(sessions, &headers, secure)?, to)?;
        let address = provider.begin(&pending).await?;
        Ok::<_, Refusal>((address, sessions.pending_cookie(&pending, desk.clock.wall(), secure)))
    };
    match began.await {
        Ok((address, cookie)) => see_other(&address, [cookie]),
        Err(refusal) => refused(&refusal),
    }
}

/// The address to which the provider redirects the browser: the configured one, or the one that the browser used.
fn callback(sessions: &Sessions, headers: &HeaderMap, secure: bool) -> Result<String, Refusal> {
    if let Some(configured) = sessions.callback() {
        return Ok(configured.to_owned());
    }
    let host = headers.get("x-forwarded-host").or_else(|| headers.get(header::HOST));
    let host = host.and_then(|host| host.to_str().ok()).filter(|host| !host.is_empty()).ok_or_else(|| {
        let what = "the request names no host to come back to: set oidc_redirect_url";
        Refusal::new(Code::RequestInvalid, what)
    })?;
    let scheme = if secure || sessions.is_secure() { "https" } else { "http" };
    Ok(format!("{scheme}://{host}{}/login/oidc/callback", sessions.base()))
}

/// The page to open after the login: one of ours, or the first.
fn page(base: &str, to: &str) -> String {
    let plain = to.len() <= LONGEST && to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let ours = to.strip_prefix(base).is_some_and(|rest| rest.starts_with('/') && !rest.starts_with("//"));
    if plain && ours && !to.starts_with("//") { to.to_owned() } else { format!("{base}/") }
}

async fn finish(
    State(desk): State<Arc<Desk>>,
    remote: Option<Extension<Remote>>,
    address: Uri,
    headers: HeaderMap,
) -> Response {
    let Some((sessions, provider)) = parts(&desk) else { return none() };
    let (peer, back) = (peer(remote), query::<Back>(&address));
    if let Err(refusal) = desk.may(peer) {
        return refused(&refusal);
    }
    let (now, secure) = (desk.clock.wall(), forwarded(&headers));
    let finished = async {
        let pending = find_pending(sessions, &headers, &back, now)?;
        let who = provider.finish(&pending, &back.code).await?;
        let name = who.name.clone();
        let by = Holder::Provided { name: who.name, role: who.role, jobs: who.jobs };
        Ok::<_, Refusal>((sessions.begin(by, now)?, name, pending.to))
    };
    match finished.await {
        Ok((session, name, to)) => {
            desk.logged_in(sessions, peer, &name).await;
            see_other(&to, [sessions.cookie(&session, now, secure), sessions.no_pending_cookie(secure)])
        }
        Err(refusal) => {
            // A failure of the provider does not count as a failed attempt: it must not lock out holders of a
            // credential.
            if refusal.code != Code::ProviderUnavailable {
                desk.failed(sessions, peer, refusal.code.as_str());
            }
            refused(&Refusal::new(
                refusal.code,
                format!("{}; log in again at {}/login", refusal.message, sessions.base()),
            ))
        }
    }
}

/// The login that this browser began, if the returned state matches it.
fn find_pending(
    sessions: &Sessions,
    headers: &HeaderMap,
    back: &Back,
    now: rosterd_domain::time::Time,
) -> Result<PendingLogin, Refusal> {
    let Some(pending) = sessions.find_pending(headers, &back.state, now) else {
        let what =
            "the login was not begun in this browser, or more than ten minutes ago, or is over already";
        return Err(Refusal::new(Code::Unauthenticated, what));
    };
    if !back.error.is_empty() {
        let error: String = back.error.chars().filter(|c| c.is_ascii_graphic()).take(64).collect();
        return Err(Refusal::new(
            Code::Unauthenticated,
            format!("the identity provider refused the login: {error}"),
        ));
    }
    Ok(pending)
}

fn none() -> Response {
    answer(StatusCode::NOT_FOUND, TEXT, "no identity provider is configured: see oidc_issuer\n".to_owned())
}

fn see_other<const N: usize>(address: &str, cookies: [HeaderValue; N]) -> Response {
    let Ok(address) = HeaderValue::from_str(address) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let mut response = answer(StatusCode::SEE_OTHER, TEXT, String::new());
    response.headers_mut().insert(header::LOCATION, address);
    for cookie in cookies {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_goes_on_with_a_page_of_ours_and_no_other() {
        for to in ["/x/jobs/a?tab=runs", "/x/"] {
            assert_eq!(page("/x", to), to);
        }
        for to in [
            "",
            "/",
            "//evil.example",
            "https://evil.example/x/",
            "/x//evil.example",
            "/xy",
            "/x/\\evil",
            "/x/\nb",
        ] {
            assert_eq!(page("/x", to), "/x/", "{to}");
        }
        assert_eq!((page("", "/jobs"), page("", "//evil.example")), ("/jobs".to_owned(), "/".to_owned()));
    }
}
