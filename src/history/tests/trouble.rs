use std::os::unix::fs::FileExt;
use std::path::Path;

use super::*;
use crate::HistoryError;
use crate::rows::RunState;
use crate::sql::STEPS;

fn one(n: u32) -> Entry {
    ended(n, 1, run(Source::NormalTrigger, i64::from(n)), Outcome::Succeeded)
}

/// Files next to the history that were set aside as `what`.
fn aside(dir: &Path, what: &str) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names
        .filter(|name| name.contains(what) && !name.ends_with("-wal") && !name.ends_with("-shm"))
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_full_queue_drops_and_counts_and_never_waits() {
    let mut desk = Desk::with(Options { queue: 10, ..Options::default() });
    for n in 0..25 {
        desk.recorder.record(&job(), at(0), &one(n), None);
    }
    assert_eq!((desk.recorder.dropped(), desk.recorder.waiting()), (15, 10));
    desk.write();
    assert_eq!(desk.all().await.len(), 10);
    desk.record(&one(99), None);
    assert_eq!((desk.recorder.dropped(), desk.all().await.len()), (15, 11));
}

#[tokio::test]
async fn a_queue_full_of_texts_keeps_rows_without_them() {
    let mut desk = Desk::with(Options { queue_bytes: 50_000, ..Options::default() });
    for n in 0..5 {
        let detail = Detail { output: "x".repeat(20_000), processed: 5, ..Detail::default() };
        desk.recorder.record(&job(), at(0), &one(n), Some(detail));
    }
    desk.write();
    let rows = desk.all().await;
    assert_eq!(rows.iter().filter(|row| row.output.is_empty()).count(), 3);
    assert!(rows.iter().all(|row| row.processed == 5));
    assert_eq!((desk.recorder.dropped(), desk.recorder.shortened()), (0, 3));
}

#[tokio::test]
async fn a_full_disk_loses_rows_counts_them_and_recovers() {
    let mut desk = Desk::new();
    desk.record(&one(0), None);
    let store = desk.writer.store.as_ref().unwrap();
    let pages = store.limit_pages(1);
    let detail = || Some(Detail { output: "x".repeat(60_000), ..Detail::default() });
    for n in 1..=5 {
        desk.record(&one(n), detail());
    }
    assert_eq!((desk.recorder.dropped(), desk.all().await.len()), (5, 1));
    desk.writer.store.as_ref().unwrap().limit_pages(pages * 100);
    for n in 6..=8 {
        desk.record(&one(n), detail());
    }
    assert_eq!((desk.recorder.dropped(), desk.all().await.len()), (5, 4));
    let counted = days(&desk.reader, None, at(0), at(9)).await;
    assert_eq!(
        counted.values().map(|day| day.succeeded).sum::<u64>(),
        4,
        "what was rolled back is not counted"
    );
}

#[tokio::test]
async fn nobody_but_its_owner_reads_or_writes_the_history() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let modes = |dir: &Path| {
        let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap());
        let mode = |file: std::fs::DirEntry| {
            (file.file_name(), file.metadata().unwrap().permissions().mode() & 0o777)
        };
        files.map(mode).collect::<Vec<_>>()
    };
    // A file that an earlier version left readable by all.
    drop(rusqlite::Connection::open(&path).unwrap());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut desk = Desk::at(dir, Options::default());
    desk.record(&one(0), None);
    let found = modes(desk.dir.path());
    assert!(found.len() >= 2 && found.iter().all(|(_, mode)| *mode == 0o600), "{found:?}");
    let mut fresh = Desk::new();
    fresh.record(&one(0), None);
    assert!(modes(fresh.dir.path()).iter().all(|(_, mode)| *mode == 0o600));
}

