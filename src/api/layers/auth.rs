//! Authenticates and authorizes requests. Deny by default: with credentials configured, a request without one, with a
//! wrong one, or for a path without a rule is refused. The identity comes from here and never from the content of a
//! message.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tokio::time::Instant;

use super::methods::{Access, Methods, access};
use super::{is_grpc, refused};
use crate::access::guarded::Guarded;
use crate::access::session::{Session, Sessions};
use crate::access::subject::PeerNames;
use crate::access::{Credentials, Principal};
use crate::connection::Remote;
use crate::console::is_for;
use crate::seldom::Seldom;
use rosterd_runtime::clock::SharedClock;
use rosterd_runtime::telemetry::Metrics;
use rosterd_session::code::{Code, Refusal};

/// The dependencies.
pub struct Auth {
    /// The grants in force.
    pub credentials: Arc<Credentials>,
    /// Which paths stream.
    pub methods: Arc<Methods>,
    /// Where refusals are counted.
    pub metrics: Arc<Metrics>,
    /// The clock, for expiry.
    pub clock: SharedClock,
    /// The sessions of people.
    pub sessions: Option<Arc<Sessions>>,
    /// Which networks' failures were logged lately.
    refusals: Seldom,
}

impl Auth {
    /// Decides by these grants.
    pub fn new(
        credentials: Arc<Credentials>,
        methods: Arc<Methods>,
        metrics: Arc<Metrics>,
        clock: SharedClock,
        sessions: Option<Arc<Sessions>>,
    ) -> Self {
        Self { credentials, methods, metrics, clock, sessions, refusals: Seldom::default() }
    }

    fn decide(
        &self,
        (method, path): (&Method, &str),
        headers: &HeaderMap,
        certificate: Option<&PeerNames>,
    ) -> Result<Option<KnownCaller>, Refusal> {
        let rule = access(method, path);
        match rule {
            Some(Access::Open) => return Ok(None),
            Some(Access::Anybody) => return Ok(self.who(headers, certificate).ok()),
            _ => {}
        }
        let known = self.who(headers, certificate)?;
        // A browser adds the cookie by itself, whichever page made it send the request.
        if let (Some((session, sessions)), false) =
            (known.session.as_ref().zip(self.sessions.as_ref()), method.is_safe())
        {
            sessions.check_csrf(session, headers)?;
        }
        let principal = &known.principal;
        match rule {
            Some(rule) if rule.allows(principal.role) => Ok(Some(known)),
            _ => {
                let (name, role) = (&principal.name, principal.role.as_str());
                let takes = rule.map_or("no role there is", Access::takes);
                // A denied attempt is worth as much to know as an action.
                let operation = self.methods.label(path);
                tracing::info!(
                    target: "rosterd::audit",
                    principal = %name, operation, outcome = Code::PermissionDenied.as_str(), "a request was refused"
                );
                let what = format!("the credential {name:?} has the role {role}, and this takes {takes}");
                Err(Refusal::new(Code::PermissionDenied, what))
            }
        }
    }

    /// The owner of the proof. A secret overrides a session, and a session overrides a certificate. A wrong secret is
    /// not excused by another valid proof; an expired session counts as no proof, since a browser sends its cookie
    /// unasked.
    fn who(&self, headers: &HeaderMap, certificate: Option<&PeerNames>) -> Result<KnownCaller, Refusal> {
        let now = self.clock.wall();
        let in_session = |sessions: &Arc<Sessions>| sessions.find(headers, &self.credentials, now);
        let cookies = !is_grpc(headers) && !headers.contains_key(header::AUTHORIZATION);
        if let Some((session, principal)) = self.sessions.as_ref().filter(|_| cookies).and_then(in_session) {
            return Ok(KnownCaller { principal, session: Some(session) });
        }
        let (found, what) = if headers.contains_key(header::AUTHORIZATION) {
            let found = secret(headers).and_then(|secret| self.credentials.by_secret(&secret, now));
            (
                found,
                "the credential that came with the request is not valid, or no longer valid: get a new one"
                    .to_owned(),
            )
        } else if let Some(names) = certificate {
            let what = format!("no credential is for this client certificate, which names {names}");
            (self.credentials.by_certificate(names, now), what)
        } else {
            let what = "no credential came with the request: send `authorization: Bearer …`, or connect with a \
                        client certificate";
            (None, what.to_owned())
        };
        let found = found.map(|principal| KnownCaller { principal, session: None });
        found.ok_or_else(|| Refusal::new(Code::Unauthenticated, what))
    }

    /// When streams of the session have to end.
    fn over(&self, session: Option<&Session>) -> Option<Instant> {
        session.map(|session| Instant::now() + self.clock.until(session.until))
    }
}

/// An authenticated caller.
struct KnownCaller {
    principal: Principal,
    /// The session, if it used one.
    session: Option<Session>,
}

/// The secret of a request: a bearer token, or the password that a browser asks for.
fn secret(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, rest) = value.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim().to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") || is_grpc(headers) {
        return None;
    }
    let pair = base64::engine::general_purpose::STANDARD.decode(rest.trim()).ok()?;
    let pair = String::from_utf8(pair).ok()?;
    pair.split_once(':').map(|(_, password)| password.to_owned())
}

