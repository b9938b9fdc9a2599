//! Joins the history to the coordinator, which writes it, and to the edge, which reads it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use rosterd_domain::id::{Item, JobName};
use rosterd_domain::plan::Entry;
use rosterd_domain::time::Time;

use crate::api::backend::Answer;
use crate::api::history as edge;
use crate::code::{Code, Refusal};
use crate::coordinator::driver::Sink;
use crate::coordinator::handle::Happening;
use crate::history::{Detail, EventKind, Fate, FireRow, FireRun, HistoryError, Page, Reader, Recorder, RunFilter, RunRow, RunState};
use crate::runtime::tasks::{Phase, Tasks};
use crate::runtime::telemetry::Metrics;
use crate::session::frame::Completed;

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

    fn happened(&mut self, at: Time, happening: &Happening) {
        match happening {
            Happening::Assigned { job, generation, why, .. } => {
                self.0.event(at, Some(job), EventKind::Assigned, format!("generation {generation}: {why}"), None);
            }
            Happening::Worker { instance, what } => {
                self.0.event(at, None, EventKind::Worker, format!("{instance} {what}"), None);
            }
            Happening::Job { job, what } => self.0.event(at, Some(job), EventKind::Job, what.clone(), None),
            _ => {}
        }
    }
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

/// The history as the edge asks for it.
pub(super) struct FromHistory(pub(super) Reader);

impl edge::History for FromHistory {
    fn runs(&self, query: edge::RunQuery) -> Answer<'_, (Vec<edge::RunView>, Option<String>)> {
        let filter = RunFilter {
            job: query.job,
            item: query.item,
            state: query.outcome.map(RunState::from),
            instance: None,
            from: query.from,
            to: query.to,
        };
        let page = Page { size: query.size, token: query.token };
        async move {
            let (rows, next) = self.0.runs(filter, page).await.map_err(refused)?;
            Ok((rows.into_iter().map(run).collect(), next))
        }
        .boxed()
    }

    fn fires<'a>(&'a self, job: &'a JobName, items: Vec<Item>, due: Vec<Time>) -> Answer<'a, Vec<edge::FireView>> {
        async move {
            let (Some(first), Some(last)) = (due.first().copied(), due.last().copied()) else {
                return Ok(Vec::new());
            };
            let until = Time(last.0 + 1);
            let rows = self.0.fires(job, due, items, first, until).await.map_err(refused)?;
            Ok(rows.into_iter().map(|row| fire(job, row)).collect())
        }
        .boxed()
    }
}

fn refused(error: HistoryError) -> Refusal {
    let code = match error {
        HistoryError::PageToken(_) | HistoryError::TooMuch => Code::RequestInvalid,
        _ => Code::StoreUnavailable,
    };
    Refusal::new(code, error.to_string())
}

fn run(row: RunRow) -> edge::RunView {
    edge::RunView {
        job: row.job,
        item: row.item,
        token: row.token,
        fire: row.fire,
        source: row.source,
        instance: row.instance,
        outcome: row.state.outcome(),
        started: row.started.unwrap_or(row.since),
        ended: row.ended,
        attempt: row.attempt,
        error: row.error,
        output: row.output,
        counts: (row.processed, row.failed),
    }
}

fn fire(job: &JobName, row: FireRow) -> edge::FireView {
    let fate = match (row.became, row.reason) {
        (Fate::Run, _) => edge::Fate::Run,
        (Fate::Misfired, _) => edge::Fate::Misfired,
        (Fate::Skipped, _) => edge::Fate::Skipped,
        (Fate::Missed, Some(reason)) => edge::Fate::Missed(reason),
        (Fate::Pending, _) => edge::Fate::Pending,
        (Fate::Unknown | Fate::Missed, _) => edge::Fate::Unknown,
    };
    let (fire, item) = (row.fire, row.item);
    edge::FireView { fire, item, fate, run: row.run.map(|seen| fire_run(job, fire, item, seen)) }
}

fn fire_run(job: &JobName, fire: Time, item: Item, seen: FireRun) -> (edge::RunView, u32) {
    let view = edge::RunView {
        job: job.clone(),
        item,
        token: seen.token,
        fire,
        source: seen.source,
        instance: seen.instance,
        outcome: seen.state.outcome(),
        started: fire,
        ended: None,
        attempt: 0,
        error: String::new(),
        output: String::new(),
        counts: (0, 0),
    };
    (view, seen.runs)
}
