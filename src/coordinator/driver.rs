//! The async half: puts all event sources in one order, hands each to the machine, and carries its effects
//! out. It decides nothing.
//!
//! Queues: the inbox is bounded in bytes, by stream and by credential (see `inbox`; what finds no room waits at the edge),
//! the outbox per stream (`max_outbox_frames`; full ends it with TOO_SLOW), operations by
//! [`REQUESTS`] (full: OVERLOADED), happenings by [`HAPPENINGS`] (the slowest watcher loses the oldest).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::item::Running;
use rosterd_domain::mutants as bugs;
use rosterd_domain::ownership::Owned;
use rosterd_domain::plan::Entry;
use rosterd_domain::time::{Mono, Time};
use rosterd_domain::txn::{Commit, Purpose, Txn, Write};
use tokio::sync::{Semaphore, broadcast, mpsc, oneshot, watch};

use super::event::{Answer, Effect, Event, Now, Query, RequestId, StreamId, TxnId};
use super::handle::{Done, Handle, Happening, Health, Inner, Operation, Peer};
use super::inbox::{CREDENTIAL_BYTES, Room, Waiting};
use super::node::{Frames, Node, Numbered};
use super::settings::Settings;
use super::standing::Standing;
use super::tracer::Tracer;
use rosterd_registry::{Hint, Registry, SessionState};
use rosterd_runtime::clock::SharedClock;
use rosterd_runtime::mutants;
use rosterd_runtime::shares::Shares;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::{Completed, FromWorker, ToWorker};

/// Operations that may wait.
pub const REQUESTS: usize = 1024;
/// Happenings that a watcher may be behind.
pub const HAPPENINGS: usize = 4096;
/// Events that are taken in before what follows from them is decided: a worker whose heartbeat waits here is not
/// to be called dead.
const MOST_EVENTS: usize = 1024;
/// Jobs that have their turn before events are taken in again. Fewer, and more syncs are paid for their transactions;
/// more, and the first of them waits longer.
const MOST_JOBS: usize = 64;
/// The calendar may jump: it is looked at again after this long at the latest.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How often what there is is counted, at most.
const COUNT_AGAIN: Duration = Duration::from_millis(250);

/// Where what became of fires and runs goes. Never waits, never fails: the history is a projection.
pub trait Sink: Send + 'static {
    /// Takes one entry, after its commit.
    fn record(&mut self, job: &JobName, at: Time, entry: &Entry, detail: Option<&Completed>);
    /// Takes that user code of a run has begun, and when by the worker's clock.
    fn begun(&mut self, _: &JobName, _now: Time, _: (Item, Token), _: &Running, _at: Option<Time>) {}
    /// Takes a line for the audit.
    fn happened(&mut self, _at: Time, _happening: &Happening) {}
    /// Takes what became of a run that needs people's attention, or of several.
    fn noted(&mut self, _at: Time, _job: Option<&JobName>, _what: &str) {}
    /// Takes who owns a job's items from now on.
    fn owned(&mut self, _at: Time, _owned: &Owned) {}
}

/// Keeps nothing.
#[derive(Debug, Default)]
pub struct NoHistory;

impl Sink for NoHistory {
    fn record(&mut self, _: &JobName, _: Time, _: &Entry, _: Option<&Completed>) {}
}

/// What the driver measures.
pub trait Gauge: Send + 'static {
    /// A transaction ended after this long.
    fn committed(&mut self, _purpose: Purpose, _took: Duration, _applied: bool) {}
    /// A run was sent this long after its scheduled time.
    fn sent(&mut self, _lag: Duration) {}
    /// An entry was committed; of a job that has gone since without its name. `detail`: the report of an end.
    fn entry(&mut self, _job: Option<&JobName>, _entry: &Entry, _detail: Option<&Completed>) {}
    /// How a job stands; none: it has gone.
    fn job(&mut self, _job: &JobName, _standing: Option<Standing>) {}
    /// So many jobs are known, so many of them are led, and so many frames wait to be taken in.
    fn there(&mut self, _jobs: usize, _led: usize, _waiting: usize) {}
    /// So many jobs led here have no worker, so many of their items no owner; the oldest scheduled time waits for so long.
    fn unattended(&mut self, _jobs: usize, _items: usize, _oldest: Duration) {}
    /// This machine's clock is so many milliseconds ahead of the store's, or behind.
    fn clock(&mut self, _ahead: i64) {}
    /// The health has changed.
    fn health(&mut self, _health: Health) {}
}

