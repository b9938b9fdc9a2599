//! Finds out what an ensemble grants and accepts, in a session that writes nothing and ends at once: for health checks.

use std::time::Duration;

use super::connect::{Opener, first};
use super::error::ConnectError;
use super::options::ZooKeeperOptions;
use crate::paths::Paths;

/// The size of a request that a server with the default limit (`jute.maxbuffer`, 1 MiB) accepts.
const LARGE: usize = 1_000_000;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inspection {
    /// The session timeout that the servers grant, if it differs from the one that the options ask for.
    pub session: Duration,
    /// Whether every client that reaches the servers may change the namespace; `None`: it does not exist yet.
    pub open_to_all: Option<bool>,
    /// Whether requests of about 1 MiB are accepted.
    pub takes_large: bool,
}

/// Inspects the ensemble.
pub async fn inspect(options: &ZooKeeperOptions) -> Result<Inspection, ConnectError> {
    let opener = Opener::new(options)?;
    let client = opener.below_root(first(&opener, options).await?);
    let session = client.session_timeout();
    let open_to_all = match client.get_acl(Paths::new(&options.namespace).common().as_str()).await {
        Ok((acls, _)) => Some(acls.iter().any(|acl| acl.scheme() == "world")),
        Err(_) => None,
    };
    // Last, since a server with a lower limit closes the connection. No node has such a name.
    let name = format!("/{}", "x".repeat(LARGE));
    let takes_large = tokio::time::timeout(options.connect_timeout, client.check_stat(&name)).await;
    Ok(Inspection { session, open_to_all, takes_large: matches!(takes_large, Ok(Ok(_))) })
}
