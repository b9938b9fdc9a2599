//! The present: jobs, items, machines, instances, coordinators.

use axum::extract::{Path, State};
use http::Uri;
use rosterd_domain::id::JobName;
use rosterd_runtime::version::version;
use rosterd_session::code::Code;
use rosterd_wire::status;
use serde::Deserialize;
use utoipa::IntoParams;

use super::change::number;
use super::explained::{self, Explanation};
use super::paging::{Listing, Paged};
use super::problem::Problem;
use super::shape::{self, Cluster, ErrorPage, Instance, Job, JobBrief, Server, ServerJob, Sharding};
use super::{Json, JsonResult, Page, Query, Shared, job, server};
use crate::explain;

fn contains(name: &str, part: Option<&String>) -> bool {
    part.is_none_or(|part| name.to_lowercase().contains(&part.to_lowercase()))
}

#[utoipa::path(get, path = "/api/jobs/count", tag = "jobs", responses((status = 200, body = u64, content_type = "application/json", description = "The number of jobs.")))]
/// Counts the jobs.
pub(super) async fn count_jobs(State(rest): Shared) -> JsonResult<usize> {
    Ok(Json(rest.backend.names().await?.len()))
}

#[utoipa::path(get, path = "/api/jobs", tag = "jobs", params(Listing), responses((status = 200, body = Vec<JobBrief>)))]
/// Lists jobs. They can be sorted by jobName, status, state, cron, instanceCount or nextFireTime.
pub(super) async fn list_jobs(
    State(rest): Shared,
    uri: Uri,
    Query(listing): Query<Listing>,
) -> Result<Page<JobBrief>, Problem> {
    let (field, descending) =
        listing.order(&["jobName", "status", "state", "cron", "instanceCount", "nextFireTime"])?;
    let named = |name: &JobName| contains(name.as_str(), listing.contains.as_ref());
    if field == "jobName" && listing.status.is_none() {
        let names = rest.backend.names().await?;
        let all = names.len();
        let names = names.into_iter().filter(named);
        let places = names.map(|name| ((String::new(), name.to_string()), name)).collect();
        let Paged { rows: names, next } = listing.page(places, descending)?;
        // Reads only what is shown; a list of all is shared by concurrent requests.
        if names.len() < all || descending {
            let rows = rest.backend.some_jobs(&names).await?.into_iter().map(shape::job).collect();
            return Ok(Page::of(Paged { rows, next }, &uri));
        }
    }
    let jobs = rest.backend.jobs().await?;
    let rows = jobs.iter().filter(|row| named(&row.name)).map(|row| shape::job(row.clone()));
    let wanted = |job: &JobBrief| {
        listing.status.as_ref().is_none_or(|wanted| *wanted == word(&job.status) || *wanted == job.state)
    };
    let keyed = rows.filter(wanted).map(|job| {
        let key = match field {
            "status" => word(&job.status),
            "state" => job.state.to_owned(),
            "cron" => job.cron.clone().unwrap_or_default(),
            "instanceCount" => format!("{:010}", job.instance_count),
            "nextFireTime" => job.next_fire_time.clone().unwrap_or_default(),
            _ => String::new(),
        };
        ((key, job.job_name.clone()), job)
    });
    Ok(Page::of(listing.page(keyed.collect(), descending)?, &uri))
}

/// A word of the API, as in JSON.
fn word(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_value(value).ok();
    text.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
}

/// Options for showing a job.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Upcoming {
    /// How many future scheduled times to list: 0 to 1000; default: 5.
    upcoming: Option<usize>,
}

#[utoipa::path(get, path = "/api/jobs/{job}", tag = "jobs", params(("job" = String, Path), Upcoming), responses((status = 200, body = Job), (status = 404, body = Problem)))]
/// Shows a job.
pub(super) async fn get_job(
    State(rest): Shared,
    Path(name): Path<String>,
    Query(query): Query<Upcoming>,
) -> JsonResult<Job> {
    let name = job(name)?;
    let upcoming = query.upcoming.unwrap_or(5);
    if upcoming > 1000 {
        return Err(Problem::invalid("upcoming", format!("{upcoming} is more than 1000")));
    }
    let detail = rest.backend.job(&name, upcoming).await?;
    Ok(Json(shape::detail(detail)))
}

#[utoipa::path(get, path = "/api/jobs/{job}/sharding", tag = "jobs", params(("job" = String, Path)), responses((status = 200, body = Vec<Sharding>), (status = 404, body = Problem)))]
/// Lists a job's items.
pub(super) async fn list_items(State(rest): Shared, Path(name): Path<String>) -> JsonResult<Vec<Sharding>> {
    let name = job(name)?;
    let items = rest.backend.items(&name).await?.into_iter();
    Ok(Json(items.filter_map(|row| shape::sharding(&name, row)).collect()))
}

