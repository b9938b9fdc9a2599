//! The async half: merges all event sources into one order, passes each event to the machine, and executes its effects.
//! It decides nothing.
//!
//! Queues: the inbox is bounded in bytes, by stream and by credential (see `inbox`; frames without room wait at the
//! edge), the outbox per stream (`max_outbox_frames`; if full, the stream ends with TOO_SLOW), operations by
//! `REQUESTS` (if full: OVERLOADED), events by [`EVENT_BACKLOG`] (the slowest watcher loses the oldest).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use rosterd_domain::id::Token;
use rosterd_domain::mutants as bugs;
use rosterd_domain::time::Mono;
use rosterd_domain::txn::{Commit, Purpose, Txn, Write};
use rosterd_registry::{Hint, Registry, SessionState};
use rosterd_runtime::clock::SharedClock;
use rosterd_runtime::lookup::Lookup;
use rosterd_runtime::mutants;
use rosterd_runtime::shares::Shares;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::{FromWorker, ToWorker};
use tokio::sync::{Semaphore, broadcast, oneshot, watch};

use crate::edge_queue::{EdgeReceiver, FromEdge, edge_queue};
use crate::handle::{Handle, Inner, StreamOpener};
use crate::inbox::{CREDENTIAL_BYTES, WaitingStreams};
use crate::io::cluster_event::ClusterEvent;
use crate::io::event::{
    Answer, Effect, Event, FrameCounts, Now, Numbered, Query, ReadId, RequestId, StreamId, TxnId,
};
use crate::io::operation::{Done, Health};
use crate::io::settings::Settings;
use crate::machine::Machine;
use crate::observers::Observers;
pub use crate::observers::{EVENT_BACKLOG, Gauge, NoHistory, Sink};
use crate::outbox::{OutboxSender, Sent, WakeList};
use crate::tracer::Tracer;

/// How many events are handled before decisions are made: a worker whose heartbeat waits here must not be marked dead.
const MOST_EVENTS: usize = 1024;
/// How many jobs have their turn before events are handled again. Fewer means more syncs for their transactions; more
/// means that the first of them waits longer.
const MOST_JOBS: usize = 64;
/// How many frames are sent before their readers are woken, or half of what may wait for a worker: fewer means more
/// packets; more means that the first of them waits longer.
const MOST_UNREAD: usize = 256;
/// The wall clock may jump, so it is read again after this time at the latest.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How often the jobs are counted at most: counting visits all of them, and the metrics are not read more often.
const COUNT_AGAIN: Duration = Duration::from_secs(1);

/// What has ended at the store: a transaction with its purpose and when it was submitted, or a read.
enum Ended {
    Commit(TxnId, Purpose, Mono, Commit),
    Read(ReadId, Answer),
}

/// Drives one coordinator until it stops.
pub struct Driver {
    machine: Machine,
    clock: SharedClock,
    edge: EdgeSide,
    store: StoreSide,
    observers: Observers,
    /// When the jobs are counted again.
    count_at: Mono,
    stopped: bool,
    asked_to_stop: bool,
}

/// The side of the workers' streams and of those who ask for operations.
struct EdgeSide {
    inbox: EdgeReceiver,
    /// How many frames were taken out of it.
    taken: u64,
    /// Streams whose next frame waits for room.
    waiting: WaitingStreams,
    outboxes: Outboxes,
    /// The readers of the frames that were just sent.
    wakes: WakeList,
    /// Streams that turned out to be too slow while effects were executed.
    broken: Vec<StreamId>,
    replies: BTreeMap<RequestId, oneshot::Sender<Result<Done, Refusal>>>,
    last_request: RequestId,
    /// All handles were dropped.
    deserted: bool,
}

/// The outboxes of the open streams.
#[derive(Default)]
struct Outboxes(Lookup<StreamId, OutboxSender>);

impl Drop for Outboxes {
    /// In the order of their numbers, whatever the hashes.
    fn drop(&mut self) {
        std::mem::take(&mut self.0).into_iter().for_each(drop);
    }
}

