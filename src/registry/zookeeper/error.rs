//! Why there is no session with an ensemble, and what to do about it.

use std::time::Duration;

/// Why a session cannot be opened. Nothing was changed below the namespace.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The list of servers is malformed.
    #[error(
        "zk {servers:?}: {problem}; write host:port, several separated by commas, and a path after the last"
    )]
    Servers {
        /// What was given.
        servers: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No server accepted a session.
    #[error(
        "no session with ZooKeeper at {servers} after {tries} tries in {} ms: {reasons}; see that the servers \
         run, that a majority of them does, and that this machine reaches them",
        waited.as_millis()
    )]
    Unreachable {
        /// All of them.
        servers: String,
        /// How often all of them were tried.
        tries: u32,
        /// How long that took.
        waited: Duration,
        /// What each of them said.
        reasons: String,
    },
    /// The password or the authentication method is wrong.
    #[error(
        "ZooKeeper at {servers} refuses the credentials of {user}: check user and password, and that the \
         servers know this way of authentication"
    )]
    Credentials {
        /// All of them.
        servers: String,
        /// The user that we authenticate as.
        user: String,
    },
    /// The nodes belong to another user.
    #[error(
        "ZooKeeper does not let {user} use {path}: it was made with other credentials; give those, or choose \
         another namespace or root"
    )]
    NotAllowed {
        /// The user that we authenticate as.
        user: String,
        /// The node.
        path: String,
    },
    /// The TLS material is unusable.
    #[error("the certificates for ZooKeeper cannot be used: {0}; give PEM files")]
    Tls(String),
    /// A server older than 3.6.
    #[error(
        "ZooKeeper at {servers} knows no persistent watches: it is older than 3.6; run 3.6 or newer, best 3.9"
    )]
    TooOld {
        /// All of them.
        servers: String,
    },
    /// Another request was refused.
    #[error("ZooKeeper at {servers} refused {what}: {problem}; look at the servers' logs")]
    Refused {
        /// All of them.
        servers: String,
        /// What was asked for.
        what: String,
        /// The answer.
        problem: String,
    },
}
