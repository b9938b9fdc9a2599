//! Guarantees with workers at several coordinators, one of which leads.

use serde_json::json;

use crate::fleet::{Fleet, PATIENT, shared};
use crate::harness::*;
use crate::judge::What;
use crate::worker::Does;

/// Each fire is announced once before and once after, whichever coordinator leads and wherever its items run; also
/// after the leader has died.
#[tokio::test]
async fn fires_are_announced_once_wherever_their_items_run() {
    let mut fleet = Fleet::start(3, &shared().list(), PATIENT).await;
    let guarantee = json!({ "guarantee": { "started": true, "completed": true, "timeout_ms": 60_000 } });
    fleet.apply(job("all", 4, json!({ "cron": "0/5 * * * * ?", "rosterd": guarantee }))).await;
    for (seat, name) in ["a", "b"].into_iter().enumerate() {
        fleet.worker_at(seat, name, vec![Does { hooks: true, ..runs_for("all", 50) }]);
    }
    fleet.assigned("all", 2).await;
    fleet.hosted_by("all", 2, &[0, 1]).await;
    let told = |fleet: &Fleet, what: &str| -> Vec<String> {
        let lines = fleet.lines().into_iter();
        let hooks = lines.filter(|line| line.what == What::Hook && line.detail.starts_with(what));
        hooks.map(|line| line.detail).collect()
    };
    until("two fires to be announced", || told(&fleet, "all_completed").len() >= 2).await;
    let leads = fleet.leader("all").await;
    assert!(leads < 2, "who leads asks a worker of its own");
    fleet.crash(leads);
    let before = told(&fleet, "all_completed").len();
    until("two more fires to be announced", || told(&fleet, "all_completed").len() >= before + 2).await;
    fleet.verdict().is_clean();
    for what in ["all_started", "answered"] {
        let mut all = told(&fleet, what);
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count, "announced twice: {all:?}");
    }
}
