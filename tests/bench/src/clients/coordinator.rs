//! A coordinator that only speaks the protocol: it welcomes one worker, and sends it runs as fast as they are answered.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime};

use futures_util::{Stream, StreamExt as _, stream};
use rosterd_wire::proto::v1::session_request::Frame as Request;
use rosterd_wire::proto::v1::session_response::Frame as Response;
use rosterd_wire::proto::v1::worker_service_server::{WorkerService, WorkerServiceServer};
use rosterd_wire::proto::v1::{
    Assignment, HeartbeatAck, JobKind, Registered, ReportAck, ReportResult, RunOutcome, RunRef, RunSource,
    SessionRequest, SessionResponse, Trigger, Welcome,
};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::transport::server::TcpIncoming;
use tonic::{Status, Streaming};

use crate::Result;

/// How long a worker may take to attach, and to answer.
const PATIENCE: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(30);
const HEARTBEAT: Duration = Duration::from_secs(1);
const CREDITS: u32 = 1024;
/// Frames that wait to be written.
const OUTGOING: usize = 4096;

pub(super) struct Coordinator {
    address: SocketAddr,
    streams: mpsc::Receiver<Live>,
}

/// One stream of a worker.
struct Live {
    incoming: Streaming<SessionRequest>,
    outgoing: mpsc::Sender<std::result::Result<SessionResponse, Status>>,
}

struct Service {
    streams: mpsc::Sender<Live>,
}

type Responses = Pin<Box<dyn Stream<Item = std::result::Result<SessionResponse, Status>> + Send>>;

#[tonic::async_trait]
impl WorkerService for Service {
    type SessionStream = Responses;

    async fn session(
        &self,
        request: tonic::Request<Streaming<SessionRequest>>,
    ) -> std::result::Result<tonic::Response<Responses>, Status> {
        let (outgoing, frames) = mpsc::channel(OUTGOING);
        let one = Live { incoming: request.into_inner(), outgoing };
        self.streams.send(one).await.map_err(|_| Status::unavailable("nobody waits for a worker"))?;
        let frames = stream::unfold(frames, |mut frames| async move { Some((frames.recv().await?, frames)) });
        Ok(tonic::Response::new(frames.boxed()))
    }
}

impl Coordinator {
    pub(super) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (sender, streams) = mpsc::channel(1);
        let service = WorkerServiceServer::new(Service { streams: sender });
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        // Ends with the runtime: it serves one worker, whose stream ends with its process.
        tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        Ok(Self { address, streams })
    }

    pub(super) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Waits for the worker, and for all its jobs.
    pub(super) async fn attach(mut self, jobs: &[String]) -> Result<Conversation> {
        let stream = timeout(PATIENCE, self.streams.recv()).await.map_err(|_| "no worker came")?;
        let stream = stream.ok_or("the coordinator has ended")?;
        let mut conversation = Conversation { stream, token: 0, job: String::new() };
        let Request::Hello(_) = conversation.next().await? else { return Err("no Hello".into()) };
        conversation.send(Response::Welcome(welcome())).await?;
        let mut waiting = jobs.len();
        while waiting > 0 {
            if let Request::Register(register) = conversation.next().await? {
                conversation.registered(register.job).await?;
                waiting -= 1;
            }
        }
        conversation.job = jobs.first().cloned().unwrap_or_default();
        Ok(conversation)
    }
}

/// The stream of a worker that has been welcomed. Heartbeats are answered by the way.
pub(super) struct Conversation {
    stream: Live,
    /// The last issued token.
    token: u64,
    job: String,
}

/// Milliseconds from each Trigger.
pub(super) struct Trips {
    pub(super) started: Vec<f64>,
    pub(super) reported: Vec<f64>,
}

impl Conversation {
    /// Runs one after the other.
    pub(super) async fn trips(&mut self, warm: usize, count: usize) -> Result<Trips> {
        let mut trips = Trips { started: Vec::new(), reported: Vec::new() };
        for number in 0..warm + count {
            let since = Instant::now();
            let token = self.trigger(0).await?;
            let mut started = None;
            loop {
                match self.next().await? {
                    Request::RunStarted(begun) if is(&begun.run, token) => started = Some(since.elapsed()),
                    Request::RunCompleted(done) if is(&done.run, token) => {
                        succeeded(done.outcome, &done.error)?;
                        break;
                    }
                    _ => {}
                }
            }
            let reported = since.elapsed();
            self.acknowledge(0, token).await?;
            if number >= warm {
                // A client need not report the start of such a short run.
                trips.started.extend(started.map(millis));
                trips.reported.push(millis(reported));
            }
        }
        Ok(trips)
    }

