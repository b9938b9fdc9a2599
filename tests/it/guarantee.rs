//! Guarantees: the start and the completion of each fire are announced once, to one worker, whatever dies meanwhile.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::*;
use crate::judge::{AuditedRun, Line, Verdict, What};
use crate::worker::{Does, wall};

/// The announcements of a fire of the job, in order of time.
fn announced(lines: &[Line], what: &str) -> Vec<Line> {
    let is = |line: &&Line| line.what == What::Hook && line.detail.starts_with(what);
    let mut found: Vec<Line> = lines.iter().filter(is).cloned().collect();
    found.sort_by_key(|line| line.at);
    found
}

fn all(cron: Option<String>, guarantee: Value) -> String {
    job("all", 4, json!({ "cron": cron, "rosterd": { "guarantee": guarantee } }))
}

fn both() -> Value {
    json!({ "started": true, "completed": true, "timeout_ms": 60_000 })
}

/// Two workers; the callback before a fire is held, so are the runs.
async fn crew(timing: Timing) -> Cluster {
    let mut cluster = Cluster::start(timing).await;
    cluster.apply(all(None, both())).await;
    let home = &cluster.home;
    let does = Does { hooks: true, hold: Some(home.path("hold")), ..runs_until("all", home.path("gate")) };
    cluster.worker("a", vec![does.clone()]);
    cluster.worker("b", vec![does]);
    cluster.assigned("all", 2).await;
    cluster
}

async fn told(cluster: &Cluster, what: &str, times: usize) {
    until(format!("{times} times {what}"), || announced(&cluster.lines(), what).len() >= times).await;
}

async fn mirrors(cluster: &Cluster, folder: &str) -> BTreeSet<String> {
    let prefix = format!("/guarantee/{folder}/");
    cluster
        .dump("all")
        .await
        .into_keys()
        .filter_map(|path| path.strip_prefix(&prefix).map(str::to_owned))
        .collect()
}

fn items(items: &[&str]) -> BTreeSet<String> {
    items.iter().map(ToString::to_string).collect()
}

async fn restart(cluster: &mut Cluster) {
    cluster.kill_coordinator();
    cluster.serve().await;
    wait("both are back", || async { (cluster.instances("all").await.len() == 2).then_some(()) }).await;
}

/// Once each, in this order, with no run outside of them.
async fn ends_well(cluster: &Cluster) -> Verdict {
    told(cluster, "all_completed", 1).await;
    cluster.quiet("all").await;
    wait("the marks to go", || async { mirrors(cluster, "completed").await.is_empty().then_some(()) }).await;
    let (verdict, lines) = (cluster.verdict(), cluster.lines());
    verdict.is_clean();
    assert_eq!(verdict.done("all", "NORMAL_TRIGGER").len(), 4, "\n{}", verdict.table());
    let once = |what: &str| {
        let found = announced(&lines, what);
        assert_eq!(found.len(), 1, "{what}: {found:?}");
        found[0].at
    };
    let (answered, completed) = (once("answered"), once("all_completed"));
    let between = |run: &AuditedRun| run.start > answered && run.stop.unwrap() < completed;
    assert!(verdict.runs.iter().all(between), "\n{}", verdict.table());
    verdict
}

#[tokio::test]
async fn a_fire_is_announced_once_before_and_once_after() {
    let cluster = crew(LONG).await;
    cluster.apply(all(Some(once_soon()), both())).await;
    told(&cluster, "all_started", 1).await;
    // The fire is held: nothing has run a while later.
    let from = wall();
    until("a while", || wall() > from + 700).await;
    assert!(cluster.verdict().runs.is_empty());
    assert_eq!(mirrors(&cluster, "started").await, items(&["0", "1", "2", "3"]));
    cluster.home.open("hold");
    cluster.verdict_when("four runs", |verdict| verdict.of("all").count() == 4).await;
    assert_eq!(mirrors(&cluster, "started").await, items(&[]));
    cluster.home.open("gate.2");
    wait("a mark", || async { (mirrors(&cluster, "completed").await == items(&["2"])).then_some(()) }).await;
    cluster.home.open("gate");
    ends_well(&cluster).await;
    assert_eq!(announced(&cluster.lines(), "all_started").len(), 1);
}

/// The coordinator is killed while the callback is in flight: the worker goes on with it, and is not called twice.
#[tokio::test]
async fn a_restart_before_the_answer_asks_nobody_twice() {
    let mut cluster = crew(LONG).await;
    cluster.apply(all(Some(once_soon()), both())).await;
    told(&cluster, "all_started", 1).await;
    restart(&mut cluster).await;
    cluster.home.open("hold");
    cluster.home.open("gate");
    ends_well(&cluster).await;
    assert_eq!(announced(&cluster.lines(), "all_started").len(), 1);
}

/// The answer comes while there is no coordinator.
#[tokio::test]
async fn an_answer_that_nobody_heard_is_given_again() {
    let mut cluster = crew(LONG).await;
    cluster.apply(all(Some(once_soon()), both())).await;
    told(&cluster, "all_started", 1).await;
    cluster.kill_coordinator();
    cluster.home.open("hold");
    told(&cluster, "answered", 1).await;
    cluster.serve().await;
    cluster.home.open("gate");
    ends_well(&cluster).await;
    assert_eq!(announced(&cluster.lines(), "all_started").len(), 1);
}

