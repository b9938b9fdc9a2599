//! Workers die, freeze or are cut off, with their items spread over several coordinators: nothing is lost or run twice,
//! and only runs in flight at the victim run again.

use std::collections::BTreeSet;

use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::session_request::Frame;
use rustix::process::Signal;
use serde_json::json;
use tonic::transport::Endpoint;

use crate::fleet::{Fleet, PATIENT, shared};
use crate::harness::*;
use crate::judge::{Verdict, What};
use crate::net::{self, Net, Way};
use crate::raw::{Raw, hello};

/// Nine items on three workers, each at a coordinator of its own, all in user code; the gate is closed.
async fn nine_in_flight(fleet: &mut Fleet, victim: &[&str]) {
    nine_of(fleet, true, victim).await;
}

async fn nine_of(fleet: &mut Fleet, failover: bool, victim: &[&str]) {
    fleet.apply(job("nine", 9, json!({ "failover": failover }))).await;
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
    assert_eq!((counters.runs, counters.succeeded, counters.crashed), (12, 9, 3));
    fleet.nothing_left().await;
}

#[tokio::test]
async fn a_killed_workers_items_run_again_and_no_others() {
    let mut fleet = Fleet::start(3, &shared().list(), PATIENT).await;
    nine_in_flight(&mut fleet, &[]).await;
    fleet.kill("a");
    taken_over(&fleet).await;
}

/// Runs in flight at the victim are recorded as crashed; the others go on, and the next fire runs all items.
#[tokio::test]
async fn without_failover_a_killed_workers_runs_are_crashed_and_the_next_fire_runs_elsewhere() {
    let mut fleet = Fleet::start(3, &shared().list(), PATIENT).await;
    nine_of(&mut fleet, false, &[]).await;
    let lost = of_victim(&fleet.verdict());
    fleet.kill("a");
    let crashed = |item: &rosterd_wire::proto::v1::ItemSummary| item.counters.as_ref().unwrap().crashed;
    let items =
        fleet.items_when("nine", "three crashes", |items| items.iter().map(crashed).sum::<u64>() >= 3).await;
    let marked = items.iter().filter(|item| crashed(item) == 1).map(|item| item.item);
    assert_eq!((lost.len(), marked.collect::<BTreeSet<_>>()), (3, lost.clone()));
    fleet.assigned("nine", 2).await;
    fleet.home.open("gate");
    fleet.quiet("nine").await;
    fleet.trigger("nine").await;
    let ended = |verdict: &Verdict| verdict.of("nine").filter(|run| run.ended()).count();
    fleet.verdict_when("the next fire", |verdict| ended(verdict) >= 6 + 9).await;
    fleet.quiet("nine").await;
    fleet.nothing_left().await;
    let verdict = fleet.verdict();
    verdict.is_clean();
    assert_eq!((ended(&verdict), verdict.of("nine").count()), (15, 18), "\n{}", verdict.table());
    assert!(verdict.of("nine").all(|run| run.source == "MANUAL"), "\n{}", verdict.table());
    let counters = fleet.counters("nine").await;
    assert_eq!((counters.runs, counters.succeeded, counters.crashed), (18, 15, 3));
}

/// The coordinator that would have noticed it dies as well: others notice it.
#[tokio::test]
async fn ej_669_failover_across_hosts() {
    // Its host's session ends first, and then its lease: the test waits for both.
    let mut fleet = Fleet::start(3, &shared().list(), timing(6000, 500, 12_000)).await;
    nine_in_flight(&mut fleet, &[]).await;
    let instance = fleet.instances("nine").await.into_iter().find(|row| row.address == "host-a").unwrap();
    let host = fleet.seat_of(&instance.host).await.unwrap();
    fleet.kill("a");
    fleet.crash(host);
    taken_over(&fleet).await;
}

