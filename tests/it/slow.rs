//! A worker that does not read delays nobody else, and costs a bounded amount of memory.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::session_response::Frame as Said;
use serde_json::json;
use tonic::transport::{Channel, Endpoint};

use crate::harness::*;
use crate::judge::What;
use crate::pulse::Pulse;
use crate::raw::{self, Raw};
use crate::worker::wall;

/// A connection with the smallest windows, so that unread data stays with the sender.
fn narrow(cluster: &Cluster) -> Channel {
    let endpoint = Endpoint::from_shared(cluster.url()).unwrap();
    endpoint.initial_stream_window_size(65_535).initial_connection_window_size(65_535).connect_lazy()
}

/// Resident memory of the coordinator, in KiB.
fn resident(cluster: &Cluster) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", cluster.coordinator.as_ref().unwrap().id()))
            .unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn at(millis: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis.unsigned_abs())
}

/// Checks that every scheduled time of a job since `from` ran as such, and before the next one was due, measured in the
/// machine's running time.
#[track_caller]
fn all_on_time(cluster: &Cluster, pulse: &Pulse, job: &str, from: i64) {
    let (verdict, lines) = (cluster.verdict(), cluster.lines());
    verdict.is_clean();
    let mut fires: Vec<i64> = verdict.of(job).filter(|run| run.fire > from).map(|run| run.fire).collect();
    fires.sort_unstable();
    assert!(
        fires.len() >= 3 && fires.windows(2).all(|pair| pair[0] < pair[1]),
        "{fires:?}\n{}",
        verdict.table()
    );
    // A run that has not ended when the next one is due takes its place: it had less than half of the time.
    for missing in fires.windows(2).flat_map(|pair| (pair[0] + 1000..pair[1]).step_by(1000)) {
        let ran = pulse.between(at(missing - 1000), at(missing));
        assert!(ran < Duration::from_millis(500), "nothing ran at {missing}\n{}", verdict.table());
    }
    let starts = lines.iter().filter(|line| line.job == job && line.what == What::Start && line.fire > from);
    let late = starts.map(|line| (pulse.between(at(line.fire), at(line.wall)), line.wall - line.fire));
    let (latest, by_the_clock) = late.max().unwrap();
    println!("the latest start was {latest:?} after its scheduled time, {by_the_clock} ms by the clock");
    assert!(latest < Duration::from_secs(1), "a start {latest:?} after its scheduled time");
}

#[tokio::test]
async fn a_worker_that_reads_nothing_delays_nobody() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("brisk", 1, json!({ "cron": EVERY_SECOND }))).await;
    cluster.worker("a", vec![runs_for("brisk", 1)]);
    // Each fire of this one exceeds the windows.
    let large = json!({ "jobParameter": "x".repeat(60_000), "rosterd": { "handler": "deaf" } });
    cluster.apply(job("deaf", 1000, large)).await;
    let hello = v1::Hello { slots: 4096, ..raw::hello() };
    let (mut deaf, _) = Raw::attached(narrow(&cluster), hello).await;
    deaf.registered("deaf").await;
    cluster.assigned("deaf", 1).await;
    cluster.verdict_when("brisk runs", |verdict| verdict.of("brisk").count() >= 2).await;
    let pulse = Pulse::beside(&cluster.home.path(""));
    let (from, before) = (wall(), resident(&cluster));
    cluster.trigger("deaf").await;
    // It goes on sending, and does not read.
    for sequence in 1..=200 {
        deaf.heartbeat(sequence).await;
    }
    cluster
        .verdict_when("brisk goes on", |verdict| {
            verdict.of("brisk").filter(|run| run.fire > from).count() >= 6
        })
        .await;
    all_on_time(&cluster, &pulse, "brisk", from);
    let grown = resident(&cluster).saturating_sub(before) / 1024;
    println!("the coordinator grew by {grown} MiB");
    assert!(grown < 400, "{grown} MiB");
    cluster.healthy().await;
}

/// Ten thousand small unread frames do not end a connection, or end it with a reason, and the worker comes back.
#[tokio::test]
async fn ten_thousand_heartbeats_against_a_stalled_reader() {
    const BEATS: u64 = 10_000;
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("brisk", 1, json!({ "cron": EVERY_SECOND }))).await;
    cluster.worker("a", vec![runs_for("brisk", 1)]);
    cluster.verdict_when("brisk runs", |verdict| verdict.of("brisk").count() >= 2).await;
    let pulse = Pulse::beside(&cluster.home.path(""));
    let from = wall();
    let (mut stalled, welcome) = Raw::attached(cluster.channel(), raw::hello()).await;
    for sequence in 1..=BEATS {
        stalled.heartbeat(sequence).await;
    }
    cluster
        .verdict_when("brisk goes on", |verdict| {
            verdict.of("brisk").filter(|run| run.fire > from).count() >= 4
        })
        .await;
    all_on_time(&cluster, &pulse, "brisk", from);
    let mut heard = 0;
    let ended = loop {
        match stalled.next().await {
            Ok(Some(Said::HeartbeatAck(ack))) => heard = ack.sequence,
            Ok(Some(_)) => {}
            Ok(None) => panic!("the stream ended without a reason"),
            Err(status) => break Some(status),
        }
        if heard == BEATS {
            break None;
        }
    };
    println!("{heard} acknowledged, then {ended:?}");
    assert!(ended.as_ref().is_none_or(|status| !code(status).is_empty()), "{ended:?}");
    let again = v1::Hello {
        worker_id: welcome.worker_id.clone(),
        resume_key: welcome.resume_key,
        stream_number: 2,
        ..raw::hello()
    };
    let (_again, welcome_again) = Raw::attached(cluster.channel(), again).await;
    assert_eq!(welcome_again.worker_id, welcome.worker_id);
}

/// No file descriptor is left for new connections: existing ones are still served, and new ones once there are free
/// descriptors.
#[tokio::test]
async fn a_full_table_of_files_stops_nobody_who_is_there() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("brisk", 1, json!({ "cron": EVERY_SECOND }))).await;
    cluster.worker("a", vec![runs_for("brisk", 1)]);
    cluster.verdict_when("brisk runs", |verdict| verdict.of("brisk").count() >= 2).await;
    let pid = cluster.coordinator.as_ref().unwrap().id();
    let open = || u64::try_from(std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()).unwrap();
    let limit = |files: u64| {
        let set = std::process::Command::new("prlimit")
            .args(["--pid", &pid.to_string(), &format!("--nofile={files}:")])
            .status();
        assert!(set.expect("prlimit (util-linux) is missing: run `cargo xtask setup`").success());
    };
    let most = open() + 12;
    limit(most);
    let pulse = Pulse::beside(&cluster.home.path(""));
    let from = wall();
    let crowd: Vec<_> =
        (0..30).map(|_| std::net::TcpStream::connect(("127.0.0.1", cluster.port)).unwrap()).collect();
    until("the table to be full", || open() >= most - 1).await;
    cluster
        .verdict_when("brisk goes on", |verdict| {
            verdict.of("brisk").filter(|run| run.fire > from).count() >= 4
        })
        .await;
    all_on_time(&cluster, &pulse, "brisk", from);
    assert!(cluster.coordinator.as_mut().unwrap().ended().is_none());
    limit(most + 100);
    cluster.healthy().await;
    drop(crowd);
    cluster.worker("b", vec![runs_for("brisk", 1)]);
    wait("a newcomer", || async { (cluster.instances("brisk").await.len() == 2).then_some(()) }).await;
    assert_eq!(cluster.counters("brisk").await.crashed, 0);
}
