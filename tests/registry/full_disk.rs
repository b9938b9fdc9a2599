//! A full disk: nothing is acknowledged that is not stored, the error says what to do, and when there is space again
//! the store goes on by itself.
//!
//! The child has a mount namespace of its own, so the small file system ends with it.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use rosterd_domain::id::Item;
use rosterd_domain::txn::{Commit, Write};
use rosterd_registry::Registry;

use crate::backend::open;
use crate::process::{child, directory, is_installed, run};
use crate::words::*;

#[test]
fn a_full_disk_refuses_and_recovers() {
    assert!(is_installed("unshare"), "unshare (util-linux) is missing: run `cargo xtask setup`");
    let dir = crate::words::dir();
    let wrapper: &[&str] = if rustix::process::geteuid().is_root() {
        &["unshare", "--mount"]
    } else {
        &["unshare", "--mount", "--user", "--map-root-user"]
    };
    let text = run(child(wrapper, "full_disk::child_fills_its_disk", dir.path()));
    assert!(text.contains("refused and recovered"), "{text}");
}

#[test]
fn child_fills_its_disk() {
    let Some(dir) = directory() else { return };
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"]).arg(&dir).status();
    assert!(mounted.unwrap().success(), "a small file system cannot be mounted");
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
        for round in 0..3 {
            fill_and_free(&dir, round).await;
        }
    });
    println!("refused and recovered");
}

fn offset(item: u32, byte: u8) -> Write {
    Write::Offset { job: j(), item: Item(item), data: vec![byte; 30_000].into() }
}

/// Takes all space except about half a megabyte.
fn take_space(ballast: &Path) {
    let mut file = std::fs::File::create(ballast).unwrap();
    let mut size = 0;
    while file.write_all(&[1; 65_536]).is_ok() {
        size += 65_536;
    }
    file.set_len(size - (512 << 10)).unwrap();
}

async fn fill_and_free(dir: &Path, round: u8) {
    let ballast = dir.join("ballast");
    let registry = open(&dir.join("data"));
    if round == 0 {
        put(&registry, [create(&j(), "i1"), write_record(0, None, 0)]).await;
    }
    take_space(&ballast);
    let first = u32::from(round) * 1_000;
    let mut stored = first;
    let text = loop {
        match registry.commit(txn([], [offset(stored, round)])).await {
            Commit::Committed(_) => stored += 1,
            Commit::Unavailable(text) => break text,
            other => panic!("{other:?}"),
        }
        assert!(stored < first + 1_000, "the disk is never full");
    };
    assert!(text.contains("is full") && text.contains("free some space"), "{text}");
    // Stored data is still served, and refused writes are missing. A write that was never stored does not cause a
    // conflict.
    let name = job(&format!("x-{round}"));
    let both = [
        registry.commit(txn([], [offset(9_000, 0), create(&name, "i")])),
        registry.commit(create_new(&name, "i")),
    ];
    let [large, small] = both;
    assert!(matches!(large.await, Commit::Unavailable(_)));
    // In the same batch it is refused with the large one; in a batch of its own it may fit.
    assert!(matches!(small.await, Commit::Unavailable(_) | Commit::Committed(_)));
    assert_eq!(registry.offset(&j(), Item(first)).await.unwrap().unwrap()[..], [round; 30_000][..]);
    assert_eq!(registry.offset(&j(), Item(9_000)).await.unwrap(), None);
    std::fs::remove_file(&ballast).unwrap();
    put(&registry, [offset(stored, round)]).await;
    let version = snapshot(&registry).await.records[&Item(0)].0.0;
    put(&registry, [write_record(0, Some(version), 1)]).await;
    let before = dump(&registry, &j()).await;
    drop(registry);
    let registry = open(&dir.join("data"));
    assert_eq!(dump(&registry, &j()).await, before);
    for item in first..=stored {
        assert!(registry.offset(&j(), Item(item)).await.unwrap().is_some(), "item {item} is lost");
    }
}
