//! What a worker is told once, with its defaults. The only file that reads the environment.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{Error, Result};

/// What to do when every job of the worker is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnRefused {
    /// Leave and return the first refusal: the process manager and the operator see it.
    #[default]
    Exit,
    /// Stay, and offer the jobs again every 30 s.
    Retry,
}

/// The settings of a [`Worker`](crate::Worker); its builder methods set the same.
#[derive(Debug, Clone)]
pub struct Options {
    /// Coordinators to try, in order: `host:port` or a URL.
    pub servers: Vec<String>,
    /// The secret that says who this worker is; None: `ROSTERD_CREDENTIAL`.
    pub credential: Option<String>,
    /// The namespace that is expected; empty: whichever is served.
    pub namespace: String,
    /// How operators know this machine; default: its host name.
    pub address: String,
    /// Free labels, at most 32 of 128 bytes.
    pub labels: BTreeMap<String, String>,
    /// How many runs at a time over all jobs, 1 to 4096; default: twice the cores, at least 4.
    pub slots: u32,
    /// How long a leaving worker lets its runs go on before it hands them back; default 30 s.
    pub drain_deadline: Duration,
    /// How long a cancelled handler may take to notice before its future is dropped; default 5 s. A run that is
    /// stopped by its lease or a fence has only the stop budget that the coordinator names.
    pub stop_grace: Duration,
    /// What to do when every job is refused.
    pub on_refused: OnRefused,
    /// For the jitter of reconnects; None: another one in each process.
    pub seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self {
            servers: Vec::new(),
            credential: None,
            namespace: String::new(),
            address: if host.is_empty() { "localhost".into() } else { host },
            labels: BTreeMap::new(),
            slots: u32::try_from(cores * 2).unwrap_or(4).clamp(4, MOST_SLOTS),
            drain_deadline: Duration::from_secs(30),
            stop_grace: Duration::from_secs(5),
            on_refused: OnRefused::default(),
            seed: None,
        }
    }
}

const MOST_SLOTS: u32 = 4096;

impl Options {
    /// The defaults with what the environment says: `ROSTERD_SERVER` (several separated by commas) and
    /// `ROSTERD_CREDENTIAL`.
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

#[allow(clippy::disallowed_methods, reason = "secrets never come from the command line")]
pub(crate) fn credential_from_env() -> Option<String> {
    std::env::var("ROSTERD_CREDENTIAL").ok().filter(|secret| !secret.is_empty())
}
