//! Jobs out of and into a store, without a coordinator: opens the store that a configuration names, and sees to it
//! that its session has ended before the process does.

use std::sync::Arc;

use rosterd_domain::id::JobName;

use super::{AppError, store};
use crate::config::{Config, Registry as RegistryConfig};
use crate::transfer::elastic_job;
pub use crate::transfer::{Existing, Export, ImportReport, Job, PutError, TakeError, Taken};
use rosterd_history::EventKind;
use rosterd_registry::Registry;
use rosterd_registry::embedded::{EmbeddedOptions, EmbeddedRegistry};
use rosterd_registry::memory::{MemoryRegistry, MemoryStore, SessionOptions};
use rosterd_registry::zookeeper::ZooKeeperRegistry;
use rosterd_registry::zookeeper::foreign::{self, ForeignError, ForeignJob};
use rosterd_runtime::clock::{Clock as _, System};

/// Why nothing was moved.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] AppError),
    /// There is no store to export.
    #[error("there is no store in {0}: correct data_dir")]
    Nothing(String),
    /// The jobs cannot be read.
    #[error(transparent)]
    Take(#[from] TakeError),
    /// The jobs cannot be written.
    #[error(transparent)]
    Put(#[from] PutError),
    /// Elastic-Job's tree cannot be read.
    #[error(transparent)]
    Foreign(#[from] ForeignError),
    /// Elastic-Job's jobs must not be taken over, or cannot; every reason, one a line.
    #[error("nothing was written:{}", .0.iter().map(|why| format!("\n  {why}")).collect::<String>())]
    Refused(Vec<String>),
}

/// How jobs are put into a store.
#[derive(Debug, Clone, Copy)]
pub struct How {
    /// What becomes of jobs that exist.
    pub existing: Existing,
    /// Runs in flight are ended as crashed.
    pub crash_running: bool,
    /// Nothing is written.
    pub dry_run: bool,
}

/// A store that is open for one command.
pub(super) enum Opened {
    Embedded(Arc<EmbeddedRegistry>),
    ZooKeeper(Arc<ZooKeeperRegistry>),
    /// A directory without a store, which is only looked at.
    Nothing(Arc<MemoryRegistry>),
}

impl Opened {
    pub(super) async fn open(config: &Config) -> Result<Self, AppError> {
        Ok(match &config.registry {
            RegistryConfig::Embedded { data_dir } => {
                let options = EmbeddedOptions::new(config.namespace.clone());
                Self::Embedded(Arc::new(EmbeddedRegistry::open(data_dir, options)?))
            }
            RegistryConfig::ZooKeeper(zookeeper) => {
                let options = store::options(config, zookeeper)?;
                Self::ZooKeeper(Arc::new(ZooKeeperRegistry::connect(options).await?))
            }
        })
    }

    fn registry(&self) -> &dyn Registry {
        match self {
            Self::Embedded(registry) => &**registry,
            Self::ZooKeeper(registry) => &**registry,
            Self::Nothing(registry) => &**registry,
        }
    }

    /// What an import would find in an empty place: looking must not create a store.
    pub(super) fn nothing(config: &Config) -> Self {
        let store = MemoryStore::new(&config.namespace);
        Self::Nothing(Arc::new(store.open("nothing", SessionOptions::default())))
    }

    pub(super) fn shared(&self) -> Arc<dyn Registry> {
        match self {
            Self::Embedded(registry) => registry.clone(),
            Self::ZooKeeper(registry) => registry.clone(),
            Self::Nothing(registry) => registry.clone(),
        }
    }

    pub(super) async fn close(self) {
        if let Self::ZooKeeper(registry) = self {
            registry.close();
            registry.closed().await;
        }
    }
}

/// Takes the jobs of a store.
pub async fn export(config: &Config, jobs: &[JobName]) -> Result<Taken, TransferError> {
    if let RegistryConfig::Embedded { data_dir } = &config.registry
        && !EmbeddedRegistry::is_in(data_dir)
    {
        return Err(TransferError::Nothing(data_dir.display().to_string()));
    }
    let opened = Opened::open(config).await?;
    let taken = crate::transfer::take(opened.registry(), &config.namespace, jobs, System.wall()).await;
    opened.close().await;
    Ok(taken?)
}

/// Puts jobs into a store; it is created if it is missing. `origin`: where they come from, for people.
pub async fn import(
    config: &Config,
    export: Export,
    how: How,
    origin: &str,
) -> Result<ImportReport, TransferError> {
    let opened = match &config.registry {
        RegistryConfig::Embedded { data_dir } if how.dry_run && !EmbeddedRegistry::is_in(data_dir) => {
            Opened::nothing(config)
        }
        RegistryConfig::Embedded { data_dir } => {
            super::make_private_dir(data_dir)?;
            Opened::open(config).await?
        }
        RegistryConfig::ZooKeeper(_) => Opened::open(config).await?,
    };
    let options = crate::transfer::Options {
        existing: how.existing,
        crash_running: how.crash_running,
        dry_run: how.dry_run,
        now: System.wall(),
        ids: Box::new(|| uuid::Uuid::new_v4().simple().to_string()),
    };
    let put = crate::transfer::put(opened.registry(), export, options).await;
    opened.close().await;
    if !how.dry_run {
        note(config, &put, origin).await;
    }
    Ok(put?)
}

/// One line for the audit, and one of each job. Only where a history is at hand: on an ensemble each coordinator has its
/// own, and of those at most one is in the directory that the configuration names.
async fn note(config: &Config, put: &Result<ImportReport, PutError>, origin: &str) {
    let data_dir = store::data_dir(&config.registry);
    let here = super::history::is_shared(config) || super::history::is_in(data_dir);
    if matches!(config.registry, RegistryConfig::ZooKeeper(_)) && !here {
        return;
    }
    let (made, overwritten, kept, end) = match put {
        Ok(report) => (&report.made, report.overwritten.as_slice(), report.skipped.len(), ""),
        Err(PutError::Stopped { done, .. }) => (done, [].as_slice(), 0, "; it did not come to its end"),
        Err(_) => return,
    };
    let opened = super::history::open(config, data_dir);
    let Ok((recorder, _)) =
        opened.inspect_err(|error| tracing::warn!("the history has no line of it: {error}"))
    else {
        return;
    };
    // No credential is asked for: whoever may write the store may do this.
    let (now, who) = (System.wall(), format!("uid {}", rustix::process::getuid().as_raw()));
    for job in made {
        let what = if overwritten.contains(job) { "imported over what was there" } else { "imported" };
        recorder.event(now, Some(job), EventKind::Job, what, Some(&who));
    }
    let (count, over) = (made.len(), overwritten.len());
    let what = format!(
        "imported from {origin}: {count} made, {over} of them over what was there, {kept} left as they were{end}"
    );
    recorder.event(now, None, EventKind::Operation, what, Some(&who));
    recorder.stop().await;
}

/// What was found of Elastic-Job's own.
#[derive(Debug)]
pub struct Foreign {
    /// The jobs, to be put into a store.
    pub export: Export,
    /// The same as job files, by name.
    pub files: Vec<(JobName, String)>,
    /// What should be known: of which job, and what.
    pub notes: Vec<(String, String)>,
    /// The same of the job files.
    pub file_notes: Vec<(String, String)>,
}

/// Reads jobs of Elastic-Job's own; writes nothing.
pub async fn elastic_job(
    config: &Config,
    wanted: &[JobName],
    running: bool,
) -> Result<Foreign, TransferError> {
    let RegistryConfig::ZooKeeper(source) = &config.registry else {
        return Err(TransferError::Refused(vec![
            "Elastic-Job keeps its jobs in ZooKeeper: name its servers".into(),
        ]));
    };
    let now = System.wall();
    let found = foreign::jobs(&store::options(config, source)?, wanted).await?;
    let mut refused: Vec<String> =
        elastic_job::unknown(&found.jobs, wanted).iter().map(|name| format!("{name} is not there")).collect();
    if found.jobs.is_empty() {
        refused.push(format!("there is no job below /{} at {}", config.namespace, source.servers));
    }
    if !running {
        refused.extend(elastic_job::live(&found.jobs));
    }
    let others: Vec<_> = found.others.into_iter().map(|(name, why)| (name, why.to_owned())).collect();
    let mut foreign = Foreign {
        export: Export {
            namespace: config.namespace.clone(),
            exported_at: now,
            tokens: rosterd_domain::id::Token(0),
            jobs: Vec::new(),
        },
        files: Vec::new(),
        notes: others.clone(),
        file_notes: others,
    };
    for job in &found.jobs {
        match elastic_job::job(job, now) {
            Ok(taken) => add(&mut foreign, job, taken),
            Err(defects) => refused.extend(defects),
        }
    }
    if refused.is_empty() { Ok(foreign) } else { Err(TransferError::Refused(refused)) }
}

fn add(foreign: &mut Foreign, found: &ForeignJob, taken: elastic_job::Taken) {
    let name = taken.job.name.clone();
    let beside = elastic_job::beside_file(found, &taken.spec);
    let noted =
        |notes: Vec<String>| notes.into_iter().map(|note| (name.to_string(), note)).collect::<Vec<_>>();
    foreign.file_notes.extend(noted(taken.notes.iter().cloned().chain(beside).collect()));
    foreign.notes.extend(noted(taken.notes));
    foreign.files.push((name, taken.spec.to_file()));
    foreign.export.jobs.push(taken.job);
}
