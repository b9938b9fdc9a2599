//! A panic in a part of the ZooKeeper session ends the session, never only the part.

use serde_json::json;

use crate::fleet::{Fleet, PATIENT, shared};
use crate::harness::*;

/// Each part in turn: another session follows in the same process, the worker attaches again, and no run is lost or
/// duplicated.
#[tokio::test]
async fn a_panic_of_any_part_of_the_session_ends_it_and_another_follows() {
    let mut fleet = Fleet::with_mutants(&shared().list(), PATIENT).await;
    fleet.apply(job("steady", 2, json!({}))).await;
    fleet.worker_at(0, "a", vec![runs_for("steady", 1)]);
    fleet.assigned("steady", 1).await;
    let log = fleet.log_of(0);
    for (before, part) in ["time", "writer", "watches", "lane", "listener"].into_iter().enumerate() {
        fleet.mutant(&format!("panic-zookeeper-{part}"), "");
        // A new job gives every part something to do; if the session is gone by now, it is not accepted.
        let _nothing_to_wait_for = fleet.try_apply(job(&format!("new-{part}"), 1, json!({}))).await;
        let logged = || std::fs::read_to_string(&log).unwrap();
        until(format!("a session after that of a broken {part}"), || {
            logged().matches("a new store session is open").count() == before + 1
        })
        .await;
        assert!(logged().contains(&format!("injected panic: panic-zookeeper-{part}")), "{}", logged());
        assert_eq!(logged().matches("a task of the ZooKeeper session panicked").count(), before + 1);
        fleet.healthy(0).await;
        assert_eq!(fleet.counted("rosterd_panics_total").await, (before + 1) as f64);
        fleet.hosted_by("steady", 1, &[0]).await;
        fleet.trigger("steady").await;
        let fires = before as u64 + 1;
        fleet
            .items_when("steady", "they have run", move |items| {
                items.iter().all(|item| item.counters.as_ref().unwrap().succeeded == fires)
            })
            .await;
    }
    let verdict = fleet.verdict();
    verdict.is_clean();
    assert!(verdict.runs.iter().all(|run| run.source == "MANUAL"), "\n{}", verdict.table());
}
