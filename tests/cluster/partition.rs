//! Coordinators are cut off from their servers: for a moment, for longer than their session, again and again, or so
//! that the answers to their writes are lost.

use std::time::Duration;

use serde_json::json;

use crate::fleet::{Fleet, PATIENT, QUICK, rounds, shared};
use crate::harness::*;
use crate::judge::Verdict;
use crate::proxy::{Mode, Proxy};

/// Three coordinators, the first behind a proxy of its own.
async fn behind_a_proxy(timing: Timing) -> (Proxy, Fleet) {
    let proxy = Proxy::start(&shared().list());
    let mut fleet = Fleet::prepare(3, &shared().list(), timing);
    fleet.seats[0].zk = proxy.address();
    for seat in 0..3 {
        fleet.launch(seat);
    }
    for seat in 0..3 {
        fleet.serving(seat).await;
    }
    fleet.ask(1);
    (proxy, fleet)
}

const WORKERS: [&str; 3] = ["a", "b", "c"];

/// Everything goes on, the nine are done, and nothing was ever run twice.
async fn all_is_well(fleet: &Fleet) -> Verdict {
    fleet.assigned("tick", 3).await;
    fleet.more_fires(5).await;
    fleet.nine_done().await
}

/// Every scheduled time of each item is a run, or is counted with its result.
async fn all_accounted_for(fleet: &Fleet) {
    let items = fleet.items("tick").await;
    for item in items {
        let counters = item.counters.unwrap();
        let ended = counters.succeeded + counters.failed + counters.crashed + counters.cancelled;
        let running = u64::from(item.running.is_some());
        assert_eq!(counters.runs, ended + running, "item {}: {counters:?}", item.item);
    }
}

/// Shorter than the session: nothing moves, no run ends.
#[tokio::test]
async fn an_outage_shorter_than_the_session_stops_nothing() {
    let proxy = Proxy::start(&shared().list());
    let mut fleet = Fleet::prepare(1, &proxy.address(), PATIENT);
    fleet.launch(0);
    fleet.serving(0).await;
    fleet.nine_in_flight(&["a", "b"], &[]).await;
    proxy.set(Mode::Hole);
    // The workers' leases depend on the session's last proof meanwhile.
    tokio::time::sleep(Duration::from_secs(4)).await;
    proxy.set(Mode::Pass);
    proxy.cut();
    fleet.healthy(0).await;
    fleet.nine_done_once().await;
}

/// Longer than the session: it stops acknowledging by its own clock, its workers stop or go elsewhere, others take over
/// the stopped runs; after the partition heals, it has a new session.
#[tokio::test]
async fn ej_507_zk_lost_mid_run_does_not_run_twice() {
    let (proxy, mut fleet) = behind_a_proxy(QUICK).await;
    fleet.busy(&WORKERS).await;
    let cut_off = fleet.members().await.into_iter().find(|m| m.url == fleet.url_of(0)).unwrap();
    proxy.set(Mode::Hole);
    wait("its session to end", || async {
        let members = fleet.members().await;
        (!members.iter().any(|m| m.coordinator_id == cut_off.coordinator_id)).then_some(())
    })
    .await;
    fleet.hosted_by("tick", 3, &[1, 2]).await;
    fleet.more_fires(3).await;
    proxy.set(Mode::Pass);
    proxy.cut();
    fleet.healthy(0).await;
    wait("its new session", || async {
        fleet.members().await.iter().any(|m| m.url == fleet.url_of(0)).then_some(())
    })
    .await;
    all_is_well(&fleet).await;
    all_accounted_for(&fleet).await;
}

/// Milliseconds without a connection: half a session of [`QUICK`] to one and a half.
const AWAY: [u64; 5] = [3000, 9000, 4500, 7500, 3750];

