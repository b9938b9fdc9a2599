//! A snapshot is of one revision, despite concurrent writes, and however many requests it takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rosterd_domain::id::Item;
use rosterd_domain::txn::Write;
use rosterd_registry::Registry;
use rosterd_registry::zookeeper::ZooKeeperOptions;
use tokio::task::JoinHandle;

use super::{connect, on_single};
use crate::words::*;

/// Each transaction increments the first and the last record and the assignment together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_of_one_revision() {
    is_of_one_revision(200).await;
}

/// It takes several requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_snapshot_is_of_one_revision() {
    is_of_one_revision(2_000).await;
}

/// A large read is many packets: on a busy machine they are slow.
async fn patient() -> ZooKeeperOptions {
    let long = Duration::from_secs(20);
    ZooKeeperOptions { session_timeout: long, request_timeout: Some(long), ..on_single().await }
}

/// In transactions that the servers accept.
async fn put_records(registry: &dyn Registry, items: u32) {
    for first in (0..items).step_by(1_000) {
        put(registry, (first..items.min(first + 1_000)).map(|item| write_record(item, None, 0))).await;
    }
}

/// A task that writes one transaction after the other.
struct Writing {
    task: JoinHandle<u64>,
    enough: Arc<AtomicBool>,
}

impl Writing {
    fn start(writer: Arc<dyn Registry>, items: u32) -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let stop = enough.clone();
        let task = tokio::spawn(async move {
            for n in 0.. {
                if stop.load(Ordering::SeqCst) {
                    return n;
                }
                let instance = format!("w{}", n % 3);
                let gone = format!("w{}", (n + 1) % 3);
                let change = [
                    write_record(0, Some(n), n + 1),
                    assign(n, &n.to_string()),
                    write_record(items - 1, Some(n), n + 1),
                    write_instance(&instance),
                    Write::RemoveInstance(j(), crate::words::instance(&gone)),
                ];
                put(&*writer, change).await;
            }
            unreachable!("it is told to stop");
        });
        Self { task, enough }
    }

    /// How many were written.
    async fn end(self) -> u64 {
        self.enough.store(true, Ordering::SeqCst);
        self.task.await.unwrap()
    }
}

async fn is_of_one_revision(items: u32) {
    let options = patient().await;
    let (writer, reader) = (Arc::new(connect(&options).await), connect(&options).await);
    put(&*writer, [create(&j(), "i1")]).await;
    put_records(&*writer, items).await;
    // Its session, with its instances, outlives the writes.
    let session = writer.clone();
    let writing = Writing::start(writer, items);
    let (mut reads, mut last, mut moved) = (0, 0, 0);
    // Reads are concurrent with writes: most of them see another revision than the previous one.
    while moved < 25 {
        assert!(!writing.task.is_finished(), "the writing ended after {reads} reads");
        let found = snapshot(&reader).await;
        let (first, generation) = (found.records[&Item(0)].0.0, found.nodes.generation.0);
        let last_one = found.records[&Item(items - 1)].0.0;
        assert_eq!((first, last_one), (generation, generation), "torn after {reads} reads");
        assert!(generation >= last, "it went back");
        let instances = found.nodes.instances.len() as u64;
        assert_eq!(instances, generation.min(2), "at generation {generation}");
        assert!(found.nodes.instances.values().all(|seen| !seen.mine && seen.node.is_some()));
        moved += u32::from(generation > last);
        (reads, last) = (reads + 1, generation);
    }
    let written = writing.end().await;
    assert_eq!(snapshot(&*session).await.nodes.generation.0, written);
}
