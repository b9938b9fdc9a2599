use rosterd_domain::id::Version;
use rosterd_domain::txn::{Guard, Write};

use crate::backend::Backend;
use crate::words::*;

fn end(incarnation: &str) -> rosterd_domain::txn::Txn {
    txn([Guard::Incarnation(j(), incarnation.into())], [Write::EndJob(j())])
}

fn sweep(limit: usize) -> Write {
    Write::SweepJob { job: j(), limit }
}

pub async fn a_job_ends_in_two_steps(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    let items = (0..5).map(|item| write_record(item, None, 1));
    put(registry, [create(&j(), "i1"), write_instance("w")].into_iter().chain(items)).await;
    put(registry, [running(0, Some("w"))]).await;
    committed(registry.commit(end("i1")).await);
    let nodes = registry.job(&j()).await.unwrap().unwrap();
    assert_eq!((nodes.incarnation, nodes.config), (None, None));
    let mut left = dump(registry, &j()).await.len();
    while left > 0 {
        refused(registry, create_new(&j(), "i2")).await;
        assert!(registry.jobs().await.unwrap().contains(&j()));
        put(registry, [sweep(4)]).await;
        let now = dump(registry, &j()).await.len();
        assert_eq!(now, left.saturating_sub(4));
        left = now;
    }
    put(registry, [sweep(4), sweep(4)]).await;
    assert!(registry.jobs().await.unwrap().is_empty());
    assert_eq!(registry.job(&j()).await.unwrap(), None);
    committed(registry.commit(create_new(&j(), "i2")).await);
}

pub async fn a_live_job_is_not_swept(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1"), write_record(0, None, 1)]).await;
    let before = dump(registry, &j()).await;
    put(registry, [sweep(1000)]).await;
    assert_eq!(dump(registry, &j()).await, before);
}

pub async fn tokens_rise_over_removal(backend: &mut impl Backend) {
    let mut last = None;
    for round in 0..4 {
        let registry = backend.registry();
        let name = format!("i{round}");
        let revision = committed(registry.commit(create_new(&j(), &name)).await);
        let created = registry.job(&j()).await.unwrap().unwrap().created;
        assert_eq!(created, revision);
        assert!(Some(created) > last, "{created} after {last:?}");
        // Also what is not on disk raises the number.
        for _ in 0..3 {
            last = Some(put(&*registry, [write_instance("w")]).await);
        }
        committed(registry.commit(end(&name)).await);
        put(&*registry, [sweep(1000)]).await;
        drop(registry);
        backend.next_session().await;
    }
}

pub async fn an_end_needs_the_incarnation(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1")]).await;
    let before = dump(registry, &j()).await;
    refused(registry, end("i2")).await;
    refused(registry, txn([], [Write::EndJob(j())])).await;
    assert_eq!(dump(registry, &j()).await, before);
}

pub async fn attachments_come_and_go(backend: &mut impl Backend) {
    let registry = backend.registry();
    put(&*registry, [attach("w", None, 1)]).await;
    put(&*registry, [attach("w", Some(0), 2)]).await;
    drop(registry);
    backend.next_session().await;
    let registry = &*backend.registry();
    let found = registry.attachment(&worker("w")).await.unwrap();
    assert_eq!(found, Some((Version(1), attachment(2))), "version and data outlive the session");
    put(registry, [Write::RemoveAttachment { worker: worker("w"), expect: Version(1) }]).await;
    refused(registry, txn([Guard::Attachment(worker("w"), Version(1))], [])).await;
}
