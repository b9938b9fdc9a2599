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

/// Every valid name can be a node of every store, and is listed as it was written.
pub async fn names_of_any_script_stand_in_paths(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    let names = ["清算", "отчёт", "हिन्दी", "été", "تقرير", "한국"].map(job);
    for name in &names {
        committed(registry.commit(create_new(name, "i1")).await);
        assert!(registry.job(name).await.unwrap().is_some(), "{name}");
    }
    assert_eq!(registry.jobs().await.unwrap(), names.into_iter().collect());
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
        // Ephemeral writes raise the number, too.
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

fn prepare(name: &str) -> rosterd_domain::txn::Txn {
    let write = Write::PrepareJob {
        job: j(),
        name: name.into(),
        handler_type: "app.Handler".into(),
        config: "{}".into(),
        policy: "p0".into(),
        assignment: bytes("a0"),
    };
    txn([Guard::NoJob(j())], [write])
}

/// It has no incarnation before, so it is not led or fired; afterwards it is like a job that was created at once.
pub async fn a_prepared_job_is_seen_when_it_is_revealed(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    committed(registry.commit(prepare("s1")).await);
    refused(registry, prepare("s2")).await;
    refused(registry, create_new(&j(), "i1")).await;
    let guarded = |name: &str, write| txn([Guard::Prepared(j(), name.into())], [write]);
    let offset = Write::Offset { job: j(), item: rosterd_domain::id::Item(1), data: bytes("here") };
    committed(registry.commit(guarded("s1", write_record(0, None, 7))).await);
    committed(registry.commit(guarded("s1", offset.clone())).await);
    refused(registry, guarded("s2", write_record(1, None, 7))).await;
    let nodes = registry.job(&j()).await.unwrap().unwrap();
    assert_eq!((nodes.incarnation, nodes.config.is_some()), (None, true));
    let reveal = |name: &str| Write::RevealJob { job: j(), name: name.into(), incarnation: "i1".into() };
    refused(registry, txn([], [reveal("s2")])).await;
    committed(registry.commit(guarded("s1", reveal("s1"))).await);
    refused(registry, guarded("s1", write_record(2, None, 7))).await;
    let whole = registry.whole(&j()).await.unwrap().unwrap();
    assert_eq!(whole.snapshot.nodes.incarnation.as_deref(), Some("i1"));
    assert_eq!(whole.offsets.into_values().collect::<Vec<_>>(), [bytes("here")]);
    assert_eq!(whole.snapshot, snapshot(registry).await);
    let revealed = dump(registry, &j()).await;
    committed(registry.commit(end("i1")).await);
    put(registry, [sweep(1000)]).await;
    put(registry, [create(&j(), "i1"), write_record(0, None, 7), offset]).await;
    assert_eq!(dump(registry, &j()).await, revealed);
}

/// Decisions from the earlier state fail, and nothing else of the job changes.
pub async fn a_job_that_is_renewed_is_another_to_all_who_knew_it(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    let renew = |name: &str| Write::RenewJob { job: j(), incarnation: name.into() };
    let guarded = |name: &str, write| txn([Guard::Incarnation(j(), name.into())], [write]);
    refused(registry, txn([], [renew("i2")])).await;
    committed(registry.commit(create_new(&j(), "i1")).await);
    put(registry, [write_record(0, None, 7)]).await;
    let before = snapshot(registry).await;
    refused(registry, txn([], [renew("i2")])).await;
    refused(registry, guarded("other", renew("i2"))).await;
    committed(registry.commit(guarded("i1", renew("i2"))).await);
    refused(registry, guarded("i1", write_record(1, None, 7))).await;
    let mut after = snapshot(registry).await;
    assert_eq!(after.nodes.incarnation.as_deref(), Some("i2"));
    (after.nodes.incarnation, after.nodes.revision) =
        (before.nodes.incarnation.clone(), before.nodes.revision);
    assert_eq!(after, before);
    committed(registry.commit(end("i2")).await);
    refused(registry, guarded("i2", renew("i3"))).await;
}

/// The leftovers of an unfinished import. Its writer notices that they are gone.
pub async fn what_is_left_of_a_prepared_job_is_swept(backend: &mut impl Backend) {
    let registry = &*backend.registry();
    committed(registry.commit(prepare("s1")).await);
    put(registry, [write_record(0, None, 7), sweep(1000)]).await;
    assert!(registry.job(&j()).await.unwrap().is_some(), "nobody but the next import takes it away");
    put(registry, [Write::EndJob(j())]).await;
    put(registry, [sweep(1000)]).await;
    assert_eq!(registry.job(&j()).await.unwrap(), None);
    committed(registry.commit(prepare("s2")).await);
    refused(registry, txn([Guard::Prepared(j(), "s1".into())], [write_record(0, None, 7)])).await;
}

/// Also for sessions that are opened later, and only upwards.
pub async fn a_numbering_raises_tokens(backend: &mut impl Backend) {
    let registry = backend.registry();
    let last = committed(registry.commit(create_new(&j(), "i1")).await);
    let before = registry.numbering().await.unwrap();
    assert_eq!((before.offset, before.version), (0, None));
    let made = registry.job(&j()).await.unwrap().unwrap();
    assert_eq!((made.base.0, made.created), (last.0, last));
    let number = |offset, expect: Option<u64>| Write::Numbering { offset, expect: expect.map(Version) };
    put(&*registry, [number(1 << 40, None)]).await;
    refused(&*registry, txn([], [number(1 << 41, None)])).await;
    refused(&*registry, txn([], [number(1 << 41, Some(1))])).await;
    put(&*registry, [number(1 << 41, Some(0))]).await;
    drop(registry);
    backend.next_session().await;
    let registry = &*backend.registry();
    let now = registry.numbering().await.unwrap();
    assert_eq!((now.offset, now.version), (1 << 41, Some(Version(1))));
    assert!(now.revision > last, "a new session knows what was committed before it");
    assert_eq!(registry.job(&j()).await.unwrap().unwrap().base.0, (1 << 41) + last.0);
    let later = committed(registry.commit(create_new(&job("later"), "i1")).await);
    let base = registry.job(&job("later")).await.unwrap().unwrap().base;
    assert_eq!(base.0, (1 << 41) + later.0);
    assert!(base > now.ceiling());
}
