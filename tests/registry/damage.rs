//! A damaged store is never silently opened: there is a clear error, or everything is there.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rosterd_domain::id::{Item, Namespace};
use rosterd_domain::txn::Write;
use rosterd_registry::Registry;
use rosterd_registry::embedded::{EmbeddedOptions, EmbeddedRegistry, OpenError};

use crate::backend::{open, open_with_defaults};
use crate::words::*;

const FILES: [&str; 3] = ["registry.db", "registry.db-wal", "registry.note"];

/// The contents of an intact store.
type Contents = (Vec<String>, Vec<(Item, u64)>);

async fn contents(registry: &EmbeddedRegistry) -> Contents {
    let records = snapshot(registry).await.records;
    let versions = records.into_iter().map(|(item, (version, _))| (item, version.0)).collect();
    (dump(registry, &j()).await, versions)
}

/// A store with a thousand nodes, partly in the database and partly only in its log; still open, so that a copy of its
/// files is like the result of a kill.
async fn filled(dir: &Path) -> (EmbeddedRegistry, Contents) {
    let registry = open(dir);
    put(&registry, [create(&j(), "i1")]).await;
    put(&registry, (0..1_000).map(|item| write_record(item, None, 1))).await;
    drop(registry);
    let registry = open(dir);
    for n in 0..4 {
        put(&registry, [write_record(n, Some(0), 2)]).await;
    }
    let offset = Write::Offset { job: j(), item: Item(0), data: vec![7; 20_000].into() };
    put(&registry, [offset]).await;
    let contents = contents(&registry).await;
    (registry, contents)
}

/// A copy of the files as a kill would leave them.
fn copy(from: &Path, to: &Path) {
    for name in FILES {
        let _ = fs::copy(from.join(name), to.join(name));
    }
}

fn try_open(dir: &Path) -> Result<EmbeddedRegistry, OpenError> {
    EmbeddedRegistry::open(dir, EmbeddedOptions::new(namespace()))
}

/// The error, which must name the file and say what to do.
fn error(dir: &Path) -> String {
    let text = try_open(dir).expect_err("a damaged store was opened").to_string();
    assert!(text.contains("registry.") && text.contains(';'), "{text}");
    text
}

#[tokio::test]
async fn a_flipped_byte_is_found_or_harmless() {
    let whole = crate::words::dir();
    let (_open, expected) = filled(whole.path()).await;
    let (mut found, mut harmless) = (BTreeMap::<&str, u32>::new(), 0);
    for name in FILES {
        let bytes = fs::read(whole.path().join(name)).unwrap();
        // Every header byte, then every n-th: enough to hit each kind of page.
        let step = (bytes.len() / 150).max(1) | 1;
        for at in (0..bytes.len().min(110)).chain((110..bytes.len()).step_by(step)) {
            let dir = crate::words::dir();
            copy(whole.path(), dir.path());
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x40;
            fs::write(dir.path().join(name), &bytes).unwrap();
            match try_open(dir.path()) {
                Ok(registry) => {
                    assert_eq!(contents(&registry).await, expected, "byte {at} of {name}: silently lost");
                    harmless += 1;
                }
                Err(error) => {
                    assert!(error.to_string().contains("registry."), "{error}");
                    let after = fs::read(dir.path().join(name)).unwrap();
                    assert!(after == bytes, "byte {at} of {name}: the evidence was changed");
                    *found.entry(name).or_default() += 1;
                }
            }
        }
    }
    println!("flipped bytes found: {found:?}; {harmless} harmless, none silent");
    // A test that did not hit live pages would prove nothing.
    assert!(FILES.iter().all(|name| found[name] >= 60), "{found:?}");
}

#[tokio::test]
async fn a_cut_off_file_is_found() {
    let whole = crate::words::dir();
    let (_open, expected) = filled(whole.path()).await;
    for name in FILES {
        let bytes = fs::read(whole.path().join(name)).unwrap();
        for keep in
            [0, 1, 31, 100, 4096, 4097, bytes.len() / 2, bytes.len() - 4096.min(bytes.len()), bytes.len() - 1]
        {
            if keep >= bytes.len() {
                continue;
            }
            let dir = crate::words::dir();
            copy(whole.path(), dir.path());
            fs::write(dir.path().join(name), &bytes[..keep]).unwrap();
            match try_open(dir.path()) {
                Ok(registry) => {
                    assert_eq!(contents(&registry).await, expected, "{name} cut to {keep}: silently lost");
                }
                Err(error) => assert!(error.to_string().contains("registry."), "{error}"),
            }
        }
    }
}

#[tokio::test]
async fn a_missing_file_is_found() {
    let whole = crate::words::dir();
    let _open = filled(whole.path()).await;
    let without = |names: &[&str]| {
        let dir = crate::words::dir();
        copy(whole.path(), dir.path());
        for name in names {
            fs::remove_file(dir.path().join(name)).unwrap();
        }
        dir
    };
    let text = error(without(&["registry.db"]).path());
    assert!(text.contains("is missing"), "{text}");
    let text = error(without(&["registry.db", "registry.note"]).path());
    assert!(text.contains("is missing"), "{text}");
    let text = error(without(&["registry.db", "registry.db-wal"]).path());
    assert!(text.contains("is missing"), "{text}");
    let text = error(without(&["registry.db-wal"]).path());
    assert!(text.contains("has lost its latest changes"), "{text}");
    // The note alone has no contents.
    assert!(try_open(without(&["registry.note"]).path()).is_ok());
}

