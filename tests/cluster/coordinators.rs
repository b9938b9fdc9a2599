//! Coordinators die, freeze, leave and come back. Their workers go on elsewhere before they are marked dead; nothing is
//! lost or run twice.

use std::collections::{BTreeSet, HashMap};

use rosterd_wire::proto::v1;
use rustix::process::Signal;
use serde_json::json;

use crate::fleet::{EVERY_THIRD, Fleet, Member, PATIENT, QUICK, fires, rounds, shared};
use crate::harness::*;
use crate::judge::Verdict;
use crate::worker::wall;

const WORKERS: [&str; 3] = ["a", "b", "c"];

/// No scheduled time between the first and the last is missing, for a job with this period in seconds.
#[track_caller]
fn no_gap(verdict: &Verdict, seconds: usize) {
    let fires = fires(verdict);
    let (first, last) = (*fires.first().unwrap(), *fires.last().unwrap());
    assert_eq!(fires, (first..=last).step_by(seconds).collect(), "\n{}", verdict.table());
}

/// The dead coordinator's own node still existed when its worker had attached elsewhere, so no other can have marked it
/// dead.
#[tokio::test]
async fn workers_of_a_dead_host_go_on_elsewhere_before_its_session_ends() {
    let mut fleet = Fleet::start(3, &shared().list(), PATIENT).await;
    fleet.nine_in_flight(&WORKERS, &[]).await;
    let dead = fleet.members().await.into_iter().find(|member| member.url == fleet.url_of(0)).unwrap();
    fleet.crash(0);
    fleet.hosted_by("nine", 3, &[1, 2]).await;
    let members = fleet.members().await;
    assert!(
        members.iter().any(|member| member.coordinator_id == dead.coordinator_id),
        "the dead coordinator's node had gone before its worker was elsewhere: {members:?}"
    );
    fleet.nine_done_once().await;
}

/// A frozen one cannot report it: the age of its last proof shows it, as long as its node exists.
#[tokio::test]
async fn the_proof_of_a_frozen_coordinator_grows_old() {
    let fleet = Fleet::start(2, &shared().list(), timing(6000, 500, 40_000)).await;
    let of = |members: Vec<Member>, seat: usize| members.into_iter().find(|m| m.url == fleet.url_of(seat));
    let asked = of(fleet.members().await, 0).unwrap();
    assert!(asked.asked && asked.state() == v1::ServerHealth::Serving, "{asked:?}");
    fleet.seats[1].proc.as_ref().unwrap().freeze();
    // It writes its node every ten seconds unless something prevents it.
    let still = wait("a proof that is older than any of a coordinator that is well", || async {
        let members = fleet.members().await;
        let asked = of(members.clone(), 0)?;
        assert!(asked.proved_ago.as_ref().is_some_and(|ago| ago.seconds < 40), "{asked:?}");
        of(members, 1).filter(|still| still.proved_ago.as_ref().is_some_and(|ago| ago.seconds > 11))
    })
    .await;
    assert!(!still.asked && still.state() == v1::ServerHealth::Serving, "{still:?}");
    fleet.seats[1].proc.as_ref().unwrap().signal(Signal::CONT);
    wait("a new proof of it", || async {
        of(fleet.members().await, 1).filter(|m| m.proved_ago.as_ref().is_some_and(|ago| ago.seconds < 10))
    })
    .await;
}

/// Each coordinator dies in turn, until one is left.
#[tokio::test]
async fn the_last_coordinator_has_all_workers() {
    let mut fleet = Fleet::start(3, &shared().list(), PATIENT).await;
    fleet.nine_in_flight(&WORKERS, &[]).await;
    fleet.crash(2);
    fleet.hosted_by("nine", 3, &[0, 1]).await;
    fleet.crash(0);
    fleet.hosted_by("nine", 3, &[1]).await;
    fleet.nine_done_once().await;
}

