//! Workers that die, freeze, or cannot be reached: a job with failover loses and duplicates no run.

use std::collections::BTreeSet;

use serde_json::json;

use crate::forms::{Form, Loss, in_each_form, replaced_after_its_stop, works_again};
use crate::harness::*;
use crate::judge::{AuditedRun, Verdict, What};
use crate::net::{self, Net, Way};
use crate::worker::{Does, boot};

/// Nine items on three workers, fired once, all in user code; the gate is closed.
async fn nine_in_flight(cluster: &mut Cluster, victim: &[&str]) {
    let nine =
        |failover: bool, cron: Option<String>| job("nine", 9, json!({ "failover": failover, "cron": cron }));
    cluster.apply(nine(true, None)).await;
    let does = vec![runs_until("nine", cluster.home.path("gate"))];
    for name in ["a", "b", "c"] {
        let mut plan = cluster.plan(name, does.clone());
        plan.address = format!("host-{name}");
        cluster.start_worker(&plan, if name == "a" { victim } else { &[] });
    }
    cluster.assigned("nine", 3).await;
    cluster.apply(nine(true, Some(once_soon()))).await;
    cluster.verdict_when("nine runs", |verdict| verdict.by_source("nine", "NORMAL_TRIGGER").len() == 9).await;
}

/// The items that the victim ran.
fn of_victim(verdict: &Verdict) -> BTreeSet<u32> {
    verdict.of("nine").filter(|run| run.worker == "a").map(|run| run.item).collect()
}

/// What a worker runs, or has run.
fn runs_of(verdict: &Verdict, job: &str, worker: &str) -> Vec<AuditedRun> {
    verdict.of(job).filter(|run| run.worker == worker).cloned().collect()
}

/// The victim's items run again elsewhere; then all may end. Nothing is lost or run twice.
async fn taken_over(cluster: &Cluster) -> Verdict {
    cluster.verdict_when("three failovers", |verdict| verdict.by_source("nine", "FAILOVER").len() == 3).await;
    cluster.home.open("gate");
    let all = |verdict: &Verdict| {
        let ended = verdict.of("nine").filter(|run| run.ended()).map(|run| run.item).collect::<BTreeSet<_>>();
        ended.len() == 9
    };
    cluster.verdict_when("nine ends", all).await;
    let items = cluster.quiet("nine").await;
    let verdict = cluster.verdict();
    verdict.is_clean();
    let lost = of_victim(&verdict);
    assert_eq!(verdict.done("nine", "FAILOVER"), lost, "\n{}", verdict.table());
    assert!(verdict.counts("nine").values().all(|runs| *runs == 1), "\n{}", verdict.table());
    assert_eq!(verdict.of("nine").count(), 12, "\n{}", verdict.table());
    for item in items {
        let counters = item.counters.unwrap();
        let again = u64::from(lost.contains(&item.item));
        assert_eq!(
            (counters.runs, counters.succeeded, counters.crashed),
            (1 + again, 1, again),
            "item {}",
            item.item
        );
    }
    verdict
}

#[tokio::test]
async fn a_killed_workers_items_run_again_and_no_others() {
    let mut cluster = Cluster::start(SHORT).await;
    nine_in_flight(&mut cluster, &[]).await;
    wait("three workers", || async { (cluster.counted("rosterd_workers").await == 3.0).then_some(()) }).await;
    cluster.kill("a");
    taken_over(&cluster).await;
    wait("two workers", || async { (cluster.counted("rosterd_workers").await == 2.0).then_some(()) }).await;
    for name in ["rosterd_workers_expired_total", "rosterd_jobs", "rosterd_jobs_led"] {
        assert_eq!(cluster.counted(name).await, 1.0, "{name}");
    }
}

/// The judge decides what it may do when it resumes, based on the time at which it was resumed.
#[tokio::test]
async fn a_frozen_worker_that_wakes_stops_before_it_does_anything() {
    let mut cluster = Cluster::start(SHORT).await;
    nine_in_flight(&mut cluster, &[]).await;
    let lost = runs_of(&cluster.verdict(), "nine", "a");
    cluster.freeze("a");
    cluster.verdict_when("three failovers", |verdict| verdict.by_source("nine", "FAILOVER").len() == 3).await;
    cluster.thaw("a");
    cluster
        .verdict_when("the woken worker to stop", |verdict| {
            verdict.of("nine").filter(|run| run.worker == "a" && run.stopped_by_order()).count() == 3
        })
        .await;
    let verdict = taken_over(&cluster).await;
    replaced_after_its_stop(true, &verdict, "nine", &lost);
}

