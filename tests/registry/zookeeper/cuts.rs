//! Connections that are cut while the session is alive, and sessions that end: each test is a regression test.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rosterd_domain::id::{Epoch, Item, Version};
use rosterd_domain::txn::{Commit, Write};
use rosterd_registry::zookeeper::ZooKeeperOptions;
use rosterd_registry::{Hint, ReadError, Registry, SessionState};

use super::proxy::{Proxy, Way};
use super::{PATIENCE, connect, eventually, on_single, until, until_state};
use crate::words::*;

/// A proxy before the shared server, and options that lead through it.
async fn through_proxy() -> (Proxy, ZooKeeperOptions, ZooKeeperOptions) {
    let straight = on_single().await;
    let (server, root) = straight.servers.split_at(straight.servers.find('/').unwrap());
    let proxy = Proxy::before(server.to_owned()).await;
    let servers = format!("{}{root}", proxy.address);
    (proxy, ZooKeeperOptions { servers, ..straight.clone() }, straight)
}

/// The client library does not set persistent watches again.
#[tokio::test]
async fn watches_stand_again_after_a_reconnect_in_the_same_session() {
    let (proxy, options, straight) = through_proxy().await;
    let registry = connect(&options).await;
    let other = connect(&straight).await;
    let mut hints = registry.hints();
    put(&registry, [create(&j(), "i1"), write_instance("w")]).await;
    registry.watch(&j());
    registry.job(&j()).await.unwrap();
    for round in 0..5_u64 {
        proxy.set(Way::Cut);
        until_state(&mut hints, SessionState::Suspended).await;
        // There is no event for this one: it must be found by a read, which a hint suggests.
        put(&other, [assign(2 * round, "unheard of")]).await;
        proxy.set(Way::Open);
        until_state(&mut hints, SessionState::Connected).await;
        until(&mut hints, &Hint::Coordinators).await;
        registry.job(&j()).await.unwrap();
        eventually("quiet", async || hints.try_recv().is_none()).await;
        put(&other, [assign(2 * round + 1, "heard of")]).await;
        until(&mut hints, &Hint::Job(j())).await;
        put(&other, [create(&job(&format!("new-{round}")), "i")]).await;
        until(&mut hints, &Hint::Jobs).await;
        put(&other, [Write::Coordinator { id: coordinator(&format!("other-{round}")), data: "".into() }])
            .await;
        until(&mut hints, &Hint::Coordinators).await;
    }
    assert!(
        registry.job(&j()).await.unwrap().unwrap().instances[&instance("w")].mine,
        "one session all along"
    );
}

/// Regression: watches were set again without checking the connection. If it was gone already, they waited for the next
/// one, and the suspension of the session was not reported for half of its timeout, or until its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_lost_while_watches_are_set_again_is_reported() {
    let (proxy, options, _) = through_proxy().await;
    let registry = connect(&options).await;
    let mut hints = registry.hints();
    for n in 0..20 {
        let name = job(&format!("job-{n}"));
        put(&registry, [create(&name, "i1")]).await;
        registry.watch(&name);
    }
    registry.jobs().await.unwrap();
    for round in 0..20 {
        proxy.set(Way::Cut);
        until_state(&mut hints, SessionState::Suspended).await;
        proxy.set(Way::Open);
        until_state(&mut hints, SessionState::Connected).await;
        // Cut again at once: the new connection sets its watches now. An occasional write proves the session.
        if round % 3 == 2 {
            put(&registry, [Write::Policy(job("job-0"), format!("{round}").into())]).await;
        }
    }
}

/// More than 128 KiB of watched paths on one connection, and it can never reconnect.
#[tokio::test]
async fn many_watched_jobs_survive_a_reconnect() {
    const JOBS: usize = 600;
    let (proxy, options, straight) = through_proxy().await;
    let registry = connect(&options).await;
    let other = connect(&straight).await;
    let mut hints = registry.hints();
    let names: Vec<_> = (0..JOBS).map(|n| job(&format!("a-job-with-a-name-of-some-length-{n:04}"))).collect();
    let watched: usize = names.iter().map(|name| 7 * (name.as_str().len() + 12)).sum();
    assert!(watched > 180 << 10, "{watched} bytes");
    for commit in registry.commit_all(names.iter().map(|name| create_new(name, "i1")).collect()) {
        committed(commit.await);
    }
    names.iter().for_each(|name| registry.watch(name));
    registry.jobs().await.unwrap();
    for round in 0..2_u64 {
        proxy.set(Way::Cut);
        until_state(&mut hints, SessionState::Suspended).await;
        proxy.set(Way::Open);
        // Every connection comes back at its own time, the session's own not always first; each gives hints for
        // everything it watches.
        let mut told = BTreeSet::from_iter(until_state(&mut hints, SessionState::Connected).await);
        eventually("all jobs are told of", async || {
            told.extend(std::iter::from_fn(|| hints.try_recv()));
            told.iter().filter(|hint| matches!(hint, Hint::Job(_))).count() == JOBS
        })
        .await;
        let mut given = Vec::from_iter(told);
        for name in [&names[0], &names[JOBS / 2], &names[JOBS - 1]] {
            for _ in 0..10 {
                registry.job(name).await.unwrap();
            }
            given.extend(std::iter::from_fn(|| hints.try_recv()));
            let expect = rosterd_domain::id::Generation(round);
            put(&other, [Write::Assignment { job: name.clone(), expect, data: bytes("a") }]).await;
            given.extend(until(&mut hints, &Hint::Job(name.clone())).await);
        }
        assert!(!given.contains(&Hint::Session(SessionState::Suspended)), "it did not stay connected");
    }
}