/// Scheduled times while no coordinator is up: those of one job are all run late; those of the other, which does not
/// run any older than a second, are recorded as missed. The nine runs in flight go on.
#[tokio::test]
async fn all_coordinators_die_and_come_back_within_the_lease() {
    let mut fleet = Fleet::start(3, &shared().list(), timing(20_000, 500, 40_000)).await;
    let window = |ms: u32| json!({ "catch_up_window_ms": ms, "too_late": "missed" });
    fleet.apply(job("tick", 3, json!({ "cron": EVERY_SECOND, "rosterd": window(600_000) }))).await;
    fleet.apply(job("fresh", 3, json!({ "cron": EVERY_SECOND, "rosterd": window(1000) }))).await;
    for (seat, name) in ["x", "y", "z"].into_iter().enumerate() {
        fleet.worker_at(seat, name, vec![runs_for("tick", 1), runs_for("fresh", 1)]);
    }
    fleet.assigned("tick", 3).await;
    fleet.assigned("fresh", 3).await;
    fleet.more_fires(3).await;
    let before = fleet.accounts_so_far("tick").await;
    let fresh = fleet.accounts_so_far("fresh").await;
    let missed = fleet.counters("fresh").await.missed;
    fleet.nine_in_flight(&WORKERS, &[]).await;
    // An item in flight when they die is busy at its scheduled times until its worker is back.
    fleet.crash_between_runs(&[0, 1, 2], &["tick", "fresh"]).await;
    let dead = wall();
    until("three scheduled times to pass", || wall() > dead + 4000).await;
    let due: BTreeSet<i64> = (dead / 1000 + 1..=wall() / 1000).collect();
    for seat in 0..3 {
        fleet.launch(seat);
    }
    for seat in 0..3 {
        fleet.serving(seat).await;
    }
    let back = wall();
    fleet.hosted_by("nine", 3, &[0, 1, 2]).await;
    for name in ["tick", "fresh"] {
        let later = |verdict: &Verdict, item| verdict.of(name).any(|run| run.item == item && run.fire > back);
        fleet.verdict_when("new scheduled times", |verdict| (0..3).all(|item| later(verdict, item))).await;
    }
    let verdict = fleet.nine_done_once().await;
    for item in 0..3 {
        let own = verdict.of("tick").filter(|run| run.item == item && run.source == "NORMAL_TRIGGER");
        let late = own.map(|run| run.fire / 1000).filter(|fire| due.contains(fire)).collect::<BTreeSet<_>>();
        assert_eq!(late, due, "item {item}\n{}", verdict.table());
    }
    for name in ["tick", "fresh"] {
        fleet.paused(name).await;
    }
    let counters = fleet.balanced("tick", &before).await;
    assert_eq!(counters.crashed, 0, "{counters:?}");
    let told = fleet.balanced("fresh", &fresh).await.missed;
    let more = |reason: &str| {
        let count = |of: &HashMap<String, u64>| of.get(reason).copied().unwrap_or_default();
        count(&told) - count(&missed)
    };
    let others = told.keys().filter(|reason| !matches!(reason.as_str(), "down" | "too_late" | "paused"));
    assert_eq!(others.map(|reason| more(reason)).sum::<u64>(), 0, "{told:?}, before {missed:?}");
    assert!(more("down") + more("too_late") >= 3 * 3, "{told:?}, before {missed:?}");
    fleet.verdict().is_clean();
}

/// The seat where most instances of a job are hosted.
async fn fullest(fleet: &Fleet, job: &str) -> usize {
    let hosts = fleet.hosts(job).await;
    let streams = |seat: &usize| hosts.iter().filter(|(_, host)| host == seat).count();
    (0..fleet.seats.len()).max_by_key(streams).unwrap()
}

/// The coordinator that hosts most workers dies, and comes back, again and again: no worker is marked dead, and every
/// fire of every item runs once. Only an item with a run in flight is busy until the next host learns of its end: its
/// scheduled times meanwhile are one misfire. `ROUNDS=100` for more than the suite has time for.
#[tokio::test]
async fn a_host_that_dies_costs_no_fire() {
    let mut fleet = Fleet::start(3, &shared().list(), PATIENT).await;
    fleet.nine_in_flight(&WORKERS, &[]).await;
    fleet.apply(job("tick", 3, json!({ "cron": EVERY_SECOND, "failover": true }))).await;
    for (seat, name) in ["x", "y", "z"].into_iter().enumerate() {
        fleet.worker_at(seat, name, vec![runs_for("tick", 1)]);
    }
    fleet.assigned("tick", 3).await;
    fleet.more_fires(3).await;
    let mut busy = Vec::new();
    for _ in 0..rounds(5) {
        let dead = fullest(&fleet, "tick").await;
        let others: Vec<usize> = (0..3).filter(|seat| *seat != dead).collect();
        fleet.stand_still(&[dead], true);
        let (from, in_flight) = (wall(), fleet.in_flight("tick").await);
        fleet.crash(dead);
        fleet.hosted_by("tick", 3, &others).await;
        fleet.hosted_by("nine", 3, &others).await;
        fleet.more_fires_at_all(2).await;
        busy.push((in_flight, from..wall()));
        fleet.launch(dead);
        fleet.serving(dead).await;
    }
    fleet.nine_done_once().await;
    let verdict = all_have_fired(&fleet).await;
    verdict.is_clean();
    assert!(verdict.runs.iter().all(|run| run.source != "FAILOVER"), "\n{}", verdict.table());
    let was_busy = |item: u32, fire: i64| {
        busy.iter().any(|(items, time)| items.contains(&item) && time.contains(&(fire * 1000)))
    };
    let missing = not_run(&verdict);
    let others: Vec<_> = missing.iter().filter(|(item, fire)| !was_busy(*item, *fire)).collect();
    assert!(others.is_empty(), "(item, fire) {others:?}, busy were {busy:?}\n{}", verdict.table());
    let counters = fleet.counters("tick").await;
    assert_eq!((counters.crashed, counters.missed.len()), (0, 0), "{counters:?}");
    assert!(missing.len() as u64 <= counters.misfired, "{missing:?} are told nowhere: {counters:?}");
}

