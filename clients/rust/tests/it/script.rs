//! A coordinator that a test scripts, and the network between.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use rosterd_client::embedding::proto::session_request::Frame as Request;
use rosterd_client::embedding::proto::session_response::Frame as Response;
use rosterd_client::embedding::proto::{
    self, RunOutcome, RunRef, SessionRequest, SessionResponse, Trigger, Welcome,
};
use rosterd_client::embedding::{Connector, TokioClock, Wire};
use rosterd_client::{LinkError, Result, Worker};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The worker's network: every connection becomes a [`Peer`], unless the network is down.
#[derive(Clone)]
pub(crate) struct Net {
    dials: mpsc::UnboundedSender<Peer>,
    down: Arc<Mutex<bool>>,
}

impl Connector for Net {
    fn connect(
        &self,
        address: &str,
    ) -> impl Future<Output = std::result::Result<Wire, LinkError>> + Send + 'static {
        let (requests, requests_out) = mpsc::channel(64);
        let (responses, mut responses_out) = mpsc::channel(64);
        let down = *self.down.lock().unwrap();
        let peer = Peer::new(address, requests_out, responses);
        let dialled = !down && self.dials.send(peer).is_ok();
        async move {
            if !dialled {
                return Err(LinkError::lost("connection refused"));
            }
            let responses =
                futures_util::stream::poll_fn(move |context| responses_out.poll_recv(context)).boxed();
            Ok(Wire { requests, responses })
        }
    }
}

/// All coordinators of a test.
pub(crate) struct Coordinators {
    dials: mpsc::UnboundedReceiver<Peer>,
    pub(crate) net: Net,
}

impl Coordinators {
    pub(crate) fn new() -> Self {
        let (dials, dials_out) = mpsc::unbounded_channel();
        Self { dials: dials_out, net: Net { dials, down: Arc::default() } }
    }

    /// From now on no coordinator can be reached.
    pub(crate) fn go_down(&self) {
        *self.net.down.lock().unwrap() = true;
    }

    /// The next connection.
    pub(crate) async fn accept(&mut self) -> Peer {
        self.dials.recv().await.expect("a connection")
    }

    /// The next connection, greeted and with its jobs registered.
    pub(crate) async fn attach(&mut self) -> Peer {
        let mut peer = self.accept().await;
        peer.attach(welcome("w1")).await;
        peer
    }
}

/// Runs a worker beside the test.
pub(crate) fn drive(worker: Worker, net: &Net) -> JoinHandle<Result<()>> {
    tokio::spawn(worker.drive(net.clone(), clock()))
}

/// The clock of a worker under test.
pub(crate) fn clock() -> TokioClock {
    TokioClock::starting_at(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000))
}

pub(crate) fn welcome(worker_id: &str) -> Welcome {
    let millis = |millis| ms(millis).try_into().ok();
    Welcome {
        worker_id: worker_id.into(),
        instance_id: format!("here@-@{worker_id}"),
        resume_key: "key".into(),
        lease: millis(5_000),
        heartbeat_interval: millis(1_000),
        stop_budget: millis(500),
        max_unacknowledged_reports: 100,
        ..Welcome::default()
    }
}

pub(crate) fn run_ref(item: u32, token: u64) -> RunRef {
    RunRef { job: "j".into(), item, token }
}

pub(crate) fn trigger(item: u32, token: u64) -> Trigger {
    Trigger {
        run: Some(run_ref(item, token)),
        sharding_total_count: 4,
        attempt: 1,
        max_attempts: 1,
        ..Trigger::default()
    }
}

/// The coordinator's end of one stream.
pub(crate) struct Peer {
    pub(crate) address: String,
    requests: mpsc::Receiver<SessionRequest>,
    responses: mpsc::Sender<std::result::Result<SessionResponse, LinkError>>,
    /// Whether heartbeats are acknowledged.
    pub(crate) acknowledges: bool,
    pub(crate) beats: Vec<proto::Heartbeat>,
}

impl Peer {
    pub(crate) fn new(
        address: &str,
        requests: mpsc::Receiver<SessionRequest>,
        responses: mpsc::Sender<std::result::Result<SessionResponse, LinkError>>,
    ) -> Self {
        Self { address: address.into(), requests, responses, acknowledges: true, beats: Vec::new() }
    }

