//! The options of a worker, with their defaults. The only file that reads the environment.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::access::Access;
use crate::error::{Error, Result};

/// What to do when every job of the worker is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnRefused {
    /// Leave and return the first refusal: the process manager and the operator see it.
    #[default]
    Exit,
    /// Stay, and offer the jobs again every 30 s.
    Retry,
}

/// The settings of a [`Worker`](crate::Worker); its builder methods set the same. Later versions may add fields, so
/// begin with [`Options::default`] or [`Options::from_env`] and set fields:
///
/// ```
/// use rosterd_client::{Options, Worker};
/// use std::time::Duration;
///
/// let mut options = Options::from_env();
/// options.slots = 16;
/// options.drain_timeout = Duration::from_secs(120);
/// let worker = Worker::new(options);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Coordinators to try, in order: `host:port` or a URL.
    pub servers: Vec<String>,
    /// The secret that authenticates this worker; `None`: `ROSTERD_CREDENTIAL`.
    pub credential: Option<String>,
    /// PEM file with the authorities for coordinators at `https://` addresses; None: `ROSTERD_CA`, else the system's.
    pub ca: Option<PathBuf>,
    /// PEM file with this worker's own certificate, if coordinators require one; None: `ROSTERD_CERT`.
    pub certificate: Option<PathBuf>,
    /// PEM file with its key; None: `ROSTERD_KEY`.
    pub key: Option<PathBuf>,
    /// Send the credential also over plain HTTP to another machine, where others can read it; also by
    /// `ROSTERD_INSECURE_CREDENTIAL=true`.
    pub insecure_credential: bool,
    /// The expected namespace; empty: any.
    pub namespace: String,
    /// How operators know this machine; default: its host name.
    pub address: String,
    /// Free labels, at most 32 of 128 bytes.
    pub labels: BTreeMap<String, String>,
    /// How many runs at a time over all jobs, 1 to 4096; default: twice the cores, at least 4.
    pub slots: u32,
    /// How long a leaving worker lets its runs go on before it hands them back; default 30 s.
    pub drain_timeout: Duration,
    /// How long the goodbye may take, over all coordinators, once nothing is in flight; default 10 s.
    pub leave_timeout: Duration,
    /// How long a cancelled handler may take to notice before its future is dropped; default 5 s. A run that is stopped
    /// by its lease or a fence has only the coordinator's stop budget.
    pub stop_grace: Duration,
    /// What to do when every job is refused.
    pub on_refused: OnRefused,
    /// For the jitter of reconnects; None: a different one in each process.
    pub seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let host = host_name();
        Self {
            servers: Vec::new(),
            credential: None,
            ca: None,
            certificate: None,
            key: None,
            insecure_credential: false,
            namespace: String::new(),
            address: if host.is_empty() { "localhost".into() } else { host },
            labels: BTreeMap::new(),
            slots: u32::try_from(cores * 2).unwrap_or(4).clamp(4, MOST_SLOTS),
            drain_timeout: Duration::from_secs(30),
            leave_timeout: Duration::from_secs(10),
            stop_grace: Duration::from_secs(5),
            on_refused: OnRefused::default(),
            seed: None,
        }
    }
}

/// Without the secret.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            servers, credential, ca, certificate, key, insecure_credential, namespace, address, ..
        } = self;
        f.debug_struct("Options")
            .field("servers", servers)
            .field("credential", &credential.as_ref().map(|_| "…"))
            .field("ca", ca)
            .field("certificate", certificate)
            .field("key", key)
            .field("insecure_credential", insecure_credential)
            .field("namespace", namespace)
            .field("address", address)
            .field("labels", &self.labels)
            .field("slots", &self.slots)
            .field("drain_timeout", &self.drain_timeout)
            .field("leave_timeout", &self.leave_timeout)
            .field("stop_grace", &self.stop_grace)
            .field("on_refused", &self.on_refused)
            .field("seed", &self.seed)
            .finish()
    }
}

const MOST_SLOTS: u32 = 4096;

#[cfg(unix)]
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Variables that Windows sets for every process.
#[cfg(not(unix))]
#[allow(
    clippy::disallowed_methods,
    reason = "the name of the machine, where no call tells it without unsafe code"
)]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

impl Options {
    /// The defaults, overridden by the environment: `ROSTERD_SERVER` (several separated by commas) and
    /// `ROSTERD_CREDENTIAL`. Certificates (`ROSTERD_CA`, `ROSTERD_CERT`, `ROSTERD_KEY`) are read in any case.
    #[allow(clippy::disallowed_methods, reason = "what users set for all clients alike")]
    pub fn from_env() -> Self {
        let servers = std::env::var("ROSTERD_SERVER").unwrap_or_default();
        let servers = servers.split(',').map(str::trim).filter(|server| !server.is_empty());
        Self {
            servers: servers.map(ToOwned::to_owned).collect(),
            credential: credential_from_env(),
            ..Self::default()
        }
    }

    /// The settings of connections; fields that are not set come from the environment.
    pub(crate) fn access(&self) -> Access {
        let path =
            |given: &Option<PathBuf>, name| given.clone().or_else(|| variable(name).map(PathBuf::from));
        let insecure = || variable("ROSTERD_INSECURE_CREDENTIAL").is_some_and(|said| said == "true");
        Access {
            credential: self.credential.clone().or_else(credential_from_env),
            ca: path(&self.ca, "ROSTERD_CA"),
            certificate: path(&self.certificate, "ROSTERD_CERT"),
            key: path(&self.key, "ROSTERD_KEY"),
            insecure_credential: self.insecure_credential || insecure(),
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let say = |what: String| Err(Error::Options(what));
        if self.servers.is_empty() {
            return say("no server: call Worker::connect(\"host:port\") or set ROSTERD_SERVER".into());
        }
        if !(1..=MOST_SLOTS).contains(&self.slots) {
            return say(format!("{} slots: a worker has 1 to {MOST_SLOTS}", self.slots));
        }
        let too_long = |(key, value): (&String, &String)| key.len() > 128 || value.len() > 128;
        if self.labels.len() > 32 || self.labels.iter().any(too_long) {
            return say("a worker has at most 32 labels of 128 bytes".into());
        }
        Ok(())
    }
}

/// A variable, if it is set and not empty.
#[allow(clippy::disallowed_methods, reason = "secrets never come from the command line")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn credential_from_env() -> Option<String> {
    variable("ROSTERD_CREDENTIAL")
}
