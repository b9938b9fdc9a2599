//! An edge with a scripted coordinator, and clients of it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use rosterd_api::backend::{Backend, BackendAnswer, Conversation, FrameSink};
use rosterd_api::backup::{Backups, Part, Restored, Restoring, Way};
use rosterd_api::connection::Caps;
use rosterd_api::edge::{Edge, EdgeConfig};
use rosterd_api::grpc::admin::Info;
use rosterd_api::history::History;
use rosterd_coordinator::handle::{
    Change, ChangeEffect, ClusterEvent, Done, Health, InstanceRow, ItemRow, JobDetail, JobRow, JobStatus,
    MachineRow, MemberRow, Operation, Peer, Room, ServerRow, Survey, Surveyed,
};
use rosterd_coordinator::member::Member;
use rosterd_domain::explain::{Link, Part as Tells, Sentence, Stay};
use rosterd_domain::id::{CoordinatorId, InstanceId, Item, JobName, Namespace, Token, TriggerId, WorkerId};
use rosterd_domain::item::{Counters, Missed, Source};
use rosterd_domain::schedule::Schedule;
use rosterd_domain::time::Time;
use rosterd_history::{
    EventFilter, EventKind, EventRow, Fate, FireRow, MissedRow, OwnerFilter, OwnerRow, Page, Pulse, Recent,
    RunFilter, RunRow, RunState,
};
use rosterd_registry::DumpNode;
use rosterd_runtime::aside::Aside;
use rosterd_runtime::clock::System;
use rosterd_runtime::tasks::{ShutdownPhase, Tasks};
use rosterd_runtime::telemetry::Metrics;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::FromWorker;
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::session_request::Frame;
use rosterd_wire::proto::v1::worker_service_client::WorkerServiceClient;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, broadcast, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};
use tonic_types::StatusExt as _;

use crate::told::ToldWorker;

/// No wait of a passing test takes as long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(2 * PATIENCE.as_secs());

/// The answer, or a failure that names the awaited state.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, future).await;
    waited.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// Polls until the condition holds.
pub(crate) async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let looks = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    soon(what, looks).await;
}

/// A stream as the scripted coordinator sees it.
pub(crate) struct Seen {
    pub(crate) peer: Peer,
    pub(crate) to_worker: ToldWorker,
    pub(crate) frames: mpsc::UnboundedReceiver<FromWorker>,
    /// How many frames more are taken.
    pub(crate) room: Arc<Semaphore>,
}

impl Seen {
    pub(crate) async fn frame(&mut self) -> Option<FromWorker> {
        soon("a frame of the worker", self.frames.recv()).await
    }
}

/// How `jobs()` answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobScope {
    Listed,
    Never,
    Panics,
}

/// The scripted coordinator.
pub(crate) struct Fake {
    namespace: Namespace,
    pub(crate) health: watch::Sender<Health>,
    pub(crate) events: broadcast::Sender<Arc<ClusterEvent>>,
    opened: mpsc::UnboundedSender<Seen>,
    pub(crate) refuse: Mutex<Option<Refusal>>,
    pub(crate) jobs: Mutex<(JobScope, Vec<JobRow>)>,
    pub(crate) instances: Mutex<Vec<InstanceRow>>,
    pub(crate) servers: Mutex<Vec<ServerRow>>,
    pub(crate) operations: Mutex<Vec<Operation>>,
    /// How many frames an unread inbox takes.
    pub(crate) inbox: AtomicUsize,
    /// The result of a survey, and how many there were.
    pub(crate) surveyed: Mutex<Vec<Surveyed>>,
    pub(crate) surveys: AtomicUsize,
    /// The thread of the last query of the jobs.
    pub(crate) asked_on: Mutex<Option<String>>,
    /// How many jobs were read for lists.
    pub(crate) looked_at: AtomicUsize,
    /// The store does not answer.
    pub(crate) unread: AtomicBool,
}

struct FakeInbox {
    frames: mpsc::UnboundedSender<FromWorker>,
    left: Arc<Semaphore>,
}

impl FrameSink for FakeInbox {
    fn try_room(&self, _bytes: usize) -> Option<Room> {
        self.left.try_acquire().ok()?.forget();
        Some(Room::uncounted())
    }

    fn room(&self, _bytes: usize) -> BoxFuture<'static, Room> {
        let left = self.left.clone();
        let room = async move {
            left.acquire_owned().await.unwrap().forget();
            Room::uncounted()
        };
        room.boxed()
    }

    fn put(&self, frame: FromWorker, _room: Room) -> Result<(), Refusal> {
        let _ = self.frames.send(frame);
        Ok(())
    }
}

