//! Writes of other tools, bypassing the store, as Elastic-Job's consoles do.

use rosterd_domain::id::Item;
use rosterd_domain::snapshot::ForeignTrigger;
use rosterd_domain::txn::Write;
use rosterd_registry::{Hint, Registry as _};
use zookeeper_client::{Acls, CreateMode};

use super::{connect, on_single, raw, until};
use crate::words::*;

/// An older console fires a job by the data TRIGGER of an instance. It is cleared without other changes of the
/// instance; one that is written meanwhile is another command.
#[tokio::test]
async fn a_trigger_in_an_instances_data_is_read_and_cleared_once() {
    let options = on_single().await;
    let registry = connect(&options).await;
    put(&registry, [create(&j(), "i1"), write_instance("w")]).await;
    let (tool, path) = (raw(&options).await, format!("/ns/job/instances/{}", instance("w")));
    let (before, _) = tool.get_data(&path).await.unwrap();
    tool.set_data(&path, b"TRIGGER", None).await.unwrap();
    let found = registry.job(&j()).await.unwrap().unwrap().foreign_triggers;
    let how = found[&instance("w")];
    assert!(!how.node && how.data.is_some(), "{how:?}");
    let clear = |how| Write::ClearForeignTrigger { job: j(), instance: instance("w"), how };
    tool.set_data(&path, b"TRIGGER", None).await.unwrap();
    refused(&registry, txn([], [clear(how)])).await;
    let again = registry.job(&j()).await.unwrap().unwrap().foreign_triggers[&instance("w")];
    put(&registry, [clear(again)]).await;
    let (after, stat) = tool.get_data(&path).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&after), String::from_utf8_lossy(&before));
    assert_ne!(stat.ephemeral_owner, 0, "it is still its session's");
    assert!(registry.job(&j()).await.unwrap().unwrap().foreign_triggers.is_empty());
    // The other way, beside it.
    let folder = "/ns/job/trigger";
    let mode = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let _there = tool.create(folder, b"", &mode).await;
    let node = format!("{folder}/{}", instance("w"));
    tool.create(&node, b"", &mode).await.unwrap();
    let found = registry.job(&j()).await.unwrap().unwrap().foreign_triggers;
    assert_eq!(found[&instance("w")], ForeignTrigger { node: true, data: None });
    put(&registry, [clear(found[&instance("w")])]).await;
    assert!(registry.job(&j()).await.unwrap().unwrap().foreign_triggers.is_empty());
}

/// A console disables and enables an item by a node below it. Watchers of the job get hints of both; runs of the job
/// give no hints.
#[tokio::test]
async fn an_item_that_a_console_disables_is_told_and_read() {
    let options = on_single().await;
    let registry = connect(&options).await;
    put(&registry, [create(&j(), "i1"), assign(0, "a"), write_record(0, None, 1)]).await;
    registry.watch(&j());
    let disabled = async || registry.switches(&j()).await.unwrap().unwrap().disabled;
    assert_eq!(disabled().await, [(Item(0), false)].into());
    let (tool, path) = (raw(&options).await, "/ns/job/sharding/0/disabled");
    let mut hints = registry.hints();
    let mode = CreateMode::Persistent.with_acls(Acls::anyone_all());
    tool.create("/ns/job/sharding/0/running", b"i", &mode).await.unwrap();
    // With few items each mark is watched, with many their common parent.
    for items in [1, 1000] {
        registry.watch_items(&j(), items);
        // The read comes after the watch, which is then in force.
        assert_eq!(disabled().await, [(Item(0), false)].into());
        tool.create(path, b"", &mode).await.unwrap();
        let told = until(&mut hints, &Hint::Switches(j())).await;
        assert!(!told.contains(&Hint::Job(j())), "{told:?}");
        assert_eq!(disabled().await, [(Item(0), true)].into());
        tool.delete(path, None).await.unwrap();
        until(&mut hints, &Hint::Switches(j())).await;
    }
    assert_eq!(disabled().await, [(Item(0), false)].into());
}