/// The coordinator is killed between start and completion, with some items done, and once more after all are.
#[tokio::test]
async fn a_restart_before_the_completion_loses_no_announcement() {
    let mut cluster = crew(LONG).await;
    cluster.home.open("hold");
    cluster.apply(all(Some(once_soon()), both())).await;
    cluster.verdict_when("four runs", |verdict| verdict.of("all").count() == 4).await;
    cluster.home.open("gate.1");
    wait("a mark", || async { (mirrors(&cluster, "completed").await == items(&["1"])).then_some(()) }).await;
    restart(&mut cluster).await;
    assert_eq!(mirrors(&cluster, "completed").await, items(&["1"]));
    cluster.kill_coordinator();
    // They end while no coordinator is up.
    cluster.home.open("gate");
    cluster.verdict_when("all end", |verdict| verdict.done("all", "NORMAL_TRIGGER").len() == 4).await;
    cluster.serve().await;
    ends_well(&cluster).await;
    restart(&mut cluster).await;
    // Another fire is announced, the previous one is not announced again.
    cluster.apply(all(Some(once_soon()), both())).await;
    told(&cluster, "all_completed", 2).await;
    let lines = cluster.lines();
    let fires: BTreeSet<String> =
        announced(&lines, "all_completed").into_iter().map(|line| line.detail).collect();
    assert_eq!((fires.len(), announced(&lines, "all_completed").len()), (2, 2));
}

/// The called worker is killed: another one is called.
#[tokio::test]
async fn a_worker_that_dies_with_the_callback_is_replaced() {
    let mut cluster = crew(SHORT).await;
    cluster.apply(all(Some(once_soon()), both())).await;
    told(&cluster, "all_started", 1).await;
    let asked = announced(&cluster.lines(), "all_started")[0].worker.clone();
    cluster.kill(&asked);
    told(&cluster, "all_started", 2).await;
    let second = announced(&cluster.lines(), "all_started")[1].worker.clone();
    assert_ne!(asked, second);
    cluster.home.open("hold");
    cluster.home.open("gate");
    told(&cluster, "all_completed", 1).await;
    let verdict = cluster.verdict();
    verdict.is_clean();
    // Those of the dead worker were held: they had not started, and are lost without failover.
    assert_eq!(verdict.done("all", "NORMAL_TRIGGER").len(), 2, "\n{}", verdict.table());
}

/// Fires overlap: the next one starts on some items before the last item of this one is done.
#[tokio::test]
async fn a_fire_that_the_next_one_overtakes_is_announced_too() {
    let mut cluster = Cluster::start(LONG).await;
    let guarantee = json!({ "completed": true, "timeout_ms": 60_000 });
    cluster.apply(all(Some(EVERY_SECOND.into()), guarantee)).await;
    let (gate, hooks) = (cluster.home.path("gate"), true);
    cluster.home.open("gate.0");
    cluster.worker("a", vec![Does { hooks, ..runs_until("all", gate) }]);
    cluster
        .verdict_when("fires of item 0", |verdict| verdict.of("all").filter(|run| run.item == 0).count() > 3)
        .await;
    assert_eq!(announced(&cluster.lines(), "all_completed").len(), 0);
    cluster.home.open("gate");
    told(&cluster, "all_completed", 1).await;
    let first = cluster.verdict().of("all").find(|run| run.item == 3).unwrap().fire;
    let told = announced(&cluster.lines(), "all_completed")[0].detail.clone();
    assert_eq!(told, format!("all_completed all {first}"));
}

/// No answer: after the job's timeout the fire still runs, or is skipped if the job says so.
#[tokio::test]
async fn a_callback_that_is_not_answered_in_time_holds_its_fire_no_longer() {
    let mut cluster = Cluster::start(LONG).await;
    let jobs = [("waits", 600_000, "run"), ("runs", 1000, "run"), ("skips", 1000, "skip")];
    let file = |name: &str, cron: Option<&String>, timeout: u32, then: &str| {
        let guarantee = json!({ "started": true, "timeout_ms": timeout, "on_timeout": then });
        job(name, 1, json!({ "cron": cron, "rosterd": { "guarantee": guarantee } }))
    };
    let never = cluster.home.path("never");
    let does = |name: &str| Does { hooks: true, hold: Some(never.clone()), ..runs_for(name, 1) };
    for (name, timeout, then) in jobs {
        cluster.apply(file(name, None, timeout, then)).await;
    }
    cluster.worker("a", jobs.map(|(name, ..)| does(name)).to_vec());
    for (name, ..) in jobs {
        cluster.assigned(name, 1).await;
    }
    for (name, timeout, then) in jobs {
        cluster.apply(file(name, Some(&once_soon()), timeout, then)).await;
    }
    cluster.verdict_when("the run that waits no longer", |verdict| verdict.of("runs").count() == 1).await;
    let skipped =
        |items: &[rosterd_wire::proto::v1::ItemSummary]| items[0].counters.as_ref().unwrap().cancelled == 1;
    cluster.items_when("skips", "it is given up", skipped).await;
    told(&cluster, "all_started", 3).await;
    let verdict = cluster.verdict();
    verdict.is_clean();
    assert_eq!(verdict.of("skips").count() + verdict.of("waits").count(), 0, "\n{}", verdict.table());
}
