//! Joins the history to the coordinator, which writes it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::JobName;
use rosterd_domain::ownership::Owned;
use rosterd_domain::plan::Entry;
use rosterd_domain::time::Time;
use rosterd_domain::verify::given;

use crate::config::Config;
use rosterd_coordinator::driver::Sink;
use rosterd_coordinator::handle::Happening;
use rosterd_history::{Detail, EventKind, History, HistoryError, Options, Reader, Recorder};
use rosterd_runtime::clock::{Clock as _, System};
use rosterd_runtime::tasks::{Phase, Tasks};
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

    fn happened(&mut self, at: Time, happening: &Happening) {
        match happening {
            Happening::Assigned { job, generation, why, owners } => {
                let owners = owners.iter().map(|(instance, items)| (instance.as_str(), items.as_slice()));
                let why = why.as_ref().map(ToString::to_string).unwrap_or_default();
                let text = given::spell(*generation, &why, owners);
                self.0.event(at, Some(job), EventKind::Assigned, text, None);
            }
            Happening::Worker { instance, change } => {
                let text = format!("{instance} {}", change.as_str());
                self.0.event(at, None, EventKind::Worker, text, None);
            }
            Happening::Job { job, what, by, .. } => {
                self.0.event(at, Some(job), EventKind::Job, what.clone(), by.as_deref());
            }
            Happening::Asked { job, what, by, .. } => {
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

/// Opens the history in a data directory, or begins one there.
pub(super) fn open(config: &Config, data_dir: &Path) -> Result<(Recorder, Reader), HistoryError> {
    let options = Options {
        retention: config.history.retention,
        max_rows: config.history.max_runs,
        queue: config.history.queue,
        ..Options::default()
    };
    History::open(data_dir.join(FILE), options, Arc::new(|| System.wall()))
}

/// Counts what the history dropped into the metrics.
pub(super) fn watch_drops(tasks: &Tasks, recorder: Recorder, metrics: Arc<Metrics>) {
    let stop = tasks.stop(Phase::Store);
    tasks.session(Phase::Store, "history drops", async move {
        let mut seen = 0;
        loop {
            let dropped = recorder.dropped();
            metrics.history_dropped.inc_by(dropped.saturating_sub(seen));
            seen = dropped;
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(Duration::from_secs(5)) => {}
            }
        }
    });
}
