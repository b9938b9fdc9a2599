//! What an ensemble grants and takes, asked by a session that writes nothing and ends at once: for who looks whether it is well.

use std::time::Duration;

use super::connect::{Opener, first};
use super::error::ConnectError;
use super::options::ZooKeeperOptions;
use crate::paths::Paths;

/// A request that a server with the default limit (`jute.maxbuffer`, 1 MiB) takes.
const LARGE: usize = 1_000_000;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inspection {
    /// How long a session lasts without being heard, where the options ask for another time.
    pub session: Duration,
    /// Whether everybody who reaches the servers may change the namespace; `None`: it is not there yet.
    pub open_to_all: Option<bool>,
    /// Whether requests of about a mebibyte are taken.
    pub takes_large: bool,
}

/// Asks.
pub async fn inspect(options: &ZooKeeperOptions) -> Result<Inspection, ConnectError> {
    let opener = Opener::new(options)?;
    let client = opener.below_root(first(&opener, options).await?);
    let session = client.session_timeout();
    let open_to_all = match client.get_acl(Paths::new(&options.namespace).common().as_str()).await {
        Ok((acls, _)) => Some(acls.iter().any(|acl| acl.scheme() == "world")),
        Err(_) => None,
    };
    // The last one: a server that takes less closes the connection. Nothing has such a name.
    let name = format!("/{}", "x".repeat(LARGE));
    let takes_large = tokio::time::timeout(options.connect_timeout, client.check_stat(&name)).await;
    Ok(Inspection { session, open_to_all, takes_large: matches!(takes_large, Ok(Ok(_))) })
}