impl Gauge for NoHistory {}

/// What the edge tells the driver.
#[derive(Debug)]
pub(crate) enum FromEdge {
    Opened(StreamId, Peer, mpsc::Sender<ToWorker>),
    Frame(StreamId, FromWorker, Room),
    Closed(StreamId),
    Operate(Operation, Option<Arc<str>>, oneshot::Sender<Result<Done, Refusal>>),
    Stop,
}

enum Ended {
    Commit(u64, Purpose, Mono, Commit),
    Read(u64, Answer),
}

/// Drives one coordinator until it stops.
pub struct Driver {
    node: Node,
    registry: Arc<dyn Registry>,
    clock: SharedClock,
    inbox: mpsc::UnboundedReceiver<FromEdge>,
    /// How much was taken out of it.
    taken: u64,
    /// Streams that have more to say than there is room for.
    waiting: Waiting,
    hints: rosterd_registry::Hints,
    outboxes: BTreeMap<StreamId, mpsc::Sender<ToWorker>>,
    replies: BTreeMap<RequestId, oneshot::Sender<Result<Done, Refusal>>>,
    last_request: RequestId,
    under_way: FuturesUnordered<BoxFuture<'static, Ended>>,
    happenings: broadcast::Sender<Arc<Happening>>,
    health: watch::Sender<Health>,
    /// For who asks: see [`Inner`].
    proved: Arc<AtomicU64>,
    sink: Box<dyn Sink>,
    gauge: Box<dyn Gauge>,
    tracer: Option<Box<dyn Tracer>>,
    /// Streams that were found too slow while effects were carried out.
    broken: Vec<StreamId>,
    /// Transactions that are to be handed over.
    commits: Vec<(TxnId, Txn)>,
    count_at: Mono,
    stopped: bool,
    asked_to_stop: bool,
    /// Every handle is gone.
    deserted: bool,
}

/// Makes a coordinator: its handle, and the driver that somebody must run.
pub fn coordinator(
    mut settings: Settings,
    registry: Arc<dyn Registry>,
    clock: SharedClock,
    ids: Box<dyn FnMut() -> String + Send>,
    sink: Box<dyn Sink>,
    gauge: Box<dyn Gauge>,
) -> (Handle, Driver) {
    settings.session = registry.session_timeout();
    let (queue, inbox) = mpsc::unbounded_channel();
    let (health, health_seen) = watch::channel(Health::Starting);
    let (happenings, _) = broadcast::channel(HAPPENINGS);
    let (proved, waiting) = (Arc::new(AtomicU64::new(0)), Waiting::default());
    let inner = Inner {
        namespace: settings.namespace.clone(),
        max_outbox: settings.max_outbox_frames.max(2),
        id: settings.id.clone(),
        health: health_seen,
        happenings: happenings.clone(),
        queue,
        registry: registry.clone(),
        clock: clock.clone(),
        proved: proved.clone(),
        last_stream: AtomicU64::new(0),
        shares: Shares::new(|| Semaphore::new(CREDENTIAL_BYTES)),
        waiting: waiting.clone(),
        asked: Arc::new(AtomicUsize::new(0)),
        looks: super::look::Looks::default(),
    };
    let mut node = Node::new(settings, registry.session(), ids);
    node.watch_calendar(Now { wall: clock.wall(), mono: clock.mono() });
    let driver = Driver {
        node,
        hints: registry.hints(),
        registry,
        clock,
        inbox,
        taken: 0,
        waiting,
        outboxes: BTreeMap::new(),
        replies: BTreeMap::new(),
        last_request: 0,
        under_way: FuturesUnordered::new(),
        happenings,
        health,
        proved,
        sink,
        gauge,
        tracer: None,
        broken: Vec::new(),
        commits: Vec::new(),
        count_at: Mono::default(),
        stopped: false,
        asked_to_stop: false,
        deserted: false,
    };
    (Handle { inner: Arc::new(inner) }, driver)
}

