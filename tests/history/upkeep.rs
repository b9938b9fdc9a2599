//! The creation of the tables, and the deletion of old rows.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rosterd_domain::id::Item;
use rosterd_domain::item::{Outcome, Running, Source};
use rosterd_domain::plan::FireResult;
use rosterd_history::{EventKind, Options};

use crate::desk::{Desk, Place, TODAY, at, ended, job, not_run, run, started, until};

const DAY: Duration = Duration::from_secs(86_400);

/// A run of this many days ago.
fn old(item: u32, days: u32) -> rosterd_domain::plan::Entry {
    let since = at(0).minus(days * DAY);
    ended(item, 1, Running { since, fire: since, ..run(Source::NormalTrigger, 0) }, Outcome::Succeeded)
}

#[tokio::test]
async fn coordinators_that_start_at_once_make_the_tables_once() {
    let place = Place::common();
    let desks: Vec<_> = (0..6).map(|_| Desk::at(&place)).collect();
    for (n, desk) in desks.iter().enumerate() {
        for day in 0..5 {
            desk.record(&old(n as u32, day), None);
        }
    }
    for desk in &desks {
        desk.sent().await;
        assert_eq!((desk.recorder.dropped(), desk.recorder.status().trouble), (0, None));
    }
    assert_eq!(desks[0].runs().await.len(), 30);
    assert_eq!(place.number("SELECT count(*) FROM refinery_schema_history").await, 1);
}

#[tokio::test]
async fn a_schema_that_a_later_version_has_changed_is_used_as_it_is() {
    let place = Place::common();
    let desk = Desk::at(&place);
    desk.record(&old(0, 0), None);
    desk.sent().await;
    place
        .run(
            "ALTER TABLE runs ADD COLUMN later text NOT NULL DEFAULT ''; \
             INSERT INTO refinery_schema_history VALUES (99, 'later', '2027-01-15T08:00:00Z', '7')",
        )
        .await;
    let desk = Desk::at(&place);
    desk.record(&old(1, 0), None);
    desk.record(&old(2, 1), None);
    desk.sent().await;
    assert_eq!(desk.runs().await.len(), 3);
}

#[tokio::test]
async fn each_day_is_a_partition_and_goes_as_a_whole() {
    let place = Place::common();
    let desk = Desk::with(place.address(), Options { retention: 10 * DAY, ..Options::default() }, 64 << 20);
    for day in [0, 1, 9] {
        desk.record(&old(day, day), None);
        desk.recorder.event(at(0).minus(day * DAY), None, EventKind::Worker, format!("of {day}"), None);
    }
    desk.recorder.record(&job(), at(0).minus(9 * DAY), &not_run(0, 1, 1, 1, FireResult::Skipped), None);
    desk.recorder.event(at(0).minus(9 * DAY), None, EventKind::Operation, "asked", Some("ann"));
    desk.sent().await;
    let partitions =
        "SELECT count(*) FROM pg_inherits WHERE inhparent IN ('runs'::regclass, 'events'::regclass)";
    assert_eq!(place.number(partitions).await, 6);
    // Rows that are too old, or in the future, have no partition.
    for entry in [old(50, 12), ended(51, 1, run(Source::NormalTrigger, 10 * 86_400), Outcome::Succeeded)] {
        desk.record(&entry, None);
    }
    desk.sent().await;
    assert_eq!((desk.recorder.dropped(), desk.runs().await.len()), (2, 3));
    desk.recorder.stop().await;
    // Two days later.
    let Desk { dir, .. } = desk;
    let desk =
        Desk::in_dir(dir, place.address(), Options { retention: 10 * DAY, ..Options::default() }, 64 << 20);
    desk.now.store((TODAY + 2 * 86_400) * 1000, Ordering::Relaxed);
    desk.record(&started(60, 2, run(Source::NormalTrigger, 86_400)), None);
    desk.sent().await;
    let begun = std::time::Instant::now();
    while place.number("SELECT count(*) FROM runs").await > 3
        || place.number("SELECT count(*) FROM not_run").await > 0
    {
        assert!(begun.elapsed() < Duration::from_secs(90), "what is too old stays");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let items: Vec<_> = desk.runs().await.iter().map(|run| run.item).collect();
    assert_eq!(items, [60, 0, 1].map(Item));
    let told: Vec<_> = desk.events().await.into_iter().map(|event| event.text).collect();
    assert_eq!(told, ["of 0", "of 1", "asked"], "the audit is kept by number");
    assert_eq!(
        place.number(partitions).await,
        5,
        "one of the new day, and two of the ninth before have gone"
    );
    // A row of a dropped day does not affect the others.
    desk.record(&old(61, 9), None);
    desk.record(&old(62, 0), None);
    desk.sent().await;
    assert_eq!(desk.recorder.dropped(), 1);
}

#[tokio::test]
async fn a_partition_that_another_took_away_is_made_again() {
    let place = Place::common();
    let desk = Desk::at(&place);
    desk.record(&old(0, 3), None);
    desk.sent().await;
    place.run("DROP TABLE runs_2027_01_12").await;
    desk.record(&old(1, 3), None);
    desk.sent().await;
    assert_eq!((desk.recorder.dropped(), desk.runs().await.len()), (0, 1));
}

#[tokio::test]
async fn the_oldest_days_go_when_there_are_too_many_rows() {
    let place = Place::common();
    let desk = Desk::at(&place);
    for day in 0..4 {
        for n in 0..50 {
            desk.record(&old(n, day), None);
        }
    }
    desk.sent().await;
    desk.recorder.stop().await;
    let Desk { dir, .. } = desk;
    place.run("ANALYZE").await;
    let desk = Desk::in_dir(dir, place.address(), Options { max_rows: 110, ..Options::default() }, 64 << 20);
    let begun = std::time::Instant::now();
    while place.number("SELECT count(*) FROM runs").await != 100 {
        assert!(
            begun.elapsed() < Duration::from_secs(90),
            "{}",
            place.number("SELECT count(*) FROM runs").await
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let days: std::collections::BTreeSet<_> = desk.runs().await.iter().map(|run| run.since).collect();
    assert_eq!(days, [at(0), at(0).minus(DAY)].into());
    until(|| desk.recorder.status().trouble.map_or(Ok(()), Err)).await;
}
