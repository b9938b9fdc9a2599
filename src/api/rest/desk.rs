//! Logging in: what a session is created from, and rate limiting.

use std::net::IpAddr;
use std::sync::Arc;

use rosterd_domain::time::Time;
use rosterd_runtime::clock::SharedClock;
use rosterd_runtime::telemetry::Metrics;
use rosterd_session::code::{Code, Refusal};
use serde::Serialize;
use utoipa::ToSchema;

use super::problem::Problem;
use super::shape::time;
use crate::access::attempts::Attempts;
use crate::access::provider::Provider;
use crate::access::session::{Session, Sessions};
use crate::access::{Credentials, Principal};
use crate::history::History;
use crate::layers::takes::{Access, Role};

/// The dependencies of logging in.
pub(crate) struct Desk {
    pub(crate) credentials: Arc<Credentials>,
    /// `None`: logging in is disabled.
    pub(crate) sessions: Option<Arc<Sessions>>,
    /// `None`: by credentials alone.
    pub(crate) provider: Option<Arc<dyn Provider>>,
    pub(crate) attempts: Attempts,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: SharedClock,
    pub(crate) history: Arc<dyn History>,
}

impl Desk {
    pub(super) fn view(&self, who: Option<&Principal>, session: Option<&Session>) -> SessionView {
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

    /// Whether a login from there is accepted for checking.
    pub(crate) fn may(&self, peer: IpAddr) -> Result<(), Refusal> {
        self.wait(peer).map_or(Ok(()), |seconds| Err(throttled(seconds)))
    }

    /// How many seconds this peer has to wait.
    pub(super) fn wait(&self, peer: IpAddr) -> Option<u64> {
        self.attempts.may(peer, self.clock.mono()).err().map(|wait| wait.as_secs() + 1)
    }

    /// Counts a failed login, and records it.
    pub(crate) fn failed(&self, sessions: &Sessions, peer: IpAddr, code: &'static str) {
        self.attempts.failed(peer, self.clock.mono());
        self.metrics.refused.get_or_create(&[("code", code)]).inc();
        self.note(sessions, peer, code, None);
    }

    /// Records a login. A caller that gets the answer finds the row in the audit, even after a crash.
    pub(crate) async fn logged_in(&self, sessions: &Sessions, peer: IpAddr, who: &str) {
        self.note(sessions, peer, "done", Some(who));
        self.history.settle().await;
    }

    /// Records a login or a failed one, in the log and in the audit.
    pub(super) fn note(&self, sessions: &Sessions, peer: IpAddr, outcome: &str, who: Option<&str>) {
        let principal = who.unwrap_or("unknown");
        tracing::info!(target: "rosterd::audit", principal, %peer, operation = "Login", outcome, "a login was asked for");
        sessions.note(self.clock.wall(), format!("log in to the console from {peer}: {outcome}"), who);
    }

    /// The owner of a credential, if it may read.
    pub(super) fn authenticate(&self, text: &str, now: Time) -> Result<Principal, Problem> {
        let Some(who) = self.credentials.by_secret(text.trim(), now) else {
            let what = "credential: it is not valid, or no longer valid: paste the whole of one that `rosterd credentials add` printed";
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

/// The caller, and the ways to log in.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionView {
    /// Whether the caller may read `/api`: it is authenticated, or no credential is required.
    pub(super) authenticated: bool,
    /// Whether credentials are required at all.
    pub(super) login_required: bool,
    /// The credential's name; null if the caller is not authenticated.
    pub(super) principal: Option<String>,
    /// `worker`, `viewer`, `operator` or `admin`; null if the caller is not authenticated.
    pub(super) role: Option<&'static str>,
    /// Names and patterns of the jobs that the caller may change.
    pub(super) jobs: Vec<String>,
    /// When the session expires; null without a session.
    pub(super) expires_at: Option<String>,
    /// Send it as X-CSRF-Token with requests that change something; null without a session.
    pub(super) csrf_token: Option<String>,
    /// The ways to log in.
    pub(super) logins: Vec<Login>,
}

/// A way to log in.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Login {
    /// `credential`: POST it here. `oidc`: send the browser to `href`.
    pub(super) kind: &'static str,
    /// An address, relative to the console's; `?to=` names the page to open afterwards.
    pub(super) href: Option<&'static str>,
    /// The provider's name for people.
    pub(super) name: Option<String>,
}

pub(super) fn throttled(seconds: u64) -> Refusal {
    let what = format!("too many logins from this address have failed: try again in {seconds} s");
    Refusal::new(Code::LoginThrottled, what)
}
