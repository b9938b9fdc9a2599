use rosterd_domain::id::{Epoch, Generation, Item, Version};
use rosterd_domain::txn::{Guard, Write};

use crate::backend::Backend;
use crate::words::*;

pub async fn each_guard_holds_or_refuses(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1"), attach("w", None, 1)]).await;
    put(registry, [assign(0, "a1"), elect(0), Write::Config(j(), "{1}".into())]).await;
    put(registry, [write_record(0, None, 1)]).await;
    put(registry, [write_record(0, Some(0), 2)]).await;
    let table = [
        (Guard::Incarnation(j(), "i1".into()), true),
        (Guard::Incarnation(j(), "i2".into()), false),
        (Guard::Incarnation(job("none"), "i1".into()), false),
        (Guard::Incarnation(j(), "no/name".into()), false),
        (Guard::NoJob(job("none")), true),
        (Guard::NoJob(j()), false),
        (Guard::Generation(j(), Generation(1)), true),
        (Guard::Generation(j(), Generation(0)), false),
        (Guard::Epoch(j(), Epoch(1)), true),
        (Guard::Epoch(j(), Epoch(2)), false),
        (Guard::Config(j(), Version(1)), true),
        (Guard::Config(j(), Version(0)), false),
        (Guard::Record(j(), Item(0), Version(1)), true),
        (Guard::Record(j(), Item(0), Version(0)), false),
        (Guard::Record(j(), Item(1), Version(0)), false),
        (Guard::Attachment(worker("w"), Version(0)), true),
        (Guard::Attachment(worker("w"), Version(1)), false),
        (Guard::Attachment(worker("v"), Version(0)), false),
        (Guard::NoAttachment(worker("v")), true),
        (Guard::NoAttachment(worker("w")), false),
        (Guard::Prepared(j(), "i1".into()), false),
        (Guard::Prepared(j(), "no/name".into()), false),
    ];
    for (guard, holds) in table {
        let before = dump(registry, &j()).await;
        let txn = txn([guard.clone()], [Write::RaiseNecessary(j())]);
        if holds {
            committed(registry.commit(txn).await);
            put(registry, [Write::ClearNecessary(j(), Version(0))]).await;
        } else {
            let text = refused(registry, txn).await;
            assert!(!text.is_empty() && !text.contains("/ns"), "{guard:?}: {text}");
        }
        assert_eq!(dump(registry, &j()).await, before, "{guard:?}");
    }
}

pub async fn a_refused_transaction_changes_nothing(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1"), write_record(0, None, 7)]).await;
    let before = (dump(registry, &j()).await, snapshot(registry).await);
    let writes = [
        assign(0, "a1"),
        write_record(0, Some(0), 8),
        write_instance("w"),
        create(&job("other"), "o"),
        running(0, Some("w")),
        write_record(1, Some(0), 8),
    ];
    let text = refused(registry, txn([], writes)).await;
    assert!(text.contains("item 1") && text.contains("job job"), "{text}");
    assert_eq!((dump(registry, &j()).await, snapshot(registry).await), before);
    assert!(registry.job(&job("other")).await.unwrap().is_none());
}

/// Versions start again when a node is created again: only the incarnation distinguishes the two jobs.
pub async fn a_made_again_job_is_another(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1")]).await;
    committed(registry.commit(txn([Guard::Incarnation(j(), "i1".into())], [Write::EndJob(j())])).await);
    put(registry, [Write::SweepJob { job: j(), limit: 1000 }]).await;
    committed(registry.commit(create_new(&j(), "i2")).await);
    let same_versions =
        [Guard::Generation(j(), Generation(0)), Guard::Epoch(j(), Epoch(0)), Guard::Config(j(), Version(0))];
    committed(registry.commit(txn(same_versions, [])).await);
    refused(registry, txn([Guard::Incarnation(j(), "i1".into())], [assign(0, "late")])).await;
}
