//! The data that REST shows: with Elastic-Job's names and spelling if it has them. Durations are milliseconds, times
//! RFC 3339 in UTC.

use std::collections::BTreeMap;

use super::problem::Problem;
use crate::operator::shown;
use rosterd_coordinator::handle::{
    self, Change, ChangeEffect, InstanceRow, ItemRow, ItemStatus, JobDetail, JobRow, MachineRow, MemberRow,
    ServerRow,
};
use rosterd_domain::id::{InstanceId, JobName, task_id};
use rosterd_domain::item::{self, Source, State};
use rosterd_domain::time::Time;
use rosterd_history::{EventRow, Fate, FireRow, RunRow};
use serde::Serialize;
use utoipa::ToSchema;

/// A job's status in Elastic-Job's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum JobStatus {
    /// An enabled instance works for it.
    Ok,
    /// It has machines, but no live instance.
    Crashed,
    /// It is disabled, or each of its machines is.
    Disabled,
    /// Its items are about to be reassigned.
    ShardingFlag,
}

/// A job in a list.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobBrief {
    pub(crate) job_name: String,
    pub(crate) status: JobStatus,
    /// `enabled`, `resharding`, `disabled`, `paused`, `no_worker`, `removing` or `damaged`.
    pub(crate) state: &'static str,
    pub(crate) description: String,
    /// Absent if it runs only when triggered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cron: Option<String>,
    pub(crate) time_zone: String,
    pub(crate) handler_type: String,
    /// Instances that work for it now.
    pub(crate) instance_count: u32,
    pub(crate) sharding_total_count: u32,
    /// Runs in flight.
    pub(crate) running: u32,
    /// The coordinator that plans its assignment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) leader: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_fire_time: Option<String>,
    pub(crate) counters: Counters,
}

/// The runs and the results of the fires of a job or an item. Each counter only grows.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counters {
    pub(crate) runs: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) cancelled: u64,
    pub(crate) crashed: u64,
    pub(crate) timed_out: u64,
    /// Scheduled times merged into a later run.
    pub(crate) misfired: u64,
    pub(crate) skipped: u64,
    /// Scheduled times that were not run, by reason.
    pub(crate) missed: BTreeMap<String, u64>,
}

/// A job in detail.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Job {
    #[serde(flatten)]
    pub(crate) brief: JobBrief,
    /// The job file, as YAML.
    pub(crate) file: String,
    /// Grows with every change of the assignment.
    pub(crate) generation: u64,
    /// Grows with every election of a leader.
    pub(crate) epoch: u64,
    /// The next scheduled times.
    pub(crate) upcoming: Vec<String>,
}

/// A machine, with totals over all its jobs.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Server {
    pub(crate) server_ip: String,
    /// Worker processes on it.
    pub(crate) instances_num: u32,
    pub(crate) jobs_num: u32,
    /// The number of its jobs for which it is disabled.
    pub(crate) disabled_jobs_num: u32,
}

/// A job that a machine works for.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerJob {
    pub(crate) job_name: String,
    /// `OK` or `DISABLED`, of this machine for this job; `CRASHED`: it has no instance.
    pub(crate) status: JobStatus,
    pub(crate) instance_count: u32,
}

/// An item's status in Elastic-Job's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum ShardingStatus {
    Disabled,
    Running,
    /// No live instance owns it.
    ShardingFlag,
    /// It waits for its next fire.
    Pending,
    Completed,
}

/// An item.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sharding {
    pub(crate) item: u32,
    pub(crate) parameter: String,
    /// The machine of its owner; empty if it has none.
    pub(crate) server_ip: String,
    pub(crate) instance_id: String,
    pub(crate) status: ShardingStatus,
    /// An instance other than its owner runs it, or its crashed run waits for failover.
    pub(crate) failover: bool,
    /// Elastic-Job's task id; empty if no run is in flight.
    pub(crate) task_id: String,
    /// The token of the run in flight, otherwise of the last run.
    pub(crate) token: u64,
    /// The scheduled time of the run in flight, or the time of its trigger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fire_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<&'static str>,
    /// The outcome of the last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_outcome: Option<&'static str>,
    /// The latest scheduled time that is accounted for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_fire_time: Option<String>,
    pub(crate) counters: Counters,
}

