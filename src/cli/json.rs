//! What a coordinator answers, as JSON with stable names: times in RFC 3339, enum values as words, numbers as
//! numbers, null for what is not there.

use serde_json::{Value, json};

use super::output::span::json_time;
use super::output::text::word;
use rosterd_wire::proto::v1;

pub(crate) fn job(job: &v1::JobSummary) -> Value {
    json!({
        "name": job.name,
        "handler_type": job.handler_type,
        "cron": job.cron,
        "time_zone": job.time_zone,
        "sharding_total_count": job.sharding_total_count,
        "description": job.description,
        "status": status(job.status()),
        "instances": job.instances,
        "running": job.running,
        "leader": job.leader,
        "next_fire": json_time(job.next_fire.as_ref()),
        "counters": job.counters.as_ref().map(counters),
    })
}

pub(crate) fn job_detail(answer: &v1::GetJobResponse) -> Value {
    let mut value = job(&answer.summary.clone().unwrap_or_default());
    value["spec"] = answer.spec.as_str().into();
    value["generation"] = answer.generation.into();
    value["epoch"] = answer.epoch.into();
    value["upcoming"] = answer.upcoming.iter().map(|at| json_time(Some(at))).collect();
    value
}

/// In whose hands an item was.
pub(crate) fn stay(stay: &v1::OwnershipRecord) -> Value {
    json!({
        "item": stay.item,
        "instance": stay.instance,
        "from": json_time(stay.start_time.as_ref()),
        "to": json_time(stay.end_time.as_ref()),
        "reason": stay.reason,
        "end_reason": Some(&stay.end_reason).filter(|reason| !reason.is_empty()),
        "generation": stay.generation,
    })
}

pub(crate) fn coordinator(row: &v1::CoordinatorSummary) -> Value {
    let lag = row.lag.map(|lag| lag.seconds as f64 * 1000.0 + f64::from(lag.nanos) / 1e6);
    json!({
        "coordinator": row.coordinator_id,
        "url": row.url,
        "asked": row.asked,
        "draining": row.draining,
        "version": row.version,
        "started_at": json_time(row.started_at.as_ref()),
        "leads": row.leads,
        "workers": row.workers,
        "lag_ms": lag,
        "state": coordinator_state(row),
        "proved_ago_ms": row.proved_ago.as_ref().map(millis),
    })
}

/// How a coordinator is. One of an older version says only whether it is leaving.
pub(crate) fn coordinator_state(row: &v1::CoordinatorSummary) -> String {
    match (row.state(), row.draining) {
        (v1::ServerHealth::Unspecified, true) => "draining".into(),
        (v1::ServerHealth::Unspecified, false) => "serving".into(),
        (state, _) => word(state.as_str_name(), "SERVER_HEALTH_"),
    }
}

pub(crate) fn millis(span: &prost_types::Duration) -> i64 {
    span.seconds * 1000 + i64::from(span.nanos) / 1_000_000
}

pub(crate) fn changes(changes: &[v1::JobChange]) -> Value {
    let change = |change: &v1::JobChange| {
        json!({
            "job": change.job,
            "effect": word(change.effect().as_str_name(), "JOB_EFFECT_"),
            "fields": change.fields.iter().map(field_change).collect::<Value>(),
            "lines": change.lines,
            "warnings": change.warnings,
            "code": Some(&change.code).filter(|code| !code.is_empty()),
        })
    };
    changes.iter().map(change).collect()
}

/// A value that is hidden is a text that says so.
fn field_change(field: &v1::FieldChange) -> Value {
    let value = |value: &Option<String>| {
        let text = value.as_ref()?;
        Some(serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str())))
    };
    json!({
        "field": field.field, "old": value(&field.old_value), "new": value(&field.new_value),
        "hidden": field.hidden,
    })
}

pub(crate) fn item(item: &v1::ItemSummary) -> Value {
    let crashed = |crashed: &v1::CrashedRun| {
        json!({
            "fire_time": json_time(crashed.fire_time.as_ref()),
            "instance": crashed.instance,
            "crashed_at": json_time(crashed.crashed_at.as_ref()),
        })
    };
    let last = |last: &v1::EndedRun| {
        json!({
            "token": last.token,
            "fire_time": json_time(last.fire_time.as_ref()),
            "source": source(last.source()),
            "instance": last.instance,
            "outcome": outcome(last.outcome()),
            "ended_at": json_time(last.ended_at.as_ref()),
            "reported": last.reported,
        })
    };
    json!({
        "item": item.item,
        "parameter": item.parameter,
        "owner": item.owner,
        "disabled": item.disabled,
        "surplus": item.surplus,
        "status": item_status(item),
        "state": state(item.state()),
        "running": item.running.as_ref().map(in_flight),
        "crashed": item.crashed.as_ref().map(crashed),
        "token": item.token,
        "last_fire": json_time(item.last_fire.as_ref()),
        "misfire": json_time(item.misfire.as_ref()),
        "last": item.last.as_ref().map(last),
        "counters": item.counters.as_ref().map(counters),
    })
}