/// The layer.
pub async fn layer(State(auth): State<Arc<Auth>>, mut request: Request, next: Next) -> Response {
    // Never accepted from outside: only this layer sets it.
    request.extensions_mut().remove::<Principal>();
    request.extensions_mut().remove::<Session>();
    if auth.credentials.is_open() {
        return next.run(request).await;
    }
    if is_for((request.method(), request.uri(), request.headers())) {
        return next.run(request).await;
    }
    let remote = request.extensions().get::<Remote>().cloned();
    let certificate = remote.as_ref().and_then(|remote| remote.certificate.get());
    match auth.decide((request.method(), request.uri().path()), request.headers(), certificate) {
        Ok(None) => next.run(request).await,
        Ok(Some(KnownCaller { principal, session })) => {
            let streams = auth.methods.streams(request.uri().path());
            let ends = streams.then(|| (principal.revoked.clone(), auth.over(session.as_ref())));
            request.extensions_mut().insert(principal);
            session.map(|session| request.extensions_mut().insert(session));
            let response = next.run(request).await;
            match ends {
                Some((revoked, until)) => response.map(|body| Body::new(Guarded::new(body, revoked, until))),
                None => response,
            }
        }
        Err(refusal) => {
            if refusal.code == Code::Unauthenticated {
                auth.log(remote.map(|remote| remote.address), request.uri().path(), &refusal);
            }
            auth.refuse(request.headers(), &refusal)
        }
    }
}

impl Auth {
    /// Logs a failed attempt, once a minute for each network: `before` is the number of others that the line stands
    /// for.
    fn log(&self, peer: Option<SocketAddr>, path: &str, refusal: &Refusal) {
        let address = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip());
        let Some(before) = self.refusals.admits(address, self.clock.mono()) else { return };
        let peer = peer.map_or_else(|| "unknown".to_owned(), |peer| peer.to_string());
        tracing::warn!(
            target: "rosterd::audit",
            peer, operation = self.methods.label(path), outcome = refusal.code.as_str(), before,
            "authentication failed: {}", refusal.message
        );
    }

    fn refuse(&self, headers: &HeaderMap, refusal: &Refusal) -> Response {
        self.metrics.refused.get_or_create(&[("code", refusal.code.as_str())]).inc();
        let mut response = refused(is_grpc(headers), refusal);
        if response.status() == StatusCode::UNAUTHORIZED {
            // A browser opens its own password dialog if Basic is offered: that is right for a page that somebody
            // opens, but requests that the console makes from its page must not cause it.
            let script = headers.get("sec-fetch-mode").is_some_and(|mode| mode.as_bytes() != b"navigate");
            let challenge = if script {
                "Bearer realm=\"rosterd\""
            } else {
                "Basic realm=\"rosterd\", charset=\"UTF-8\""
            };
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::super::methods::Role;
    use super::*;
    use crate::access::secret::{ID_BYTES, SECRET_BYTES, Secret};
    use crate::access::{Grant, Proof};
    use rosterd_runtime::clock::System;

    fn secret(number: u8) -> Secret {
        Secret::from_bytes([number; ID_BYTES], [number; SECRET_BYTES])
    }

    fn auth() -> Auth {
        let grants = vec![
            Grant::by_secret("fleet", Role::Worker, &secret(1)),
            Grant::by_secret("ops", Role::Operator, &secret(2)),
            Grant::new("host", Role::Viewer, Proof::Certificate("cn:host".parse().unwrap())),
        ];
        Auth::new(Credentials::new(grants), Arc::default(), Metrics::new(), System::shared(), None)
    }

    fn with(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap())])
    }

    fn basic(password: &str) -> String {
        format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("me:{password}")))
    }

    fn name(decided: Result<Option<KnownCaller>, Refusal>) -> Result<String, Code> {
        decided.map(|who| who.unwrap().principal.name.to_string()).map_err(|refusal| refusal.code)
    }

    #[test]
    fn a_secret_identifies_the_caller() {
        let auth = auth();
        let (worker, operator) = (secret(1).text().to_owned(), secret(2).text().to_owned());
        let who = |value: &str| name(auth.decide((&Method::GET, "/metrics"), &with(value), None));
        assert_eq!(who(&format!("Bearer {operator}")).unwrap(), "ops");
        assert_eq!(who(&basic(&operator)).unwrap(), "ops");
        assert_eq!(who(&format!("Bearer {worker}")), Err(Code::PermissionDenied));
        for bad in ["Bearer", "Bearer ", &format!("Bearer {operator}2"), &operator, "Basic x", "Digest x"] {
            assert_eq!(who(bad), Err(Code::Unauthenticated), "{bad}");
        }
        let mut twice = with(&format!("Bearer {operator}"));
        twice.append(header::AUTHORIZATION, HeaderValue::from_static("Bearer x"));
        assert_eq!(name(auth.decide((&Method::GET, "/metrics"), &twice, None)), Err(Code::Unauthenticated));
    }

    #[test]
    fn a_certificate_identifies_the_caller_unless_a_secret_does() {
        let auth = auth();
        let names = |name: &str| PeerNames { common: Some(name.to_owned()), ..PeerNames::default() };
        let who = |headers: &HeaderMap, common| {
            name(auth.decide((&Method::GET, "/metrics"), headers, Some(&names(common))))
        };
        assert_eq!(who(&HeaderMap::new(), "host").unwrap(), "host");
        assert_eq!(who(&HeaderMap::new(), "stranger"), Err(Code::Unauthenticated));
        assert_eq!(who(&with(&format!("Bearer {}", secret(2).text())), "host").unwrap(), "ops");
        assert_eq!(who(&with("Bearer wrong"), "host"), Err(Code::Unauthenticated));
    }

    #[test]
    fn a_path_without_a_rule_is_denied_to_everybody() {
        let auth = auth();
        let operator = with(&format!("Bearer {}", secret(2).text()));
        assert_eq!(name(auth.decide((&Method::GET, "/debug"), &operator, None)), Err(Code::PermissionDenied));
        assert_eq!(
            name(auth.decide((&Method::GET, "/debug"), &HeaderMap::new(), None)),
            Err(Code::Unauthenticated)
        );
        assert!(auth.decide((&Method::GET, "/healthz"), &HeaderMap::new(), None).unwrap().is_none());
    }
}
