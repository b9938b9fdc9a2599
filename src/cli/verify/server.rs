//! The history as a coordinator tells it.

use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{Item, JobName};
use rosterd_domain::time::Time;
use rosterd_domain::verify::history::{Kept, RecordedResult, Trace, TraceBuilder};

use crate::app::audit_trace::{Due, ENSEMBLE, MOST_ASSIGNMENTS, MOST_DUE, MOST_RUNS};
use crate::cli::failure::{Failure, Result};
use crate::cli::json;
use crate::cli::output::span::{time, timestamp};
use crate::cli::server::{ALL, Admin, Client, Server};
use rosterd_wire::proto::v1;

/// Asks for the runs, and for the results of the scheduled times.
pub(super) async fn ask(
    server: &Server,
    job: Option<&JobName>,
    from: Time,
    to: Option<Time>,
    skew: Duration,
    settled: Time,
) -> Result<(Trace, Vec<String>)> {
    let admin = server.admin().await?;
    let info = admin
        .ask(v1::GetServerInfoRequest {}, |mut c: Client, q| async move { c.get_server_info(q).await })
        .await?;
    let shared = is_shared(&info);
    let whole = info.store == "embedded" || shared;
    let mut builder = TraceBuilder::default();
    // What the others did may be on its way to the database.
    let to = if shared { Some(to.map_or(settled, |to| to.min(settled))) } else { to };
    runs(&admin, job, from, to, &mut builder).await?;
    assignments(&admin, job, to, &mut builder).await?;
    let jobs = jobs(&admin, job).await?;
    unmonitored(&jobs).for_each(|job| builder.unmonitored(job.as_str()));
    let mut notes = Vec::new();
    let waiting = info.history.as_ref().map_or(0, |history| history.waiting);
    if shared && waiting > 0 {
        notes.push(format!(
            "{waiting} rows wait at this coordinator for the database that all share: they were not judged"
        ));
    }
    if whole {
        let mut room = MOST_DUE;
        for name in scheduled(&jobs, job) {
            let add = |fire: &v1::FireRecord| add_due(&name, fire, &mut builder);
            fires(&admin, &name, from, to, &mut room, add).await?;
        }
    } else {
        notes.push(ENSEMBLE.to_owned());
    }
    Ok((builder.build(skew, whole), notes))
}

/// Whether all coordinators have one history.
fn is_shared(info: &v1::GetServerInfoResponse) -> bool {
    info.history.as_ref().is_some_and(|history| !history.database.is_empty())
}

/// When the items of an ensemble's jobs were due, and which of them are without monitorExecution. What became of the
/// scheduled times is in the histories of all its coordinators.
pub(super) async fn due(
    server: &Server,
    job: Option<&JobName>,
    from: Time,
    to: Time,
    histories: usize,
) -> Result<Due> {
    let admin = server.admin().await?;
    let call = |mut c: Client, q| async move { c.get_server_info(q).await };
    let info = admin.ask(v1::GetServerInfoRequest {}, call).await?;
    if is_shared(&info) {
        return Err(Failure::usage(format!(
            "--whole: the coordinator at {} has the history of all: leave out --whole and --data-dir",
            admin.server()
        )));
    }
    if info.store == "embedded" {
        return Err(Failure::usage(format!(
            "--whole: the coordinator at {} has a store of its own, and one history: leave out --whole",
            admin.server()
        )));
    }
    let call = |mut c: Client, q| async move { c.list_coordinators(q).await };
    let all = admin.ask(v1::ListCoordinatorsRequest {}, call).await?.coordinators.len();
    if histories < all {
        return Err(Failure::usage(format!(
            "--whole: there are {all} coordinators, and {histories} data directories were given: give those of all"
        )));
    }
    let jobs = jobs(&admin, job).await?;
    let mut due = Due { unmonitored: unmonitored(&jobs).collect(), ..Due::default() };
    let mut room = MOST_DUE;
    for name in scheduled(&jobs, job) {
        let items = due.times.entry(name.clone()).or_default();
        let note = |fire: &v1::FireRecord| {
            items.entry(Item(fire.item)).or_default().extend(fire.fire_time.as_ref().map(time));
        };
        fires(&admin, &name, from, Some(to), &mut room, note).await?;
    }
    Ok(due)
}

fn too_much(most: usize, what: &str) -> Failure {
    Failure::usage(format!(
        "there are more than {most} {what}: narrow --since and --until, or name one --job"
    ))
}

async fn runs(
    admin: &Admin,
    job: Option<&JobName>,
    from: Time,
    to: Option<Time>,
    builder: &mut TraceBuilder,
) -> Result {
    let question = v1::ListRunsRequest {
        job: job.map(ToString::to_string).unwrap_or_default(),
        start_time: Some(timestamp(from)),
        end_time: to.map(timestamp),
        page_size: 1000,
        ..Default::default()
    };
    let from_here: Arc<str> = admin.server().into();
    let call = |mut c: Client, q| async move { c.list_runs(q).await };
    let take = |a: v1::ListRunsResponse| {
        a.runs.iter().map(|run| kept(run, &from_here)).for_each(|run| builder.run(run));
        if builder.runs() > MOST_RUNS { Err(too_much(MOST_RUNS, "runs")) } else { Ok(a.next_page_token) }
    };
    admin.each_page(question, call, take, |q, token| q.page_token = token).await
}

