//! Servers of an ensemble that die in the middle of writes: nothing acknowledged is lost, and unknown outcomes are
//! resolved by reading.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rosterd_domain::id::{Item, Token, Version};
use rosterd_domain::txn::Commit;
use rosterd_registry::zookeeper::{ZooKeeperOptions, ZooKeeperRegistry};
use rosterd_registry::{Hint, Registry, SessionState};

use super::{PATIENCE, connect, eventually, until};
use crate::words::*;
use crate::zookeeper_server::Ensemble;

const WRITERS: u32 = 6;
/// It outlasts a slow machine.
const SESSION: Duration = Duration::from_secs(15);

async fn start(count: usize) -> Ensemble {
    let allow = format!("maxSessionTimeout={}", SESSION.as_millis());
    tokio::task::spawn_blocking(move || Ensemble::start(count, &[allow])).await.unwrap()
}

/// The answers of one writer.
#[derive(Debug, Default, Clone, Copy)]
struct Told {
    acknowledged: u64,
    unknown: u64,
}

/// Increments an item's record until it is stopped. One write at a time; after an unknown outcome it reads.
async fn count_up(registry: Arc<ZooKeeperRegistry>, item: u32, stop: Arc<AtomicBool>) -> Told {
    let mut told = Told::default();
    let mut version = 0;
    while !stop.load(Ordering::Relaxed) {
        match registry.commit(txn([], [write_record(item, Some(version), version + 1)])).await {
            Commit::Committed(_) => version += 1,
            Commit::Unknown => {
                told.unknown += 1;
                version = read(&registry, item, &stop).await.unwrap_or(version);
            }
            Commit::Unavailable(_) => {}
            other => panic!("item {item} at {version}: {other:?}"),
        }
        told.acknowledged = version;
    }
    told
}

async fn read(registry: &ZooKeeperRegistry, item: u32, stop: &AtomicBool) -> Option<u64> {
    while !stop.load(Ordering::Relaxed) {
        if let Ok(Some(snapshot)) = registry.snapshot(&j()).await {
            return Some(snapshot.records[&Item(item)].0.0);
        }
    }
    None
}

#[derive(Clone, Copy)]
enum Whom {
    Follower,
    Leader,
}

/// Kills one server while `WRITERS` write, and compares the acknowledged writes with the store.
async fn kill_one_in_the_middle(whom: Whom) {
    let mut ensemble = start(3).await;
    let options = ZooKeeperOptions {
        // Longer than the servers need to agree on a leader.
        session_timeout: SESSION,
        ..ZooKeeperOptions::new(format!("{}/deaths", ensemble.list()), namespace())
    };
    let registry = Arc::new(connect(&options).await);
    let mut hints = registry.hints();
    put(&*registry, [create(&j(), "i1"), write_instance("w")]).await;
    put(&*registry, (0..WRITERS).map(|item| write_record(item, None, 0))).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> =
        (0..WRITERS).map(|item| tokio::spawn(count_up(registry.clone(), item, stop.clone()))).collect();
    let progress = async |beyond: u64| {
        eventually("the writers get on", async || {
            registry.snapshot(&j()).await.is_ok_and(|found| {
                found.is_some_and(|found| found.records.values().all(|(version, _)| version.0 > beyond))
            })
        })
        .await;
    };
    progress(30).await;
    let leader = ensemble.leader();
    let victim = match whom {
        Whom::Leader => leader,
        Whom::Follower => (leader + 1) % 3,
    };
    ensemble.servers[victim].kill();
    let least = newest(&registry).await;
    progress(least + 30).await;
    ensemble.servers[victim].restart();
    tokio::task::block_in_place(|| ensemble.servers[victim].wait_until_it_serves());
    progress(newest(&registry).await + 30).await;
    stop.store(true, Ordering::Relaxed);
    let mut told = BTreeMap::new();
    for (item, writer) in (0..).zip(writers) {
        told.insert(Item(item), writer.await.unwrap());
    }
    let other = connect(&options).await;
    for (item, (version, record)) in snapshot(&other).await.records {
        assert_eq!(record.token, Token(version.0), "item {item}: token and version are counted together");
        assert_eq!(version, Version(told[&item].acknowledged), "item {item}: {:?}", told[&item]);
    }
    let nodes = other.job(&j()).await.unwrap().unwrap();
    assert!(nodes.instances.contains_key(&instance("w")), "the session outlived the server");
    let states: Vec<Hint> = std::iter::from_fn(|| hints.try_recv()).collect();
    assert!(!states.contains(&Hint::Session(SessionState::Gone)), "{states:?}");
    let unknown: u64 = told.values().map(|told| told.unknown).sum();
    let all: u64 = told.values().map(|told| told.acknowledged).sum();
    println!("{all} writes acknowledged, none lost; {unknown} were unknown and found out");
}

/// How far the furthest writer is, as soon as a server answers.
async fn newest(registry: &ZooKeeperRegistry) -> u64 {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Ok(Some(found)) = registry.snapshot(&j()).await {
            return found.records.values().map(|(version, _)| version.0).max().unwrap();
        }
    }
    panic!("nobody answers");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_a_follower_dies() {
    kill_one_in_the_middle(Whom::Follower).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_the_leader_dies() {
    kill_one_in_the_middle(Whom::Leader).await;
}

/// All servers are frozen for less than the session: nothing ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_of_all_servers_ends_nothing() {
    let ensemble = start(1).await;
    let options = ZooKeeperOptions {
        // A third of it is left when the pause is noticed.
        session_timeout: SESSION,
        ..ZooKeeperOptions::new(ensemble.list(), namespace())
    };
    let registry = connect(&options).await;
    let mut hints = registry.hints();
    put(&registry, [create(&j(), "i1"), elect(0)]).await;
    ensemble.servers[0].signal("STOP");
    until(&mut hints, &Hint::Session(SessionState::Suspended)).await;
    ensemble.servers[0].signal("CONT");
    until(&mut hints, &Hint::Session(SessionState::Connected)).await;
    let nodes = registry.job(&j()).await.unwrap().unwrap();
    assert_eq!(nodes.leader, Some((coordinator("c@-@1"), true)));
    put(&registry, [assign(0, "a1")]).await;
}
