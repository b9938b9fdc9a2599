//! A coordinator's worker service for one worker: the test controls it and reads the frames that it receives.

use std::pin::Pin;
use std::sync::mpsc as heard;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::Stream;
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::session_request::Frame as From;
use rosterd_wire::proto::v1::session_response::Frame as To;
use rosterd_wire::proto::v1::worker_service_server::{WorkerService, WorkerServiceServer};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tonic::{Request, Response, Status, Streaming};

/// Longest wait for something that must happen.
const SOON: Duration = Duration::from_secs(20);

type Frames = mpsc::UnboundedSender<Result<v1::SessionResponse, Status>>;

struct Script {
    heard: Mutex<heard::Sender<From>>,
    frames: Arc<Mutex<Option<Frames>>>,
    lease: Duration,
    acknowledges: Arc<Mutex<bool>>,
}

/// A coordinator.
pub(crate) struct Coordinator {
    pub(crate) url: String,
    heard: heard::Receiver<From>,
    frames: Arc<Mutex<Option<Frames>>>,
    acknowledges: Arc<Mutex<bool>>,
    _runtime: tokio::runtime::Runtime,
}

impl Coordinator {
    pub(crate) fn start(lease: Duration) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (tell, heard) = heard::channel();
        let (frames, acknowledges) = (Arc::default(), Arc::new(Mutex::new(true)));
        let script = Script {
            heard: Mutex::new(tell),
            frames: Arc::clone(&frames),
            lease,
            acknowledges: Arc::clone(&acknowledges),
        };
        let url = runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let server = tonic::transport::Server::builder().add_service(WorkerServiceServer::new(script));
            tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
            url
        });
        Self { url, heard, frames, acknowledges, _runtime: runtime }
    }

    /// The next relevant frame.
    #[track_caller]
    pub(crate) fn hears<T>(&self, wanted: impl Fn(From) -> Option<T>) -> T {
        loop {
            let frame = self.heard.recv_timeout(SOON).expect("the worker says it in time");
            if let Some(found) = wanted(frame) {
                return found;
            }
        }
    }

    #[track_caller]
    pub(crate) fn registered(&self) -> v1::Register {
        self.hears(|frame| if let From::Register(register) = frame { Some(register) } else { None })
    }

    #[track_caller]
    pub(crate) fn completed(&self) -> v1::RunCompleted {
        self.hears(|frame| if let From::RunCompleted(completed) = frame { Some(completed) } else { None })
    }

    pub(crate) fn tells(&self, frame: To) {
        let frames = self.frames.lock().unwrap();
        frames.as_ref().unwrap().send(Ok(v1::SessionResponse { frame: Some(frame) })).unwrap();
    }

    /// No heartbeat is acknowledged from now on: the lease will end.
    pub(crate) fn falls_silent(&self) {
        *self.acknowledges.lock().unwrap() = false;
    }
}

pub(crate) fn run(item: u32, token: u64) -> v1::RunRef {
    v1::RunRef { job: "words".into(), item, token }
}

/// The properties for the job's runs.
pub(crate) fn props() -> To {
    assignment(&[("size", "7"), ("url", "a=b \"c\"")])
}

/// The job's properties.
pub(crate) fn assignment(props: &[(&str, &str)]) -> To {
    let props = props.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    To::Assignment(v1::Assignment { job: "words".into(), props, ..Default::default() })
}

pub(crate) fn trigger(item: u32, token: u64) -> To {
    To::Trigger(v1::Trigger {
        run: Some(run(item, token)),
        fire_time: Some(prost_types::Timestamp { seconds: 1_795_219_200, nanos: 0 }),
        source: v1::RunSource::NormalTrigger.into(),
        item_parameter: "Beijing".into(),
        job_parameter: "all of it".into(),
        task_id: format!("words@-@{item}@-@READY@-@here@-@w-1"),
        sharding_total_count: 3,
        attempt: 1,
        max_attempts: 1,
        kind: v1::JobKind::Command.into(),
        ..Default::default()
    })
}

#[tonic::async_trait]
impl WorkerService for Script {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<v1::SessionResponse, Status>> + Send>>;

    async fn session(
        &self,
        request: Request<Streaming<v1::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (frames, out) = mpsc::unbounded_channel();
        *self.frames.lock().unwrap() = Some(frames.clone());
        let (lease, acknowledges) = (self.lease, Arc::clone(&self.acknowledges));
        let tell = self.heard.lock().unwrap().clone();
        let mut said = request.into_inner();
        tokio::spawn(async move {
            while let Some(Ok(v1::SessionRequest { frame: Some(frame) })) = said.next().await {
                if let Some(answer) = answer(&frame, lease, *acknowledges.lock().unwrap()) {
                    let _ = frames.send(Ok(v1::SessionResponse { frame: Some(answer) }));
                }
                let _ = tell.send(frame);
            }
        });
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(out))))
    }
}

fn answer(frame: &From, lease: Duration, acknowledges: bool) -> Option<To> {
    let proto = |duration: Duration| duration.try_into().ok();
    match frame {
        From::Hello(_) if acknowledges => Some(To::Welcome(v1::Welcome {
            worker_id: "w-1".into(),
            instance_id: "here@-@w-1".into(),
            resume_key: "k".into(),
            namespace: "default".into(),
            lease: proto(lease),
            heartbeat_interval: proto(lease / 5),
            stop_budget: proto(lease / 10),
            max_unacknowledged_reports: 100,
            ..Default::default()
        })),
        From::Register(register) => Some(To::Registered(v1::Registered {
            job: register.job.clone(),
            sharding_total_count: 3,
            kind: v1::JobKind::Command.into(),
            lease: proto(lease),
            heartbeat_interval: proto(lease / 5),
            ..Default::default()
        })),
        From::Heartbeat(beat) if acknowledges => {
            Some(To::HeartbeatAck(v1::HeartbeatAck { sequence: beat.sequence }))
        }
        From::RunCompleted(completed) => Some(To::ReportAck(v1::ReportAck {
            run: completed.run.clone(),
            result: v1::ReportResult::Accepted.into(),
            ..Default::default()
        })),
        From::DrainRequest(_) => Some(To::Draining(v1::Draining {})),
        From::Goodbye(_) => Some(To::GoodbyeAck(v1::GoodbyeAck {})),
        _ => None,
    }
}
