//! The coordinator's supervisor. A registry session that is over takes every right with it, but not the process: the
//! coordinator of that session is put away, and one of a new session, under a new name, takes its place behind the
//! same port. Workers' streams end with the old one; they come again within their lease, with their runs in flight,
//! and the records that still name them make `instances` and `running` anew.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rosterd_domain::explain::{Sentence, Stay};
use rosterd_domain::id::{CoordinatorId, Item, JobName, Namespace};
use rosterd_domain::time::Time;
use tokio::sync::{broadcast, oneshot, watch};
use tokio_util::sync::CancellationToken;

use rosterd_api::backend::{Backend, BackendAnswer, Conversation};
use rosterd_coordinator::driver::{Driver, EVENT_BACKLOG, Gauge, Sink, coordinator};
use rosterd_coordinator::handle::{
    Birth, ClusterEvent, Done, DumpNode, Handle, Health, InstanceRow, ItemRow, JobDetail, JobRow, MachineRow,
    MemberRow, Operation, Peer, ServerRow, Survey,
};
use rosterd_coordinator::settings::Settings;
use rosterd_coordinator::tracer::Tracer;
use rosterd_registry::Registry;
use rosterd_runtime::clock::SharedClock;
use rosterd_session::code::Refusal;

/// How long to wait before a new session is tried for again: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Opens a new session; the text says why it could not be.
pub type Open = Box<dyn Fn() -> BoxFuture<'static, Result<Arc<dyn Registry>, String>> + Send + Sync>;

/// Makes one for each life.
pub type Each<T> = Box<dyn Fn() -> T + Send + Sync>;

/// Makes what traces the coordinator of a name.
pub type Tracers = Box<dyn Fn(&CoordinatorId) -> Box<dyn Tracer> + Send + Sync>;

/// Where a coordinator decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverThread {
    /// On a thread of its own: a scheduled time waits for no task of the many streams.
    OwnThread,
    /// Among the tasks of whoever runs it: in a simulation, which has one thread and a clock of its own.
    Inline,
}

/// What each coordinator is made from.
pub struct Parts {
    /// All but the name.
    pub settings: Settings,
    /// What time it is.
    pub clock: SharedClock,
    /// A new name for a new session.
    pub name: Each<CoordinatorId>,
    /// A source of names for what a coordinator makes; no two ever give the same.
    pub ids: Each<Box<dyn FnMut() -> String + Send>>,
    /// Where what became of fires and runs goes.
    pub sink: Each<Box<dyn Sink>>,
    /// What is measured.
    pub gauge: Each<Box<dyn Gauge>>,
    /// What traces it; none: nothing does.
    pub tracer: Option<Tracers>,
    /// Where it decides.
    pub place: DriverThread,
}

/// The coordinator of the moment, to whoever serves it.
pub struct Supervisor {
    parts: Parts,
    namespace: Namespace,
    handle: RwLock<Handle>,
    health: watch::Sender<Health>,
    events: broadcast::Sender<Arc<ClusterEvent>>,
    stopping: AtomicBool,
}

impl Supervisor {
    /// The first life.
    pub fn new(parts: Parts, registry: Arc<dyn Registry>) -> (Arc<Self>, Driver) {
        let (health, _) = watch::channel(Health::Starting);
        let (events, _) = broadcast::channel(EVENT_BACKLOG);
        let (handle, driver) = parts.coordinator(registry);
        let driver = driver.speaking_through(health.clone(), events.clone());
        let namespace = handle.namespace().clone();
        let (handle, stopping) = (RwLock::new(handle), AtomicBool::new(false));
        (Arc::new(Self { parts, namespace, handle, health, events, stopping }), driver)
    }

    /// Supervisor until asked to stop (true), or until a session is over that no other can follow (false).
    pub async fn run(&self, mut driver: Driver, open: Option<Open>, stop: CancellationToken) -> bool {
        loop {
            let asked = match self.parts.place {
                DriverThread::OwnThread => on_own_thread(driver).await,
                DriverThread::Inline => driver.run().await,
            };
            if asked || self.stopping.load(Ordering::SeqCst) {
                return true;
            }
            let Some(open) = &open else { return false };
            tracing::error!(coordinator = %self.handle().id(), "the store session is over: a new one is opened, and workers are to come again");
            let registry = tokio::select! {
                biased;
                () = stop.cancelled() => return true,
                registry = reopen(open) => registry,
            };
            let (handle, next) = self.parts.coordinator(registry);
            tracing::warn!(coordinator = %handle.id(), "a new store session is open");
            driver = next.speaking_through(self.health.clone(), self.events.clone());
            *self.handle.write().unwrap_or_else(PoisonError::into_inner) = handle;
            if self.stopping.load(Ordering::SeqCst) {
                self.handle().stop();
            }
        }
    }

