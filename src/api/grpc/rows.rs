//! Converts rows for people to the wire format. Called by `admin` and `watch`.

use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::explain::{Link, Sentence};
use rosterd_domain::id::{Item, JobName, Token, task_id};
use rosterd_domain::item::{Counters, Ended, Missed, Outcome, Running, State};
use rosterd_domain::plan::FireResult;
use rosterd_domain::time::Time;

use crate::operator::shown;
use rosterd_coordinator::handle::{
    Action, Change, ChangeEffect, ClusterEvent, Done, FieldChange, Health, InstanceRow, ItemRow, ItemStatus,
    JobDetail, JobRow, JobStatus, MachineRow, MemberRow, ServerRow, WorkerEvent,
};
use rosterd_history::{EventKind, EventRow, Fate, FireRow, OwnerRow, RunRow, Status as HistoryStatus};
use rosterd_wire::convert::to_source;
use rosterd_wire::proto::v1;
use rosterd_wire::scalar::{duration, timestamp};

pub(super) fn counters(counters: Counters) -> v1::Counters {
    v1::Counters {
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

pub(super) fn job(row: JobRow) -> v1::JobSummary {
    let status = match row.status {
        JobStatus::Enabled => v1::JobStatus::Enabled,
        JobStatus::Disabled => v1::JobStatus::Disabled,
        JobStatus::Paused => v1::JobStatus::Paused,
        JobStatus::NoWorker => v1::JobStatus::NoWorker,
        JobStatus::Resharding => v1::JobStatus::Resharding,
        JobStatus::Removing => v1::JobStatus::Removing,
        JobStatus::Damaged => v1::JobStatus::Damaged,
    };
    v1::JobSummary {
        name: row.name.into(),
        handler_type: row.handler_type,
        cron: row.cron,
        time_zone: row.time_zone,
        sharding_total_count: row.items,
        description: row.description,
        status: status.into(),
        instances: row.instances,
        running: row.running,
        leader: row.leader,
        next_fire: row.next_fire.map(timestamp),
        counters: Some(counters(row.counters)),
        unmonitored: row.unmonitored,
    }
}

pub(super) fn detail(detail: JobDetail) -> v1::GetJobResponse {
    v1::GetJobResponse {
        summary: Some(job(detail.row)),
        spec: detail.spec,
        generation: detail.generation,
        epoch: detail.epoch,
        upcoming: detail.upcoming.into_iter().map(timestamp).collect(),
        stats: Vec::new(),
    }
}

pub(super) fn outcome(outcome: Outcome) -> v1::RunOutcome {
    match outcome {
        Outcome::Succeeded => v1::RunOutcome::Succeeded,
        Outcome::Failed => v1::RunOutcome::Failed,
        Outcome::Cancelled => v1::RunOutcome::Cancelled,
        Outcome::Crashed => v1::RunOutcome::Crashed,
        Outcome::TimedOut => v1::RunOutcome::TimedOut,
    }
}

/// An outcome with which a run can have ended; outcomes that only workers report do not count.
pub(super) fn to_outcome(outcome: v1::RunOutcome) -> Option<Outcome> {
    Some(match outcome {
        v1::RunOutcome::Succeeded => Outcome::Succeeded,
        v1::RunOutcome::Failed => Outcome::Failed,
        v1::RunOutcome::Cancelled => Outcome::Cancelled,
        v1::RunOutcome::Crashed => Outcome::Crashed,
        v1::RunOutcome::TimedOut => Outcome::TimedOut,
        _ => return None,
    })
}

fn in_flight(token: Token, run: Running) -> v1::RunInFlight {
    v1::RunInFlight {
        token: token.0,
        fire_time: Some(timestamp(run.fire)),
        source: to_source(run.source).into(),
        instance: run.instance.into(),
        started_at: Some(timestamp(run.since)),
        trigger_id: run.trigger.map(String::from).unwrap_or_default(),
    }
}

fn ended(ended: Ended) -> v1::EndedRun {
    v1::EndedRun {
        token: ended.token.0,
        fire_time: Some(timestamp(ended.fire)),
        source: to_source(ended.source).into(),
        instance: ended.instance.into(),
        outcome: outcome(ended.outcome).into(),
        ended_at: Some(timestamp(ended.at)),
        reported: ended.reported,
    }
}

pub(super) fn item(row: ItemRow) -> v1::ItemSummary {
    let (state, running, crashed) = match row.state {
        State::Idle => (v1::ItemState::Idle, None, None),
        State::Running(run) => (v1::ItemState::Running, Some(in_flight(row.token, run)), None),
        State::Crashed(run) => {
            let crashed = v1::CrashedRun {
                fire_time: Some(timestamp(run.fire)),
                instance: run.instance.into(),
                crashed_at: Some(timestamp(run.since)),
            };
            (v1::ItemState::Crashed, None, Some(crashed))
        }
    };
    let status = match row.status {
        ItemStatus::Running => v1::ItemStatus::Running,
        ItemStatus::Crashed => v1::ItemStatus::Crashed,
        ItemStatus::Surplus => v1::ItemStatus::Surplus,
        ItemStatus::Disabled => v1::ItemStatus::Disabled,
        ItemStatus::Unassigned => v1::ItemStatus::Unassigned,
        ItemStatus::Completed => v1::ItemStatus::Completed,
        ItemStatus::Pending => v1::ItemStatus::Pending,
    };
    v1::ItemSummary {
        item: row.item.0,
        parameter: row.parameter,
        owner: row.owner.map(String::from),
        disabled: row.disabled,
        surplus: row.surplus,
        state: state.into(),
        running,
        crashed,
        token: row.token.0,
        last_fire: Some(timestamp(row.last_fire)),
        misfire: row.misfire.map(timestamp),
        last: row.last.map(ended),
        counters: Some(counters(row.counters)),
        status: status.into(),
    }
}

/// `own`: the health of this coordinator. For others, what they last wrote.
pub(super) fn coordinator(row: MemberRow, own: Health) -> v1::CoordinatorSummary {
    let member = row.member;
    let state = match (row.asked, member.draining) {
        (true, _) => own,
        (false, true) => Health::Draining,
        (false, false) if member.clock_ahead_ms != 0 => Health::ClockOff,
        (false, false) => Health::Serving,
    };
    v1::CoordinatorSummary {
        coordinator_id: row.id.to_string(),
        url: member.url,
        asked: row.asked,
        draining: member.draining,
        version: member.version,
        started_at: Some(timestamp(member.started)),
        leads: member.leads,
        workers: member.workers,
        lag: Some(duration(Duration::from_millis(member.lag_ms))),
        state: health(state).into(),
        proved_ago: row.proved_ago.map(duration),
    }
}

pub(super) fn instance(row: InstanceRow) -> v1::InstanceSummary {
    v1::InstanceSummary {
        instance: row.instance.into(),
        job: row.job.into(),
        address: row.address,
        host: row.host,
        slots: row.slots,
        items: row.items,
        enabled: row.enabled,
        client: row.client,
        labels: row.labels.into_iter().collect(),
        state: if row.running > 0 { v1::InstanceState::Running } else { v1::InstanceState::Ready }.into(),
        running: row.running,
    }
}

pub(super) fn sentence(sentence: Sentence) -> v1::ExplainedSentence {
    let link = |link: Link| v1::SentenceLink { text: link.text, href: link.href };
    let links = sentence.links.into_iter().map(link).collect();
    v1::ExplainedSentence { part: sentence.part.as_str().to_owned(), text: sentence.text, links }
}

pub(super) fn stay(row: OwnerRow) -> v1::OwnershipRecord {
    v1::OwnershipRecord {
        item: row.item.0,
        instance: row.instance.into(),
        start_time: Some(timestamp(row.from)),
        end_time: row.to.map(timestamp),
        reason: row.reason,
        end_reason: row.end_reason,
        generation: row.generation,
    }
}

pub(super) fn machine(row: ServerRow) -> v1::MachineSummary {
    v1::MachineSummary {
        machine: row.server.into(),
        job: row.job.into(),
        enabled: row.enabled,
        instances: row.instances,
        jobs: 1,
        disabled_jobs: u32::from(!row.enabled),
    }
}

pub(super) fn machine_over_all(row: MachineRow) -> v1::MachineSummary {
    v1::MachineSummary {
        machine: row.machine.into(),
        job: String::new(),
        enabled: row.disabled_jobs < row.jobs,
        instances: row.instances,
        jobs: row.jobs,
        disabled_jobs: row.disabled_jobs,
    }
}

/// The kinds on the wire.
const EVENT_KINDS: [(EventKind, v1::EventKind); 5] = [
    (EventKind::Job, v1::EventKind::Job),
    (EventKind::Operation, v1::EventKind::Operation),
    (EventKind::Worker, v1::EventKind::Worker),
    (EventKind::Assigned, v1::EventKind::Assigned),
    (EventKind::Run, v1::EventKind::Run),
];

/// `None`: any.
pub(super) fn to_event_kind(kind: v1::EventKind) -> Option<EventKind> {
    EVENT_KINDS.into_iter().find(|(_, worded)| *worded == kind).map(|(kind, _)| kind)
}

pub(super) fn event(event: EventRow) -> v1::EventRecord {
    let kind = EVENT_KINDS.into_iter().find(|(kind, _)| *kind == event.kind);
    v1::EventRecord {
        at: Some(timestamp(event.at)),
        job: event.job.map(String::from).unwrap_or_default(),
        kind: kind.map_or(v1::EventKind::Unspecified, |(_, worded)| worded).into(),
        what: event.text,
        principal: event.principal.unwrap_or_default(),
    }
}

pub(super) fn run(run: RunRow) -> v1::RunRecord {
    v1::RunRecord {
        task_id: task_id(&run.job, run.item, &run.instance),
        run: Some(v1::RunRef { job: run.job.into(), item: run.item.0, token: run.token.0 }),
        fire_time: Some(timestamp(run.fire)),
        source: to_source(run.source).into(),
        instance: run.instance.into(),
        outcome: run.state.outcome().map_or(v1::RunOutcome::Unspecified, outcome).into(),
        started_at: Some(timestamp(run.started.unwrap_or(run.since))),
        ended_at: run.ended.map(timestamp),
        attempt: run.attempt,
        error: run.error,
        output: run.output,
        processed: run.processed,
        failed: run.failed,
        decided_at: Some(timestamp(run.since)),
        state: run.state.as_str().into(),
        trace_id: String::new(),
    }
}

pub(super) fn fire(job: &JobName, row: FireRow) -> v1::FireRecord {
    let result = match row.fate {
        Fate::Pending => v1::FireResult::Pending,
        Fate::Unknown => v1::FireResult::Unspecified,
        Fate::Run => v1::FireResult::Run,
        Fate::Misfired => v1::FireResult::Misfired,
        Fate::Skipped => v1::FireResult::Skipped,
        Fate::Missed => v1::FireResult::Missed,
    };
    let runs = row.run.as_ref().map_or(0, |run| run.runs);
    let last = row.run.map(|run| v1::RunRecord {
        task_id: task_id(job, row.item, &run.instance),
        run: Some(v1::RunRef { job: job.to_string(), item: row.item.0, token: run.token.0 }),
        fire_time: Some(timestamp(row.fire)),
        source: to_source(run.source).into(),
        instance: run.instance.into(),
        outcome: run.state.outcome().map_or(v1::RunOutcome::Unspecified, outcome).into(),
        state: run.state.as_str().into(),
        ..Default::default()
    });
    v1::FireRecord {
        fire_time: Some(timestamp(row.fire)),
        item: row.item.0,
        result: result.into(),
        reason: row.reason.map(|reason| reason.to_string()).unwrap_or_default(),
        run: last,
        runs,
    }
}

pub(super) fn changes(done: Done) -> Vec<v1::JobChange> {
    let change = |(job, change): (JobName, Change)| v1::JobChange {
        job: job.into(),
        lines: vec![change.line],
        effect: effect(change.effect).into(),
        fields: change.fields.into_iter().map(field_change).collect(),
        warnings: change.warnings,
        code: match change.effect {
            ChangeEffect::Refused(code) => code.to_string(),
            _ => String::new(),
        },
    };
    done.changes.into_iter().map(change).collect()
}

fn effect(effect: ChangeEffect) -> v1::JobEffect {
    match effect {
        ChangeEffect::Unchanged => v1::JobEffect::Unchanged,
        ChangeEffect::WouldCreate => v1::JobEffect::WouldCreate,
        ChangeEffect::WouldChange => v1::JobEffect::WouldChange,
        ChangeEffect::Created => v1::JobEffect::Created,
        ChangeEffect::Changed => v1::JobEffect::Changed,
        ChangeEffect::Removed => v1::JobEffect::Removed,
        ChangeEffect::Refused(_) => v1::JobEffect::Refused,
        ChangeEffect::Requested => v1::JobEffect::Requested,
    }
}

fn field_change(change: FieldChange) -> v1::FieldChange {
    let (old_value, new_value) = shown(&change);
    v1::FieldChange { field: change.field, old_value, new_value, hidden: change.secret }
}

pub(super) fn history(status: HistoryStatus) -> v1::HistoryStatus {
    v1::HistoryStatus {
        database: status.database.unwrap_or_default(),
        waiting: status.waiting,
        waiting_bytes: status.waiting_bytes,
        sent: status.sent,
        dropped: status.dropped,
        trouble: status.trouble.unwrap_or_default(),
    }
}

pub(super) fn health(health: Health) -> v1::ServerHealth {
    match health {
        Health::Starting => v1::ServerHealth::Starting,
        Health::Serving => v1::ServerHealth::Serving,
        Health::ClockOff => v1::ServerHealth::ClockOff,
        Health::Suspended => v1::ServerHealth::Suspended,
        Health::Draining => v1::ServerHealth::Draining,
    }
}

pub(super) fn watch_event(at: Time, event: &ClusterEvent) -> v1::WatchResponse {
    use v1::watch_response::Event;
    let event = match event.clone() {
        ClusterEvent::Started { job, item, token, run } => Event::RunStarted(v1::RunStartedEvent {
            job: job.into(),
            item: item.0,
            run: Some(in_flight(token, run)),
        }),
        ClusterEvent::Ended { job, item, token, run, outcome, error, output } => {
            Event::RunEnded(v1::RunEndedEvent {
                job: job.into(),
                item: item.0,
                run: Some(in_flight(token, run)),
                outcome: self::outcome(outcome).into(),
                error,
                output,
            })
        }
        ClusterEvent::Progress { job, item, token, percent, message } => {
            let run = Some(v1::RunRef { job: job.into(), item: item.0, token: token.0 });
            Event::RunProgress(v1::RunProgressEvent { run, percent, message })
        }
        ClusterEvent::NotRun { job, item, first, latest, count, result } => {
            let (result, reason) = not_run(result);
            Event::FiresNotRun(v1::FiresNotRunEvent {
                job: job.into(),
                item: item.0,
                first: Some(timestamp(first)),
                latest: Some(timestamp(latest)),
                count,
                result: result.into(),
                reason: reason.map(|reason| reason.to_string()).unwrap_or_default(),
            })
        }
        ClusterEvent::Assigned { job, generation, owners, why } => Event::Assigned(v1::AssignedEvent {
            job: job.into(),
            generation,
            owners: owners
                .into_iter()
                .map(|(instance, items)| v1::InstanceItems {
                    instance: instance.into(),
                    items: items.into_iter().map(|Item(item)| item).collect(),
                })
                .collect(),
            why: why.map(|why| why.to_string()).unwrap_or_default(),
        }),
        ClusterEvent::Worker { instance, change } => Event::Worker(v1::WorkerEvent {
            instance: instance.into(),
            what: change.as_str().to_owned(),
            change: worker_change(change).into(),
        }),
        ClusterEvent::Job { job, action, what, by } => done(job.into(), action, what, by),
        ClusterEvent::Asked { job, action, what, by } => {
            done(job.map(String::from).unwrap_or_default(), action, what, by)
        }
    };
    v1::WatchResponse { at: Some(timestamp(at)), event: Some(event) }
}

fn done(job: String, action: Action, what: String, by: Option<Arc<str>>) -> v1::watch_response::Event {
    let principal = by.map(|by| by.to_string()).unwrap_or_default();
    let action = job_action(action).into();
    v1::watch_response::Event::Job(v1::JobEvent { job, what, principal, action })
}

fn job_action(action: Action) -> v1::JobAction {
    match action {
        Action::Create => v1::JobAction::Create,
        Action::Change => v1::JobAction::Change,
        Action::Trigger => v1::JobAction::Trigger,
        Action::Pause => v1::JobAction::Pause,
        Action::Resume => v1::JobAction::Resume,
        Action::Enable => v1::JobAction::Enable,
        Action::Disable => v1::JobAction::Disable,
        Action::Remove => v1::JobAction::Remove,
        Action::Cancel => v1::JobAction::Cancel,
        Action::Drain => v1::JobAction::Drain,
        Action::Shutdown => v1::JobAction::Shutdown,
        Action::ForgetMachine => v1::JobAction::RemoveMachine,
        Action::GiveUp => v1::JobAction::GiveUp,
        Action::Backup => v1::JobAction::Backup,
        Action::Restore => v1::JobAction::Restore,
    }
}

fn worker_change(change: WorkerEvent) -> v1::WorkerChange {
    match change {
        WorkerEvent::Attached => v1::WorkerChange::Attached,
        WorkerEvent::Draining => v1::WorkerChange::Draining,
        WorkerEvent::Left => v1::WorkerChange::Left,
        WorkerEvent::Dead => v1::WorkerChange::Dead,
    }
}

/// The result of scheduled times that were not run, and the reason if they were missed.
fn not_run(result: FireResult) -> (v1::FireResult, Option<Missed>) {
    match result {
        FireResult::Misfired => (v1::FireResult::Misfired, None),
        FireResult::Skipped => (v1::FireResult::Skipped, None),
        FireResult::Missed(reason) => (v1::FireResult::Missed, Some(reason)),
    }
}
