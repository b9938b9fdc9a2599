//! Features of only the store in memory: faults, delays, controls and the observer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rosterd_domain::id::Version;
use rosterd_domain::txn::{Commit, Purpose, Txn, Write};
use rosterd_registry::memory::*;
use rosterd_registry::{Hint, ReadError, Registry, SessionState};
use tokio::time::Instant;

use crate::words::*;

const LOSE_BEFORE: Purpose = Purpose::Apply;
const LOSE_AFTER: Purpose = Purpose::Attach;
const REFUSE: Purpose = Purpose::Assign;

/// Faults that a test sets by the transaction's purpose.
#[derive(Default)]
struct Scripted {
    delays: Mutex<Vec<u64>>,
}

impl Faults for Scripted {
    fn on_commit(&self, _session: &str, txn: &Txn) -> CommitFault {
        match txn.purpose {
            LOSE_BEFORE => CommitFault::LoseBefore,
            LOSE_AFTER => CommitFault::LoseAfter,
            REFUSE => CommitFault::Refuse("no".into()),
            _ => CommitFault::None,
        }
    }

    fn on_read(&self, _session: &str, read: &'static str) -> Option<String> {
        (read == "offset").then(|| "no".into())
    }

    fn on_hint(&self, _session: &str, hint: &Hint) -> HintFault {
        match hint {
            Hint::Jobs => HintFault::Lose,
            Hint::Job(_) => HintFault::Delay(Duration::from_secs(5)),
            _ => HintFault::None,
        }
    }

    fn delay(&self, _session: &str, step: StoreStep) -> Option<Duration> {
        if step != StoreStep::Commit {
            return None;
        }
        self.delays.lock().unwrap().pop().map(Duration::from_secs)
    }
}

fn store() -> (MemoryStore, Arc<Scripted>) {
    let faults = Arc::new(Scripted::default());
    (MemoryStore::with_faults(&namespace(), faults.clone()), faults)
}

fn named(purpose: Purpose, write: Write) -> Txn {
    Txn { purpose, ..txn([], [write]) }
}

#[tokio::test]
async fn an_unknown_outcome_is_either_one() {
    let (store, _) = store();
    let registry = store.open("a", SessionOptions::default());
    assert_eq!(registry.commit(named(LOSE_BEFORE, create(&j(), "i1"))).await, Commit::Unknown);
    assert_eq!(registry.job(&j()).await.unwrap(), None);
    assert_eq!(registry.commit(named(LOSE_AFTER, create(&j(), "i1"))).await, Commit::Unknown);
    assert!(registry.job(&j()).await.unwrap().is_some());
    assert_eq!(registry.commit(named(LOSE_AFTER, create(&j(), "i1"))).await, Commit::Unknown);
    assert_eq!(registry.commit(named(REFUSE, assign(0, "a"))).await, Commit::Unavailable("no".into()));
    let read = registry.offset(&j(), rosterd_domain::id::Item(0)).await;
    assert_eq!(read, Err(ReadError::Unavailable("no".into())));
}

#[tokio::test(start_paused = true)]
async fn delays_keep_the_order_of_hand_over() {
    let (store, faults) = store();
    let registry = store.open("a", SessionOptions::default());
    put(&registry, [create(&j(), "i1")]).await;
    // Submitted with 9, 1 and 3 seconds: the slow first one delays the others.
    faults.delays.lock().unwrap().extend([3, 1, 9]);
    let start = Instant::now();
    let commits: Vec<_> = (0..3).map(|n| registry.commit(txn([], [assign(n, "a")]))).collect();
    drop(registry);
    for commit in commits {
        committed(commit.await);
    }
    assert_eq!(start.elapsed().as_secs(), 9);
}

#[tokio::test(start_paused = true)]
async fn hints_are_lost_or_late() {
    let (store, _) = store();
    let registry = store.open("a", SessionOptions::default());
    let mut hints = registry.hints();
    registry.watch(&j());
    let start = Instant::now();
    put(&registry, [create(&j(), "i1")]).await;
    assert_eq!(hints.recv().await, Some(Hint::Job(j())));
    assert_eq!(start.elapsed().as_secs(), 5);
    assert_eq!(hints.try_recv(), None);
}