/// The result for a session that the server silently does not know at the reconnect: the state in the hint, and the
/// answer to a transaction that was submitted meanwhile.
async fn with_another_session() -> (SessionState, Commit) {
    let (proxy, options, straight) = through_proxy().await;
    // It must not end by our own clock before there is another session.
    let options = ZooKeeperOptions { session_timeout: Duration::from_secs(12), ..options };
    let (registry, other) = (connect(&options).await, connect(&straight).await);
    let mut hints = registry.hints();
    put(&registry, [create(&j(), "i1"), write_instance("w")]).await;
    proxy.forget_sessions();
    proxy.set(Way::Cut);
    until_state(&mut hints, SessionState::Suspended).await;
    let waiting = registry.commit(txn([], [assign(0, "late")]));
    proxy.set(Way::Open);
    let state = loop {
        match tokio::time::timeout(PATIENCE, hints.recv()).await {
            Ok(Some(Hint::Session(state @ (SessionState::Connected | SessionState::Gone)))) => break state,
            Ok(Some(_)) => {}
            none => panic!("nothing was told: {none:?}"),
        }
    };
    let answer = waiting.await;
    // The servers still wait for the requested session, and then end it.
    eventually("the instance is gone", async || other.job(&j()).await.unwrap().unwrap().instances.is_empty())
        .await;
    (state, answer)
}

/// Regression: a server gave another session instead of the one that it had lost, and the client went on as if it were
/// its own.
#[tokio::test]
async fn clickhouse_116690_a_server_that_gives_another_session_ends_ours() {
    assert_eq!(with_another_session().await, (SessionState::Gone, Commit::Fenced));
}

/// The same with a store that does not check the connection's session: it goes on writing unnoticed.
#[cfg(feature = "mutants")]
#[tokio::test]
async fn clickhouse_116690_is_noticed_by_nothing_else() {
    use rosterd_domain::mutants;
    mutants::switch(Some(mutants::ANY_SESSION_IS_OURS));
    let (state, answer) = with_another_session().await;
    mutants::switch(None);
    committed(answer);
    assert_eq!(state, SessionState::Connected);
}

/// The client library notices at 1.7 session timeouts; the servers end the session at one.
#[tokio::test]
async fn the_end_of_a_session_is_noticed_by_our_own_clock() {
    let (proxy, options, straight) = through_proxy().await;
    // Far enough from 1.7 times the timeout for a slow machine.
    let options = ZooKeeperOptions { session_timeout: Duration::from_secs(10), ..options };
    let registry = connect(&options).await;
    let mut hints = registry.hints();
    put(&registry, [create(&j(), "i1"), write_instance("w")]).await;
    let timeout = registry.session_timeout().unwrap();
    let begun = Instant::now();
    proxy.set(Way::HoldAll);
    let waiting = registry.commit(txn([], [Write::Policy(j(), "late".into())]));
    let given = until_state(&mut hints, SessionState::Gone).await;
    let took = begun.elapsed();
    assert!(given.contains(&Hint::Session(SessionState::Suspended)), "{given:?}");
    assert!(took < timeout * 3 / 2, "noticed after {took:?} of {timeout:?}");
    assert_eq!(waiting.await, Commit::Unknown, "it was on its way");
    assert_eq!(hints.recv().await, None);
    proxy.set(Way::Open);
    for _ in 0..3 {
        assert_eq!(registry.commit(txn([], [assign(0, "a")])).await, Commit::Fenced);
        assert_eq!(registry.job(&j()).await, Err(ReadError::Fenced));
    }
    // The next session sees none of its nodes once the servers have ended it.
    let next = connect(&straight).await;
    assert_ne!(next.session(), registry.session());
    eventually("the instance is gone", async || next.job(&j()).await.unwrap().unwrap().instances.is_empty())
        .await;
}

