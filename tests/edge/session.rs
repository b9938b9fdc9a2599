//! A worker's stream after its Hello.

use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::{FromWorker, ToWorker};
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::session_request::Frame;
use rosterd_wire::proto::v1::session_response::Frame as Out;

use crate::support::{Worker, config, heartbeat, hello, reason, serve, until};
use crate::told::OUTBOX;

#[tokio::test]
async fn frames_go_both_ways_in_order() {
    let mut served = serve(config()).await;
    let channel = served.channel().await;
    let (mut worker, mut seen) = served.attached(channel).await;
    assert!(seen.peer.address.starts_with("127.0.0.1:"), "{:?}", seen.peer);
    for sequence in 1..=100 {
        worker.send(heartbeat(sequence)).await;
        assert!(
            matches!(seen.frame().await, Some(FromWorker::Heartbeat { sequence: s, .. }) if s == sequence)
        );
        seen.to_worker.send(ToWorker::HeartbeatAck { sequence }).await.unwrap();
        let Some(Out::HeartbeatAck(ack)) = worker.next().await.unwrap().unwrap().frame else { panic!() };
        assert_eq!(ack.sequence, sequence);
    }
}

#[tokio::test]
async fn an_orderly_close_ends_the_stream_well_after_its_last_frame() {
    let mut served = serve(config()).await;
    let channel = served.channel().await;
    let (mut worker, seen) = served.attached(channel).await;
    seen.to_worker.send(ToWorker::GoodbyeAck).await.unwrap();
    seen.to_worker.send(ToWorker::Close(None)).await.unwrap();
    assert!(matches!(worker.next().await.unwrap().unwrap().frame, Some(Out::GoodbyeAck(_))));
    assert!(worker.next().await.unwrap().is_none());
}

#[tokio::test]
async fn every_refusal_is_the_status_of_its_class() {
    use rosterd_wire::status::grpc;
    let mut served = serve(config()).await;
    let channel = served.channel().await;
    for &code in Code::ALL {
        let (mut worker, seen) = served.attached(channel.clone()).await;
        let refusal = Refusal::new(code, "because of this: do that");
        seen.to_worker.send(ToWorker::Close(Some(refusal.clone()))).await.unwrap();
        let status = worker.end().await.unwrap();
        assert_eq!((status.code(), reason(&status)), (grpc(code.class()), code.to_string()));
        assert_eq!(status.message(), "because of this: do that");
    }
    *served.fake.refuse.lock().unwrap() = Some(Refusal::new(Code::Draining, "elsewhere"));
    let mut worker = Worker::open(channel).await;
    worker.send(Frame::Hello(hello())).await;
    assert_eq!(reason(&worker.end().await.unwrap()), "DRAINING");
}

#[tokio::test]
async fn a_worker_that_leaves_ends_its_conversation() {
    let mut served = serve(config()).await;
    let channel = served.channel().await;
    let (worker, mut seen) = served.attached(channel).await;
    drop(worker);
    assert_eq!(seen.frame().await, None);
    let metrics = served.metrics.clone();
    until("the stream to be gone", || metrics.streams.get() == 0).await;
}

#[tokio::test]
async fn after_its_last_frame_a_worker_still_hears_the_end() {
    let mut served = serve(config()).await;
    let channel = served.channel().await;
    let (mut worker, mut seen) = served.attached(channel).await;
    worker.send(Frame::Goodbye(v1::Goodbye {})).await;
    drop(std::mem::replace(&mut worker.sender, tokio::sync::mpsc::channel(1).0));
    assert!(matches!(seen.frame().await, Some(FromWorker::Goodbye)));
    seen.to_worker.send(ToWorker::GoodbyeAck).await.unwrap();
    seen.to_worker.send(ToWorker::Close(None)).await.unwrap();
    assert!(matches!(worker.next().await.unwrap().unwrap().frame, Some(Out::GoodbyeAck(_))));
    assert!(worker.next().await.unwrap().is_none());
}

#[tokio::test]
async fn a_report_that_breaks_a_rule_is_answered_and_the_stream_goes_on() {
    let mut served = serve(config()).await;
    let channel = served.channel().await;
    let (mut worker, mut seen) = served.attached(channel).await;
    let run = Some(v1::RunRef { job: "j".into(), item: 1, token: 7 });
    let report = v1::RunCompleted {
        run: run.clone(),
        outcome: v1::RunOutcome::Succeeded.into(),
        offset: Some(vec![0; (64 << 10) + 1].into()),
        ..Default::default()
    };
    worker.send(Frame::RunCompleted(report)).await;
    let Some(Out::ReportAck(ack)) = worker.next().await.unwrap().unwrap().frame else { panic!() };
    assert_eq!((ack.result(), &ack.run), (v1::ReportResult::Invalid, &run));
    worker.send(heartbeat(1)).await;
    assert!(matches!(seen.frame().await, Some(FromWorker::Heartbeat { .. })));
}

#[tokio::test]
async fn a_worker_reads_what_waits_before_the_end_that_the_coordinator_gives() {
    let mut served = serve(config()).await;
    let channel = served.channel().await;
    for (close, expected) in [
        (Some(Refusal::new(Code::TooSlow, "frames wait for this worker")), "TOO_SLOW"),
        // The coordinator stops without a word.
        (None, "DRAINING"),
    ] {
        let (mut worker, seen) = served.attached(channel.clone()).await;
        let count = u64::try_from(OUTBOX).unwrap();
        for sequence in 1..=count {
            seen.to_worker.send(ToWorker::HeartbeatAck { sequence }).await.unwrap();
        }
        if let Some(refusal) = close {
            seen.to_worker.send(ToWorker::Close(Some(refusal))).await.unwrap();
        }
        drop(seen);
        for sequence in 1..=count {
            let Some(Out::HeartbeatAck(ack)) = worker.next().await.unwrap().unwrap().frame else { panic!() };
            assert_eq!(ack.sequence, sequence);
        }
        assert_eq!(reason(&worker.end().await.unwrap()), expected);
    }
}
