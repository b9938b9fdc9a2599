//! The coordinator dies by kill -9 and comes back on the same data.

use std::collections::BTreeSet;

use serde_json::json;

use crate::harness::*;

async fn nine_in_flight(cluster: &mut Cluster) {
    cluster.apply(job("long", 9, json!({ "failover": true }))).await;
    let does = vec![runs_until("long", cluster.home.path("gate"))];
    for name in ["a", "b", "c"] {
        cluster.worker(name, does.clone());
    }
    cluster.assigned("long", 3).await;
    cluster.trigger("long").await;
    cluster.verdict_when("nine runs", |verdict| verdict.of("long").count() == 9).await;
    cluster
        .items_when("long", "nine are running", |items| items.iter().all(|item| item.running.is_some()))
        .await;
}

async fn instances(cluster: &Cluster) -> BTreeSet<String> {
    cluster.instances("long").await.into_iter().map(|row| row.instance).collect()
}

#[tokio::test]
async fn restarted_within_the_lease_it_moves_nothing() {
    // Long enough for a process to start on a busy machine.
    let mut cluster = Cluster::start(timing(20_000, 500, 40_000)).await;
    nine_in_flight(&mut cluster).await;
    let before = instances(&cluster).await;
    let tokens: Vec<u64> = cluster.items("long").await.iter().map(|item| item.token).collect();
    cluster.kill_coordinator();
    cluster.serve().await;
    wait("the same three instances", || async { (instances(&cluster).await == before).then_some(()) }).await;
    let items = cluster
        .items_when("long", "nine are running", |items| items.iter().all(|item| item.running.is_some()))
        .await;
    assert_eq!(items.iter().map(|item| item.token).collect::<Vec<_>>(), tokens);
    cluster.home.open("gate");
    cluster.quiet("long").await;
    let verdict = cluster.verdict();
    verdict.is_clean();
    assert_eq!(verdict.of("long").count(), 9, "\n{}", verdict.table());
    assert_eq!(verdict.done("long", "MANUAL").len(), 9);
    let counters = cluster.counters("long").await;
    assert_eq!((counters.fired, counters.succeeded, counters.crashed), (9, 9, 0));
}

/// Outcomes that nobody could take while it was away are taken when it is back.
#[tokio::test]
async fn runs_that_end_while_it_is_away_are_not_lost() {
    let mut cluster = Cluster::start(timing(20_000, 500, 40_000)).await;
    nine_in_flight(&mut cluster).await;
    cluster.kill_coordinator();
    cluster.home.open("gate");
    cluster.verdict_when("nine ends", |verdict| verdict.done("long", "MANUAL").len() == 9).await;
    cluster.serve().await;
    cluster.quiet("long").await;
    let verdict = cluster.verdict();
    verdict.is_clean();
    assert_eq!(verdict.of("long").count(), 9, "\n{}", verdict.table());
    let counters = cluster.counters("long").await;
    assert_eq!((counters.fired, counters.succeeded, counters.crashed), (9, 9, 0));
}

#[tokio::test]
async fn restarted_after_the_lease_it_finds_that_workers_stopped_themselves() {
    let mut cluster = Cluster::start(SHORT).await;
    nine_in_flight(&mut cluster).await;
    cluster.kill_coordinator();
    cluster
        .verdict_when("the workers to stop by themselves", |verdict| {
            verdict.of("long").filter(|run| run.stopped_by_order()).count() == 9
        })
        .await;
    cluster.serve().await;
    cluster.verdict_when("nine failovers", |verdict| verdict.by_source("long", "FAILOVER").len() == 9).await;
    cluster.home.open("gate");
    cluster.quiet("long").await;
    let verdict = cluster.verdict();
    verdict.is_clean();
    assert_eq!(verdict.done("long", "FAILOVER").len(), 9, "\n{}", verdict.table());
    assert_eq!(verdict.of("long").count(), 18, "\n{}", verdict.table());
    let counters = cluster.counters("long").await;
    assert_eq!((counters.fired, counters.succeeded, counters.crashed), (18, 9, 9));
}

/// Every due time of the time in which nobody was up is accounted for, once.
async fn down_for_several_fires(policy: serde_json::Value, check: impl Fn(u64, u64, u64)) {
    let mut cluster = Cluster::start(timing(30_000, 500, 60_000)).await;
    cluster.apply(job("down", 1, json!({ "cron": EVERY_SECOND, "rosterd": policy }))).await;
    cluster.worker("a", vec![runs_for("down", 1)]);
    cluster.verdict_when("two runs", |verdict| verdict.of("down").count() >= 2).await;
    // Between two fires, with nothing in flight.
    let before = cluster
        .items_when("down", "the latest run has ended", |items| {
            let into = jiff::Timestamp::now().as_millisecond() - millis(items[0].last_fire.as_ref().unwrap());
            items[0].running.is_none() && items[0].misfire.is_none() && (0..700).contains(&into)
        })
        .await
        .remove(0);
    cluster.kill_coordinator();
    let died = jiff::Timestamp::now().as_second();
    until("eight due times to pass", || jiff::Timestamp::now().as_second() >= died + 9).await;
    cluster.serve().await;
    let back = jiff::Timestamp::now().as_millisecond();
    // A later fire has run in time: what was before is decided.
    let later = cluster
        .items_when("down", "fires in time again", |items| {
            let last = items[0].last.as_ref();
            last.is_some_and(|last| {
                last.source() == rosterd::proto::v1::RunSource::NormalTrigger
                    && millis(last.fire_time.as_ref().unwrap()) > back + 2000
            })
        })
        .await
        .remove(0);
    let (a, b) = (before.counters.unwrap(), later.counters.unwrap());
    let due = (later.last_fire.unwrap().seconds - before.last_fire.unwrap().seconds).unsigned_abs();
    let verdict = cluster.verdict();
    verdict.is_clean();
    // Runs of due times themselves: all starts, less the runs for merged ones.
    let merged_runs = verdict.by_source("down", "MISFIRE").len() as u64;
    let normal = b.fired - a.fired - merged_runs;
    let misfired = b.misfired - a.misfired;
    let missed = b.missed.values().sum::<u64>() - a.missed.values().sum::<u64>();
    println!(
        "{due} due: {normal} run, {misfired} misfired into {merged_runs}, {missed} missed {:?}",
        b.missed
    );
    assert_eq!(normal + misfired + missed, due, "{a:?} {b:?}\n{}", verdict.table());
    check(misfired, merged_runs, missed);
}