/// The side of the store.
struct StoreSide {
    registry: Arc<dyn Registry>,
    hints: rosterd_registry::Hints,
    /// Transactions to be submitted.
    commits: Vec<(TxnId, Txn)>,
    under_way: FuturesUnordered<BoxFuture<'static, Ended>>,
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
    let streams = StreamOpener {
        last: AtomicU64::new(0),
        max_outbox: settings.max_outbox_frames,
        shares: Shares::new(|| Semaphore::new(CREDENTIAL_BYTES)),
        waiting: waiting.clone(),
    };
    let inner = Inner {
        namespace: settings.namespace.clone(),
        id: settings.id.clone(),
        registry: registry.clone(),
        clock: clock.clone(),
        looks: crate::queries::looks::Looks::default(),
        health: health_seen,
        events: events.clone(),
        proved: proved.clone(),
        queue,
        streams,
        asked: Arc::new(AtomicUsize::new(0)),
    };
    let mut machine = Machine::new(settings, registry.session(), ids);
    machine.watch_calendar(Now { wall: clock.wall(), mono: clock.mono() });
    let edge = EdgeSide::new(inbox, waiting);
    let store = StoreSide {
        hints: registry.hints(),
        registry,
        commits: Vec::new(),
        under_way: FuturesUnordered::new(),
    };
    let observers = Observers { sink, gauge, tracer: None, events, health, proved };
    let driver = Driver {
        machine,
        clock,
        edge,
        store,
        observers,
        count_at: Mono::default(),
        stopped: false,
        asked_to_stop: false,
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
            let idle = self.machine.is_settled() && self.edge.broken.is_empty();
            let first = if idle { Some(self.next().await) } else { None };
            self.take(first);
            // Polling what is in flight does not yield to the runtime by itself.
            tokio::task::coop::consume_budget().await;
        }
        // The session ended without a request to stop: another one may follow.
        self.observers.show(if self.asked_to_stop { Health::Draining } else { Health::Suspended });
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
            if let Ok(numbering) = self.store.registry.numbering().await {
                let stays = bugs::is_on(bugs::TOKENS_GO_BACK);
                let Some(offset) = numbering.raised_above(now).filter(|_| !stays) else {
                    let (offset, given) = (numbering.offset, numbering.ceiling());
                    self.machine.set_numbering(Numbered { offset, given });
                    return true;
                };
                let mut txn = Txn::new(Purpose::Number);
                txn.write(Write::Numbering { offset, expect: numbering.version });
                // Whatever the outcome, the numbering is read again.
                if matches!(self.store.registry.commit(txn).await, Commit::Fenced) {
                    return false;
                }
            } else {
                self.clock.sleep_until(self.clock.mono().plus(retry)).await;
            }
            while let Some(hint) = self.store.hints.try_recv() {
                if matches!(hint, Hint::Session(SessionState::Gone)) {
                    return false;
                }
            }
            if self.edge.inbox.is_closed() {
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
        self.observers.health = health;
        self.observers.events = events;
        self
    }

    /// Passes each step of a fire to a tracer.
    pub fn traced_by(mut self, tracer: Box<dyn Tracer>) -> Self {
        self.observers.tracer = Some(tracer);
        self
    }

