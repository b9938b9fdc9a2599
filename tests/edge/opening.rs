//! How connections and streams open, and what happens to those that do not.

use std::time::Duration;

use rosterd_session::code::Code;
use rosterd_session::frame::FromWorker;
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::session_request::Frame;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_stream::StreamExt as _;

use crate::support::{Worker, config, heartbeat, hello, reason, serve, soon, until};

/// Reads to the end: the peer has closed, or reset.
async fn closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let _ = soon("the end of the connection", stream.read_to_end(&mut rest)).await;
}

#[tokio::test]
async fn a_silent_connection_is_closed_while_a_worker_still_connects() {
    let mut config = config();
    config.listen.preface = Duration::from_secs(3);
    let mut served = serve(config).await;
    let mut silent = Vec::new();
    for opening in [&b""[..], b"PRI * HTTP/2.0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n"] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(opening).await.unwrap();
        silent.push(stream);
    }
    let channel = served.channel().await;
    let (worker, mut seen) = served.attached(channel).await;
    for stream in &mut silent {
        closed(stream).await;
    }
    worker.send(heartbeat(1)).await;
    assert!(matches!(seen.frame().await, Some(FromWorker::Heartbeat { sequence: 1, .. })));
    let metrics = served.metrics.clone();
    until("the places to be given back", || metrics.connections.get() == 1).await;
    assert_eq!(metrics.connections_refused.get_or_create(&[("reason", "silent")]).get(), 3);
}

#[tokio::test]
async fn a_connection_too_many_is_closed_and_its_place_is_free_again_later() {
    let mut config = config();
    config.listen.caps.per_peer = 2;
    let served = serve(config).await;
    let first = TcpStream::connect(served.address).await.unwrap();
    let _second = TcpStream::connect(served.address).await.unwrap();
    let metrics = served.metrics.clone();
    until("two connections", || metrics.connections.get() == 2).await;
    closed(&mut TcpStream::connect(served.address).await.unwrap()).await;
    assert_eq!(metrics.connections_refused.get_or_create(&[("reason", "per_peer")]).get(), 1);
    drop(first);
    until("a free place", || metrics.connections.get() == 1).await;
    served.channel().await;
}

#[tokio::test]
async fn a_stream_without_a_hello_is_ended() {
    let mut config = config();
    config.session.hello = Duration::from_millis(100);
    let served = serve(config).await;
    let mut worker = Worker::open(served.channel().await).await;
    let status = worker.end().await.unwrap();
    assert_eq!((status.code(), reason(&status)), (tonic::Code::DeadlineExceeded, "HELLO_TIMEOUT".into()));
}

#[tokio::test]
async fn the_first_frame_is_a_hello_and_only_the_first() {
    let mut served = serve(config()).await;
    let channel = served.channel().await;
    let mut early = Worker::open(channel.clone()).await;
    early.send(heartbeat(1)).await;
    assert_eq!(reason(&early.end().await.unwrap()), Code::HelloExpected.as_str());
    let (mut again, _seen) = served.attached(channel).await;
    again.send(Frame::Hello(hello())).await;
    assert_eq!(reason(&again.end().await.unwrap()), Code::HelloExpected.as_str());
}

#[tokio::test]
async fn a_hello_out_of_range_is_refused_by_its_field() {
    use tonic_types::StatusExt as _;
    let served = serve(config()).await;
    let mut worker = Worker::open(served.channel().await).await;
    worker.send(Frame::Hello(v1::Hello { slots: 0, ..hello() })).await;
    let status = worker.end().await.unwrap();
    assert_eq!((status.code(), reason(&status)), (tonic::Code::InvalidArgument, "HELLO_INVALID".into()));
    assert_eq!(status.get_error_details().bad_request().unwrap().field_violations[0].field, "hello.slots");
}

/// A session request of a newer client.
#[derive(Clone, PartialEq, prost::Message)]
struct Newer {
    #[prost(message, optional, tag = "1")]
    hello: Option<v1::Hello>,
    #[prost(bytes = "vec", tag = "99")]
    frame: Vec<u8>,
}

#[tokio::test]
async fn frames_of_a_newer_client_are_ignored() {
    let mut served = serve(config()).await;
    let mut client = tonic::client::Grpc::new(served.channel().await);
    client.ready().await.unwrap();
    let newer = Newer { hello: None, frame: vec![1, 2, 3] };
    let frames = vec![
        newer.clone(),
        Newer { hello: Some(hello()), frame: vec![4] },
        newer.clone(),
        Newer { hello: Some(hello()), frame: Vec::new() },
    ];
    let frames = tokio_stream::iter(frames).chain(tokio_stream::pending());
    let path = "/rosterd.v1.WorkerService/Session".parse().unwrap();
    let codec = tonic_prost::ProstCodec::<Newer, v1::SessionResponse>::default();
    let answer = client.streaming(tonic::Request::new(frames), path, codec).await.unwrap();
    let mut seen = served.seen().await;
    assert!(matches!(seen.frame().await, Some(FromWorker::Hello(_))));
    let status = soon("the end", answer.into_inner().message()).await.unwrap_err();
    assert_eq!(reason(&status), "HELLO_EXPECTED", "the second Hello was reached, past the unknown frame");
}
