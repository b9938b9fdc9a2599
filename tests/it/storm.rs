//! Everything at once: workers killed, frozen and asked to leave, the coordinator killed, while a job fires every
//! second. No run overlaps another, no fire is run twice, and each scheduled time is accounted for exactly once.

use std::collections::BTreeMap;

use serde_json::json;

use crate::harness::*;
use crate::worker::{Does, wall};

const JOBS: [(&str, u32, bool); 3] = [("again", 4, true), ("once", 4, false), ("long", 2, true)];

/// Waits until a worker is there, or has been marked dead.
async fn is_known(cluster: &Cluster, worker: &str, known: bool) {
    let address = format!("host-{worker}");
    wait(format!("{worker} is known: {known}"), || async {
        let instances = cluster.instances("again").await;
        (instances.iter().any(|instance| instance.address == address) == known).then_some(())
    })
    .await;
}

async fn step(cluster: &mut Cluster, n: usize, does: &[Does]) {
    let name = |n: usize| format!("w{n}");
    match n % 4 {
        0 => cluster.kill(&name(n)),
        1 => cluster.process(&name(n)).signal(rustix::process::Signal::TERM),
        2 => {
            is_known(cluster, &name(n), true).await;
            cluster.freeze(&name(n));
            is_known(cluster, &name(n), false).await;
            cluster.thaw(&name(n));
        }
        _ => {
            cluster.kill_coordinator();
            cluster.serve().await;
        }
    }
    cluster.worker(&name(n + 3), does.to_vec());
    let from = wall();
    until("a second", || wall() > from + 1200).await;
}

#[tokio::test]
async fn everything_is_accounted_for_through_a_storm() {
    let mut cluster = Cluster::start(SHORT).await;
    for (name, items, failover) in JOBS {
        cluster.apply(job(name, items, json!({ "cron": EVERY_SECOND, "failover": failover }))).await;
    }
    let does = vec![runs_for("again", 200), runs_for("once", 200), runs_for("long", 1700)];
    for n in 0..3 {
        cluster.worker(&format!("w{n}"), does.clone());
    }
    for (name, _, _) in JOBS {
        cluster.assigned(name, if name == "long" { 2 } else { 3 }).await;
    }
    // Before the first kill: the runs, and the accounts.
    let mut before = BTreeMap::new();
    for (name, _, _) in JOBS {
        cluster.verdict_when("a run", |verdict| verdict.of(name).any(|run| run.ended())).await;
        before.insert(name, cluster.accounts_when_quiet(name).await);
    }
    for n in 0..8 {
        step(&mut cluster, n, &does).await;
    }
    for (name, _, _) in JOBS {
        cluster.paused(name).await;
    }
    let verdict = cluster.verdict();
    verdict.is_clean();
    for (name, _, _) in JOBS {
        cluster.balanced(name, &before[name]).await;
    }
    // Every run that a worker finished is recorded, and no run is recorded as finished without its worker's report.
    let done = verdict.runs.iter().filter(|run| run.ended()).count() as u64;
    let mut succeeded = 0;
    for (name, _, _) in JOBS {
        succeeded += cluster.counters(name).await.succeeded;
    }
    assert!(succeeded <= done, "{succeeded} are said to have succeeded, {done} have");
}
