//! Many items and jobs at once, and all workers gone.

use std::collections::BTreeSet;

use rosterd_wire::proto::v1;
use serde_json::json;

use crate::fleet::{Fleet, PATIENT, shared};
use crate::harness::*;
use crate::judge::Verdict;

/// Items run, workers come and go: idle items move at once, running ones go on, the others stay where they are.
#[tokio::test]
async fn items_move_while_others_run() {
    let mut fleet = Fleet::start(2, &shared().list(), PATIENT).await;
    fleet.apply(job("mixed", 12, json!({ "rosterd": { "strategy": "STICKY" } }))).await;
    let gate = fleet.home.path("gate");
    let does = vec![runs_until("mixed", gate)];
    fleet.worker_at(0, "a", does.clone());
    fleet.worker_at(1, "b", does.clone());
    fleet.assigned("mixed", 2).await;
    let request = v1::TriggerJobRequest { job: "mixed".into(), items: vec![0, 1, 2], after_current: false };
    fleet.admin().trigger_job(request).await.unwrap();
    fleet.verdict_when("three runs", |verdict| verdict.of("mixed").count() == 3).await;
    let before = fleet.items("mixed").await;
    fleet.worker_at(0, "c", does);
    let after = fleet.assigned("mixed", 3).await;
    let moved = before.iter().zip(&after).filter(|(before, after)| before.owner != after.owner).count();
    assert_eq!(moved, 4, "a third of the items moves, and no more");
    let running = fleet.items("mixed").await.iter().filter(|item| item.running.is_some()).count();
    assert_eq!(running, 3);
    fleet.home.open("gate");
    fleet.quiet("mixed").await;
    fleet.nothing_left().await;
    let verdict = fleet.verdict();
    verdict.is_clean();
    assert_eq!(verdict.done("mixed", "MANUAL"), BTreeSet::from([0, 1, 2]), "\n{}", verdict.table());
}

/// All workers leave. Recent scheduled times are run late when a worker comes; none vanishes.
#[tokio::test]
async fn no_worker_is_left_and_then_one_comes() {
    let mut fleet = Fleet::start(2, &shared().list(), PATIENT).await;
    let catch_up = json!({ "cron": EVERY_SECOND, "rosterd": { "catch_up_window_ms": 600_000 } });
    fleet.apply(job("tick", 2, catch_up)).await;
    fleet.worker_at(0, "a", vec![runs_for("tick", 1)]);
    fleet.verdict_when("two fires", |verdict| verdict.of("tick").count() >= 4).await;
    fleet.process("a").signal(rustix::process::Signal::TERM);
    let status = fleet.process("a").end().await;
    assert!(status.success(), "{status}");
    let left = jiff::Timestamp::now().as_second();
    until("three scheduled times to pass", || jiff::Timestamp::now().as_second() >= left + 4).await;
    fleet.worker_at(1, "b", vec![runs_for("tick", 1)]);
    let now = jiff::Timestamp::now().as_second();
    let caught_up = |verdict: &Verdict| {
        (0..2).all(|item| {
            verdict.of("tick").any(|run| run.item == item && run.worker == "b" && run.fire / 1000 > now + 2)
        })
    };
    fleet.verdict_when("the new worker to have caught up", caught_up).await;
    let verdict = fleet.verdict();
    verdict.is_clean();
    for item in 0..2 {
        let fires: BTreeSet<i64> =
            verdict.of("tick").filter(|run| run.item == item).map(|run| run.fire / 1000).collect();
        let (first, last) = (*fires.first().unwrap(), *fires.last().unwrap());
        assert_eq!(fires, (first..=last).collect(), "item {item}\n{}", verdict.table());
    }
    assert_eq!(fleet.counters("tick").await.crashed, 0);
    fleet.nothing_left().await;
}

