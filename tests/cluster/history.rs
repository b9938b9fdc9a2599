//! One history of three coordinators, in PostgreSQL: each of them returns the history of all, including that of a
//! coordinator while the database was down.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fleet::{Fleet, PATIENT, shared};
use crate::harness::*;
use crate::postgres::Postgres;

const ALL: [usize; 3] = [0, 1, 2];

/// A command at a coordinator.
fn command(fleet: &Fleet, seat: usize, words: &[&str]) -> Command {
    let mut process = Command::new(binary(false));
    process.env_remove("ROSTERD_SERVER").args(words).args(["--json", "--server", &fleet.url_of(seat)]);
    process
}

/// The output of a command that succeeded.
fn answered(done: &Output) -> Option<Value> {
    let said = || serde_json::from_slice(&done.stdout).expect("what succeeds writes JSON");
    done.status.success().then(said)
}

/// The output of a command at a coordinator.
fn ask(fleet: &Fleet, seat: usize, words: &[&str]) -> (Option<i32>, Value) {
    let done = command(fleet, seat, words).output().unwrap();
    let said = serde_json::from_slice(&done.stdout)
        .unwrap_or_else(|error| panic!("{words:?}: {error}: {}", String::from_utf8_lossy(&done.stderr)));
    (done.status.code(), said)
}

/// The tokens of a job's runs by item, as a coordinator returns them.
fn runs(fleet: &Fleet, seat: usize) -> BTreeSet<(u64, u64)> {
    let (code, said) = ask(fleet, seat, &["runs", "--job", "tick", "--limit", "100000"]);
    assert_eq!(code, Some(0), "{said}");
    let rows = said.as_array().cloned().unwrap_or_else(|| panic!("{said}"));
    rows.iter().map(|row| (row["item"].as_u64().unwrap(), row["token"].as_u64().unwrap())).collect()
}

/// Waits until each coordinator returns all runs in the workers' logs.
async fn all_are_told(fleet: &Fleet) {
    let written: BTreeSet<(u64, u64)> =
        fleet.verdict().of("tick").map(|run| (u64::from(run.item), run.token)).collect();
    for seat in ALL {
        wait(format!("all runs at c{seat}"), || async {
            runs(fleet, seat).is_superset(&written).then_some(())
        })
        .await;
    }
}

async fn waits_for_the_database(fleet: &Fleet, seat: usize, waits: bool) {
    wait(format!("c{seat} to wait for the database: {waits}"), || async {
        let (_, info) = ask(fleet, seat, &["info"]);
        let history = &info["history"];
        assert_eq!(history["dropped"], json!(0), "{info}");
        let is_waiting = history["waiting"].as_u64() > Some(0) && history["trouble"] != json!("");
        (is_waiting == waits && (waits || history["waiting"] == json!(0))).then_some(())
    })
    .await;
}

#[tokio::test]
async fn every_coordinator_tells_what_all_of_them_did() {
    let mut database = Postgres::start(&[]);
    let mut fleet = Fleet::prepare(3, &shared().list(), PATIENT);
    fleet.cluster.settings.push(format!("history={}", database.url()));
    for seat in ALL {
        fleet.launch(seat);
    }
    for seat in ALL {
        fleet.serving(seat).await;
    }
    fleet.apply(job("tick", 4, json!({ "cron": EVERY_SECOND, "failover": true }))).await;
    for (seat, name) in ["a", "b", "c"].into_iter().enumerate() {
        fleet.worker_at(seat, name, vec![runs_for("tick", 1)]);
    }
    fleet.assigned("tick", 3).await;
    fleet.hosted_by("tick", 3, &ALL).await;
    fleet.more_fires_at_all(3).await;
    all_are_told(&fleet).await;

    // The database is killed: fires go on, and their rows wait at each coordinator.
    database.kill();
    fleet.more_fires_at_all(3).await;
    for seat in ALL {
        waits_for_the_database(&fleet, seat, true).await;
    }
    // One coordinator is killed meanwhile, with rows waiting on its disk; its workers go to the others. Its rows of the
    // last moments are only in its memory, but none from before the audit line of the second pause.
    fleet.paused("tick").await;
    fleet.paused("tick").await;
    fleet.crash(0);
    fleet.resumed("tick").await;
    fleet.hosted_by("tick", 3, &[1, 2]).await;
    fleet.more_fires_at_all(2).await;
    database.restart();
    fleet.launch(0);
    fleet.serving(0).await;
    fleet.more_fires_at_all(1).await;
    // One is stopped gracefully: nothing waits at it then.
    let mut left = fleet.seats[2].proc.take().unwrap();
    left.signal(Signal::TERM);
    assert!(left.end().await.success());
    fleet.ask(1);
    fleet.hosted_by("tick", 3, &[0, 1]).await;
    fleet.launch(2);
    fleet.serving(2).await;
    fleet.paused("tick").await;
    for seat in ALL {
        waits_for_the_database(&fleet, seat, false).await;
    }
    all_are_told(&fleet).await;

    let told = runs(&fleet, 1);
    let all = fleet.verdict().of("tick").filter(|run| run.source == "NORMAL_TRIGGER").count() as u64;
    for seat in ALL {
        assert_eq!(runs(&fleet, seat), told);
        let events = ask(&fleet, seat, &["events", "--kind", "job", "--job", "tick"]).1;
        assert_eq!(events, ask(&fleet, 1, &["events", "--kind", "job", "--job", "tick"]).1);
        // The others' rows may be in flight for some seconds, so the check begins after that.
        let said = wait("a verdict on all that was due", || async {
            // Until then there may be nothing to check at all, which is an error without a verdict.
            let said = answered(&command(&fleet, seat, &["verify"]).output().unwrap())?;
            (said["scheduled_times"]["run"].as_u64() >= Some(all)).then_some(said)
        })
        .await;
        assert_eq!((&said["violations"], &said["notes"]), (&json!([]), &json!([])), "{said}");
        let fires = ask(&fleet, seat, &["fires", "--job", "tick", "--since", "10m", "--limit", "100000"]).1;
        let fires = fires.as_array().unwrap();
        // Before it is assigned for the first time the job has no items: what was due then has no result.
        let at = |row: &Value| row["fire_time"].as_str().unwrap().to_owned();
        let first = fires.iter().filter(|row| row["result"] == "run").map(at).min().unwrap();
        let results: BTreeSet<_> =
            fires.iter().filter(|row| at(row) >= first).map(|row| row["result"].to_string()).collect();
        assert!(results.contains("\"run\"") && !results.contains("\"unspecified\""), "{results:?}");
    }
}