/// Packets vanish without a reset: the old worker's own log shows that it stopped before the new run started.
async fn cut_off(ways: &[Way]) {
    if !net::possible() {
        return;
    }
    let net = Net::new();
    let mut cluster = Cluster::prepare(SHORT, &[]);
    cluster.host.clone_from(&net.host);
    cluster.serve().await;
    nine_in_flight(&mut cluster, &net.wrapper()).await;
    net.cut(ways);
    let verdict = taken_over(&cluster).await;
    let margin = |item: &u32| {
        let of =
            |source| verdict.by_source("nine", source).into_iter().find(|run| run.item == *item).unwrap();
        let (old, new) = (of("NORMAL_TRIGGER"), of("FAILOVER"));
        assert!(old.stopped_by_order(), "{old:?}");
        new.start.checked_sub(old.stop.unwrap())
    };
    let margins: Vec<Option<u64>> = of_victim(&verdict).iter().map(margin).collect();
    assert!(
        margins.iter().all(Option::is_some),
        "a new run began before the old one's log says that it stopped\n{}",
        verdict.table()
    );
    let least = margins.into_iter().flatten().min().unwrap_or_default();
    println!("stopped {} ms before the earliest new run", least / 1_000_000);
    // It comes back under another identity, and works.
    net.heal();
    cluster.assigned("nine", 3).await;
    cluster.trigger("nine").await;
    let verdict =
        cluster.verdict_when("nine manual runs", |verdict| verdict.done("nine", "MANUAL").len() == 9).await;
    verdict.is_clean();
}

#[tokio::test]
async fn a_worker_that_cannot_be_reached_stops_before_its_items_run_elsewhere() {
    cut_off(&[Way::FromWorker, Way::ToWorker]).await;
}

#[tokio::test]
async fn a_worker_that_is_not_heard_stops_before_its_items_run_elsewhere() {
    cut_off(&[Way::FromWorker]).await;
}

#[tokio::test]
async fn a_worker_that_receives_nothing_stops_before_its_items_run_elsewhere() {
    cut_off(&[Way::ToWorker]).await;
}

/// A partition shorter than the lease moves nothing and stops nothing.
#[tokio::test]
async fn a_short_break_moves_nothing() {
    if !net::possible() {
        return;
    }
    let net = Net::new();
    let mut cluster = Cluster::prepare(timing(12_000, 300, 24_000), &[]);
    cluster.host.clone_from(&net.host);
    cluster.serve().await;
    nine_in_flight(&mut cluster, &net.wrapper()).await;
    net.cut(&[Way::FromWorker, Way::ToWorker]);
    let from = std::time::Instant::now();
    until("ten heartbeats to be lost", || from.elapsed() > 10 * cluster.timing.heartbeat).await;
    net.heal();
    // Longer than the lease of the worker that was cut off: it must have been active since.
    until("the lease to be over", || from.elapsed() > cluster.timing.lease + 4 * cluster.timing.heartbeat)
        .await;
    cluster.home.open("gate");
    cluster.quiet("nine").await;
    let verdict = cluster.verdict();
    verdict.is_clean();
    assert_eq!(
        (verdict.of("nine").count(), verdict.done("nine", "NORMAL_TRIGGER").len()),
        (9, 9),
        "\n{}",
        verdict.table()
    );
    assert_eq!(cluster.counters("nine").await.crashed, 0);
}

in_each_form!(
    without_failover_a_lost_workers_runs_are_crashed_and_the_next_fire_runs_elsewhere,
    super::without_failover
);

async fn without_failover(form: Form) {
    let Some((loss, mut cluster)) = Loss::on(SHORT, form).await else { return };
    cluster.apply(job("once", 2, json!({}))).await;
    let does = vec![runs_until("once", cluster.home.path("gate"))];
    cluster.start_worker(&cluster.plan("a", does.clone()), &loss.wrapper());
    cluster.worker("b", does);
    cluster.assigned("once", 2).await;
    cluster.trigger("once").await;
    let verdict = cluster.verdict_when("two runs", |verdict| verdict.of("once").count() == 2).await;
    let lost = runs_of(&verdict, "once", "a");
    assert_eq!(lost.len(), 1, "\n{}", verdict.table());
    loss.strike(&mut cluster, "a");
    let crashed = |items: &[rosterd_wire::proto::v1::ItemSummary]| {
        items.iter().map(|item| item.counters.as_ref().unwrap().crashed).sum::<u64>()
    };
    cluster.items_when("once", "one crash", |items| crashed(items) == 1).await;
    cluster.assigned("once", 1).await;
    cluster.home.open("gate");
    cluster.quiet("once").await;
    cluster.trigger("once").await;
    let ended = |verdict: &Verdict| verdict.of("once").filter(|run| run.ended()).count();
    cluster.verdict_when("the next fire", |verdict| ended(verdict) == 3).await;
    // The gate is open: only the order to stop keeps the returning worker from finishing its earlier runs.
    loss.relent(&mut cluster, "a");
    let verdict = loss.stopped(&cluster, "once", &lost).await;
    assert!(
        verdict.of("once").filter(|run| run.ended()).all(|run| run.worker == "b"),
        "\n{}",
        verdict.table()
    );
    verdict.is_clean();
    assert_eq!(crashed(&cluster.quiet("once").await), 1);
    if loss.comes_back() {
        works_again(&cluster, "once", "a").await;
    }
    let verdict = cluster.verdict();
    verdict.is_clean();
    assert!(verdict.by_source("once", "FAILOVER").is_empty());
}