/// A worker process under one of its jobs.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Instance {
    pub(crate) instance_id: String,
    pub(crate) job_name: String,
    pub(crate) server_ip: String,
    /// The coordinator at which its stream ends.
    pub(crate) coordinator: String,
    pub(crate) slots: u32,
    pub(crate) items: u32,
    pub(crate) running: u32,
    pub(crate) enabled: bool,
    pub(crate) client: String,
    pub(crate) labels: BTreeMap<String, String>,
}

/// A run, from the history of the coordinator that is asked.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Run {
    pub(crate) task_id: String,
    pub(crate) job_name: String,
    pub(crate) item: u32,
    pub(crate) token: u64,
    pub(crate) fire_time: String,
    pub(crate) source: &'static str,
    pub(crate) instance_id: String,
    /// Elastic-Job's name of its state: TASK_STAGING, TASK_RUNNING, TASK_FINISHED, TASK_ERROR, TASK_FAILED, TASK_KILLED, TASK_LOST, TASK_UNKNOWN.
    pub(crate) state: &'static str,
    /// Absent if it is in flight, or its end was not observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<&'static str>,
    pub(crate) started_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended_at: Option<String>,
    pub(crate) attempt: u32,
    pub(crate) error: String,
    pub(crate) output: String,
    pub(crate) processed: u64,
    pub(crate) failed: u64,
    /// The trace of its fire; absent for runs of a job that was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace_id: Option<String>,
    /// The page that shows it, if the coordinator has a `trace_url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace_url: Option<String>,
}

/// A scheduled time of an item, and its result.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Fire {
    pub(crate) fire_time: String,
    pub(crate) item: u32,
    /// `pending`, `run`, `misfired`, `missed`, `skipped` or `unknown`.
    pub(crate) result: &'static str,
    /// Why it was missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// More than one after a failover.
    pub(crate) runs: u32,
    /// The state of its last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) instance_id: Option<String>,
}

/// A row of the audit, or an event of a worker or an assignment.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    pub(crate) at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job_name: Option<String>,
    pub(crate) kind: &'static str,
    pub(crate) what: String,
    /// The credential that caused it; empty if a request without a credential caused it, or no request.
    pub(crate) principal: String,
}

/// A coordinator.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Coordinator {
    pub(crate) id: String,
    pub(crate) url: String,
    /// Whether it answers this request.
    pub(crate) asked: bool,
    pub(crate) draining: bool,
    pub(crate) version: String,
    pub(crate) started_at: String,
    /// Jobs that it leads.
    pub(crate) leads: u64,
    /// Workers whose streams end there.
    pub(crate) workers: u64,
    /// The longest delay from a scheduled time to its Trigger since it last wrote its own status.
    pub(crate) lag_ms: u64,
    /// How far its clock is ahead of the store's.
    pub(crate) clock_ahead_ms: i64,
    /// Time since a committed write last proved that its session is alive; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) proved_ago_ms: Option<u64>,
}

/// The cluster as the coordinator that is asked sees it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cluster {
    pub(crate) namespace: String,
    /// `starting`, `serving`, `suspended`, `draining` or `clock_off`: the health of the coordinator that is asked.
    pub(crate) health: &'static str,
    pub(crate) version: String,
    pub(crate) coordinators: Vec<Coordinator>,
    pub(crate) history: HistoryStatus,
}

/// The status of the history of the coordinator that is asked.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryStatus {
    /// The database that all coordinators share, without its user; absent if the history is a file of this coordinator's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) database: Option<String>,
    /// Rows that wait to be written, in memory or on disk.
    pub(crate) waiting: u64,
    /// Bytes of those that wait on disk for the database.
    pub(crate) waiting_bytes: u64,
    /// Rows that the database has accepted since the coordinator started.
    pub(crate) sent: u64,
    /// Rows that were dropped since then.
    pub(crate) dropped: u64,
    /// Why the database accepts no rows now; absent if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trouble: Option<String>,
}

pub(crate) fn history(status: rosterd_history::Status) -> HistoryStatus {
    let rosterd_history::Status { database, waiting, waiting_bytes, sent, dropped, trouble } = status;
    HistoryStatus { database, waiting, waiting_bytes, sent, dropped, trouble }
}

/// The effect of a change on one job.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobChange {
    pub(crate) job_name: String,
    /// `unchanged`, `would_create`, `would_change`, `created`, `changed`, `removed`, `requested` or `refused`.
    pub(crate) effect: &'static str,
    /// The effect in words, for people.
    pub(crate) line: String,
    pub(crate) fields: Vec<FieldChange>,
    /// Fields that are stored without effect, and what to use instead.
    pub(crate) warnings: Vec<String>,
    /// The code, if it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trigger_id: Option<String>,
}

