//! Behavior specific to ZooKeeper: connections that are cut, sessions that end, servers that die, credentials, sizes,
//! and transactions that share a packet.

mod connect;
mod cuts;
mod deaths;
mod histories;
mod old;
mod proxy;
mod reading;
mod same;
mod serve;
mod sharing;
mod throughput;
mod tls;
mod tools;

use std::time::{Duration, Instant};

use rosterd_registry::zookeeper::{ZooKeeperOptions, ZooKeeperRegistry};
use rosterd_registry::{Hint, Hints, SessionState};
use zookeeper_client::Client;

use crate::backend::{options, single};

/// After this time an awaited state is considered missing.
const PATIENCE: Duration = Duration::from_secs(30);

async fn connect(options: &ZooKeeperOptions) -> ZooKeeperRegistry {
    ZooKeeperRegistry::connect(options.clone()).await.unwrap()
}

/// Options for the shared server, with a separate root.
async fn on_single() -> ZooKeeperOptions {
    options(&tokio::task::spawn_blocking(single).await.unwrap().list())
}

/// A client of the same root, bypassing our store.
async fn raw(options: &ZooKeeperOptions) -> Client {
    Client::connector().connect(&options.servers).await.unwrap()
}

/// The hints up to and including the awaited one.
async fn until(hints: &mut Hints, wanted: &Hint) -> Vec<Hint> {
    let mut given = Vec::new();
    while given.last() != Some(wanted) {
        match tokio::time::timeout(PATIENCE, hints.recv()).await {
            Ok(Some(hint)) => given.push(hint),
            other => panic!("{wanted:?} did not come ({other:?}), but {given:?}"),
        }
    }
    given
}

async fn until_state(hints: &mut Hints, state: SessionState) -> Vec<Hint> {
    until(hints, &Hint::Session(state)).await
}

/// Asks again until the answer is `true`.
async fn eventually<F: AsyncFnMut() -> bool>(what: &str, mut ask: F) {
    let begun = Instant::now();
    while !ask().await {
        assert!(begun.elapsed() < PATIENCE, "it never came to be: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
