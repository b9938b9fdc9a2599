//! User code: panics, attempts, hooks, dataflow, callbacks, what a run can see and report.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use rosterd_client::embedding::proto::session_request::Frame as Request;
use rosterd_client::embedding::proto::session_response::Frame as Response;
use rosterd_client::embedding::proto::{self, RunOutcome, RunSource, Trigger};
use rosterd_client::{Failure, Fire, Job, Outcome, Run, Source, Worker};

use crate::script::*;

type Log = Arc<Mutex<Vec<String>>>;

fn note(log: &Log, line: impl Into<String>) {
    log.lock().unwrap().push(line.into());
}

async fn attached(job: Job) -> (Coordinators, Peer) {
    let mut coordinators = Coordinators::new();
    drive(Worker::connect("a").slots(4).add(job), &coordinators.net);
    let peer = coordinators.attach().await;
    (coordinators, peer)
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_of_the_run_and_the_worker_lives() {
    let job = Job::new("j").handler(|run: Run| async move {
        assert_ne!(run.item(), 0, "item zero is cursed");
        Ok(())
    });
    let (_all, mut a) = attached(job).await;
    a.trigger(0, 1).await;
    let report = a.completes(0, 1, RunOutcome::Failed).await;
    assert!(report.error.contains("item zero is cursed"), "{}", report.error);
    a.trigger(1, 1).await;
    a.completes(1, 1, RunOutcome::Succeeded).await;
    a.trigger(0, 2).await;
    a.completes(0, 2, RunOutcome::Failed).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_sees_its_trigger_and_says_its_counts_offset_and_output() {
    let job = Job::new("j").handler(|run: Run| async move {
        assert_eq!((run.job(), run.item(), run.token(), run.total()), ("j", 2, 9, 4));
        assert_eq!((run.item_parameter(), run.job_parameter()), ("Beijing", "all"));
        assert_eq!((run.source(), run.attempt(), run.instance_id()), (Source::Failover, 1, "here@-@w1"));
        assert_eq!(run.fire_time(), SystemTime::UNIX_EPOCH + Duration::from_secs(60));
        assert_eq!((run.timeout(), run.offset().as_ref()), (Some(ms(9_000)), b"10".as_slice()));
        assert!(run.deadline().is_some());
        run.count(3, 1);
        run.count(2, 0);
        run.set_offset("15")?;
        assert_eq!(run.offset(), "15");
        assert!(run.set_offset(vec![0; 65 * 1024]).is_err());
        run.progress(50, "half");
        tokio::time::sleep(ms(1)).await;
        Ok("x".repeat(70_000))
    });
    let (_all, mut a) = attached(job).await;
    let fire_time = Some(prost_types::Timestamp { seconds: 60, nanos: 0 });
    a.say(Response::Trigger(Trigger {
        fire_time,
        source: RunSource::Failover.into(),
        item_parameter: "Beijing".into(),
        job_parameter: "all".into(),
        offset: "10".into(),
        timeout: ms(9_000).try_into().ok(),
        ..trigger(2, 9)
    }))
    .await;
    let progress = a
        .until(|frame| match frame {
            Request::RunProgress(progress) => Some(progress),
            _ => None,
        })
        .await;
    assert_eq!((progress.percent, progress.message.as_str()), (50, "half"));
    let report = a.completes(2, 9, RunOutcome::Succeeded).await;
    assert_eq!((report.processed, report.failed, report.output.len()), (5, 1, 64 * 1024));
    assert_eq!(report.offset.as_deref(), Some(b"15".as_slice()));
}

#[tokio::test(start_paused = true)]
async fn attempts_follow_under_the_same_token_until_one_succeeds() {
    let job = Job::new("j").handler(|run: Run| async move {
        if run.attempt() < 3 { Err(Failure::new(format!("attempt {}", run.attempt()))) } else { Ok(()) }
    });
    let (_all, mut a) = attached(job).await;
    let begin = tokio::time::Instant::now();
    let retried = Trigger { max_attempts: 5, retry_backoff: ms(2_000).try_into().ok(), ..trigger(0, 1) };
    a.say(Response::Trigger(retried)).await;
    for attempt in 1..=3 {
        let started = a.started().await;
        assert_eq!((started.attempt, started.run), (attempt, Some(run_ref(0, 1))));
    }
    let report = a.completes(0, 1, RunOutcome::Succeeded).await;
    assert_eq!((report.attempt, begin.elapsed()), (3, ms(4_000)));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_drops_a_handler_that_does_not_listen() {
    let job = Job::new("j").handler(|_| async {
        std::future::pending::<()>().await;
        Ok(())
    });
    let (_all, mut a) = attached(job).await;
    a.say(Response::Trigger(Trigger { timeout: ms(1_500).try_into().ok(), ..trigger(0, 1) })).await;
    a.completes(0, 1, RunOutcome::TimedOut).await;
}

#[tokio::test(start_paused = true)]
async fn hooks_surround_every_attempt() {
    let log = Log::default();
    let (before, after, wrong, within) = (log.clone(), log.clone(), log.clone(), log.clone());
    let job = Job::new("j")
        .before(move |run| {
            note(&before, "before");
            async move { if run.item() == 1 { Err(Failure::new("not today")) } else { Ok(()) } }
        })
        .after(move |_, outcome| {
            note(&after, format!("after {}", outcome == Outcome::Succeeded));
            async {}
        })
        .on_error(move |_, error| {
            note(&wrong, error);
            async {}
        })
        .handler(move |_| {
            note(&within, "run");
            async { Ok(()) }
        });
    let (_all, mut a) = attached(job).await;
    a.trigger(0, 1).await;
    a.completes(0, 1, RunOutcome::Succeeded).await;
    a.trigger(1, 1).await;
    a.completes(1, 1, RunOutcome::Failed).await;
    let lines = log.lock().unwrap().join(", ");
    assert_eq!(lines, "before, run, after true, before, not today, after false");
}

#[tokio::test(start_paused = true)]
async fn dataflow_goes_on_while_there_is_something_to_fetch_where_the_job_streams() {
    for (streaming, rounds) in [(true, 3), (false, 1)] {
        let left = Arc::new(Mutex::new(3_u32));
        let job = Job::new("j").dataflow(
            move |_| {
                let mut left = left.lock().unwrap();
                let batch = if *left > 0 { vec![1, 2] } else { vec![] };
                *left = left.saturating_sub(1);
                async move { Ok(batch) }
            },
            |_, records: Vec<i32>| async move {
                assert_eq!(records, [1, 2]);
                Ok(())
            },
        );
        let (_all, mut a) = attached(job).await;
        a.say(Response::Trigger(Trigger { streaming, ..trigger(0, 1) })).await;
        let report = a.completes(0, 1, RunOutcome::Succeeded).await;
        assert_eq!((report.processed, report.failed), (rounds * 2, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn dataflow_stops_between_its_rounds_and_counts_what_failed() {
    let endless = Job::new("j").cooperative(true).dataflow(
        |_| async { Ok(vec![(); 10]) },
        |run: Run, _| async move {
            tokio::time::sleep(ms(100)).await;
            if run.item() == 1 { Err(Failure::fatal("bad record")) } else { Ok(()) }
        },
    );
    let (_all, mut a) = attached(endless).await;
    a.say(Response::Trigger(Trigger { streaming: true, ..trigger(0, 1) })).await;
    a.live(ms(450)).await;
    let run = Some(run_ref(0, 1));
    a.say(Response::Cancel(proto::Cancel { run, ..Default::default() })).await;
    assert_eq!(a.completes(0, 1, RunOutcome::Cancelled).await.processed, 50);
    a.trigger(1, 1).await;
    let report = a.completes(1, 1, RunOutcome::Failed).await;
    assert_eq!((report.processed, report.failed, report.error.as_str()), (10, 10, "bad record"));
}

#[tokio::test(start_paused = true)]
async fn a_blocking_handler_has_a_thread_and_its_panic_is_caught() {
    let job = Job::new("j").blocking(|run: Run| {
        assert!(run.item() == 0, "only zero");
        Ok(())
    });
    let (_all, mut a) = attached(job).await;
    a.trigger(0, 1).await;
    a.completes(0, 1, RunOutcome::Succeeded).await;
    a.trigger(1, 1).await;
    assert!(a.completes(1, 1, RunOutcome::Failed).await.error.contains("only zero"));
}

#[tokio::test(start_paused = true)]
async fn callbacks_are_answered_with_what_the_hook_says() {
    let log = Log::default();
    let seen = log.clone();
    let job = Job::new("j")
        .handler(|_| async { Ok(()) })
        .on_all_started(move |fire: Fire| {
            note(&seen, fire.job);
            async { Ok(()) }
        })
        .on_all_completed(|_| async { Err(Failure::new("no disk")) });
    let (_all, mut a) = attached(job).await;
    for (kind, callback_id, error) in [
        (proto::CallbackKind::AllStarted, "c1", ""),
        (proto::CallbackKind::AllCompleted, "c2", "no disk"),
        (proto::CallbackKind::Unspecified, "c3", ""),
    ] {
        let callback_id = callback_id.to_owned();
        let job = "j".to_owned();
        a.say(Response::Callback(proto::Callback {
            callback_id,
            job,
            kind: kind.into(),
            ..Default::default()
        }))
        .await;
        let done = a
            .until(|frame| match frame {
                Request::CallbackDone(done) => Some(done),
                _ => None,
            })
            .await;
        assert_eq!(done.error, error, "{}", done.callback_id);
    }
    assert_eq!(*log.lock().unwrap(), ["j"]);
}
