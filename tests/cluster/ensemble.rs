//! Servers of the ensemble die, freeze, or cannot write. Coordinators wait, go to another server, and lose nothing that
//! was acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::fleet::{EVERY_THIRD, Fleet, PATIENT, QUICK, fires, rounds};
use crate::harness::*;
use crate::judge::Verdict;
use crate::net;
use crate::proxy::{Mode, Proxy};
use crate::zookeeper::{Ensemble, Server};

fn three() -> Ensemble {
    Ensemble::start(3, &["maxSessionTimeout=60000".to_owned()])
}

const WORKERS: [&str; 2] = ["a", "b"];

/// The nine runs, in flight all the time, end once.
async fn end_once(fleet: &Fleet) {
    fleet.nine_done_once().await;
    assert_eq!(fleet.counters("tick").await.crashed, 0);
}

/// Each server dies and comes back, the leader first; then a majority is away for less than a session.
#[tokio::test]
async fn servers_die_and_nothing_moves() {
    let mut ensemble = three();
    let mut fleet = Fleet::start(2, &ensemble.list(), PATIENT).await;
    fleet.busy(&WORKERS).await;
    for _ in 0..2 {
        let leader = ensemble.leader();
        ensemble.servers[leader].kill();
        fleet.more_fires(3).await;
        ensemble.servers[leader].restart();
        ensemble.servers[leader].wait_until_it_serves();
    }
    let leader = ensemble.leader();
    let away = [leader, (leader + 1) % 3];
    for server in away {
        ensemble.servers[server].signal("STOP");
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    for server in away {
        ensemble.servers[server].signal("CONT");
    }
    fleet.more_fires(3).await;
    end_once(&fleet).await;
}

/// No majority for longer than a session: nothing new starts; when it is back, everything goes on, and missed fires are
/// accounted for.
#[tokio::test]
async fn without_a_majority_nothing_starts_and_nothing_is_lost() {
    let mut ensemble = three();
    let mut fleet = Fleet::start(2, &ensemble.list(), QUICK).await;
    fleet.busy(&WORKERS).await;
    let before = fleet.accounts_so_far("tick").await;
    let leader = ensemble.leader();
    let away = [leader, (leader + 1) % 3];
    for server in away {
        ensemble.servers[server].kill();
    }
    // The session and, after its last proof, the leases are over: workers with runs were told to stop.
    let stopped = |verdict: &Verdict| verdict.of("nine").all(|run| run.stopped_by_order());
    fleet.verdict_when("the leases to be over", stopped).await;
    let quiet = fires(&fleet.verdict());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(fires(&fleet.verdict()), quiet, "something started without a store");
    for server in away {
        ensemble.servers[server].restart();
    }
    for server in away {
        ensemble.servers[server].wait_until_it_serves();
    }
    let back = Instant::now();
    let due = fires(&fleet.verdict()).len();
    fleet.verdict_when("a fire", |verdict| fires(verdict).len() > due).await;
    println!("a majority serves again: the next fire after {:?}", back.elapsed());
    // The runs that its workers had to stop are in user code again.
    let again = |verdict: &Verdict| {
        let open = verdict.of("nine").filter(|run| run.how.is_none()).map(|run| run.item);
        open.collect::<BTreeSet<_>>().len() == 9
    };
    fleet.verdict_when("all nine to run again", again).await;
    println!("a majority serves again: all that was stopped runs after {:?}", back.elapsed());
    for seat in 0..2 {
        fleet.healthy(seat).await;
    }
    fleet.more_fires(4).await;
    let verdict = fleet.nine_done().await;
    let others = verdict.of("nine").filter(|run| !matches!(&*run.source, "MANUAL" | "FAILOVER"));
    assert_eq!(others.count(), 0, "\n{}", verdict.table());
    let counters = fleet.counters("nine").await;
    assert_eq!((counters.succeeded, counters.runs), (9, 9 + counters.crashed), "{counters:?}");
    fleet.paused("tick").await;
    fleet.balanced("tick", &before).await;
}

/// Longer than servers need to come back on a busy machine.
const WAITS: Timing = timing(10_000, 500, 40_000);

/// The disk of one server is full, then of two: the first has no effect, the second only delays. Nothing that was
/// acknowledged is lost: the counters of each item match its workers' logs, and no scheduled time is missing.
#[tokio::test]
async fn a_full_disk_of_a_server_loses_nothing() {
    if !net::possible() {
        return;
    }
    let mut ensemble = three();
    let mut fleet = Fleet::start(2, &ensemble.list(), WAITS).await;
    fleet.busy_at(EVERY_THIRD, &WORKERS).await;
    let before = fleet.accounts_so_far("tick").await;
    let mut disks = BTreeMap::new();
    for server in [0, 1] {
        ensemble.servers[server].kill();
        disks.insert(server, SmallDisk::below(&ensemble.servers[server].data()));
        ensemble.servers[server].restart();
        ensemble.servers[server].wait_until_it_serves();
    }
    fleet.more_fires_at_all(1).await;
    let counted = fleet.counters("tick").await;
    let from = *fires(&fleet.verdict()).last().unwrap();
    // The leading server is the second: without it there is an election, which has an effect.
    let leader = ensemble.leader();
    let (first, second) = if leader == 0 { (1, 0) } else { (0, 1) };
    disks[&first].fill();
    until("the first to serve no more", || !serves(&ensemble.servers[first])).await;
    fleet.more_fires(2).await;
    let now = fires(&fleet.verdict()).into_iter().filter(|fire| *fire >= from).collect::<BTreeSet<_>>();
    assert_eq!(now, (from..=*now.last().unwrap()).step_by(3).collect(), "a scheduled time is missing");
    let felt = fleet.counters("tick").await;
    assert_eq!(
        (felt.crashed, felt.misfired, &felt.missed),
        (0, counted.misfired, &counted.missed),
        "one full disk was felt: {felt:?}, before it {counted:?}"
    );
    disks[&second].fill();
    until("the second to serve no more", || !serves(&ensemble.servers[second])).await;
    for (server, disk) in &disks {
        disk.free();
        // A server that could not write its log exits, or hangs: the test restarts it.
        ensemble.servers[*server].kill();
        ensemble.servers[*server].restart();
    }
    for server in [0, 1] {
        ensemble.servers[server].wait_until_it_serves();
    }
    fleet.more_fires_at_all(2).await;
    fleet.nine_done_once().await;
    fleet.paused("tick").await;
    fleet.balanced_each(3, "tick", &before).await;
    fleet.counted_as_written("tick").await;
}

fn serves(server: &Server) -> bool {
    server.ask("srvr").is_some_and(|said| said.contains("Mode:"))
}

/// However often its connection breaks, or its session ends: a coordinator leaves no watch, no session and no node behind
/// on the server. `ROUNDS=100` for more than the suite has time for.
#[tokio::test]
async fn broken_connections_leave_no_watch_behind() {
    let ensemble = Ensemble::start(1, &["maxSessionTimeout=60000".to_owned()]);
    let proxy = Proxy::start(&ensemble.list());
    let mut fleet = Fleet::prepare(1, &proxy.address(), QUICK);
    fleet.launch(0);
    fleet.serving(0).await;
    fleet.apply(job("tick", 3, json!({ "cron": EVERY_SECOND }))).await;
    fleet.worker_at(0, "a", vec![runs_for("tick", 1)]);
    fleet.assigned("tick", 1).await;
    fleet.more_fires(1).await;
    let held = || Held::by(&ensemble.servers[0]);
    // A run in flight has nodes of its own.
    fleet.paused("tick").await;
    let before = steady(held).await;
    fleet.resumed("tick").await;
    for round in 1..=rounds(20) {
        // Each tenth time for longer than a session.
        if round % 10 == 0 {
            let id = fleet.members().await[0].coordinator_id.clone();
            proxy.set(Mode::Hole);
            proxy.cut();
            let over = || ensemble.servers[0].ask("dump").is_some_and(|said| !said.contains(&id));
            until("its session to end", over).await;
            proxy.set(Mode::Pass);
        }
        proxy.cut();
        fleet.healthy(0).await;
        fleet.more_fires(1).await;
    }
    fleet.paused("tick").await;
    fleet.nothing_left().await;
    fleet.verdict().is_clean();
    let until = Instant::now() + PATIENCE;
    loop {
        let now = held();
        if now.as_ref() == Some(&before) {
            break;
        }
        assert!(Instant::now() < until, "{now:?} after {} breaks, {before:?} before them", rounds(20));
        tokio::time::sleep(LOOK).await;
    }
    println!("before and after {} breaks: {before:?}", rounds(20));
}

/// The state that a server keeps for its clients.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    watches: u64,
    ephemerals: u64,
}

