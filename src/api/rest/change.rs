//! Changes: each is an operation of the coordinator, answered once its effect is durable.

use std::time::Duration;

use axum::extract::{Path, State};
use rosterd_coordinator::handle::{ChangeEffect, MachineAction, Operation, Target};
use rosterd_domain::id::Item;
use serde::Deserialize;
use utoipa::IntoParams;

use super::problem::Problem;
use super::shape::{self, JobChange};
use super::{Json, JsonResult, Query, Shared, Who, instance, job, server};

/// Options for disabling or removing something.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Cancel {
    /// Cancel the runs in flight as well; otherwise they finish.
    #[serde(default)]
    cancel: bool,
}

pub(super) async fn carry_out(
    rest: &super::Rest,
    who: Who,
    operation: Operation,
) -> JsonResult<Vec<JobChange>> {
    let done = rest.operator.operate(who.0, operation).await?;
    Ok(Json(done.changes.into_iter().map(shape::change).collect()))
}

/// Items to fire.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Fire {
    /// Only these items, separated by commas; default: all.
    items: Option<String>,
    /// If an item is running, run it once more after that; otherwise the trigger is refused.
    #[serde(default)]
    after_current: bool,
}

#[utoipa::path(post, path = "/api/jobs/{job}/trigger", tag = "jobs", params(("job" = String, Path), Fire), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Fires a job now.
pub(super) async fn trigger(
    State(rest): Shared,
    who: Who,
    Path(name): Path<String>,
    Query(fire): Query<Fire>,
) -> JsonResult<Vec<JobChange>> {
    let items = fire
        .items
        .as_deref()
        .map(|text| text.split(',').map(str::parse).map(|item| item.map(Item)).collect());
    let items: Result<Vec<Item>, std::num::ParseIntError> = items.unwrap_or_else(|| Ok(Vec::new()));
    let items =
        items.map_err(|_| Problem::invalid("items", "write numbers of items, separated by commas: 0,2"))?;
    let operation = Operation::Trigger { job: job(name)?, items, after_current: fire.after_current };
    carry_out(&rest, who, operation).await
}

fn enable(target: Target, name: String, enabled: bool, cancel: bool) -> Result<Operation, Problem> {
    Ok(Operation::Enable { job: job(name)?, target, enabled, cancel })
}

#[utoipa::path(post, path = "/api/jobs/{job}/disable", tag = "jobs", params(("job" = String, Path), Cancel), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Disables a job.
pub(super) async fn disable_job(
    State(rest): Shared,
    who: Who,
    Path(name): Path<String>,
    Query(with): Query<Cancel>,
) -> JsonResult<Vec<JobChange>> {
    carry_out(&rest, who, enable(Target::Job, name, false, with.cancel)?).await
}

#[utoipa::path(delete, path = "/api/jobs/{job}/disable", tag = "jobs", params(("job" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Enables a job.
pub(super) async fn enable_job(
    State(rest): Shared,
    who: Who,
    Path(name): Path<String>,
) -> JsonResult<Vec<JobChange>> {
    carry_out(&rest, who, enable(Target::Job, name, true, false)?).await
}

#[utoipa::path(post, path = "/api/jobs/{job}/pause", tag = "jobs", params(("job" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Pauses a job's scheduled fires: they count as missed (paused). The assignment does not change.
pub(super) async fn pause_job(
    State(rest): Shared,
    who: Who,
    Path(name): Path<String>,
) -> JsonResult<Vec<JobChange>> {
    carry_out(&rest, who, Operation::Pause { job: job(name)?, paused: true }).await
}

#[utoipa::path(delete, path = "/api/jobs/{job}/pause", tag = "jobs", params(("job" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Resumes a job's scheduled fires, from the next one.
pub(super) async fn resume_job(
    State(rest): Shared,
    who: Who,
    Path(name): Path<String>,
) -> JsonResult<Vec<JobChange>> {
    carry_out(&rest, who, Operation::Pause { job: job(name)?, paused: false }).await
}

