//! The files that say who may come in: credentials, certificate, key, clients' CA. Read at the start, where a bad
//! one is an error, and again on SIGHUP or when one has changed, where a bad one is unusable and what was in force
//! stays. No connection is dropped for it; streams of what was revoked are ended by the edge.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::config::{Config, Tls};
use rosterd_api::access::Credentials;
use rosterd_api::tls::{Clients, Material, ServerTls, TlsError};
use rosterd_runtime::clock::SharedClock;
use rosterd_runtime::mutants;
use rosterd_runtime::tasks::{ShutdownPhase, Tasks};

use super::credentials;

/// How often the files are looked at: what was revoked in the file is revoked after this at the latest.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Larger files are something else.
const LARGEST: u64 = 4 << 20;
/// Read permission for everybody.
const ALL_READ: u32 = 0o004;

/// What is in force, and where it comes from.
pub(super) struct Access {
    pub(super) credentials: Arc<Credentials>,
    pub(super) tls: Option<Arc<ServerTls>>,
    credential_file: Option<PathBuf>,
    tls_files: Option<Tls>,
    /// The versions that were read last. They outlive the task that looks: what changed before it began, or while it was
    /// to begin again, has changed all the same.
    read: Mutex<Versions>,
}

/// Of the credential file and of the TLS files.
struct Versions {
    credentials: Vec<Option<Stamp>>,
    tls: Vec<Option<Stamp>>,
}

impl Versions {
    fn of(credential_file: Option<&Path>, tls_files: Option<&Tls>) -> Self {
        Self {
            credentials: credential_file.into_iter().map(stamp).collect(),
            tls: tls_files.into_iter().flat_map(paths).map(|(_, path)| stamp(path)).collect(),
        }
    }
}

impl Access {
    /// Reads all files; an error names the field, the file and what is wrong.
    pub(super) fn open(config: &Config) -> Result<Self, String> {
        // Before they are read: a change in between is read once more, and none is overlooked.
        let read = Mutex::new(Versions::of(config.credentials.as_deref(), config.tls.as_ref()));
        let credentials = match &config.credentials {
            None => Credentials::open(),
            Some(path) => Credentials::new(credentials::read(path)?),
        };
        let tls = config.tls.as_ref().map(|files| with_material(files, ServerTls::new)).transpose()?;
        let (credential_file, tls_files) = (config.credentials.clone(), config.tls.clone());
        Ok(Self { credentials, tls, credential_file, tls_files, read })
    }

    /// Keeps all of it as the files are, until the edge stops.
    pub(super) fn follow(self, tasks: &Tasks, clock: SharedClock) {
        let this = Arc::new(self);
        tasks.restartable(ShutdownPhase::Edge, "access", move || {
            let (this, clock) = (this.clone(), clock.clone());
            async move { this.look(clock).await }
        });
    }

    async fn look(&self, clock: SharedClock) {
        use tokio::signal::unix::{SignalKind, signal};
        let mut hangup = signal(SignalKind::hangup()).ok();
        loop {
            let hung_up = async {
                match &mut hangup {
                    Some(hangup) => hangup.recv().await,
                    None => std::future::pending().await,
                }
            };
            let asked = tokio::time::timeout(LOOK_EVERY, hung_up).await.is_ok();
            mutants::panic_if_injected("panic-access");
            self.credentials.expire(clock.wall());
            self.read_what_changed(asked);
        }
    }

    /// Small files of this machine: not worth another thread.
    fn read_what_changed(&self, asked: bool) {
        let now = Versions::of(self.credential_file.as_deref(), self.tls_files.as_ref());
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if asked || now.credentials != read.credentials {
            self.read_credentials();
        }
        if asked || now.tls != read.tls {
            self.read_tls();
        }
        *read = now;
    }

    fn read_credentials(&self) {
        let Some(path) = &self.credential_file else { return };
        match credentials::read(path) {
            Ok(grants) => {
                let count = grants.len();
                let revoked = self.credentials.replace(grants);
                tracing::info!(target: "rosterd::audit", count, ?revoked, "credentials were read again");
                if count == 0 {
                    tracing::warn!("the credential file has no credentials: nobody may do anything");
                }
            }
            Err(error) => tracing::error!("{error}; those read before stay in force until it is mended"),
        }
    }

    fn read_tls(&self) {
        let (Some(files), Some(tls)) = (&self.tls_files, &self.tls) else { return };
        match with_material(files, |material| tls.replace(material)) {
            Ok(()) => tracing::info!("the TLS files were read again: new connections get them"),
            Err(error) => tracing::error!("{error}; those read before stay in force until it is mended"),
        }
    }
}

/// What tells one version of a file from another.
#[derive(PartialEq, Eq)]
struct Stamp(u64, u64, u64, i64, i64, i64, i64);

fn stamp(path: &Path) -> Option<Stamp> {
    let there = std::fs::metadata(path).ok()?;
    let (modified, changed) = ((there.mtime(), there.mtime_nsec()), (there.ctime(), there.ctime_nsec()));
    Some(Stamp(there.dev(), there.ino(), there.len(), modified.0, modified.1, changed.0, changed.1))
}

fn paths(files: &Tls) -> impl Iterator<Item = (&'static str, &Path)> {
    let ca = files.client_ca.as_deref().map(|path| ("tls_client_ca", path));
    [("tls_cert", files.cert.as_path()), ("tls_key", files.key.as_path())].into_iter().chain(ca)
}

/// Reads the TLS files and does something with them; errors say which of them is meant.
fn with_material<T>(
    files: &Tls,
    make: impl FnOnce(&Material<'_>) -> Result<T, TlsError>,
) -> Result<T, String> {
    let (certificate, key) = (file("tls_cert", &files.cert)?, file("tls_key", &files.key)?);
    if std::fs::metadata(&files.key).is_ok_and(|there| there.mode() & ALL_READ != 0) {
        tracing::warn!(
            "tls_key {} can be read by everybody on this machine: chmod o-r it",
            files.key.display()
        );
    }
    let ca = files.client_ca.as_deref().map(|path| file("tls_client_ca", path)).transpose()?;
    let clients = ca.as_deref().map(|ca| Clients { ca, required: files.client_required });
    make(&Material { certificate: &certificate, key: &key, clients }).map_err(|error| match &error {
        TlsError::Certificate(_) => format!(
            "tls_cert {}: {error}: write the coordinator's certificate in PEM, then those between it and its CA",
            files.cert.display()
        ),
        TlsError::Key(_) => {
            format!("tls_key {}: {error}: write the key of tls_cert in PEM, unencrypted", files.key.display())
        }
        TlsError::ClientCa(_) => {
            let path = files.client_ca.as_deref().unwrap_or(Path::new("")).display();
            format!("tls_client_ca {path}: {error}: write the certificates of those who sign clients', in PEM")
        }
    })
}

fn file(field: &str, path: &Path) -> Result<Vec<u8>, String> {
    let unusable =
        |why: String| format!("{field} {}: {why}: name a PEM file that this user may read", path.display());
    let there = std::fs::metadata(path).map_err(|error| unusable(format!("it cannot be read: {error}")))?;
    if !there.is_file() || there.len() > LARGEST {
        return Err(unusable(format!("it is not a file of at most {LARGEST} bytes")));
    }
    std::fs::read(path).map_err(|error| unusable(format!("it cannot be read: {error}")))
}