impl Backend for Fake {
    fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    fn id(&self) -> CoordinatorId {
        CoordinatorId::new("127.0.0.1@-@edge").unwrap()
    }

    fn open(&self, peer: Peer) -> Result<Conversation, Refusal> {
        if let Some(refusal) = self.refuse.lock().unwrap().clone() {
            return Err(refusal);
        }
        let (to_worker, outbox) = ToldWorker::pair();
        let (sender, frames) = mpsc::unbounded_channel();
        let left = Arc::new(Semaphore::new(self.inbox.load(Ordering::SeqCst)));
        let _ = self.opened.send(Seen { peer, to_worker, frames, room: left.clone() });
        Ok(Conversation { outbox, inbox: Box::new(FakeInbox { frames: sender, left }) })
    }

    fn due<'a>(
        &'a self,
        job: &'a JobName,
        after: Time,
        until: Time,
        most: usize,
    ) -> BackendAnswer<'a, Vec<Time>> {
        let row = self.jobs.lock().unwrap().1.iter().find(|row| row.name == *job).cloned();
        let schedule = row.and_then(|row| Schedule::parse(row.cron.as_deref()?, &row.time_zone).ok());
        let due = schedule.iter().flat_map(|schedule| schedule.iter(after).take_while(|due| *due <= until));
        let mut due: Vec<Time> = due.collect();
        due.reverse();
        due.truncate(most);
        async { Ok(due) }.boxed()
    }

    fn operate(&self, operation: Operation, _by: Option<Arc<str>>) -> BackendAnswer<'_, Done> {
        self.operations.lock().unwrap().push(operation);
        let trigger = Some(TriggerId::new("t-1").unwrap());
        let change = Change { trigger, ..Change::new(ChangeEffect::Requested, "done") };
        let changes = vec![(JobName::new("j").unwrap(), change)];
        async { Ok(Done { changes }) }.boxed()
    }

    fn jobs(&self) -> BackendAnswer<'_, Arc<Vec<JobRow>>> {
        let (how, rows) = self.jobs.lock().unwrap().clone();
        *self.asked_on.lock().unwrap() = std::thread::current().name().map(str::to_owned);
        async move {
            match how {
                JobScope::Listed => Ok(Arc::new(rows)),
                JobScope::Never => std::future::pending().await,
                JobScope::Panics => panic!("scripted"),
            }
        }
        .boxed()
    }

    fn names(&self) -> BackendAnswer<'_, BTreeSet<JobName>> {
        async move { Ok(self.jobs().await?.iter().map(|row| row.name.clone()).collect()) }.boxed()
    }

    fn some_jobs<'a>(&'a self, names: &'a [JobName]) -> BackendAnswer<'a, Vec<JobRow>> {
        self.looked_at.fetch_add(names.len(), Ordering::SeqCst);
        async move {
            let rows = self.jobs().await?;
            Ok(names.iter().filter_map(|name| rows.iter().find(|row| row.name == *name).cloned()).collect())
        }
        .boxed()
    }

    fn job<'a>(&'a self, job: &'a JobName, _upcoming: usize) -> BackendAnswer<'a, JobDetail> {
        let row = self.jobs.lock().unwrap().1.iter().find(|row| row.name == *job).cloned();
        let detail = row.ok_or_else(|| Refusal::new(Code::JobUnknown, format!("there is no job {job}")));
        let full = |row| JobDetail { row, spec: String::new(), generation: 1, epoch: 1, upcoming: vec![] };
        async move { detail.map(full) }.boxed()
    }

    fn items<'a>(&'a self, _job: &'a JobName) -> BackendAnswer<'a, Vec<ItemRow>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn explain<'a>(
        &'a self,
        job: &'a JobName,
        item: Item,
        stays: Vec<Stay>,
    ) -> BackendAnswer<'a, Vec<Sentence>> {
        let since = stays.first().map(|stay| stay.reason.clone()).unwrap_or_default();
        let link = Link { text: job.to_string(), href: format!("jobs/{job}") };
        let text = format!("w owns item {item} of {job}: {since}.");
        let unknown = Refusal::new(Code::ItemUnknown, format!("item {item} of {job} does not exist"));
        let said = vec![Sentence { part: Tells::Owner, text, links: vec![link] }];
        async move { if item.0 < 2 { Ok(said) } else { Err(unknown) } }.boxed()
    }

    fn instances<'a>(&'a self, _job: Option<&'a JobName>) -> BackendAnswer<'a, Vec<InstanceRow>> {
        let rows = self.instances.lock().unwrap().clone();
        async move { Ok(rows) }.boxed()
    }

    fn servers<'a>(&'a self, _job: Option<&'a JobName>) -> BackendAnswer<'a, Vec<ServerRow>> {
        let rows = self.servers.lock().unwrap().clone();
        async move { Ok(rows) }.boxed()
    }

    fn machines(&self) -> BackendAnswer<'_, Vec<MachineRow>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn members(&self) -> BackendAnswer<'_, Vec<MemberRow>> {
        let member = Member { url: "http://127.0.0.1:7700".into(), leads: 3, ..Member::default() };
        let other = Member { draining: true, ..Member::default() };
        let other_id = CoordinatorId::new("other").unwrap();
        let proved_ago = Some(Duration::from_millis(1500));
        let rows = vec![
            MemberRow { id: self.id(), asked: true, member, proved_ago },
            MemberRow { id: other_id, asked: false, member: other, proved_ago: None },
        ];
        let unread = self.unread.load(Ordering::Relaxed);
        async move { if unread { Err(Refusal::new(Code::StoreUnavailable, "no answer")) } else { Ok(rows) } }
            .boxed()
    }

    fn survey(&self) -> BackendAnswer<'_, Survey> {
        self.surveys.fetch_add(1, Ordering::SeqCst);
        let jobs = self.surveyed.lock().unwrap().clone();
        async { Ok(Survey { jobs, workers: 3 }) }.boxed()
    }

    fn dump<'a>(&'a self, _job: &'a JobName) -> BackendAnswer<'a, BTreeMap<String, DumpNode>> {
        async { Ok(BTreeMap::new()) }.boxed()
    }

    fn watch(&self) -> broadcast::Receiver<Arc<ClusterEvent>> {
        self.events.subscribe()
    }

    fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }
}

