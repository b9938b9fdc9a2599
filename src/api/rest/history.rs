//! The past: runs, fires, events. From the history of the coordinator that is query.

use std::time::Duration;

use axum::extract::{Path, State};
use http::{StatusCode, Uri};
use rosterd_domain::id::{Item, Token};
use rosterd_domain::time::Time;
use rosterd_history::{EventFilter, EventKind, OwnerFilter, Page as Rows, RunFilter, RunRow, RunState};
use rosterd_session::code::Code;
use serde::Deserialize;
use utoipa::IntoParams;

use super::change::number;
use super::explained::{self, Ownership, RunOfFire};
use super::paging::Paged;
use super::problem::Problem;
use super::shape::{self, Event, Fire, Run};
use super::{Json, JsonResult, Page, Query, Rest, Shared, job};
use crate::fires;
use crate::known;
use crate::traces::{self, Traces};

/// A filter of the history.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HistoryQuery {
    /// Only this job.
    job: Option<String>,
    /// Only this item.
    item: Option<u32>,
    /// Only the run with this token; requires job and item.
    token: Option<u64>,
    /// Only runs in this state: TASK_STAGING, TASK_RUNNING, TASK_FINISHED, TASK_ERROR and so on.
    state: Option<String>,
    /// Only events of this kind.
    kind: Option<String>,
    /// Only events that this credential caused.
    principal: Option<String>,
    /// Not before this (RFC 3339).
    from: Option<String>,
    /// Before this (RFC 3339).
    to: Option<String>,
    /// Rows of a page: 1 to 1000; default: 100.
    limit: Option<usize>,
    /// From the `Link` header of the previous answer (`rel="next"`).
    cursor: Option<String>,
}

const MOST: usize = 1000;

impl HistoryQuery {
    fn rows(&self) -> Result<Rows, Problem> {
        match self.limit.unwrap_or(100) {
            size @ 1..=MOST => Ok(Rows { size, token: self.cursor.clone() }),
            size => Err(Problem::invalid("limit", format!("{size} is not from 1 to {MOST}"))),
        }
    }

    fn times(&self) -> Result<(Option<Time>, Option<Time>), Problem> {
        let read = |field: &str, text: &Option<String>| {
            let read = text.as_deref().map(Time::parse).transpose();
            read.map_err(|error| Problem::invalid(field, error))
        };
        Ok((read("from", &self.from)?, read("to", &self.to)?))
    }
}

#[utoipa::path(get, path = "/api/runs", tag = "history", params(HistoryQuery), responses((status = 200, body = Vec<Run>), (status = 404, body = Problem)))]
/// Lists runs, the latest first.
pub(super) async fn runs(
    State(rest): Shared,
    uri: Uri,
    Query(query): Query<HistoryQuery>,
) -> Result<Page<Run>, Problem> {
    let state = query.state.as_deref().map(|text| {
        RunState::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| {
            let known: Vec<_> = RunState::ALL.iter().map(|state| state.as_str()).collect();
            Problem::invalid("state", format!("{text:?} is not one of {}", known.join(", ")))
        })
    });
    let (from, to) = query.times()?;
    let filter = RunFilter {
        job: query.job.clone().map(job).transpose()?,
        item: query.item.map(Item),
        token: query.token.map(Token),
        state: state.transpose()?,
        instance: None,
        from,
        to,
    };
    if filter.token.is_some() && (filter.job.is_none() || filter.item.is_none()) {
        return Err(Problem::invalid("token", "it goes with job and item: give both"));
    }
    let name = filter.job.clone();
    let (rows, next) = rest.history.runs(filter, query.rows()?).await?;
    let found = query.cursor.is_some() || next.is_some() || !rows.is_empty();
    known::job(name.as_ref(), found, &*rest.backend, &*rest.history).await?;
    Ok(Page::of(Paged { rows: traced(&rest, rows).await, next }, &uri))
}

/// Runs with their traces, if these are known.
async fn traced(rest: &Rest, rows: Vec<RunRow>) -> Vec<Run> {
    let traces = Traces::of(&*rest.backend, rows.iter().map(|row| &row.job)).await;
    let template = rest.trace_url.as_deref();
    let show = |row: RunRow| {
        let trace = traces.id(&row.job, row.token, row.fire);
        let trace_url = trace.and_then(|id| traces::page(template, id));
        Run { trace_id: trace.map(|id| id.to_string()), trace_url, ..shape::run(row) }
    };
    rows.into_iter().map(show).collect()
}

