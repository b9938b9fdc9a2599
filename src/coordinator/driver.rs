//! The async half: merges all event sources into one order, passes each event to the machine, and executes its effects.
//! It decides nothing.
//!
//! Queues: the inbox is bounded in bytes, by stream and by credential (see `inbox`; frames without room wait at the
//! edge), the outbox per stream (`max_outbox_frames`; if full, the stream ends with TOO_SLOW), operations by
//! [`REQUESTS`] (if full: OVERLOADED), events by [`EVENT_BACKLOG`] (the slowest watcher loses the oldest).

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
use rosterd_registry::{Hint, Registry, SessionState};
use rosterd_runtime::clock::SharedClock;
use rosterd_runtime::mutants;
use rosterd_runtime::shares::Shares;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::{Completed, FromWorker, ToWorker};
use tokio::sync::{Semaphore, broadcast, mpsc, oneshot, watch};

use crate::edge_queue::{EdgeReceiver, FromEdge, edge_queue};
use crate::handle::{Handle, Inner};
use crate::inbox::{CREDENTIAL_BYTES, WaitingStreams};
use crate::io::cluster_event::ClusterEvent;
use crate::io::event::{
    Answer, Effect, Event, FrameCounts, Now, Numbered, Query, RequestId, StreamId, TxnId,
};
use crate::io::operation::{Done, Health};
use crate::io::settings::Settings;
use crate::io::standing::Standing;
use crate::machine::Machine;
use crate::tracer::Tracer;

/// How many events a watcher may lag behind.
pub const EVENT_BACKLOG: usize = 4096;
/// How many events are handled before decisions are made: a worker whose heartbeat waits here must not be marked dead.
const MOST_EVENTS: usize = 1024;
/// How many jobs have their turn before events are handled again. Fewer means more syncs for their transactions; more
/// means that the first of them waits longer.
const MOST_JOBS: usize = 64;
/// The wall clock may jump, so it is read again after this time at the latest.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How often the jobs are counted at most: counting visits all of them, and the metrics are not read more often.
const COUNT_AGAIN: Duration = Duration::from_secs(1);

/// Receives results of fires and runs. It never waits and never fails: the history is a projection.
pub trait Sink: Send + 'static {
    /// An entry, after its commit.
    fn record(&mut self, job: &JobName, at: Time, entry: &Entry, detail: Option<&Completed>);
    /// User code of a run has started, and when by the worker's clock.
    fn begun(&mut self, _: &JobName, _now: Time, _: (Item, Token), _: &Running, _at: Option<Time>) {}
    /// A row of the audit.
    fn happened(&mut self, _at: Time, _event: &ClusterEvent) {}
    /// An outcome of one run or several that needs people's attention.
    fn noted(&mut self, _at: Time, _job: Option<&JobName>, _what: &str) {}
    /// The owners of a job's items from now on.
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
    /// An entry was committed; without the name if the job was removed since. `detail`: the report of an end.
    fn entry(&mut self, _job: Option<&JobName>, _entry: &Entry, _detail: Option<&Completed>) {}
    /// The standing of a job; `None`: it was removed.
    fn job(&mut self, _job: &JobName, _standing: Option<Standing>) {}
    /// How many jobs are known, how many of them are led, and how many frames wait to be handled.
    fn there(&mut self, _jobs: usize, _led: usize, _waiting: usize) {}
    /// How many jobs led here have no worker, how many of their items no owner, and how long the oldest scheduled time
    /// has waited.
    fn unattended(&mut self, _jobs: usize, _items: usize, _oldest: Duration) {}
    /// How many milliseconds this machine's clock is ahead of the store's, or behind.
    fn clock(&mut self, _ahead: i64) {}
    /// The health has changed.
    fn health(&mut self, _health: Health) {}
}

impl Gauge for NoHistory {}

enum Ended {
    Commit(u64, Purpose, Mono, Commit),
    Read(u64, Answer),
}

