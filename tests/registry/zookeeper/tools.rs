//! What other tools write past the store, as Elastic-Job's consoles do.

use rosterd_domain::snapshot::ForeignTrigger;
use rosterd_domain::txn::Write;
use rosterd_registry::Registry as _;
use zookeeper_client::{Acls, CreateMode};

use super::{connect, on_single, raw};
use crate::words::*;

/// An older console fires a job by the data TRIGGER of an instance. It is cleared with its instance left as it was; one that
/// is written meanwhile is another command.
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