#[tokio::test]
async fn down_for_several_fires_they_run_late_while_the_window_lasts() {
    down_for_several_fires(json!({ "catch_up_window_ms": 3_600_000 }), |misfired, _, missed| {
        assert_eq!((misfired, missed), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn down_for_several_fires_one_run_stands_for_all_of_them() {
    down_for_several_fires(json!({ "catch_up_window_ms": 4000 }), |misfired, runs, missed| {
        assert!(misfired + missed >= 4, "{misfired} misfired, {missed} missed");
        assert_eq!((misfired, runs), (1, 1), "the latest runs for all of them");
    })
    .await;
}

#[tokio::test]
async fn down_for_several_fires_they_are_missed_where_the_job_says_so() {
    down_for_several_fires(
        json!({ "catch_up_window_ms": 4000, "too_late": "missed" }),
        |misfired, runs, missed| {
            assert!(missed >= 4, "{missed} missed");
            assert_eq!((misfired, runs), (0, 0));
        },
    )
    .await;
}

/// SIGTERM: streams are ended in order, and the process leaves with success.
#[tokio::test]
async fn stopped_in_order_and_started_again_it_goes_on() {
    let mut cluster = Cluster::with(timing(20_000, 500, 40_000), &["drain_deadline=1s"]).await;
    nine_in_flight(&mut cluster).await;
    let coordinator = cluster.coordinator.as_mut().unwrap();
    coordinator.signal(rustix::process::Signal::TERM);
    assert!(coordinator.end().await.success());
    cluster.serve().await;
    cluster.home.open("gate");
    cluster.quiet("long").await;
    let verdict = cluster.verdict();
    verdict.is_clean();
    assert_eq!(verdict.of("long").count(), 9, "\n{}", verdict.table());
    assert_eq!(cluster.counters("long").await.crashed, 0);
}

/// It stands still for longer than a lease: its workers stop by themselves, and what it believed before is not done.
#[tokio::test]
async fn a_frozen_coordinator_that_wakes_finds_what_its_workers_did() {
    let mut cluster = Cluster::start(SHORT).await;
    nine_in_flight(&mut cluster).await;
    cluster.coordinator.as_ref().unwrap().freeze();
    cluster
        .verdict_when("the workers to stop by themselves", |verdict| {
            verdict.of("long").filter(|run| run.stopped_by_order()).count() == 9
        })
        .await;
    cluster.coordinator.as_ref().unwrap().signal(rustix::process::Signal::CONT);
    cluster.verdict_when("nine failovers", |verdict| verdict.by_source("long", "FAILOVER").len() == 9).await;
    cluster.home.open("gate");
    cluster.quiet("long").await;
    let verdict = cluster.verdict();
    verdict.is_clean();
    assert_eq!(verdict.done("long", "FAILOVER").len(), 9, "\n{}", verdict.table());
    let counters = cluster.counters("long").await;
    assert_eq!((counters.fired, counters.succeeded, counters.crashed), (18, 9, 9));
}

/// Everything dies at once, workers and coordinator; others come and do the work.
#[tokio::test]
async fn when_all_die_others_finish_the_work() {
    let mut cluster = Cluster::start(SHORT).await;
    nine_in_flight(&mut cluster).await;
    cluster.kill_coordinator();
    for name in ["a", "b", "c"] {
        cluster.kill(name);
    }
    cluster.home.open("gate");
    cluster.serve().await;
    let does = vec![runs_until("long", cluster.home.path("gate"))];
    cluster.worker("d", does.clone());
    cluster.worker("e", does);
    cluster.verdict_when("nine failovers", |verdict| verdict.done("long", "FAILOVER").len() == 9).await;
    cluster.quiet("long").await;
    cluster.verdict().is_clean();
    let counters = cluster.counters("long").await;
    assert_eq!((counters.fired, counters.succeeded, counters.crashed), (18, 9, 9));
    let hosts: BTreeSet<String> =
        cluster.instances("long").await.into_iter().map(|row| row.address).collect();
    assert_eq!(
        hosts,
        BTreeSet::from(["host-d".to_owned(), "host-e".to_owned()]),
        "nothing refers to the dead"
    );
}
