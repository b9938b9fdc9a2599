//! The coordinator dies by kill -9 and comes back on the same data.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_wire::proto::v1;
use serde_json::json;

use crate::harness::*;
use crate::judge::{AuditedRun, What};
use crate::worker::wall;

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
    assert_eq!((counters.runs, counters.succeeded, counters.crashed), (9, 9, 0));
}

/// Outcomes that could not be reported while it was down are accepted when it is back.
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
    assert_eq!((counters.runs, counters.succeeded, counters.crashed), (9, 9, 0));
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
    assert_eq!((counters.runs, counters.succeeded, counters.crashed), (18, 9, 9));
}

/// How far ahead of its scheduled time a start may be written.
const AHEAD: i64 = 500;
/// The maximum age of a scheduled time that is run late, if not all are.
const WINDOW: i64 = 4000;

/// The scheduled times of a job during which its coordinator was down.
struct Outage {
    /// The last scheduled time before it, and those within it.
    before: i64,
    due: Vec<i64>,
    /// The runs since, in the order of their starts.
    runs: Vec<AuditedRun>,
    /// How late they started, by token.
    late: BTreeMap<u64, i64>,
    missed: u64,
}

impl Outage {
    /// All scheduled times before the first run since are skipped, except the latest if the run stands for them. All
    /// later ones are run, each as such unless it became too old meanwhile.
    #[track_caller]
    fn first_run(&self, source: &str, passed_over: i64) {
        let (first, table) = (&self.runs[0], &self.runs);
        let over = (first.fire - self.before) / 1000 - 1;
        assert_eq!(first.source, source, "{table:#?}");
        assert!(
            over >= passed_over && self.missed >= over.unsigned_abs(),
            "{} missed\n{table:#?}",
            self.missed
        );
        for due in self.due.iter().filter(|due| **due >= first.fire) {
            let stands_for_it = |run: &&AuditedRun| match &*run.source {
                "NORMAL_TRIGGER" => run.fire == *due,
                _ => run.fire >= *due && (run.token == first.token || self.late[&run.token] > WINDOW),
            };
            assert!(self.runs.iter().any(|run| stands_for_it(&run)), "{due}\n{table:#?}");
        }
    }
}

/// Kills the coordinator between two fires, with nothing in flight and nothing written for the next one. Returns the
/// item as of then.
async fn killed_between_fires(cluster: &mut Cluster) -> v1::ItemSummary {
    let since = |item: &v1::ItemSummary| wall() - millis(item.last_fire.as_ref().unwrap());
    for _ in 0..20 {
        let idle = cluster.items_when("down", "the latest run has ended", |items| {
            items[0].running.is_none()
                && items[0].misfire.is_none()
                && (0..AHEAD - 100).contains(&since(&items[0]))
        });
        let item = idle.await.remove(0);
        cluster.kill_coordinator();
        // Otherwise the machine stalled meanwhile.
        if since(&item) < AHEAD {
            return item;
        }
        cluster.serve().await;
    }
    panic!("this machine is too slow for a kill between two fires");
}

/// Every scheduled time during the outage is accounted for, once.
async fn down_for_several_fires(policy: serde_json::Value) -> Outage {
    let mut cluster = Cluster::start(timing(30_000, 500, 60_000)).await;
    cluster.apply(job("down", 1, json!({ "cron": EVERY_SECOND, "rosterd": policy }))).await;
    cluster.worker("a", vec![runs_for("down", 1)]);
    cluster.verdict_when("two runs", |verdict| verdict.of("down").count() >= 2).await;
    let before = killed_between_fires(&mut cluster).await;
    let died = wall() / 1000;
    until("eight scheduled times to pass", || wall() / 1000 >= died + 9).await;
    let back = wall();
    cluster.serve().await;
    let serves = wall();
    // A later fire has run in time, and nothing is in flight: earlier times are decided, and each run is in the log.
    let later = cluster
        .items_when("down", "fires in time again", |items| {
            let last = items[0].last.as_ref();
            items[0].running.is_none()
                && items[0].misfire.is_none()
                && last.is_some_and(|last| {
                    last.source() == v1::RunSource::NormalTrigger
                        && millis(last.fire_time.as_ref().unwrap()) > serves + 2000
                })
        })
        .await
        .remove(0);
    let (a, b) = (before.counters.as_ref().unwrap(), later.counters.as_ref().unwrap());
    let [first, last] = [&before, &later].map(|item| millis(item.last_fire.as_ref().unwrap()));
    let (verdict, tokens) = (cluster.verdict(), before.token + 1..=later.token);
    verdict.is_clean();
    let mut runs: Vec<AuditedRun> =
        verdict.of("down").filter(|run| tokens.contains(&run.token)).cloned().collect();
    runs.sort_by_key(|run| run.token);
    // Runs of scheduled times themselves: all starts, less the runs for merged ones.
    let merged_runs = runs.iter().filter(|run| run.source == "MISFIRE").count() as u64;
    let normal = b.runs - a.runs - merged_runs;
    let misfired = b.misfired - a.misfired;
    let missed = b.missed.values().sum::<u64>() - a.missed.values().sum::<u64>();
    let due = ((last - first) / 1000).unsigned_abs();
    println!(
        "{due} due: {normal} run, {misfired} misfired into {merged_runs}, {missed} missed {:?}",
        b.missed
    );
    assert_eq!(normal + misfired + missed, due, "{a:?} {b:?}\n{}", verdict.table());
    let starts = cluster.lines().into_iter().filter(|line| line.job == "down" && line.what == What::Start);
    let late = starts.map(|line| (line.token, line.wall - line.fire)).collect();
    Outage { before: first, due: (first + 1000..=back).step_by(1000).collect(), runs, late, missed }
}

#[tokio::test]
async fn down_for_several_fires_they_run_late_while_the_window_lasts() {
    let outage = down_for_several_fires(json!({ "catch_up_window_ms": 3_600_000 })).await;
    let first = outage.runs.iter().take(outage.due.len());
    assert!(first.clone().all(|run| run.source == "NORMAL_TRIGGER"), "{:#?}", outage.runs);
    assert_eq!((first.map(|run| run.fire).collect(), outage.missed), (outage.due, 0), "{:#?}", outage.runs);
}

#[tokio::test]
async fn down_for_several_fires_one_run_stands_for_all_of_them() {
    let outage = down_for_several_fires(json!({ "catch_up_window_ms": WINDOW })).await;
    outage.first_run("MISFIRE", 3);
}

#[tokio::test]
async fn down_for_several_fires_they_are_missed_where_the_job_says_so() {
    let policy = json!({ "catch_up_window_ms": WINDOW, "too_late": "missed" });
    down_for_several_fires(policy).await.first_run("NORMAL_TRIGGER", 4);
}

/// SIGTERM: streams are ended cleanly, and the process exits with success.
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

/// It is frozen for longer than a lease: its workers stop by themselves, and it does not act on outdated state.
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
    assert_eq!((counters.runs, counters.succeeded, counters.crashed), (18, 9, 9));
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
    assert_eq!((counters.runs, counters.succeeded, counters.crashed), (18, 9, 9));
    let hosts: BTreeSet<String> =
        cluster.instances("long").await.into_iter().map(|row| row.address).collect();
    assert_eq!(
        hosts,
        BTreeSet::from(["host-d".to_owned(), "host-e".to_owned()]),
        "nothing refers to the dead"
    );
}