impl Driver {
    /// Runs until the machine has stopped: on request with everything handed over (true), or because its session
    /// is over (false).
    pub async fn run(mut self) -> bool {
        if !self.number().await {
            return self.asked_to_stop;
        }
        self.take(Some(Event::Start));
        while !self.stopped {
            let idle = self.node.is_settled() && self.broken.is_empty();
            let first = if idle { Some(self.next().await) } else { None };
            self.take(first);
            // What is under way is asked by polling it, which takes a turn of the runtime.
            tokio::task::coop::consume_budget().await;
        }
        // Over without being asked to: another session may follow.
        self.show(if self.asked_to_stop { Health::Draining } else { Health::Suspended });
        self.asked_to_stop
    }

    /// Before it gives any token a coordinator makes sure that it is above all that the store has ever given, whatever the
    /// store remembers: it may have been put back from a copy, or be a new one in the place of one that was lost. Tokens
    /// rise by one with a transaction at the most, and there are fewer of these than microseconds, so that the time is
    /// above them. False: the session is over, or nobody waits for an answer any more.
    async fn number(&mut self) -> bool {
        let retry = self.node.store_retry();
        let now = Token(u64::try_from(self.clock.wall().0).unwrap_or(0).saturating_mul(1000));
        loop {
            if let Ok(numbering) = self.registry.numbering().await {
                let stays = bugs::is_on(bugs::TOKENS_GO_BACK);
                let Some(offset) = numbering.raised_above(now).filter(|_| !stays) else {
                    let (offset, given) = (numbering.offset, numbering.ceiling());
                    self.node.set_numbering(Numbered { offset, given });
                    return true;
                };
                let mut txn = Txn::new(Purpose::Number);
                txn.write(Write::Numbering { offset, expect: numbering.version });
                // Whatever became of it is read.
                if matches!(self.registry.commit(txn).await, Commit::Fenced) {
                    return false;
                }
            } else {
                self.clock.sleep_until(self.clock.mono().plus(retry)).await;
            }
            while let Some(hint) = self.hints.try_recv() {
                if matches!(hint, Hint::Session(SessionState::Gone)) {
                    return false;
                }
            }
            if self.inbox.is_closed() {
                return false;
            }
        }
    }

    /// Tells its health and what happens to those who know these channels already.
    pub fn speaking_through(
        mut self,
        health: watch::Sender<Health>,
        happenings: broadcast::Sender<Arc<Happening>>,
    ) -> Self {
        self.health = health;
        self.happenings = happenings;
        self
    }

    /// Tells a tracer of each step of a fire.
    pub fn traced_by(mut self, tracer: Box<dyn Tracer>) -> Self {
        self.tracer = Some(tracer);
        self
    }

    /// Waits for something to happen.
    async fn next(&mut self) -> Event {
        loop {
            let deadline = self.deadline();
            let event = tokio::select! {
                biased;
                Some(hint) = self.hints.recv() => Some(Event::Hint(hint)),
                Some(ended) = self.under_way.next(), if !self.under_way.is_empty() => Some(self.ended(ended)),
                from = self.inbox.recv(), if !self.deserted => match from {
                    Some(from) => self.edge_event(from),
                    None => {
                        // Nobody can ask for anything any more; said once, or the loop would spin until the end.
                        self.deserted = true;
                        Some(Event::Stop)
                    }
                },
                () = self.clock.sleep_until(deadline) => Some(Event::Tick),
            };
            if let Some(event) = event {
                return event;
            }
        }
    }

    /// Something that has happened already.
    fn ready(&mut self) -> Option<Event> {
        loop {
            if let Some(hint) = self.hints.try_recv() {
                return Some(Event::Hint(hint));
            }
            if let Some(Some(ended)) = self.under_way.next().now_or_never() {
                return Some(self.ended(ended));
            }
            match self.inbox.try_recv() {
                Ok(from) => {
                    if let Some(event) = self.edge_event(from) {
                        return Some(event);
                    }
                }
                Err(_) => return None,
            }
        }
    }

    fn deadline(&self) -> Mono {
        let (wall, mono) = self.node.wake_at();
        // The calendar first: too late by the time between the two is better than too early.
        let left = wall.map(|at| self.clock.until(at));
        let now = self.clock.mono();
        let latest = now.plus(LOOK_AGAIN);
        let wall = left.map(|left| now.plus(left));
        [wall, mono].into_iter().flatten().fold(latest, Mono::min)
    }

    fn now(&self) -> Now {
        read(&self.clock)
    }

