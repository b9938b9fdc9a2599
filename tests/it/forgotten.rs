//! A scripted worker that is sent a run and does not know it. A client that dropped a Trigger because of its token kept
//! the item forever; neither cancel nor disable freed it.

use rosterd_wire::proto::v1;
use serde_json::json;

use crate::harness::*;
use crate::judge::What;
use crate::python;
use crate::raw::{self, Raw};

/// The run is sent for two leases, so these are short, but longer than a busy machine delays a heartbeat.
const QUICK: Timing = timing(6000, 100, 12_000);

/// It is alive, and no heartbeat names the run. The host ends the run, and it runs elsewhere: in Rust, then in Python.
#[tokio::test]
async fn a_run_that_its_worker_never_names_is_ended_and_run_elsewhere() {
    for language in ["rust", "python"] {
        let mut cluster = Cluster::start(QUICK).await;
        cluster.apply(job("steady", 1, json!({ "failover": true }))).await;
        let (mut raw, _) = Raw::attached(cluster.channel(), raw::hello()).await;
        raw.registered("steady").await;
        cluster.assigned("steady", 1).await;
        cluster.home.open("gate");
        let _lives = raw.lives();
        cluster.trigger("steady").await;
        let first = raw.trigger().await.run.unwrap();
        if language == "python" {
            python::start(&mut cluster, "other", "steady");
        } else {
            cluster.worker("other", vec![runs_for("steady", 1)]);
        }
        // It gets nothing new; the change is acknowledged once its run is known to have started, or is over.
        let mut admin = cluster.admin();
        let disabling = tokio::spawn(async move {
            let target = Some(v1::set_enabled_request::Target::Machine("by-hand".into()));
            let job = "steady".to_owned();
            admin.set_enabled(v1::SetEnabledRequest { job, target, enabled: false, cancel: false }).await
        });
        // The run is sent five times or more, always under the same token.
        for _ in 1..5 {
            assert_eq!(raw.trigger().await.run.as_ref(), Some(&first));
        }
        cluster
            .items_when("steady", "another run of it has succeeded", |items| {
                items[0].counters.as_ref().unwrap().succeeded == 1
            })
            .await;
        disabling.await.unwrap().unwrap();
        let counters = cluster.counters("steady").await;
        assert_eq!((counters.runs, counters.crashed), (2, 1), "{counters:?}");
        let lines = cluster.lines();
        let began: Vec<u64> =
            lines.iter().filter(|line| line.what == What::Start).map(|line| line.token).collect();
        assert!(began.len() == 1 && began[0] > first.token, "{language}: {began:?} after {first:?}");
        // It is not penalized: its reports of that run are refused, and it goes on working.
        let ack = raw.report(first, v1::RunOutcome::Succeeded).await;
        assert_eq!(ack.result(), v1::ReportResult::Fenced, "{ack:?}");
    }
}