/// Drives one coordinator until it stops.
pub struct Driver {
    machine: Machine,
    registry: Arc<dyn Registry>,
    clock: SharedClock,
    inbox: EdgeReceiver,
    /// How many frames were taken out of it.
    taken: u64,
    /// Streams whose next frame waits for room.
    waiting: WaitingStreams,
    hints: rosterd_registry::Hints,
    /// In the order of their numbers, since they are closed in this order when the driver ends.
    outboxes: BTreeMap<StreamId, mpsc::Sender<ToWorker>>,
    replies: BTreeMap<RequestId, oneshot::Sender<Result<Done, Refusal>>>,
    last_request: RequestId,
    under_way: FuturesUnordered<BoxFuture<'static, Ended>>,
    events: broadcast::Sender<Arc<ClusterEvent>>,
    health: watch::Sender<Health>,
    /// For readers, see [`Inner`].
    proved: Arc<AtomicU64>,
    sink: Box<dyn Sink>,
    gauge: Box<dyn Gauge>,
    tracer: Option<Box<dyn Tracer>>,
    /// Streams that turned out to be too slow while effects were executed.
    broken: Vec<StreamId>,
    /// Transactions to be submitted.
    commits: Vec<(TxnId, Txn)>,
    count_at: Mono,
    stopped: bool,
    asked_to_stop: bool,
    /// All handles were dropped.
    deserted: bool,
}