/// The judgment at a moment at which each item of `tick` is as far as the furthest was a moment before.
async fn all_have_fired(fleet: &Fleet) -> Verdict {
    let last = *fires(&fleet.verdict()).last().unwrap();
    let far =
        |verdict: &Verdict, item| verdict.of("tick").any(|run| run.item == item && run.fire / 1000 >= last);
    fleet.verdict_when("each item's last fire", |verdict| (0..3).all(|item| far(verdict, item))).await
}

/// Scheduled times of `tick` that did not run, up to the one that each item has reached: item and second.
fn not_run(verdict: &Verdict) -> Vec<(u32, i64)> {
    let ran: BTreeSet<(u32, i64)> = verdict.of("tick").map(|run| (run.item, run.fire / 1000)).collect();
    let first = *fires(verdict).first().unwrap();
    let last = (0..3).map(|item| ran.range((item, 0)..(item + 1, 0)).last().unwrap().1).min().unwrap();
    let all = (0..3).flat_map(|item| (first..=last).map(move |fire| (item, fire)));
    all.filter(|due| !ran.contains(due)).collect()
}

/// A job that fires every third second, hosted where its leader is not.
#[tokio::test]
async fn a_dead_leader_delays_no_fire_of_others() {
    // The dead leader's session ends in the test, no lease does.
    let mut fleet = Fleet::start(3, &shared().list(), timing(5000, 500, 10_000)).await;
    fleet.apply(job("tick", 3, json!({ "cron": EVERY_THIRD }))).await;
    let leads = fleet.leader("tick").await;
    let host = (leads + 1) % 3;
    fleet.ask(host);
    fleet.worker_at(host, "a", vec![runs_for("tick", 1)]);
    fleet.hosted_by("tick", 1, &[host]).await;
    fleet.more_fires(1).await;
    fleet.crash(leads);
    fleet.ask(host);
    // Some fires without a leader, and some under the next.
    fleet.more_fires(2).await;
    wait("another leader", || async { (fleet.leader("tick").await != leads).then_some(()) }).await;
    fleet.more_fires(2).await;
    let verdict = fleet.verdict();
    verdict.is_clean();
    no_gap(&verdict, 3);
    assert!(verdict.of("tick").all(|run| run.source == "NORMAL_TRIGGER"), "\n{}", verdict.table());
    let counters = fleet.counters("tick").await;
    assert_eq!((counters.misfired, counters.crashed, counters.missed.len()), (0, 0, 0), "{counters:?}");
    fleet.nothing_left().await;
}

/// A freeze that is longer than the session: its workers are elsewhere when it resumes, and it changes nothing before
/// it has a new session.
#[tokio::test]
async fn ej_1857_session_expiry_is_not_a_shutdown() {
    let mut fleet = Fleet::start(3, &shared().list(), QUICK).await;
    fleet.nine_in_flight(&WORKERS, &[]).await;
    let before = fleet.members().await.into_iter().find(|m| m.url == fleet.url_of(0)).unwrap();
    fleet.ask(1);
    fleet.stand_still(&[0], true);
    wait("its session to end", || async {
        let members = fleet.members().await;
        members.iter().all(|m| m.coordinator_id != before.coordinator_id).then_some(())
    })
    .await;
    fleet.stand_still(&[0], false);
    wait("a new session of the same process", || async {
        fleet.members().await.iter().any(|m| m.url == fleet.url_of(0)).then_some(())
    })
    .await;
    assert!(fleet.seats[0].proc.as_mut().unwrap().ended().is_none());
    fleet.healthy(0).await;
    fleet.nine_done().await;
    // It hosts again.
    fleet.apply(job("later", 1, json!({}))).await;
    fleet.worker_at(0, "d", vec![runs_for("later", 1)]);
    fleet.hosted_by("later", 1, &[0]).await;
    fleet.nothing_left().await;
}

