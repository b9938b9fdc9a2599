//! Too much of everything.

use std::sync::atomic::Ordering;
use std::time::Duration;

use prost::Message as _;
use rosterd_session::frame::{FromWorker, ToWorker};
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::admin_service_client::AdminServiceClient;
use rosterd_wire::proto::v1::session_request::Frame;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{JobScope, config, heartbeat, hello, reason, serve, soon, until};

const MANY: u64 = 10_000;

#[tokio::test]
async fn ten_thousand_small_heartbeats_do_not_end_the_connection() {
    let mut served = serve(config()).await;
    let channel = served.channel().await;
    // Nothing reads the frames from this inbox until all are sent.
    let (worker, mut seen) = served.attached(channel.clone()).await;
    for sequence in 1..=MANY {
        worker.send(heartbeat(sequence)).await;
    }
    for sequence in 1..=MANY {
        assert!(
            matches!(seen.frame().await, Some(FromWorker::Heartbeat { sequence: s, .. }) if s == sequence)
        );
    }
    served.attached(channel.clone()).await;
    assert_eq!(served.metrics.connections.get(), 1);
}

/// A heartbeat as it goes over the wire.
fn encoded(sequence: u64) -> bytes::Bytes {
    let frame = v1::SessionRequest { frame: Some(heartbeat(sequence)) }.encode_to_vec();
    let mut message = vec![0];
    message.extend(u32::try_from(frame.len()).unwrap().to_be_bytes());
    message.extend(frame);
    message.into()
}

/// Many libraries send each message in a separate DATA frame; the HTTP/2 stack counts small unread ones, and closes the
/// connection.
#[tokio::test]
async fn ten_thousand_heartbeats_in_frames_of_their_own_do_not_end_the_connection() {
    for inbox in [1_000_000, 100] {
        let mut served = serve(config()).await;
        served.fake.inbox.store(inbox, Ordering::SeqCst);
        let io = TcpStream::connect(served.address).await.unwrap();
        let (client, connection) = h2::client::handshake(io).await.unwrap();
        let connection = tokio::spawn(connection);
        let open = |client: &h2::client::SendRequest<bytes::Bytes>| {
            let request = http::Request::post("http://a/rosterd.v1.WorkerService/Session")
                .header("content-type", "application/grpc")
                .body(())
                .unwrap();
            client.clone().send_request(request, false).unwrap()
        };
        let (answer, mut stream) = open(&client);
        let mut first = v1::SessionRequest { frame: Some(Frame::Hello(hello())) }.encode_to_vec();
        first.splice(0..0, [0, 0, 0, 0, u8::try_from(first.len()).unwrap()]);
        stream.send_data(first.into(), false).unwrap();
        let _body = soon("the head", answer).await.unwrap().into_body();
        let mut seen = served.seen().await;
        assert!(matches!(seen.frame().await, Some(FromWorker::Hello(_))));
        for sequence in 1..=MANY {
            stream.send_data(encoded(sequence), false).unwrap();
        }
        for sequence in 1..=MANY {
            if sequence == 100 {
                // This many were taken. The others wait in the connection until there is room.
                seen.room.add_permits(usize::try_from(MANY).unwrap());
            }
            assert!(
                matches!(seen.frame().await, Some(FromWorker::Heartbeat { sequence: s, .. }) if s == sequence)
            );
        }
        let (answer, _stream) = open(&client);
        soon("the head of another stream", answer).await.unwrap();
        assert!(!connection.is_finished());
    }
}

/// A header with endless frames, empty or full (CVE-2024-27316, RUSTSEC-2024-0332).
#[tokio::test]
async fn a_head_that_never_ends_ends_its_connection_alone() {
    let field = [0, 1, b'a', 1, b'b'];
    for fragment in [Vec::new(), field.repeat(3000)] {
        let mut served = serve(config()).await;
        let channel = served.channel().await;
        served.attached(channel.clone()).await;
        let frame = |kind: u8, stream: u32, payload: &[u8]| {
            let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
            [&length[1..], &[kind, 0], &stream.to_be_bytes(), payload].concat()
        };
        let (mut reads, mut writes) = TcpStream::connect(served.address).await.unwrap().into_split();
        // The preface, settings, and a header without its end.
        let opening =
            [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, &[]), &frame(1, 1, &[])].concat();
        writes.write_all(&opening).await.unwrap();
        let more = frame(9, 1, &fragment);
        let flood = async { while writes.write_all(&more).await.is_ok() {} };
        let mut heard = Vec::new();
        soon("the end of the connection", async {
            tokio::select! {
                () = flood => {}
                _ended = reads.read_to_end(&mut heard) => {}
            }
        })
        .await;
        served.attached(channel).await;
    }
}

/// A worker that sends more than is taken is slowed down: it still receives frames, and no other stream waits.
#[tokio::test]
async fn frames_that_find_no_room_hold_back_their_stream_and_no_other() {
    let mut served = serve(config()).await;
    served.fake.inbox.store(100, Ordering::SeqCst);
    let channel = served.channel().await;
    let (mut worker, mut seen) = served.attached(channel.clone()).await;
    let sender = worker.sender.clone();
    let flood = tokio::spawn(async move {
        let mut sequence = 0;
        while sender.send(v1::SessionRequest { frame: Some(heartbeat(sequence)) }).await.is_ok() {
            sequence += 1;
        }
    });
    for sequence in 0..99 {
        assert!(
            matches!(seen.frame().await, Some(FromWorker::Heartbeat { sequence: s, .. }) if s == sequence)
        );
    }
    assert!(seen.frames.try_recv().is_err(), "there is no room for more");
    seen.to_worker.send(ToWorker::HeartbeatAck { sequence: 7 }).await.unwrap();
    let heard = worker.next().await.unwrap().unwrap().frame;
    assert!(matches!(heard, Some(v1::session_response::Frame::HeartbeatAck(ack)) if ack.sequence == 7));
    // Another stream of the same connection is served.
    served.attached(channel.clone()).await;
    seen.room.add_permits(1000);
    for sequence in 99..1000 {
        assert!(
            matches!(seen.frame().await, Some(FromWorker::Heartbeat { sequence: s, .. }) if s == sequence)
        );
    }
    drop(worker);
    flood.abort();
}