#[utoipa::path(post, path = "/api/jobs/{job}/shutdown", tag = "jobs", params(("job" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Shuts down a job's current instances. They may register again.
pub(super) async fn shut_job_down(
    State(rest): Shared,
    who: Who,
    Path(name): Path<String>,
) -> JsonResult<Vec<JobChange>> {
    let name = job(name)?;
    // Checks that the job exists, even if it has no instance.
    rest.backend.job(&name, 0).await?;
    let mut changes = Vec::new();
    for row in rest.backend.instances(Some(&name)).await? {
        let operation = Operation::Shutdown { job: name.clone(), instance: row.instance };
        let Json(done) = carry_out(&rest, Who(who.0.clone()), operation).await?;
        changes.extend(done);
    }
    Ok(Json(changes))
}

#[utoipa::path(post, path = "/api/jobs/{job}/sharding/{item}/disable", tag = "jobs", params(("job" = String, Path), ("item" = u32, Path), Cancel), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Disables an item.
pub(super) async fn disable_item(
    State(rest): Shared,
    who: Who,
    Path((name, item)): Path<(String, String)>,
    Query(with): Query<Cancel>,
) -> JsonResult<Vec<JobChange>> {
    carry_out(&rest, who, enable(Target::Item(number(&item)?), name, false, with.cancel)?).await
}

#[utoipa::path(delete, path = "/api/jobs/{job}/sharding/{item}/disable", tag = "jobs", params(("job" = String, Path), ("item" = u32, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Enables an item.
pub(super) async fn enable_item(
    State(rest): Shared,
    who: Who,
    Path((name, item)): Path<(String, String)>,
) -> JsonResult<Vec<JobChange>> {
    carry_out(&rest, who, enable(Target::Item(number(&item)?), name, true, false)?).await
}

#[utoipa::path(post, path = "/api/jobs/{job}/sharding/{item}/cancel", tag = "jobs", params(("job" = String, Path), ("item" = u32, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Cancels an item's run in flight.
pub(super) async fn cancel_run(
    State(rest): Shared,
    who: Who,
    Path((name, item)): Path<(String, String)>,
) -> JsonResult<Vec<JobChange>> {
    carry_out(&rest, who, Operation::Cancel { job: job(name)?, item: number(&item)? }).await
}

pub(super) fn number(text: &str) -> Result<Item, Problem> {
    text.parse()
        .map(Item)
        .map_err(|_| Problem::invalid("item", format!("{text:?} is not the number of an item")))
}

/// Changes a machine for all jobs that know it. Each job is a change of its own: the result includes those that were
/// refused.
async fn on_machine(
    rest: &super::Rest,
    who: Who,
    address: String,
    action: MachineAction,
) -> JsonResult<Vec<JobChange>> {
    let done = rest.operator.on_machine(who.0, server(address)?, action).await?;
    Ok(Json(done.changes.into_iter().map(shape::change).collect()))
}

#[utoipa::path(post, path = "/api/servers/{server}/disable", tag = "servers", params(("server" = String, Path), Cancel), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Disables a machine for all its jobs.
pub(super) async fn disable_server(
    State(rest): Shared,
    who: Who,
    Path(address): Path<String>,
    Query(with): Query<Cancel>,
) -> JsonResult<Vec<JobChange>> {
    on_machine(&rest, who, address, MachineAction::Enable { enabled: false, cancel: with.cancel }).await
}

#[utoipa::path(delete, path = "/api/servers/{server}/disable", tag = "servers", params(("server" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Enables a machine for all its jobs.
pub(super) async fn enable_server(
    State(rest): Shared,
    who: Who,
    Path(address): Path<String>,
) -> JsonResult<Vec<JobChange>> {
    on_machine(&rest, who, address, MachineAction::Enable { enabled: true, cancel: false }).await
}

#[utoipa::path(post, path = "/api/servers/{server}/shutdown", tag = "servers", params(("server" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Shuts down all instances on a machine.
pub(super) async fn shut_server_down(
    State(rest): Shared,
    who: Who,
    Path(address): Path<String>,
) -> JsonResult<Vec<JobChange>> {
    on_machine(&rest, who, address, MachineAction::Shutdown).await
}

#[utoipa::path(delete, path = "/api/servers/{server}", tag = "servers", params(("server" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Removes a machine without instances.
pub(super) async fn remove_server(
    State(rest): Shared,
    who: Who,
    Path(address): Path<String>,
) -> JsonResult<Vec<JobChange>> {
    on_machine(&rest, who, address, MachineAction::Remove).await
}

