//! Logging in at a provider of identities: what the edge asks of one. The composition root joins it to OpenID Connect; the edge
//! sends browsers there, takes them back, and makes the session.

use futures_util::future::BoxFuture;
use rosterd_domain::time::Time;
use serde::{Deserialize, Serialize};

use crate::layers::methods::Role;
use rosterd_session::code::Refusal;

/// A login that is under way, kept by the browser in a cookie of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingLogin {
    /// Comes back with the browser: nobody else sent it.
    pub state: String,
    /// Comes back within what the provider signs: it is of this login.
    pub nonce: String,
    /// What only who began the login can show (PKCE).
    pub verifier: String,
    /// Where the browser comes back to.
    pub redirect: String,
    /// The page to go on with.
    pub to: String,
    /// When it is too late.
    pub until: Time,
}

/// Whom the provider named, with the rights that the configuration gives to what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// For logs and the audit.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// To which jobs; none: to all.
    pub jobs: Vec<String>,
}

/// A provider.
pub trait Provider: Send + Sync + 'static {
    /// How people know it.
    fn name(&self) -> &str;

    /// The address that a browser is sent to.
    fn begin<'a>(&'a self, pending: &'a PendingLogin) -> BoxFuture<'a, Result<String, Refusal>>;

    /// Who it was, by the code that a browser brought back.
    fn finish<'a>(
        &'a self,
        pending: &'a PendingLogin,
        code: &'a str,
    ) -> BoxFuture<'a, Result<Identity, Refusal>>;
}