/// It may have been applied; here it was.
#[tokio::test]
async fn a_write_on_its_way_when_the_connection_is_lost_is_unknown() {
    let (proxy, options, _) = through_proxy().await;
    let registry = connect(&options).await;
    let mut hints = registry.hints();
    put(&registry, [create(&j(), "i1"), write_record(0, None, 1)]).await;
    for round in 0..5_u64 {
        proxy.set(Way::HoldAnswers);
        let commit = registry.commit(txn([], [write_record(0, Some(round), round + 2)]));
        let commit = tokio::spawn(commit);
        // Answers are held, so another connection shows when it was applied.
        let seen = connect(&on_the_other_side(&options).await).await;
        eventually("the write is applied", async || {
            snapshot(&seen).await.records[&Item(0)].0 == Version(round + 1)
        })
        .await;
        assert!(!commit.is_finished());
        proxy.set(Way::Cut);
        assert_eq!(commit.await.unwrap(), Commit::Unknown);
        until_state(&mut hints, SessionState::Suspended).await;
        proxy.set(Way::Open);
        // A read shows the outcome.
        assert_eq!(
            snapshot(&registry).await.records[&Item(0)],
            (Version(round + 1), record(round + 2).into())
        );
    }
}

async fn on_the_other_side(options: &ZooKeeperOptions) -> ZooKeeperOptions {
    let root = &options.servers[options.servers.find('/').unwrap()..];
    let straight = on_single().await;
    let server = straight.servers.split('/').next().unwrap();
    ZooKeeperOptions { servers: format!("{server}{root}"), ..options.clone() }
}

/// In the client library a call would wait silently for the connection, or for the end of the session.
#[tokio::test]
async fn a_call_while_disconnected_ends_by_its_time_out() {
    let (proxy, options, straight) = through_proxy().await;
    let options = ZooKeeperOptions { request_timeout: Some(Duration::from_secs(1)), ..options };
    let registry = connect(&options).await;
    let mut hints = registry.hints();
    put(&registry, [create(&j(), "i1")]).await;
    proxy.set(Way::Cut);
    until_state(&mut hints, SessionState::Suspended).await;
    let Commit::Unavailable(text) = registry.commit(txn([], [assign(0, "never")])).await else {
        panic!("what was never sent was surely not applied")
    };
    assert!(text.contains("nothing could be sent for 1000 ms"), "{text}");
    let Err(ReadError::Unavailable(text)) = registry.job(&j()).await else {
        panic!("a read without servers")
    };
    assert!(text.contains("majority of the ZooKeeper servers"), "{text}");
    proxy.set(Way::Open);
    until_state(&mut hints, SessionState::Connected).await;
    let nodes = registry.job(&j()).await.unwrap().unwrap();
    assert_eq!(nodes.generation.0, 0, "it was not sent later either");
    let _ = straight;
}

/// No writes for two timeouts, and the session stays alive: it proves itself.
#[tokio::test]
async fn an_idle_session_stands() {
    let options = ZooKeeperOptions { session_timeout: Duration::from_secs(8), ..on_single().await };
    let registry = connect(&options).await;
    let timeout = registry.session_timeout().unwrap();
    put(&registry, [create(&j(), "i1"), elect(0)]).await;
    let begun = Instant::now();
    eventually("two timeouts", async || begun.elapsed() > timeout * 2).await;
    let nodes = registry.job(&j()).await.unwrap().unwrap();
    assert_eq!((nodes.leader, nodes.epoch), (Some((coordinator("c@-@1"), true)), Epoch(1)));
}

/// Changes by another client to nodes in this session's cache.
#[tokio::test]
async fn a_wrong_cache_entry_is_corrected_and_refuses_no_one() {
    let options = on_single().await;
    let registry = connect(&options).await;
    let other = connect(&options).await;
    put(&registry, [create(&j(), "i1"), write_record(0, None, 1)]).await;
    let before = dump(&registry, &j()).await;
    let misfire = |marked| Write::Misfire { job: j(), item: Item(0), marked };
    for _ in 0..3 {
        put(&registry, [misfire(true), running(0, Some("w")), write_instance("w"), Write::Paused(j(), true)])
            .await;
        put(&other, [misfire(false), running(0, None), write_instance("w"), Write::Paused(j(), false)]).await;
        put(&registry, [misfire(true), running(0, Some("w")), write_instance("w"), Write::Paused(j(), true)])
            .await;
        let nodes = registry.job(&j()).await.unwrap().unwrap();
        assert!(nodes.paused && nodes.instances[&instance("w")].mine, "taken back from the other session");
        put(&other, [misfire(false), running(0, None), Write::RemoveInstance(j(), instance("w"))]).await;
        put(&registry, [misfire(false), running(0, None), Write::RemoveInstance(j(), instance("w"))]).await;
        put(&registry, [Write::Paused(j(), false), Write::Paused(j(), false)]).await;
    }
    assert_eq!(dump(&registry, &j()).await, before);
}
