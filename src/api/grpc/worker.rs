//! `WorkerService`: carries frames between a worker's stream and its conversation in the coordinator.
//!
//! One task per stream. It reads even from a worker that does not read: the stack below closes an HTTP/2 connection with
//! many small unread frames, and such a worker must not prevent its own reports from being read. So every queue here has
//! a bound, and a rule for when it is full:
//!
//! | queue | bound | when it is full |
//! | --- | --- | --- |
//! | frames for the coordinator | its inbox | the stream is not read until there is room |
//! | registrations to be parsed | one at a time per credential | the stream waits for its turn |
//! | frames for the worker | [`SessionLimits::outgoing`]; more, if none is read for [`SessionLimits::stall`] | the stream ends: TOO_SLOW |
//! | answers of the edge itself | [`SessionLimits::outgoing`] | the stream ends: TOO_MANY_FRAMES |
//!
//! Frames for the worker do not pass through here: the body of the answer takes them from the coordinator. A worker that
//! does not even read the end of its stream loses its connection. The first frame must be a Hello, within
//! [`SessionLimits::hello`]. Of the other frames only the names of jobs matter here: those that the credential is not
//! for are refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use prost::Message as _;
use rosterd_domain::id::{JobName, ServerAddress};
use rosterd_domain::time::Mono;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use crate::access::jobs::JobScope;
use crate::access::machines::Machines;
use crate::access::{Principal, revoked};
use crate::backend::{Backend, FrameSink};
use crate::connection::Remote;
use crate::grpc::frame_stream::{Answers, End, FrameStream};
use crate::interrupts::Interrupts;
use crate::layers::limits::WorkerPlace;
use rosterd_coordinator::handle::{Ended, Outbox, OutboxMonitor, Peer, Room};
use rosterd_runtime::clock::{Clock, SharedClock};
use rosterd_runtime::mutants;
use rosterd_runtime::shares::Shares;
use rosterd_runtime::tasks::{ShutdownPhase, Tasks};
use rosterd_runtime::telemetry::Metrics;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::{FromWorker, RunRef, ToWorker};
use rosterd_session::limits::Limits;
use rosterd_wire::convert::{self, Defect};
use rosterd_wire::proto::v1::session_request::Frame;
use rosterd_wire::proto::v1::worker_service_server::WorkerService;
use rosterd_wire::proto::v1::{SessionRequest, SessionResponse};
use rosterd_wire::status;

/// Limits of one stream.
#[derive(Debug, Clone, Copy)]
pub struct SessionLimits {
    /// How long a stream may be open without a Hello.
    pub hello: Duration,
    /// How long a worker may read none of more frames than [`Self::outgoing`].
    pub stall: Duration,
    /// How many frames for the worker may wait for any time, besides those in the connection.
    pub outgoing: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { hello: Duration::from_secs(5), stall: Duration::from_secs(5), outgoing: 64 }
    }
}

/// The service.
pub struct Workers {
    /// The coordinator.
    pub backend: Arc<dyn Backend>,
    /// Owns the streams' tasks.
    pub tasks: Tasks,
    /// The limits.
    pub limits: SessionLimits,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The clock.
    pub clock: SharedClock,
    /// Cancelled when the time for streams to end at shutdown is over.
    pub late: CancellationToken,
    /// For each credential, the turn to parse a registration.
    pub turns: Shares<Semaphore>,
    /// For each credential, its number of open streams.
    pub places: Shares<AtomicU32>,
}

#[tonic::async_trait]
impl WorkerService for Workers {
    type SessionStream = FrameStream;

