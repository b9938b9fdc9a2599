//! The programs on the hosts: a coordinator with its edge, a worker, a person with the admin service. Each is assembled
//! as in the real program, except for the store, the network and the clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use futures_util::FutureExt as _;
use rosterd::app;
use rosterd::app::supervisor::{DriverThread, Open, Parts, Supervisor};
use rosterd_api::backend::BackendAnswer;
use rosterd_api::edge::{Edge, EdgeConfig};
use rosterd_api::grpc::admin::Info;
use rosterd_api::history::History;
use rosterd_client::embedding::{TokioClock, TonicConnector};
use rosterd_client::{CancellationToken, OnRefused, Options, Worker};
use rosterd_coordinator::driver::NoHistory;
use rosterd_coordinator::settings::Settings;
use rosterd_domain::id::{CoordinatorId, Item, JobName, Token};
use rosterd_domain::time::Time;
use rosterd_history::{
    EventFilter, EventRow, FireRow, OwnerFilter, OwnerRow, Page, Pulse, Recent, RunFilter, RunRow,
};
use rosterd_registry::Registry;
use rosterd_registry::memory::{MemoryStore, SessionOptions};
use rosterd_runtime::clock::Simulated;
use rosterd_runtime::tasks::{ShutdownPhase, Tasks};
use rosterd_runtime::telemetry::Metrics;
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::admin_service_client::AdminServiceClient;
use tonic::transport::Endpoint;

use crate::network::{Listener, dial, url};
use crate::oracle::coverage::Coverage;
use crate::oracle::observer::Observer;
use crate::rng::Rng;
use crate::tap::{Processes, Tap};
use crate::time::begun;
use crate::work::{JobPlan, Log};
use crate::world::{WorldTimes, base, namespace};

/// The state that all hosts share with the world.
#[derive(Clone)]
pub struct Shared {
    pub store: MemoryStore,
    pub observer: Observer,
    pub log: Log,
    pub coverage: Coverage,
    pub processes: Processes,
    pub times: WorldTimes,
    pub jobs: Vec<JobPlan>,
}

/// A machine, and what the world knows of its current program.
pub struct Machine {
    pub name: String,
    pub life: Mutex<Life>,
}

/// State that is renewed with every start.
#[derive(Default)]
pub struct Life {
    pub starts: u64,
    /// Asks the program to end as SIGTERM does.
    pub stop: CancellationToken,
    /// The coordinator's session and name.
    pub session: Option<String>,
    pub id: Option<CoordinatorId>,
}

impl Machine {
    pub fn new(name: String) -> Arc<Self> {
        Arc::new(Self { name, life: Mutex::default() })
    }

    pub fn life(&self) -> std::sync::MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of the current program.
    pub fn process(&self) -> String {
        format!("{}.{}", self.name, self.life().starts)
    }
}

/// No host keeps a history.
struct Blank;

impl History for Blank {
    fn runs(&self, _: RunFilter, _: Page) -> BackendAnswer<'_, (Vec<RunRow>, Option<String>)> {
        async { Ok((Vec::new(), None)) }.boxed()
    }

    fn events(&self, _: EventFilter, _: Page) -> BackendAnswer<'_, (Vec<EventRow>, Option<String>)> {
        async { Ok((Vec::new(), None)) }.boxed()
    }

    fn owners(&self, _: OwnerFilter, _: Page) -> BackendAnswer<'_, (Vec<OwnerRow>, Option<String>)> {
        async { Ok((Vec::new(), None)) }.boxed()
    }

    fn attempts<'a>(&'a self, _: &'a JobName, _: Item, _: Token) -> BackendAnswer<'a, Vec<RunRow>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn pulse(&self, _: Time, _: Time) -> BackendAnswer<'_, Pulse> {
        async { Ok(Pulse::default()) }.boxed()
    }

    fn counts(
        &self,
        _: Option<JobName>,
        _: Time,
        _: Time,
        _: std::time::Duration,
    ) -> BackendAnswer<'_, Vec<rosterd_history::Counted>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn recent<'a>(&'a self, _: &'a JobName, _: Time) -> BackendAnswer<'a, Vec<Recent>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn fires<'a>(&'a self, _: &'a JobName, _: Vec<Item>, _: Vec<Time>) -> BackendAnswer<'a, Vec<FireRow>> {
        async { Ok(Vec::new()) }.boxed()
    }
}

fn open_session(machine: &Machine, shared: &Shared) -> Arc<dyn Registry> {
    let options = SessionOptions { timeout: Some(shared.times.session) };
    let registry = Arc::new(shared.store.open(&machine.name, options));
    let session = registry.session();
    shared.observer.note(|| format!("{} opens session {session}", machine.process()));
    machine.life().session = Some(session);
    registry
}

fn parts(machine: &Arc<Machine>, shared: &Shared, clock: Arc<Simulated>) -> Parts {
    let times = shared.times;
    let process = machine.process();
    let (named, seat) = (AtomicU64::new(0), machine.clone());
    let first = process.clone();
    let name = move || {
        let number = named.fetch_add(1, Ordering::Relaxed);
        let id = CoordinatorId::new(format!("{first}.{number}")).expect("such a name is one");
        seat.life().id = Some(id.clone());
        id
    };
    let settings = Settings {
        advertise: url(&machine.name),
        session: Some(times.session),
        session_margin_permille: 200,
        lease: times.lease,
        heartbeat: times.heartbeat,
        stop_budget: times.stop_budget,
        store_retry: Duration::from_millis(500),
        ..Settings::new(namespace(), CoordinatorId::new(&process).expect("such a name is one"))
    };
    let made = Arc::new(AtomicU64::new(0));
    Parts {
        settings,
        clock,
        name: Box::new(name),
        ids: Box::new(move || {
            let (process, made) = (process.clone(), made.clone());
            Box::new(move || format!("{process}.{}", made.fetch_add(1, Ordering::Relaxed)))
        }),
        sink: Box::new(|| Box::new(NoHistory)),
        gauge: Box::new(|| Box::new(NoHistory)),
        tracer: None,
        place: DriverThread::Inline,
    }
}

