//! Scripted workers that do not follow orders in time.

use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::session_request::Frame;
use rosterd_wire::proto::v1::session_response::Frame as Said;
use serde_json::json;

use crate::harness::*;
use crate::raw::{self, Raw};

/// Names the run in its heartbeats, and never ends it: it is told to stop at the timeout, and then the run is taken
/// away.
#[tokio::test]
async fn a_run_that_is_not_ended_at_its_timeout_is_taken_away() {
    let cluster = Cluster::with(LONG, &["timeout_grace=300ms"]).await;
    cluster.apply(job("slow", 1, json!({ "rosterd": { "run_timeout_ms": 300 } }))).await;
    let (mut raw, _) = Raw::attached(cluster.channel(), raw::hello()).await;
    raw.registered("slow").await;
    cluster.assigned("slow", 1).await;
    cluster.trigger("slow").await;
    let run = raw.trigger().await.run.unwrap();
    let runs_in_flight = vec![run.clone()];
    raw.send(Frame::Heartbeat(v1::Heartbeat { sequence: 1, runs_in_flight, ..Default::default() })).await;
    let cancel =
        raw.find("Cancel", |said| if let Said::Cancel(cancel) = said { Some(cancel) } else { None }).await;
    assert_eq!((cancel.run.clone(), cancel.reason()), (Some(run.clone()), v1::CancelReason::TimedOut));
    let items = cluster
        .items_when("slow", "the run is over", |items| items[0].running.is_none() && items[0].last.is_some())
        .await;
    assert_eq!(items[0].last.as_ref().unwrap().outcome(), v1::RunOutcome::TimedOut);
    let ack = raw.report(run, v1::RunOutcome::Succeeded).await;
    assert_eq!(ack.result(), v1::ReportResult::Fenced);
    assert_eq!(cluster.counters("slow").await.timed_out, 1);
}

/// A cancel was acknowledged, and then its worker died: the run is not run again, although the job has failover.
#[tokio::test]
async fn a_cancelled_run_is_not_run_again_when_its_worker_dies() {
    let mut cluster = Cluster::start(SHORT).await;
    cluster.apply(job("again", 1, json!({ "failover": true }))).await;
    let (mut raw, _) = Raw::attached(cluster.channel(), raw::hello()).await;
    raw.registered("again").await;
    cluster.assigned("again", 1).await;
    cluster.trigger("again").await;
    raw.trigger().await;
    cluster.worker("b", vec![runs_for("again", 1)]);
    let cancel = v1::CancelRunRequest { job: "again".into(), item: 0 };
    cluster.admin().cancel_run(cancel).await.unwrap();
    // It falls silent: its lease ends, and with it the run.
    drop(raw);
    let items = cluster
        .items_when("again", "the run is over", |items| items[0].running.is_none() && items[0].last.is_some())
        .await;
    assert_eq!(items[0].last.as_ref().unwrap().outcome(), v1::RunOutcome::Crashed);
    assert!(items[0].crashed.is_none(), "it waits to be run again: {:?}", items[0]);
    // The other one has the item now, and runs the next fire.
    cluster.trigger("again").await;
    let runs = cluster.verdict_when("the next run", |verdict| verdict.of("again").count() >= 1).await;
    assert_eq!(runs.of("again").count(), 1);
    assert_eq!(cluster.counters("again").await.runs, 2);
}

/// Its clock is an hour slow: the coordinator's log reports it, with the worker.
#[tokio::test]
async fn a_worker_whose_clock_is_off_is_named() {
    let cluster = Cluster::start(LONG).await;
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let hello = v1::Hello { sent_at: Some(hour_ago.into()), ..raw::hello() };
    let (_raw, _) = Raw::attached(cluster.channel(), hello).await;
    until("the line", || {
        cluster
            .logged()
            .lines()
            .any(|line| line.contains("behind this coordinator's") && line.contains("by-hand"))
    })
    .await;
}

/// Each worker that runs it dies. It is failed over as often as the job says, then given up, with an event.
#[tokio::test]
async fn a_run_that_kills_its_workers_is_given_up() {
    let cluster = Cluster::start(SHORT).await;
    cluster.apply(job("deadly", 1, json!({ "failover": true, "rosterd": { "max_failovers": 1 } }))).await;
    let mut sources = Vec::new();
    for _ in 0..2 {
        let (mut raw, _) = Raw::attached(cluster.channel(), raw::hello()).await;
        raw.registered("deadly").await;
        if sources.is_empty() {
            cluster.assigned("deadly", 1).await;
            cluster.trigger("deadly").await;
        }
        // It may take as long as the lease of the previous one, and this one must not be dead by then.
        let lives = raw.lives();
        sources.push(raw.trigger().await.source());
        drop(lives);
    }
    assert_eq!(sources, [v1::RunSource::Manual, v1::RunSource::Failover]);
    let items = cluster
        .items_when("deadly", "it is given up", |items| {
            items[0].running.is_none() && items[0].crashed.is_none() && items[0].last.is_some()
        })
        .await;
    assert_eq!(items[0].last.as_ref().unwrap().outcome(), v1::RunOutcome::Crashed);
    let counters = cluster.counters("deadly").await;
    assert_eq!((counters.runs, counters.crashed), (2, 2));
    until("the line", || cluster.logged().contains("2 workers died while they ran it (max_failovers: 1)"))
        .await;
}
