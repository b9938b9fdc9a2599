//! The first page of an operator: what needs attention, and current activity. It is computed once for all concurrent
//! requests, at most once a second, and for at most a tenth of the time: many open pages cost as much as one.

use std::time::Duration;

use axum::extract::State;
use rosterd_coordinator::handle::{Health, JobStatus, MemberRow, Survey, Surveyed};
use rosterd_domain::explain::Page;
use rosterd_domain::id::Item;
use rosterd_domain::time::Time;
use rosterd_history::{MissedRow, Pulse};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::overviews::Made;
use super::problem::Problem;
use super::shape::{self, time};
use super::{Json, JsonResult, Rest, Shared};

/// The maximum age of an overview.
const FRESH: Duration = Duration::from_secs(1);
/// An overview is valid for at least this many times as long as it took to compute.
const REST: u32 = 10;
/// A scheduled time is overdue once it has waited this long.
const OVERDUE: Duration = Duration::from_secs(5);
/// Scheduled times that were missed within this time are reported.
const MISSED_WITHIN: Duration = Duration::from_secs(3600);
/// At most this many items that need attention are returned: the worst.
const MOST: usize = 500;

/// Current activity, and what needs attention.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Overview {
    /// When it was computed.
    pub(crate) at: String,
    /// What needs attention, the worst first; at most 500.
    pub(crate) attention: Vec<Attention>,
    /// How many need attention in total.
    pub(crate) attention_count: usize,
    pub(crate) jobs: usize,
    /// Runs in flight.
    pub(crate) running: u64,
    /// Runs that the coordinator that is asked started within the last minute.
    pub(crate) fires_per_minute: u64,
    /// Delay from a scheduled time to the start of user code by its worker's clock, in milliseconds: the median of the
    /// runs of the last minute. Absent if nothing ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lag_p50_ms: Option<u64>,
    /// The same for the 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lag_p99_ms: Option<u64>,
    /// Worker processes.
    pub(crate) workers: u64,
    pub(crate) coordinators: usize,
}

/// Something that needs attention.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Attention {
    /// `store`, `clock_off`, `damaged`, `no_worker`, `overdue`, `unassigned`, `crashed`, `timed_out`, `failed`, `not_run` or
    /// `draining`.
    pub(crate) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<String>,
    /// The item, or the first of several, if it is about items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) item: Option<u32>,
    /// A sentence for people.
    pub(crate) text: String,
    /// Since when, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<String>,
    /// The console's page with details, relative to the console's base path.
    pub(crate) href: String,
}

#[utoipa::path(get, path = "/api/overview", tag = "cluster", responses((status = 200, body = Overview), (status = 503, body = Problem)))]
/// Shows what needs attention first, and current activity.
pub(super) async fn overview(State(rest): Shared) -> JsonResult<Box<RawValue>> {
    // Requests that arrive while it is computed wait for it.
    let mut kept = rest.overview.0.lock().await;
    let began = rest.clock.mono();
    if let Some(made) = kept.as_ref().filter(|made| began < made.until) {
        return Ok(Json(made.overview.clone()));
    }
    let overview = shape::raw(serde_json::to_string(&made(&rest).await?).unwrap_or_default());
    let took = rest.clock.mono().since(began);
    let until = rest.clock.mono().plus(FRESH.max(took * REST));
    *kept = Some(Made { overview: overview.clone(), until });
    Ok(Json(overview))
}

async fn made(rest: &Rest) -> Result<Overview, Problem> {
    let now = rest.clock.wall();
    let survey = rest.backend.survey().await?;
    let members = rest.backend.members().await?;
    // If the history cannot be read, the rest is shown nevertheless.
    let pulse = rest.history.pulse(now.minus(Duration::from_secs(60)), now.minus(MISSED_WITHIN)).await;
    let pulse = pulse.unwrap_or_default();
    let health = *rest.backend.health().borrow();
    let mut attention = attention(&survey, &members, &pulse, health, now);
    let attention_count = attention.len();
    attention.truncate(MOST);
    let at_share =
        |hundredths: usize| pulse.lags.get((pulse.lags.len() * hundredths).div_ceil(100).max(1) - 1);
    Ok(Overview {
        at: time(now),
        attention,
        attention_count,
        jobs: survey.jobs.len(),
        running: survey.jobs.iter().map(|job| u64::from(job.row.running)).sum(),
        fires_per_minute: pulse.runs,
        lag_p50_ms: at_share(50).copied(),
        lag_p99_ms: at_share(99).copied(),
        workers: survey.workers,
        coordinators: members.len(),
    })
}

/// The kinds, the worst first.
const KINDS: [&str; 11] = [
    "store",
    "clock_off",
    "damaged",
    "no_worker",
    "overdue",
    "unassigned",
    "crashed",
    "timed_out",
    "failed",
    "not_run",
    "draining",
];

