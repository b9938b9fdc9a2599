use rosterd_domain::id::{Item, Version};
use rosterd_domain::txn::{Commit, Write};

use crate::backend::Backend;
use crate::words::*;

pub async fn transactions_are_applied_in_the_order_of_hand_over(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1"), write_record(0, None, 0)]).await;
    // Each is valid only right after the previous one. Their outcomes are awaited in reverse.
    let futures: Vec<_> =
        (0..500).map(|n| registry.commit(txn([], [write_record(0, Some(n), n + 1)]))).collect();
    let mut last = None;
    for future in futures.into_iter().rev() {
        let revision = committed(future.await);
        assert!(last.is_none_or(|last| revision < last));
        last = Some(revision);
    }
    assert_eq!(snapshot(registry).await.records[&Item(0)], (Version(500), record(500).into()));
}

pub async fn a_read_sees_what_was_acknowledged(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1"), write_record(0, None, 0)]).await;
    for n in 0..50 {
        let revision = put(registry, [write_record(0, Some(n), n + 1)]).await;
        let found = snapshot(registry).await;
        assert_eq!(found.records[&Item(0)].0, Version(n + 1));
        assert!(found.nodes.revision >= revision);
    }
}

pub async fn a_dropped_future_is_still_a_transaction(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    drop(registry.commit(create_new(&j(), "i1")));
    drop(registry.commit(txn([], [write_record(0, None, 3)])));
    put(registry, [write_record(0, Some(0), 4)]).await;
}

pub async fn revisions_grow(backend: &mut impl Backend) {
    let mut last = None;
    for round in 0..3 {
        let registry = backend.registry();
        for n in 0..5 {
            // Some on disk, some not.
            let write = if n % 2 == 0 {
                create(&job(&format!("job-{round}-{n}")), "i")
            } else {
                Write::Coordinator { id: coordinator("c"), data: "".into() }
            };
            let revision = put(&*registry, [write]).await;
            assert!(Some(revision) > last);
            last = Some(revision);
        }
        let Commit::Conflict(_) = registry.commit(create_new(&job(&format!("job-{round}-0")), "i")).await
        else {
            panic!("made twice")
        };
        drop(registry);
        backend.next_session().await;
    }
}

pub async fn a_large_job_is_read_and_swept(backend: &mut impl Backend) {
    const ITEMS: u32 = 5_000;
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1")]).await;
    // A packet for ZooKeeper holds some thousands.
    for chunk in (0..ITEMS).collect::<Vec<u32>>().chunks(1_000) {
        put(registry, chunk.iter().map(|item| write_record(*item, None, 1))).await;
    }
    let found = snapshot(registry).await;
    assert_eq!(found.records.len(), ITEMS as usize);
    assert!(found.records.keys().copied().eq((0..ITEMS).map(Item)));
    let guard = rosterd_domain::txn::Guard::Incarnation(j(), "i1".into());
    committed(registry.commit(txn([guard], [Write::EndJob(j())])).await);
    let mut steps = 0;
    while registry.jobs().await.unwrap().contains(&j()) {
        put(registry, [Write::SweepJob { job: j(), limit: 1_000 }]).await;
        steps += 1;
    }
    assert_eq!(steps, 6);
}
