//! The composition root: the only file that knows every module. It starts them in order and stops them in
//! reverse: listener, coordinator, history, registry.

mod access;
mod alarms;
pub mod audit_trace;
pub mod backup;
pub mod credentials;
mod demo;
pub mod doctor;
mod error;
mod gauge;
mod history;
mod login;
mod names;
mod oidc;
mod started;
mod store;
pub mod supervisor;
mod traces;
pub mod transfer;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use self::demo::{JOB as DEMO, Voice};
use tokio::net::TcpListener;

use self::access::Access;
pub use self::error::AppError;
use self::error::make_private_dir;
use self::names::{named, reached, reached_at};
use self::store::OpenedStore;
use self::supervisor::{DriverThread, Open, Parts, Supervisor};
use crate::config::{Config, Registry};
use rosterd_api::connection::Caps;
use rosterd_api::edge::{Edge, EdgeConfig};
use rosterd_api::grpc::admin::Info;
use rosterd_api::grpc::worker::SessionLimits;
use rosterd_api::layers::limits::ProbeLimits;
use rosterd_api::listen::{Incoming, Keepalive, ListenLimits};
use rosterd_api::monitor::Monitor;
use rosterd_coordinator::driver::Driver;
use rosterd_coordinator::settings::Settings;
use rosterd_history::Recorder;
use rosterd_runtime::aside::Aside;
use rosterd_runtime::clock::{Clock as _, System};
use rosterd_runtime::mutants;
use rosterd_runtime::tasks::{Failure, ShutdownPhase, Tasks};
use rosterd_runtime::telemetry::{Metrics, report_panics};

/// How long the coordinator may take to hand everything over.
const HAND_OVER: Duration = Duration::from_secs(10);

/// A coordinator that runs.
struct Running {
    supervisor: Arc<Supervisor>,
    tasks: Tasks,
    address: SocketAddr,
    recorder: Recorder,
    drain: Duration,
}

/// Whether the files that the configuration names can be used; starts nothing.
pub fn check(config: &Config) -> Result<(), AppError> {
    login::check(&config.login).map_err(AppError::Access)?;
    traces::check(config)?;
    Access::open(config).map(drop).map_err(AppError::Access)
}

/// Serves until it is asked to stop.
pub async fn serve(config: Config) -> Result<(), AppError> {
    let running = start(config).await?;
    let stopped = running.until_asked().await;
    running.stop(stopped).await
}

/// Serves with a demonstration job and its workers, until it is asked to stop.
pub async fn dev(config: Config, voice: Voice) -> Result<(), AppError> {
    if config.credentials.is_some() || config.tls.is_some() {
        let what = "its workers have no credential and know no CA: leave credentials and tls_cert out, or use \
                    `rosterd serve`";
        return Err(AppError::Demo(what.to_owned()));
    }
    let running = start(config).await?;
    let demo = demo::start(&running.supervisor, running.address, voice).await?;
    let stopped = running.until_asked().await;
    demo.end(ShutdownPhase::Edge, Duration::from_secs(5)).await;
    running.stop(stopped).await
}

