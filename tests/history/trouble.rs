//! Servers that are killed, stall, lose their answers or refuse; rows that wait on the disk meanwhile, and which of
//! them are dropped.

use std::time::{Duration, Instant};

use rosterd_domain::item::{Outcome, Source};
use rosterd_history::{Detail, EventKind, HistoryError, Options, Page, RunFilter};

use crate::desk::{Desk, PATIENCE, Place, at, days, ended, job, namespace, run, server, until};
use crate::postgres::Postgres;
use crate::proxy::{Mode, Proxy};

fn one(n: u32) -> rosterd_domain::plan::Entry {
    ended(n, 1, run(Source::NormalTrigger, i64::from(n % 3600)), Outcome::Succeeded)
}

/// The common server behind a proxy.
fn behind() -> (Proxy, Place) {
    let proxy = Proxy::start(&format!("127.0.0.1:{}", server().port));
    let place = Place {
        url: format!("postgres://rosterd@127.0.0.1:{}/postgres", proxy.port),
        namespace: namespace(),
    };
    (proxy, place)
}

#[tokio::test]
async fn while_the_server_is_killed_rows_wait_on_the_disk_and_none_is_lost() {
    let mut server = Postgres::start(&[]);
    let place = Place { url: server.url(), namespace: "killed".into() };
    let desk = Desk::at(&place);
    for n in 0..100 {
        desk.record(&one(n), None);
    }
    desk.sent().await;
    for round in 1..=3 {
        server.kill();
        for n in 0..100 {
            desk.record(&one(100 * round + n), None);
        }
        desk.recorder.settle().await;
        until(|| {
            let status = desk.recorder.status();
            let waits = status.trouble.is_some() && status.waiting == 100 && status.waiting_bytes > 0;
            waits.then_some(()).ok_or(format!("{status:?}"))
        })
        .await;
        let answer = desk.reader.last_runs(&job(), 1).await;
        let refused =
            matches!(&answer, Err(HistoryError::Unavailable(why)) if why.contains("postgres://127.0.0.1:"));
        assert!(refused, "{answer:?}");
        server.restart();
        desk.sent().await;
        assert_eq!(desk.runs().await.len(), 100 * (round as usize + 1));
    }
    let status = desk.recorder.status();
    assert_eq!((status.dropped, status.trouble), (0, None));
    let succeeded = days(&desk.reader, at(0), at(3600)).await;
    assert_eq!(succeeded.into_values().map(|day| day.succeeded).sum::<u64>(), 400, "each is counted once");
}

#[tokio::test]
async fn a_process_that_ends_leaves_on_the_disk_what_the_next_one_sends() {
    let (proxy, place) = behind();
    proxy.set(Mode::Hole);
    let desk = Desk::at(&place);
    for n in 0..50 {
        desk.record(&one(n), None);
    }
    desk.recorder.event(at(0), Some(&job()), EventKind::Operation, "paused", Some("ann"));
    let begun = Instant::now();
    desk.recorder.stop().await;
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "it does not wait for the server: {:?}",
        begun.elapsed()
    );
    assert_eq!((desk.recorder.dropped(), desk.recorder.status().waiting), (0, 51));
    proxy.set(Mode::Pass);
    proxy.cut();
    let Desk { dir, .. } = desk;
    let desk = Desk::in_dir(dir, place.address(), Options::default(), 64 << 20);
    desk.sent().await;
    assert_eq!((desk.runs().await.len(), desk.events().await.len()), (50, 1));
}