    pub(crate) async fn say(&self, frame: Response) {
        let _ = self.responses.send(Ok(SessionResponse { frame: Some(frame) })).await;
    }

    pub(crate) async fn trigger(&self, item: u32, token: u64) {
        self.say(Response::Trigger(trigger(item, token))).await;
    }

    pub(crate) async fn acknowledge(&self, run: RunRef) {
        let result = proto::ReportResult::Accepted.into();
        self.say(Response::ReportAck(proto::ReportAck { run: Some(run), result, ..Default::default() }))
            .await;
    }

    /// The next frame; None when the worker has closed the stream. Heartbeats are answered on the way.
    pub(crate) async fn next(&mut self) -> Option<Request> {
        loop {
            match self.requests.recv().await?.frame? {
                Request::Heartbeat(beat) => {
                    let sequence = beat.sequence;
                    self.beats.push(beat);
                    if self.acknowledges {
                        self.say(Response::HeartbeatAck(proto::HeartbeatAck { sequence })).await;
                    }
                }
                frame => return Some(frame),
            }
        }
    }

    /// The next frame that `which` picks; others are skipped.
    pub(crate) async fn until<T>(&mut self, which: impl Fn(Request) -> Option<T>) -> T {
        // Under a stopped clock heartbeats would follow one another forever.
        for _ in 0..10_000 {
            let frame = self.next().await.expect("the stream is open");
            if let Some(picked) = which(frame) {
                return picked;
            }
        }
        panic!("10,000 frames came, and not the one that was waited for");
    }

    /// Answers the worker for a while; its frames are dropped.
    pub(crate) async fn live(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while let Ok(Some(_)) = tokio::time::timeout_at(end, self.next()).await {}
    }

    /// Until the worker closes the stream.
    pub(crate) async fn closed(&mut self) {
        while self.next().await.is_some() {}
    }

    pub(crate) async fn hello(&mut self) -> proto::Hello {
        self.until(|frame| match frame {
            Request::Hello(hello) => Some(hello),
            _ => None,
        })
        .await
    }

    pub(crate) async fn report(&mut self) -> proto::RunCompleted {
        self.until(|frame| match frame {
            Request::RunCompleted(report) => Some(report),
            _ => None,
        })
        .await
    }

    /// The next report is of this run, with this outcome; it is acknowledged.
    pub(crate) async fn completes(
        &mut self,
        item: u32,
        token: u64,
        outcome: RunOutcome,
    ) -> proto::RunCompleted {
        let report = self.report().await;
        assert_eq!(
            (report.run.as_ref(), report.outcome()),
            (Some(&run_ref(item, token)), outcome),
            "{report:?}"
        );
        self.acknowledge(run_ref(item, token)).await;
        report
    }

    pub(crate) async fn started(&mut self) -> proto::RunStarted {
        self.until(|frame| match frame {
            Request::RunStarted(started) => Some(started),
            _ => None,
        })
        .await
    }

    pub(crate) async fn attach(&mut self, welcome: Welcome) -> proto::Hello {
        let hello = self.hello().await;
        self.say(Response::Welcome(welcome)).await;
        hello
    }

    pub(crate) async fn registers(&mut self) -> proto::Register {
        self.until(|frame| match frame {
            Request::Register(register) => Some(register),
            _ => None,
        })
        .await
    }

    pub(crate) async fn asks_to_drain(&mut self) {
        self.until(|frame| matches!(frame, Request::DrainRequest(_)).then_some(())).await;
    }

    pub(crate) async fn says_goodbye(&mut self) {
        self.until(|frame| matches!(frame, Request::Goodbye(_)).then_some(())).await;
    }

    /// The whole leave of a worker with nothing in flight.
    pub(crate) async fn dismiss(&mut self) {
        self.asks_to_drain().await;
        self.say(Response::Draining(proto::Draining {})).await;
        self.says_goodbye().await;
        self.say(Response::GoodbyeAck(proto::GoodbyeAck {})).await;
    }
}
