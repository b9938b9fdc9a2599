//! Why a coordinator could not be started, or ended other than by request.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rosterd_history::HistoryError;
use rosterd_registry::embedded::OpenError;
use rosterd_registry::zookeeper::ConnectError;
use rosterd_runtime::private;
use rosterd_runtime::tasks::Failure;

/// Why a coordinator could not be started, or ended other than by request.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The data directory cannot be made, or is not its owner's alone.
    #[error("data_dir {path} cannot be used: {source}")]
    DataDir {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The history cannot be started.
    #[error("the history cannot be started: {0}")]
    History(#[from] HistoryError),
    /// The address cannot be listened on.
    #[error("listen {address} cannot be used: {source}: choose another with --listen, or stop what uses it")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The address for health and metrics cannot be listened on.
    #[error("listen_metrics {address} cannot be used: {source}: choose another, or stop what uses it")]
    ListenMetrics {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The credential file or a TLS file cannot be used.
    #[error("{0}")]
    Access(String),
    /// The ensemble cannot be used.
    #[error(transparent)]
    ZooKeeper(#[from] ConnectError),
    /// The servers agree to another session than the leases need.
    #[error(
        "session {asked:?}: the ZooKeeper servers agree to one of {agreed:?}, and a lease of {lease:?} needs twice \
         that long: raise maxSessionTimeout (or tickTime) of the servers, or lower lease"
    )]
    Session {
        /// What was asked for.
        asked: Duration,
        /// What the servers say.
        agreed: Duration,
        /// The lease.
        lease: Duration,
    },
    /// A file that the configuration names cannot be used.
    #[error("{field} {path} cannot be used: {problem}: name a file that can be read")]
    File {
        /// The field.
        field: &'static str,
        /// Which.
        path: String,
        /// Why.
        problem: String,
    },
    /// Traces cannot be sent anywhere.
    #[error(transparent)]
    Traces(#[from] rosterd_traces::export::ExportError),
    /// An essential part ended.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The demonstration could not be set up.
    #[error("the demonstration job could not be made: {0}")]
    Demo(String),
}

/// Makes a directory that is its owner's alone.
pub(super) fn make_private_dir(path: &Path) -> Result<(), AppError> {
    private::dir(path).map_err(|source| AppError::DataDir { path: path.display().to_string(), source })
}