/// One after the other is asked to stop and started again, while a job fires each second and long runs go on.
#[tokio::test]
async fn a_rolling_restart_loses_and_repeats_nothing() {
    let mut fleet = Fleet::start(3, &shared().list(), PATIENT).await;
    fleet.nine_in_flight(&WORKERS, &[]).await;
    fleet.apply(job("tick", 3, json!({ "cron": EVERY_SECOND }))).await;
    for (seat, name) in ["x", "y", "z"].into_iter().enumerate() {
        fleet.worker_at(seat, name, vec![runs_for("tick", 1)]);
    }
    fleet.assigned("tick", 3).await;
    fleet.more_fires(3).await;
    for seat in 0..3 {
        fleet.ask((seat + 1) % 3);
        let mut proc = fleet.seats[seat].proc.take().unwrap();
        proc.signal(Signal::TERM);
        let status = proc.end().await;
        assert!(status.success(), "c{seat}: {status}");
        let others = [(seat + 1) % 3, (seat + 2) % 3];
        fleet.hosted_by("nine", 3, &others).await;
        fleet.launch(seat);
        fleet.serving(seat).await;
        fleet.ask(seat);
        fleet.more_fires(3).await;
    }
    let counters = fleet.counters("tick").await;
    assert_eq!((counters.crashed, counters.missed.len()), (0, 0), "{counters:?}");
    no_gap(&fleet.verdict(), 1);
    fleet.nine_done_once().await;
}

/// Whichever coordinator is asked: a run at another host is stopped, a worker at another host is asked to leave.
#[tokio::test]
async fn any_coordinator_can_be_asked() {
    use rosterd_wire::proto::v1;
    let mut fleet = Fleet::start(2, &shared().list(), PATIENT).await;
    fleet.apply(job("nine", 2, json!({ "failover": true }))).await;
    let does = vec![runs_until("nine", fleet.home.path("gate"))];
    fleet.worker_at(0, "a", does.clone());
    fleet.hosted_by("nine", 1, &[0]).await;
    fleet.worker_at(1, "b", does);
    fleet.assigned("nine", 2).await;
    fleet.hosted_by("nine", 2, &[0, 1]).await;
    fleet.trigger("nine").await;
    fleet.verdict_when("two runs", |verdict| verdict.of("nine").count() == 2).await;
    for (item, seat) in [(0, 0), (1, 0)] {
        let request = v1::CancelRunRequest { job: "nine".into(), item };
        fleet.admin_of(seat).cancel_run(request).await.unwrap();
    }
    fleet
        .verdict_when("both to stop", |verdict| {
            verdict.of("nine").filter(|run| run.stopped_by_order()).count() == 2
        })
        .await;
    fleet.quiet("nine").await;
    assert_eq!(fleet.counters("nine").await.cancelled, 2);
    let all = fleet.instances("nine").await;
    for row in &all {
        let request = v1::DrainInstanceRequest { instance: row.instance.clone(), ..Default::default() };
        fleet.admin_of(1).drain_instance(request).await.unwrap();
    }
    for name in ["a", "b"] {
        let status = fleet.process(name).end().await;
        assert!(status.success(), "{name}: {status}");
    }
    fleet.nothing_left().await;
    fleet.verdict().is_clean();
}

/// Leaderships are spread, and move to a new coordinator.
#[tokio::test]
async fn leaders_are_spread() {
    // Names of coordinators are drawn: of twelve jobs one of three would lead none in two runs of a hundred.
    const JOBS: usize = 60;
    let mut fleet = Fleet::prepare(3, &shared().list(), QUICK);
    fleet.launch(0);
    fleet.serving(0).await;
    for n in 0..JOBS {
        fleet.apply(job(&format!("job{n}"), 1, json!({}))).await;
    }
    let led = |members: &[crate::fleet::Member]| members.iter().map(|m| m.leads).collect::<Vec<_>>();
    wait("one leader of all", || async { (led(&fleet.members().await) == [JOBS as u64]).then_some(()) })
        .await;
    for seat in [1, 2] {
        fleet.launch(seat);
        fleet.serving(seat).await;
    }
    wait("leaders at all three", || async {
        let led = led(&fleet.members().await);
        (led.len() == 3 && led.iter().sum::<u64>() == JOBS as u64 && led.iter().all(|leads| *leads > 0))
            .then_some(())
    })
    .await;
}
