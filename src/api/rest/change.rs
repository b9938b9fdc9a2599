//! What is changed: each is an operation of the coordinator, answered once its effect is durable.

use std::time::Duration;

use axum::extract::{Path, State};
use rosterd_coordinator::handle::{ChangeEffect, MachineAction, Operation, Target};
use rosterd_domain::id::Item;
use serde::Deserialize;
use utoipa::IntoParams;

use super::problem::Problem;
use super::shape::{self, JobChange};
use super::{Answer, Json, Query, Shared, Who, instance, job, server};

/// What goes with taking something out of service, or removing it.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Cancel {
    /// Stop the runs in flight as well; else they finish.
    #[serde(default)]
    cancel: bool,
}

pub(super) async fn carry_out(rest: &super::Rest, who: Who, operation: Operation) -> Answer<Vec<JobChange>> {
    let done = rest.operator.operate(who.0, operation).await?;
    Ok(Json(done.changes.into_iter().map(shape::change).collect()))
}

/// Items to fire.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Fire {
    /// Only these, separated by commas.
    items: Option<String>,
    /// Where an item is running, run it once more after that; else the trigger is refused.
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
) -> Answer<Vec<JobChange>> {
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
/// Takes a job out of service.
pub(super) async fn disable_job(
    State(rest): Shared,
    who: Who,
    Path(name): Path<String>,
    Query(with): Query<Cancel>,
) -> Answer<Vec<JobChange>> {
    carry_out(&rest, who, enable(Target::Job, name, false, with.cancel)?).await
}

#[utoipa::path(delete, path = "/api/jobs/{job}/disable", tag = "jobs", params(("job" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Takes a job back into service.
pub(super) async fn enable_job(
    State(rest): Shared,
    who: Who,
    Path(name): Path<String>,
) -> Answer<Vec<JobChange>> {
    carry_out(&rest, who, enable(Target::Job, name, true, false)?).await
}

#[utoipa::path(post, path = "/api/jobs/{job}/pause", tag = "jobs", params(("job" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Holds a job's scheduled fires: they count as missed (paused). The assignment stays.
pub(super) async fn pause_job(
    State(rest): Shared,
    who: Who,
    Path(name): Path<String>,
) -> Answer<Vec<JobChange>> {
    carry_out(&rest, who, Operation::Pause { job: job(name)?, paused: true }).await
}

#[utoipa::path(delete, path = "/api/jobs/{job}/pause", tag = "jobs", params(("job" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Lets a job's scheduled fires go on, from the next one.
pub(super) async fn resume_job(
    State(rest): Shared,
    who: Who,
    Path(name): Path<String>,
) -> Answer<Vec<JobChange>> {
    carry_out(&rest, who, Operation::Pause { job: job(name)?, paused: false }).await
}

#[utoipa::path(post, path = "/api/jobs/{job}/shutdown", tag = "jobs", params(("job" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Shuts a job's instances down for it, each as it is now; they may register again.
pub(super) async fn shut_job_down(
    State(rest): Shared,
    who: Who,
    Path(name): Path<String>,
) -> Answer<Vec<JobChange>> {
    let name = job(name)?;
    // That the job is there, also where it has no instance.
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
/// Takes an item out of service.
pub(super) async fn disable_item(
    State(rest): Shared,
    who: Who,
    Path((name, item)): Path<(String, String)>,
    Query(with): Query<Cancel>,
) -> Answer<Vec<JobChange>> {
    carry_out(&rest, who, enable(Target::Item(number(&item)?), name, false, with.cancel)?).await
}

#[utoipa::path(delete, path = "/api/jobs/{job}/sharding/{item}/disable", tag = "jobs", params(("job" = String, Path), ("item" = u32, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Takes an item back into service.
pub(super) async fn enable_item(
    State(rest): Shared,
    who: Who,
    Path((name, item)): Path<(String, String)>,
) -> Answer<Vec<JobChange>> {
    carry_out(&rest, who, enable(Target::Item(number(&item)?), name, true, false)?).await
}

#[utoipa::path(post, path = "/api/jobs/{job}/sharding/{item}/cancel", tag = "jobs", params(("job" = String, Path), ("item" = u32, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Stops the run of an item that is in flight.
pub(super) async fn cancel_run(
    State(rest): Shared,
    who: Who,
    Path((name, item)): Path<(String, String)>,
) -> Answer<Vec<JobChange>> {
    carry_out(&rest, who, Operation::Cancel { job: job(name)?, item: number(&item)? }).await
}

pub(super) fn number(text: &str) -> Result<Item, Problem> {
    text.parse()
        .map(Item)
        .map_err(|_| Problem::invalid("item", format!("{text:?} is not the number of an item")))
}

/// Does something to a machine for all jobs that know it. Each job is a change of its own: those that refuse are among them.
async fn on_machine(
    rest: &super::Rest,
    who: Who,
    address: String,
    action: MachineAction,
) -> Answer<Vec<JobChange>> {
    let done = rest.operator.on_machine(who.0, server(address)?, action).await?;
    Ok(Json(done.changes.into_iter().map(shape::change).collect()))
}

#[utoipa::path(post, path = "/api/servers/{server}/disable", tag = "servers", params(("server" = String, Path), Cancel), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Takes a machine out of service for all its jobs.
pub(super) async fn disable_server(
    State(rest): Shared,
    who: Who,
    Path(address): Path<String>,
    Query(with): Query<Cancel>,
) -> Answer<Vec<JobChange>> {
    on_machine(&rest, who, address, MachineAction::Enable { enabled: false, cancel: with.cancel }).await
}

#[utoipa::path(delete, path = "/api/servers/{server}/disable", tag = "servers", params(("server" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Takes a machine back into service for all its jobs.
pub(super) async fn enable_server(
    State(rest): Shared,
    who: Who,
    Path(address): Path<String>,
) -> Answer<Vec<JobChange>> {
    on_machine(&rest, who, address, MachineAction::Enable { enabled: true, cancel: false }).await
}

#[utoipa::path(post, path = "/api/servers/{server}/shutdown", tag = "servers", params(("server" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Shuts all instances on a machine down.
pub(super) async fn shut_server_down(
    State(rest): Shared,
    who: Who,
    Path(address): Path<String>,
) -> Answer<Vec<JobChange>> {
    on_machine(&rest, who, address, MachineAction::Shutdown).await
}

#[utoipa::path(delete, path = "/api/servers/{server}", tag = "servers", params(("server" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Forgets a machine without instances.
pub(super) async fn remove_server(
    State(rest): Shared,
    who: Who,
    Path(address): Path<String>,
) -> Answer<Vec<JobChange>> {
    on_machine(&rest, who, address, MachineAction::Remove).await
}

/// The same to a machine for one job.
async fn on_machine_for(
    rest: &super::Rest,
    who: Who,
    address: String,
    name: String,
    action: MachineAction,
) -> Answer<Vec<JobChange>> {
    let operation = Operation::Machine { machine: server(address)?, jobs: vec![job(name)?], action };
    let done = rest.operator.operate(who.0, operation).await?;
    // Of several jobs those that refuse are among the changes; this is the only one.
    if let Some((ChangeEffect::Refused(code), line)) =
        done.changes.first().map(|(_, change)| (change.effect, change.line.clone()))
    {
        return Err(Problem::new(code, line));
    }
    Ok(Json(done.changes.into_iter().map(shape::change).collect()))
}

#[utoipa::path(post, path = "/api/servers/{server}/jobs/{job}/disable", tag = "servers", params(("server" = String, Path), ("job" = String, Path), Cancel), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Takes a machine out of service for one job.
pub(super) async fn disable_server_job(
    State(rest): Shared,
    who: Who,
    Path((address, name)): Path<(String, String)>,
    Query(with): Query<Cancel>,
) -> Answer<Vec<JobChange>> {
    carry_out(&rest, who, enable(Target::Machine(server(address)?), name, false, with.cancel)?).await
}

#[utoipa::path(delete, path = "/api/servers/{server}/jobs/{job}/disable", tag = "servers", params(("server" = String, Path), ("job" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Takes a machine back into service for one job.
pub(super) async fn enable_server_job(
    State(rest): Shared,
    who: Who,
    Path((address, name)): Path<(String, String)>,
) -> Answer<Vec<JobChange>> {
    carry_out(&rest, who, enable(Target::Machine(server(address)?), name, true, false)?).await
}

#[utoipa::path(post, path = "/api/servers/{server}/jobs/{job}/shutdown", tag = "servers", params(("server" = String, Path), ("job" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Shuts a job's instances on a machine down.
pub(super) async fn shut_server_job_down(
    State(rest): Shared,
    who: Who,
    Path((address, name)): Path<(String, String)>,
) -> Answer<Vec<JobChange>> {
    on_machine_for(&rest, who, address, name, MachineAction::Shutdown).await
}

#[utoipa::path(delete, path = "/api/servers/{server}/jobs/{job}", tag = "servers", params(("server" = String, Path), ("job" = String, Path)), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Forgets, for one job, a machine without instances.
pub(super) async fn remove_server_job(
    State(rest): Shared,
    who: Who,
    Path((address, name)): Path<(String, String)>,
) -> Answer<Vec<JobChange>> {
    on_machine_for(&rest, who, address, name, MachineAction::Remove).await
}

/// How long a worker may take to leave.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Grace {
    /// For its runs, in milliseconds; then they are handed back. Unless said: as long as the worker allows.
    grace_ms: Option<u64>,
}

#[utoipa::path(post, path = "/api/instances/{instance}/drain", tag = "servers", params(("instance" = String, Path), Grace), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Asks a worker process to finish what it runs and to leave all its jobs.
pub(super) async fn drain(
    State(rest): Shared,
    who: Who,
    Path(id): Path<String>,
    Query(grace): Query<Grace>,
) -> Answer<Vec<JobChange>> {
    let grace = match grace.grace_ms {
        None => Duration::MAX,
        Some(ms) if ms <= 366 * 86_400_000 => Duration::from_millis(ms),
        Some(ms) => return Err(Problem::invalid("graceMs", format!("{ms} is more than a year"))),
    };
    carry_out(&rest, who, Operation::Drain { instance: instance(id)?, grace }).await
}

#[utoipa::path(delete, path = "/api/jobs/config/{job}", tag = "configuration", params(("job" = String, Path), Cancel), responses((status = 200, body = Vec<JobChange>), (status = 404, body = Problem)))]
/// Removes a job and all that is known of it.
pub(super) async fn remove_job(
    State(rest): Shared,
    who: Who,
    Path(name): Path<String>,
    Query(with): Query<Cancel>,
) -> Answer<Vec<JobChange>> {
    carry_out(&rest, who, Operation::Remove { job: job(name)?, cancel: with.cancel }).await
}