/// The same for one job.
async fn on_machine_for(
    rest: &super::Rest,
    who: Who,
    address: String,
    name: String,
    action: MachineAction,
) -> JsonResult<Vec<JobChange>> {
    let operation = Operation::Machine { machine: server(address)?, jobs: vec![job(name)?], action };
    let done = rest.operator.operate(who.0, operation).await?;
    // With several jobs a refusal is one of the changes; here it is the only one.
    if let Some((ChangeEffect::Refused(code), line)) =
        done.changes.first().map(|(_, change)| (change.effect, change.line.clone()))
    {
        return Err(Problem::new(code, line));
    }
    Ok(Json(done.changes.into_iter().map(shape::change).collect()))
}

#[utoipa::path(post, path = "/api/servers/{server}/jobs/{job}/disable", tag = "servers", params(("server" = String, Path), ("job" = String, Path), Cancel), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Disables a machine for one job.
pub(super) async fn disable_server_job(
    State(rest): Shared,
    who: Who,
    Path((address, name)): Path<(String, String)>,
    Query(with): Query<Cancel>,
) -> JsonResult<Vec<JobChange>> {
    carry_out(&rest, who, enable(Target::Machine(server(address)?), name, false, with.cancel)?).await
}

#[utoipa::path(delete, path = "/api/servers/{server}/jobs/{job}/disable", tag = "servers", params(("server" = String, Path), ("job" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Enables a machine for one job.
pub(super) async fn enable_server_job(
    State(rest): Shared,
    who: Who,
    Path((address, name)): Path<(String, String)>,
) -> JsonResult<Vec<JobChange>> {
    carry_out(&rest, who, enable(Target::Machine(server(address)?), name, true, false)?).await
}

#[utoipa::path(post, path = "/api/servers/{server}/jobs/{job}/shutdown", tag = "servers", params(("server" = String, Path), ("job" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Shuts down a job's instances on a machine.
pub(super) async fn shut_server_job_down(
    State(rest): Shared,
    who: Who,
    Path((address, name)): Path<(String, String)>,
) -> JsonResult<Vec<JobChange>> {
    on_machine_for(&rest, who, address, name, MachineAction::Shutdown).await
}

#[utoipa::path(delete, path = "/api/servers/{server}/jobs/{job}", tag = "servers", params(("server" = String, Path), ("job" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Removes a machine without instances from one job.
pub(super) async fn remove_server_job(
    State(rest): Shared,
    who: Who,
    Path((address, name)): Path<(String, String)>,
) -> JsonResult<Vec<JobChange>> {
    on_machine_for(&rest, who, address, name, MachineAction::Remove).await
}

/// How long a worker may take to drain.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Grace {
    /// How long its runs may take, in milliseconds; after that they are handed back. Default: as long as the worker allows.
    grace_ms: Option<u64>,
}

#[utoipa::path(post, path = "/api/instances/{instance}/drain", tag = "servers", params(("instance" = String, Path), Grace), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Drains a worker process: it finishes its runs and leaves all its jobs.
pub(super) async fn drain(
    State(rest): Shared,
    who: Who,
    Path(id): Path<String>,
    Query(grace): Query<Grace>,
) -> JsonResult<Vec<JobChange>> {
    let grace = match grace.grace_ms {
        None => Duration::MAX,
        Some(ms) if ms <= 366 * 86_400_000 => Duration::from_millis(ms),
        Some(ms) => return Err(Problem::invalid("graceMs", format!("{ms} is more than a year"))),
    };
    carry_out(&rest, who, Operation::Drain { instance: instance(id)?, grace }).await
}

#[utoipa::path(delete, path = "/api/jobs/config/{job}", tag = "configuration", params(("job" = String, Path), Cancel), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Removes a job and all its state.
pub(super) async fn remove_job(
    State(rest): Shared,
    who: Who,
    Path(name): Path<String>,
    Query(with): Query<Cancel>,
) -> JsonResult<Vec<JobChange>> {
    carry_out(&rest, who, Operation::Remove { job: job(name)?, cancel: with.cancel }).await
}
