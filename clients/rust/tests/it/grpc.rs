//! Over real gRPC and real time: the production thread, the connector, signals.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc as blocking;
use std::task::{Context, Poll};
use std::time::Instant;

use futures_util::{FutureExt, StreamExt};
use rosterd_client::embedding::proto::session_request::Frame as Request;
use rosterd_client::embedding::proto::session_response::Frame as Response;
use rosterd_client::embedding::proto::{RunOutcome, SessionRequest, SessionResponse, Welcome};
use rosterd_client::{Error, LinkError, Run, Worker};
use rustix::process::{Signal, getpid, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::transport::server::TcpIncoming;
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;

use crate::script::*;

type Responses = futures_util::stream::BoxStream<'static, Result<SessionResponse, Status>>;

/// Passes every stream to the test.
#[derive(Clone)]
struct Server {
    peers: mpsc::UnboundedSender<Peer>,
    credential: Option<&'static str>,
}

impl NamedService for Server {
    const NAME: &'static str = "rosterd.v1.WorkerService";
}

impl StreamingService<SessionRequest> for Server {
    type Response = SessionResponse;
    type ResponseStream = Responses;
    type Future = BoxFuture<tonic::Response<Responses>, Status>;

    fn call(&mut self, request: tonic::Request<Streaming<SessionRequest>>) -> Self::Future {
        let this = self.clone();
        async move {
            let bearer = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
            if this.credential.is_some_and(|secret| bearer != Some(&format!("Bearer {secret}"))) {
                return Err(Status::unauthenticated("unknown credential"));
            }
            let mut incoming = request.into_inner();
            let (requests, requests_out) = mpsc::channel(64);
            let (responses, mut responses_out) = mpsc::channel::<Result<SessionResponse, LinkError>>(64);
            // A coordinator may do this: no answer, not even headers, before the Hello.
            let Some(Ok(hello)) = incoming.next().await else { return Err(Status::aborted("no hello")) };
            let _ = requests.send(hello).await;
            tokio::spawn(async move {
                while let Some(Ok(frame)) = incoming.next().await {
                    let _ = requests.send(frame).await;
                }
            });
            let _ = this.peers.send(Peer::new("tcp", requests_out, responses));
            let frames = futures_util::stream::poll_fn(move |context| responses_out.poll_recv(context));
            let frames = frames.map(|frame| frame.map_err(|error| Status::unavailable(error.to_string())));
            Ok(tonic::Response::new(frames.boxed()))
        }
        .boxed()
    }
}

impl Service<http::Request<tonic::body::Body>> for Server {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let this = self.clone();
        let codec = ProstCodec::<SessionResponse, SessionRequest>::default();
        async move { Ok(Grpc::new(codec).streaming(this, request).await) }.boxed()
    }
}

/// A server on a thread of its own: its address and its streams.
fn serve(credential: Option<&'static str>) -> (String, mpsc::UnboundedReceiver<Peer>) {
    let (peers, peers_out) = mpsc::unbounded_channel();
    let (bound, address) = blocking::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            bound.send(listener.local_addr().unwrap().to_string()).unwrap();
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let server = tonic::transport::Server::builder().add_service(Server { peers, credential });
            server.serve_with_incoming(incoming).await.unwrap();
        });
    });
    (address.recv().unwrap(), peers_out)
}

#[tokio::test]
async fn a_whole_life_over_tcp() {
    let (address, mut peers) = serve(Some("sesame"));
    let leave = Arc::new(Notify::new());
    let told = leave.clone();
    let worker = Worker::connect(address).credential("sesame").shutdown(async move { told.notified().await });
    let worker = worker.job("j", |run: Run| async move { Ok(format!("{} of {}", run.item(), run.total())) });
    let worker = tokio::spawn(worker.run());
    let mut peer = peers.recv().await.unwrap();
    let hello = peer.attach(welcome("w1")).await;
    assert!(hello.client.starts_with("rosterd-client-rust/"));
    assert!(hello.sent_at.is_some() && !hello.address.is_empty() && hello.slots >= 4);
    peer.registers().await;
    peer.trigger(3, 1).await;
    assert_eq!(peer.completes(3, 1, RunOutcome::Succeeded).await.output, "3 of 4");
    // The stream is lost and resumed over a new connection.
    drop(peer);
    let mut peer = peers.recv().await.unwrap();
    assert_eq!(peer.attach(welcome("w1")).await.stream_number, 2);
    peer.registers().await;
    leave.notify_one();
    peer.dismiss().await;
    assert_eq!(worker.await.unwrap(), Ok(()));
}

