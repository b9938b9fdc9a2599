//! Transactions that share a packet: the refusal of one does not drop the others, and the order of calls holds.

use rosterd_domain::id::{Item, Version};
use rosterd_domain::txn::{Commit, Guard, Write};
use rosterd_registry::Registry;
use rosterd_registry::zookeeper::ZooKeeperOptions;

use super::{connect, on_single};
use crate::words::*;

/// The answers one after another.
async fn answers(commits: Vec<futures_util::future::BoxFuture<'static, Commit>>) -> Vec<Commit> {
    futures_util::future::join_all(commits).await
}

fn is_committed(commit: Commit) {
    committed(commit);
}

#[tokio::test]
async fn what_waits_together_is_applied_together() {
    let registry = connect(&on_single().await).await;
    put(&registry, [create(&j(), "i1")]).await;
    let all = (0..200).map(|item| txn([Guard::Incarnation(j(), "i1".into())], [write_record(item, None, 1)]));
    let mut revisions: Vec<_> =
        answers(registry.commit_all(all.collect())).await.into_iter().map(committed).collect();
    assert_eq!(revisions.len(), 200);
    revisions.dedup();
    assert!(revisions.len() <= 8, "{} packets", revisions.len());
}

#[tokio::test]
async fn a_neighbours_refusal_drops_nothing() {
    let registry = connect(&on_single().await).await;
    put(&registry, [create(&j(), "i1")]).await;
    put(&registry, (0..90).map(|item| write_record(item, None, 1))).await;
    for round in 0..4_u64 {
        // Every seventh is based on an older version, some write a mirror with an unknown state.
        let wrong = |item: u32| item % 7 == round as u32;
        let all = (0..90).map(|item| {
            let version = if wrong(item) { 77 } else { snapshot_version(round, item) };
            let mirror = Write::Misfire { job: j(), item: Item(item), marked: item % 2 == 0 };
            txn([Guard::Incarnation(j(), "i1".into())], [write_record(item, Some(version), 2), mirror])
        });
        for (item, commit) in (0..).zip(answers(registry.commit_all(all.collect())).await) {
            match commit {
                Commit::Committed(_) => assert!(!wrong(item), "{item}"),
                Commit::Conflict(text) => {
                    assert!(
                        wrong(item) && text.contains(&format!("the record of item {item} ")),
                        "{item}: {text}"
                    );
                }
                other => panic!("{item}: {other:?}"),
            }
        }
    }
    for (item, (version, _)) in snapshot(&registry).await.records {
        assert_eq!(version, Version(snapshot_version(4, item.0)), "{item}");
    }
}

/// A record was written in each round before this one, except those in which it had to be refused.
fn snapshot_version(round: u64, item: u32) -> u64 {
    round - u64::from(u64::from(item % 7) < round)
}

/// Two that touch the same node never share a packet, nor overtake each other, whatever is between them.
#[tokio::test]
async fn the_order_of_calls_holds_where_it_can_be_seen() {
    in_order().await.into_iter().for_each(is_committed);
}

/// The same with parts of one packet that see each other.
#[cfg(feature = "mutants")]
#[tokio::test]
async fn hole_28_parts_of_one_packet_do_not_see_each_other() {
    use rosterd_domain::mutants;
    mutants::switch(Some(mutants::PACKETS_MIX));
    let commits = in_order().await;
    mutants::switch(None);
    assert!(commits.iter().any(|commit| !matches!(commit, Commit::Committed(_))), "nobody notices");
}

/// The outcomes of many dependent transactions, submitted at once.
async fn in_order() -> Vec<Commit> {
    let registry = connect(&on_single().await).await;
    put(&registry, [create(&j(), "i1"), write_record(0, None, 0), write_record(1, None, 0)]).await;
    let mut all = Vec::new();
    for n in 0..60_u64 {
        all.push(txn([], [write_record(0, Some(n), n + 1), running(0, Some("w"))]));
        all.push(txn([Guard::NoAttachment(worker("none"))], [write_record(1, Some(n), n + 1)]));
        all.push(txn([], [running(0, None), Write::Offset { job: j(), item: Item(0), data: bytes("o") }]));
    }
    let commits = answers(registry.commit_all(all)).await;
    let records = snapshot(&registry).await.records;
    let whole = commits.iter().all(|commit| matches!(commit, Commit::Committed(_)));
    assert!(!whole || records.values().all(|(version, record)| version.0 == 60 && record.token.0 == 60));
    commits
}

/// The servers close the connection of a client that sends more than they accept.
#[tokio::test]
async fn what_is_larger_than_a_packet_is_refused_in_words() {
    let registry = connect(&on_single().await).await;
    put(&registry, [create(&j(), "i1")]).await;
    let offset =
        |item, bytes: usize| Write::Offset { job: j(), item: Item(item), data: vec![7; bytes].into() };
    let all: Vec<_> = (0..10).map(|item| offset(item, 60_000)).collect();
    let commit = registry.commit(txn([], all.clone())).await;
    let Commit::TooLarge(text) = commit else { panic!("{commit:?}") };
    assert!(text.contains("a packet for ZooKeeper may have 524288") && text.contains("smaller"), "{text}");
    // Each alone fits, and so do many that wait together: they are spread over packets.
    let each: Vec<_> = all.into_iter().map(|write| txn([], [write])).collect();
    answers(registry.commit_all(each)).await.into_iter().for_each(is_committed);
    assert_eq!(registry.offset(&j(), Item(9)).await.unwrap().unwrap().len(), 60_000);
}

#[tokio::test]
async fn overload_is_refused_and_what_was_taken_is_done() {
    let options = ZooKeeperOptions { queue: 50, ..on_single().await };
    let registry = connect(&options).await;
    put(&registry, [create(&j(), "i1")]).await;
    let commits = (0..500).map(|item| registry.commit(txn([], [write_record(item, None, 1)]))).collect();
    let (mut done, mut refused) = (0, 0);
    for commit in answers(commits).await {
        match commit {
            Commit::Committed(_) => done += 1,
            Commit::Unavailable(text) => {
                assert!(text.contains("overloaded") && text.contains("try again later"), "{text}");
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((done, refused), (50, 450));
    assert_eq!(snapshot(&registry).await.records.len(), done);
}