#[tokio::test]
async fn a_frame_too_large_ends_the_stream_with_a_reason() {
    let mut served = serve(config()).await;
    let channel = served.channel().await;
    let (mut worker, _seen) = served.attached(channel.clone()).await;
    let config = "x".repeat(2 << 20);
    let register = v1::Register { job: "j".into(), handler_type: "h".into(), config, overwrite: false };
    worker.send(Frame::Register(register)).await;
    let status = worker.end().await.unwrap();
    assert_eq!(
        (status.code(), reason(&status)),
        (tonic::Code::ResourceExhausted, "MESSAGE_TOO_LARGE".into()),
        "{status:?}"
    );
    let text = "x".repeat(5 << 20);
    let request = v1::ApplyJobsRequest { text, dry_run: false };
    let mut admin = AdminServiceClient::new(channel.clone());
    let status = soon("an answer", admin.apply_jobs(request)).await.unwrap_err();
    assert_eq!(
        (status.code(), reason(&status)),
        (tonic::Code::ResourceExhausted, "MESSAGE_TOO_LARGE".into()),
        "{status:?}"
    );
    assert!(status.message().contains("5242"), "it says how much it was: {}", status.message());
    served.attached(channel).await;
}

fn large() -> ToWorker {
    ToWorker::Shutdown { job: None, message: "m".repeat(60 << 10) }
}

#[tokio::test]
async fn a_worker_that_does_not_read_is_told_so_when_it_does() {
    let mut config = config();
    config.session.stall = Duration::from_secs(5);
    let mut served = serve(config).await;
    let channel = served.channel().await;
    let (mut worker, seen) = served.attached(channel).await;
    let fill = async { while seen.to_worker.send(large()).await.is_ok() {} };
    soon("the end of the conversation", fill).await;
    let status = worker.end().await.unwrap();
    assert_eq!((status.code(), reason(&status)), (tonic::Code::ResourceExhausted, "TOO_SLOW".into()));
}

#[tokio::test]
async fn a_worker_that_never_reads_loses_its_connection() {
    let mut config = config();
    config.session.stall = Duration::from_millis(100);
    let mut served = serve(config).await;
    let channel = served.channel().await;
    let (_worker, seen) = served.attached(channel).await;
    let fill = async { while seen.to_worker.send(large()).await.is_ok() {} };
    soon("the end of the conversation", fill).await;
    let metrics = served.metrics.clone();
    until("the connection to be cut", || metrics.connections.get() == 0).await;
}

/// A frame of HTTP/2.
fn http2(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

#[tokio::test]
async fn streams_opened_and_reset_end_their_own_connection_alone() {
    // Raw: a library does not send a request that is reset before it was sent.
    const POST: &[u8] = &[0x83, 0x86, 0x84, 0x41, 1, b'a'];
    let mut served = serve(config()).await;
    let healthy = served.channel().await;
    let (mut read, mut write) = TcpStream::connect(served.address).await.unwrap().into_split();
    let mut flood = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    flood.extend(http2(4, 0, 0, &[]));
    for stream in (1..40_000).step_by(2) {
        flood.extend(http2(1, 4, stream, POST));
        flood.extend(http2(3, 0, stream, &8_u32.to_be_bytes()));
    }
    let flood = tokio::spawn(async move {
        let _ = write.write_all(&flood).await;
        write
    });
    let mut answers = Vec::new();
    let _ = soon("the connection to be closed", read.read_to_end(&mut answers)).await;
    let _ = soon("the flood's end", flood).await.unwrap();
    served.attached(healthy).await;
}

#[tokio::test]
async fn calls_too_many_are_refused_at_once_and_streams_are_not_calls() {
    let mut config = config();
    (config.calls, config.watchers) = (1, 0);
    let mut served = serve(config).await;
    let channel = served.channel().await;
    served.fake.jobs.lock().unwrap().0 = JobScope::Never;
    let mut admin = AdminServiceClient::new(channel.clone());
    let waiting = tokio::spawn({
        let mut admin = admin.clone();
        async move { admin.list_jobs(v1::ListJobsRequest::default()).await }
    });
    let mut refusals = 0;
    while refusals == 0 {
        // Until the first call has its place.
        match soon("an answer", admin.get_server_info(v1::GetServerInfoRequest {})).await {
            Ok(_) => tokio::task::yield_now().await,
            Err(status) => {
                assert_eq!(
                    (status.code(), reason(&status)),
                    (tonic::Code::ResourceExhausted, "OVERLOADED".into())
                );
                refusals += 1;
            }
        }
    }
    let (_worker, _seen) = served.attached(channel.clone()).await;
    let watch = admin.watch(v1::WatchRequest::default());
    assert_eq!(reason(&soon("an answer", watch).await.unwrap_err()), "OVERLOADED");
    waiting.abort();
}
