//! Endpoints without a credential: they do not take the places of others, and may have a listener of their own.

use std::time::Duration;

use rosterd_api::monitor::Monitor;
use rosterd_coordinator::handle::Health;
use rosterd_runtime::clock::System;
use rosterd_runtime::tasks::ShutdownPhase;
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::admin_service_client::AdminServiceClient;
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::pages::get_with;
use crate::support::{config, reason, serve, soon};

#[tokio::test]
async fn watches_of_the_health_take_no_place_of_workers_and_watchers() {
    let mut config = config();
    (config.workers, config.watchers, config.probes.per_peer) = (1, 1, 3);
    let mut served = serve(config).await;
    let channel = served.channel().await;
    let mut health = HealthClient::new(channel.clone());
    let mut watches = Vec::new();
    for _ in 0..3 {
        watches.push(soon("a watch", health.watch(HealthCheckRequest::default())).await.unwrap());
    }
    let refused = soon("an answer", health.watch(HealthCheckRequest::default())).await.unwrap_err();
    assert_eq!(reason(&refused), "OVERLOADED");
    assert!(refused.message().contains("3 such requests of 127.0.0.1"), "{}", refused.message());
    assert_eq!(get_with(served.address, "/healthz", "").await.0, 200);
    soon("a check", health.check(HealthCheckRequest::default())).await.unwrap();
    let (_worker, _seen) = served.attached(channel.clone()).await;
    let mut admin = AdminServiceClient::new(channel.clone());
    let _watch = soon("a watch of jobs", admin.watch(v1::WatchRequest::default())).await.unwrap();
    drop(watches);
    soon("a place that is given back", async {
        while health.watch(HealthCheckRequest::default()).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn watchers_take_no_place_of_workers() {
    let mut config = config();
    (config.workers, config.watchers) = (1, 2);
    let mut served = serve(config).await;
    let channel = served.channel().await;
    let mut admin = AdminServiceClient::new(channel.clone());
    let mut watches = Vec::new();
    for _ in 0..2 {
        watches.push(soon("a watch", admin.watch(v1::WatchRequest::default())).await.unwrap());
    }
    let third = soon("an answer", admin.watch(v1::WatchRequest::default())).await.unwrap_err();
    assert!(third.message().contains("as many watchers as it takes"), "{}", third.message());
    let (_worker, _seen) = served.attached(channel).await;
}

#[tokio::test]
async fn checks_that_never_arrive_take_no_place_of_calls_and_end_in_time() {
    let mut config = config();
    config.calls = 1;
    config.probes.patience = Duration::from_millis(100);
    let served = serve(config).await;
    let io = TcpStream::connect(served.address).await.unwrap();
    let (client, connection) = h2::client::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let mut open = Vec::new();
    for _ in 0..5 {
        let request = http::Request::post("http://localhost/grpc.health.v1.Health/Check")
            .header("content-type", "application/grpc")
            .body(())
            .unwrap();
        // The body is never sent, and never ended.
        open.push(client.clone().send_request(request, false).unwrap());
    }
    let mut admin = AdminServiceClient::new(served.channel().await);
    for _ in 0..20 {
        soon("a call", admin.list_jobs(v1::ListJobsRequest::default())).await.unwrap();
        assert_eq!(get_with(served.address, "/healthz", "").await.0, 200);
    }
    for (answer, _body) in open {
        let head = soon("the check's end", answer).await.unwrap();
        assert_eq!(head.headers()["grpc-status"], "4", "DEADLINE_EXCEEDED");
    }
}

#[tokio::test]
async fn health_and_metrics_have_a_listener_of_their_own_that_serves_nothing_else() {
    let mut config = config();
    config.listen.caps.total = 0;
    let served = serve(config).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let monitor = Monitor {
        backend: served.fake.clone(),
        metrics: served.metrics.clone(),
        clock: System::shared(),
        tasks: served.tasks.clone(),
        loopback: true,
    };
    served.tasks.essential(
        ShutdownPhase::Edge,
        "monitor",
        async move { monitor.serve(listener).await.unwrap() },
    );
    let get = async |path| get_local(address, path).await;
    assert_eq!(get("/healthz").await.0, 200);
    let (code, body) = get("/metrics").await;
    assert!(code == 200 && body.contains("# TYPE rosterd_panics_total counter\n"), "{body}");
    for path in ["/", "/rosterd.v1.AdminService/ListJobs", "/jobs"] {
        assert_eq!(get(path).await.0, 404, "{path}");
    }
    assert_eq!(get_with(address, "/metrics", "").await.0, 403, "host \"a\" is none of loopback");
    let channel: Channel =
        soon("a connection", Endpoint::from_shared(format!("http://{address}")).unwrap().connect())
            .await
            .unwrap();
    let mut health = HealthClient::new(channel.clone());
    let check = soon("a check", health.check(HealthCheckRequest::default())).await.unwrap();
    assert_eq!(check.into_inner().status(), ServingStatus::Serving);
    served.fake.health.send_replace(Health::Suspended);
    assert_eq!(get("/healthz").await.0, 503);
    let mut admin = AdminServiceClient::new(channel.clone());
    let status = soon("an answer", admin.list_jobs(v1::ListJobsRequest::default())).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unimplemented);
    let (_sender, queue) = tokio::sync::mpsc::channel(1);
    let mut worker = v1::worker_service_client::WorkerServiceClient::new(channel);
    let session = worker.session(tokio_stream::wrappers::ReceiverStream::new(queue));
    let status =
        soon("an answer", session).await.map(|answer| drop::<tonic::Streaming<_>>(answer.into_inner()));
    assert!(status.is_err(), "no worker is served here");
}

/// As a client on this machine asks.
pub(crate) async fn get_local(address: std::net::SocketAddr, path: &str) -> (u16, String) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon("an answer", stream.read_to_string(&mut answer)).await.unwrap();
    let (heads, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {answer:?}"));
    (heads.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}