#[tokio::test]
async fn a_server_that_stalls_holds_nobody_up_and_what_came_meanwhile_is_sent_later() {
    let (proxy, place) = behind();
    let desk = Desk::at(&place);
    desk.record(&one(0), None);
    desk.sent().await;
    proxy.set(Mode::Hole);
    let begun = Instant::now();
    for n in 1..20_000 {
        desk.record(&one(n), None);
    }
    desk.recorder.event(at(0), Some(&job()), EventKind::Operation, "paused", Some("ann"));
    // The line in the audit is on this disk, so the answer to the request need not wait for the server.
    assert!(desk.reader.settle(PATIENCE).await, "after {:?}", begun.elapsed());
    let status = desk.recorder.status();
    assert_eq!((status.dropped, status.waiting), (0, 20_000));
    proxy.set(Mode::Pass);
    desk.sent().await;
    assert_eq!(place.number("SELECT count(*) FROM runs").await, 20_000);
    assert_eq!(desk.events().await.len(), 1);
}

/// A batch whose answer was lost was written, and is sent again.
#[tokio::test]
async fn a_batch_whose_answer_was_lost_is_sent_again_and_is_there_once() {
    let (proxy, place) = behind();
    let desk = Desk::at(&place);
    desk.record(&one(0), None);
    desk.sent().await;
    let direct = Place { url: server().url(), ..place.clone() };
    for round in 1..=5_u32 {
        for n in 0..40 {
            desk.record(&one(40 * round + n), Some(Detail { processed: 1, ..Detail::default() }));
        }
        desk.recorder.event(at(0), None, EventKind::Worker, format!("came {round}"), None);
        proxy.set(Mode::NoAnswers);
        // Until the whole batch is there, or none of it: neither the transaction nor its statements are answered.
        desk.recorder.settle().await;
        proxy.cut();
        proxy.set(Mode::Pass);
        desk.sent().await;
        // And lost after it was written: what the disk still has is sent a second time.
        direct.run("UPDATE senders SET sent = sent - 20").await;
        let sent_again = direct.number("SELECT sum(sent)::bigint FROM senders").await;
        desk.record(&one(40 * round), None);
        desk.sent().await;
        assert!(direct.number("SELECT sum(sent)::bigint FROM senders").await > sent_again);
    }
    assert_eq!(direct.number("SELECT count(*) FROM runs").await, 201);
    assert_eq!(direct.number("SELECT count(*) FROM events").await, 5);
    assert_eq!(direct.number("SELECT sum(n)::bigint FROM hourly WHERE what = 'succeeded'").await, 201);
    assert_eq!(direct.number("SELECT sum(n)::bigint FROM hourly WHERE what = 'processed'").await, 200);
    assert_eq!(desk.recorder.dropped(), 0);
}

/// The rows on the disk are bounded; the audit has a bound of its own.
#[tokio::test]
async fn what_has_no_room_on_the_disk_is_dropped_and_counted_but_not_who_did_what() {
    let (proxy, place) = behind();
    proxy.set(Mode::Hole);
    let most = 1 << 20;
    let desk = Desk::with(place.address(), Options { batch: 20, ..Options::default() }, most);
    let detail = || Some(Detail { output: "x".repeat(20_000), ..Detail::default() });
    let rows = 300;
    for n in 0..rows {
        desk.record(&one(n), detail());
    }
    desk.recorder.settle().await;
    let dropped = desk.recorder.dropped();
    assert!(dropped > 100 && dropped < 280, "{dropped}");
    for n in 0..5 {
        desk.recorder.event(at(n), Some(&job()), EventKind::Operation, format!("asked {n}"), Some("ann"));
    }
    desk.recorder.settle().await;
    let status = desk.recorder.status();
    assert_eq!((status.dropped, status.waiting), (dropped, u64::from(rows) - dropped + 5));
    assert!(status.waiting_bytes < 2 * most, "{status:?}");
    proxy.set(Mode::Pass);
    proxy.cut();
    desk.sent().await;
    assert_eq!((desk.runs().await.len() as u64, desk.events().await.len()), (u64::from(rows) - dropped, 5));
    // There is room again, and the file is small again.
    desk.record(&one(999), detail());
    desk.sent().await;
    assert_eq!(desk.recorder.dropped(), dropped);
    let left = desk.recorder.status().waiting_bytes;
    assert!(left < most / 4, "{left}");
}

