//! Workers die, stand still or are cut off, their items spread over several coordinators: nothing is lost, nothing
//! doubled, and only what was in flight at the victim runs again.

use std::collections::BTreeSet;

use serde_json::json;

use crate::fleet::{Fleet, QUICK, shared};
use crate::harness::*;
use crate::judge::{Verdict, What};
use crate::net::{self, Net, Way};

/// Nine items on three workers, each at a coordinator of its own, all in user code; the gate is closed.
async fn nine_in_flight(fleet: &mut Fleet, victim: &[&str]) {
    fleet.apply(job("nine", 9, json!({ "failover": true }))).await;
    let does = vec![runs_until("nine", fleet.home.path("gate"))];
    for (seat, name) in ["a", "b", "c"].into_iter().enumerate() {
        let plan = fleet.plan_at(seat, name, does.clone());
        fleet.start_worker(&plan, if name == "a" { victim } else { &[] });
    }
    fleet.assigned("nine", 3).await;
    fleet.trigger("nine").await;
    fleet.verdict_when("nine runs", |verdict| verdict.of("nine").count() == 9).await;
}

fn of_victim(verdict: &Verdict) -> BTreeSet<u32> {
    verdict.of("nine").filter(|run| run.worker == "a" && run.source == "MANUAL").map(|run| run.item).collect()
}

/// The victim's items, and no others, run again elsewhere; then all end.
async fn taken_over(fleet: &Fleet) {
    fleet.verdict_when("three failovers", |verdict| verdict.by_source("nine", "FAILOVER").len() >= 3).await;
    fleet.home.open("gate");
    fleet.quiet("nine").await;
    let verdict = fleet.verdict();
    verdict.is_clean();
    let lost = of_victim(&verdict);
    assert_eq!(lost.len(), 3, "\n{}", verdict.table());
    assert_eq!(verdict.done("nine", "FAILOVER"), lost, "\n{}", verdict.table());
    assert_eq!(verdict.of("nine").count(), 12, "\n{}", verdict.table());
    let counters = fleet.counters("nine").await;
    assert_eq!((counters.fired, counters.succeeded, counters.crashed), (12, 9, 3));
    left_over(fleet).await;
}

/// Nothing in the tree refers to anything dead.
async fn left_over(fleet: &Fleet) {
    wait("only what belongs to the living is left", || async {
        let living: BTreeSet<String> =
            fleet.instances("nine").await.into_iter().map(|row| row.instance).collect();
        let nodes = fleet.ephemerals("nine").await;
        let dead = nodes.iter().filter(|path| !living.iter().any(|id| path.ends_with(id.as_str()))).count();
        (dead == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_killed_workers_items_run_again_and_no_others() {
    let mut fleet = Fleet::start(3, &shared().list(), QUICK).await;
    nine_in_flight(&mut fleet, &[]).await;
    fleet.kill("a");
    taken_over(&fleet).await;
}

/// The coordinator that would have noticed dies with it: others do.
#[tokio::test]
async fn ej_669_failover_across_hosts() {
    let mut fleet = Fleet::start(3, &shared().list(), QUICK).await;
    nine_in_flight(&mut fleet, &[]).await;
    let instance = fleet.instances("nine").await.into_iter().find(|row| row.address == "host-a").unwrap();
    let host = fleet.seat_of(&instance.host).await.unwrap();
    fleet.kill("a");
    fleet.crash(host);
    taken_over(&fleet).await;
}

#[tokio::test]
async fn a_frozen_worker_that_wakes_changes_nothing() {
    let mut fleet = Fleet::start(3, &shared().list(), QUICK).await;
    nine_in_flight(&mut fleet, &[]).await;
    fleet.freeze("a");
    fleet.verdict_when("three failovers", |verdict| verdict.by_source("nine", "FAILOVER").len() == 3).await;
    fleet.thaw("a");
    fleet
        .verdict_when("the woken runs to stop", |verdict| {
            verdict.of("nine").filter(|run| run.worker == "a" && run.stopped_by_order()).count() == 3
        })
        .await;
    let after = |line: &&crate::judge::Line| line.worker == "a" && line.what == What::End;
    assert_eq!(fleet.lines().iter().filter(after).count(), 0);
    taken_over(&fleet).await;
}

/// Packets vanish, both ways or one; neither end is told.
async fn cut_off(ways: &[Way]) {
    if !net::possible() {
        return;
    }
    let net = Net::new();
    let mut fleet = Fleet::prepare(3, &shared().list(), QUICK);
    for seat in 0..3 {
        fleet.seats[seat].host.clone_from(&net.host);
        fleet.launch(seat);
    }
    for seat in 0..3 {
        fleet.serving(seat).await;
        fleet.ask(seat);
    }
    nine_in_flight(&mut fleet, &net.wrapper()).await;
    net.cut(ways);
    fleet.verdict_when("three failovers", |verdict| verdict.by_source("nine", "FAILOVER").len() == 3).await;
    let verdict = fleet.verdict();
    let victims: Vec<_> = verdict.of("nine").filter(|run| run.worker == "a").collect();
    assert!(victims.len() == 3 && victims.iter().all(|run| run.stopped_by_order()), "\n{}", verdict.table());
    net.heal();
    taken_over(&fleet).await;
}

#[tokio::test]
async fn a_worker_that_is_cut_off_stops_before_its_items_run_elsewhere() {
    cut_off(&[Way::FromWorker, Way::ToWorker]).await;
}

#[tokio::test]
async fn a_worker_that_hears_nothing_stops_before_its_items_run_elsewhere() {
    cut_off(&[Way::ToWorker]).await;
}

#[tokio::test]
async fn a_worker_that_is_not_heard_stops_before_its_items_run_elsewhere() {
    cut_off(&[Way::FromWorker]).await;
}
