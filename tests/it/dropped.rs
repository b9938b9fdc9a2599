//! A worker that drops what it is told to run, and says nothing of it, does not keep its items. No client library does that: it
//! is spoken by hand.

use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::session_request::Frame;
use rosterd_wire::proto::v1::session_response::Frame as Said;
use serde_json::json;

use crate::harness::*;
use crate::python;
use crate::raw::{self, Raw};

const ITEMS: u32 = 2;
/// So often a worker is told of a run before it is ended.
const TOLD: usize = 5;

fn crashed(item: &v1::ItemSummary) -> bool {
    let last = item.last.as_ref().map(v1::EndedRun::outcome);
    item.state() == v1::ItemState::Idle && last == Some(v1::RunOutcome::Crashed)
}

/// It lives, heartbeats and all; its runs are ended as crashed after five times, what it says of them later counts for
/// nothing, and workers in Rust and Python run the items.
#[tokio::test]
async fn a_run_that_its_worker_never_names_is_ended_and_its_item_runs_again() {
    let mut cluster = Cluster::start(SHORT).await;
    cluster.apply(job("dropped", ITEMS, json!({}))).await;
    let (mut raw, _) = Raw::attached(cluster.channel(), raw::hello()).await;
    let _beats = raw.lives();
    raw.registered("dropped").await;
    cluster.assigned("dropped", 1).await;
    cluster.trigger("dropped").await;
    let run = raw.trigger().await.run.unwrap();
    cluster.items_when("dropped", "its runs to be ended", |items| items.iter().all(crashed)).await;
    let mut told = 1;
    let late = v1::RunOutcome::Succeeded.into();
    let report = v1::RunCompleted { run: Some(run), outcome: late, attempt: 1, ..Default::default() };
    raw.send(Frame::RunCompleted(report)).await;
    let ack = loop {
        match raw.next().await.unwrap().expect("the stream goes on") {
            Said::Trigger(_) => told += 1,
            Said::ReportAck(ack) => break ack,
            _ => {}
        }
    };
    assert_eq!(told, TOLD * ITEMS as usize, "it is told of each run so often");
    assert_eq!(ack.result(), v1::ReportResult::Fenced, "{ack:?}");
    assert!(cluster.items("dropped").await.iter().all(crashed));
    assert_eq!(cluster.logged().matches("never named it").count(), ITEMS as usize, "{}", cluster.logged());

    raw.send(Frame::Unregister(v1::Unregister { job: "dropped".into() })).await;
    raw.find("Unregistered", |said| if let Said::Unregistered(_) = said { Some(()) } else { None }).await;
    cluster.worker("rust", vec![runs_for("dropped", 1)]);
    cluster.home.open("gate");
    python::start(&mut cluster, "python", "dropped");
    cluster.assigned("dropped", 2).await;
    cluster.trigger("dropped").await;
    let verdict = cluster
        .verdict_when("both run", |verdict| verdict.of("dropped").filter(|run| run.ended()).count() == 2)
        .await;
    verdict.is_clean();
    cluster.quiet("dropped").await;
    let counters = cluster.counters("dropped").await;
    assert_eq!((counters.runs, counters.crashed, counters.succeeded), (4, 2, 2), "{counters:?}");
}
