//! An acknowledged change is a barrier: no run that it forbids starts afterwards, although runs are sent to workers
//! ahead of their time.

use std::time::Duration;

use rosterd_wire::proto::v1;
use serde_json::json;

use crate::harness::*;
use crate::judge::What;
use crate::python;
use crate::worker::{boot, wall};

/// This long before a scheduled time its run is already written and sent.
const TOLD_MS: i64 = 12;
const ROUNDS: usize = 4;

/// Waits until right before a fire of a job that fires each second.
async fn right_before_a_fire() {
    let left = 1000 - wall().rem_euclid(1000);
    let wait = if left > TOLD_MS { left - TOLD_MS } else { left + 1000 - TOLD_MS };
    tokio::time::sleep(Duration::from_millis(u64::try_from(wait).unwrap())).await;
}

fn starts(cluster: &Cluster, job: &str) -> Vec<crate::judge::Line> {
    let of = |line: &crate::judge::Line| line.what == What::Start && line.job == job;
    cluster.lines().into_iter().filter(of).collect()
}

async fn pauses(cluster: &mut Cluster) {
    cluster.verdict_when("a run", |verdict| verdict.of("often").count() >= 2).await;
    for _ in 0..ROUNDS {
        right_before_a_fire().await;
        cluster.admin().pause_job(v1::PauseJobRequest { job: "often".into() }).await.unwrap();
        let acknowledged = boot();
        let until = wall() + 2000;
        wait("two scheduled times have passed", async || (wall() > until).then_some(())).await;
        let late: Vec<_> =
            starts(cluster, "often").into_iter().filter(|line| line.at > acknowledged).collect();
        assert!(late.is_empty(), "acknowledged at {acknowledged}: {late:?}");
        cluster.admin().resume_job(v1::ResumeJobRequest { job: "often".into() }).await.unwrap();
        let ran = starts(cluster, "often").len();
        cluster.verdict_when("it goes on", |verdict| verdict.of("often").count() > ran).await;
    }
}

#[tokio::test]
async fn nothing_begins_after_an_acknowledged_pause() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("often", 3, json!({ "cron": EVERY_SECOND }))).await;
    cluster.worker("a", vec![runs_for("often", 300)]);
    pauses(&mut cluster).await;
}

#[tokio::test]
async fn nothing_begins_in_python_after_an_acknowledged_pause() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("often", 3, json!({ "cron": EVERY_SECOND }))).await;
    cluster.home.open("gate");
    python::start(&mut cluster, "p", "often");
    pauses(&mut cluster).await;
}

#[tokio::test]
async fn nothing_begins_with_what_was_before_an_acknowledged_apply() {
    let mut cluster = Cluster::start(LONG).await;
    let with = |parameter: &str| job("often", 3, json!({ "cron": EVERY_SECOND, "jobParameter": parameter }));
    cluster.apply(with("0")).await;
    cluster.worker("a", vec![runs_for("often", 300)]);
    cluster.verdict_when("a run", |verdict| verdict.of("often").count() >= 2).await;
    for round in 1..=ROUNDS {
        right_before_a_fire().await;
        let parameter = round.to_string();
        cluster.apply(with(&parameter)).await;
        let acknowledged = boot();
        let after = wait("a run begins", async || {
            let after: Vec<_> =
                starts(&cluster, "often").into_iter().filter(|line| line.at > acknowledged).collect();
            (after.len() >= 3).then_some(after)
        })
        .await;
        for line in after {
            assert_eq!(line.detail.split('|').nth(1), Some(parameter.as_str()), "{line:?}");
        }
    }
}