/// Regression: it was reconnected, and went on writing.
#[tokio::test(start_paused = true)]
async fn a_session_that_ended_unseen_learns_so_when_it_is_reached_again() {
    let store = MemoryStore::new(&namespace());
    let registry = store.open("a", SessionOptions::default());
    put(&registry, [create(&j(), "i1")]).await;
    assert!(store.suspend(&registry.session()) && store.end_unheard(&registry.session()));
    let commit = registry.commit(txn([], [assign(0, "a1")]));
    assert!(store.resume(&registry.session()));
    assert_eq!(commit.await, Commit::Fenced);
    let reached = store.open("b", SessionOptions::default());
    assert!(store.end_unheard(&reached.session()));
    let gone = |registry: &MemoryRegistry| (registry.session(), SessionState::Gone);
    assert_eq!(store.sessions(), [gone(&registry), gone(&reached)]);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_session_waits_and_an_ended_one_is_fenced() {
    let store = MemoryStore::new(&namespace());
    let registry = Arc::new(store.open("a", SessionOptions { timeout: Some(Duration::from_secs(10)) }));
    assert_eq!(registry.session_timeout(), Some(Duration::from_secs(10)));
    let other = store.open("b", SessionOptions::default());
    let mut hints = registry.hints();
    put(&*registry, [create(&j(), "i1"), write_instance("w")]).await;
    assert!(store.suspend(&registry.session()));
    let commit = registry.commit(txn([], [assign(0, "a1")]));
    let read = tokio::spawn(registry.job(&j()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(snapshot(&other).await.nodes.generation.0, 0);
    put(&other, [create(&job("b"), "i")]).await;
    assert!(!read.is_finished());
    assert!(store.resume(&registry.session()));
    committed(commit.await);
    assert!(read.await.unwrap().unwrap().is_some());
    store.suspend(&registry.session());
    let commit = registry.commit(txn([], [assign(1, "a2")]));
    assert!(store.expire(&registry.session()));
    assert_eq!(commit.await, Commit::Fenced);
    assert_eq!(registry.commit(txn([], [assign(1, "a2")])).await, Commit::Fenced);
    assert_eq!(registry.jobs().await, Err(ReadError::Fenced));
    assert!(snapshot(&other).await.nodes.instances.is_empty());
    let mut given = Vec::new();
    while let Some(hint) = hints.recv().await {
        given.push(hint);
    }
    use SessionState::{Connected, Gone, Suspended};
    let states = [Suspended, Connected].map(Hint::Session);
    let rest = [Hint::Session(Suspended), Hint::Session(Gone)];
    // The other session's job was created during the suspension, its own before that: one hint.
    assert_eq!(given, [vec![Hint::Jobs], states.to_vec(), rest.to_vec()].concat());
    assert!(!store.expire(&registry.session()));
    assert_eq!(store.sessions().iter().map(|(_, state)| *state).collect::<Vec<_>>(), [Gone, Connected]);
}

#[tokio::test]
async fn the_observer_sees_every_change_and_nothing_else() {
    let store = MemoryStore::new(&namespace());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    store.observe(Box::new(move |change| {
        let cause = match change.cause {
            Cause::Txn(txn) => txn.purpose.as_str(),
            Cause::SessionEnd => "end",
            Cause::Foreign => "foreign",
        };
        let instances = change.view.job(&j()).unwrap().map_or(0, |nodes| nodes.instances.len());
        log.lock().unwrap().push((cause.to_owned(), change.session.to_owned(), instances));
        assert_eq!(change.view.revision(), change.revision);
    }));
    let registry = store.open("a", SessionOptions::default());
    registry.commit(named(Purpose::Create, create(&j(), "i1"))).await;
    registry.commit(named(Purpose::Create, create(&j(), "i1"))).await;
    registry.commit(named(Purpose::Instances, write_instance("w"))).await;
    assert!(store.foreign(&j(), "/servers/x", Some(b""), false));
    store.expire(&registry.session());
    let expected = [("create", "a#1", 0), ("instances", "a#1", 1), ("foreign", "", 1), ("end", "a#1", 0)]
        .map(|(cause, session, n)| (cause.to_owned(), session.to_owned(), n));
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test]
async fn what_foreign_tools_write_is_read() {
    let store = MemoryStore::new(&namespace());
    let registry = store.open("a", SessionOptions::default());
    put(&registry, [create(&j(), "i1"), write_instance("w")]).await;
    let foreign = |path: &str, data: &str| assert!(store.foreign(&j(), path, Some(data.as_bytes()), false));
    foreign("/servers/old", "");
    foreign("/servers/off", "DISABLED");
    foreign("/servers/no name", "DISABLED");
    foreign("/trigger/10.0.0.9@-@7", "");
    foreign("/instances/10.0.0.8@-@1", "TRIGGER");
    foreign("/sharding/4", "");
    foreign("/sharding/latch", "");
    let found = snapshot(&registry).await;
    let servers: Vec<_> = found.nodes.servers.iter().map(|(a, on)| (a.as_str(), *on)).collect();
    assert_eq!(servers, [("off", false), ("old", true)]);
    let triggers: Vec<_> =
        found.nodes.foreign_triggers.iter().map(|(id, how)| (id.as_str(), how.node, how.data)).collect();
    assert_eq!(triggers, [("10.0.0.8@-@1", false, Some(Version(0))), ("10.0.0.9@-@7", true, None)]);
    assert_eq!(found.nodes.instances.len(), 2);
    assert!(found.records.is_empty());
    foreign("/sharding/4", "{");
    let damaged = registry.snapshot(&j()).await.unwrap_err();
    assert!(matches!(damaged, ReadError::Damaged { path, .. } if path == "/ns/job/sharding/4"));
}
