//! A snapshot is of one revision, whatever is written meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rosterd_domain::id::Item;

use super::{connect, on_single};
use crate::words::*;

const ITEMS: u32 = 1_000;

/// Each transaction counts the first and the last record and the assignment up together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_of_one_revision() {
    let options = on_single().await;
    let (writer, reader) = (Arc::new(connect(&options).await), connect(&options).await);
    put(&*writer, [create(&j(), "i1")]).await;
    put(&*writer, (0..ITEMS).map(|item| write_record(item, None, 0))).await;
    // Its session, and the instances with it, outlives the writing.
    let session = writer.clone();
    let enough = Arc::new(AtomicBool::new(false));
    let stop = enough.clone();
    let writing = tokio::spawn(async move {
        for n in 0.. {
            if stop.load(Ordering::SeqCst) {
                return n;
            }
            let instance = format!("w{}", n % 3);
            let gone = format!("w{}", (n + 1) % 3);
            let change = [
                write_record(0, Some(n), n + 1),
                assign(n, &n.to_string()),
                write_record(ITEMS - 1, Some(n), n + 1),
                write_instance(&instance),
                rosterd_domain::txn::Write::RemoveInstance(j(), crate::words::instance(&gone)),
            ];
            put(&*writer, change).await;
        }
        unreachable!("it is told to stop");
    });
    let (mut reads, mut last, mut moved) = (0, 0, 0);
    // Each reading meets writing: most of them find another revision than the one before.
    while moved < 25 {
        assert!(!writing.is_finished(), "the writing ended after {reads} reads");
        let found = snapshot(&reader).await;
        let (first, generation) = (found.records[&Item(0)].0.0, found.nodes.generation.0);
        let last_one = found.records[&Item(ITEMS - 1)].0.0;
        assert_eq!((first, last_one), (generation, generation), "torn after {reads} reads");
        assert!(generation >= last, "it went back");
        let instances = found.nodes.instances.len() as u64;
        assert_eq!(instances, generation.min(2), "at generation {generation}");
        assert!(found.nodes.instances.values().all(|seen| !seen.mine && seen.node.is_some()));
        moved += u32::from(generation > last);
        (reads, last) = (reads + 1, generation);
    }
    enough.store(true, Ordering::SeqCst);
    let written = writing.await.unwrap();
    assert_eq!(snapshot(&*session).await.nodes.generation.0, written);
}
