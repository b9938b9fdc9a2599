//! Joins alarms to the coordinator: what they look at, where they record what they sent, and who carries them on. They read
//! the store as people's views do, and what is published of the health; the thread that decides is asked nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rosterd_alarms::desk::{DeliveryReport, Desk, Parts, Watched};
use rosterd_alarms::facts::{Coordinator, Item, Job as Facts, LateStart};
use rosterd_alarms::send::Sender;
use rosterd_alarms::settings::Form;
use rosterd_domain::id::{CoordinatorId, Item as ItemNumber, JobName};
use rosterd_domain::item::{Missed, Outcome, Record, Source, State};
use rosterd_domain::plan::FireResult;
use rosterd_domain::rank::rank;
use rosterd_domain::snapshot::Snapshot;
use rosterd_domain::time::Time;
use rosterd_domain::view::{Job, Timeline};
use tokio::sync::broadcast::error::RecvError;

use super::supervisor::Supervisor;
use super::{AppError, reached};
use crate::config::Config;
use rosterd_api::backend::Backend as _;
use rosterd_api::tls::ServerTls;
use rosterd_coordinator::handle::{ClusterEvent, Health, WorkerEvent};
use rosterd_history::{EventKind, Recorder};
use rosterd_runtime::clock::{Clock as _, System};
use rosterd_runtime::tasks::{ShutdownPhase, Tasks};
use rosterd_runtime::telemetry::Metrics;

/// What became of a message.
const OUTCOMES: [&str; 2] = ["delivered", "failed"];

/// Opens the desk. `at`: where this listens, and where the state is kept.
pub(super) fn open(
    config: &Config,
    at: (SocketAddr, &Path),
    recorder: &Recorder,
    metrics: &Arc<Metrics>,
) -> Result<Arc<Desk>, AppError> {
    // There from the start: what appears with its first event has no rate at it.
    for (form, outcome) in Form::NAMES.into_iter().flat_map(|form| OUTCOMES.map(|outcome| (form, outcome))) {
        drop(metrics.alarm_deliveries.get_or_create(&[("form", form), ("outcome", outcome)]));
    }
    let (recorder, counts, gauges) = (recorder.clone(), metrics.clone(), metrics.clone());
    let parts = Parts {
        settings: config.alarms.clone(),
        namespace: config.namespace.to_string(),
        coordinator: reached(config, at.0),
        sender: sender(config)?,
        clock: System::shared(),
        reports: Box::new(move |report| note(&recorder, &counts, report)),
        counted: Box::new(move |kind, count| {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            gauges.alarms.get_or_create(&[("kind", kind.as_str())]).set(count);
        }),
    };
    Ok(Desk::open(parts, Some(at.1)))
}

fn sender(config: &Config) -> Result<Sender, AppError> {
    let unusable =
        |field, path: &str, problem: String| AppError::File { field, path: path.to_owned(), problem };
    if let Some(path) = &config.alarms.ca {
        let shown = path.display().to_string();
        let pem = std::fs::read(path).map_err(|error| unusable("alarms.ca", &shown, error.to_string()))?;
        return Sender::new(Some(&pem)).map_err(|error| unusable("alarms.ca", &shown, error.to_string()));
    }
    Sender::new(None).or_else(|error| {
        if !config.alarms.receivers.is_empty() {
            tracing::warn!("{error}; until then alarms reach no receiver that speaks TLS");
        }
        Sender::trusting_nobody().map_err(|error| unusable("alarms", "", error.to_string()))
    })
}