/// Connections break again and again, and stay away for half a session to one and a half.
#[tokio::test]
async fn ej_1807_jobs_live_on_after_a_flapping_link() {
    let proxy = Proxy::start(&shared().list());
    let mut fleet = Fleet::prepare(2, &proxy.address(), QUICK);
    for seat in 0..2 {
        fleet.launch(seat);
    }
    for seat in 0..2 {
        fleet.serving(seat).await;
    }
    fleet.apply(job("tick", 3, json!({ "cron": EVERY_SECOND, "failover": true }))).await;
    fleet.apply(job("nine", 9, json!({ "failover": true }))).await;
    let does = vec![runs_for("tick", 1), runs_until("nine", fleet.home.path("gate"))];
    for (seat, name) in ["a", "b"].into_iter().enumerate() {
        fleet.worker_at(seat, name, does.clone());
    }
    fleet.assigned("tick", 2).await;
    for away in AWAY.into_iter().cycle().take(rounds(5) as usize) {
        proxy.set(Mode::Hole);
        proxy.cut();
        tokio::time::sleep(Duration::from_millis(away)).await;
        proxy.set(Mode::Pass);
        tokio::time::sleep(Duration::from_millis(1500)).await;
    }
    for seat in 0..2 {
        fleet.healthy(seat).await;
    }
    fleet.assigned("tick", 2).await;
    wait("the nine to be triggered", || async {
        let request = rosterd_wire::proto::v1::TriggerJobRequest { job: "nine".into(), ..Default::default() };
        fleet.admin().trigger_job(request).await.ok()
    })
    .await;
    fleet.more_fires(5).await;
    fleet.nine_done().await;
    all_accounted_for(&fleet).await;
}

/// Writes are applied, and their answers are lost: the outcome is read, and the write never repeated.
#[tokio::test]
async fn a_lost_answer_is_found_out() {
    let (proxy, mut fleet) = behind_a_proxy(QUICK).await;
    fleet.busy(&WORKERS).await;
    for _ in 0..6 {
        proxy.set(Mode::NoAnswers);
        tokio::time::sleep(Duration::from_millis(1200)).await;
        proxy.cut();
        proxy.set(Mode::Pass);
        tokio::time::sleep(Duration::from_millis(1300)).await;
    }
    fleet.healthy(0).await;
    all_is_well(&fleet).await;
    all_accounted_for(&fleet).await;
}

/// A slow link only delays.
#[tokio::test]
async fn a_slow_link_is_only_slow() {
    let (proxy, mut fleet) = behind_a_proxy(PATIENT).await;
    proxy.set(Mode::Slow(Duration::from_millis(40)));
    fleet.busy(&WORKERS).await;
    let verdict = all_is_well(&fleet).await;
    assert_eq!(verdict.of("nine").count(), 9, "\n{}", verdict.table());
    all_accounted_for(&fleet).await;
}

/// Connections of workers and of the store end in the middle of a frame: partial frames are dropped, the contents are
/// sent again, and no worker is marked dead.
#[tokio::test]
async fn a_frame_of_which_a_part_comes_is_none() {
    let to_servers = Proxy::start(&shared().list());
    // Each reconnect is torn again, after a longer pause each time: no lease may end by it.
    let mut fleet = Fleet::prepare(1, &to_servers.address(), timing(20_000, 500, 40_000));
    fleet.launch(0);
    fleet.serving(0).await;
    let to_workers = Proxy::start(fleet.url_of(0).trim_start_matches("http://"));
    fleet.seats[0].door = Some(format!("http://{}", to_workers.address()));
    fleet.busy(&["a", "b"]).await;
    let before = fleet.accounts_so_far("tick").await;
    for round in 0..rounds(4) {
        let torn: &[&Proxy] = match round % 3 {
            0 => &[&to_workers],
            1 => &[&to_servers],
            _ => &[&to_workers, &to_servers],
        };
        torn.iter().for_each(|proxy| proxy.tear(4));
        until("four connections to be torn", || torn.iter().all(|proxy| proxy.has_torn())).await;
        fleet.healthy(0).await;
        fleet.more_fires_at_all(2).await;
    }
    fleet.nine_done_once().await;
    fleet.paused("tick").await;
    fleet.balanced("tick", &before).await;
    fleet.counted_as_written("tick").await;
}
