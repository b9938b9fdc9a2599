//! The work of the recorded process: transactions of several writes each, always the same ones, so that after a crash
//! the state must be exactly that after some number of them, and not before the last acknowledged one.

use std::sync::Arc;

use rosterd_domain::id::{Item, JobName, Version};
use rosterd_domain::txn::{Commit, Guard, Txn, Write};
use rosterd_registry::Registry;
use rosterd_registry::embedded::{EmbeddedOptions, EmbeddedRegistry};
use rosterd_registry::memory::{MemoryStore, SessionOptions};

use super::rng::Rng;
use crate::process::directory;
use crate::words::*;

/// How many transactions a process commits.
const TRANSACTIONS: usize = 90;
const ITEMS: u32 = 6;

/// The persistent contents of a store, in lines.
pub type State = Vec<String>;

/// The transactions of a life of the store; a later life works on another job.
pub fn transactions(life: usize) -> Vec<Txn> {
    let (name, mut rng) = (job(&format!("job-{life}")), Rng::new(life as u64));
    let mut versions = [None; ITEMS as usize];
    let mut all = vec![create_new(&name, "i")];
    let mut small: Option<JobName> = None;
    while all.len() < TRANSACTIONS {
        let mut writes = Vec::new();
        // Two records and an offset, so that half of a transaction would show.
        let first = rng.index(ITEMS as usize);
        for item in [first, (first + 1) % ITEMS as usize] {
            let expect: Option<u64> = versions[item];
            let record = Arc::new(record(expect.map_or(1, |version| version + 2)));
            let job = name.clone();
            writes.push(Write::Record { job, item: Item(item as u32), expect: expect.map(Version), record });
            versions[item] = Some(expect.map_or(0, |version| version + 1));
        }
        let length = [10, 400, 6_000, 30_000][rng.index(4)];
        let data = vec![all.len() as u8; length].into();
        writes.push(Write::Offset { job: name.clone(), item: Item(first as u32), data });
        let mut guards = Vec::new();
        match (all.len() % 9, &small) {
            (3, _) => {
                let other = job(&format!("small-{life}-{}", all.len()));
                guards.push(Guard::NoJob(other.clone()));
                writes.push(create(&other, "i"));
                small = Some(other);
            }
            (5, Some(other)) => {
                guards.push(Guard::Incarnation(other.clone(), "i".into()));
                writes.push(Write::EndJob(other.clone()));
            }
            (7, Some(other)) => writes.push(Write::SweepJob { job: other.clone(), limit: 100 }),
            (8, _) => writes.push(attach(&format!("w{life}-{}", all.len()), None, 1)),
            _ => {}
        }
        all.push(txn(guards, writes));
    }
    all
}

/// The states after zero, one, two transactions of `more`, and so on, each after all of `before`.
pub async fn states(before: &[Txn], more: &[Txn]) -> Vec<State> {
    let store = MemoryStore::new(&namespace());
    let registry = store.open("model", SessionOptions::default());
    for txn in before {
        committed(registry.commit(txn.clone()).await);
    }
    let mut states = vec![state(&registry).await];
    for txn in more {
        committed(registry.commit(txn.clone()).await);
        states.push(state(&registry).await);
    }
    states
}

/// The persistent contents of a store.
pub async fn state(registry: &dyn Registry) -> State {
    let mut lines = Vec::new();
    for name in registry.jobs().await.unwrap() {
        for (path, node) in registry.dump(&name).await.unwrap().unwrap_or_default() {
            if !node.ephemeral {
                let (bytes, text) = (node.data.len(), String::from_utf8_lossy(&node.data));
                let text: String = text.chars().take(40).collect();
                lines.push(format!("{name}{path} = {bytes} bytes {}", text.escape_debug()));
            }
        }
        for (item, (version, _)) in
            registry.snapshot(&name).await.unwrap().map(|s| s.records).unwrap_or_default()
        {
            lines.push(format!("{name}/{item}: version {version:?}"));
        }
    }
    for (worker, (version, node)) in registry.attachments().await.unwrap() {
        lines.push(format!("{worker}: version {version:?} {node:?}"));
    }
    lines
}

pub fn open(dir: &std::path::Path) -> Result<EmbeddedRegistry, String> {
    // Few, so that a short life has many checkpoints, logs that restart from the beginning, and merges of the journal.
    let options =
        EmbeddedOptions { checkpoint_pages: 60, journal_bytes: 100_000, ..EmbeddedOptions::new(namespace()) };
    EmbeddedRegistry::open(&dir.join("data"), options).map_err(|error| error.to_string())
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[allow(clippy::print_stdout, reason = "its parent reads it")]
fn acknowledge(count: usize, revision: u64) {
    use std::io::Write as _;
    let line = format!("ack {count} {revision}\n");
    // One call, bypassing the output buffer of tests.
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    std::io::stdout().lock().flush().unwrap();
}

/// Commits the transactions of a life, in groups that share a sync, on a store that is closed and reopened at times,
/// this often per thousand. Ends early if the store reports that it cannot go on.
async fn live(dir: &std::path::Path, life: usize, again: u64) {
    let (all, mut rng) = (transactions(life), Rng::new(99));
    let Ok(mut registry) = open(dir) else { return };
    // The opener has read it: its contents must no longer be lost.
    state(&registry).await;
    acknowledge(0, 0);
    let (mut done, mut refused) = (0, 0);
    while done < all.len() {
        let group: Vec<Txn> = all[done..].iter().take(1 + rng.index(4)).cloned().collect();
        for answer in registry.commit_all(group) {
            match answer.await {
                Commit::Committed(revision) => {
                    done += 1;
                    acknowledge(done, revision.0);
                }
                Commit::Unavailable(text) if text.contains("is full") => refused += 1,
                Commit::Unknown | Commit::Unavailable(_) => return,
                other => panic!("transaction {done}: {other:?}"),
            }
        }
        assert!(refused < 200, "the disk stays full");
        if rng.permille(again) {
            drop(registry);
            let Ok(next) = open(dir) else { return };
            registry = next;
        }
    }
}

#[test]
fn child_lives() {
    let Some(dir) = directory() else { return };
    block_on(live(&dir, 0, 80));
}

#[test]
fn child_lives_on() {
    let Some(dir) = directory() else { return };
    block_on(live(&dir, 0, 0));
}

#[test]
fn child_recovers() {
    let Some(dir) = directory() else { return };
    block_on(live(&dir, 1, 80));
}
