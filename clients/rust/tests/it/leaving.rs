//! The leave, and the ways a worker ends.

use std::sync::Arc;

use rosterd_client::embedding::proto::session_response::Frame as Response;
use rosterd_client::embedding::proto::{self, RunOutcome};
use rosterd_client::{Error, Run, Worker};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::script::*;

#[tokio::test(start_paused = true)]
async fn a_leave_finishes_the_runs_and_waits_for_every_acknowledgement() {
    let mut coordinators = Coordinators::new();
    let (leave, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, opened) = (leave.clone(), gate.clone());
    let worker = Worker::connect("a").shutdown(async move { told.notified().await }).job("j", move |_| {
        let gate = gate.clone();
        async move {
            gate.notified().await;
            Ok(())
        }
    });
    let worker = drive(worker, &coordinators.net);
    let mut a = coordinators.attach().await;
    a.trigger(0, 1).await;
    a.started().await;
    leave.notify_one();
    a.asks_to_drain().await;
    a.say(Response::Draining(proto::Draining {})).await;
    a.live(ms(20_000)).await;
    assert!(a.beats.len() >= 19, "heartbeats go on while draining: {}", a.beats.len());
    // The stream ends in the middle of it: the worker asks again on the next one.
    drop(a);
    let mut b = coordinators.attach().await;
    b.asks_to_drain().await;
    b.say(Response::Draining(proto::Draining {})).await;
    opened.notify_one();
    b.completes(0, 1, RunOutcome::Succeeded).await;
    b.says_goodbye().await;
    assert!(!worker.is_finished());
    b.say(Response::GoodbyeAck(proto::GoodbyeAck {})).await;
    assert_eq!(worker.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn runs_that_do_not_end_by_the_drain_timeout_are_handed_back() {
    let mut coordinators = Coordinators::new();
    let worker = Worker::connect("a").drain_timeout(ms(3_000)).job("j", |run: Run| async move {
        run.set_offset("half")?;
        std::future::pending::<()>().await;
        Ok(())
    });
    let worker = drive(worker, &coordinators.net);
    let mut a = coordinators.attach().await;
    a.trigger(0, 1).await;
    a.started().await;
    let asked = Instant::now();
    a.say(Response::Shutdown(proto::Shutdown::default())).await;
    a.asks_to_drain().await;
    a.say(Response::Draining(proto::Draining {})).await;
    let report = a.completes(0, 1, RunOutcome::HandedBack).await;
    assert_eq!(report.offset.as_deref(), Some(b"half".as_slice()));
    assert!(asked.elapsed() <= ms(8_001), "deadline and grace: {:?}", asked.elapsed());
    a.says_goodbye().await;
    a.say(Response::GoodbyeAck(proto::GoodbyeAck {})).await;
    assert_eq!(worker.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_goodbye_that_nobody_answers_is_bounded() {
    let mut coordinators = Coordinators::new();
    let worker = Worker::connect("a").server("b").job("j", |_| async { Ok(()) });
    let mut worker = drive(worker, &coordinators.net);
    let mut a = coordinators.attach().await;
    a.registers().await;
    let asked = Instant::now();
    a.say(Response::Drain(proto::Drain::default())).await;
    let mut peer = a;
    let mut goodbyes = 0;
    let result = loop {
        peer.asks_to_drain().await;
        peer.say(Response::Draining(proto::Draining {})).await;
        peer.says_goodbye().await;
        goodbyes += 1;
        peer.closed().await;
        tokio::select! {
            biased;
            result = &mut worker => break result.unwrap(),
            next = coordinators.attach() => peer = next,
        }
    };
    assert!(matches!(result, Err(Error::LeaveTimedOut { in_flight: 0, .. })), "{result:?}");
    assert!(goodbyes >= 2, "the next coordinator was tried");
    assert!(asked.elapsed() <= ms(10_001), "{:?}", asked.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_only_job_is_refused_ends_with_the_refusal() {
    let mut coordinators = Coordinators::new();
    let worker = drive(Worker::connect("a").job("j", |_| async { Ok(()) }), &coordinators.net);
    let mut a = coordinators.attach().await;
    a.registers().await;
    let refused =
        proto::Refused { job: "j".into(), code: "JOB_UNKNOWN".into(), message: "create it first".into() };
    a.say(Response::Refused(refused)).await;
    a.dismiss().await;
    let Err(Error::Refused { job, code, message, .. }) = worker.await.unwrap() else { panic!("not refused") };
    assert_eq!([job, code, message], ["j", "JOB_UNKNOWN", "create it first"]);
}

#[tokio::test]
async fn what_cannot_work_is_said_at_once() {
    let fine = || Worker::connect("a").job("j", |_| async { Ok(()) });
    let coordinators = Coordinators::new();
    for (worker, about) in [
        (Worker::connect("a"), "no job"),
        (fine().slots(0), "0 slots"),
        (fine().slots(5_000), "5000 slots"),
        (fine().job("j", |_| async { Ok(()) }), "twice"),
        (fine().add(rosterd_client::Job::new("k")), "no handler"),
        (fine().label("k", "v".repeat(129)), "labels"),
    ] {
        let error = drive(worker, &coordinators.net).await.unwrap().unwrap_err();
        assert!(matches!(&error, Error::Options(text) if text.contains(about)), "{error}");
    }
}
