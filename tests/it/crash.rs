//! Workers that die, stand still, or cannot be reached: of a job with failover nothing is lost and nothing doubled.

use std::collections::BTreeSet;

use serde_json::json;

use crate::harness::*;
use crate::judge::{Verdict, What};
use crate::net::{self, Net, Way};
use crate::worker::Does;

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

/// The victim's items run again elsewhere; then all may end. Nothing is lost or doubled.
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
            (counters.fired, counters.succeeded, counters.crashed),
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
    cluster.kill("a");
    taken_over(&cluster).await;
    for name in ["rosterd_verdicts_total", "rosterd_jobs", "rosterd_jobs_led"] {
        assert_eq!(cluster.counted(name).await, 1.0, "{name}");
    }
}

#[tokio::test]
async fn a_frozen_worker_that_wakes_stops_before_it_does_anything() {
    let mut cluster = Cluster::start(SHORT).await;
    nine_in_flight(&mut cluster, &[]).await;
    cluster.freeze("a");
    let before = cluster.lines();
    let last_sign = |lines: &[crate::judge::Line]| {
        lines.iter().filter(|line| line.worker == "a" && line.what == What::Tick).count()
    };
    cluster.verdict_when("three failovers", |verdict| verdict.by_source("nine", "FAILOVER").len() == 3).await;
    cluster.thaw("a");
    cluster
        .verdict_when("the woken worker to stop", |verdict| {
            verdict.of("nine").filter(|run| run.worker == "a" && run.stopped_by_order()).count() == 3
        })
        .await;
    let verdict = taken_over(&cluster).await;
    assert!(verdict.of("nine").filter(|run| run.worker == "a").all(|run| !run.ended()));
    // It may look at its clock once before it knows; it may not go on.
    let signs = last_sign(&cluster.lines()) - last_sign(&before);
    assert!(signs <= 3, "{signs} signs of work after it woke");
}

/// Packets vanish without a reset: the old worker's own log says that it stopped before the new run began.
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
async fn a_worker_that_hears_nothing_stops_before_its_items_run_elsewhere() {
    cut_off(&[Way::ToWorker]).await;
}

/// A break that is shorter than the lease moves nothing and stops nothing.
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
    // Longer than the lease of who was cut off: it must have been heard since.
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

#[tokio::test]
async fn without_failover_a_killed_workers_runs_are_crashed_and_the_next_fire_runs_elsewhere() {
    let mut cluster = Cluster::start(SHORT).await;
    cluster.apply(job("once", 2, json!({}))).await;
    let does = vec![runs_until("once", cluster.home.path("gate"))];
    cluster.worker("a", does.clone());
    cluster.worker("b", does);
    cluster.assigned("once", 2).await;
    cluster.trigger("once").await;
    cluster.verdict_when("two runs", |verdict| verdict.of("once").count() == 2).await;
    cluster.kill("a");
    let items = cluster
        .items_when("once", "one crash", |items| {
            items.iter().any(|item| item.counters.as_ref().unwrap().crashed == 1)
        })
        .await;
    assert_eq!(items.iter().map(|item| item.counters.as_ref().unwrap().crashed).sum::<u64>(), 1);
    cluster.assigned("once", 1).await;
    cluster.home.open("gate");
    cluster.quiet("once").await;
    cluster.trigger("once").await;
    let verdict = cluster
        .verdict_when("the next fire", |verdict| verdict.of("once").filter(|run| run.ended()).count() == 3)
        .await;
    verdict.is_clean();
    assert!(verdict.by_source("once", "FAILOVER").is_empty());
}