/// Writes a row of the audit for each message, and for what people request.
fn note(recorder: &Recorder, metrics: &Metrics, report: DeliveryReport<'_>) {
    let now = System.wall();
    match report {
        DeliveryReport::Requested { job, what, by } => {
            recorder.event(now, job, EventKind::Operation, what, by)
        }
        DeliveryReport::Delivery(delivery) => {
            let outcome = OUTCOMES[usize::from(delivery.error.is_some())];
            metrics.alarm_deliveries.get_or_create(&[("form", delivery.form), ("outcome", outcome)]).inc();
            let (receiver, form, title) = (&delivery.receiver, delivery.form, &delivery.title);
            let text = match &delivery.error {
                None => format!("notified {receiver} ({form}): {title}"),
                Some(why) => {
                    format!(
                        "could not notify {receiver} ({form}), attempt {}: {title}: {why}",
                        delivery.attempt
                    )
                }
            };
            let job = Some(&delivery.jobs).filter(|jobs| jobs.len() == 1).and_then(|jobs| jobs.first());
            recorder.event(now, job, EventKind::Operation, text, Some("alarms"));
        }
    }
}

/// Carries the desk on, until work ends.
pub(super) fn run(tasks: &Tasks, desk: &Arc<Desk>, seen: Seen) {
    let supervisor = seen.supervisor.clone();
    let seen: Arc<dyn Watched> = Arc::new(seen);
    let looks = desk.clone();
    tasks.restartable(ShutdownPhase::Work, "alarms", move || looks.clone().look(seen.clone()));
    let hinted = desk.clone();
    tasks.restartable(ShutdownPhase::Work, "alarm hints", move || follow(hinted.clone(), supervisor.clone()));
    for receiver in desk.receivers() {
        let (sends, receiver) = (desk.clone(), Arc::new(receiver));
        tasks.restartable(ShutdownPhase::Work, "alarm delivery", move || {
            sends.clone().deliver(receiver.clone())
        });
    }
    let sends = desk.clone();
    tasks.restartable(ShutdownPhase::Work, "alarm delivery of jobs", move || sends.clone().deliver_own());
}

/// What happens is a hint where to look, and never what is there; but for late starts, of which no record tells.
async fn follow(desk: Arc<Desk>, supervisor: Arc<Supervisor>) {
    let mut events = supervisor.watch();
    loop {
        match events.recv().await {
            Ok(event) => handle_event(&desk, &event),
            Err(RecvError::Lagged(_)) => desk.hint_all(),
            Err(RecvError::Closed) => return std::future::pending().await,
        }
    }
}

fn handle_event(desk: &Desk, event: &ClusterEvent) {
    match event {
        ClusterEvent::Started { job, item, run, .. } if run.source == Source::NormalTrigger => {
            let by = run.since.since(run.fire);
            desk.late(&LateStart { job: job.clone(), item: item.0, by, at: run.since });
        }
        ClusterEvent::Ended { job, outcome, .. } => {
            let bad = matches!(outcome, Outcome::Failed | Outcome::TimedOut | Outcome::Crashed);
            if bad || desk.follows(job) {
                desk.hint(job);
            }
        }
        ClusterEvent::NotRun { job, result: FireResult::Missed(_), .. } => desk.hint(job),
        // Also after a change that another coordinator was asked for.
        ClusterEvent::Assigned { job, .. } => desk.changed(job),
        ClusterEvent::Worker { change: WorkerEvent::Dead | WorkerEvent::Left, .. } => desk.hint_all(),
        ClusterEvent::Job { job, .. } => desk.changed(job),
        _ => {}
    }
}

/// What the desk looks at.
pub(super) struct Seen {
    supervisor: Arc<Supervisor>,
    tls: Option<Arc<ServerTls>>,
    name: String,
}

impl Seen {
    /// `name`: of this coordinator, to people.
    pub(super) fn new(supervisor: &Arc<Supervisor>, tls: Option<Arc<ServerTls>>, name: String) -> Self {
        Self { supervisor: supervisor.clone(), tls, name }
    }
}

impl Watched for Seen {
    fn coordinator(&self) -> Coordinator {
        let health = *self.supervisor.health().borrow();
        Coordinator {
            name: self.name.clone(),
            clock_off: health == Health::ClockOff,
            store_lost: health == Health::Suspended,
            certificate_ends: self.tls.as_ref().and_then(|tls| tls.ends()),
        }
    }

