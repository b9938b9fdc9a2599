//! Every coordinator reads what was written, and the same as from SQLite.

use std::collections::BTreeMap;
use std::sync::Arc;

use rosterd_domain::id::{InstanceId, Item, Token};
use rosterd_domain::item::{Counters, Missed, Outcome, Running, Source};
use rosterd_domain::plan::FireResult;
use rosterd_domain::time::Time;
use rosterd_history::{
    Clock, Detail, EventFilter, EventKind, EventRow, Fate, FireRow, History, NotRunRow, Options, Page,
    Reader, Recent, Recorder, RunFilter, RunRow, RunState,
};

use crate::desk::{Desk, Place, at, days, ended, job, not_run, run, started, told};

/// The answers to all queries.
#[derive(Debug, PartialEq)]
struct Answers {
    runs: Vec<RunRow>,
    odd: Vec<RunRow>,
    of_an_instance: Vec<RunRow>,
    events: Vec<EventRow>,
    by_ann: Vec<EventRow>,
    recent: Vec<Recent>,
    not_run: Vec<NotRunRow>,
    fires: Vec<FireRow>,
    days: BTreeMap<Time, Counters>,
}

/// In pages of this many rows.
async fn runs(reader: &Reader, filter: &RunFilter, size: usize) -> Vec<RunRow> {
    let (mut all, mut token) = (Vec::new(), None);
    loop {
        let (rows, next) = reader.runs(filter.clone(), Page { size, token }).await.unwrap();
        all.extend(rows);
        token = next;
        if token.is_none() {
            return all;
        }
    }
}

async fn events(reader: &Reader, filter: &EventFilter, size: usize) -> Vec<EventRow> {
    let (mut all, mut token) = (Vec::new(), None);
    loop {
        let (rows, next) = reader.events(filter.clone(), Page { size, token }).await.unwrap();
        all.extend(rows);
        token = next;
        if token.is_none() {
            return all;
        }
    }
}

async fn answers(reader: &Reader, size: usize) -> Answers {
    let instance = Some(InstanceId::new("b@-@2").unwrap());
    let mut runs_of_all = runs(reader, &RunFilter::default(), size).await;
    // Rows of the same time are in the order in which they were written, which differs between stores.
    runs_of_all.sort_by_key(|run| (run.since, run.item, run.token));
    let mut events_of_all = events(reader, &EventFilter::default(), size).await;
    events_of_all.sort_by_key(|event| (event.at, event.text.clone()));
    let due: Vec<Time> = (0..12).map(|n| at(10 * n)).collect();
    Answers {
        runs: runs_of_all,
        odd: runs(
            reader,
            &RunFilter { state: Some(RunState::Error), job: Some(job()), ..RunFilter::default() },
            size,
        )
        .await,
        of_an_instance: runs(reader, &RunFilter { instance, ..RunFilter::default() }, size).await,
        events: events_of_all,
        by_ann: events(
            reader,
            &EventFilter { principal: Some("ann".into()), ..EventFilter::default() },
            size,
        )
        .await,
        recent: reader.recent(&job(), at(0)).await.unwrap(),
        not_run: reader.not_run(&job(), at(0), at(900)).await.unwrap(),
        fires: reader.fires(&job(), due, [0, 1, 2].map(Item), at(0), at(120)).await.unwrap(),
        days: days(reader, at(0), at(900)).await,
    }
}

/// A busy quarter of an hour.
fn tell(recorder: &Recorder) {
    let record = |second: i64, entry, detail| recorder.record(&job(), at(second), &entry, detail);
    for n in 0..6_i64 {
        let normal = || run(Source::NormalTrigger, 10 * n);
        record(10 * n, started(0, 1 + n as u64, normal()), None);
        record(10 * n + 5, ended(0, 1 + n as u64, normal(), Outcome::Succeeded), Some(told()));
    }
    let other = || Running { instance: InstanceId::new("b@-@2").unwrap(), ..run(Source::NormalTrigger, 20) };
    record(20, started(1, 1, other()), None);
    record(25, ended(1, 1, other(), Outcome::Failed), Some(Detail { error: "n\0o".into(), ..told() }));
    // The end is recorded twice, the second time with more detail.
    record(25, ended(1, 2, run(Source::Failover, 20), Outcome::TimedOut), None);
    record(26, ended(1, 2, run(Source::Failover, 20), Outcome::TimedOut), Some(told()));
    let began = |item, token, run: &Running| {
        recorder.begun(&job(), at(0), (Item(item), Token(token)), run, Some(at(91)))
    };
    began(1, 2, &run(Source::Failover, 20));
    // One whose end was not seen, and one that goes on.
    record(30, started(2, 1, run(Source::NormalTrigger, 30)), None);
    record(90, started(2, 2, run(Source::Misfire, 90)), None);
    began(2, 2, &run(Source::Misfire, 90));
    // The start in user code is recorded before the start of the run, and one has no recorded start in user code.
    began(3, 1, &run(Source::NormalTrigger, 95));
    record(95, started(3, 1, run(Source::NormalTrigger, 95)), None);
    record(96, started(4, 1, run(Source::NormalTrigger, 96)), None);
    for n in 4..8 {
        record(10 * n, not_run(2, 10 * n, 10 * n, 1, FireResult::Misfired), None);
    }
    record(60, not_run(1, 40, 60, 3, FireResult::Missed(Missed::Paused)), None);
    // Known already.
    record(61, not_run(1, 40, 60, 3, FireResult::Missed(Missed::Paused)), None);
    recorder.event(at(1), None, EventKind::Worker, "w came", None);
    for n in 0..7 {
        let principal = if n % 2 == 0 { "ann" } else { "ben" };
        recorder.event(at(n), Some(&job()), EventKind::Operation, format!("asked {n}"), Some(principal));
        recorder.event(at(n), Some(&job()), EventKind::Assigned, format!("assigned {n}"), None);
    }
}

