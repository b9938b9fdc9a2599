//! How many transactions a second, compared with the raw rate of the servers through the client library.

use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rosterd_domain::txn::Guard;
use rosterd_registry::Registry;

use super::{connect, on_single, raw};
use crate::words::*;

const ITEMS: u32 = 256;
const IN_FLIGHT: usize = 64;

/// A record and its mirror, guarded as a start is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_beside_raw_writes() {
    let total: u64 = if cfg!(debug_assertions) { 8_000 } else { 60_000 };
    let options = on_single().await;
    let registry = connect(&options).await;
    put(&registry, [create(&j(), "i1")]).await;
    put(&registry, (0..ITEMS).map(|item| write_record(item, None, 0))).await;
    let client = raw(&options).await;
    let begun = Instant::now();
    let mut waiting = FuturesUnordered::new();
    for n in 0..total {
        waiting.push(client.set_data("/ns", &[], None));
        if waiting.len() >= IN_FLIGHT {
            waiting.next().await.unwrap().unwrap();
        }
        assert!(n < total);
    }
    while let Some(done) = waiting.next().await {
        done.unwrap();
    }
    let raw = total as f64 / begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let mut waiting = FuturesUnordered::new();
    for n in 0..total {
        let (item, version) = ((n % u64::from(ITEMS)) as u32, n / u64::from(ITEMS));
        let worker = if version % 2 == 0 { Some("w") } else { None };
        let writes = [write_record(item, Some(version), version + 1), running(item, worker)];
        waiting.push(registry.commit(txn([Guard::Incarnation(j(), "i1".into())], writes)));
        if waiting.len() >= IN_FLIGHT {
            committed(waiting.next().await.unwrap());
        }
    }
    while let Some(commit) = waiting.next().await {
        committed(commit);
    }
    let ours = total as f64 / begun.elapsed().as_secs_f64();
    println!("{IN_FLIGHT} in flight: {raw:.0} raw sets a second, {ours:.0} transactions of 3 operations");
    assert!(ours > raw / 10.0, "{ours:.0} transactions a second, {raw:.0} raw sets");
}
