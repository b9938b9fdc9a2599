//! Logging in at an identity provider: what the edge needs of one. The composition root implements it with OpenID
//! Connect; the edge redirects browsers there, handles their return, and creates the session.

use futures_util::future::BoxFuture;
use rosterd_domain::time::Time;
use serde::{Deserialize, Serialize};

use crate::layers::methods::Role;
use rosterd_session::code::Refusal;

/// A login in progress, kept by the browser in a cookie of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingLogin {
    /// Returned by the browser: shows that the return belongs to this login.
    pub state: String,
    /// Returned within what the provider signs: shows that the token is for this login.
    pub nonce: String,
    /// Proves to the provider that the same client began the login (PKCE).
    pub verifier: String,
    /// The address to which the provider redirects the browser.
    pub redirect: String,
    /// The page to open after the login.
    pub to: String,
    /// When it expires.
    pub until: Time,
}

/// The person that the provider named, with the rights that the configuration maps the claims to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// For logs and the audit.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The jobs that it is for; empty: all.
    pub jobs: Vec<String>,
}

/// An identity provider.
pub trait Provider: Send + Sync + 'static {
    /// Its name for people.
    fn name(&self) -> &str;

    /// The address to redirect a browser to.
    fn begin<'a>(&'a self, pending: &'a PendingLogin) -> BoxFuture<'a, Result<String, Refusal>>;

    /// The person, for the code that a browser brought back.
    fn finish<'a>(
        &'a self,
        pending: &'a PendingLogin,
        code: &'a str,
    ) -> BoxFuture<'a, Result<Identity, Refusal>>;
}
