//! Opens the store that the configuration names, and sees to its end.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;

use super::AppError;
use super::supervisor::Open;
use crate::config::{Config, Registry as RegistryConfig, ZooKeeper};
use rosterd_domain::time::Time;
use rosterd_registry::Registry;
use rosterd_registry::embedded::{EmbeddedOptions, EmbeddedRegistry};
use rosterd_registry::zookeeper::{Backoff, Credentials, Tls, ZooKeeperOptions, ZooKeeperRegistry};
use rosterd_runtime::clock::{Clock as _, System};
use rosterd_runtime::tasks::{ShutdownPhase, Tasks};

/// An opened store.
pub(super) struct OpenedStore {
    pub(super) registry: Arc<dyn Registry>,
    /// Opens the next session, where there can be one.
    pub(super) open: Option<Open>,
    /// For people.
    pub(super) name: &'static str,
}

/// Where this process keeps files.
pub(super) fn data_dir(registry: &RegistryConfig) -> &Path {
    match registry {
        RegistryConfig::Embedded { data_dir } => data_dir,
        RegistryConfig::ZooKeeper(zookeeper) => &zookeeper.data_dir,
    }
}

/// Opens it.
pub(super) async fn open(config: &Config, tasks: &Tasks) -> Result<OpenedStore, AppError> {
    match &config.registry {
        RegistryConfig::Embedded { data_dir } => {
            compare_clock(data_dir, config.timing.max_clock_difference);
            let registry = EmbeddedRegistry::open(data_dir, EmbeddedOptions::new(config.namespace.clone()))?;
            Ok(OpenedStore { registry: Arc::new(registry), open: None, name: "embedded" })
        }
        RegistryConfig::ZooKeeper(zookeeper) => {
            let lease = config.timing.lease;
            let sessions = Sessions { options: options(config, zookeeper)?, lease, last: Arc::default() };
            let registry = sessions.open().await?;
            close_at_the_end(tasks, sessions.clone());
            Ok(OpenedStore { registry, open: Some(sessions.opener()), name: "zookeeper" })
        }
    }
}

/// The embedded store lives on this machine and has no clock of its own; but time does not go back over a restart. A clock that is
/// ahead at boot cannot be told from a long pause.
fn compare_clock(data_dir: &Path, most: Duration) {
    let Some(written) = EmbeddedRegistry::last_written(data_dir) else { return };
    let Ok(since) = written.duration_since(std::time::UNIX_EPOCH) else { return };
    let (written, now) = (Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)), System.wall());
    let behind = written.since(now);
    if behind > most {
        tracing::warn!(
            "ALARM: the store was last written at {written}, and this machine's clock says {now}, {behind:?} earlier: it is wrong now, \
             or was then; set it right (chrony, ntpd), or what was due in between is run again or late"
        );
    }
}

pub(super) fn options(config: &Config, zookeeper: &ZooKeeper) -> Result<ZooKeeperOptions, AppError> {
    let credentials = zookeeper.auth.as_ref().map(|auth| {
        let password = text("zk_password_file", &auth.password_file)?;
        let (user, password) = (auth.user.clone(), password.trim_end_matches(['\r', '\n']).to_owned());
        Ok::<_, AppError>(match auth.sasl {
            true => Credentials::Sasl { user, password },
            false => Credentials::Digest { user, password },
        })
    });
    let tls = zookeeper.tls.as_ref().map(|tls| {
        let identity = tls.identity.as_ref().map(|(certificate, key)| {
            Ok::<_, AppError>((text("zk_tls_cert", certificate)?, text("zk_tls_key", key)?))
        });
        Ok::<_, AppError>(Tls { ca: text("zk_tls_ca", &tls.ca)?, identity: identity.transpose()? })
    });
    Ok(ZooKeeperOptions {
        session_timeout: config.timing.session,
        connect_timeout: zookeeper.connect_timeout,
        request_timeout: zookeeper.request_timeout,
        backoff: Backoff { base: zookeeper.retry_base, max: zookeeper.retry_max, retries: zookeeper.retries },
        credentials: credentials.transpose()?,
        tls: tls.transpose()?,
        ..ZooKeeperOptions::new(zookeeper.servers.clone(), config.namespace.clone())
    })
}

fn text(field: &'static str, path: &PathBuf) -> Result<String, AppError> {
    std::fs::read_to_string(path).map_err(|error| AppError::File {
        field,
        path: path.display().to_string(),
        problem: error.to_string(),
    })
}

/// One session after the other.
#[derive(Clone)]
struct Sessions {
    options: ZooKeeperOptions,
    lease: Duration,
    /// The one of the moment, to be closed at the end.
    last: Arc<Mutex<Option<Arc<ZooKeeperRegistry>>>>,
}

impl Sessions {
    async fn open(&self) -> Result<Arc<dyn Registry>, AppError> {
        let registry = Arc::new(ZooKeeperRegistry::connect(self.options.clone()).await?);
        let (asked, lease) = (self.options.session_timeout, self.lease);
        let agreed = registry.session_timeout().unwrap_or(asked);
        if agreed < 2 * lease {
            return Err(AppError::Session { asked, agreed, lease });
        }
        let before = self.last.lock().unwrap_or_else(PoisonError::into_inner).replace(registry.clone());
        drop(before);
        Ok(registry)
    }

    fn opener(self) -> Open {
        Box::new(move || {
            let sessions = self.clone();
            async move { sessions.open().await.map_err(|error| error.to_string()) }.boxed()
        })
    }
}

/// The process does not end before the servers know: the nodes of this session go at once, and nobody waits for
/// its time-out.
fn close_at_the_end(tasks: &Tasks, sessions: Sessions) {
    let stop = tasks.stop(ShutdownPhase::Store);
    tasks.session(ShutdownPhase::Store, "store session", async move {
        stop.cancelled().await;
        let last = sessions.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(registry) = last {
            registry.close();
            registry.closed().await;
        }
    });
}
