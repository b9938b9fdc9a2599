//! Everything at once: workers killed, frozen and asked to leave, the coordinator killed, while a job fires every
//! second. No run overlaps another, no fire is run twice, and each due time is accounted for exactly once.

use std::collections::BTreeMap;

use serde_json::json;

use crate::harness::*;
use crate::worker::{Does, wall};

const JOBS: [(&str, u32, bool); 3] = [("again", 4, true), ("once", 4, false), ("long", 2, true)];

/// Per item: the latest due time that is accounted for, and how many are by the counters, less runs that stand for
/// other due times.
async fn accounts(cluster: &Cluster, job: &str) -> Vec<(i64, i64)> {
    let verdict = cluster.verdict();
    let items = cluster.items(job).await;
    let account = |item: &rosterd::proto::v1::ItemSummary| {
        let counters = item.counters.as_ref().unwrap();
        let not_due =
            verdict.of(job).filter(|run| run.item == item.item && run.source != "NORMAL_TRIGGER").count();
        let sum =
            counters.fired + counters.misfired + counters.skipped + counters.missed.values().sum::<u64>();
        (item.last_fire.unwrap().seconds, i64::try_from(sum).unwrap() - i64::try_from(not_due).unwrap())
    };
    items.iter().map(account).collect()
}

async fn step(cluster: &mut Cluster, n: usize, does: &[Does]) {
    let name = |n: usize| format!("w{n}");
    match n % 4 {
        0 => cluster.kill(&name(n)),
        1 => cluster.process(&name(n)).signal(rustix::process::Signal::TERM),
        2 => {
            cluster.freeze(&name(n));
            let until_at = wall() + 2500;
            until("its lease to end", || wall() > until_at).await;
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
    // Before the first kill: what was there then, and what was accounted for.
    let mut before = BTreeMap::new();
    for (name, _, _) in JOBS {
        cluster.verdict_when("a run", |verdict| verdict.of(name).any(|run| run.ended())).await;
        before.insert(name, accounts_when_quiet(&cluster, name).await);
    }
    for n in 0..8 {
        step(&mut cluster, n, &does).await;
    }
    for (name, _, _) in JOBS {
        cluster.admin().pause_job(rosterd::proto::v1::PauseJobRequest { job: name.into() }).await.unwrap();
        cluster
            .items_when(name, "no run is in flight", |items| {
                items.iter().all(|item| item.running.is_none() && item.crashed.is_none())
            })
            .await;
    }
    let verdict = cluster.verdict();
    verdict.is_clean();
    for (name, _, _) in JOBS {
        let after = accounts(&cluster, name).await;
        for (item, ((from, old), (to, new))) in before[name].iter().zip(&after).enumerate() {
            assert_eq!(new - old, to - from, "{name}/{item}: due times since {from}\n{}", verdict.table());
        }
        let counters = cluster.counters(name).await;
        println!("{name}: {counters:?}");
        let ended =
            counters.succeeded + counters.failed + counters.cancelled + counters.crashed + counters.timed_out;
        assert_eq!(counters.fired, ended, "{name}");
    }
    // Every run that a worker saw to its end is believed; what is believed without a worker's word is none.
    let done = verdict.runs.iter().filter(|run| run.ended()).count() as u64;
    let mut succeeded = 0;
    for (name, _, _) in JOBS {
        succeeded += cluster.counters(name).await.succeeded;
    }
    assert!(succeeded <= done, "{succeeded} are said to have succeeded, {done} have");
}

/// The accounts at a moment at which each run that is counted is in a worker's log.
async fn accounts_when_quiet(cluster: &Cluster, job: &str) -> Vec<(i64, i64)> {
    wait("a quiet moment", || async {
        let fired = |counted: &rosterd::proto::v1::Counters| counted.fired;
        let first = cluster.counters(job).await;
        let accounts = accounts(cluster, job).await;
        let same = cluster.verdict().of(job).count() as u64 == fired(&first)
            && fired(&cluster.counters(job).await) == fired(&first);
        same.then_some(accounts)
    })
    .await
}
