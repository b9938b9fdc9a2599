//! The fields of the registry on ZooKeeper, and the rules between them.

use std::path::PathBuf;
use std::time::Duration;

use super::reader::ConfigReader;
use super::value::is_loopback;

/// Where the history is kept by default.
const DATA_DIR: &str = "rosterd-data";

/// A ZooKeeper ensemble, and how it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZooKeeper {
    /// `host:port`, several separated by commas, with a path after the last for another root.
    pub servers: String,
    /// Where the history is; each coordinator has its own.
    pub data_dir: PathBuf,
    /// How long one round over all servers may take until there is a session.
    pub connect_timeout: Duration,
    /// How long a request may wait and take; none: half of the session.
    pub request_timeout: Option<Duration>,
    /// The first pause before something is tried again.
    pub retry_base: Duration,
    /// The longest one.
    pub retry_max: Duration,
    /// How often connecting and reads are tried again.
    pub retries: u32,
    /// Who we are.
    pub auth: Option<Auth>,
    /// TLS.
    pub tls: Option<Tls>,
}

impl ZooKeeper {
    /// Whether the nodes that are made belong to somebody; to everybody else they are closed.
    pub fn has_identity(&self) -> bool {
        self.auth.is_some() || self.tls.as_ref().is_some_and(|tls| tls.identity.is_some())
    }

    /// Whether nobody but this machine reaches the servers.
    pub fn is_on_loopback(&self) -> bool {
        let list = self.servers.split('/').next().unwrap_or_default();
        list.split(',').all(|server| is_loopback(server.trim()))
    }
}

/// Who we are to the servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Auth {
    /// By SASL DIGEST-MD5 instead of the scheme digest.
    pub sasl: bool,
    /// The user.
    pub user: String,
    /// A file whose only line is the password.
    pub password_file: PathBuf,
}

/// PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Certificates that are believed.
    pub ca: PathBuf,
    /// Our own certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Types the fields; none without servers.
pub(super) fn read(reader: &mut ConfigReader, data_dir: Option<PathBuf>) -> Option<ZooKeeper> {
    let servers = servers(reader);
    let found = ZooKeeper {
        servers: servers.clone().unwrap_or_default(),
        data_dir: data_dir.unwrap_or_else(|| DATA_DIR.into()),
        connect_timeout: reader.duration("zk_connect_timeout", "100ms", "10m"),
        request_timeout: reader
            .text("zk_request_timeout")
            .is_some()
            .then(|| reader.duration("zk_request_timeout", "10ms", "10m")),
        retry_base: reader.duration("zk_retry_base", "1ms", "1m"),
        retry_max: reader.duration("zk_retry_max", "1ms", "10m"),
        retries: reader.count("zk_retries", 0, 1_000_000),
        auth: auth(reader),
        tls: tls(reader),
    };
    if found.retry_max < found.retry_base {
        reader.push("zk_retry_max", "it is less than zk_retry_base", "make it as long at least");
    }
    let insecure = reader.flag("insecure_registry");
    servers.as_ref()?;
    // Half an identity is a defect of its own.
    let meant = ["zk_auth", "zk_tls_cert", "zk_tls_key"].iter().any(|name| reader.text(name).is_some());
    if !meant && !insecure && !found.is_on_loopback() {
        let problem = "anyone who can reach these servers could change jobs, and where workers send their credentials: \
                       nothing says whose the nodes are";
        let remedy = "set zk_auth, zk_user and zk_password_file, or zk_tls_cert, or say --insecure-registry if the network \
                      itself is trusted";
        reader.push("zk", problem, remedy);
    }
    Some(found)
}

/// Says of each field that belongs to ZooKeeper and was set that it counts for nothing.
pub(super) fn refuse(reader: &mut ConfigReader) {
    for name in ["zk", "zk_auth", "zk_user", "zk_password_file", "zk_tls_ca", "zk_tls_cert", "zk_tls_key"] {
        if reader.text(name).is_some() {
            let remedy = format!("say registry = zookeeper, or leave {name} out");
            reader.push(name, "the embedded store has no servers", remedy);
        }
    }
}

fn servers(reader: &mut ConfigReader) -> Option<String> {
    let remedy = "write host:port, several separated by commas, and a path after the last for another root";
    let Some(text) = reader.text("zk").map(str::to_owned) else {
        reader.unset("zk", "the store is on ZooKeeper", "give --zk host:port,…");
        return None;
    };
    let (list, root) = text.split_at(text.find('/').unwrap_or(text.len()));
    let is_server = |server: &&str| {
        server
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0))
    };
    if let Some(bad) = list.split(',').map(str::trim).find(|server| !is_server(server)) {
        reader.push("zk", format!("{bad:?} is not a server"), remedy);
        return None;
    }
    let is_part = |part: &str| !part.is_empty() && part != "." && part != "..";
    if !root.trim_end_matches('/').split('/').skip(1).all(is_part) {
        reader.push("zk", format!("{root:?} is not a path"), remedy);
        return None;
    }
    Some(text)
}

fn auth(reader: &mut ConfigReader) -> Option<Auth> {
    let sasl = match reader.text("zk_auth") {
        Some("digest") => false,
        Some("sasl") => true,
        Some(_) => {
            reader.push("zk_auth", "unknown method", "write digest or sasl");
            return None;
        }
        None => {
            for name in ["zk_user", "zk_password_file"] {
                if reader.text(name).is_some() {
                    reader.push(name, "zk_auth is not set", "set zk_auth to digest or sasl");
                }
            }
            return None;
        }
    };
    let user = required(reader, "zk_user", "zk_auth needs a user");
    let password_file = file(reader, "zk_password_file", Some("zk_auth needs a password"));
    Some(Auth { sasl, user: user?, password_file: password_file? })
}

fn tls(reader: &mut ConfigReader) -> Option<Tls> {
    let ca = file(reader, "zk_tls_ca", None);
    let (certificate, key) = (file(reader, "zk_tls_cert", None), file(reader, "zk_tls_key", None));
    let [has_ca, has_certificate, has_key] =
        ["zk_tls_ca", "zk_tls_cert", "zk_tls_key"].map(|name| reader.text(name).is_some());
    if !has_ca && (has_certificate || has_key) {
        let remedy = "name the file with the certificates that the servers' are to be believed by";
        reader.push("zk_tls_ca", "it is not set, and zk_tls_cert or zk_tls_key is", remedy);
    }
    if has_certificate && !has_key {
        reader.push("zk_tls_key", "it is not set, and zk_tls_cert is", "name the certificate's key");
    }
    if has_key && !has_certificate {
        reader.push("zk_tls_cert", "it is not set, and zk_tls_key is", "name the key's certificate");
    }
    Some(Tls { ca: ca?, identity: certificate.zip(key) })
}

fn required(reader: &mut ConfigReader, name: &'static str, why: &str) -> Option<String> {
    let found = reader.text(name).map(str::to_owned);
    if found.is_none() {
        reader.push(name, format!("it is not set, and {why}"), format!("set {name}"));
    }
    found
}

/// A file that can be read.
fn file(reader: &mut ConfigReader, name: &'static str, required_by: Option<&str>) -> Option<PathBuf> {
    let path = match (reader.text(name), required_by) {
        (Some(path), _) => PathBuf::from(path),
        (None, Some(why)) => return required(reader, name, why).map(PathBuf::from),
        (None, None) => return None,
    };
    if let Err(error) = std::fs::File::open(&path) {
        reader.push(name, format!("it cannot be read: {error}"), "name a file that can be read");
        return None;
    }
    Some(path)
}
