//! The Python client against a real coordinator: it works, its items run elsewhere when it is killed, and it leaves
//! cleanly.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::forms::{Form, Loss, in_each_form, replaced_after_its_stop, works_again};
use crate::harness::*;
use crate::judge::What;

/// The interpreter that `cargo xtask setup` prepares.
pub fn interpreter() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let python = target.join("python/bin/python");
    assert!(python.exists(), "{} is missing: run `cargo xtask setup`", python.display());
    python
}

pub fn start(cluster: &mut Cluster, name: &str, job: &str) {
    start_with(cluster, name, job, &[]);
}

/// The same with more in its environment.
pub fn start_with(cluster: &mut Cluster, name: &str, job: &str, environment: &[(&str, &str)]) {
    start_below(cluster, &[], name, job, environment);
}

/// The same, wrapped by another program.
fn start_below(cluster: &mut Cluster, wrapper: &[&str], name: &str, job: &str, environment: &[(&str, &str)]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let plan = json!({
        "server": cluster.url(),
        "name": name,
        "log": cluster.home.path(&format!("{name}.jsonl")),
        "job": job,
        "gate": cluster.home.path("gate"),
    });
    let mut command = below(wrapper, interpreter().to_str().unwrap());
    command.arg(root.join("tests/it/worker.py")).env("PLAN", plan.to_string());
    command.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("ROSTERD_SERVER").env_remove("ROSTERD_CREDENTIAL");
    command.envs(environment.iter().copied());
    let proc = Proc::spawn(name, command, &cluster.home.path(&format!("{name}.log")));
    cluster.workers.push(WorkerProc { name: name.into(), proc });
}

/// Two workers in Python and one in Rust share a job; one of the former is killed, the other leaves.
#[tokio::test]
async fn workers_in_python_are_failed_over_and_leave_in_order() {
    let mut cluster = Cluster::start(SHORT).await;
    cluster
        .apply(job(
            "mixed",
            6,
            json!({ "failover": true, "jobParameter": "all", "shardingItemParameters": "0=Beijing" }),
        ))
        .await;
    start(&mut cluster, "p", "mixed");
    start(&mut cluster, "q", "mixed");
    let gate = cluster.home.path("gate");
    cluster.worker("r", vec![runs_until("mixed", gate)]);
    cluster.assigned("mixed", 3).await;
    cluster.trigger("mixed").await;
    let verdict = cluster.verdict_when("six runs", |verdict| verdict.of("mixed").count() == 6).await;
    let lost: BTreeSet<u32> =
        verdict.of("mixed").filter(|run| run.worker == "p").map(|run| run.item).collect();
    assert_eq!(lost.len(), 2, "\n{}", verdict.table());
    assert!(
        cluster
            .lines()
            .iter()
            .any(|line| line.what == What::Start && line.item == 0 && line.detail == "Beijing|all|6|{}|")
    );
    cluster.kill("p");
    cluster.verdict_when("two failovers", |verdict| verdict.by_source("mixed", "FAILOVER").len() == 2).await;
    cluster.process("q").signal(rustix::process::Signal::TERM);
    cluster.assigned("mixed", 1).await;
    cluster.home.open("gate");
    assert!(cluster.process("q").end().await.success());
    cluster.quiet("mixed").await;
    let verdict = cluster.verdict();
    verdict.is_clean();
    assert_eq!(verdict.done("mixed", "FAILOVER"), lost, "\n{}", verdict.table());
    assert_eq!(verdict.of("mixed").count(), 8, "\n{}", verdict.table());
    let counters = cluster.counters("mixed").await;
    assert_eq!((counters.succeeded, counters.crashed, counters.cancelled), (6, 2, 0));
    assert!(
        cluster
            .lines()
            .iter()
            .any(|line| line.what == What::Exit && line.worker == "q" && line.detail == "left")
    );
    // The offset that Python left is passed on.
    cluster.trigger("mixed").await;
    cluster
        .verdict_when("six more runs", |verdict| verdict.of("mixed").filter(|run| run.ended()).count() == 12)
        .await;
    let offsets =
        cluster.lines().iter().filter(|line| line.what == What::Start && line.detail.ends_with("|x")).count();
    let by_python = verdict.of("mixed").filter(|run| run.ended() && run.worker != "r").count();
    assert_eq!(offsets, by_python);
}

/// A coordinator that is killed and comes back within the lease disturbs no run in Python.
#[tokio::test]
async fn workers_in_python_outlive_their_coordinator() {
    let mut cluster = Cluster::start(timing(20_000, 500, 40_000)).await;
    cluster.apply(job("snake", 3, json!({ "failover": true }))).await;
    start(&mut cluster, "p", "snake");
    cluster.assigned("snake", 1).await;
    cluster.trigger("snake").await;
    cluster.verdict_when("three runs", |verdict| verdict.of("snake").count() == 3).await;
    cluster.kill_coordinator();
    cluster.serve().await;
    wait("it is back", || async { (!cluster.instances("snake").await.is_empty()).then_some(()) }).await;
    cluster.home.open("gate");
    cluster.quiet("snake").await;
    let verdict = cluster.verdict();
    verdict.is_clean();
    assert_eq!(verdict.done("snake", "MANUAL").len(), 3);
    assert_eq!(verdict.of("snake").count(), 3, "\n{}", verdict.table());
    assert_eq!(cluster.counters("snake").await.crashed, 0);
}

in_each_form!(a_worker_in_python_that_is_lost_stops_and_is_not_believed, super::lost);

/// If it comes back, it has a new identity and works again.
async fn lost(form: Form) {
    let Some((loss, mut cluster)) = Loss::on(SHORT, form).await else { return };
    cluster.apply(job("ice", 2, json!({ "failover": true }))).await;
    start_below(&mut cluster, &loss.wrapper(), "p", "ice", &[]);
    cluster.assigned("ice", 1).await;
    cluster.trigger("ice").await;
    let verdict = cluster.verdict_when("two runs", |verdict| verdict.of("ice").count() == 2).await;
    let old: Vec<_> = verdict.of("ice").cloned().collect();
    let gate = cluster.home.path("gate");
    cluster.worker("r", vec![runs_until("ice", gate)]);
    wait("both are known", || async { (cluster.instances("ice").await.len() == 2).then_some(()) }).await;
    loss.strike(&mut cluster, "p");
    cluster.verdict_when("two failovers", |verdict| verdict.by_source("ice", "FAILOVER").len() == 2).await;
    loss.relent(&mut cluster, "p");
    let verdict = loss.stopped(&cluster, "ice", &old).await;
    replaced_after_its_stop(loss.stood_still(), &verdict, "ice", &old);
    cluster.home.open("gate");
    cluster.quiet("ice").await;
    cluster.verdict().is_clean();
    let counters = cluster.counters("ice").await;
    assert_eq!((counters.succeeded, counters.crashed), (2, 2));
    if loss.comes_back() {
        works_again(&cluster, "ice", "p").await;
        cluster.verdict().is_clean();
    }
}
