//! Acknowledged means synced, and a failed sync is final: observed from outside, with strace.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rosterd_domain::id::Item;
use rosterd_domain::txn::{Commit, Write};
use rosterd_registry::{Hint, ReadError, Registry, SessionState};

use crate::backend::open;
use crate::process::{child, directory, is_installed, run};
use crate::words::*;

const LOG: &str = "registry.db-wal";

fn strace(arguments: &[&str], trace: &Path) -> Vec<String> {
    assert!(is_installed("strace"), "strace is missing: run `cargo xtask setup`");
    let trace = trace.to_str().unwrap();
    ["strace", "-f", "-y", "-o", trace].iter().chain(arguments).map(ToString::to_string).collect()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

const CALLS: &str = "trace=write,pwrite64,pwritev,fsync,fdatasync";

/// By the order of the system calls: between the last write to the log and each acknowledgement there is a sync of the
/// log.
#[test]
fn nothing_is_acknowledged_before_it_is_synced() {
    let dir = crate::words::dir();
    let trace = dir.path().join("trace");
    let wrapper = strace(&["-e", CALLS], &trace);
    run(child(&wrapper, "sync::child_writes_one_by_one", dir.path()));
    let (mut dirty, mut written, mut synced, mut acknowledged) = (false, 0, 0, 0);
    for line in std::fs::read_to_string(&trace).unwrap().lines() {
        let call = line.split_once(' ').map_or(line, |(_, call)| call.trim_start());
        // With several threads a call may be split in two: a sync counts when it has returned.
        let resumed = call.starts_with("<... ");
        if call.contains("\"ack ") {
            assert!(!dirty, "acknowledged before the sync, after {synced} syncs: {line}");
            acknowledged += 1;
        } else if call.starts_with("pwrite64(") && call.contains(LOG) {
            (dirty, written) = (true, written + 1);
        } else if call.contains("sync") && (resumed || call.contains(LOG)) && call.ends_with("= 0") {
            (dirty, synced) = (false, synced + 1);
        }
    }
    assert_eq!(acknowledged, 30);
    assert!(written >= 30 && synced >= 30, "{written} writes, {synced} syncs");
}

#[test]
fn child_writes_one_by_one() {
    let Some(dir) = directory() else { return };
    block_on(async {
        let registry = open(&dir.join("data"));
        put(&registry, [create(&j(), "i1")]).await;
        for item in 0..30 {
            put(&registry, [write_record(item, None, 1)]).await;
            println!("ack {item}");
        }
    });
}

const WRITERS: u32 = 8;
const EACH: u32 = 20;

/// Which writes are in the log, by the marks in their data.
#[derive(Default)]
struct Marks<'a> {
    written: BTreeSet<&'a str>,
    synced: BTreeSet<&'a str>,
    /// The writes as of the start of the current sync.
    syncing: Option<BTreeSet<&'a str>>,
    /// Syncs that several writes had waited for.
    shared: u32,
}

impl<'a> Marks<'a> {
    /// The next call, in the order in which calls began and returned. One thread writes and syncs the log.
    fn take(&mut self, call: &'a str) {
        if call.starts_with("pwrite64(") && call.contains(LOG) {
            self.written.extend(marks(call));
        }
        let begins = call.starts_with("fdatasync(") || call.starts_with("fsync(");
        if begins && call.contains(LOG) {
            self.syncing = Some(self.written.clone());
        }
        let returns = begins || call.contains("sync resumed>");
        if returns && !call.contains("<unfinished") {
            let Some(reached) = self.syncing.take() else { return };
            assert!(call.ends_with("= 0"), "{call}");
            self.shared += u32::from(reached.difference(&self.synced).count() > 1);
            self.synced = reached;
        }
    }
}

/// The marks in the bytes of a call.
fn marks(call: &str) -> impl Iterator<Item = &str> {
    call.match_indices("mark-").filter_map(move |(at, _)| Some(&call[at..at + call[at..].find('.')?]))
}

/// Several concurrent writes wait for one sync: none is acknowledged before a sync that started after it.
#[test]
fn commits_that_share_a_sync_are_acknowledged_after_it() {
    let dir = crate::words::dir();
    let trace = dir.path().join("trace");
    // Whole pages are shown, with the marks in them.
    let wrapper = strace(&["-s", "65536", "-e", CALLS], &trace);
    run(child(&wrapper, "sync::child_writes_with_several_at_once", dir.path()));
    let (mut log, mut acknowledged) = (Marks::default(), BTreeSet::new());
    let text = std::fs::read_to_string(&trace).unwrap();
    for line in text.lines() {
        let call = line.split_once(' ').map_or(line, |(_, call)| call.trim_start());
        log.take(call);
        if call.contains("\"ack ") {
            let mark = marks(call).next().unwrap();
            assert!(log.written.contains(mark), "acknowledged before it was written: {mark}");
            assert!(log.synced.contains(mark), "acknowledged before its sync: {mark}");
            acknowledged.insert(mark);
        }
    }
    assert_eq!(acknowledged.len(), (WRITERS * EACH) as usize);
    println!("{} writes, {} syncs that several waited for", acknowledged.len(), log.shared);
    assert!(log.shared >= EACH / 2, "only {} syncs were shared", log.shared);
}