#[test]
fn a_foreign_file_is_left_alone() {
    let dir = crate::words::dir();
    let file = dir.path().join("registry.db");
    fs::write(&file, "my shopping list").unwrap();
    assert!(error(dir.path()).contains("is not a store"));
    assert_eq!(fs::read(&file).unwrap(), b"my shopping list");
    fs::remove_file(&file).unwrap();
    let foreign = rusqlite::Connection::open(&file).unwrap();
    foreign.execute_batch("CREATE TABLE node (a)").unwrap();
    drop(foreign);
    let before = fs::read(&file).unwrap();
    assert!(error(dir.path()).contains("is not a store"));
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn another_namespace_or_a_later_format_is_refused() {
    let dir = crate::words::dir();
    drop(open(dir.path()));
    let options = EmbeddedOptions::new(Namespace::new("other").unwrap());
    let text = EmbeddedRegistry::open(dir.path(), options).unwrap_err().to_string();
    assert!(text.contains("namespace ns, not of other"), "{text}");
    let database = rusqlite::Connection::open(dir.path().join("registry.db")).unwrap();
    database.pragma_update(None, "user_version", 3).unwrap();
    drop(database);
    assert!(error(dir.path()).contains("has format 3"));
}

#[tokio::test]
async fn after_a_stop_the_rows_say_everything_and_the_journal_is_empty() {
    let dir = crate::words::dir();
    let counts = || {
        let database = rusqlite::Connection::open(dir.path().join("registry.db")).unwrap();
        let count = |sql| database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        let last = "SELECT count(*) FROM node WHERE path LIKE '%/offset/0' AND data = x'0303'";
        (
            count("SELECT count(*) FROM journal"),
            count("SELECT rows FROM ledger"),
            count("SELECT count(*) FROM node"),
            count(last),
        )
    };
    let registry = open_with_defaults(dir.path());
    put(&registry, [create(&j(), "i1")]).await;
    for n in 0..4 {
        put(&registry, [Write::Offset { job: j(), item: Item(0), data: vec![n; 2].into() }]).await;
    }
    // Nothing is merged so soon.
    let live = crate::words::dir();
    copy(dir.path(), live.path());
    let found = rusqlite::Connection::open(live.path().join("registry.db")).unwrap();
    let journal: (i64, i64) = found
        .query_row("SELECT (SELECT count(*) FROM journal), (SELECT count(*) FROM node)", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(journal, (5, 0));
    drop(registry);
    let (journal, rows, nodes, last) = counts();
    assert_eq!((journal, rows, last), (0, nodes, 1));
    // A batch of ephemeral nodes alone changes no row, and is an entry if it raises the ceiling.
    let registry = open_with_defaults(dir.path());
    put(&registry, [Write::Coordinator { id: coordinator("c"), data: "c".into() }]).await;
    drop(registry);
    assert_eq!(counts(), (0, rows, nodes, 1));
}

/// A store that a program of the first format wrote.
fn of_the_first_format(dir: &Path) -> rusqlite::Connection {
    let database = rusqlite::Connection::open(dir.join("registry.db")).unwrap();
    database.execute_batch(include_str!("../data/registry-format-1.sql")).unwrap();
    fs::set_permissions(dir.join("registry.db"), fs::Permissions::from_mode(0o600)).unwrap();
    database
}

fn open_default(dir: &Path) -> Result<EmbeddedRegistry, OpenError> {
    EmbeddedRegistry::open(dir, EmbeddedOptions::new(Namespace::new("default").unwrap()))
}

async fn tokens(registry: &EmbeddedRegistry) -> Vec<u64> {
    let records = registry.snapshot(&job("nightly")).await.unwrap().unwrap().records;
    records.into_values().map(|(version, record)| version.0 + record.token.0).collect()
}

#[tokio::test]
async fn the_first_format_is_read_and_becomes_this_one_with_the_first_write() {
    let dir = crate::words::dir();
    drop(of_the_first_format(dir.path()));
    let format = || {
        let database = rusqlite::Connection::open(dir.path().join("registry.db")).unwrap();
        database.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)).unwrap()
    };
    let registry = open_default(dir.path()).unwrap();
    assert_eq!(tokens(&registry).await, [1_795_905_964_570_019; 2]);
    drop(registry);
    assert_eq!(format(), 1, "it was only read");
    let registry = open_default(dir.path()).unwrap();
    let offset = Write::Offset { job: job("nightly"), item: Item(1), data: b"7".as_slice().into() };
    put(&registry, [offset]).await;
    drop(registry);
    assert_eq!(format(), 2);
    let registry = open_default(dir.path()).unwrap();
    assert_eq!(tokens(&registry).await, [1_795_905_964_570_019; 2]);
    assert_eq!(registry.offset(&job("nightly"), Item(1)).await.unwrap().as_deref(), Some(b"7".as_slice()));
}

#[test]
fn a_damaged_store_of_the_first_format_is_found() {
    let dir = crate::words::dir();
    let database = of_the_first_format(dir.path());
    database.execute("UPDATE node SET version = version + 1 WHERE path = '/default/nightly'", []).unwrap();
    drop(database);
    let text = open_default(dir.path()).unwrap_err().to_string();
    assert!(text.contains("do not match their digest"), "{text}");
}

#[test]
fn two_processes_do_not_share_a_directory() {
    let dir = crate::words::dir();
    let first = open(dir.path());
    let text = try_open(dir.path()).unwrap_err().to_string();
    assert!(text.contains("in use by another rosterd"), "{text}");
    drop(first);
    assert!(try_open(dir.path()).is_ok());
}

/// A child between fork and exec has a copy of every open file, including the lock.
#[test]
fn a_store_can_be_opened_again_while_children_are_started() {
    let dir = crate::words::dir();
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    std::process::Command::new("true").status().unwrap();
                }
            });
        }
        let reopened: Vec<_> = (0..200).map(|_| try_open(dir.path()).map(drop)).collect();
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        for (round, result) in reopened.into_iter().enumerate() {
            result.unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
    });
}
