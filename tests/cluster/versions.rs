//! Coordinators of two versions serve one namespace, as they do during an upgrade. The later one reports another
//! version, and all its nodes have fields that the other does not know.

use std::collections::BTreeSet;

use rosterd_wire::proto::v1;
use rustix::process::Signal;
use serde_json::json;

use crate::fleet::{Fleet, PATIENT, shared};
use crate::harness::*;
use crate::judge::Verdict;

const LATER: &str = "999.0.0";
/// The additional field of the later version's nodes.
const MORE: &str = "of_a_later_version";

impl Fleet {
    /// The coordinator leaves, and one of this version or of the later one takes its place.
    async fn replace(&mut self, seat: usize, later: bool) {
        self.ask((seat + 1) % self.seats.len());
        let mut proc = self.seats[seat].proc.take().unwrap();
        proc.signal(Signal::TERM);
        let status = proc.end().await;
        assert!(status.success(), "c{seat}: {status}");
        self.seats[seat].faults = later.then(|| self.home.path("later"));
        self.launch(seat);
        self.serving(seat).await;
        self.ask(seat);
        self.more_fires(2).await;
    }

    async fn versions(&self) -> BTreeSet<String> {
        self.members().await.into_iter().map(|member| member.version).collect()
    }

    async fn node(&self, job: &str, path: &str) -> String {
        String::from_utf8(self.dump(job).await.remove(path).unwrap().data.to_vec()).unwrap()
    }
}

/// From one version to the next, and back again; work is in flight all the while. Jobs are hosted, led and changed by
/// both, nothing is lost or repeated, and the field that the later one has added to a job's policy is still there when
/// the earlier one has changed the job.
#[tokio::test]
async fn two_versions_serve_together() {
    let mut fleet = Fleet::start(3, &shared().list(), PATIENT).await;
    let later = fleet.home.path("later");
    std::fs::create_dir(&later).unwrap();
    std::fs::write(later.join("version"), LATER).unwrap();
    std::fs::write(later.join("later"), "").unwrap();
    fleet.busy(&["a", "b", "c"]).await;
    let before = fleet.accounts_so_far("tick").await;
    // Scheduled times of the pause are counted once it has fired again.
    fleet.more_fires_at_all(1).await;
    let counted = fleet.counters("tick").await;
    let version = fleet.versions().await;
    assert!(version.len() == 1 && !version.contains(LATER), "{version:?}");
    fleet.replace(0, true).await;
    fleet.replace(1, true).await;
    wait("both versions", || async { (fleet.versions().await.len() == 2).then_some(()) }).await;
    fleet.ask(0);
    fleet.apply(job("made", 2, json!({ "rosterd": { "retries": { "max_attempts": 3 } } }))).await;
    let policy = fleet.node("made", "/rosterd/policy").await;
    assert_eq!(policy.matches(MORE).count(), 3, "{policy}");
    fleet.ask(2);
    let changed = json!({ "description": "changed", "rosterd": { "retries": { "max_attempts": 4 } } });
    fleet.apply(job("made", 2, changed)).await;
    let policy = fleet.node("made", "/rosterd/policy").await;
    assert_eq!((policy.matches(MORE).count(), policy.contains("\"max_attempts\":4")), (3, true), "{policy}");
    let status = fleet.job("made").await.summary.unwrap().status();
    assert_ne!(status, v1::JobStatus::Damaged);
    fleet.worker_at(0, "d", vec![runs_for("made", 1)]);
    fleet.hosted_by("made", 1, &[0]).await;
    fleet.assigned("made", 1).await;
    fleet.trigger("made").await;
    let runs = |verdict: &Verdict| verdict.of("made").filter(|run| run.ended()).count();
    fleet.verdict_when("what was made to run", |verdict| runs(verdict) == 2).await;
    wait("what the later version wrote of it", || async {
        fleet.node("made", "/sharding/0").await.contains(MORE).then_some(())
    })
    .await;
    fleet.replace(2, true).await;
    for seat in 0..3 {
        fleet.replace(seat, false).await;
    }
    fleet.trigger("made").await;
    fleet.verdict_when("what was made to run again", |verdict| runs(verdict) == 4).await;
    fleet.quiet("made").await;
    fleet.nine_done_once().await;
    let counters = fleet.counters("tick").await;
    assert_eq!((counters.crashed, &counters.missed), (0, &counted.missed), "{counters:?}");
    fleet.paused("tick").await;
    fleet.balanced("tick", &before).await;
    fleet.counted_as_written("tick").await;
}