pub(crate) fn in_flight(run: &v1::RunInFlight) -> Value {
    json!({
        "token": run.token,
        "fire_time": json_time(run.fire_time.as_ref()),
        "source": source(run.source()),
        "instance": run.instance,
        "started_at": json_time(run.started_at.as_ref()),
        "trigger_id": run.trigger_id,
    })
}

pub(crate) fn counters(c: &v1::Counters) -> Value {
    json!({
        "runs": c.runs, "succeeded": c.succeeded, "failed": c.failed, "cancelled": c.cancelled,
        "crashed": c.crashed, "timed_out": c.timed_out, "misfired": c.misfired, "skipped": c.skipped,
        "missed": c.missed,
    })
}

pub(crate) fn instance(row: &v1::InstanceSummary) -> Value {
    json!({
        "instance": row.instance, "job": row.job, "address": row.address, "host": row.host,
        "slots": row.slots, "items": row.items, "enabled": row.enabled, "client": row.client,
        "labels": row.labels, "state": word(row.state().as_str_name(), "INSTANCE_STATE_"), "running": row.running,
    })
}

/// `job` is null in a row over all jobs.
pub(crate) fn machine(row: &v1::MachineSummary) -> Value {
    json!({
        "machine": row.machine, "job": Some(&row.job).filter(|job| !job.is_empty()), "enabled": row.enabled,
        "instances": row.instances, "jobs": row.jobs, "disabled_jobs": row.disabled_jobs,
    })
}

pub(crate) fn stats(row: &v1::IntervalStats) -> Value {
    json!({
        "interval_ms": row.interval.as_ref().map(millis),
        "runs": row.runs, "succeeded": row.succeeded, "failed": row.failed, "cancelled": row.cancelled,
        "crashed": row.crashed, "timed_out": row.timed_out,
        "records_processed": row.records_processed, "records_failed": row.records_failed,
    })
}

pub(crate) fn run(run: &v1::RunRecord) -> Value {
    let id = run.run.clone().unwrap_or_default();
    json!({
        "job": id.job, "item": id.item, "token": id.token,
        "fire_time": json_time(run.fire_time.as_ref()),
        "source": source(run.source()),
        "instance": run.instance,
        "task_id": run.task_id,
        "outcome": outcome(run.outcome()),
        "state": run.state,
        "started_at": json_time(run.started_at.as_ref()),
        "ended_at": json_time(run.ended_at.as_ref()),
        "attempt": run.attempt,
        "error": run.error,
        "output": run.output,
        "processed": run.processed,
        "failed": run.failed,
        "trace_id": Some(&run.trace_id).filter(|id| !id.is_empty()),
    })
}

pub(crate) fn fire(fire: &v1::FireRecord) -> Value {
    json!({
        "fire_time": json_time(fire.fire_time.as_ref()),
        "item": fire.item,
        "result": result(fire.result()),
        "reason": Some(&fire.reason).filter(|reason| !reason.is_empty()),
        "run": fire.run.as_ref().map(run),
        "runs": fire.runs,
    })
}

pub(crate) fn event(event: &v1::EventRecord) -> Value {
    json!({
        "at": json_time(event.at.as_ref()), "kind": event_kind(event.kind()), "job": event.job,
        "what": event.what, "principal": event.principal,
    })
}

pub(crate) fn event_kind(kind: v1::EventKind) -> String {
    word(kind.as_str_name(), "EVENT_KIND_")
}

pub(crate) fn status(status: v1::JobStatus) -> String {
    word(status.as_str_name(), "JOB_STATUS_")
}

pub(crate) fn state(state: v1::ItemState) -> String {
    word(state.as_str_name(), "ITEM_STATE_")
}

/// What it is up to, in a word. A coordinator of an older version tells its state only.
pub(crate) fn item_status(item: &v1::ItemSummary) -> String {
    match (item.status(), item.state()) {
        (v1::ItemStatus::Unspecified, v1::ItemState::Idle) if item.surplus => "surplus".to_owned(),
        (v1::ItemStatus::Unspecified, v1::ItemState::Idle) if item.disabled => "disabled".to_owned(),
        (v1::ItemStatus::Unspecified, state) => self::state(state),
        (status, _) => word(status.as_str_name(), "ITEM_STATUS_"),
    }
}

pub(crate) fn result(result: v1::FireResult) -> String {
    word(result.as_str_name(), "FIRE_RESULT_")
}

/// As user code sees it: NORMAL_TRIGGER and so on.
pub(crate) fn source(source: v1::RunSource) -> String {
    word(source.as_str_name(), "RUN_SOURCE_").to_uppercase()
}

/// None while it is in flight.
pub(crate) fn outcome(outcome: v1::RunOutcome) -> Option<String> {
    (outcome != v1::RunOutcome::Unspecified).then(|| word(outcome.as_str_name(), "RUN_OUTCOME_"))
}
