//! A coordinator whose clock is not the store's.

use rosterd_wire::proto::v1;
use serde_json::json;

use crate::fleet::{Fleet, PATIENT, shared};
use crate::harness::*;
use crate::judge::Verdict;

fn runs_of(verdict: &Verdict, job: &str, item: u32) -> usize {
    verdict.of(job).filter(|run| run.item == item).count()
}

/// How many runs of an item have started so far.
fn began(fleet: &Fleet, job: &str, item: u32) -> usize {
    runs_of(&fleet.verdict(), job, item)
}

/// Its worker's items are silent, the other's are not; its health, its log, its metric and the others' list show why.
#[tokio::test]
async fn a_coordinator_whose_clock_is_an_hour_fast_fires_nothing_and_says_so() {
    let mut fleet = Fleet::prepare(2, &shared().list(), PATIENT);
    let faults = fleet.home.path(MUTANTS);
    std::fs::create_dir(&faults).unwrap();
    std::fs::write(faults.join("clock-ahead-ms"), "3600000").unwrap();
    fleet.seats[1].faults = Some(faults);
    fleet.launch(0);
    fleet.serving(0).await;
    fleet.launch(1);
    fleet.listening(1).await;
    let off = v1::ServerHealth::ClockOff;
    wait("the health of the one that is off", || async {
        let info = fleet.admin_of(1).get_server_info(v1::GetServerInfoRequest {}).await.ok()?.into_inner();
        (info.health() == off).then_some(())
    })
    .await;
    fleet.apply(job("tick", 2, json!({ "cron": EVERY_SECOND }))).await;
    for (seat, name) in ["a", "b"].into_iter().enumerate() {
        fleet.worker_at(seat, name, vec![runs_for("tick", 1)]);
    }
    fleet.hosted_by("tick", 2, &[0, 1]).await;
    fleet.assigned("tick", 2).await;
    let hosts = fleet.hosts("tick").await;
    let silent = hosts.into_iter().find(|(_, seat)| *seat == 1).unwrap().0;
    let items = fleet.items("tick").await;
    let item = items.iter().find(|item| item.owner.as_ref() == Some(&silent)).unwrap().item;
    let loud = 1 - item;
    // Until the second worker came, the first had both items and ran them.
    let before = [item, loud].map(|of| began(&fleet, "tick", of));
    fleet
        .verdict_when("the other's item goes on", |verdict| runs_of(verdict, "tick", loud) >= before[1] + 3)
        .await;
    assert_eq!(began(&fleet, "tick", item), before[0], "the item of the one that is off has run");
    wait("what the other knows of it", || async {
        let members = fleet.members().await;
        members.iter().any(|member| !member.asked && member.state() == off).then_some(())
    })
    .await;
    fleet.ask(1);
    let ahead = fleet.counted("rosterd_clock_ahead_seconds").await;
    assert!((3590.0..3610.0).contains(&ahead), "the metric says {ahead}");
    let health = fleet.page("/healthz").await;
    assert!(health.contains("503") && health.contains("clock off"), "{health}");
    let log = std::fs::read_to_string(fleet.log_of(1)).unwrap();
    assert!(log.contains("ALARM: this machine's clock is "), "{log}");
    assert!(log.contains("ahead of the store's"), "{log}");
}