#[tokio::test]
async fn a_link_in_the_place_of_the_history_is_not_followed() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(elsewhere.path().join("victim"), dir.path().join("history.db")).unwrap();
    let mut desk = Desk::at(dir, Options::default());
    desk.record(&one(0), None);
    assert_eq!(desk.recorder.dropped(), 1);
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("history.db"), "certainly no database ".repeat(500)).unwrap();
    let mut desk = Desk::at(dir, Options::default());
    desk.record(&one(0), None);
    assert_eq!((desk.recorder.dropped(), desk.all().await.len()), (0, 1));
    let aside = aside(desk.dir.path(), "damaged");
    assert_eq!(aside, ["history.db.damaged-20270115T080000Z-1"]);
    let kept = std::fs::read_to_string(desk.dir.path().join(&aside[0])).unwrap();
    assert!(kept.starts_with("certainly no database"));
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_set_aside_unharmed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("CREATE TABLE later (a); PRAGMA user_version = 99").unwrap();
    drop(db);
    // Who only reads it is not told to start a coordinator, which would set it aside.
    let refused = crate::History::look_at(&path).last_runs(&job(), 1).await.unwrap_err().to_string();
    assert!(refused.ends_with(": read it with the version that wrote it"), "{refused}");
    let mut desk = Desk::at(dir, Options::default());
    desk.record(&one(0), None);
    assert_eq!(desk.all().await.len(), 1);
    let kept = desk.dir.path().join(&aside(desk.dir.path(), "newer")[0]);
    let db = rusqlite::Connection::open(kept).unwrap();
    assert_eq!(db.query_row("SELECT count(*) FROM later", [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

#[tokio::test]
async fn damage_while_it_runs_begins_a_new_file_for_writer_and_readers() {
    let mut desk = Desk::new();
    for n in 0..200 {
        desk.record(&one(n), None);
    }
    assert_eq!(desk.all().await.len(), 200);
    // All pages but the first, once they are in the file itself.
    let path = desk.dir.path().join("history.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(db);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let length = usize::try_from(file.metadata().unwrap().len()).unwrap();
    file.write_all_at(&vec![0xa5; length - 4096], 4096).unwrap();
    // Cached pages still serve reads; a connection without them sees the damage.
    drop(desk.writer.store.take());
    for n in 1000..1005 {
        desk.pass(Duration::from_secs(10));
        desk.record(&one(n), None);
    }
    assert_eq!(aside(desk.dir.path(), "damaged").len(), 1);
    let rows = desk.all().await;
    assert!(!rows.is_empty() && rows.iter().all(|row| row.item.0 >= 1000), "{}", rows.len());
    assert_eq!(rows.len() as u64 + desk.recorder.dropped(), 5);
}

#[tokio::test]
async fn where_no_file_can_be_made_rows_are_counted_until_one_can() {
    let dir = tempfile::tempdir().unwrap();
    // A directory in place of the file: nothing can be opened there, and it is not ours to move.
    std::fs::create_dir(dir.path().join("history.db")).unwrap();
    let mut desk = Desk::at(dir, Options::default());
    desk.record(&one(0), None);
    assert_eq!(desk.recorder.dropped(), 1);
    let answer = desk.reader.last_runs(&job(), 1).await;
    assert!(matches!(answer, Err(HistoryError::Unavailable(_))));
    std::fs::remove_dir(desk.dir.path().join("history.db")).unwrap();
    desk.pass(Duration::from_secs(6));
    desk.record(&one(1), None);
    assert_eq!((desk.recorder.dropped(), desk.all().await.len()), (1, 1));
}

#[tokio::test]
async fn the_schema_is_made_once_and_kept() {
    let mut desk = Desk::new();
    desk.record(&one(0), None);
    let desk = desk.again();
    assert_eq!(desk.all().await.len(), 1);
    let db = rusqlite::Connection::open(desk.dir.path().join("history.db")).unwrap();
    assert_eq!(
        db.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)).unwrap(),
        STEPS.len() as i64
    );
}

#[tokio::test]
async fn a_file_of_each_version_before_is_brought_to_this_one_with_its_rows() {
    for version in 1..STEPS.len() {
        let dir = tempfile::tempdir().unwrap();
        let db = rusqlite::Connection::open(dir.path().join("history.db")).unwrap();
        db.execute_batch(&STEPS[..version].concat()).unwrap();
        db.pragma_update(None, "user_version", version as i64).unwrap();
        for (item, state, outcome) in [(0, "TASK_FINISHED", Some("succeeded")), (1, "TASK_RUNNING", None)] {
            db.execute(
                "INSERT INTO runs VALUES (NULL, ?, ?, 7, ?, 'NORMAL_TRIGGER', 'a@-@1', '1', NULL, ?, ?, 0, ?, NULL, NULL, \
                 'what it said', '', 3, 0, 1)",
                rusqlite::params![job().as_str(), item, at(0).0, state, outcome, at(0).0],
            )
            .unwrap();
        }
        for (n, kind) in ["worker", "job", "operation"].into_iter().enumerate() {
            let table = if version > 2 && kind != "worker" { "audit" } else { "events" };
            let insert = format!("INSERT INTO {table} VALUES (NULL, ?, NULL, ?, 'told', 'ann')");
            db.execute(&insert, rusqlite::params![at(n as i64).0, kind]).unwrap();
        }
        let table = if version > 3 { "not_run" } else { "unrun" };
        let insert = format!("INSERT INTO {table} VALUES (NULL, ?, 0, ?, ?, 1, 'missed', 'paused', ?)");
        db.execute(&insert, rusqlite::params![job().as_str(), at(5).0, at(5).0, at(5).0]).unwrap();
        drop(db);
        let reader = crate::History::look_at(dir.path().join("history.db"));
        let refused = reader.last_runs(&job(), 1).await.unwrap_err().to_string();
        assert!(refused.contains(&format!("has schema {version}, and this program reads")), "{refused}");
        let mut desk = Desk::at(dir, Options::default());
        let events = desk.reader.events(crate::EventFilter::default(), Page { size: 9, token: None }).await;
        let kinds: Vec<_> = events.unwrap().0.iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(kinds, ["operation", "job", "worker"], "of version {version}");
        let gaps = desk.reader.not_run(&job(), at(0), at(9)).await.unwrap();
        let found: Vec<_> = gaps.iter().map(|gap| (gap.first, gap.result)).collect();
        assert_eq!(
            found,
            [(at(5), FireResult::Missed(rosterd_domain::item::Missed::Paused))],
            "of version {version}"
        );
        desk.record(&ended(1, 7, run(Source::NormalTrigger, 0), Outcome::Failed), None);
        desk.record(&ended(0, 7, run(Source::NormalTrigger, 0), Outcome::Succeeded), None);
        let mut rows = desk.all().await;
        rows.sort_by_key(|row| row.item);
        let states: Vec<_> = rows.iter().map(|row| (row.item.0, row.state, row.error.as_str())).collect();
        let expected = [(0, RunState::Finished, "what it said"), (1, RunState::Error, "")];
        assert_eq!(states, expected, "of version {version}");
        assert_eq!(desk.recorder.dropped(), 0);
    }
}

#[test]
fn a_recorder_of_nothing_counts_what_it_did_not_keep() {
    let recorder = Recorder::none();
    recorder.record(&job(), at(0), &one(0), None);
    assert_eq!((recorder.dropped(), recorder.waiting()), (1, 0));
}