/// A backup of one long line and one omitted job; it restores the job that a line names, or `j`.
impl Backups for Fake {
    fn backup(&self, _by: Option<Arc<str>>) -> BoxStream<'static, Result<Part, Refusal>> {
        let left = Part::Left { job: JobName::new("torn").unwrap(), why: "it is torn".into(), damaged: true };
        let parts = [Ok(Part::Data(vec![b'x'; 600_000])), Ok(left)];
        Box::pin(futures_util::stream::iter(parts))
    }

    fn job_of(&self, restoring: &Restoring) -> Result<JobName, Refusal> {
        let named = JobName::new(String::from_utf8_lossy(&restoring.data));
        Ok(named.unwrap_or_else(|_| JobName::new("j").unwrap()))
    }

    fn restore(&self, restoring: Restoring, by: Option<Arc<str>>) -> BackendAnswer<'_, Restored> {
        let crashed = vec![format!("{} bytes of {} by {by:?}", restoring.data.len(), restoring.namespace)];
        let job = self.job_of(&restoring);
        async { Ok(Restored { job: job?, way: Way::Created, crashed, fenced: Vec::new() }) }.boxed()
    }
}

/// What the history does not have: a job of this name, and item 99 of any.
fn is_nobody(job: Option<&JobName>, item: Option<Item>) -> bool {
    job.is_some_and(|job| job.as_str() == "nobody") || item == Some(Item(99))
}

/// A history in which every scheduled time is pending.
struct Blank;