    /// Asks the coordinator to stop, and no other to follow it.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.handle().stop();
    }

    /// Publishes an event that happened beside the coordinator to its watchers.
    pub fn publish(&self, event: ClusterEvent) {
        // Nobody may watch.
        let _unwatched = self.events.send(Arc::new(event));
    }

    /// The coordinator as it is now.
    pub fn handle(&self) -> Handle {
        self.handle.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Runs the driver on a thread of its own. Dropping this ends it.
async fn on_own_thread(driver: Driver) -> bool {
    let (mut done, ended) = oneshot::channel();
    let thread = move || {
        let live = AssertUnwindSafe(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok(runtime.block_on(async {
                tokio::select! {
                    biased;
                    asked = driver.run() => asked,
                    () = done.closed() => false,
                }
            }))
        });
        let end: std::thread::Result<std::io::Result<bool>> = catch_unwind(live);
        // The waiter may have gone.
        let _gone = done.send(end);
    };
    if let Err(error) = std::thread::Builder::new().name("coordinator".into()).spawn(thread) {
        tracing::error!("the coordinator's thread cannot be started: {error}: raise the limit of threads");
        return false;
    }
    match ended.await {
        Ok(Ok(Ok(asked))) => asked,
        Ok(Ok(Err(error))) => {
            tracing::error!(
                "the coordinator's runtime cannot be made: {error}: raise the limit of open files"
            );
            false
        }
        // As if it had broken down here: its owner says so.
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => false,
    }
}

impl Parts {
    fn coordinator(&self, registry: Arc<dyn Registry>) -> (Handle, Driver) {
        let id = (self.name)();
        let tracer = self.tracer.as_ref().map(|tracer| tracer(&id));
        let (handle, driver) = coordinator(
            Settings { id, ..self.settings.clone() },
            registry,
            self.clock.clone(),
            (self.ids)(),
            (self.sink)(),
            (self.gauge)(),
        );
        match tracer {
            Some(tracer) => (handle, driver.traced_by(tracer)),
            None => (handle, driver),
        }
    }
}

async fn reopen(open: &Open) -> Arc<dyn Registry> {
    let mut pause = FIRST_PAUSE;
    loop {
        match open().await {
            Ok(registry) => return registry,
            Err(why) => tracing::error!("no new store session, tried again in {pause:?}: {why}"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

impl Backend for Supervisor {
    fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    fn id(&self) -> CoordinatorId {
        self.handle().id().clone()
    }

    fn open(&self, peer: Peer) -> Result<Conversation, Refusal> {
        Backend::open(&self.handle(), peer)
    }

    fn operate(&self, operation: Operation, by: Option<Arc<str>>) -> BackendAnswer<'_, Done> {
        let handle = self.handle();
        async move { handle.operate_as(operation, by).await }.boxed()
    }

    fn due<'a>(
        &'a self,
        job: &'a JobName,
        after: Time,
        until: Time,
        most: usize,
    ) -> BackendAnswer<'a, Vec<Time>> {
        let handle = self.handle();
        async move { handle.due(job, after, until, most).await }.boxed()
    }

    fn names(&self) -> BackendAnswer<'_, BTreeSet<JobName>> {
        let handle = self.handle();
        async move { handle.names().await }.boxed()
    }

    fn jobs(&self) -> BackendAnswer<'_, Arc<Vec<JobRow>>> {
        let handle = self.handle();
        async move { handle.jobs().await }.boxed()
    }

    fn some_jobs<'a>(&'a self, names: &'a [JobName]) -> BackendAnswer<'a, Vec<JobRow>> {
        let handle = self.handle();
        async move { handle.some_jobs(names).await }.boxed()
    }

    fn births(&self, jobs: BTreeSet<JobName>) -> BoxFuture<'_, BTreeMap<JobName, Birth>> {
        let handle = self.handle();
        async move { handle.births(jobs).await }.boxed()
    }

    fn job<'a>(&'a self, job: &'a JobName, upcoming: usize) -> BackendAnswer<'a, JobDetail> {
        let handle = self.handle();
        async move { handle.job(job, upcoming).await }.boxed()
    }

    fn items<'a>(&'a self, job: &'a JobName) -> BackendAnswer<'a, Vec<ItemRow>> {
        let handle = self.handle();
        async move { handle.items(job).await }.boxed()
    }

    fn explain<'a>(
        &'a self,
        job: &'a JobName,
        item: Item,
        stays: Vec<Stay>,
    ) -> BackendAnswer<'a, Vec<Sentence>> {
        let handle = self.handle();
        async move { handle.explain(job, item, stays).await }.boxed()
    }

    fn instances<'a>(&'a self, job: Option<&'a JobName>) -> BackendAnswer<'a, Vec<InstanceRow>> {
        let handle = self.handle();
        async move { handle.instances(job).await }.boxed()
    }

    fn servers<'a>(&'a self, job: Option<&'a JobName>) -> BackendAnswer<'a, Vec<ServerRow>> {
        let handle = self.handle();
        async move { handle.servers(job).await }.boxed()
    }

    fn machines(&self) -> BackendAnswer<'_, Vec<MachineRow>> {
        let handle = self.handle();
        async move { handle.machines().await }.boxed()
    }

    fn members(&self) -> BackendAnswer<'_, Vec<MemberRow>> {
        let handle = self.handle();
        async move { handle.members().await }.boxed()
    }

    fn survey(&self) -> BackendAnswer<'_, Survey> {
        let handle = self.handle();
        async move { handle.survey().await }.boxed()
    }

    fn dump<'a>(&'a self, job: &'a JobName) -> BackendAnswer<'a, BTreeMap<String, DumpNode>> {
        let handle = self.handle();
        async move { handle.dump(job).await }.boxed()
    }

    fn watch(&self) -> broadcast::Receiver<Arc<ClusterEvent>> {
        self.events.subscribe()
    }

    fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }
}