    fn jobs(&self) -> BoxFuture<'_, Result<BTreeMap<JobName, bool>, String>> {
        async {
            let handle = self.supervisor.handle();
            let members = handle.members().await.map_err(|refusal| refusal.message)?;
            let present = members.into_iter().filter(|row| !row.member.draining).map(|row| row.id);
            let present: Vec<CoordinatorId> = present.collect();
            let jobs = handle.registry().jobs().await.map_err(|error| error.to_string())?;
            let me = handle.id();
            if !present.contains(me) {
                // At the start, or about to leave: who speaks for which job is not ours to say.
                return Err("this coordinator is not among those that stay".to_owned());
            }
            Ok(jobs.into_iter().map(|job| (job.clone(), rank(&job, me, &present) == 0)).collect())
        }
        .boxed()
    }

    fn job<'a>(&'a self, job: &'a JobName, speaks: bool) -> BoxFuture<'a, Result<Option<Facts>, String>> {
        async move {
            let registry = self.supervisor.handle().registry();
            let snapshot = registry.snapshot(job).await.map_err(|error| error.to_string())?;
            Ok(snapshot.and_then(|snapshot| facts(job, speaks, &snapshot, System.wall())))
        }
        .boxed()
    }
}

/// A job as rules see it; `None`: it is being removed, or was never one of ours.
fn facts(name: &JobName, speaks: bool, snapshot: &Snapshot, now: Time) -> Option<Facts> {
    let view = match Job::decode(name, &snapshot.nodes) {
        Ok(view) => Some(view?),
        // It stands still, and says so itself: `damaged` in the list of jobs.
        Err(_) => None,
    };
    let records = || snapshot.records.values().map(|(_, record)| &**record);
    let unwanted = |reason: &Missed| matches!(reason, Missed::Paused | Missed::Disabled);
    let missed = |record: &Record| -> u64 {
        record
            .counters
            .missed
            .iter()
            .filter(|(reason, _)| !unwanted(reason))
            .map(|(_, count)| *count)
            .fold(0, u64::saturating_add)
    };
    let in_service = view.as_ref().is_some_and(|view| !view.rules.disabled && !view.paused);
    let enabled = |view: &Job| view.instances.keys().any(|instance| view.is_enabled(instance));
    Some(Facts {
        name: name.clone(),
        speaks,
        in_service,
        has_worker: view.as_ref().is_some_and(enabled),
        zone: view.as_ref().map(|view| view.spec.config().zone().to_owned()).unwrap_or_default(),
        items: view.as_ref().map(|view| items(view, snapshot, in_service, now)).unwrap_or_default(),
        crashed: records().map(|record| record.counters.crashed).fold(0, u64::saturating_add),
        missed: records().map(missed).fold(0, u64::saturating_add),
        handler: view
            .as_ref()
            .and_then(|view| view.spec.error_receiver())
            .map(|(kind, props)| (kind.to_owned(), props.clone())),
    })
}

fn items(view: &Job, snapshot: &Snapshot, in_service: bool, now: Time) -> Vec<Item> {
    let timeline = Timeline::new(view);
    let item = |item: ItemNumber| {
        let record = snapshot.records.get(&item).map(|(_, record)| record);
        let next = match record {
            Some(record) => timeline.of(record).next(record.last_fire),
            None => view.sharding.made.and_then(|made| timeline.next(made)),
        };
        let unfinished = record.and_then(|record| match &record.state {
            State::Running(run) => Some(run.fire),
            State::Crashed(crashed) => Some(crashed.fire),
            State::Idle => None,
        });
        let counters = record.map(|record| &record.counters);
        Item {
            item: item.0,
            waits: next.filter(|due| in_service && *due <= now),
            unfinished,
            failed: counters.map_or(0, |counters| counters.failed.saturating_add(counters.timed_out)),
            succeeded: counters.map_or(0, |counters| counters.succeeded),
            last: record.and_then(|record| record.last.as_ref()).map(|last| last.outcome),
        }
    };
    let enabled =
        (0..view.rules.items).map(ItemNumber).filter(|item| !view.sharding.disabled_items.contains(item));
    enabled.map(item).collect()
}