    /// Waits for the next event.
    async fn next(&mut self) -> Event {
        loop {
            let deadline = self.deadline();
            let event = tokio::select! {
                biased;
                Some(hint) = self.store.hints.recv() => Some(Event::Hint(hint)),
                Some(ended) = self.store.under_way.next(), if !self.store.under_way.is_empty() => Some(self.ended(ended)),
                from = self.edge.inbox.recv(), if !self.edge.deserted => match from {
                    Some(from) => self.edge_event(from),
                    None => {
                        // All handles were dropped; reported once, or the loop would spin until the end.
                        self.edge.deserted = true;
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
            if let Some(hint) = self.store.hints.try_recv() {
                return Some(Event::Hint(hint));
            }
            if let Some(Some(ended)) = self.store.under_way.next().now_or_never() {
                return Some(self.ended(ended));
            }
            match self.edge.inbox.try_recv() {
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
                self.observers.gauge.committed(purpose, now.mono.since(since), applied);
                if let Some(tracer) = &mut self.observers.tracer {
                    tracer.answered(now, id, applied);
                }
                Event::Committed(id, commit)
            }
            Ended::Read(id, answer) => Event::Read(id, answer),
        }
    }

    fn edge_event(&mut self, from: FromEdge) -> Option<Event> {
        self.edge.taken += 1;
        Some(match from {
            FromEdge::Opened(stream, peer, outbox) => {
                self.edge.outboxes.0.insert(stream, outbox);
                Event::Opened(stream, peer)
            }
            // Its room is released here, since it is handled at once.
            FromEdge::Frame(stream, frame, _room) => {
                if let (Some(tracer), FromWorker::RunCompleted(completed)) =
                    (&mut self.observers.tracer, &frame)
                {
                    tracer.reported(read(&self.clock), &completed.run);
                }
                Event::Frame(stream, frame)
            }
            FromEdge::Closed(stream) => {
                self.edge.outboxes.0.remove(&stream);
                Event::Closed(stream)
            }
            FromEdge::Operate(operation, by, reply) => {
                self.edge.last_request += 1;
                self.edge.replies.insert(self.edge.last_request, reply);
                Event::Operate(self.edge.last_request, operation, by)
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
        let broken = std::mem::take(&mut self.edge.broken).into_iter().map(Event::Closed);
        for event in broken.chain(first) {
            self.machine.handle_event(now, event);
        }
        // A run whose time has come does not wait for reports.
        let most = if self.machine.tells(now) { 0 } else { MOST_EVENTS };
        for _ in 0..most {
            let Some(event) = self.ready() else { break };
            self.machine.handle_event(now, event);
        }
        self.machine.set_inbox(self.edge.frames(), self.edge.waiting.streams());
        for effect in self.machine.poll(now, MOST_JOBS) {
            self.carry_out(effect, now);
        }
        self.edge.wakes.wake_all();
        self.hand_over(now);
        if let Some(tracer) = &mut self.observers.tracer {
            tracer.settled(now);
        }
        self.observers.show_proof(self.machine.proved_at());
        if self.count_at <= now.mono {
            self.count_at = now.mono.plus(COUNT_AGAIN);
            let (jobs, led) = self.machine.count_jobs();
            self.observers.gauge.there(jobs, led, self.edge.inbox.len());
            self.observers.gauge.workers(self.machine.count_workers());
            let (jobs, items, oldest) = self.machine.unattended();
            self.observers.gauge.unattended(jobs, items, oldest);
            self.observers.gauge.clock(self.machine.clock_ahead());
            self.machine.standings(|job, standing| self.observers.gauge.job(job, standing));
        }
    }

    fn carry_out(&mut self, effect: Effect, now: Now) {
        match effect {
            Effect::Commit(id, txn) => self.store.commits.push((id, txn)),
            Effect::Read(id, query) => {
                self.hand_over(now);
                self.store.read(id, query);
            }
            Effect::Watch(job, true) => self.store.registry.watch(&job),
            Effect::WatchItems(job, items) => self.store.registry.watch_items(&job, items),
            Effect::Watch(job, false) => self.store.registry.unwatch(&job),
            Effect::Send(stream, frame) => self.send(stream, frame, now),
            Effect::Reply(request, reply) => self.edge.reply(request, reply),
            Effect::Record { job, at, entry, detail } => {
                let known = Some(&job).filter(|job| self.machine.has_job(job));
                self.observers.gauge.entry(known, &entry, detail.as_deref());
                if let Some(tracer) = &mut self.observers.tracer {
                    tracer.entry(read(&self.clock), &job, &entry);
                }
                self.observers.sink.record(&job, at, &entry, detail.as_deref());
                self.observers.publish(|| ClusterEvent::of(job, entry, detail.as_deref()));
            }
            Effect::Owned(owned) => self.observers.sink.owned(now.wall, &owned),
            Effect::Begun { job, item, token, run, at } => {
                self.observers.sink.begun(&job, now.wall, (item, token), &run, at);
            }
            Effect::Publish(event) => {
                self.observers.sink.happened(now.wall, &event);
                self.observers.publish(|| event);
            }
            Effect::Note { job, what } => self.observers.sink.noted(now.wall, job.as_ref(), &what),
            Effect::Health(health) => self.observers.show(health),
            Effect::Stopped => self.stopped = true,
        }
    }

    /// Submits the collected transactions together.
    fn hand_over(&mut self, now: Now) {
        if let Some(tracer) = &mut self.observers.tracer {
            let handed_over = read(&self.clock);
            for (id, txn) in &self.store.commits {
                tracer.handed_over(handed_over, *id, txn);
            }
        }
        self.store.commit(now.mono);
    }

    fn send(&mut self, stream: StreamId, mut frame: ToWorker, now: Now) {
        if let ToWorker::Trigger(trigger) = &mut frame
            && self.edge.outboxes.0.contains_key(&stream)
        {
            self.observers.gauge.sent(now.wall.since(trigger.fire));
            // As late as possible, since the worker counts the delay from when it reads it. If the wall clock has just
            // jumped, no run is held back longer than the maximum lead time.
            let left = |at| self.clock.until(self.machine.by_the_clock(at)).min(self.machine.longest_ahead());
            trigger.starts_in = trigger.not_before.map_or(Duration::ZERO, left);
            if let Some(tracer) = &mut self.observers.tracer {
                trigger.sampled = tracer.keeps(trigger);
                tracer.sent(read(&self.clock), trigger);
            }
        }
        self.edge.send(stream, frame);
    }
}

impl EdgeSide {
    fn new(inbox: EdgeReceiver, waiting: WaitingStreams) -> Self {
        Self {
            inbox,
            taken: 0,
            waiting,
            outboxes: Outboxes::default(),
            wakes: WakeList::default(),
            broken: Vec::new(),
            replies: BTreeMap::new(),
            last_request: 0,
            deserted: false,
        }
    }

    /// How many frames have arrived, and how many of them were taken.
    fn frames(&self) -> FrameCounts {
        FrameCounts { came: self.taken + self.inbox.len() as u64, taken: self.taken }
    }

    fn reply(&mut self, request: RequestId, reply: Result<Done, Refusal>) {
        if let Some(waiting) = self.replies.remove(&request) {
            // The caller may have dropped its future; the operation stands.
            let _gone = waiting.send(reply);
        }
    }

    fn send(&mut self, stream: StreamId, frame: ToWorker) {
        let Some(outbox) = self.outboxes.0.get(&stream) else { return };
        let (last, most_unread) = (matches!(frame, ToWorker::Close(_)), MOST_UNREAD.min(outbox.most() / 2));
        let sent = outbox.push(frame, &mut self.wakes);
        if let Sent::Full(_) = sent {
            let message = format!("{} frames wait for this worker: it does not read", outbox.most());
            self.broken.push(stream);
            outbox.send(ToWorker::Close(Some(Refusal::new(Code::TooSlow, message))));
        }
        if last || sent != Sent::Queued {
            self.outboxes.0.remove(&stream);
        }
        if self.wakes.frames() >= most_unread {
            self.wakes.wake_all();
        }
    }
}

impl StoreSide {
    /// Submits the collected transactions together.
    fn commit(&mut self, now: Mono) {
        let (named, txns): (Vec<_>, Vec<_>) =
            self.commits.drain(..).map(|(id, txn)| ((id, txn.purpose), txn)).unzip();
        for ((id, purpose), commit) in named.into_iter().zip(self.registry.commit_all(txns)) {
            self.under_way.push(Box::pin(async move { Ended::Commit(id, purpose, now, commit.await) }));
        }
    }

    fn read(&mut self, id: ReadId, query: Query) {
        let registry = &self.registry;
        let read = match query {
            Query::Jobs => map(registry.jobs(), Answer::Jobs),
            Query::Nodes(job) => map(registry.job(&job), |read| Answer::Nodes(Box::new(read))),
            Query::Switches(job) => map(registry.switches(&job), Answer::Switches),
            Query::Job(job) => map(registry.snapshot(&job), |read| Answer::Job(Box::new(read))),
            Query::Offset(job, item) => map(registry.offset(&job, item), Answer::Offset),
            Query::Attachment(worker) => map(registry.attachment(&worker), Answer::Attachment),
            Query::Attachments => map(registry.attachments(), Answer::Attachments),
            Query::Coordinators => map(registry.coordinators(), Answer::Coordinators),
            Query::ToldAt(id) => map(registry.told_at(&id), Answer::ToldAt),
        };
        self.under_way.push(Box::pin(async move { Ended::Read(id, read.await) }));
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

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;
    use crate::outbox::{Outbox, outbox};

    fn ack(sequence: u64) -> ToWorker {
        ToWorker::HeartbeatAck { sequence }
    }

    /// With one stream, 7, for which so many frames may wait.
    fn with_outbox(most: usize) -> (EdgeSide, Outbox) {
        let (_queue, inbox) = edge_queue();
        let (sender, outbox) = outbox(most);
        let mut edge = EdgeSide::new(inbox, WaitingStreams::default());
        edge.outboxes.0.insert(7, sender);
        (edge, outbox)
    }

    #[tokio::test]
    async fn a_reader_is_woken_before_its_outbox_is_full() {
        let (mut edge, mut outbox) = with_outbox(4);
        // Polls what it waits for only after a wake-up.
        let mut reader = FuturesUnordered::from_iter([outbox.recv()]);
        assert!(poll!(reader.next()).is_pending());
        edge.send(7, ack(1));
        assert!(poll!(reader.next()).is_pending(), "more frames may follow at once");
        edge.send(7, ack(2));
        assert!(poll!(reader.next()).is_ready());
    }

    #[test]
    fn a_worker_that_leaves_too_many_frames_unread_loses_its_stream_and_is_told_why() {
        let (mut edge, mut outbox) = with_outbox(2);
        for sequence in 1..=2 {
            edge.send(7, ack(sequence));
        }
        assert!(edge.broken.is_empty(), "as many as are allowed");
        edge.send(7, ack(3));
        assert_eq!(edge.broken, [7]);
        assert!(edge.outboxes.0.is_empty());
        assert_eq!([outbox.try_recv(), outbox.try_recv()], [Some(ack(1)), Some(ack(2))]);
        let Some(ToWorker::Close(Some(refusal))) = outbox.try_recv() else { panic!("it is told why") };
        assert_eq!(refusal.code, Code::TooSlow);
        assert_eq!(outbox.try_recv(), None);
    }
}