impl History for Blank {
    fn runs(&self, filter: RunFilter, _page: Page) -> BackendAnswer<'_, (Vec<RunRow>, Option<String>)> {
        let next = (!is_nobody(filter.job.as_ref(), filter.item)).then(|| "next".to_owned());
        async { Ok((Vec::new(), next)) }.boxed()
    }

    fn events(&self, filter: EventFilter, page: Page) -> BackendAnswer<'_, (Vec<EventRow>, Option<String>)> {
        let EventFilter { job, kind, principal, from, .. } = filter;
        if is_nobody(job.as_ref(), None) {
            return async { Ok((Vec::new(), None)) }.boxed();
        }
        let (kind, text) = (kind.unwrap_or(EventKind::Job), format!("{} rows", page.size));
        let row = EventRow { at: from.unwrap_or_default(), job, kind, text, principal };
        async { Ok((vec![row], page.token)) }.boxed()
    }

    fn owners(&self, filter: OwnerFilter, page: Page) -> BackendAnswer<'_, (Vec<OwnerRow>, Option<String>)> {
        let row = |to| OwnerRow {
            item: filter.item.unwrap_or(Item(0)),
            instance: InstanceId::new("10.0.0.7@-@w").unwrap(),
            generation: 3,
            from: filter.from.unwrap_or_default(),
            to,
            reason: "first assignment".into(),
            end_reason: to.map(|_| "10.0.0.7@-@w has gone".to_owned()).unwrap_or_default(),
        };
        let nobody = is_nobody(Some(&filter.job), filter.item);
        let rows = if nobody { Vec::new() } else { vec![row(None), row(Some(Time(1000)))] };
        async { Ok((rows, page.token)) }.boxed()
    }

    fn attempts<'a>(&'a self, job: &'a JobName, item: Item, token: Token) -> BackendAnswer<'a, Vec<RunRow>> {
        let known = token.0 == 7 || token.0 == 8;
        let rows = if known { vec![ran(job, item, 7), ran(job, item, 8)] } else { Vec::new() };
        async { Ok(rows) }.boxed()
    }

    fn pulse(&self, _runs: Time, _missed: Time) -> BackendAnswer<'_, Pulse> {
        let (job, reason) = (JobName::new("j").unwrap(), Missed::NoWorker);
        let missed = vec![MissedRow { job, reason, count: 4, latest: Time(60_000) }];
        async { Ok(Pulse { runs: 90, lags: (1..=100).collect(), missed }) }.boxed()
    }

    fn counts(
        &self,
        job: Option<JobName>,
        from: Time,
        _: Time,
        _: std::time::Duration,
    ) -> BackendAnswer<'_, Vec<rosterd_history::Counted>> {
        let missed = [(rosterd_domain::item::Missed::Paused, 3)].into();
        let counters =
            Counters { fired: 9, succeeded: 7, failed: 2, misfired: 1, missed, ..Counters::default() };
        let row =
            move |job| rosterd_history::Counted { job, from, counters, processed: 70, records_failed: 20 };
        async { Ok(job.map(row).into_iter().collect()) }.boxed()
    }

    fn recent<'a>(&'a self, _: &'a JobName, from: Time) -> BackendAnswer<'a, Vec<Recent>> {
        let state = RunState::Finished;
        async move { Ok(vec![Recent { state, runs: from.0.unsigned_abs(), processed: 7, failed: 2 }]) }
            .boxed()
    }

    fn fires<'a>(
        &'a self,
        _job: &'a JobName,
        items: Vec<Item>,
        due: Vec<Time>,
    ) -> BackendAnswer<'a, Vec<FireRow>> {
        let pairs = due.into_iter().flat_map(|fire| items.clone().into_iter().map(move |item| (fire, item)));
        let pairs: Vec<_> = pairs
            .map(|(fire, item)| FireRow { fire, item, fate: Fate::Pending, reason: None, run: None })
            .collect();
        async { Ok(pairs) }.boxed()
    }
}

/// A run of the history: the first crashed, the second took it over.
fn ran(job: &JobName, item: Item, token: u64) -> RunRow {
    let first = token == 7;
    RunRow {
        job: job.clone(),
        item,
        token: Token(token),
        fire: Time(60_000),
        source: if first { Source::NormalTrigger } else { Source::Failover },
        instance: InstanceId::new("10.0.0.7@-@w").unwrap(),
        worker: WorkerId::new("w").unwrap(),
        trigger: None,
        state: if first { RunState::Lost } else { RunState::Finished },
        requeued: first,
        since: Time(60_000),
        started: None,
        ended: None,
        error: String::new(),
        output: String::new(),
        processed: 0,
        failed: 0,
        attempt: 1,
    }
}

/// An edge that serves.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) fake: Arc<Fake>,
    pub(crate) opened: mpsc::UnboundedReceiver<Seen>,
    pub(crate) tasks: Tasks,
    pub(crate) metrics: Arc<Metrics>,
}

/// Limits with timeouts longer than any test waits, so that none of them does what a test expects of something else; tests
/// shorten the relevant ones.
pub(crate) fn config() -> EdgeConfig {
    let mut config = EdgeConfig::default();
    config.listen.preface = LONG;
    config.session.hello = LONG;
    config.probes.patience = LONG;
    config.session.stall = LONG;
    config.listen.caps = Caps { total: 100, per_peer: 100 };
    // As in the program.
    config.aside = Some(Aside::start("aside").unwrap());
    config
}

