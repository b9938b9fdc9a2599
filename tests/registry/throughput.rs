//! How many small transactions a second the embedded store syncs, and the answers under overload.

use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rosterd_domain::txn::{Commit, Guard};
use rosterd_registry::Registry;
use rosterd_registry::embedded::{EmbeddedOptions, EmbeddedRegistry};

use crate::backend::open_with_defaults;
use crate::words::*;

const ITEMS: u32 = 4_000;

/// A record and its mirror, guarded as a start is, with 2,000 transactions waiting at once.
#[tokio::test]
async fn many_small_transactions_share_a_sync() {
    let total: u64 = if cfg!(debug_assertions) { 20_000 } else { 200_000 };
    let dir = crate::words::dir();
    let registry = open_with_defaults(dir.path());
    put(&registry, [create(&j(), "i1")]).await;
    put(&registry, (0..ITEMS).map(|item| write_record(item, None, 0))).await;
    let start = Instant::now();
    let mut waiting = FuturesUnordered::new();
    let mut slowest = std::time::Duration::ZERO;
    for n in 0..total {
        let (item, version) = ((n % u64::from(ITEMS)) as u32, n / u64::from(ITEMS));
        let guard = Guard::Incarnation(j(), "i1".into());
        let commit = registry
            .commit(txn([guard], [write_record(item, Some(version), version + 1), running(item, Some("w"))]));
        let asked = Instant::now();
        waiting.push(async move { (commit.await, asked.elapsed()) });
        if waiting.len() >= 2_000 {
            let (commit, took) = waiting.next().await.unwrap();
            committed(commit);
            slowest = slowest.max(took);
        }
    }
    while let Some((commit, took)) = waiting.next().await {
        committed(commit);
        slowest = slowest.max(took);
    }
    let rate = total as f64 / start.elapsed().as_secs_f64();
    println!("{rate:.0} transactions a second, slowest {slowest:?}");
    let floor = if cfg!(debug_assertions) { 1_000.0 } else { 20_000.0 };
    assert!(rate >= floor, "{rate:.0} transactions a second");
}

#[tokio::test]
async fn overload_is_refused_and_what_was_taken_is_done() {
    let dir = crate::words::dir();
    let options = EmbeddedOptions { queue: 4, ..EmbeddedOptions::new(namespace()) };
    let registry = EmbeddedRegistry::open(dir.path(), options).unwrap();
    put(&registry, [create(&j(), "i1")]).await;
    let commits: Vec<_> =
        (0..2_000).map(|item| registry.commit(txn([], [write_record(item, None, 1)]))).collect();
    let mut done = 0;
    let mut refused = 0;
    for commit in commits {
        match commit.await {
            Commit::Committed(_) => done += 1,
            Commit::Unavailable(text) => {
                assert!(text.contains("overloaded") && text.contains("try again later"), "{text}");
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(done >= 4 && refused > 0, "{done} done, {refused} refused");
    assert_eq!(snapshot(&registry).await.records.len(), done);
}

/// A store at its largest: how long it takes to open, and to read its largest job.
#[tokio::test]
async fn a_large_store_is_opened_and_read() {
    let (jobs, items) = if cfg!(debug_assertions) { (200, 5_000) } else { (5_000, 100_000) };
    let dir = crate::words::dir();
    let registry = open_with_defaults(dir.path());
    let made: Vec<_> =
        (0..jobs).map(|n| registry.commit(create_new(&job(&format!("job-{n}")), "i"))).collect();
    for commit in made {
        committed(commit.await);
    }
    put(&registry, [create(&j(), "i1")]).await;
    for chunk in (0..items).collect::<Vec<u32>>().chunks(1_000) {
        put(&registry, chunk.iter().map(|item| write_record(*item, None, 0))).await;
    }
    drop(registry);
    let start = Instant::now();
    let registry = open_with_defaults(dir.path());
    let opened = start.elapsed();
    let start = Instant::now();
    assert_eq!(snapshot(&registry).await.records.len(), items as usize);
    println!("{jobs} jobs and a job of {items} items: opened in {opened:?}, snapshot {:?}", start.elapsed());
    assert_eq!(registry.jobs().await.unwrap().len(), jobs + 1);
}
