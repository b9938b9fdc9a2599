//! Servers of the ensemble die, stand still, or cannot write. Coordinators wait, go to another server, and lose
//! nothing that was acknowledged.

use std::process::Command;
use std::time::Duration;

use crate::fleet::{Fleet, PATIENT, fires};
use crate::harness::*;
use crate::judge::Verdict;
use crate::net;
use crate::zookeeper::Ensemble;

fn three() -> Ensemble {
    Ensemble::start(3, &["maxSessionTimeout=60000".to_owned()])
}

const WORKERS: [&str; 2] = ["a", "b"];

/// The nine, in flight all the while, end once.
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

/// No majority for longer than a session: nothing new starts; when it is back, everything goes on, and what was
/// missed is accounted for.
#[tokio::test]
async fn without_a_majority_nothing_starts_and_nothing_is_lost() {
    let mut ensemble = three();
    let mut fleet = Fleet::start(2, &ensemble.list(), crate::fleet::QUICK).await;
    fleet.busy(&WORKERS).await;
    let leader = ensemble.leader();
    let away = [leader, (leader + 1) % 3];
    for server in away {
        ensemble.servers[server].kill();
    }
    // The session and, after its last proof, the leases are over: who ran something was told to stop.
    let stopped = |verdict: &Verdict| verdict.of("nine").all(|run| run.stopped_by_order());
    fleet.verdict_when("the leases to be over", stopped).await;
    let quiet = fires(&fleet.verdict());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(fires(&fleet.verdict()), quiet, "something started without a registry");
    for server in away {
        ensemble.servers[server].restart();
    }
    for server in away {
        ensemble.servers[server].wait_until_it_serves();
    }
    for seat in 0..2 {
        fleet.healthy(seat).await;
    }
    fleet.more_fires(4).await;
    fleet.nine_done().await;
}

/// The disk of one server is full, then of two: the first is not felt, the second is waited out.
#[tokio::test]
async fn a_full_disk_of_a_server_loses_nothing() {
    if !net::possible() {
        return;
    }
    let mut ensemble = three();
    let mut fleet = Fleet::start(2, &ensemble.list(), PATIENT).await;
    fleet.busy(&WORKERS).await;
    let mut disks = Vec::new();
    for server in [0, 1] {
        ensemble.servers[server].kill();
        disks.push(SmallDisk::below(&ensemble.servers[server].data()));
        ensemble.servers[server].restart();
        ensemble.servers[server].wait_until_it_serves();
    }
    fleet.more_fires(2).await;
    disks[0].fill();
    fleet.more_fires(4).await;
    disks[1].fill();
    tokio::time::sleep(Duration::from_secs(3)).await;
    for (server, disk) in [0, 1].into_iter().zip(&disks) {
        disk.free();
        // A server that could not write its log ends, or hangs on it: its keeper starts it again.
        ensemble.servers[server].kill();
        ensemble.servers[server].restart();
    }
    for server in [0, 1] {
        ensemble.servers[server].wait_until_it_serves();
    }
    fleet.more_fires(4).await;
    fleet.nine_done().await;
}

/// A file system of its own for a server's data.
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
