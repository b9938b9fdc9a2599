//! Joins the history to the coordinator, which writes it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::item::Running;
use rosterd_domain::ownership::Owned;
use rosterd_domain::plan::Entry;
use rosterd_domain::time::Time;
use rosterd_domain::verify::given;

use super::AppError;
use crate::config::Config;
use crate::config::history::{Database, DatabaseTls, HistoryLocation};
use rosterd_coordinator::driver::Sink;
use rosterd_coordinator::handle::ClusterEvent;
use rosterd_history::{
    Address, AddressError, Clock, Detail, EventKind, History, Options, Reader, Recorder, Roots, Trust,
};
use rosterd_runtime::clock::{Clock as _, System};
use rosterd_runtime::tasks::{ShutdownPhase, Tasks};
use rosterd_runtime::telemetry::Metrics;
use rosterd_session::frame::Completed;

/// The coordinator's entries into the history.
pub(super) struct ToHistory(pub(super) Recorder);

impl Sink for ToHistory {
    fn record(&mut self, job: &JobName, at: Time, entry: &Entry, detail: Option<&Completed>) {
        let detail = detail.map(|completed| Detail {
            error: completed.error.clone(),
            output: completed.output.clone(),
            processed: completed.counts.0,
            failed: completed.counts.1,
            attempt: completed.attempt,
            started_at: completed.started_at,
            ended_at: completed.ended_at,
        });
        self.0.record(job, at, entry, detail);
    }

    fn owned(&mut self, at: Time, owned: &Owned) {
        self.0.owned(at, owned);
    }

    fn begun(
        &mut self,
        job: &JobName,
        now: Time,
        (item, token): (Item, Token),
        run: &Running,
        at: Option<Time>,
    ) {
        self.0.begun(job, now, (item, token), run, at);
    }

    fn noted(&mut self, at: Time, job: Option<&JobName>, what: &str) {
        self.0.event(at, job, EventKind::Run, what, None);
    }

    fn happened(&mut self, at: Time, event: &ClusterEvent) {
        match event {
            ClusterEvent::Assigned { job, generation, why, owners } => {
                let owners = owners.iter().map(|(instance, items)| (instance.as_str(), items.as_slice()));
                let why = why.as_ref().map(ToString::to_string).unwrap_or_default();
                let text = given::spell(*generation, &why, owners);
                self.0.event(at, Some(job), EventKind::Assigned, text, None);
            }
            ClusterEvent::Worker { instance, change } => {
                let text = format!("{instance} {}", change.as_str());
                self.0.event(at, None, EventKind::Worker, text, None);
            }
            ClusterEvent::Job { job, what, by, .. } => {
                self.0.event(at, Some(job), EventKind::Job, what.clone(), by.as_deref());
            }
            ClusterEvent::Asked { job, what, by, .. } => {
                self.0.event(at, job.as_ref(), EventKind::Operation, what.clone(), by.as_deref());
            }
            _ => {}
        }
    }
}

/// The file of the history in a data directory.
const FILE: &str = "history.db";

/// Whether a data directory has a history.
pub(super) fn is_in(data_dir: &Path) -> bool {
    data_dir.join(FILE).exists()
}

/// What waits in a data directory for a database that is slow or away.
const SPOOL: &str = "history-spool.db";

/// Whether all coordinators of the namespace have one history.
pub(super) fn is_shared(config: &Config) -> bool {
    matches!(config.history.place, HistoryLocation::Database(_))
}

/// Opens the history where the configuration says, or begins one there.
pub(super) fn open(config: &Config, data_dir: &Path) -> Result<(Recorder, Reader), AppError> {
    let options = Options {
        retention: config.history.retention,
        max_rows: config.history.max_runs,
        queue: config.history.queue,
        ..Options::default()
    };
    let clock: Clock = Arc::new(|| System.wall());
    match &config.history.place {
        HistoryLocation::DataDir => Ok(History::open(data_dir.join(FILE), options, clock)?),
        HistoryLocation::File(path) => Ok(History::open(path, options, clock)?),
        HistoryLocation::Database(database) => {
            let address = address(database, config.namespace.as_str())?;
            Ok(History::share(address, data_dir.join(SPOOL), database.spool, options, clock)?)
        }
    }
}

/// Where the database is; its files are read, nothing is connected to.
pub(super) fn address(database: &Database, namespace: &str) -> Result<Address, AppError> {
    let read = |field, path: &Path| {
        std::fs::read(path).map_err(|error| AppError::File {
            field,
            path: path.display().to_string(),
            problem: error.to_string(),
        })
    };
    let password = database.password_file.as_deref().map(|path| read("history_password_file", path));
    let password = password.transpose()?;
    let password = password.as_deref().map(|bytes| {
        let end = bytes.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
        &bytes[..end]
    });
    let roots = match &database.ca {
        Some(path) => Roots::Pem(read("history_tls_ca", path)?),
        None => Roots::System,
    };
    let trust = match database.tls {
        DatabaseTls::Disable => Trust::Plain,
        DatabaseTls::Require => Trust::Anybody,
        DatabaseTls::VerifyCa => Trust::Chain(roots),
        DatabaseTls::VerifyFull => Trust::Full(roots),
    };
    Address::new(&database.url.0, password, &trust, namespace).map_err(|error| {
        let (field, path) = match &error {
            AddressError::Url(_) => ("history", String::new()),
            AddressError::Certificates(_) => (
                "history_tls_ca",
                database.ca.as_ref().map(|path| path.display().to_string()).unwrap_or_default(),
            ),
        };
        AppError::File { field, path, problem: error.to_string() }
    })
}

/// Tells the metrics what the history dropped, and how much waits.
pub(super) fn watch(tasks: &Tasks, recorder: Recorder, metrics: Arc<Metrics>) {
    let stop = tasks.stop(ShutdownPhase::Store);
    tasks.session(ShutdownPhase::Store, "history watch", async move {
        let mut seen = 0;
        loop {
            let status = recorder.status();
            metrics.history_dropped.inc_by(status.dropped.saturating_sub(seen));
            seen = status.dropped;
            metrics.history_waiting.set(status.waiting.try_into().unwrap_or(i64::MAX));
            metrics.history_waiting_bytes.set(status.waiting_bytes.try_into().unwrap_or(i64::MAX));
            metrics.history_reachable.set(i64::from(status.trouble.is_none()));
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(Duration::from_secs(5)) => {}
            }
        }
    });
}
