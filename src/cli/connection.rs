//! Which coordinators are meant, and who asks: what was typed, else the environment, else a context.

use clap::Args;
use rosterd_client::embedding::Access;

use super::contexts::{self, Context};
use super::failure::Result;
use super::identity::Identity;

/// The coordinator that a command asks if none is named.
const HERE: &str = "http://127.0.0.1:7700";

/// Coordinators, and what goes with connections to them.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// Coordinators, tried in this order: a URL or host:port [default: those of the context, else http://127.0.0.1:7700]
    #[arg(long, value_name = "URL", env = "ROSTERD_SERVER", value_delimiter = ',', hide_env_values = true)]
    server: Vec<String>,
    /// A named set of these flags; see `rosterd context`
    #[arg(long, value_name = "NAME", env = "ROSTERD_CONTEXT", hide_env_values = true)]
    context: Option<String>,
    #[command(flatten)]
    identity: Identity,
}

/// Where to connect, and with what.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    pub(crate) servers: Vec<String>,
    pub(crate) access: Access,
}

impl Connection {
    pub(crate) fn resolve(&self) -> Result<Resolved> {
        // An empty variable is one that is not set.
        let context = contexts::named(self.context.as_deref().filter(|name| !name.is_empty()))?;
        let typed: Vec<String> = self.server.iter().filter(|server| !server.is_empty()).cloned().collect();
        let servers = match (typed.is_empty(), context.server.is_empty()) {
            (false, _) => typed,
            (true, false) => context.server.clone(),
            (true, true) => vec![HERE.to_owned()],
        };
        Ok(Resolved { servers, access: self.identity.access(&context)? })
    }

    /// What was typed, as a context keeps it.
    pub(crate) fn kept(&self) -> Context {
        self.identity.kept(self.server.iter().filter(|server| !server.is_empty()).cloned().collect())
    }
}

impl Resolved {
    /// The servers, as messages name them.
    pub(crate) fn names(&self) -> String {
        self.servers.join(",")
    }
}