    fn ended(&mut self, ended: Ended) -> Event {
        match ended {
            Ended::Commit(id, purpose, since, commit) => {
                let now = self.now();
                let applied = matches!(commit, Commit::Committed(_));
                self.gauge.committed(purpose, now.mono.since(since), applied);
                if let Some(tracer) = &mut self.tracer {
                    tracer.answered(now, id, applied);
                }
                Event::Committed(id, commit)
            }
            Ended::Read(id, answer) => Event::Read(id, answer),
        }
    }

    fn edge_event(&mut self, from: FromEdge) -> Option<Event> {
        self.taken += 1;
        Some(match from {
            FromEdge::Opened(stream, peer, outbox) => {
                self.outboxes.insert(stream, outbox);
                Event::Opened(stream, peer)
            }
            // Its room is given back here: it is handled at once.
            FromEdge::Frame(stream, frame, _room) => {
                if let (Some(tracer), FromWorker::RunCompleted(completed)) = (&mut self.tracer, &frame) {
                    tracer.reported(read(&self.clock), &completed.run);
                }
                Event::Frame(stream, frame)
            }
            FromEdge::Closed(stream) => {
                self.outboxes.remove(&stream);
                Event::Closed(stream)
            }
            FromEdge::Operate(operation, by, reply) => {
                self.last_request += 1;
                self.replies.insert(self.last_request, reply);
                Event::Operate(self.last_request, operation, by)
            }
            FromEdge::Stop => {
                self.asked_to_stop = true;
                Event::Stop
            }
        })
    }

    /// Takes in what has happened, decides once what follows from all of it, and carries that out. Of many jobs
    /// that are worth a look only some have their turn: what they want is under way while the others have theirs.
    fn take(&mut self, first: Option<Event>) {
        mutants::panic_if_told("panic-coordinator");
        self.node.set_drop_hints(mutants::is_on("deaf"));
        let now = self.now();
        let broken = std::mem::take(&mut self.broken).into_iter().map(Event::Closed);
        for event in broken.chain(first) {
            self.node.handle_event(now, event);
        }
        // A run whose time has come waits for no report.
        let most = if self.node.tells(now) { 0 } else { MOST_EVENTS };
        for _ in 0..most {
            let Some(event) = self.ready() else { break };
            self.node.handle_event(now, event);
        }
        self.node.set_frames(Frames { came: self.taken + self.inbox.len() as u64, taken: self.taken });
        self.node.set_waiting(self.waiting.streams());
        for effect in self.node.poll(now, MOST_JOBS) {
            self.carry_out(effect, now);
        }
        self.hand_over(now);
        if let Some(tracer) = &mut self.tracer {
            tracer.settled(now);
        }
        self.proved.store(self.node.proved_at(), Ordering::Relaxed);
        if self.count_at <= now.mono {
            self.count_at = now.mono.plus(COUNT_AGAIN);
            let (jobs, led) = self.node.count_jobs();
            self.gauge.there(jobs, led, self.inbox.len());
            let (jobs, items, oldest) = self.node.unattended();
            self.gauge.unattended(jobs, items, oldest);
            self.gauge.clock(self.node.clock_ahead());
            self.node.standings(|job, standing| self.gauge.job(job, standing));
        }
    }

    fn carry_out(&mut self, effect: Effect, now: Now) {
        match effect {
            Effect::Commit(id, txn) => self.commits.push((id, txn)),
            Effect::Read(id, query) => {
                self.hand_over(now);
                let read = self.read(query);
                self.under_way.push(Box::pin(async move { Ended::Read(id, read.await) }));
            }
            Effect::Watch(job, true) => self.registry.watch(&job),
            Effect::WatchItems(job, items) => self.registry.watch_items(&job, items),
            Effect::Watch(job, false) => self.registry.unwatch(&job),
            Effect::Send(stream, frame) => self.send(stream, frame, now),
            Effect::Reply(request, reply) => {
                if let Some(waiting) = self.replies.remove(&request) {
                    // Who asked may have gone; the operation stands all the same.
                    let _gone = waiting.send(reply);
                }
            }
            Effect::Record { job, at, entry, detail } => {
                let known = Some(&job).filter(|job| self.node.has_job(job));
                self.gauge.entry(known, &entry, detail.as_deref());
                if let Some(tracer) = &mut self.tracer {
                    tracer.entry(read(&self.clock), &job, &entry);
                }
                self.sink.record(&job, at, &entry, detail.as_deref());
                self.tell(|| Happening::of(job, entry, detail.as_deref()));
            }
            Effect::Owned(owned) => self.sink.owned(now.wall, &owned),
            Effect::Begun { job, item, token, run, at } => {
                self.sink.begun(&job, now.wall, (item, token), &run, at);
            }
            Effect::Tell(happening) => {
                self.sink.happened(now.wall, &happening);
                self.tell(|| happening);
            }
            Effect::Note { job, what } => self.sink.noted(now.wall, job.as_ref(), &what),
            Effect::Health(health) => self.show(health),
            Effect::Stopped => self.stopped = true,
        }
    }

