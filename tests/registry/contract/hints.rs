use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rosterd_domain::id::{Epoch, Item, Token, Version};
use rosterd_domain::txn::{Guard, Write};
use rosterd_registry::{Hint, Hints, Registry};

use crate::backend::Backend;
use crate::words::*;

/// After this time a hint is considered missing.
const PATIENCE: Duration = Duration::from_secs(30);

/// The hints given so far: the hint about one more coordinator comes after them.
async fn drain(registry: &dyn Registry, hints: &mut Hints) -> Vec<Hint> {
    static MARKS: AtomicUsize = AtomicUsize::new(0);
    let mark = format!("mark{}", MARKS.fetch_add(1, Ordering::Relaxed));
    put(registry, [coordinator_says(&mark, "")]).await;
    let mut found = Vec::new();
    loop {
        let hint = tokio::time::timeout(PATIENCE, hints.recv()).await.unwrap().unwrap();
        if hint == Hint::Coordinators {
            return found;
        }
        found.push(hint);
    }
}

fn coordinator_says(id: &str, data: &str) -> Write {
    Write::Coordinator { id: coordinator(id), data: data.into() }
}

/// A watcher reads after it has started: from then on no hint is missed.
async fn read_after(registry: &dyn Registry) {
    registry.job(&j()).await.unwrap();
}

pub async fn decisions_are_told_and_run_state_is_not(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    let mut hints = registry.hints();
    put(registry, [create(&j(), "i1"), write_record(0, None, 1)]).await;
    registry.watch(&j());
    registry.watch_items(&j(), 3);
    read_after(registry).await;
    drain(registry, &mut hints).await;
    let (job, item) = (j(), Item(0));
    let crashed = Some((at(1), Token(1)));
    let table = [
        (Write::Config(j(), "{2}".into()), true),
        (Write::Server { job: job.clone(), server: server(), enabled: None }, true),
        (Write::Server { job: job.clone(), server: server(), enabled: None }, false),
        (Write::Server { job: job.clone(), server: server(), enabled: Some(false) }, true),
        (write_instance("w"), true),
        (trigger(0, "t"), true),
        (Write::Paused(j(), true), true),
        (Write::Paused(j(), false), true),
        (Write::Paused(j(), false), false),
        (elect(0), true),
        (Write::Abdicate { job: j(), expect: Epoch(1) }, true),
        (Write::RaiseNecessary(j()), true),
        (Write::RaiseNecessary(j()), true),
        (Write::ClearNecessary(j(), Version(1)), true),
        (assign(0, "a1"), true),
        (Write::FailoverItem { job: job.clone(), item, crashed }, true),
        (command(), true),
        (Write::RemoveCommand(j(), command_name()), true),
        (Write::RemoveCommand(j(), command_name()), false),
        (Write::RemoveTrigger(j(), item), true),
        (Write::RemoveTrigger(j(), item), false),
        (Write::RemoveInstance(j(), instance("w")), true),
        (Write::RemoveServer(j(), server()), true),
        (Write::Policy(j(), "p1".into()), false),
        (Write::HandlerType(j(), "h".into()), false),
        (write_record(0, Some(0), 2), false),
        (write_record(1, None, 2), false),
        (running(0, Some("w")), false),
        (Write::Failover { job: job.clone(), item, instance: Some(instance("w")) }, false),
        (Write::Misfire { job: job.clone(), item, marked: true }, false),
        (Write::ItemInstance { job: job.clone(), item, instance: Some(instance("w")) }, false),
        (Write::Offset { job: job.clone(), item, data: bytes("o") }, false),
        (attach("w", None, 1), false),
    ];
    for (write, told) in table {
        put(registry, [write.clone()]).await;
        let expected = if told { vec![Hint::Job(j())] } else { vec![] };
        assert_eq!(drain(registry, &mut hints).await, expected, "{write:?}");
    }
    for disabled in [true, false] {
        put(registry, [Write::ItemDisabled { job: job.clone(), item, disabled }]).await;
        assert_eq!(drain(registry, &mut hints).await, [Hint::Switches(j())], "{disabled}");
    }
    let of_guarantees = [
        Write::Started { job: job.clone(), item, present: true },
        Write::Started { job: job.clone(), item, present: false },
        Write::Completed { job: job.clone(), item, present: true },
        Write::Completed { job, item, present: false },
    ];
    for write in of_guarantees {
        put(registry, [write.clone()]).await;
        assert_eq!(drain(registry, &mut hints).await, [Hint::Guarantee(j())], "{write:?}");
    }
    refused(registry, txn([Guard::NoJob(j())], [assign(1, "a")])).await;
    assert_eq!(drain(registry, &mut hints).await, [], "a refused transaction tells nothing");
}

