//! Streams and leases under paused time.

use std::sync::{Arc, Mutex};

use rosterd_client::embedding::proto::session_response::Frame as Response;
use rosterd_client::embedding::proto::{self, RunOutcome};
use rosterd_client::{Failure, Job, Run, Worker};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::script::*;

#[tokio::test(start_paused = true)]
async fn a_report_in_flight_when_the_stream_is_lost_is_sent_again_to_the_next_coordinator() {
    let mut coordinators = Coordinators::new();
    let gate = Arc::new(Notify::new());
    let opened = gate.clone();
    let worker = Worker::connect("a").server("b").slots(4).address("here").label("zone", "1").job(
        "j",
        move |run: Run| {
            let gate = gate.clone();
            async move {
                if run.item() == 1 {
                    gate.notified().await;
                }
                Ok(format!("item {}", run.item()))
            }
        },
    );
    let worker = drive(worker, &coordinators.net);
    let mut a = coordinators.accept().await;
    assert_eq!(a.address, "a");
    let hello = a.attach(welcome("w1")).await;
    assert_eq!((hello.stream_number, hello.slots, hello.address.as_str()), (1, 4, "here"));
    assert_eq!(hello.labels["zone"], "1");
    assert_eq!(a.registers().await.job, "j");
    a.trigger(0, 5).await;
    a.trigger(1, 6).await;
    let report = a.report().await;
    assert_eq!((report.outcome(), report.output.as_str()), (RunOutcome::Succeeded, "item 0"));

    let lost = Instant::now();
    drop(a);
    let mut b = coordinators.accept().await;
    assert_eq!((b.address.as_str(), lost.elapsed()), ("b", ms(0)), "the next one, at once");
    let hello = b.attach(welcome("w1")).await;
    assert_eq!((hello.stream_number, hello.worker_id.as_str(), hello.resume_key.as_str()), (2, "w1", "key"));
    assert_eq!(hello.runs_in_flight, [run_ref(0, 5), run_ref(1, 6)]);
    b.registers().await;
    b.completes(0, 5, RunOutcome::Succeeded).await;
    opened.notify_one();
    b.completes(1, 6, RunOutcome::Succeeded).await;
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_half_open_stream_is_closed_and_another_opened_while_the_lease_still_runs() {
    let mut coordinators = Coordinators::new();
    let cancelled = Arc::new(Mutex::new(false));
    let saw = cancelled.clone();
    let worker = Worker::connect("a").job("j", move |run: Run| {
        let saw = saw.clone();
        async move {
            run.cancelled().await;
            *saw.lock().unwrap() = true;
            Ok(())
        }
    });
    let worker = drive(worker, &coordinators.net);
    let mut a = coordinators.attach().await;
    a.trigger(0, 1).await;
    a.started().await;
    a.acknowledges = false;
    let deaf_since = Instant::now();
    a.closed().await;
    assert!(deaf_since.elapsed() <= ms(3_400), "{:?}", deaf_since.elapsed());
    let mut b = coordinators.attach().await;
    assert!(deaf_since.elapsed() <= ms(3_400));
    b.live(ms(20_000)).await;
    assert!(b.beats.iter().all(|beat| beat.runs_in_flight == [run_ref(0, 1)]));
    assert!(!*cancelled.lock().unwrap(), "the run never noticed");
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn runs_are_told_to_stop_before_the_lease_ends_less_the_budget_and_dropped_by_its_end() {
    struct DroppedAt(Arc<Mutex<Vec<(&'static str, Instant)>>>);
    impl Drop for DroppedAt {
        fn drop(&mut self) {
            self.0.lock().unwrap().push(("dropped", Instant::now()));
        }
    }
    let mut coordinators = Coordinators::new();
    let times = Arc::new(Mutex::new(Vec::new()));
    let log = times.clone();
    let worker = Worker::connect("a").job("j", move |run: Run| {
        let log = log.clone();
        async move {
            let _dropped = DroppedAt(log.clone());
            run.cancelled().await;
            log.lock().unwrap().push(("told", Instant::now()));
            std::future::pending::<()>().await;
            Ok(())
        }
    });
    let worker = drive(worker, &coordinators.net);
    let mut a = coordinators.attach().await;
    let hello_at = Instant::now();
    a.trigger(0, 1).await;
    a.started().await;
    coordinators.go_down();
    drop(a);
    // Nothing answers from here on: wait for the state; the clock advances by itself.
    while times.lock().unwrap().len() < 2 {
        tokio::time::sleep(ms(10)).await;
    }
    let times = times.lock().unwrap().clone();
    let [(told, told_at), (dropped, dropped_at)] = times[..] else { panic!("{times:?}") };
    assert_eq!((told, dropped), ("told", "dropped"));
    assert!(told_at - hello_at <= ms(4_476), "{:?}", told_at - hello_at);
    assert!(dropped_at - hello_at <= ms(4_976), "{:?}", dropped_at - hello_at);
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_run_stopped_by_its_lease_is_reported_aborted_after_the_next_welcome() {
    let mut coordinators = Coordinators::new();
    let worker = Worker::connect("a").job("j", |run: Run| async move {
        run.cancelled().await;
        Err::<(), _>(Failure::cancelled())
    });
    let worker = drive(worker, &coordinators.net);
    let mut a = coordinators.attach().await;
    a.trigger(0, 1).await;
    a.started().await;
    a.acknowledges = false;
    a.closed().await;
    // Connections are accepted and never answered.
    let since = Instant::now();
    let mut next = loop {
        let mut peer = coordinators.accept().await;
        if since.elapsed() > ms(6_000) {
            break peer;
        }
        peer.closed().await;
    };
    let hello = next.attach(welcome("w1")).await;
    assert_eq!(hello.runs_in_flight, [run_ref(0, 1)]);
    next.completes(0, 1, RunOutcome::Aborted).await;
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_ignores_cancellation_keeps_its_item() {
    let mut coordinators = Coordinators::new();
    let gate = Arc::new(Notify::new());
    let opened = gate.clone();
    let stubborn = Job::new("j").cooperative(true).handler(move |_| {
        let gate = gate.clone();
        async move {
            gate.notified().await;
            Ok(())
        }
    });
    let worker = drive(Worker::connect("a").slots(4).add(stubborn), &coordinators.net);
    let mut a = coordinators.attach().await;
    a.trigger(0, 1).await;
    a.started().await;
    let run = Some(run_ref(0, 1));
    a.say(Response::Cancel(proto::Cancel {
        run,
        reason: proto::CancelReason::Fenced.into(),
        ..Default::default()
    }))
    .await;
    a.live(ms(60_000)).await;
    a.trigger(0, 2).await;
    let report = a.completes(0, 2, RunOutcome::NotStarted).await;
    assert!(report.error.contains("still in user code"), "{}", report.error);
    opened.notify_one();
    a.completes(0, 1, RunOutcome::Aborted).await;
    a.trigger(0, 3).await;
    a.started().await;
    opened.notify_one();
    a.completes(0, 3, RunOutcome::Succeeded).await;
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn dropping_the_worker_is_a_crash() {
    struct Flag(Arc<Mutex<bool>>);
    impl Drop for Flag {
        fn drop(&mut self) {
            *self.0.lock().unwrap() = true;
        }
    }
    let mut coordinators = Coordinators::new();
    let gone = Arc::new(Mutex::new(false));
    let flag = gone.clone();
    let worker = Worker::connect("a").job("j", move |_| {
        let flag = Flag(flag.clone());
        async move {
            let _flag = flag;
            std::future::pending::<()>().await;
            Ok(())
        }
    });
    let worker = drive(worker, &coordinators.net);
    let mut a = coordinators.attach().await;
    a.trigger(0, 1).await;
    a.started().await;
    worker.abort();
    let mut said = Vec::new();
    while let Some(frame) = a.next().await {
        said.push(frame);
    }
    assert_eq!(said, [], "nobody is told");
    tokio::task::yield_now().await;
    assert!(*gone.lock().unwrap(), "the handler went with it");
}

/// The same seed gives the same conversation: a simulation depends on it.
#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_times() {
    let mut traces = Vec::new();
    for seed in [7, 7, 8] {
        let mut coordinators = Coordinators::new();
        let worker = Worker::connect("a").server("b").seed(seed).job("j", |_| async { Ok(()) });
        let worker = drive(worker, &coordinators.net);
        let start = Instant::now();
        let mut trace = Vec::new();
        for _ in 0..6 {
            let peer = coordinators.accept().await;
            trace.push((peer.address.clone(), start.elapsed()));
        }
        worker.abort();
        traces.push(trace);
    }
    assert_eq!(traces[0], traces[1]);
    assert_ne!(traces[0], traces[2]);
}
