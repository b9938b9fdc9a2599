//! `rosterd verify` on real processes: clean from their logs, from the coordinator and from its files; and later
//! tampering is found in each.

use std::fs;
use std::process::Command;

use rosterd_domain::verify::{Line, What};
use serde_json::Value;

use crate::harness::*;

struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

fn verify(arguments: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rosterd"));
    command.env_remove("ROSTERD_SERVER").arg("verify").args(arguments);
    let done = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: done.status.code(), out: text(done.stdout), err: text(done.stderr) }
}

#[track_caller]
fn clean(arguments: &[&str]) -> Value {
    let said = verify(&[arguments, &["--json"]].concat());
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    serde_json::from_str(&said.out).unwrap()
}

#[track_caller]
fn broken(arguments: &[&str], words: &[&str]) {
    let said = verify(arguments);
    assert_eq!(said.code, Some(1), "{}\n{}", said.err, said.out);
    assert!(said.err.starts_with("rosterd: VIOLATIONS: "), "{}", said.err);
    for word in words {
        assert!(said.out.contains(word), "{word:?} is not in:\n{}", said.out);
    }
}

/// Two workers, of which one is killed while it runs its items; the other takes them over.
async fn worked() -> Cluster {
    let mut cluster = Cluster::start(SHORT).await;
    for name in ["one", "two"] {
        let log = cluster.home.path(&format!("{name}.runs")).display().to_string();
        let flags =
            ["--job", "beat", "--cron", EVERY_SECOND, "--items", "4", "--failover", "--run-log", &log];
        cluster.exec(name, &flags, &["sleep", "0.4"]);
    }
    cluster.assigned("beat", 2).await;
    cluster
        .items_when("beat", "all have run", |items| {
            items.iter().all(|item| item.counters.as_ref().unwrap().succeeded >= 2)
        })
        .await;
    // In the middle of a run, which has to be taken over.
    cluster
        .items_when("beat", "the second runs", |items| {
            let runs = |item: &rosterd_wire::proto::v1::ItemSummary| {
                item.running.as_ref().is_some_and(|run| run.instance.starts_with("host-two"))
            };
            items.iter().any(runs)
        })
        .await;
    cluster.kill("two");
    cluster
        .items_when("beat", "a crashed run was taken over, and all go on", |items| {
            let crashed: u64 = items.iter().map(|item| item.counters.as_ref().unwrap().crashed).sum();
            let after = |item: &rosterd_wire::proto::v1::ItemSummary| {
                item.last.as_ref().is_some_and(|last| last.instance.starts_with("host-one"))
            };
            crashed > 0 && items.iter().all(after)
        })
        .await;
    cluster
}

fn lines(file: &std::path::Path) -> Vec<Line> {
    rosterd_domain::verify::read(&fs::read_to_string(file).unwrap())
}

#[tokio::test]
async fn what_real_processes_did_is_clean_and_what_was_changed_is_found() {
    let mut cluster = worked().await;
    let server = cluster.url();
    let asked = clean(&["--server", &server]);
    assert_eq!(asked["scheduled_times"]["unknown"], Value::Null, "{asked}");

    cluster.process("one").signal(rustix::process::Signal::TERM);
    assert!(cluster.process("one").end().await.success());
    let path = |name: &str| cluster.home.path(name).display().to_string();
    let (one, two, third) = (path("one.runs"), path("two.runs"), path("third.runs"));
    let logs = clean(&["--log", &one, &two]);
    assert!(logs["taken_over"].as_u64().unwrap() > 0, "{logs}");
    assert_eq!(logs["not_ended"], 0, "what was killed is told of by its guard");
    let owners = logs["owners"].as_array().unwrap();
    assert!(owners.iter().any(|owner| owner["worker"].as_str().unwrap().starts_with("host-two.")), "{logs}");

    // A second worker runs an item in flight, for the same fire.
    let of_one = lines(&cluster.home.path("one.runs"));
    let start =
        of_one.iter().find(|line| line.what == What::Start && line.source == "NORMAL_TRIGGER").unwrap();
    let again =
        Line { at: start.at + 1, worker: "third".into(), token: start.token + 1_000_000, ..start.clone() };
    fs::write(&third, serde_json::to_string(&again).unwrap() + "\n").unwrap();
    broken(&["--log", &one, &two, &third], &["once_per_fire: beat/", "overlap: beat/", "third.runs:1  "]);

    let mut coordinator = cluster.coordinator.take().unwrap();
    coordinator.signal(rustix::process::Signal::TERM);
    coordinator.end().await;
    let data = cluster.data.display().to_string();
    let files = clean(&["--data-dir", &data]);
    assert!(files["scheduled_times"]["run"].as_u64().unwrap() >= 8, "{files}");
    tampered(&cluster.data.join("history.db"), &data);
}

/// A run comes twice, then a fire vanishes.
fn tampered(history: &std::path::Path, data: &str) {
    let db = rusqlite::Connection::open(history).unwrap();
    let sql = |text: &str| assert!(db.execute(text, []).unwrap() > 0, "{text}");
    let highest: i64 = db.query_row("SELECT max(token) FROM runs", [], |row| row.get(0)).unwrap();
    sql(
        "INSERT INTO runs SELECT NULL, job, item, token + 1000000000, fire, source, instance, worker, trigger_id, state, \
         outcome, requeued, since + 60000, started, ended + 60000, error, output, processed, failed, attempt FROM runs \
         WHERE source = 'NORMAL_TRIGGER' AND state = 'TASK_FINISHED' ORDER BY id LIMIT 1",
    );
    broken(&["--data-dir", data], &["once_per_fire: beat/", "history.db runs[beat/"]);
    sql(&format!("DELETE FROM runs WHERE token > {highest}"));
    clean(&["--data-dir", data]);
    sql("DELETE FROM runs WHERE id = (SELECT id FROM runs WHERE source = 'NORMAL_TRIGGER' AND item = 0 \
         ORDER BY fire LIMIT 1 OFFSET 1)");
    broken(&["--data-dir", data], &["no_outcome: beat/0: no result is recorded for "]);
}