    /// Keeps a run of this many items in flight. Returns how many ended, and in what time.
    pub(super) async fn throughput(&mut self, items: u32, length: Duration) -> Result<(u64, Duration)> {
        let mut waiting = HashMap::new();
        for item in 0..items {
            waiting.insert(self.trigger(item).await?, item);
        }
        let since = Instant::now();
        let mut ended = 0;
        while !waiting.is_empty() {
            let Request::RunCompleted(done) = self.next().await? else { continue };
            let token = done.run.map(|run| run.token).unwrap_or_default();
            let Some(item) = waiting.remove(&token) else { continue };
            succeeded(done.outcome, &done.error)?;
            ended += 1;
            self.acknowledge(item, token).await?;
            if since.elapsed() < length {
                waiting.insert(self.trigger(item).await?, item);
            }
        }
        Ok((ended, since.elapsed()))
    }

    async fn next(&mut self) -> Result<Request> {
        loop {
            let frame = timeout(PATIENCE, self.stream.incoming.message()).await;
            let frame = frame.map_err(|_| "the worker says nothing")??;
            match frame.ok_or("the worker has left")?.frame {
                Some(Request::Heartbeat(beat)) => {
                    self.send(Response::HeartbeatAck(HeartbeatAck { sequence: beat.sequence })).await?;
                }
                Some(frame) => return Ok(frame),
                None => {}
            }
        }
    }

    async fn send(&self, frame: Response) -> Result {
        let sent = self.stream.outgoing.send(Ok(SessionResponse { frame: Some(frame) })).await;
        sent.map_err(|_| "the worker is gone".into())
    }

    async fn registered(&self, job: String) -> Result {
        let registered = Registered {
            job: job.clone(),
            sharding_total_count: 1024,
            kind: JobKind::Simple.into(),
            ..Registered::default()
        };
        self.send(Response::Registered(registered)).await?;
        let assignment =
            Assignment { job, sharding_total_count: 1024, generation: 1, ..Assignment::default() };
        self.send(Response::Assignment(assignment)).await
    }

    async fn trigger(&mut self, item: u32) -> Result<u64> {
        self.token += 1;
        let trigger = Trigger {
            run: Some(RunRef { job: self.job.clone(), item, token: self.token }),
            fire_time: Some(SystemTime::now().into()),
            source: RunSource::NormalTrigger.into(),
            item_parameter: "succeed".to_owned(),
            sharding_total_count: 1024,
            attempt: 1,
            max_attempts: 1,
            kind: JobKind::Simple.into(),
            ..Trigger::default()
        };
        self.send(Response::Trigger(trigger)).await?;
        Ok(self.token)
    }

    async fn acknowledge(&self, item: u32, token: u64) -> Result {
        let run = Some(RunRef { job: self.job.clone(), item, token });
        let ack = ReportAck { run, result: ReportResult::Accepted.into(), ..ReportAck::default() };
        self.send(Response::ReportAck(ack)).await
    }
}

fn welcome() -> Welcome {
    Welcome {
        worker_id: "w1".to_owned(),
        instance_id: "127.0.0.1@-@w1".to_owned(),
        resume_key: "key".to_owned(),
        namespace: "default".to_owned(),
        lease: LEASE.try_into().ok(),
        heartbeat_interval: HEARTBEAT.try_into().ok(),
        stop_budget: Duration::from_millis(500).try_into().ok(),
        max_unacknowledged_reports: CREDITS,
        ..Welcome::default()
    }
}

fn is(run: &Option<RunRef>, token: u64) -> bool {
    run.as_ref().is_some_and(|run| run.token == token)
}

fn succeeded(outcome: i32, error: &str) -> Result {
    match RunOutcome::try_from(outcome) {
        Ok(RunOutcome::Succeeded) => Ok(()),
        other => Err(format!("a run that does nothing ended {other:?}: {error}").into()),
    }
}

fn millis(length: Duration) -> f64 {
    length.as_secs_f64() * 1e3
}