#[utoipa::path(get, path = "/api/servers/count", tag = "servers", responses((status = 200, body = u64, content_type = "application/json", description = "The number of machines.")))]
/// Counts the machines.
pub(super) async fn count_servers(State(rest): Shared) -> JsonResult<usize> {
    Ok(Json(rest.backend.machines().await?.len()))
}

#[utoipa::path(get, path = "/api/servers", tag = "servers", params(Listing), responses((status = 200, body = Vec<Server>)))]
/// Lists machines. They can be sorted by serverIp, instancesNum or jobsNum.
pub(super) async fn list_servers(
    State(rest): Shared,
    uri: Uri,
    Query(listing): Query<Listing>,
) -> Result<Page<Server>, Problem> {
    let (field, descending) = listing.order(&["serverIp", "instancesNum", "jobsNum"])?;
    let rows = rest.backend.machines().await?.into_iter().map(shape::server);
    let keyed = rows.filter(|row| contains(&row.server_ip, listing.contains.as_ref())).map(|row| {
        let key = match field {
            "instancesNum" => format!("{:010}", row.instances_num),
            "jobsNum" => format!("{:010}", row.jobs_num),
            _ => String::new(),
        };
        ((key, row.server_ip.clone()), row)
    });
    Ok(Page::of(listing.page(keyed.collect(), descending)?, &uri))
}

#[utoipa::path(get, path = "/api/servers/{server}/jobs", tag = "servers", params(("server" = String, Path)), responses((status = 200, body = Vec<ServerJob>), (status = 404, body = Problem)))]
/// Lists the jobs that a machine works for.
pub(super) async fn server_jobs(
    State(rest): Shared,
    Path(address): Path<String>,
) -> JsonResult<Vec<ServerJob>> {
    let address = server(address)?;
    let rows = rest.backend.servers(None).await?;
    let jobs: Vec<_> = rows.iter().filter(|row| row.server == address).map(shape::server_job).collect();
    if jobs.is_empty() {
        let what = format!("no job has a machine \"{address}\": see /api/servers");
        return Err(Problem::new(Code::MachineUnknown, what));
    }
    Ok(Json(jobs))
}

/// A filter of instances.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OfJob {
    /// Only instances of this job.
    job: Option<String>,
}

#[utoipa::path(get, path = "/api/instances", tag = "servers", params(OfJob), responses((status = 200, body = Vec<Instance>)))]
/// Lists instances: worker processes under each of their jobs.
pub(super) async fn list_instances(
    State(rest): Shared,
    Query(query): Query<OfJob>,
) -> JsonResult<Vec<Instance>> {
    let of = query.job.map(job).transpose()?;
    let rows = rest.backend.instances(of.as_ref()).await?.into_iter();
    Ok(Json(rows.map(shape::instance).collect()))
}

#[utoipa::path(get, path = "/api/cluster", tag = "cluster", responses((status = 200, body = Cluster)))]
/// Shows the coordinators.
pub(super) async fn cluster(State(rest): Shared) -> JsonResult<Cluster> {
    let health = *rest.backend.health().borrow();
    let coordinators = rest.backend.members().await?.into_iter().map(shape::coordinator).collect();
    let namespace = rest.backend.namespace().to_string();
    let history = shape::history(rest.history.status());
    Ok(Json(Cluster { namespace, health: health.as_str(), version: version(), coordinators, history }))
}

#[utoipa::path(get, path = "/api/errors/{code}", tag = "cluster", params(("code" = String, Path)), responses((status = 200, body = ErrorPage), (status = 404, body = Problem)))]
/// Explains an error code.
pub(super) async fn error_page(Path(text): Path<String>) -> JsonResult<ErrorPage> {
    let Some(code) = Code::ALL.iter().find(|code| code.as_str() == text) else {
        let what = format!("{text:?} is not a code of rosterd's");
        return Err(Problem::invalid("code", what).under(http::StatusCode::NOT_FOUND));
    };
    let remedy = code.remedy().trim().to_owned();
    Ok(Json(ErrorPage { code: code.as_str(), status: status::http(code.class()).as_u16(), remedy }))
}

#[utoipa::path(get, path = "/api/jobs/{job}/sharding/{item}/explain", tag = "jobs", params(("job" = String, Path), ("item" = u32, Path)), responses((status = 200, body = Explanation), (status = 404, body = Problem)))]
/// Explains an item: the rule of its assignment, the other candidates, its last move, what it waits for, its next run.
pub(super) async fn explain_item(
    State(rest): Shared,
    Path((name, item)): Path<(String, String)>,
) -> JsonResult<Explanation> {
    let (name, item) = (job(name)?, number(&item)?);
    let sentences = explain::of(&name, item, &*rest.backend, &*rest.history).await?;
    Ok(Json(explained::explanation(&name, item, sentences)))
}