#[utoipa::path(get, path = "/api/events", tag = "history", params(HistoryQuery), responses((status = 200, body = Vec<Event>), (status = 404, body = Problem)))]
/// Lists changes of jobs and workers, and the credentials that made them, the latest first.
pub(super) async fn events(
    State(rest): Shared,
    uri: Uri,
    Query(query): Query<HistoryQuery>,
) -> Result<Page<Event>, Problem> {
    let kind = query.kind.as_deref().map(|text| {
        EventKind::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
            let known: Vec<_> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
            Problem::invalid("kind", format!("{text:?} is not one of {}", known.join(", ")))
        })
    });
    let (from, to) = query.times()?;
    let filter = EventFilter {
        job: query.job.clone().map(job).transpose()?,
        kind: kind.transpose()?,
        principal: query.principal.clone(),
        from,
        to,
    };
    let name = filter.job.clone();
    let (rows, next) = rest.history.events(filter, query.rows()?).await?;
    let found = query.cursor.is_some() || next.is_some() || !rows.is_empty();
    known::job(name.as_ref(), found, &*rest.backend, &*rest.history).await?;
    Ok(Page::of(Paged { rows: rows.into_iter().map(shape::event).collect(), next }, &uri))
}

#[utoipa::path(get, path = "/api/jobs/{job}/fires", tag = "history", params(("job" = String, Path), HistoryQuery), responses((status = 200, body = Vec<Fire>), (status = 404, body = Problem)))]
/// Lists a job's scheduled times with the result of each, the latest first; default: those of the last hour.
pub(super) async fn list_fires(
    State(rest): Shared,
    uri: Uri,
    Path(name): Path<String>,
    Query(query): Query<HistoryQuery>,
) -> Result<Page<Fire>, Problem> {
    let name = job(name)?;
    let row = rest.backend.job(&name, 0).await?.row;
    known::item(&name, query.item, row.items, &*rest.history).await?;
    let (from, to) = query.times()?;
    let to = to.unwrap_or_else(|| rest.clock.wall());
    let from = from.unwrap_or_else(|| to.minus(Duration::from_secs(3600)));
    let rows = query.rows()?;
    let span = fires::Span {
        from: from.max(row.made.unwrap_or(from)),
        to,
        items: query.item.map_or(0..row.items, |item| item..item.saturating_add(1)),
        size: rows.size,
        token: rows.token.unwrap_or_default(),
    };
    let (fires, next) = fires::of(span, &name, &*rest.backend, &*rest.history).await?;
    let next = (!next.is_empty()).then_some(next);
    Ok(Page::of(Paged { rows: fires.into_iter().map(shape::fire).collect(), next }, &uri))
}

#[utoipa::path(get, path = "/api/jobs/{job}/ownership", tag = "history", params(("job" = String, Path), HistoryQuery), responses((status = 200, body = Vec<Ownership>), (status = 404, body = Problem)))]
/// Lists the owners of a job's items within a span, and why each item changed owners, the latest first.
pub(super) async fn ownership(
    State(rest): Shared,
    uri: Uri,
    Path(name): Path<String>,
    Query(query): Query<HistoryQuery>,
) -> Result<Page<Ownership>, Problem> {
    let name = job(name)?;
    // Checks that the job exists.
    rest.backend.job(&name, 0).await?;
    let (from, to) = query.times()?;
    let filter = OwnerFilter { job: name, item: query.item.map(Item), from, to };
    let (rows, next) = rest.history.owners(filter, query.rows()?).await?;
    Ok(Page::of(Paged { rows: rows.into_iter().map(explained::ownership).collect(), next }, &uri))
}

#[utoipa::path(get, path = "/api/runs/{job}/{item}/{token}", tag = "history", params(("job" = String, Path), ("item" = u32, Path), ("token" = u64, Path)), responses((status = 200, body = RunOfFire), (status = 404, body = Problem)))]
/// Shows one run, and all runs of its fire: more than one if it crashed and was run again.
pub(super) async fn run(
    State(rest): Shared,
    Path((name, item, token)): Path<(String, String, String)>,
) -> JsonResult<RunOfFire> {
    let (name, item) = (job(name)?, number(&item)?);
    let token: u64 = token
        .parse()
        .map_err(|_| Problem::invalid("token", format!("{token:?} is not the token of a run")))?;
    let rows = rest.history.attempts(&name, item, Token(token)).await?;
    let attempts = traced(&rest, rows).await;
    let Some(run) = attempts.iter().find(|run| run.token == token).cloned() else {
        let what = format!(
            "token: the history of this coordinator has no run {token} of item {item} of {name}: it may be older than what is kept, \
             or another coordinator's"
        );
        return Err(Problem::new(Code::RequestInvalid, what).under(StatusCode::NOT_FOUND));
    };
    Ok(Json(RunOfFire { run, attempts }))
}