/// A field that differs. Values that may be secrets are replaced by their length.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FieldChange {
    pub(crate) field: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) old: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) new: Option<String>,
}

/// An error code and its explanation.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorPage {
    pub(crate) code: &'static str,
    pub(crate) status: u16,
    /// What it means and what to do.
    pub(crate) remedy: String,
}

/// JSON that is already serialized.
pub(crate) fn raw(text: String) -> Box<serde_json::value::RawValue> {
    serde_json::value::RawValue::from_string(text).unwrap_or_default()
}

pub(crate) fn time(at: Time) -> String {
    at.to_string()
}

/// Parses the time in a parameter.
pub(crate) fn moment(field: &str, text: Option<&str>) -> Result<Option<Time>, Problem> {
    text.map(Time::parse).transpose().map_err(|error| Problem::invalid(field, error))
}

/// A time before all times stands for none.
fn known(at: Time) -> Option<String> {
    (at.0 > 0).then(|| time(at))
}

fn counters(counters: item::Counters) -> Counters {
    Counters {
        runs: counters.fired,
        succeeded: counters.succeeded,
        failed: counters.failed,
        cancelled: counters.cancelled,
        crashed: counters.crashed,
        timed_out: counters.timed_out,
        misfired: counters.misfired,
        skipped: counters.skipped,
        missed: counters.missed.into_iter().map(|(reason, count)| (reason.to_string(), count)).collect(),
    }
}

pub(crate) fn job(row: JobRow) -> JobBrief {
    let status = match row.status {
        handle::JobStatus::Disabled | handle::JobStatus::Removing => JobStatus::Disabled,
        handle::JobStatus::NoWorker if row.disabled_everywhere => JobStatus::Disabled,
        handle::JobStatus::NoWorker | handle::JobStatus::Damaged => JobStatus::Crashed,
        handle::JobStatus::Resharding => JobStatus::ShardingFlag,
        handle::JobStatus::Enabled | handle::JobStatus::Paused => JobStatus::Ok,
    };
    JobBrief {
        job_name: row.name.to_string(),
        status,
        state: row.status.as_str(),
        description: row.description,
        cron: row.cron,
        time_zone: row.time_zone,
        handler_type: row.handler_type,
        instance_count: row.instances,
        sharding_total_count: row.items,
        running: row.running,
        leader: row.leader,
        next_fire_time: row.next_fire.map(time),
        counters: counters(row.counters),
    }
}

pub(crate) fn detail(detail: JobDetail) -> Job {
    Job {
        brief: job(detail.row),
        file: detail.spec,
        generation: detail.generation,
        epoch: detail.epoch,
        upcoming: detail.upcoming.into_iter().map(time).collect(),
    }
}

pub(crate) fn server(row: MachineRow) -> Server {
    Server {
        server_ip: row.machine.to_string(),
        instances_num: row.instances,
        jobs_num: row.jobs,
        disabled_jobs_num: row.disabled_jobs,
    }
}

pub(crate) fn server_job(row: &ServerRow) -> ServerJob {
    let status = match (row.enabled, row.instances) {
        (false, _) => JobStatus::Disabled,
        (true, 0) => JobStatus::Crashed,
        (true, _) => JobStatus::Ok,
    };
    ServerJob { job_name: row.job.to_string(), status, instance_count: row.instances }
}

/// `None`: the item is beyond the job's count.
pub(crate) fn sharding(job: &JobName, row: ItemRow) -> Option<Sharding> {
    let status = match row.status {
        ItemStatus::Surplus => return None,
        ItemStatus::Running => ShardingStatus::Running,
        ItemStatus::Disabled => ShardingStatus::Disabled,
        ItemStatus::Unassigned => ShardingStatus::ShardingFlag,
        ItemStatus::Completed => ShardingStatus::Completed,
        ItemStatus::Crashed | ItemStatus::Pending => ShardingStatus::Pending,
    };
    let in_flight = match &row.state {
        State::Running(run) => Some((run.instance.clone(), run.fire, run.source)),
        _ => None,
    };
    let crashed = matches!(row.state, State::Crashed(_));
    let elsewhere = in_flight
        .as_ref()
        .is_some_and(|(runs, _, source)| *source == Source::Failover && row.owner.as_ref() != Some(runs));
    Some(Sharding {
        item: row.item.0,
        parameter: row.parameter,
        server_ip: row.owner.as_ref().map(|owner| owner.address().to_string()).unwrap_or_default(),
        instance_id: row.owner.as_ref().map(InstanceId::to_string).unwrap_or_default(),
        status,
        failover: crashed || elsewhere,
        task_id: in_flight.as_ref().map(|(runs, _, _)| task_id(job, row.item, runs)).unwrap_or_default(),
        token: row.token.0,
        fire_time: in_flight.as_ref().map(|(_, fire, _)| time(*fire)),
        source: in_flight.as_ref().map(|(_, _, source)| source.as_str()),
        last_outcome: row.last.as_ref().map(|last| last.outcome.as_str()),
        last_fire_time: row.last.is_some().then(|| known(row.last_fire)).flatten(),
        counters: counters(row.counters),
    })
}

