//! A machine whose clock was wrong and is corrected, or the reverse.

use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::harness::*;
use crate::worker::wall;

const HOUR: i64 = 3_600_000;

/// Its items are not silent until then, and an alarm is logged.
#[tokio::test]
async fn a_clock_that_was_five_hours_ahead_is_set_right_and_the_log_says_so() {
    let mut cluster =
        Cluster::with_mutants(timing(8000, 500, 20_000), &[("clock-ahead-ms", "18000000")]).await;
    cluster.apply(job("tick", 1, json!({ "cron": EVERY_SECOND }))).await;
    cluster.worker("w", vec![runs_for("tick", 1)]);
    let ahead = wall() + HOUR;
    cluster
        .verdict_when("runs ahead of their time", |verdict| {
            verdict.of("tick").filter(|run| run.fire > ahead).count() >= 2
        })
        .await;
    cluster.kill_coordinator();
    cluster.mutant("clock-ahead-ms", "0");
    cluster.serve().await;
    cluster
        .verdict_when("runs in time", |verdict| {
            verdict.of("tick").filter(|run| run.fire < ahead).count() >= 2
        })
        .await;
    let logged = cluster.logged();
    assert!(logged.contains("ALARM: the last fire of an item"), "{logged}");
}

/// Fires that ran by the clock that was ahead are not run again, which keeps the item silent; operators are told why,
/// and can trigger it manually.
#[tokio::test]
async fn an_item_that_is_silent_since_a_clock_was_an_hour_ahead_is_an_alarm() {
    let mut cluster =
        Cluster::with_mutants(timing(8000, 500, 20_000), &[("clock-ahead-ms", "3600000")]).await;
    cluster.apply(job("tick", 1, json!({ "cron": EVERY_SECOND }))).await;
    cluster.worker("w", vec![runs_for("tick", 1)]);
    cluster.verdict_when("runs ahead of their time", |verdict| verdict.of("tick").count() >= 2).await;
    assert!(!cluster.logged().contains("The item is silent until then"), "{}", cluster.logged());
    cluster.kill_coordinator();
    cluster.mutant("clock-ahead-ms", "0");
    cluster.serve().await;
    until("the alarm", || cluster.logged().contains("The item is silent until then")).await;
    assert_eq!(cluster.logged().matches("The item is silent").count(), 1, "told once: {}", cluster.logged());
    cluster.quiet("tick").await;
    cluster.trigger("tick").await;
    let verdict = cluster
        .verdict_when("a run by hand", |verdict| !verdict.by_source("tick", "MANUAL").is_empty())
        .await;
    let now = wall() + HOUR / 2;
    let early = |run: &&crate::judge::AuditedRun| run.source != "MANUAL" && run.fire < now;
    assert_eq!(verdict.of("tick").filter(early).count(), 0, "\n{}", verdict.table());
}

#[tokio::test]
async fn a_clock_that_is_behind_the_last_write_of_the_store_is_told_at_the_start() {
    let mut cluster = Cluster::start(timing(8000, 500, 20_000)).await;
    cluster.apply(job("tick", 1, json!({}))).await;
    cluster.kill_coordinator();
    cluster.serve().await;
    let said = "ALARM: the store was last written at";
    assert!(!cluster.logged().contains(said), "{}", cluster.logged());
    cluster.kill_coordinator();
    for entry in std::fs::read_dir(&cluster.data).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            file.set_modified(SystemTime::now() + Duration::from_secs(5 * 3600)).unwrap();
        }
    }
    cluster.serve().await;
    assert!(cluster.logged().contains(said), "{}", cluster.logged());
}
