//! The configuration of a coordinator: file < environment < flag, parsed to types, all defects at once.
//!
//! Fields are flat: `lease = "5s"` in the TOML file, `ROSTERD_LEASE=5s` in the environment, `--set lease=5s` or a
//! flag of its own on the command line. An empty variable counts as unset; one that names no field is warned of, unless it is
//! known to be others'. Only alarms are tables, `[[alarms.rules]]` and the like, and stand in the file alone. Called by the
//! command line; decides nothing about jobs.

mod alarms;
mod check;
mod defect;
mod field;
pub mod history;
mod loaded;
mod oidc;
#[cfg(test)]
mod page;
mod reader;
mod sources;
mod strangers;
pub mod traces;
pub mod value;
pub mod zookeeper;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rosterd_alarms::settings::Settings as Alarms;
use rosterd_domain::id::Namespace;

pub use defect::{Defect, Defects, Origin};
pub use field::{FIELDS, Field, field};
pub use history::History;
pub use loaded::Loaded;
pub use oidc::Oidc;
pub use sources::Sources;
pub use traces::Otlp;
pub use zookeeper::ZooKeeper;

/// Everything that `serve` and `dev` need to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The one namespace that is served.
    pub namespace: Namespace,
    /// Where gRPC, REST, the console, health and metrics are served.
    pub listen: SocketAddr,
    /// Where health and metrics are served apart, to whoever reaches it.
    pub listen_metrics: Option<SocketAddr>,
    /// URL for workers; none if it cannot be derived.
    pub advertise: Option<String>,
    /// The path under which a proxy shows the console and REST; empty: none.
    pub base_path: String,
    /// How people log in.
    pub login: Login,
    /// The credential file; none: everybody may do everything.
    pub credentials: Option<PathBuf>,
    /// With it, only TLS is spoken.
    pub tls: Option<Tls>,
    /// The coordination store.
    pub registry: Registry,
    /// Leases and other times.
    pub timing: Timing,
    /// Limits and deadlines of the edge.
    pub limits: Limits,
    /// What is kept of ended runs.
    pub history: History,
    /// Where traces go; none: nowhere.
    pub otlp: Option<Otlp>,
    /// The page of a trace, `{trace_id}` in it.
    pub trace_url: Option<String>,
    /// What is logged.
    pub log: Log,
    /// Which alarms there are, and who receives them.
    pub alarms: Alarms,
    /// What was written and is of no effect, or has another name now; for the log.
    pub warnings: Vec<String>,
}

impl Config {
    /// Of this coordinator's URLs.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

/// How people log in with a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// How long it lasts.
    pub age: Duration,
    /// What seals it; none: a file in the data directory, made when it is missing.
    pub key_file: Option<PathBuf>,
    /// Where people may log in, beside here.
    pub oidc: Option<Oidc>,
}

/// The files of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificate and those up to its CA.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Who signs clients' certificates.
    pub client_ca: Option<PathBuf>,
    /// Whether a client without a certificate is refused.
    pub client_required: bool,
}

/// The coordination store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registry {
    /// A single node keeps it itself.
    Embedded {
        /// Where; the history is there as well.
        data_dir: PathBuf,
    },
    /// A ZooKeeper ensemble.
    ZooKeeper(Box<ZooKeeper>),
}

/// Leases and other times. `session ≥ 2 lease` and `lease ≥ 3 heartbeat` hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// A worker silent for so long is dead.
    pub lease: Duration,
    /// How often a worker says that it lives.
    pub heartbeat: Duration,
    /// How long before the lease's end a worker stops its runs.
    pub stop_budget: Duration,
    /// How long after its timeout a run is taken away.
    pub timeout_grace: Duration,
    /// The registry session.
    pub session: Duration,
    /// How much faster or slower another clock may run, in millionths.
    pub clock_drift_ppm: u32,
    /// No fires while this clock and the store's are further apart.
    pub max_clock_difference: Duration,
    /// How long a coordinator that stops waits for its workers to go elsewhere.
    pub drain_deadline: Duration,
    /// A machine without instances is forgotten after this.
    pub machine_retention: Duration,
}

/// Limits and deadlines of the edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Largest message taken, in bytes.
    pub max_receive_bytes: usize,
    /// Largest message sent, in bytes.
    pub max_send_bytes: usize,
    /// Connections over all addresses.
    pub max_connections: usize,
    /// Connections from one address.
    pub max_connections_per_ip: usize,
    /// Calls and streams at a time on one connection.
    pub max_streams_per_connection: u32,
    /// Worker streams.
    pub max_workers: usize,
    /// Watches of people and programs.
    pub max_watchers: usize,
    /// Requests of people being carried out.
    pub max_requests: usize,
    /// Jobs that one worker may register.
    pub max_jobs_per_worker: usize,
    /// Unacknowledged reports of one worker.
    pub max_unacknowledged_reports: u32,
    /// Frames that wait for one worker.
    pub max_outbox_frames: usize,
    /// Jobs with metrics of their own.
    pub metrics_jobs: usize,
    /// How long a connection may take until it speaks HTTP.
    pub preface_timeout: Duration,
    /// How long a worker stream may take until its Hello.
    pub hello_timeout: Duration,
    /// How long a request may take that names no deadline.
    pub request_timeout: Duration,
    /// How often an idle connection is probed.
    pub keepalive_interval: Duration,
    /// A probed connection that is silent for so long is closed.
    pub keepalive_timeout: Duration,
    /// HTTP/2 window of a connection, in bytes.
    pub connection_window: u32,
    /// HTTP/2 window of a stream, in bytes.
    pub stream_window: u32,
}

/// What is logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// A level, also by module.
    pub filter: String,
    /// JSON lines instead of text.
    pub json: bool,
}