/// Everything that needs attention, the worst first; within a kind by job.
fn attention(
    survey: &Survey,
    members: &[MemberRow],
    pulse: &Pulse,
    health: Health,
    now: Time,
) -> Vec<Attention> {
    let mut found: Vec<Attention> = members.iter().filter_map(|member| of_member(member, health)).collect();
    if health == Health::Suspended {
        let text = "The store does not answer: nothing starts until it does.".to_owned();
        found.push(Attention { href: Page::Cluster.href(), ..of_cluster("store", text) });
    }
    found.extend(survey.jobs.iter().flat_map(|job| of_job(job, now)));
    found.extend(pulse.missed.iter().map(of_missed));
    let rank = |kind: &str| KINDS.iter().position(|known| *known == kind);
    found.sort_by_key(|one| rank(one.kind));
    found
}

fn of_cluster(kind: &'static str, text: String) -> Attention {
    Attention { kind, job: None, item: None, text, since: None, href: Page::Cluster.href() }
}

fn of_member(row: &MemberRow, health: Health) -> Option<Attention> {
    let (id, ahead) = (&row.id, row.member.clock_ahead_ms);
    if ahead != 0 || (row.asked && health == Health::ClockOff) {
        let off = match ahead {
            0 => String::new(),
            1.. => format!(", {ahead} ms ahead of the store's"),
            _ => format!(", {} ms behind the store's", ahead.unsigned_abs()),
        };
        let text = format!("The clock of coordinator {id} is off{off}: it fires nothing.");
        return Some(of_cluster("clock_off", text));
    }
    let text = || format!("Coordinator {id} is stopping: its workers go to others.");
    row.member.draining.then(|| of_cluster("draining", text()))
}

fn of_job(job: &Surveyed, now: Time) -> Vec<Attention> {
    let (row, name) = (&job.row, &job.row.name);
    let one = |kind, text: String| Attention {
        kind,
        job: Some(name.to_string()),
        item: None,
        text,
        since: None,
        href: Page::Job(name).href(),
    };
    if row.status == JobStatus::Damaged {
        return vec![one(
            "damaged",
            format!("The stored configuration of {name} cannot be read: apply it again."),
        )];
    }
    let mut found = Vec::new();
    if row.status == JobStatus::NoWorker {
        found.push(one("no_worker", format!("{name} has no worker: nothing of it runs.")));
    } else if job.without_owner > 0 && row.status != JobStatus::Resharding {
        let text = format!("{} of the {} items of {name} have no owner.", job.without_owner, row.items);
        found.push(one("unassigned", text));
    }
    if let Some(since) = job.waits_since.filter(|since| now.since(*since) > OVERDUE) {
        let text = format!("{name} is overdue: its fire of {since} has not begun for some item.");
        found.push(Attention {
            since: Some(time(since)),
            href: Page::Fires(name).href(),
            ..one("overdue", text)
        });
    }
    if let Some((item, since)) = job.crashed.iter().min_by_key(|(_, since)| *since) {
        let text = format!(
            "{} of {name} crashed and {} to be run again.",
            runs(job.crashed.len()),
            wait(job.crashed.len())
        );
        let href = Page::Item(name, *item).href();
        found.push(Attention { item: Some(item.0), since: Some(time(*since)), href, ..one("crashed", text) });
    }
    found.extend(unsuccessful(job).into_iter().map(|(kind, item, since, text)| Attention {
        item: Some(item.0),
        since: Some(time(since)),
        href: Page::Item(name, item).href(),
        ..one(kind, text)
    }));
    found
}

/// Items whose last run did not succeed, by how it ended.
fn unsuccessful(job: &Surveyed) -> Vec<(&'static str, Item, Time, String)> {
    let kinds = ["crashed", "timed_out", "failed"];
    let of = |kind: &'static str| {
        let of_kind = job.unsuccessful.iter().filter(|(_, ended)| ended.outcome.as_str() == kind);
        let (item, ended) = of_kind.clone().max_by_key(|(_, ended)| ended.at)?;
        let name = &job.row.name;
        let how = kind.replace('_', " ");
        let text = match of_kind.count() {
            1 => format!("The last run of item {item} of {name} {how}."),
            n => format!("The last runs of {n} items of {name} {how}, of item {item} last."),
        };
        Some((kind, *item, ended.at, text))
    };
    kinds.into_iter().filter_map(of).collect()
}

fn of_missed(row: &MissedRow) -> Attention {
    let MissedRow { job, reason, count, latest } = row;
    let times = if *count == 1 { "1 scheduled time".to_owned() } else { format!("{count} scheduled times") };
    let text = format!("{times} of {job} {} not run, {latest} last. {}", was(*count), reason.sentence());
    let href = Page::Fires(job).href();
    Attention {
        kind: "not_run",
        job: Some(job.to_string()),
        item: None,
        text,
        since: Some(time(*latest)),
        href,
    }
}

fn runs(n: usize) -> String {
    if n == 1 { "A run".to_owned() } else { format!("{n} runs") }
}

fn wait(n: usize) -> &'static str {
    if n == 1 { "waits" } else { "wait" }
}

fn was(n: u64) -> &'static str {
    if n == 1 { "was" } else { "were" }
}