#[test]
fn child_writes_with_several_at_once() {
    let Some(dir) = directory() else { return };
    block_on(async {
        let registry = Arc::new(open(&dir.join("data")));
        put(&*registry, [create(&j(), "i1")]).await;
        let writer = |writer: u32| {
            let registry = registry.clone();
            async move {
                for n in 0..EACH {
                    let mark = format!("mark-{writer}-{n}.");
                    let (item, data) = (Item(writer * EACH + n), mark.as_bytes().into());
                    put(&*registry, [Write::Offset { job: j(), item, data }]).await;
                    println!("ack {mark}");
                }
            }
        };
        let tasks: Vec<_> = (0..WRITERS).map(|n| tokio::spawn(writer(n))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// After a failed sync the kernel may have dropped the pages and report success for the next sync.
#[test]
fn a_failed_sync_is_never_retried_as_a_success() {
    let dir = crate::words::dir();
    let trace = dir.path().join("trace");
    // The first sync after the store was opened and used; all later ones would succeed.
    let inject = ["-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:error=EIO:when=45"];
    let text = run(child(&strace(&inject, &trace), "sync::child_meets_a_failed_sync", dir.path()));
    let found = std::fs::read_to_string(&trace).unwrap();
    assert!(found.contains("(INJECTED)"), "{text}\n{found}");
    let acknowledged =
        text.lines().find_map(|line| line.strip_prefix("last ack ")?.parse::<u32>().ok()).unwrap();
    let registry = open(&dir.path().join("data"));
    let records = block_on(snapshot(&registry)).records.len() as u32;
    // The one with the answer Unknown may be there.
    assert!(
        (acknowledged..=acknowledged + 1).contains(&records),
        "{acknowledged} acknowledged, {records} found"
    );
}

#[test]
fn child_meets_a_failed_sync() {
    let Some(dir) = directory() else { return };
    block_on(async {
        let registry = open(&dir.join("data"));
        let mut hints = registry.hints();
        put(&registry, [create(&j(), "i1")]).await;
        let mut acknowledged = 0;
        loop {
            match registry.commit(txn([], [write_record(acknowledged, None, 1)])).await {
                Commit::Committed(_) => acknowledged += 1,
                Commit::Unknown => break,
                other => panic!("{other:?}"),
            }
            assert!(acknowledged < 1_000, "no sync has failed");
        }
        println!("\nlast ack {acknowledged}");
        for _ in 0..20 {
            let answer = registry.commit(txn([], [write_record(acknowledged, None, 1)])).await;
            let Commit::Unavailable(text) = answer else { panic!("{answer:?} after a failed sync") };
            assert!(text.contains("check the disk, then restart"), "{text}");
        }
        assert!(matches!(registry.jobs().await, Err(ReadError::Unavailable(_))));
        let given: Vec<Hint> = std::iter::from_fn(|| hints.try_recv()).collect();
        assert_eq!(given, [Hint::Jobs, Hint::Session(SessionState::Suspended)]);
    });
}

/// SQLite itself would hide this one, and assume at the next attempt that the log's pages were written.
#[test]
fn a_failed_checkpoint_is_the_end_as_well() {
    let dir = crate::words::dir();
    let data = dir.path().join("data");
    drop(open(&data));
    let database = data.join("registry.db");
    let trace = dir.path().join("trace");
    let inject = ["-P", database.to_str().unwrap(), "-e", "inject=fdatasync,fsync:error=EIO:when=1"];
    let text = run(child(&strace(&inject, &trace), "sync::child_meets_a_failed_checkpoint", dir.path()));
    let found = std::fs::read_to_string(&trace).unwrap();
    assert!(found.contains("(INJECTED)"), "{text}\n{found}");
    let acknowledged =
        text.lines().find_map(|line| line.strip_prefix("last ack ")?.parse::<u32>().ok()).unwrap();
    let registry = open(&data);
    for item in 0..acknowledged {
        assert!(block_on(registry.offset(&j(), Item(item))).unwrap().is_some(), "{item}");
    }
}

#[test]
fn child_meets_a_failed_checkpoint() {
    let Some(dir) = directory() else { return };
    block_on(async {
        let registry = open(&dir.join("data"));
        put(&registry, [create(&j(), "i1")]).await;
        for item in 0..1_000 {
            let data = vec![1; 60_000].into();
            let write = Write::Offset { job: j(), item: Item(item), data };
            match registry.commit(txn([], [write])).await {
                Commit::Committed(_) => {}
                Commit::Unavailable(text) => {
                    assert!(text.contains("check the disk, then restart"), "{text}");
                    return println!("\nlast ack {item}");
                }
                other => panic!("{other:?}"),
            }
        }
        panic!("no checkpoint has failed");
    });
}
