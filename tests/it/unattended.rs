//! Jobs without workers: the gauges meanwhile, and the counters afterwards.

use serde_json::json;

use crate::harness::*;

/// The unattended gauges, as scraped: jobs without workers, items without owner.
async fn unattended(cluster: &Cluster) -> (f64, f64) {
    (
        cluster.counted("rosterd_jobs_without_workers").await,
        cluster.counted("rosterd_items_without_owner").await,
    )
}

async fn waits(cluster: &Cluster, jobs_and_items: (f64, f64), at_least: f64, below: f64) {
    wait(format!("{jobs_and_items:?} unattended for {at_least} s to {below} s"), || async {
        let oldest = cluster.counted("rosterd_oldest_waiting_seconds").await;
        (unattended(cluster).await == jobs_and_items && (at_least..below).contains(&oldest)).then_some(())
    })
    .await;
}

/// All workers of a job die, and it fires on: gauges show it meanwhile, and one reason afterwards.
#[tokio::test]
async fn a_job_without_workers_is_told_while_it_has_none_and_its_misses_have_one_reason() {
    let mut cluster = Cluster::start(SHORT).await;
    let page = cluster.page("/metrics").await;
    for series in [
        "rosterd_missed_total{reason=\"no_worker\"} 0",
        "rosterd_missed_total{reason=\"down\"} 0",
        "rosterd_runs_total{outcome=\"crashed\"} 0",
        "rosterd_runs_started_total{source=\"FAILOVER\"} 0",
        "rosterd_commits_total{outcome=\"not_applied\"} 0",
    ] {
        assert!(page.contains(series), "no {series} in\n{page}");
    }
    let policy = json!({ "catch_up_window_ms": 1000, "too_late": "missed" });
    cluster.apply(job("lonely", 3, json!({ "cron": EVERY_SECOND, "rosterd": policy }))).await;
    waits(&cluster, (1.0, 3.0), 2.0, f64::INFINITY).await;
    cluster.worker("a", vec![runs_for("lonely", 10)]);
    cluster.verdict_when("runs", |verdict| verdict.of("lonely").count() >= 6).await;
    waits(&cluster, (0.0, 0.0), 0.0, 1.0).await;
    let before = cluster.counters("lonely").await.missed;
    assert_eq!(before.keys().collect::<Vec<_>>(), ["no_worker"], "it had none from the start");
    cluster.kill("a");
    waits(&cluster, (1.0, 3.0), 4.0, f64::INFINITY).await;
    let runs = cluster.verdict().of("lonely").count();
    cluster.worker("b", vec![runs_for("lonely", 10)]);
    cluster.verdict_when("more runs", |verdict| verdict.of("lonely").count() >= runs + 6).await;
    waits(&cluster, (0.0, 0.0), 0.0, 1.0).await;
    let after = cluster.counters("lonely").await.missed;
    assert_eq!(after.keys().collect::<Vec<_>>(), ["no_worker"], "{after:?}");
    assert!(after["no_worker"] > before["no_worker"], "{before:?}, then {after:?}");
    // While it is disabled it needs no worker.
    cluster.kill("b");
    waits(&cluster, (1.0, 3.0), 0.0, f64::INFINITY).await;
    cluster
        .apply(job("lonely", 3, json!({ "cron": EVERY_SECOND, "disabled": true, "rosterd": policy })))
        .await;
    waits(&cluster, (0.0, 0.0), 0.0, 0.1).await;
}