pub async fn jobs_and_coordinators_are_told_to_all(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    let mut hints = registry.hints();
    put(registry, [create(&j(), "i1")]).await;
    assert_eq!(drain(registry, &mut hints).await, [Hint::Jobs]);
    committed(registry.commit(txn([Guard::Incarnation(j(), "i1".into())], [Write::EndJob(j())])).await);
    put(registry, [Write::SweepJob { job: j(), limit: 3 }]).await;
    assert_eq!(drain(registry, &mut hints).await, []);
    put(registry, [Write::SweepJob { job: j(), limit: 1000 }]).await;
    assert_eq!(drain(registry, &mut hints).await, [Hint::Jobs]);
    put(registry, [coordinator_says("a", "1")]).await;
    assert_eq!(next(&mut hints, 1).await, [Hint::Coordinators]);
    // A coordinator's node is read only on demand.
    put(registry, [coordinator_says("a", "2")]).await;
    put(registry, [create(&job("b"), "i2")]).await;
    assert_eq!(next(&mut hints, 1).await, [Hint::Jobs]);
    assert_eq!(drain(registry, &mut hints).await, []);
}

pub async fn hints_that_wait_are_one(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1"), create(&job("b"), "i2")]).await;
    let mut hints = registry.hints();
    registry.watch(&j());
    registry.watch(&job("b"));
    read_after(registry).await;
    drain(registry, &mut hints).await;
    for n in 0..3 {
        put(registry, [Write::Config(job("b"), format!("{n}").into())]).await;
        put(registry, [assign(n, "a")]).await;
    }
    assert_eq!(drain(registry, &mut hints).await, [Hint::Job(job("b")), Hint::Job(j())]);
    assert_eq!(registry.hints().recv().await, None, "hints can be taken once");
}

pub async fn an_unwatched_job_is_quiet(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1")]).await;
    let mut hints = registry.hints();
    drain(registry, &mut hints).await;
    for (n, watched) in [false, true, false].into_iter().enumerate() {
        if watched {
            registry.watch(&j());
            read_after(registry).await;
        } else {
            registry.unwatch(&j());
        }
        put(registry, [assign(n as u64, "a")]).await;
        assert_eq!(drain(registry, &mut hints).await.len(), usize::from(watched));
    }
}

pub async fn another_session_is_told(backend: &mut impl Backend) {
    let Some(second) = backend.second().await else { return };
    let registry = &*backend.registry();
    let mut hints = second.hints();
    second.watch(&j());
    read_after(&*second).await;
    put(registry, [create(&j(), "i1"), write_instance("w")]).await;
    put(registry, [coordinator_says("a", "")]).await;
    // One at a time: the order in which another session gets hints of both is undefined.
    assert_eq!(next(&mut hints, 3).await, [Hint::Jobs, Hint::Job(j()), Hint::Coordinators]);
    drain(&*second, &mut hints).await;
    backend.next_session().await;
    assert_eq!(next(&mut hints, 2).await, [Hint::Job(j()), Hint::Coordinators], "the session's end is told");
}

/// The next hints, each once, in the order of their kinds.
async fn next(hints: &mut Hints, count: usize) -> Vec<Hint> {
    let mut found = std::collections::BTreeSet::new();
    while found.len() < count {
        found.insert(tokio::time::timeout(PATIENCE, hints.recv()).await.unwrap().unwrap());
    }
    found.into_iter().collect()
}