async fn start(config: Config) -> Result<Running, AppError> {
    warn_of_open_doors(&config);
    let data_dir = store::data_dir(&config.registry);
    make_private_dir(data_dir)?;
    // The address first: who cannot be reached need not open anything.
    let listener = TcpListener::bind(config.listen)
        .await
        .map_err(|source| AppError::Listen { address: config.listen, source })?;
    let address = listener.local_addr().unwrap_or(config.listen);
    let monitored = match config.listen_metrics {
        Some(address) => {
            let bound = TcpListener::bind(address).await;
            Some(bound.map_err(|source| AppError::ListenMetrics { address, source })?)
        }
        None => None,
    };
    let access = Access::open(&config).map_err(AppError::Access)?;
    let metrics = Metrics::of_process(System.wall());
    report_panics(metrics.clone());
    let tasks = Tasks::default();
    let OpenedStore { registry, open, name: store } = store::open(&config, &tasks).await?;
    let (recorder, reader) = history::open(&config, data_dir)?;
    let traces = traces::start(&config, address, &tasks, &metrics)?;
    let counted = (metrics.clone(), config.limits.metrics_jobs);
    let parts = parts(settings(&config, address), address, (recorder.clone(), traces), counted);
    let (supervisor, driver) = Supervisor::new(parts, registry);
    let desk = alarms::open(&config, (address, data_dir), &recorder, &metrics)?;
    alarms::run(&tasks, &desk, alarms::Seen::new(&supervisor, access.tls.clone(), reached(&config, address)));
    let backups = backup::Served::new(supervisor.clone(), Some(recorder.clone()), System::shared());
    let sessions = login::open(&config, data_dir, recorder.clone()).map_err(AppError::Access)?;
    let provider = login::provider(&config.login).map_err(AppError::Access)?;
    let warn =
        |error: &_| tracing::warn!("REST is answered beside runs, without threads of its own: {error}");
    let aside = Aside::start("aside").inspect_err(warn).ok();
    let edge = Edge {
        backend: supervisor.clone(),
        backups: Arc::new(backups),
        history: Arc::new(reader),
        alarms: desk,
        clock: System::shared(),
        info: Info { registry: store, started: System.wall() },
        metrics: metrics.clone(),
        tasks: tasks.clone(),
        config: EdgeConfig { sessions, provider, aside, ..edge_config(&config, &access) },
    };
    access.follow(&tasks, System::shared());
    history::watch(&tasks, recorder.clone(), metrics);
    if let Some(listener) = monitored {
        monitor(&edge, listener);
    }
    run(&supervisor, driver, open, edge, listener);
    started::say(&config, address, store);
    let drain = config.timing.drain_deadline;
    Ok(Running { supervisor, tasks, address, recorder, drain })
}

/// Runs a coordinator and its edge as tasks of the edge's owner: the coordinator through all its supervisor, in the phase
/// Work, the edge in its own. What the store and the network are is up to the caller.
pub fn run(
    supervisor: &Arc<Supervisor>,
    driver: Driver,
    open: Option<Open>,
    edge: Edge,
    listener: impl Incoming,
) {
    let tasks = edge.tasks.clone();
    let (work_ends, life) = (tasks.stop(ShutdownPhase::Work), supervisor.clone());
    tasks.essential(ShutdownPhase::Work, "coordinator", async move {
        if life.run(driver, open, work_ends.clone()).await {
            work_ends.cancelled().await;
        } else {
            tracing::error!("the coordinator has lost its store: start this process again");
        }
    });
    stop_with(&tasks, supervisor.clone());
    tasks.essential(ShutdownPhase::Edge, "edge", async move {
        if let Err(error) = edge.serve(listener).await {
            tracing::error!("the listener failed: {error}");
        }
    });
}

/// Serves health and metrics apart, from what the edge knows.
fn monitor(edge: &Edge, listener: TcpListener) {
    let address = listener.local_addr().ok();
    let loopback = address.is_none_or(|address| address.ip().is_loopback());
    let monitor = Monitor {
        backend: edge.backend.clone(),
        metrics: edge.metrics.clone(),
        clock: edge.clock.clone(),
        tasks: edge.tasks.clone(),
        loopback,
    };
    if let Some(address) = address {
        tracing::info!(%address, "health and metrics are served, to whoever reaches this address");
    }
    edge.tasks.essential(ShutdownPhase::Edge, "monitor", async move {
        if let Err(error) = monitor.serve(listener).await {
            tracing::error!("the listener for health and metrics failed: {error}");
        }
    });
}

/// What was allowed by a word on the command line is still worth one in the log, and so is what was written for nothing.
fn warn_of_open_doors(config: &Config) {
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    if let Registry::ZooKeeper(zookeeper) = &config.registry
        && !zookeeper.has_identity()
    {
        let servers = &zookeeper.servers;
        match zookeeper.is_on_loopback() {
            true => {
                tracing::warn!("without zk_auth anyone on this machine can change the store of {servers}")
            }
            false => {
                tracing::warn!("insecure_registry: anyone who can reach {servers} can change the store")
            }
        }
    }
    if config.listen.ip().is_loopback() {
        return;
    }
    if config.credentials.is_none() {
        tracing::warn!("insecure_listen: anyone who can reach {} can do everything", config.listen);
    }
    if config.tls.is_none() {
        tracing::warn!("insecure_listen: whatever is sent to {} can be read in transit", config.listen);
    }
}