/// A job may call its workers dead sooner than the lease says.
#[tokio::test]
async fn disconnect_grace_is_a_shorter_lease() {
    let mut cluster = Cluster::start(LONG).await;
    cluster
        .apply(job("graced", 2, json!({ "failover": true, "rosterd": { "disconnect_grace_ms": 1000 } })))
        .await;
    let does = vec![runs_until("graced", cluster.home.path("gate"))];
    cluster.worker("a", does.clone());
    cluster.worker("b", does);
    cluster.assigned("graced", 2).await;
    cluster.trigger("graced").await;
    cluster.verdict_when("two runs", |verdict| verdict.of("graced").count() == 2).await;
    // The grace holds once a heartbeat has said that the worker counts with it.
    let began = std::time::Instant::now();
    until("a few heartbeats", || began.elapsed() > 3 * cluster.timing.heartbeat).await;
    cluster.kill("a");
    let verdict = cluster
        .verdict_when("a failover", |verdict| !verdict.by_source("graced", "FAILOVER").is_empty())
        .await;
    let killed = cluster.lines().into_iter().find(|line| line.what == What::Killed).unwrap().at;
    let took = std::time::Duration::from_nanos(verdict.by_source("graced", "FAILOVER")[0].start - killed);
    println!("failover after {took:?} with a grace of 1 s and a lease of {:?}", cluster.timing.lease);
    assert!(took < cluster.timing.lease / 2, "{took:?}");
    cluster.home.open("gate");
    cluster.quiet("graced").await;
    cluster.verdict().is_clean();
}

/// A worker asked to leave ends what it runs, and leaves no crash behind.
#[tokio::test]
async fn a_worker_that_leaves_causes_no_failover() {
    let mut cluster = Cluster::start(SHORT).await;
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

/// What a leaving worker may not end is handed back, and with failover run elsewhere.
#[tokio::test]
async fn what_a_leaving_worker_cannot_end_is_handed_back() {
    let mut cluster = Cluster::start(SHORT).await;
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

/// `exec` stands still and its program does not: the guard between them ends the program before another worker
/// may run the item.
#[tokio::test]
async fn a_program_whose_worker_stands_still_stops_before_it_runs_elsewhere() {
    let mut cluster = Cluster::start(SHORT).await;
    // Each program says when it last was alive, in nanoseconds.
    let script = r#"f="$1/$ROSTERD_ITEM.$ROSTERD_TOKEN.$ROSTERD_SOURCE.alive"; date +%s%N > "$f.first"
        while [ ! -e "$1/gate" ]; do date +%s%N >> "$f"; sleep 0.02; done"#;
    let dir = cluster.home.path("").display().to_string();
    for name in ["e", "f"] {
        cluster.exec(
            name,
            &["--job", "prog", "--items", "4", "--failover"],
            &["sh", "-c", script, "sh", &dir],
        );
    }
    cluster.assigned("prog", 2).await;
    cluster.trigger("prog").await;
    let home = std::path::PathBuf::from(&dir);
    let times = |end: &str| -> std::collections::BTreeMap<(String, String), u128> {
        let files =
            std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let files = files.filter(|name| name.ends_with(end));
        let entry = |name: String| {
            let mut words = name.split('.').map(str::to_owned);
            let (item, _, source) = (words.next()?, words.next()?, words.next()?);
            Some((
                (item, source),
                std::fs::read_to_string(home.join(&name))
                    .ok()?
                    .lines()
                    .filter_map(|line| line.parse().ok())
                    .next_back()?,
            ))
        };
        files.filter_map(entry).collect()
    };
    until("four programs", || times(".first").len() == 4).await;
    cluster.process("e").freeze();
    let failovers =
        || times(".first").into_iter().filter(|((_, source), _)| source == "FAILOVER").collect::<Vec<_>>();
    until("two failovers", || failovers().len() == 2).await;
    cluster.home.open("gate");
    cluster
        .items_when("prog", "all have succeeded", |items| {
            items.iter().all(|item| item.counters.as_ref().unwrap().succeeded == 1)
        })
        .await;
    for ((item, _), began) in failovers() {
        let last = times(".alive")[&(item.clone(), "MANUAL".to_owned())];
        assert!(
            last < began,
            "item {item}: still alive {} ms after the new run began",
            (last - began) / 1_000_000
        );
    }
}