in_each_form!(disconnect_grace_is_a_shorter_lease, super::disconnect_grace);

/// A job may have its workers marked dead sooner than the lease.
async fn disconnect_grace(form: Form) {
    let Some((loss, mut cluster)) = Loss::on(LONG, form).await else { return };
    cluster
        .apply(job("graced", 2, json!({ "failover": true, "rosterd": { "disconnect_grace_ms": 4000 } })))
        .await;
    let does = vec![runs_until("graced", cluster.home.path("gate"))];
    cluster.start_worker(&cluster.plan("a", does.clone()), &loss.wrapper());
    cluster.worker("b", does);
    cluster.assigned("graced", 2).await;
    cluster.trigger("graced").await;
    let verdict = cluster.verdict_when("two runs", |verdict| verdict.of("graced").count() == 2).await;
    let lost = runs_of(&verdict, "graced", "a");
    // The grace applies once a heartbeat has reported that the worker counts with it.
    let began = std::time::Instant::now();
    until("a few heartbeats", || began.elapsed() > 3 * cluster.timing.heartbeat).await;
    let struck = boot();
    loss.strike(&mut cluster, "a");
    let again = |verdict: &Verdict| {
        let failovers = verdict.by_source("graced", "FAILOVER");
        let of_lost = |run: &&&AuditedRun| run.start > struck && lost.iter().any(|old| old.item == run.item);
        failovers.iter().find(of_lost).map(|run| run.start - struck)
    };
    let verdict = cluster.verdict_when("a failover", |verdict| again(verdict).is_some()).await;
    let took = std::time::Duration::from_nanos(again(&verdict).unwrap());
    println!("failover after {took:?} with a grace of 4 s and a lease of {:?}", cluster.timing.lease);
    assert!(took < cluster.timing.lease / 2, "{took:?}");
    loss.relent(&mut cluster, "a");
    let verdict = loss.stopped(&cluster, "graced", &lost).await;
    replaced_after_its_stop(loss.stood_still(), &verdict, "graced", &lost);
    cluster.home.open("gate");
    cluster.quiet("graced").await;
    cluster.verdict().is_clean();
}

// A leaving worker does so by its own request, over a working stream: in these two tests it cannot be killed, frozen or
// cut off, or it would be lost instead of leaving.

/// A worker that is asked to leave finishes its runs, and leaves no crash behind.
#[tokio::test]
async fn a_worker_that_leaves_causes_no_failover() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("left", 4, json!({ "failover": true }))).await;
    let does = vec![runs_until("left", cluster.home.path("gate"))];
    cluster.worker("a", does.clone());
    cluster.worker("b", does);
    cluster.assigned("left", 2).await;
    cluster.trigger("left").await;
    cluster.verdict_when("four runs", |verdict| verdict.of("left").count() == 4).await;
    cluster.process("a").signal(rustix::process::Signal::TERM);
    // Its items go to the other at once, while their runs go on.
    cluster.assigned("left", 1).await;
    cluster.home.open("gate");
    assert!(cluster.process("a").end().await.success());
    cluster.quiet("left").await;
    let verdict = cluster.verdict();
    verdict.is_clean();
    assert_eq!(verdict.of("left").filter(|run| run.ended()).count(), 4, "\n{}", verdict.table());
    assert_eq!(cluster.counters("left").await.crashed, 0);
    assert!(cluster.lines().iter().any(|line| line.what == What::Exit && line.detail == "left"));
}

/// Runs that a leaving worker may not finish are handed back, and with failover run elsewhere.
#[tokio::test]
async fn what_a_leaving_worker_cannot_end_is_handed_back() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("back", 2, json!({ "failover": true }))).await;
    let does: Vec<Does> = vec![runs_until("back", cluster.home.path("gate"))];
    let mut plan = cluster.plan("a", does.clone());
    plan.drain_ms = 100;
    cluster.start_worker(&plan, &[]);
    cluster.worker("b", does);
    cluster.assigned("back", 2).await;
    cluster.trigger("back").await;
    cluster.verdict_when("two runs", |verdict| verdict.of("back").count() == 2).await;
    cluster.process("a").signal(rustix::process::Signal::TERM);
    assert!(cluster.process("a").end().await.success());
    cluster.verdict_when("a failover", |verdict| verdict.by_source("back", "FAILOVER").len() == 1).await;
    cluster.home.open("gate");
    cluster.quiet("back").await;
    cluster.verdict().is_clean();
    let counters = cluster.counters("back").await;
    assert_eq!((counters.crashed, counters.cancelled, counters.succeeded), (0, 1, 2));
}