/// The latest assignments, also from before the time that is judged: they may have been in force by then.
async fn assignments(
    admin: &Admin,
    job: Option<&JobName>,
    to: Option<Time>,
    builder: &mut TraceBuilder,
) -> Result {
    let question = v1::ListEventsRequest {
        job: job.map(ToString::to_string).unwrap_or_default(),
        kind: v1::EventKind::Assigned.into(),
        end_time: to.map(timestamp),
        page_size: 1000,
        ..Default::default()
    };
    let mut room = MOST_ASSIGNMENTS;
    let call = |mut c: Client, q| async move { c.list_events(q).await };
    let take = |a: v1::ListEventsResponse| {
        for event in a.events.iter().filter(|event| event.kind() == v1::EventKind::Assigned) {
            let at = event.at.as_ref().map(time).unwrap_or_default();
            builder.assigned(at, &event.job, &event.what);
        }
        room = room.saturating_sub(a.events.len());
        Ok(if room == 0 { String::new() } else { a.next_page_token })
    };
    admin.each_page(question, call, take, |q, token| q.page_token = token).await
}

fn kept(record: &v1::RunRecord, kept_in: &Arc<str>) -> Kept {
    let run = record.run.clone().unwrap_or_default();
    let at = |at: &Option<prost_types::Timestamp>| at.as_ref().map(time);
    Kept {
        job: run.job,
        item: run.item,
        token: run.token,
        fire: at(&record.fire_time).unwrap_or_default(),
        source: json::source(record.source()),
        instance: record.instance.clone(),
        attempt: record.attempt,
        // An older coordinator tells only when user code began.
        began: at(&record.decided_at).or(at(&record.started_at)).unwrap_or_default(),
        ended: at(&record.ended_at),
        outcome: json::outcome(record.outcome()),
        kept_in: kept_in.clone(),
    }
}

/// Of all jobs, or of this one, what is there now.
async fn jobs(admin: &Admin, job: Option<&JobName>) -> Result<Vec<v1::JobSummary>> {
    let name_contains = job.map(ToString::to_string).unwrap_or_default();
    let question = v1::ListJobsRequest { name_contains, ..Default::default() };
    let call = |mut c: Client, q| async move { c.list_jobs(q).await };
    let take = |a: v1::ListJobsResponse| (a.jobs, a.next_page_token);
    let turn = |q: &mut v1::ListJobsRequest, token| q.page_token = token;
    let mut rows = admin.pages(question, call, take, turn, ALL).await?;
    rows.retain(|row| job.is_none_or(|job| job.as_str() == row.name));
    Ok(rows)
}

/// Those of them without monitorExecution.
fn unmonitored(jobs: &[v1::JobSummary]) -> impl Iterator<Item = JobName> {
    jobs.iter().filter(|job| job.unmonitored).filter_map(name)
}

/// Of which of them scheduled times are asked for: a job that was named is asked for whether or not it is there.
fn scheduled(jobs: &[v1::JobSummary], named: Option<&JobName>) -> Vec<JobName> {
    match named {
        Some(job) => vec![job.clone()],
        None => jobs.iter().filter(|job| job.cron.is_some()).filter_map(name).collect(),
    }
}

fn name(job: &v1::JobSummary) -> Option<JobName> {
    JobName::new(job.name.as_str()).ok()
}

async fn fires(
    admin: &Admin,
    job: &JobName,
    from: Time,
    to: Option<Time>,
    room: &mut usize,
    mut add: impl FnMut(&v1::FireRecord),
) -> Result {
    let question = v1::ListFiresRequest {
        job: job.to_string(),
        start_time: Some(timestamp(from)),
        end_time: to.map(timestamp),
        page_size: 10_000,
        ..Default::default()
    };
    let call = |mut c: Client, q| async move { c.list_fires(q).await };
    let mut all = Vec::new();
    let take = |a: v1::ListFiresResponse| {
        *room =
            room.checked_sub(a.fires.len()).ok_or_else(|| too_much(MOST_DUE, "scheduled times of items"))?;
        all.extend(a.fires);
        Ok(a.next_page_token)
    };
    admin.each_page(question, call, take, |q, token| q.page_token = token).await?;
    // The latest come first, and a trace is built from its beginning.
    all.iter().rev().for_each(&mut add);
    Ok(())
}

fn add_due(job: &JobName, fire: &v1::FireRecord, builder: &mut TraceBuilder) {
    let words;
    let result = match fire.result() {
        v1::FireResult::Pending => RecordedResult::Pending,
        v1::FireResult::Unspecified => RecordedResult::Unknown,
        result => {
            let name = json::result(result);
            words = if fire.reason.is_empty() { name } else { format!("{name} ({})", fire.reason) };
            RecordedResult::Known(&words)
        }
    };
    builder.due(job.as_str(), fire.item, fire.fire_time.as_ref().map(time).unwrap_or_default(), result);
}