#[tokio::test]
async fn a_frozen_worker_that_wakes_changes_nothing() {
    let mut fleet = Fleet::start(3, &shared().list(), PATIENT).await;
    nine_in_flight(&mut fleet, &[]).await;
    fleet.freeze("a");
    fleet.verdict_when("three failovers", |verdict| verdict.by_source("nine", "FAILOVER").len() >= 3).await;
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

/// Nine items in flight; one of their workers has a separate network.
async fn across(net: &Net) -> Fleet {
    let mut fleet = Fleet::prepare(3, &shared().list(), PATIENT);
    for seat in 0..3 {
        fleet.seats[seat].host.clone_from(&net.host);
        fleet.launch(seat);
    }
    for seat in 0..3 {
        fleet.serving(seat).await;
        fleet.ask(seat);
    }
    nine_in_flight(&mut fleet, &net.wrapper()).await;
    fleet
}

/// Packets vanish, in both directions or one, without notice to either end.
async fn cut_off(ways: &[Way]) {
    if !net::possible() {
        return;
    }
    let net = Net::new();
    let fleet = across(&net).await;
    net.cut(ways);
    fleet.verdict_when("three failovers", |verdict| verdict.by_source("nine", "FAILOVER").len() >= 3).await;
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
async fn a_worker_that_receives_nothing_stops_before_its_items_run_elsewhere() {
    cut_off(&[Way::ToWorker]).await;
}

#[tokio::test]
async fn a_worker_that_is_not_heard_stops_before_its_items_run_elsewhere() {
    cut_off(&[Way::FromWorker]).await;
}

/// A process vanishes without a FIN, and another one comes with its address: that is a different worker. The address
/// gives it nothing of the first one's state; and the first, once it reconnects, has a third identity.
#[tokio::test]
async fn a_worker_under_the_address_of_one_that_vanished_is_another() {
    if !net::possible() {
        return;
    }
    let net = Net::new();
    let mut fleet = across(&net).await;
    let vanished = under(&fleet, "host-a").await;
    assert_eq!(vanished.len(), 1);
    net.cut(&[Way::FromWorker, Way::ToWorker]);
    fleet.addresses.insert("again".to_owned(), "host-a".to_owned());
    fleet.worker_at(1, "again", vec![runs_until("nine", fleet.home.path("gate"))]);
    let newcomer = wait("the newcomer", || async {
        let mut now = under(&fleet, "host-a").await;
        now.retain(|id| !vanished.contains(id));
        now.pop_first()
    })
    .await;
    fleet.verdict_when("three failovers", |verdict| verdict.by_source("nine", "FAILOVER").len() >= 3).await;
    net.heal();
    let both = wait("the first to come back", || async {
        let now = under(&fleet, "host-a").await;
        (now.len() == 2 && now.is_disjoint(&vanished)).then_some(now)
    })
    .await;
    assert!(both.contains(&newcomer), "{both:?} without {newcomer}");
    taken_over(&fleet).await;
    let verdict = fleet.verdict();
    let old: Vec<_> = verdict.of("nine").filter(|run| vanished.contains(&run.instance)).collect();
    assert!(old.len() == 3 && old.iter().all(|run| run.stopped_by_order()), "\n{}", verdict.table());
}

/// The instances whose workers state this address.
async fn under(fleet: &Fleet, address: &str) -> BTreeSet<String> {
    let rows = fleet.instances("nine").await.into_iter();
    rows.filter(|row| row.address == address).map(|row| row.instance).collect()
}

/// Its host died before it had written that the worker gave the job up, and the instance ended with its session. The
/// worker is alive and attached, so the leader, another coordinator, waits for the instance, until the worker's next
/// host, which gets the Unregister as well, removes it from the assignment.
#[tokio::test]
async fn a_job_that_is_given_up_over_the_death_of_its_host_goes_to_others() {
    let mut fleet = Fleet::start(3, &shared().list(), PATIENT).await;
    fleet.apply(job("given", 4, json!({}))).await;
    let leads = fleet.leader("given").await;
    let (first, next) = ((leads + 1) % 3, (leads + 2) % 3);
    let channel = |fleet: &Fleet, seat| Endpoint::from_shared(fleet.url_of(seat)).unwrap().connect_lazy();
    let (mut raw, welcome) = Raw::attached(channel(&fleet, first), hello()).await;
    raw.registered("given").await;
    fleet.worker_at(leads, "b", vec![runs_for("given", 1)]);
    fleet.assigned("given", 2).await;
    drop(raw);
    fleet.ask(leads);
    let mut host = fleet.seats[first].proc.take().unwrap();
    host.signal(Signal::TERM);
    assert!(host.end().await.success());
    let again = v1::Hello {
        worker_id: welcome.worker_id.clone(),
        resume_key: welcome.resume_key,
        stream_number: 2,
        jobs_asked: vec!["given".into()],
        ..hello()
    };
    let (raw, resumed) = Raw::attached(channel(&fleet, next), again).await;
    assert_eq!(resumed.worker_id, welcome.worker_id, "it is the same worker");
    raw.send(Frame::Unregister(v1::Unregister { job: "given".into() })).await;
    let given_to_b = async {
        fleet
            .items_when("given", "all are of the other worker", |items| {
                let of_raw = |owner: &String| owner.contains(&welcome.worker_id);
                items.iter().all(|item| item.owner.as_ref().is_some_and(|owner| !of_raw(owner)))
            })
            .await
    };
    // It stays alive: otherwise its death would release the items.
    let lives = async {
        for sequence in 1.. {
            raw.heartbeat(sequence).await;
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        }
    };
    tokio::select! {
        _items = given_to_b => {}
        () = lives => unreachable!("it beats for ever"),
    }
}