/// Runs a coordinator until it is asked to stop, or crashed.
pub async fn coordinator(machine: Arc<Machine>, shared: Shared) -> turmoil::Result {
    let listener = Listener::bind().await?;
    let (tasks, metrics) = (Tasks::default(), Metrics::new());
    let clock = Arc::new(Simulated::new(base().plus(begun())));
    let registry = open_session(&machine, &shared);
    let (lives, driver) = Supervisor::new(parts(&machine, &shared, clock.clone()), registry);
    let (again, with) = (machine.clone(), shared.clone());
    let open: Open = Box::new(move || {
        with.coverage.count("recovery: a new session in the same process");
        let registry = open_session(&again, &with);
        async { Ok(registry) }.boxed()
    });
    let tap =
        Tap { lives: lives.clone(), observer: shared.observer.clone(), processes: shared.processes.clone() };
    let backups = app::backup::Served::new(lives.clone(), None, clock.clone());
    let edge = Edge {
        backend: Arc::new(tap),
        backups: Arc::new(backups),
        history: Arc::new(Blank),
        alarms: rosterd_alarms::desk::Desk::idle(clock.clone()).unwrap(),
        clock,
        info: Info { registry: "memory", started: base() },
        metrics,
        tasks: tasks.clone(),
        config: EdgeConfig::default(),
    };
    app::run(&lives, driver, Some(open), edge, listener);
    let stop = machine.life().stop.clone();
    tokio::select! {
        biased;
        failure = tasks.failed() => return Err(failure.into()),
        () = stop.cancelled() => {}
    }
    for phase in ShutdownPhase::ALL {
        tasks.end(phase, Duration::from_secs(12)).await;
    }
    Ok(())
}

/// How a worker is started.
#[derive(Clone)]
pub struct WorkerSetup {
    pub servers: Vec<String>,
    pub slots: u32,
    pub seed: u64,
}

/// Runs a worker until it has left, or was crashed.
pub async fn worker(machine: Arc<Machine>, desk: WorkerSetup, shared: Shared) -> turmoil::Result {
    let (process, stop) = (machine.process(), machine.life().stop.clone());
    let mut rng = Rng::new(desk.seed ^ machine.life().starts);
    let mut servers = desk.servers.clone();
    let first = rng.index(servers.len());
    servers.rotate_left(first);
    let mut options = Options::default();
    options.servers = servers;
    options.address.clone_from(&machine.name);
    options.slots = desk.slots;
    options.drain_timeout = Duration::from_secs(4);
    options.stop_grace = Duration::from_secs(1);
    options.on_refused = OnRefused::Retry;
    options.seed = Some(rng.next());
    let mut worker = Worker::new(options).shutdown(stop.cancelled_owned());
    for job in &shared.jobs {
        worker = worker.add(job.offer(&process, &shared.log, &mut rng));
    }
    let connector = TonicConnector::default().dialing(dial);
    let since = Duration::from_millis(u64::try_from(base().plus(begun()).0)?);
    let how = worker.drive(connector, TokioClock::starting_at(UNIX_EPOCH + since)).await;
    let how = how.map_or_else(|error| error.to_string(), |()| "left".into());
    shared.coverage.count(format!("worker ended: {}", how.split([':', ',', '(']).next().unwrap_or_default()));
    shared.observer.note(|| format!("{process} has ended: {how}"));
    Ok(())
}

/// A person who sends requests to coordinators now and then, over the admin service.
pub async fn person(servers: Vec<String>, seed: u64, shared: Shared) -> turmoil::Result {
    let mut rng = Rng::new(seed);
    loop {
        tokio::time::sleep(rng.millis(1_000, 5_000)).await;
        let (server, job) = (rng.index(servers.len()), rng.index(shared.jobs.len()));
        let (what, job) = (rng.below(4), shared.jobs[job].name.to_owned());
        let asked = tokio::time::timeout(Duration::from_secs(4), ask(&servers[server], what, job.clone()));
        let done = match asked.await {
            Err(_) => "no answer".to_owned(),
            Ok(Err(error)) => format!("{error:.60}"),
            Ok(Ok(())) => {
                shared.coverage.count("operation: done");
                "done".to_owned()
            }
        };
        shared.observer.note(|| format!("a person asks {} for {what} of {job}: {done}", servers[server]));
    }
}

async fn ask(server: &str, what: u64, job: String) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let endpoint = Endpoint::from_shared(server.to_owned())?.connect_timeout(Duration::from_secs(2));
    let mut admin = AdminServiceClient::new(dial(endpoint).await?);
    match what {
        0 => {
            admin.pause_job(v1::PauseJobRequest { job: job.clone() }).await?;
            tokio::time::sleep(Duration::from_secs(2)).await;
            drop(admin.resume_job(v1::ResumeJobRequest { job }).await?);
        }
        1 => drop(admin.resume_job(v1::ResumeJobRequest { job }).await?),
        2 => drop(admin.list_jobs(v1::ListJobsRequest::default()).await?),
        _ => {
            let after_current = true;
            drop(
                admin.trigger_job(v1::TriggerJobRequest { job, after_current, ..Default::default() }).await?,
            );
        }
    }
    Ok(())
}
