//! `rosterd verify --whole`: the scheduled times of an ensemble, and their results, from the histories of all its
//! coordinators.

use std::path::PathBuf;
use std::process::Command;

use rusqlite::{Connection, params};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fleet::{Fleet, PATIENT, shared};
use crate::harness::*;

struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Said {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}\n{}", self.err, self.out))
    }
}

/// The result for these coordinators' files.
fn verify(fleet: &Fleet, seats: &[usize], more: &[&str]) -> Said {
    let mut command = Command::new(binary(false));
    command.env_remove("ROSTERD_SERVER").args(["verify", "--whole", "--server", &fleet.url_of(0)]).args(more);
    for seat in seats {
        command.arg("--data-dir").arg(data_dir(fleet, *seat));
    }
    let done = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: done.status.code(), out: text(done.stdout), err: text(done.stderr) }
}

fn data_dir(fleet: &Fleet, seat: usize) -> PathBuf {
    fleet.home.path(&format!("c{seat}"))
}

/// Three coordinators fire, and one of them leaves and comes back: each knows a part of the scheduled times. Together
/// they know all; a time that none of them knows is found.
#[tokio::test]
async fn what_was_due_in_an_ensemble_is_in_the_histories_of_its_coordinators() {
    const ALL: [usize; 3] = [0, 1, 2];
    let mut fleet = Fleet::start(3, &shared().list(), PATIENT).await;
    fleet.apply(job("tick", 4, json!({ "cron": EVERY_SECOND, "failover": true }))).await;
    for (seat, name) in ["a", "b", "c"].into_iter().enumerate() {
        fleet.worker_at(seat, name, vec![runs_for("tick", 1)]);
    }
    fleet.assigned("tick", 3).await;
    fleet.hosted_by("tick", 3, &ALL).await;
    fleet.more_fires_at_all(3).await;
    let mut left = fleet.seats[0].proc.take().unwrap();
    left.signal(Signal::TERM);
    assert!(left.end().await.success());
    fleet.ask(1);
    fleet.hosted_by("tick", 3, &[1, 2]).await;
    fleet.more_fires_at_all(3).await;
    fleet.launch(0);
    fleet.serving(0).await;
    fleet.more_fires_at_all(1).await;
    fleet.paused("tick").await;
    // It owns an item, and never runs it.
    fleet.worker_at(1, "d", vec![runs_for("tick", 1)]);
    fleet.assigned("tick", 4).await;

    let few = verify(&fleet, &[0, 1], &[]);
    assert_eq!(few.code, Some(2), "{}", few.out);
    assert!(few.err.contains("there are 3 coordinators, and 2 data directories were given"), "{}", few.err);

    // Scheduled times are judged some seconds later, when each has written its rows: until then there are fewer.
    let all = fleet.verdict().of("tick").filter(|run| run.source == "NORMAL_TRIGGER").count() as u64;
    let said = wait("a verdict on all that was due", || async {
        let said = verify(&fleet, &ALL, &["--json"]);
        let judged: Value = serde_json::from_str(&said.out).ok()?;
        let all_is_told =
            judged["scheduled_times"]["run"].as_u64() >= Some(all) && is_given_one(&judged, "host-d@-@");
        (said.code == Some(0) && all_is_told).then_some(judged)
    })
    .await;
    assert_eq!(said["violations"], json!([]));
    assert_eq!((&said["notes"], &said["scheduled_times"]["unknown"]), (&json!([]), &Value::Null), "{said}");
    // None of them knows enough alone: a scheduled time that it does not know seems to have no result.
    let parts = ALL.map(|seat| runs_in(&fleet, seat));
    assert!(parts.iter().all(|runs| (1..all).contains(runs)), "{parts:?} of {all}");

    let (item, fire) = forget_one(&fleet, &ALL);
    let said = verify(&fleet, &ALL, &["--json"]);
    assert_eq!(said.code, Some(1), "{}\n{}", said.err, said.out);
    let found = said.json()["violations"].clone();
    assert_eq!(
        (found.as_array().map(Vec::len), &found[0]["rule"]),
        (Some(1), &json!("no_outcome")),
        "{found}"
    );
    let text = found[0]["text"].as_str().unwrap();
    assert!(text.starts_with(&format!("tick/{item}: no result is recorded for ")), "{text}");
    assert_eq!(found[0]["proof"][0]["line"]["fire"], json!(fire), "{found}");
}

/// Whether an instance owns an item that it never ran.
fn is_given_one(judged: &Value, instance: &str) -> bool {
    judged["owners"].as_array().unwrap().iter().any(|owner| {
        let name = owner["instance"].as_str().unwrap();
        name.starts_with(instance)
            && (&owner["runs"], &owner["first_token"], &owner["until"])
                == (&json!(0), &Value::Null, &Value::Null)
    })
}

fn history(fleet: &Fleet, seat: usize) -> Connection {
    let db = Connection::open(data_dir(fleet, seat).join("history.db")).unwrap();
    db.busy_timeout(PATIENCE).unwrap();
    db
}

/// How many runs of scheduled times a history has.
fn runs_in(fleet: &Fleet, seat: usize) -> u64 {
    let count = "SELECT count(*) FROM runs WHERE source = 'NORMAL_TRIGGER'";
    let count: i64 = history(fleet, seat).query_row(count, [], |row| row.get(0)).unwrap();
    u64::try_from(count).unwrap()
}

/// Removes one run from all histories. Returns its item and scheduled time.
fn forget_one(fleet: &Fleet, seats: &[usize]) -> (u32, i64) {
    // The histories have earlier runs of its item, and later scheduled times too.
    let third = "SELECT item, token, fire FROM runs WHERE source = 'NORMAL_TRIGGER' ORDER BY item, fire LIMIT 1 OFFSET 2";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let (item, token, fire): (u32, i64, i64) = history(fleet, 1).query_row(third, [], row).unwrap();
    let gone = |seat: &usize| {
        let delete = "DELETE FROM runs WHERE item = ? AND token = ?";
        history(fleet, *seat).execute(delete, params![item, token]).unwrap()
    };
    assert!(seats.iter().map(gone).sum::<usize>() > 0);
    (item, fire)
}