    fn show(&mut self, health: Health) {
        self.gauge.health(health);
        self.health.send_replace(health);
    }

    /// Tells who watches, if anybody does.
    fn tell(&self, happening: impl FnOnce() -> Happening) {
        if self.happenings.receiver_count() > 0 {
            let _nobody = self.happenings.send(Arc::new(happening()));
        }
    }

    /// Hands the transactions over that have come up, together.
    fn hand_over(&mut self, now: Now) {
        if let Some(tracer) = &mut self.tracer {
            let handed_over = read(&self.clock);
            for (id, txn) in &self.commits {
                tracer.handed_over(handed_over, *id, txn);
            }
        }
        let (named, txns): (Vec<_>, Vec<_>) =
            self.commits.drain(..).map(|(id, txn)| ((id, txn.purpose), txn)).unzip();
        for ((id, purpose), commit) in named.into_iter().zip(self.registry.commit_all(txns)) {
            self.under_way.push(Box::pin(async move { Ended::Commit(id, purpose, now.mono, commit.await) }));
        }
    }

    fn send(&mut self, stream: StreamId, mut frame: ToWorker, now: Now) {
        let Some(outbox) = self.outboxes.get(&stream) else { return };
        if let ToWorker::Trigger(trigger) = &mut frame {
            self.gauge.sent(now.wall.since(trigger.fire));
            // As late as can be: what it says is counted from when it is read.
            // The calendar may have jumped this very moment: no run is held back for longer than it is told ahead.
            let left = |at| self.clock.until(self.node.by_the_clock(at)).min(self.node.longest_ahead());
            trigger.starts_in = trigger.not_before.map_or(Duration::ZERO, left);
            if let Some(tracer) = &mut self.tracer {
                trigger.sampled = tracer.keeps(trigger);
                tracer.sent(read(&self.clock), trigger);
            }
        }
        let last = matches!(frame, ToWorker::Close(_));
        // The last place is kept for saying why.
        let (frame, last) = if outbox.capacity() > 1 || last {
            (frame, last)
        } else {
            let message = format!("{} frames wait for this worker: it does not read", outbox.max_capacity());
            self.broken.push(stream);
            (ToWorker::Close(Some(Refusal::new(Code::TooSlow, message))), true)
        };
        let sent = outbox.try_send(frame);
        if last || sent.is_err() {
            self.outboxes.remove(&stream);
        }
    }

    fn read(&self, query: Query) -> BoxFuture<'static, Answer> {
        let registry = &self.registry;
        match query {
            Query::Jobs => map(registry.jobs(), Answer::Jobs),
            Query::Nodes(job) => map(registry.job(&job), |read| Answer::Nodes(Box::new(read))),
            Query::Switches(job) => map(registry.switches(&job), Answer::Switches),
            Query::Job(job) => map(registry.snapshot(&job), |read| Answer::Job(Box::new(read))),
            Query::Offset(job, item) => map(registry.offset(&job, item), Answer::Offset),
            Query::Attachment(worker) => map(registry.attachment(&worker), Answer::Attachment),
            Query::Attachments => map(registry.attachments(), Answer::Attachments),
            Query::Coordinators => map(registry.coordinators(), Answer::Coordinators),
            Query::ToldAt(id) => map(registry.told_at(&id), Answer::ToldAt),
        }
    }
}

fn read(clock: &SharedClock) -> Now {
    Now { wall: clock.wall(), mono: clock.mono() }
}

fn map<T: 'static>(
    read: BoxFuture<'static, T>,
    into: impl FnOnce(T) -> Answer + Send + 'static,
) -> BoxFuture<'static, Answer> {
    Box::pin(async move { into(read.await) })
}
