use rosterd_domain::id::{Epoch, Version};
use rosterd_domain::txn::Write;

use crate::backend::Backend;
use crate::words::*;

pub async fn ephemerals_end_with_their_session(backend: &mut impl Backend) {
    let registry = backend.registry();
    put(&*registry, [create(&j(), "i1"), write_record(0, None, 7)]).await;
    let before = dump(&*registry, &j()).await;
    let node = Write::Coordinator { id: coordinator("c"), data: "".into() };
    put(&*registry, [write_instance("w"), running(0, Some("w")), attach("w", None, 1), node]).await;
    put(&*registry, [elect(0)]).await;
    drop(registry);
    backend.next_session().await;
    let registry = &*backend.registry();
    let after = dump(registry, &j()).await;
    assert_eq!(added(&before, &after), ["/leader/election = c@-@1"]);
    assert_eq!(after.len(), before.len());
    let nodes = registry.job(&j()).await.unwrap().unwrap();
    assert_eq!((nodes.leader, nodes.epoch), (None, Epoch(1)), "the epoch outlives the leader");
    assert!(registry.coordinators().await.unwrap().is_empty());
    let attachment = registry.attachment(&worker("w")).await.unwrap();
    assert_eq!(attachment.unwrap().0, Version(0), "an attachment outlives its coordinator");
    put(registry, [elect(1)]).await;
}

pub async fn a_take_over_moves_the_ephemerals(backend: &mut impl Backend) {
    let Some(second) = backend.second().await else { return };
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1"), write_record(0, None, 7)]).await;
    put(registry, [write_instance("w"), running(0, Some("w"))]).await;
    put(&*second, [write_instance("w"), running(0, Some("w"))]).await;
    assert!(!registry.job(&j()).await.unwrap().unwrap().instances[&instance("w")].mine);
    backend.next_session().await;
    assert!(second.job(&j()).await.unwrap().unwrap().instances[&instance("w")].mine);
    let lines = dump(&*second, &j()).await;
    assert!(lines.iter().any(|line| line.starts_with("/sharding/0/running")));
}

pub async fn no_two_sessions_have_one_name(backend: &mut impl Backend) {
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..5 {
        assert!(names.insert(backend.registry().session()));
        backend.next_session().await;
    }
}

pub async fn what_is_mine_is_known(backend: &mut impl Backend) {
    let Some(second) = backend.second().await else { return };
    let registry = &*backend.registry();
    put(registry, [create(&j(), "i1"), write_instance("w")]).await;
    put(registry, [elect(0)]).await;
    for (session, mine) in [(registry, true), (&*second, false)] {
        let nodes = session.job(&j()).await.unwrap().unwrap();
        assert_eq!(nodes.instances[&instance("w")].mine, mine);
        assert_eq!(nodes.leader, Some((coordinator("c@-@1"), mine)));
    }
}