    async fn session(
        &self,
        mut request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<FrameStream>, Status> {
        let worker_place = request.extensions_mut().remove::<WorkerPlace>();
        let remote = request.extensions().get::<Remote>().cloned();
        let principal = request.extensions().get::<Principal>().cloned();
        let peer = Peer {
            address: remote.as_ref().map(|remote| remote.address.to_string()).unwrap_or_default(),
            principal: principal.as_ref().map(|principal| principal.name.to_string()),
            jobs: principal.as_ref().map(|principal| principal.jobs.clone()).unwrap_or_default(),
            limits: principal.as_ref().map(|principal| principal.limits),
        };
        let place = OpenStream::take(self.places.of(peer.principal.as_deref()), &peer)
            .map_err(|refusal| status::status(&counted(&self.metrics, refusal)))?;
        let turns = self.turns.of(peer.principal.as_deref());
        let machines = principal.as_ref().map(|principal| principal.machines.clone()).unwrap_or_default();
        let rights = principal.map(|principal| (principal.jobs, principal.revoked)).unwrap_or_default();
        let (opened, frames) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let (answers, gone) = (Answers::new(self.limits.outgoing), CancellationToken::new());
        let session = Session {
            answers: answers.clone(),
            gone: gone.clone(),
            rights,
            machines,
            turns,
            limits: self.limits,
            metrics: self.metrics.clone(),
            clock: self.clock.clone(),
        };
        let (backend, late, body_gone) = (self.backend.clone(), self.late.clone(), gone.clone());
        let (metrics, stall) = (self.metrics.clone(), self.limits.stall);
        self.tasks.session(ShutdownPhase::Edge, "worker stream", async move {
            let _open = (Open::new(metrics), place, worker_place);
            let why = session.run(request.into_inner(), opened, &*backend, peer, &late).await;
            let _ = end.send(why);
            if tokio::time::timeout(stall, body_gone.cancelled()).await.is_err()
                && let Some(remote) = remote
            {
                tracing::debug!(peer = %remote.address, "a worker did not take the end of its stream");
                remote.cut();
            }
        });
        Ok(Response::new(FrameStream::new(frames, answers, ended, gone.drop_guard())))
    }
}

/// One of a credential's open streams.
struct OpenStream(Arc<AtomicU32>);

impl OpenStream {
    fn take(open: Arc<AtomicU32>, peer: &Peer) -> Result<Self, Refusal> {
        let before = open.fetch_add(1, Ordering::Relaxed);
        let place = Self(open);
        match (&peer.principal, peer.limits) {
            (Some(principal), Some(Limits { streams, .. })) if before >= streams => {
                let message = format!(
                    "{before} worker streams of {principal} are open, and max_streams of the credential is {streams}: end one, connect to another coordinator, or have max_streams raised in the credential file"
                );
                Err(Refusal::new(Code::QuotaExceeded, message))
            }
            _ => Ok(place),
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An open stream, for the metrics.
struct Open(Arc<Metrics>);

impl Open {
    fn new(metrics: Arc<Metrics>) -> Self {
        metrics.streams.inc();
        Self(metrics)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.streams.dec();
    }
}

/// The pending work for a worker's frame.
type Next = BoxFuture<'static, FrameStep>;

/// The result of that work.
enum FrameStep {
    Parsed(Result<Option<FromWorker>, Defect>, usize),
    Room(FromWorker, Room),
}

async fn step(next: &mut Option<Next>) -> FrameStep {
    match next {
        Some(next) => next.await,
        None => std::future::pending().await,
    }
}

struct Session {
    answers: Arc<Answers>,
    /// The body of the answer was dropped: nobody reads it any longer.
    gone: CancellationToken,
    /// The jobs that the worker may work for, and the end of that right. The answer's body ends then as well, but only
    /// while it is read.
    rights: (JobScope, CancellationToken),
    /// The machines that it may state.
    machines: Machines,
    /// One registration per credential is parsed at a time, with turns for others in between.
    turns: Arc<Semaphore>,
    limits: SessionLimits,
    metrics: Arc<Metrics>,
    clock: SharedClock,
}

/// The coordinator's side of a stream. Dropping it ends the conversation.
struct Coordinator {
    inbox: Box<dyn FrameSink>,
    monitor: OutboxMonitor,
}

impl Session {
    /// Until the stream ends; `opened` is given the frames for the worker.
    async fn run(
        self,
        mut frames: Streaming<SessionRequest>,
        opened: oneshot::Sender<Outbox>,
        backend: &dyn Backend,
        peer: Peer,
        late: &CancellationToken,
    ) -> End {
        let hello = tokio::select! {
            biased;
            () = late.cancelled() => return self.refuse(&draining()),
            () = self.gone.cancelled() => return Ok(()),
            hello = tokio::time::timeout(self.limits.hello, self.hello(&mut frames)) => match hello {
                Ok(hello) => hello?,
                Err(_) => return self.refuse(&Refusal::new(
                    Code::HelloTimeout,
                    format!("no Hello within {:?}: send it as the first frame", self.limits.hello),
                )),
            },
        };
        let Some((mut hello, bytes)) = hello else { return Ok(()) };
        if let FromWorker::Hello(hello) = &mut hello {
            if !self.machines.have(&hello.address) {
                return self.refuse(&self.not_on(&hello.address));
            }
            // The coordinator tells the worker which of its jobs it has lost. A Hello requests nothing for these jobs,
            // so one that is not allowed is skipped.
            hello.asked.retain(|job| self.rights.0.have(job));
            hello.in_flight.retain(|run| self.rights.0.have(&run.job));
        }
        let conversation = match backend.open(peer) {
            Ok(conversation) => conversation,
            Err(refusal) => return self.refuse(&refusal),
        };
        let monitor = conversation.outbox.monitor(self.limits.outgoing);
        let coordinator = Coordinator { inbox: conversation.inbox, monitor };
        // Fails if nobody reads the answer any longer: noticed below.
        let _unread = opened.send(conversation.outbox);
        let room = tokio::select! {
            biased;
            () = late.cancelled() => return self.refuse(&draining()),
            () = self.gone.cancelled() => return Ok(()),
            room = coordinator.inbox.room(bytes) => room,
        };
        if let Err(refusal) = coordinator.inbox.put(hello, room) {
            return self.refuse(&refusal);
        }
        self.talk(&mut frames, &coordinator, late).await
    }

    /// The first frame that this version knows, and its size; `None`: the worker left.
    async fn hello(
        &self,
        frames: &mut Streaming<SessionRequest>,
    ) -> Result<Option<(FromWorker, usize)>, Status> {
        loop {
            let Some(frame) = self.arrived(frames.message().await)? else { return Ok(None) };
            let bytes = frame.encoded_len();
            match convert::from_worker(frame) {
                Ok(None) => {}
                Ok(Some(hello @ FromWorker::Hello(_))) => return Ok(Some((hello, bytes))),
                Ok(Some(_)) => {
                    let what = "the first frame of a stream must be a Hello";
                    return Err(self.refuse(&Refusal::new(Code::HelloExpected, what)).unwrap_err());
                }
                Err(defect) => return Err(self.malformed(&defect.malformed)),
            }
        }
    }

    async fn talk(
        &self,
        frames: &mut Streaming<SessionRequest>,
        coordinator: &Coordinator,
        late: &CancellationToken,
    ) -> End {
        // Once the worker has closed its half, its conversation has this long to end.
        let mut last_word: Option<Mono> = None;
        // When the worker must have read a frame of those that wait.
        let mut stalled: Option<Mono> = None;
        // The worker's frame that is being parsed, or waits for room: the next one is read after it.
        let mut next: Option<Next> = None;
        let (monitor, over) = (&coordinator.monitor, &self.rights.1);
        // What does not come from the worker.
        let mut outside = Interrupts::new([
            late.cancelled().boxed(),
            over.cancelled().boxed(),
            self.gone.cancelled().boxed(),
            monitor.changed().boxed(),
        ]);
        loop {
            // Yield now and then, whatever the worker sends.
            tokio::task::coop::consume_budget().await;
            // In a fixed order, so that the same events give the same conversation: first its end, then frames from the
            // worker.
            tokio::select! {
                biased;
                () = outside.next() => {
                    if late.is_cancelled() {
                        return self.refuse(&draining());
                    }
                    if over.is_cancelled() {
                        return self.refuse(&revoked());
                    }
                    if self.gone.is_cancelled() {
                        return Ok(());
                    }
                    // It was the outbox. Its end counts once the worker has read what waits.
                    outside.push(monitor.changed().boxed());
                    stalled = monitor.has_backlog().then(|| self.patience());
                    if stalled.is_none() && let Some(ended) = monitor.ended() {
                        return self.ended(&ended);
                    }
                }
                () = until(&*self.clock, stalled) => return self.refuse(&too_slow()),
                () = until(&*self.clock, last_word) => return Ok(()),
                step = step(&mut next), if next.is_some() => {
                    next = match step {
                        FrameStep::Parsed(parsed, bytes) => self.parsed(parsed, bytes, coordinator)?,
                        FrameStep::Room(frame, room) => self.put(frame, room, coordinator)?,
                    };
                },
                frame = frames.message(), if next.is_none() && last_word.is_none() => match self.arrived(frame)? {
                    Some(frame) => next = self.take(frame, coordinator)?,
                    None => last_word = Some(self.patience()),
                },
            }
        }
    }

    /// The coordinator has ended the conversation.
    fn ended(&self, ended: &Ended) -> End {
        match ended {
            Ended::Closed(None) => Ok(()),
            Ended::Closed(Some(refusal)) => self.refuse(refusal),
            Ended::Stopped => self.refuse(&draining()),
        }
    }

    /// A frame from the worker; `None`: it will send no more.
    fn arrived(
        &self,
        frame: Result<Option<SessionRequest>, Status>,
    ) -> Result<Option<SessionRequest>, Status> {
        frame.or_else(|status| match status.code() {
            // These come from the decoder. Everything else is the end of the connection, so there is nobody to answer.
            tonic::Code::OutOfRange => Err(self.refuse(&status::too_large(status.message())).unwrap_err()),
            tonic::Code::Internal | tonic::Code::Unimplemented => {
                let what = format!("a frame cannot be read: {}", status.message());
                Err(self.refuse(&Refusal::new(Code::RequestInvalid, what)).unwrap_err())
            }
            _ => Ok(None),
        })
    }

    /// Handles a frame; returns the work that remains before the next one.
    fn take(&self, frame: SessionRequest, coordinator: &Coordinator) -> Result<Option<Next>, Status> {
        mutants::panic_if_injected("panic-stream");
        let bytes = frame.encoded_len();
        if matches!(&frame.frame, Some(Frame::Register(register)) if !register.config.is_empty()) {
            let turns = self.turns.clone();
            return Ok(Some(Box::pin(async move {
                // Never closed. Waiting for a turn lets all others have theirs.
                let _turn = turns.acquire_owned().await;
                FrameStep::Parsed(convert::from_worker(frame), bytes)
            })));
        }
        self.parsed(convert::from_worker(frame), bytes, coordinator)
    }

    fn parsed(
        &self,
        parsed: Result<Option<FromWorker>, Defect>,
        bytes: usize,
        coordinator: &Coordinator,
    ) -> Result<Option<Next>, Status> {
        let frame = match parsed {
            Ok(Some(FromWorker::Hello(_))) => {
                return self.refuse_stream("only the first frame of a stream is a Hello");
            }
            Ok(None) => return Ok(None),
            Ok(Some(frame)) => frame,
            Err(defect) => {
                let status = self.malformed(&defect.malformed);
                let answer = defect.answer.ok_or(status)?;
                return self.send(*answer, coordinator).map(|()| None);
            }
        };
        let Some(frame) = self.within_rights(frame, coordinator)? else { return Ok(None) };
        match coordinator.inbox.try_room(bytes) {
            Some(room) => self.put(frame, room, coordinator),
            None => {
                let room = coordinator.inbox.room(bytes);
                Ok(Some(Box::pin(async move { FrameStep::Room(frame, room.await) })))
            }
        }
    }

    fn put(&self, frame: FromWorker, room: Room, coordinator: &Coordinator) -> Result<Option<Next>, Status> {
        coordinator
            .inbox
            .put(frame, room)
            .map(|()| None)
            .or_else(|refusal| self.refuse(&refusal).map(|()| None))
    }

    fn refuse_stream(&self, what: &str) -> Result<Option<Next>, Status> {
        self.refuse(&Refusal::new(Code::HelloExpected, what)).map(|()| None)
    }

    /// The part of a frame that concerns the credential's jobs. The rest is refused if it can have an answer, and
    /// dropped otherwise.
    fn within_rights(
        &self,
        frame: FromWorker,
        coordinator: &Coordinator,
    ) -> Result<Option<FromWorker>, Status> {
        let jobs = &self.rights.0;
        if jobs.are_all() {
            return Ok(Some(frame));
        }
        Ok(match frame {
            FromWorker::Heartbeat { sequence, mut in_flight, lease } => {
                in_flight.retain(|run| jobs.have(&run.job));
                Some(FromWorker::Heartbeat { sequence, in_flight, lease })
            }
            FromWorker::Register { job, .. } | FromWorker::Unregister { job } if !jobs.have(&job) => {
                let refusal = self.counted(self.not_for(&job));
                self.answer(ToWorker::Refused { job: job.to_string(), refusal }, coordinator)?;
                None
            }
            // A worker may still report how its last runs of a job ended that its credential is no longer for.
            FromWorker::RunCompleted(report)
                if !jobs.have(&report.run.job) && !coordinator.monitor.has_refused(&report.run.job) =>
            {
                let refusal = self.counted(self.not_for(&report.run.job));
                self.answer(ToWorker::ReportAck { run: report.run, refusal: Some(refusal) }, coordinator)?;
                None
            }
            FromWorker::RunStarted { run: RunRef { job, .. }, .. }
            | FromWorker::RunProgress { run: RunRef { job, .. }, .. }
                if !jobs.have(&job) =>
            {
                self.counted(self.not_for(&job));
                None
            }
            frame => Some(frame),
        })
    }

    fn answer(&self, answer: ToWorker, coordinator: &Coordinator) -> Result<(), Status> {
        convert::to_worker(answer).map_or(Ok(()), |answer| self.send(answer, coordinator))
    }

    fn counted(&self, refusal: Refusal) -> Refusal {
        counted(&self.metrics, refusal)
    }

    fn not_on(&self, address: &ServerAddress) -> Refusal {
        let what = format!(
            "the credential is not for workers on {address}, only on {}: state that machine's address, use another \
             credential, or have its machines widened",
            self.machines
        );
        Refusal::new(Code::PermissionDenied, what)
    }

    fn not_for(&self, job: &JobName) -> Refusal {
        let what = format!(
            "the credential is not for job {job}, only for {}: use another, or have its jobs widened",
            self.rights.0
        );
        Refusal::new(Code::PermissionDenied, what)
    }

    /// Queues an answer of the edge for the worker.
    fn send(&self, answer: SessionResponse, coordinator: &Coordinator) -> Result<(), Status> {
        if !self.answers.push(answer) {
            let what = "refused frames are sent faster than their answers are read";
            return self.refuse(&Refusal::new(Code::TooManyFrames, what));
        }
        coordinator.monitor.wake();
        Ok(())
    }

    /// When the worker must have read, or its conversation have ended.
    fn patience(&self) -> Mono {
        self.clock.mono().plus(self.limits.stall)
    }

    fn refuse(&self, refusal: &Refusal) -> End {
        self.metrics.refused.get_or_create(&[("code", refusal.code.as_str())]).inc();
        Err(status::status(refusal))
    }

    fn malformed(&self, defect: &status::Malformed) -> Status {
        self.metrics.refused.get_or_create(&[("code", defect.refusal.code.as_str())]).inc();
        status::malformed(defect)
    }
}

fn counted(metrics: &Metrics, refusal: Refusal) -> Refusal {
    metrics.refused.get_or_create(&[("code", refusal.code.as_str())]).inc();
    refusal
}

fn too_slow() -> Refusal {
    Refusal::new(Code::TooSlow, "frames for the worker were left unread: read the stream at all times")
}

fn draining() -> Refusal {
    Refusal::new(Code::Draining, "this coordinator let go of the stream: connect to another one")
}

async fn until(clock: &dyn Clock, deadline: Option<Mono>) {
    match deadline {
        Some(deadline) => clock.sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