/// All are disabled while they run: runs may end, none starts; enabled again, the job goes on.
#[tokio::test]
async fn all_are_disabled_and_enabled_again() {
    let mut fleet = Fleet::start(2, &shared().list(), PATIENT).await;
    fleet.apply(job("tick", 2, json!({ "cron": EVERY_SECOND }))).await;
    for (seat, name) in ["a", "b"].into_iter().enumerate() {
        fleet.worker_at(seat, name, vec![runs_for("tick", 1)]);
    }
    fleet.assigned("tick", 2).await;
    fleet.verdict_when("two fires", |verdict| verdict.of("tick").count() >= 4).await;
    let all = fleet.instances("tick").await;
    let enable = |instance: String, enabled: bool| v1::SetEnabledRequest {
        job: "tick".into(),
        target: Some(v1::set_enabled_request::Target::Instance(instance)),
        enabled,
        ..Default::default()
    };
    for (seat, row) in all.iter().enumerate() {
        fleet.admin_of(1 - seat).set_enabled(enable(row.instance.clone(), false)).await.unwrap();
    }
    fleet.quiet("tick").await;
    let before = fleet.verdict().of("tick").count();
    let at = jiff::Timestamp::now().as_second();
    until("three scheduled times to pass", || jiff::Timestamp::now().as_second() >= at + 4).await;
    assert_eq!(fleet.verdict().of("tick").count(), before);
    for row in &all {
        fleet.admin_of(0).set_enabled(enable(row.instance.clone(), true)).await.unwrap();
    }
    fleet.assigned("tick", 2).await;
    fleet.verdict_when("runs again", |verdict| verdict.of("tick").count() >= before + 4).await;
    fleet.nothing_left().await;
    fleet.verdict().is_clean();
}

/// Ten thousand items: in one assignment, read in pages, taken over as a whole.
#[tokio::test]
async fn ten_thousand_items_are_spread_and_move() {
    let mut fleet = Fleet::start(2, &shared().list(), timing(10_000, 500, 30_000)).await;
    fleet.apply(job("many", 10_000, json!({ "rosterd": { "strategy": "STICKY" } }))).await;
    let does = vec![runs_for("many", 1)];
    for (seat, name) in ["a", "b"].into_iter().enumerate() {
        fleet.worker_at(seat, name, does.clone());
    }
    let owners = |items: &[v1::ItemSummary]| -> BTreeSet<String> {
        items.iter().filter_map(|item| item.owner.clone()).collect()
    };
    let items = fleet.assigned("many", 2).await;
    assert_eq!((items.len(), owners(&items).len()), (10_000, 2));
    fleet.process("a").signal(rustix::process::Signal::TERM);
    assert!(fleet.process("a").end().await.success());
    let items = fleet.assigned("many", 1).await;
    assert_eq!((items.len(), owners(&items).len()), (10_000, 1));
    fleet.nothing_left().await;
}

/// Sixty jobs due in the same second, on three coordinators, one of which dies in the middle.
#[tokio::test]
async fn many_jobs_on_one_second() {
    let mut fleet = Fleet::start(3, &shared().list(), PATIENT).await;
    let names: Vec<String> = (0..60).map(|n| format!("job{n}")).collect();
    let does: Vec<_> = names.iter().map(|name| runs_for(name, 1)).collect();
    // Scheduled times of the first jobs until the last is there, and workers have attached, are run late: none may be
    // missed.
    let patient = json!({ "catch_up_window_ms": 600_000 });
    for name in &names {
        let more = json!({ "cron": "0/2 * * * * ?", "failover": true, "rosterd": patient });
        fleet.apply(job(name, 2, more)).await;
    }
    for (seat, name) in ["a", "b", "c"].into_iter().enumerate() {
        let mut plan = fleet.plan_at(seat, name, does.clone());
        plan.slots = 200;
        fleet.start_worker(&plan, &[]);
    }
    let fires = |verdict: &Verdict| -> Vec<usize> {
        let of = |name: &String| verdict.of(name).map(|run| run.fire).collect::<BTreeSet<_>>().len();
        names.iter().map(of).collect()
    };
    fleet.verdict_when("each job ran twice", |verdict| fires(verdict).iter().all(|fires| *fires >= 2)).await;
    fleet.crash(0);
    let before = fires(&fleet.verdict());
    let more = |verdict: &Verdict| fires(verdict).iter().zip(&before).all(|(now, before)| *now >= before + 3);
    fleet.verdict_when("each job ran three times more", more).await;
    let verdict = fleet.verdict();
    verdict.is_clean();
    for name in &names {
        let counters = fleet.counters(name).await;
        assert_eq!((counters.crashed, counters.missed.len()), (0, 0), "{name}: {counters:?}");
    }
    fleet.nothing_left().await;
}