pub(crate) fn instance(row: InstanceRow) -> Instance {
    Instance {
        instance_id: row.instance.to_string(),
        job_name: row.job.to_string(),
        server_ip: row.address,
        coordinator: row.host,
        slots: row.slots,
        items: row.items,
        running: row.running,
        enabled: row.enabled,
        client: row.client,
        labels: row.labels,
    }
}

pub(crate) fn run(row: RunRow) -> Run {
    Run {
        task_id: task_id(&row.job, row.item, &row.instance),
        job_name: row.job.to_string(),
        item: row.item.0,
        token: row.token.0,
        fire_time: time(row.fire),
        source: row.source.as_str(),
        instance_id: row.instance.to_string(),
        state: row.state.as_str(),
        outcome: row.state.outcome().map(|outcome| outcome.as_str()),
        started_at: time(row.started.unwrap_or(row.since)),
        ended_at: row.ended.map(time),
        attempt: row.attempt,
        error: row.error,
        output: row.output,
        processed: row.processed,
        failed: row.failed,
        trace_id: None,
        trace_url: None,
    }
}

pub(crate) fn fire(row: FireRow) -> Fire {
    let result = match row.fate {
        Fate::Pending => "pending",
        Fate::Unknown => "unknown",
        Fate::Run => "run",
        Fate::Misfired => "misfired",
        Fate::Skipped => "skipped",
        Fate::Missed => "missed",
    };
    Fire {
        fire_time: time(row.fire),
        item: row.item.0,
        result,
        reason: row.reason.map(|reason| reason.to_string()),
        runs: row.run.as_ref().map_or(0, |run| run.runs),
        state: row.run.as_ref().map(|run| run.state.as_str()),
        instance_id: row.run.map(|run| run.instance.to_string()),
    }
}

pub(crate) fn event(row: EventRow) -> Event {
    Event {
        at: time(row.at),
        job_name: row.job.map(|job| job.to_string()),
        kind: row.kind.as_str(),
        what: row.text,
        principal: row.principal.unwrap_or_default(),
    }
}

pub(crate) fn coordinator(row: MemberRow) -> Coordinator {
    Coordinator {
        id: row.id.to_string(),
        url: row.member.url,
        asked: row.asked,
        draining: row.member.draining,
        version: row.member.version,
        started_at: time(row.member.started),
        leads: row.member.leads,
        workers: row.member.workers,
        lag_ms: row.member.lag_ms,
        clock_ahead_ms: row.member.clock_ahead_ms,
        proved_ago_ms: row.proved_ago.map(|ago| u64::try_from(ago.as_millis()).unwrap_or(u64::MAX)),
    }
}

pub(crate) fn change((name, change): (JobName, Change)) -> JobChange {
    let (effect, code) = match change.effect {
        ChangeEffect::Unchanged => ("unchanged", None),
        ChangeEffect::WouldCreate => ("would_create", None),
        ChangeEffect::WouldChange => ("would_change", None),
        ChangeEffect::Created => ("created", None),
        ChangeEffect::Changed => ("changed", None),
        ChangeEffect::Removed => ("removed", None),
        ChangeEffect::Requested => ("requested", None),
        ChangeEffect::Refused(code) => ("refused", Some(code.as_str())),
    };
    let fields = change.fields.into_iter().map(|change| {
        let (old, new) = shown(&change);
        FieldChange { field: change.field, old, new }
    });
    JobChange {
        job_name: name.to_string(),
        effect,
        line: change.line,
        fields: fields.collect(),
        warnings: change.warnings,
        code,
        trigger_id: change.trigger.map(|trigger| trigger.to_string()),
    }
}