async fn status(health: std::net::SocketAddr, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(health).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn health_says_when_the_worker_is_ready() {
    let (address, mut peers) = serve(None);
    let leave = Arc::new(Notify::new());
    let told = leave.clone();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let health = listener.local_addr().unwrap();
    let worker = Worker::connect(address).health(listener).shutdown(async move { told.notified().await });
    let worker = tokio::spawn(worker.job("j", |_| async { Ok(()) }).run());
    let mut peer = peers.recv().await.unwrap();
    assert_eq!(status(health, "/healthz").await, "HTTP/1.1 200 OK");
    assert_eq!(status(health, "/readyz").await, "HTTP/1.1 503 Service Unavailable", "it is not welcomed yet");
    assert_eq!(status(health, "/").await, "HTTP/1.1 404 Not Found");
    peer.attach(welcome("w1")).await;
    peer.registers().await;
    assert_eq!(status(health, "/readyz").await, "HTTP/1.1 200 OK");
    leave.notify_one();
    peer.until(|frame| matches!(frame, Request::DrainRequest(_)).then_some(())).await;
    assert_eq!(status(health, "/readyz").await, "HTTP/1.1 503 Service Unavailable", "it leaves");
    peer.say(Response::Draining(rosterd_client::embedding::proto::Draining {})).await;
    peer.until(|frame| matches!(frame, Request::Goodbye(_)).then_some(())).await;
    peer.say(Response::GoodbyeAck(rosterd_client::embedding::proto::GoodbyeAck {})).await;
    assert_eq!(worker.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_wrong_credential_ends_the_worker_with_the_reason() {
    let (address, _peers) = serve(Some("sesame"));
    let worker = Worker::connect(address).credential("melon").shutdown(std::future::pending());
    let error = worker.job("j", |_| async { Ok(()) }).run().await.unwrap_err();
    assert!(matches!(&error, Error::Rejected(_)), "{error}");
    assert!(error.to_string().contains("unknown credential"), "{error}");
}

#[tokio::test(flavor = "current_thread")]
async fn heartbeats_go_on_while_a_handler_blocks_its_runtime_for_longer_than_its_lease() {
    let (address, mut peers) = serve(None);
    let (open, gate) = blocking::channel();
    let lease = ms(6000);
    // The coordinator runs on a thread of its own: the handler blocks this one.
    let coordinator = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let mut peer = peers.recv().await.unwrap();
            peer.attach(Welcome {
                lease: lease.try_into().ok(),
                heartbeat_interval: ms(500).try_into().ok(),
                stop_budget: ms(100).try_into().ok(),
                ..welcome("w1")
            })
            .await;
            peer.trigger(0, 1).await;
            peer.started().await;
            let started = Instant::now();
            while started.elapsed() < lease * 3 / 2 {
                peer.live(ms(100)).await;
            }
            let beats = peer.beats.len();
            open.send(()).unwrap();
            peer.completes(0, 1, RunOutcome::Succeeded).await;
            peer.say(Response::Shutdown(rosterd_client::embedding::proto::Shutdown::default())).await;
            peer.dismiss().await;
            assert!(peers.try_recv().is_err(), "one stream was enough");
            beats
        })
    });
    let gate = std::sync::Mutex::new(gate);
    let gate = Arc::new(gate);
    let worker = Worker::connect(address).shutdown(std::future::pending()).job("j", move |run: Run| {
        let gate = gate.clone();
        async move {
            gate.lock().unwrap().recv().unwrap();
            assert!(!run.is_cancelled(), "the lease was kept");
            Ok(())
        }
    });
    assert_eq!(worker.run().await, Ok(()));
    assert!(coordinator.join().unwrap() >= 9, "heartbeats");
}

#[tokio::test]
async fn the_first_signal_leaves_and_the_second_exits_at_once() {
    let (address, mut peers) = serve(None);
    let worker = Worker::connect(address).job("j", |_| async {
        std::future::pending::<()>().await;
        Ok(())
    });
    let mut worker = tokio::spawn(worker.run());
    let mut peer = peers.recv().await.unwrap();
    peer.attach(welcome("w1")).await;
    peer.registers().await;
    peer.trigger(0, 1).await;
    peer.started().await;
    kill_process(getpid(), Signal::TERM).unwrap();
    peer.asks_to_drain().await;
    assert!(!worker.is_finished());
    let ended = loop {
        // Those within a second of the first count as the first.
        kill_process(getpid(), Signal::INT).unwrap();
        if let Ok(ended) = tokio::time::timeout(ms(20), &mut worker).await {
            break ended.unwrap();
        }
    };
    assert_eq!(ended, Err(Error::Killed));
}