#[tokio::test]
async fn the_database_answers_as_the_file_does() {
    let place = Place::common();
    let desk = Desk::at(&place);
    tell(&desk.recorder);
    desk.sent().await;
    let dir = tempfile::tempdir().unwrap();
    let clock: Clock = Arc::new(|| at(0));
    let (recorder, file) = History::open(dir.path().join("h.db"), Options::default(), clock).unwrap();
    tell(&recorder);
    recorder.settle().await;
    let mut by_file = answers(&file, 0).await;
    // PostgreSQL's texts cannot hold a NUL.
    let nul =
        |runs: &mut Vec<RunRow>| runs.iter_mut().for_each(|run| run.error = run.error.replace('\0', "␀"));
    [&mut by_file.runs, &mut by_file.odd, &mut by_file.of_an_instance].into_iter().for_each(nul);
    assert_eq!(by_file.runs.len(), 12);
    for size in [0, 3] {
        assert_eq!(answers(&desk.reader, size).await, by_file, "in pages of {size}");
    }
    let fates: Vec<_> = by_file.fires.iter().filter(|row| row.item == Item(2)).map(|row| row.fate).collect();
    assert_eq!(fates.iter().filter(|fate| **fate == Fate::Misfired).count(), 5, "{fates:?}");
    recorder.stop().await;
}

#[tokio::test]
async fn every_coordinator_sees_what_all_did_and_what_two_saw_is_there_once() {
    let place = Place::common();
    let (one, two) = (Desk::at(&place), Desk::at(&place));
    // Each records all of it: the effect of a commit whose outcome was unknown, at one and at the next.
    tell(&one.recorder);
    tell(&two.recorder);
    one.record(&ended(7, 1, run(Source::NormalTrigger, 0), Outcome::Succeeded), None);
    two.record(&ended(8, 1, run(Source::NormalTrigger, 0), Outcome::Succeeded), None);
    one.sent().await;
    two.sent().await;
    let (by_one, by_two) = (answers(&one.reader, 0).await, answers(&two.reader, 4).await);
    assert_eq!(by_one, by_two);
    assert_eq!(by_one.runs.len(), 14, "two of their own, and twelve that both saw");
    let counted = by_one.days.values().next().unwrap();
    assert_eq!((counted.fired, counted.succeeded, counted.failed, counted.timed_out), (14, 8, 1, 1));
    assert_eq!(counted.missed[&Missed::Paused], 3);
    assert_eq!(by_one.events.len(), 30, "events have no name by which they are known again");
    assert_eq!((one.recorder.dropped(), two.recorder.dropped()), (0, 0));
}

/// The parts of a run in any order, from any coordinator.
#[tokio::test]
async fn a_run_is_put_together_from_what_comes_in_whatever_order() {
    let place = Place::common();
    let desks = [Desk::at(&place), Desk::at(&place)];
    let parts = || {
        let normal = || run(Source::NormalTrigger, 100);
        [
            (started(0, 1, normal()), None),
            (ended(0, 1, normal(), Outcome::Failed), None),
            (ended(0, 1, normal(), Outcome::Failed), Some(told())),
            // It comes too late: the first outcome stands.
            (ended(0, 1, normal(), Outcome::Crashed), None),
        ]
    };
    for (n, order) in [[0, 1, 2, 3], [1, 0, 2, 3], [2, 1, 0, 3], [1, 2, 3, 0]].into_iter().enumerate() {
        let item = n as u32;
        for (k, part) in order.into_iter().enumerate() {
            let (mut entry, detail) = parts()[part].clone();
            match &mut entry {
                rosterd_domain::plan::Entry::Started { item: of, .. }
                | rosterd_domain::plan::Entry::Ended { item: of, .. } => *of = Item(item),
                rosterd_domain::plan::Entry::NotRun { .. } => unreachable!("there is none among the parts"),
            }
            desks[k % 2].record(&entry, detail);
            desks[k % 2].sent().await;
        }
    }
    let runs = desks[0].runs().await;
    assert_eq!(runs.len(), 4);
    for run in runs {
        let said =
            (run.state, run.error.as_str(), run.output.as_str(), run.processed, run.failed, run.attempt);
        assert_eq!(said, (RunState::Error, "disk full", "3 lines", 7, 2, 3), "{run:?}");
        assert_eq!((run.started, run.requeued), (Some(at(101)), false));
    }
    let counted = days(&desks[1].reader, at(0), at(900)).await;
    let counted: Vec<_> = counted.into_values().map(|day| (day.fired, day.failed, day.ended())).collect();
    assert_eq!(counted, [(4, 4, 4)]);
}