pub(crate) async fn serve(config: EdgeConfig) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (opened_sender, opened) = mpsc::unbounded_channel();
    let fake = Arc::new(Fake {
        namespace: Namespace::new("test").unwrap(),
        health: watch::Sender::new(Health::Serving),
        events: broadcast::Sender::new(16),
        opened: opened_sender,
        refuse: Mutex::default(),
        jobs: Mutex::new((JobScope::Listed, vec![job("j")])),
        instances: Mutex::default(),
        servers: Mutex::default(),
        operations: Mutex::default(),
        inbox: AtomicUsize::new(1_000_000),
        surveyed: Mutex::default(),
        asked_on: Mutex::default(),
        surveys: AtomicUsize::new(0),
        looked_at: AtomicUsize::new(0),
        unread: AtomicBool::new(false),
    });
    let (tasks, metrics) = (Tasks::default(), Metrics::new());
    let info = Info { registry: "embedded", started: Time(0) };
    let edge = Edge {
        backend: fake.clone(),
        backups: fake.clone(),
        history: Arc::new(Blank),
        alarms: rosterd_alarms::desk::Desk::idle(System::shared()).unwrap(),
        clock: System::shared(),
        info,
        metrics: metrics.clone(),
        tasks: tasks.clone(),
        config,
    };
    tasks.essential(ShutdownPhase::Edge, "edge", async move { edge.serve(listener).await.unwrap() });
    Served { address, fake, opened, tasks, metrics }
}

/// A job in a list.
pub(crate) fn job(name: &str) -> JobRow {
    JobRow {
        name: JobName::new(name).unwrap(),
        handler_type: "h".into(),
        cron: Some("0 * * * * ?".into()),
        time_zone: "UTC".into(),
        items: 2,
        description: String::new(),
        status: JobStatus::Enabled,
        instances: 1,
        running: 0,
        leader: None,
        made: None,
        next_fire: None,
        counters: Counters::default(),
        unmonitored: false,
        disabled_everywhere: false,
    }
}

/// An instance in a list, as a hostile worker would name it.
pub(crate) fn instance(client: &str) -> InstanceRow {
    InstanceRow {
        instance: InstanceId::new("10.0.0.7@-@w").unwrap(),
        job: JobName::new("j").unwrap(),
        address: "10.0.0.7".into(),
        host: "c-1".into(),
        slots: 1,
        items: 1,
        enabled: true,
        client: client.into(),
        labels: BTreeMap::from([("zone".to_owned(), client.to_owned())]),
        running: 0,
    }
}

impl Served {
    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        soon("a connection", endpoint.connect()).await.unwrap()
    }

    /// The next stream that the coordinator received.
    pub(crate) async fn seen(&mut self) -> Seen {
        soon("a stream", self.opened.recv()).await.unwrap()
    }

    /// A worker that has sent Hello, with both ends of its stream.
    pub(crate) async fn attached(&mut self, channel: Channel) -> (Worker, Seen) {
        let worker = Worker::open(channel).await;
        worker.send(Frame::Hello(hello())).await;
        let mut seen = self.seen().await;
        assert!(matches!(seen.frame().await, Some(FromWorker::Hello(_))));
        (worker, seen)
    }
}

/// A worker's stream.
pub(crate) struct Worker {
    pub(crate) sender: mpsc::Sender<v1::SessionRequest>,
    pub(crate) frames: Streaming<v1::SessionResponse>,
}

impl Worker {
    pub(crate) async fn open(channel: Channel) -> Self {
        let (sender, queue) = mpsc::channel(64);
        let mut client = WorkerServiceClient::new(channel);
        let frames =
            soon("the stream", client.session(ReceiverStream::new(queue))).await.unwrap().into_inner();
        Self { sender, frames }
    }

    pub(crate) async fn send(&self, frame: Frame) {
        soon("room", self.sender.send(v1::SessionRequest { frame: Some(frame) })).await.unwrap();
    }

    pub(crate) async fn next(&mut self) -> Result<Option<v1::SessionResponse>, Status> {
        soon("a frame of the coordinator", self.frames.message()).await
    }

    /// The end of the stream; frames before it are skipped.
    pub(crate) async fn end(&mut self) -> Option<Status> {
        loop {
            match self.next().await {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(status) => return Some(status),
            }
        }
    }
}

pub(crate) fn hello() -> v1::Hello {
    v1::Hello { stream_number: 1, slots: 4, address: "10.0.0.7".into(), ..Default::default() }
}

pub(crate) fn heartbeat(sequence: u64) -> Frame {
    Frame::Heartbeat(v1::Heartbeat { sequence, ..Default::default() })
}

/// The code that a status carries.
pub(crate) fn reason(status: &Status) -> String {
    status.get_error_details().error_info().map(|info| info.reason.clone()).unwrap_or_default()
}
