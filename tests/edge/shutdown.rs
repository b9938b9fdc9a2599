//! How the edge ends.

use std::time::Duration;

use rosterd_runtime::tasks::ShutdownPhase;
use rosterd_session::frame::ToWorker;
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::admin_service_client::AdminServiceClient;
use tokio::net::TcpStream;

use crate::support::{PATIENCE, config, reason, serve, soon};

#[tokio::test]
async fn streams_that_the_coordinator_closes_end_the_edge_at_once() {
    let mut served = serve(config()).await;
    let channel = served.channel().await;
    let (mut worker, seen) = served.attached(channel.clone()).await;
    let mut watch =
        AdminServiceClient::new(channel).watch(v1::WatchRequest::default()).await.unwrap().into_inner();
    let tasks = served.tasks.clone();
    let ending = tokio::spawn(async move { tasks.end(ShutdownPhase::Edge, PATIENCE).await });
    assert!(soon("the watcher's end", watch.message()).await.unwrap().is_none());
    seen.to_worker.send(ToWorker::Close(None)).await.unwrap();
    assert!(worker.end().await.is_none());
    drop((worker, watch));
    assert!(soon("the edge's end", ending).await.unwrap().is_empty());
    assert!(TcpStream::connect(served.address).await.is_err(), "the port is closed");
}

#[tokio::test]
async fn streams_that_nobody_closes_are_ended_at_the_deadline() {
    let mut config = config();
    config.listen.shutdown = Duration::from_millis(50);
    let mut served = serve(config).await;
    let channel = served.channel().await;
    let (mut worker, _seen) = served.attached(channel).await;
    let tasks = served.tasks.clone();
    let ending = tokio::spawn(async move { tasks.end(ShutdownPhase::Edge, PATIENCE).await });
    let status = worker.end().await.unwrap();
    assert_eq!((status.code(), reason(&status)), (tonic::Code::Unavailable, "DRAINING".into()));
    soon("the edge's end", ending).await.unwrap();
}