/// Creates a coordinator: its handle, and the driver, which the caller must run.
pub fn coordinator(
    mut settings: Settings,
    registry: Arc<dyn Registry>,
    clock: SharedClock,
    ids: Box<dyn FnMut() -> String + Send>,
    sink: Box<dyn Sink>,
    gauge: Box<dyn Gauge>,
) -> (Handle, Driver) {
    settings.session = registry.session_timeout();
    let (queue, inbox) = edge_queue();
    let (health, health_seen) = watch::channel(Health::Starting);
    let (events, _) = broadcast::channel(EVENT_BACKLOG);
    let (proved, waiting) = (Arc::new(AtomicU64::new(0)), WaitingStreams::default());
    let inner = Inner {
        namespace: settings.namespace.clone(),
        max_outbox: settings.max_outbox_frames.max(2),
        id: settings.id.clone(),
        health: health_seen,
        events: events.clone(),
        queue,
        registry: registry.clone(),
        clock: clock.clone(),
        proved: proved.clone(),
        last_stream: AtomicU64::new(0),
        shares: Shares::new(|| Semaphore::new(CREDENTIAL_BYTES)),
        waiting: waiting.clone(),
        asked: Arc::new(AtomicUsize::new(0)),
        looks: crate::queries::looks::Looks::default(),
    };
    let mut machine = Machine::new(settings, registry.session(), ids);
    machine.watch_calendar(Now { wall: clock.wall(), mono: clock.mono() });
    let driver = Driver {
        machine,
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
        events,
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
    /// Runs until the machine has stopped: on request, with everything handed over (true), or because its session is
    /// over (false).
    pub async fn run(mut self) -> bool {
        if !self.number().await {
            return self.asked_to_stop;
        }
        self.take(Some(Event::Start));
        while !self.stopped {
            let idle = self.machine.is_settled() && self.broken.is_empty();
            let first = if idle { Some(self.next().await) } else { None };
            self.take(first);
            // Polling what is in flight does not yield to the runtime by itself.
            tokio::task::coop::consume_budget().await;
        }
        // The session ended without a request to stop: another one may follow.
        self.show(if self.asked_to_stop { Health::Draining } else { Health::Suspended });
        self.asked_to_stop
    }

    /// Before it gives any token, a coordinator makes sure that its tokens are above all that the store has ever given,
    /// whatever the store remembers: it may have been restored from a copy, or replace one that was lost. Tokens grow
    /// by at most one per transaction, and there are fewer transactions than microseconds, so the current time in
    /// microseconds is above all of them. False: the session is over, or all handles were dropped.
    async fn number(&mut self) -> bool {
        let retry = self.machine.store_retry();
        let now = Token(u64::try_from(self.clock.wall().0).unwrap_or(0).saturating_mul(1000));
        loop {
            if let Ok(numbering) = self.registry.numbering().await {
                let stays = bugs::is_on(bugs::TOKENS_GO_BACK);
                let Some(offset) = numbering.raised_above(now).filter(|_| !stays) else {
                    let (offset, given) = (numbering.offset, numbering.ceiling());
                    self.machine.set_numbering(Numbered { offset, given });
                    return true;
                };
                let mut txn = Txn::new(Purpose::Number);
                txn.write(Write::Numbering { offset, expect: numbering.version });
                // Whatever the outcome, the numbering is read again.
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

    /// Sends its health and events over these existing channels.
    pub fn speaking_through(
        mut self,
        health: watch::Sender<Health>,
        events: broadcast::Sender<Arc<ClusterEvent>>,
    ) -> Self {
        self.health = health;
        self.events = events;
        self
    }

    /// Passes each step of a fire to a tracer.
    pub fn traced_by(mut self, tracer: Box<dyn Tracer>) -> Self {
        self.tracer = Some(tracer);
        self
    }

    /// Waits for the next event.
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
                        // All handles were dropped; reported once, or the loop would spin until the end.
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

    /// An event that is ready without waiting.
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
        let (wall, mono) = self.machine.wake_at();
        // The wall clock is read first: being late by the time between the two reads is better than being early.
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
            // Its room is released here, since it is handled at once.
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

    /// Handles the events that are ready, decides once what follows from all of them, and executes that. If many jobs
    /// need a turn only some have theirs: their transactions are in flight while the others have theirs.
    fn take(&mut self, first: Option<Event>) {
        mutants::panic_if_injected("panic-coordinator");
        self.machine.set_drop_hints(mutants::is_on("deaf"));
        let now = self.now();
        let broken = std::mem::take(&mut self.broken).into_iter().map(Event::Closed);
        for event in broken.chain(first) {
            self.machine.handle_event(now, event);
        }
        // A run whose time has come does not wait for reports.
        let most = if self.machine.tells(now) { 0 } else { MOST_EVENTS };
        for _ in 0..most {
            let Some(event) = self.ready() else { break };
            self.machine.handle_event(now, event);
        }
        let frames = FrameCounts { came: self.taken + self.inbox.len() as u64, taken: self.taken };
        self.machine.set_inbox(frames, self.waiting.streams());
        for effect in self.machine.poll(now, MOST_JOBS) {
            self.carry_out(effect, now);
        }
        self.hand_over(now);
        if let Some(tracer) = &mut self.tracer {
            tracer.settled(now);
        }
        self.proved.store(self.machine.proved_at(), Ordering::Relaxed);
        if self.count_at <= now.mono {
            self.count_at = now.mono.plus(COUNT_AGAIN);
            let (jobs, led) = self.machine.count_jobs();
            self.gauge.there(jobs, led, self.inbox.len());
            let (jobs, items, oldest) = self.machine.unattended();
            self.gauge.unattended(jobs, items, oldest);
            self.gauge.clock(self.machine.clock_ahead());
            self.machine.standings(|job, standing| self.gauge.job(job, standing));
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
                    // The caller may have dropped its future; the operation stands.
                    let _gone = waiting.send(reply);
                }
            }
            Effect::Record { job, at, entry, detail } => {
                let known = Some(&job).filter(|job| self.machine.has_job(job));
                self.gauge.entry(known, &entry, detail.as_deref());
                if let Some(tracer) = &mut self.tracer {
                    tracer.entry(read(&self.clock), &job, &entry);
                }
                self.sink.record(&job, at, &entry, detail.as_deref());
                self.publish(|| ClusterEvent::of(job, entry, detail.as_deref()));
            }
            Effect::Owned(owned) => self.sink.owned(now.wall, &owned),
            Effect::Begun { job, item, token, run, at } => {
                self.sink.begun(&job, now.wall, (item, token), &run, at);
            }
            Effect::Publish(event) => {
                self.sink.happened(now.wall, &event);
                self.publish(|| event);
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

    /// Sends an event to the watchers, if there are any.
    fn publish(&self, event: impl FnOnce() -> ClusterEvent) {
        if self.events.receiver_count() > 0 {
            let _nobody = self.events.send(Arc::new(event()));
        }
    }

    /// Submits the collected transactions together.
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
            // As late as possible, since the worker counts the delay from when it reads it. If the wall clock has just
            // jumped, no run is held back longer than the maximum lead time.
            let left = |at| self.clock.until(self.machine.by_the_clock(at)).min(self.machine.longest_ahead());
            trigger.starts_in = trigger.not_before.map_or(Duration::ZERO, left);
            if let Some(tracer) = &mut self.tracer {
                trigger.sampled = tracer.keeps(trigger);
                tracer.sent(read(&self.clock), trigger);
            }
        }
        let last = matches!(frame, ToWorker::Close(_));
        // The last slot is reserved for the reason of the end.
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
