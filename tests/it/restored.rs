//! The store goes back in time, or is lost, while workers are alive: their runs go on by themselves, and no token is
//! issued twice.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use crate::harness::*;
use crate::judge::What;
use crate::python;
use crate::worker::Does;

const ITEMS: u32 = 4;

fn config() -> String {
    job("steady", ITEMS, json!({"cron": EVERY_SECOND}))
}

/// A job that fires each second, with a worker in Rust and one in Python.
async fn at_work() -> Cluster {
    let mut cluster = Cluster::start(SHORT).await;
    cluster.apply(config()).await;
    cluster.home.open("gate");
    cluster.worker("rust", vec![Does { config: Some(config()), ..runs_for("steady", 1) }]);
    python::start(&mut cluster, "python", "steady");
    cluster.assigned("steady", 2).await;
    cluster
}

/// The tokens of runs that started in user code, by item, in the order of their starts.
fn tokens(cluster: &Cluster) -> BTreeMap<u32, Vec<u64>> {
    let mut tokens: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    let mut lines = cluster.lines();
    lines.sort_by_key(|line| line.wall);
    for line in lines.iter().filter(|line| line.what == What::Start) {
        tokens.entry(line.item).or_default().push(line.token);
    }
    tokens
}

/// Waits until each item has run this many times more.
async fn runs_again(cluster: &Cluster, more: usize) {
    let before = tokens(cluster);
    until("each item to run again", || {
        let now = tokens(cluster);
        (0..ITEMS).all(|item| {
            let count = |of: &BTreeMap<u32, Vec<u64>>| of.get(&item).map_or(0, Vec::len);
            count(&now) >= count(&before) + more
        })
    })
    .await;
}

/// No token came twice, or after a higher one; and no worker had to refuse one for that. (A run that was in flight when a
/// coordinator was killed may have crashed.)
async fn never_fell(cluster: &Cluster) {
    let counters = cluster.counters("steady").await;
    let crashed = cluster.runs("steady").await.into_iter().filter(|run| !run.error.is_empty());
    let crashed: Vec<_> = crashed.map(|run| (run.run, run.error, run.source)).collect();
    assert!(counters.crashed <= u64::from(ITEMS), "{counters:?} {crashed:#?}");
    for (item, tokens) in tokens(cluster) {
        assert!(tokens.is_sorted_by(|before, after| before < after), "item {item}: {tokens:?}");
    }
}

/// With its permissions, as `cp -a` does: a directory that others may read is refused.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    std::fs::set_permissions(to, std::fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[tokio::test]
async fn a_directory_that_is_put_back_from_a_copy_gives_no_token_again() {
    let mut cluster = at_work().await;
    runs_again(&cluster, 2).await;
    cluster.kill_coordinator();
    let old = cluster.home.path("copy");
    copy(&cluster.data, &old);
    cluster.serve().await;
    runs_again(&cluster, 4).await;
    cluster.kill_coordinator();
    std::fs::remove_dir_all(&cluster.data).unwrap();
    std::fs::rename(&old, &cluster.data).unwrap();
    cluster.serve().await;
    runs_again(&cluster, 4).await;
    never_fell(&cluster).await;
}

#[tokio::test]
async fn a_disk_that_is_lost_is_followed_by_higher_tokens() {
    let mut cluster = at_work().await;
    runs_again(&cluster, 2).await;
    cluster.kill_coordinator();
    std::fs::remove_dir_all(&cluster.data).unwrap();
    cluster.serve().await;
    // The worker that offers the job's configuration creates it again; the other one is accepted when it registers
    // again.
    wait("the job to be made again", || async { cluster.try_items("steady").await.ok() }).await;
    runs_again(&cluster, 4).await;
    never_fell(&cluster).await;
}
