//! How an ensemble is reached: servers, credentials, times.

use std::fmt;
use std::time::Duration;

use rosterd_domain::id::Namespace;

use super::error::ConnectError;
use rosterd_runtime::clock::{SharedClock, System};

/// How often, and after which pauses, something is retried: the pause doubles from `base` up to `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first pause.
    pub base: Duration,
    /// The longest pause.
    pub max: Duration,
    /// Tries after the first.
    pub retries: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_millis(100), max: Duration::from_secs(3), retries: 3 }
    }
}

impl Backoff {
    /// The pause before try `n`, counted from 1.
    pub(super) fn pause(&self, n: u32) -> Duration {
        self.base.saturating_mul(1 << n.saturating_sub(1).min(16)).min(self.max)
    }
}

/// Who we are to the ensemble.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// The scheme `digest`: a wrong password shows only when access to a node is refused.
    Digest {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// SASL DIGEST-MD5: a wrong password is refused at once.
    Sasl {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, user) = match self {
            Self::Digest { user, .. } => ("digest", user),
            Self::Sasl { user, .. } => ("sasl", user),
        };
        write!(f, "{scheme} {user}:…")
    }
}

/// TLS to the servers.
#[derive(Clone, PartialEq, Eq)]
pub struct Tls {
    /// The trusted CA certificates, PEM.
    pub ca: String,
    /// Our own certificate and its key, PEM.
    pub identity: Option<(String, String)>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tls {{ identity: {} }}", self.identity.is_some())
    }
}

/// How an ensemble is reached.
#[derive(Clone)]
pub struct ZooKeeperOptions {
    /// `host:port`, several separated by commas; a path after the last is the root below which all nodes are.
    pub servers: String,
    /// The namespace that is served.
    pub namespace: Namespace,
    /// The session timeout to request; the servers may grant another.
    pub session_timeout: Duration,
    /// How long one round over all servers may take until there is a session.
    pub connect_timeout: Duration,
    /// How long a request may wait and take; `None`: half of the granted session timeout.
    pub request_timeout: Option<Duration>,
    /// How connecting and reads are retried.
    pub backoff: Backoff,
    /// Our identity. With credentials or a certificate, only we have access to the nodes that we create.
    pub credentials: Option<Credentials>,
    /// TLS.
    pub tls: Option<Tls>,
    /// How many transactions may wait; more are refused as overload.
    pub queue: usize,
    /// The clock that the session is measured with.
    pub clock: SharedClock,
}

/// How many transactions may wait.
pub const DEFAULT_QUEUE: usize = 16_384;

impl ZooKeeperOptions {
    /// The defaults for these servers and a namespace.
    pub fn new(servers: impl Into<String>, namespace: Namespace) -> Self {
        Self {
            servers: servers.into(),
            namespace,
            session_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(15),
            request_timeout: None,
            backoff: Backoff::default(),
            credentials: None,
            tls: None,
            queue: DEFAULT_QUEUE,
            clock: System::shared(),
        }
    }

    /// Whether the servers can identify us.
    pub(super) fn is_authenticated(&self) -> bool {
        self.credentials.is_some() || self.tls.as_ref().is_some_and(|tls| tls.identity.is_some())
    }
}

impl fmt::Debug for ZooKeeperOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeperOptions")
            .field("servers", &self.servers)
            .field("namespace", &self.namespace)
            .field("session_timeout", &self.session_timeout)
            .field("credentials", &self.credentials)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

/// `h:p,h:p/chroot`, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Servers {
    /// `h:p,h:p`.
    pub(super) list: String,
    /// `/chroot`, without a slash at its end; `None`: the root of the tree.
    pub(super) chroot: Option<String>,
}

impl Servers {
    /// Parses the text; each server must be `host:port`.
    pub(super) fn read(text: &str) -> Result<Self, ConnectError> {
        let refuse = |problem: &str| {
            Err(ConnectError::Servers { servers: text.to_owned(), problem: problem.to_owned() })
        };
        let (list, chroot) = match text.find('/') {
            Some(at) => (&text[..at], text[at..].trim_end_matches('/')),
            None => (text, ""),
        };
        let is_server = |server: &str| {
            server.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
            })
        };
        let servers: Vec<&str> = list.split(',').map(str::trim).collect();
        if let Some(bad) = servers.iter().find(|server| !is_server(server)) {
            return refuse(&format!("{bad:?} is not host:port"));
        }
        if chroot.split('/').skip(1).any(|part| part.is_empty() || part == "." || part == "..") {
            return refuse("its path has an empty part, or a dot for a name");
        }
        Ok(Self { list: servers.join(","), chroot: (!chroot.is_empty()).then(|| chroot.to_owned()) })
    }

    /// Each server.
    pub(super) fn each(&self) -> impl Iterator<Item = &str> {
        self.list.split(',')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_their_root_are_distinguished() {
        let read = |text| Servers::read(text).map(|servers| (servers.list, servers.chroot));
        assert_eq!(read("a:1, b:2").unwrap(), ("a:1,b:2".into(), None));
        assert_eq!(read("[::1]:2181/x/y/").unwrap(), ("[::1]:2181".into(), Some("/x/y".into())));
        for bad in ["", "a", "a:0", "a:x", ":1", "a:1,", "a:1/x//y", "a:1/../x"] {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.contains("host:port"), "{bad}: {error}");
        }
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff =
            Backoff { base: Duration::from_millis(100), max: Duration::from_millis(350), retries: 9 };
        let pauses: Vec<u128> = (1..5).map(|n| backoff.pause(n).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 350, 350]);
    }

    #[test]
    fn no_secret_is_shown() {
        let credentials = Credentials::Digest { user: "u".into(), password: "hidden".into() };
        let mut options = ZooKeeperOptions::new("a:1", Namespace::new("ns").unwrap());
        options.credentials = Some(credentials);
        options.tls = Some(Tls { ca: "hidden".into(), identity: Some(("hidden".into(), "hidden".into())) });
        assert!(!format!("{options:?}").contains("hidden"));
    }
}