/// A row that the database refuses does not affect the others.
#[tokio::test]
async fn a_row_that_the_database_refuses_is_dropped_alone() {
    let place = Place::common();
    let desk = Desk::at(&place);
    desk.record(&one(0), None);
    desk.sent().await;
    place.run("ALTER TABLE not_run ADD CONSTRAINT picky CHECK (item <> 13)").await;
    for n in 1..40 {
        desk.record(&one(n), None);
        desk.record(&crate::desk::not_run(n, 1, 1, 1, rosterd_domain::plan::FireResult::Skipped), None);
    }
    desk.sent().await;
    assert_eq!(desk.recorder.dropped(), 1);
    assert_eq!(place.number("SELECT count(*) FROM runs").await, 40);
    assert_eq!(place.number("SELECT count(*) FROM not_run").await, 38);
}

#[tokio::test]
async fn a_damaged_file_of_what_waits_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("history-spool.db"), "certainly no database ".repeat(500)).unwrap();
    let place = Place::common();
    let desk = Desk::in_dir(dir, place.address(), Options::default(), 64 << 20);
    desk.record(&one(0), None);
    desk.sent().await;
    assert_eq!((desk.recorder.dropped(), desk.runs().await.len()), (0, 1));
    let names = std::fs::read_dir(desk.dir.path()).unwrap().map(|file| file.unwrap().file_name());
    assert!(names.into_iter().any(|name| name.to_string_lossy().contains(".damaged-")));
}

/// Numbers that were sent are not reused: a file that was restored from a copy goes on under another name.
#[tokio::test]
async fn what_is_put_back_from_a_copy_is_not_taken_for_what_was_sent() {
    let place = Place::common();
    let desk = Desk::at(&place);
    desk.record(&one(0), None);
    desk.sent().await;
    let Desk { dir, recorder, .. } = desk;
    recorder.stop().await;
    let copies = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copies.path().join(entry.file_name())).unwrap();
    }
    let desk = Desk::in_dir(dir, place.address(), Options::default(), 64 << 20);
    for n in 1..10 {
        desk.record(&one(n), None);
    }
    desk.sent().await;
    desk.recorder.stop().await;
    let desk = Desk::in_dir(copies, place.address(), Options::default(), 64 << 20);
    for n in 20..25 {
        desk.record(&one(n), None);
    }
    desk.sent().await;
    assert_eq!(desk.runs().await.len(), 15);
    assert_eq!(place.number("SELECT count(*) FROM senders").await, 2);
}

#[tokio::test]
async fn a_question_to_a_server_that_stalls_ends_with_a_reason() {
    let (proxy, place) = behind();
    let desk = Desk::at(&place);
    desk.record(&one(0), None);
    desk.sent().await;
    assert_eq!(desk.runs().await.len(), 1);
    proxy.set(Mode::Hole);
    let answer = desk.reader.runs(RunFilter::default(), Page { size: 0, token: None }).await;
    assert!(
        matches!(&answer, Err(HistoryError::Unavailable(why)) if why.contains("no answer within")),
        "{answer:?}"
    );
    proxy.set(Mode::Pass);
    proxy.cut();
    // Broken connections are not used twice.
    assert_eq!(desk.runs().await.len(), 1);
}

/// The last message of a server, read with the next query, is not the answer to that query.
#[tokio::test]
async fn a_question_after_a_restart_is_answered_over_a_new_connection() {
    let mut server = Postgres::start(&[]);
    let place = Place { url: server.url(), namespace: "restarted".into() };
    let desk = Desk::at(&place);
    desk.record(&one(0), None);
    desk.sent().await;
    for _ in 0..2 {
        assert_eq!(desk.runs().await.len(), 1);
        server.kill();
        server.restart();
    }
    assert_eq!(desk.runs().await.len(), 1);
}