impl Held {
    /// `None` if the server does not answer in time.
    fn by(server: &Server) -> Option<Self> {
        let said = server.ask("mntr").filter(|said| !said.is_empty())?;
        let number = |name: &str| -> u64 {
            let line = said.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("no {name} in\n{said}")).trim().parse().unwrap()
        };
        Some(Self { watches: number("zk_watch_count"), ephemerals: number("zk_ephemerals_count") })
    }
}

/// The state once it is the same for several polls in a row.
async fn steady(held: impl Fn() -> Option<Held>) -> Held {
    let mut looks = Vec::new();
    wait("nothing to change", || {
        looks.extend(held());
        let same = looks.iter().rev().take(10).filter(|look| **look == looks[looks.len() - 1]).count() == 10;
        std::future::ready(same.then(|| looks.pop()).flatten())
    })
    .await
}

/// A separate file system for a server's data.
struct SmallDisk {
    at: std::path::PathBuf,
}

impl SmallDisk {
    fn below(at: &std::path::Path) -> Self {
        let id = std::fs::read(at.join("myid")).unwrap();
        run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"]).arg(at));
        // The rest comes from the other servers.
        std::fs::write(at.join("myid"), id).unwrap();
        Self { at: at.to_owned() }
    }

    fn fill(&self) {
        let file = std::fs::File::create(self.at.join("ballast")).unwrap();
        let block = vec![0_u8; 64 * 1024];
        while std::io::Write::write_all(&mut &file, &block).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(self.at.join("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}