/// The coordinator ends its streams as soon as the edge is to stop: streams do not end by themselves.
fn stop_with(tasks: &Tasks, supervisor: Arc<Supervisor>) {
    let stop = tasks.stop(ShutdownPhase::Edge);
    tasks.session(ShutdownPhase::Work, "stop", async move {
        stop.cancelled().await;
        supervisor.stop();
    });
}

impl Running {
    /// Waits for a signal, or for the end of an essential part.
    async fn until_asked(&self) -> Option<Failure> {
        tokio::select! {
            () = asked_to_stop() => None,
            failure = self.tasks.failed() => Some(failure),
        }
    }

    async fn stop(self, failed: Option<Failure>) -> Result<(), AppError> {
        tracing::info!("stopping");
        self.tasks.end(ShutdownPhase::Edge, self.drain + Duration::from_secs(2)).await;
        self.tasks.end(ShutdownPhase::Work, HAND_OVER).await;
        self.recorder.stop().await;
        self.tasks.end(ShutdownPhase::Store, HAND_OVER).await;
        failed.map_or(Ok(()), |failure| Err(failure.into()))
    }
}

async fn asked_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("signals cannot be listened for: end this process with SIGKILL");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}

fn parts(
    settings: Settings,
    address: SocketAddr,
    (recorder, traces): (Recorder, Option<traces::Traces>),
    (metrics, jobs): (Arc<Metrics>, usize),
) -> Parts {
    Parts {
        settings,
        clock: System::shared(),
        name: named(address),
        ids: Box::new(|| Box::new(|| uuid::Uuid::new_v4().simple().to_string())),
        sink: Box::new(move || Box::new(history::ToHistory(recorder.clone()))),
        gauge: Box::new(move || Box::new(gauge::ToMetrics::new(metrics.clone(), jobs))),
        tracer: traces.map(traces::Traces::tracers),
        place: DriverThread::OwnThread,
    }
}

fn settings(config: &Config, address: SocketAddr) -> Settings {
    let timing = &config.timing;
    let usual = Settings::new(config.namespace.clone(), named(address)());
    let minute = mutants::number("minute-ms").and_then(|ms| u64::try_from(ms).ok());
    Settings {
        advertise: config.advertise.clone().unwrap_or_else(|| reached_at(config.scheme(), address)),
        lease: timing.lease,
        heartbeat: timing.heartbeat,
        stop_budget: timing.stop_budget,
        timeout_grace: timing.timeout_grace,
        drift_permille: timing.clock_drift_ppm.div_ceil(1000),
        max_reports: config.limits.max_unacknowledged_reports as usize,
        max_jobs_per_worker: config.limits.max_jobs_per_worker,
        max_outbox_frames: config.limits.max_outbox_frames,
        max_clock_difference: timing.max_clock_difference,
        server_retention: timing.machine_retention,
        minute: minute.map_or(usual.minute, Duration::from_millis),
        ..usual
    }
}

fn edge_config(config: &Config, access: &Access) -> EdgeConfig {
    let limits = &config.limits;
    EdgeConfig {
        listen: ListenLimits {
            caps: Caps { total: limits.max_connections, per_peer: limits.max_connections_per_ip },
            preface: limits.preface_timeout,
            keepalive: Keepalive { interval: limits.keepalive_interval, timeout: limits.keepalive_timeout },
            streams_per_connection: limits.max_streams_per_connection,
            connection_window: limits.connection_window,
            stream_window: limits.stream_window,
            shutdown: config.timing.drain_deadline,
            ..ListenLimits::default()
        },
        session: SessionLimits { hello: limits.hello_timeout, ..SessionLimits::default() },
        max_receive: limits.max_receive_bytes,
        max_send: limits.max_send_bytes,
        calls: limits.max_requests,
        workers: limits.max_workers,
        watchers: limits.max_watchers,
        probes: ProbeLimits::default(),
        loopback: config.listen.ip().is_loopback(),
        call_deadline: limits.request_timeout,
        credentials: access.credentials.clone(),
        tls: access.tls.clone(),
        base_path: config.base_path.clone(),
        sessions: None,
        trace_url: config.trace_url.clone(),
        provider: None,
        aside: None,
    }
}
