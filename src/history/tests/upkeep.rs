use super::*;
use crate::{EventFilter, EventKind, History};

const DAY: Duration = Duration::from_secs(86_400);

impl Desk {
    /// Cleans until nothing is left to clean; returns the number of steps.
    pub(super) fn clean(&mut self) -> usize {
        (1..).find(|_| self.writer.step(&[]) > self.flush()).unwrap()
    }

    fn flush(&self) -> Duration {
        Options::default().flush
    }
}

#[tokio::test]
async fn old_rows_go_in_portions_and_young_ones_stay() {
    let mut desk = Desk::new();
    let old = |n: u32| Running { since: at(0).minus(40 * DAY), ..run(Source::NormalTrigger, i64::from(n)) };
    for n in 0..12_000_u32 {
        desk.recorder.record(&job(), at(0), &started(n, 1, old(n)), None);
    }
    desk.recorder.record(&job(), at(0), &started(0, 2, run(Source::NormalTrigger, 0)), None);
    desk.recorder.record(&job(), at(0).minus(40 * DAY), &not_run(0, 1, 1, 1, FireResult::Skipped), None);
    desk.recorder.record(&job(), at(0), &not_run(1, 1, 1, 1, FireResult::Skipped), None);
    desk.recorder.event(at(0).minus(40 * DAY), None, EventKind::Worker, "old", None);
    desk.recorder.event(at(0), None, EventKind::Worker, "young", None);
    desk.write();
    desk.pass(Duration::from_secs(61));
    assert!(desk.clean() > 1, "one portion was enough");
    assert_eq!(desk.all().await.len(), 1);
    assert_eq!(desk.reader.not_run(&job(), at(0), at(9)).await.unwrap().len(), 1);
    let events = desk.reader.events(EventFilter::default(), Page { size: 9, token: None }).await.unwrap().0;
    assert_eq!(events.iter().map(|e| e.text.as_str()).collect::<Vec<_>>(), ["young"]);
    // Counts of whole days are pruned once a day.
    desk.pass(DAY);
    desk.clean();
    let days = days(&desk.reader, None, at(0).minus(90 * DAY), at(9)).await;
    assert_eq!(days.values().map(|day| day.fired).sum::<u64>(), 1);
}

#[tokio::test]
async fn what_grows_old_goes_later() {
    let mut desk = Desk::new();
    desk.record(&started(0, 1, run(Source::NormalTrigger, 0)), None);
    desk.pass(29 * DAY);
    desk.clean();
    assert_eq!(desk.all().await.len(), 1);
    desk.pass(2 * DAY);
    desk.clean();
    assert!(desk.all().await.is_empty());
    // Its end restores the whole row.
    desk.record(&ended(0, 1, run(Source::NormalTrigger, 0), Outcome::Succeeded), None);
    assert_eq!(desk.all().await.len(), 1);
}

#[tokio::test]
async fn a_calendar_set_back_does_not_stop_the_cleaning() {
    let mut desk = Desk::new();
    desk.pass(3650 * DAY);
    desk.clean();
    desk.now.store(TODAY * 1000, Ordering::Relaxed);
    let old = Running { since: at(0).minus(40 * DAY), ..run(Source::NormalTrigger, 0) };
    desk.record(&started(0, 1, old), None);
    desk.clean();
    assert!(desk.all().await.is_empty());
}

#[tokio::test]
async fn the_oldest_go_when_there_are_too_many_rows_or_bytes() {
    let bytes = 1 << 20;
    for options in
        [Options { max_rows: 100, ..Options::default() }, Options { max_bytes: bytes, ..Options::default() }]
    {
        let mut desk = Desk::with(options.clone());
        for n in 0..300_u32 {
            let detail = Detail { output: "x".repeat(32 << 10), ..Detail::default() };
            let run = run(Source::NormalTrigger, i64::from(n));
            desk.record(&ended(n, 1, run, Outcome::Succeeded), Some(detail));
        }
        desk.clean();
        let rows = desk.all().await;
        let in_use = desk.writer.store.as_ref().unwrap().bytes().unwrap();
        assert!(rows.len() as u64 <= options.max_rows && in_use <= options.max_bytes, "{in_use}");
        assert!(rows.len() > 10 && rows[0].item == Item(299), "{}", rows.len());
    }
}

/// Rows that workers cause, however many, displace none of the audit.
#[tokio::test]
async fn the_audit_outlives_what_workers_cause() {
    let mut desk = Desk::with(Options { max_rows: 100, queue: 50, ..Options::default() });
    desk.recorder.event(at(0).minus(400 * DAY), Some(&job()), EventKind::Operation, "cancelled", Some("ann"));
    desk.recorder.event(at(0).minus(400 * DAY), Some(&job()), EventKind::Job, "paused", Some("ann"));
    desk.write();
    for n in 0..300_u32 {
        desk.recorder.event(at(0), None, EventKind::Worker, "came", None);
        desk.record(&ended(n, 1, run(Source::NormalTrigger, i64::from(n)), Outcome::Succeeded), None);
    }
    // A queue that is full of runs accepts it nevertheless.
    for n in 0..60 {
        desk.recorder.record(&job(), at(0), &started(n, 2, run(Source::NormalTrigger, 1)), None);
    }
    assert_eq!(desk.recorder.dropped(), 10);
    desk.recorder.event(at(1), Some(&job()), EventKind::Job, "resumed", Some("ann"));
    assert_eq!(desk.recorder.dropped(), 10);
    desk.write();
    desk.pass(Duration::from_secs(61));
    desk.clean();
    let filter = || EventFilter { principal: Some("ann".into()), ..EventFilter::default() };
    let found = desk.reader.events(filter(), Page { size: 9, token: None }).await.unwrap().0;
    let texts: Vec<_> = found.iter().map(|event| event.text.as_str()).collect();
    assert_eq!(texts, ["resumed", "paused", "cancelled"]);
    let rest = desk.writer.store.as_ref().unwrap().rows().unwrap();
    assert!(rest.iter().sum::<u64>() <= 100, "{rest:?}");
}

/// A busy credential (a worker that registers one job after the other) displaces its own rows.
#[tokio::test]
async fn one_credential_does_not_take_the_places_of_others_in_the_audit() {
    let mut desk = Desk::with(Options { max_audit: 100, ..Options::default() });
    for n in 0..20 {
        desk.recorder.event(at(n), None, EventKind::Operation, format!("ann {n}"), Some("ann"));
    }
    for n in 0..500 {
        desk.recorder.event(
            at(30 + n),
            Some(&job()),
            EventKind::Job,
            format!("registered {n}"),
            Some("fleet"),
        );
    }
    desk.write();
    desk.pass(Duration::from_secs(61));
    desk.clean();
    let of = async |principal: &str| {
        let filter = EventFilter { principal: Some(principal.into()), ..EventFilter::default() };
        desk.reader.events(filter, Page { size: 0, token: None }).await.unwrap().0
    };
    let (ann, fleet) = (of("ann").await, of("fleet").await);
    assert_eq!((ann.len(), fleet.len()), (20, 80));
    assert_eq!(fleet[0].text, "registered 499", "the newest stay");
}

/// Through the thread, as in production.
#[tokio::test]
async fn a_thread_writes_what_many_record_and_ends_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let clock: Clock = Arc::new(|| at(0));
    let path = dir.path().join("history.db");
    let (recorder, reader) = History::open(&path, Options::default(), clock.clone()).unwrap();
    let each = 5_000_u32;
    let threads: Vec<_> = (0..4)
        .map(|worker| {
            let recorder = recorder.clone();
            std::thread::spawn(move || {
                for n in 0..each {
                    let run = run(Source::NormalTrigger, i64::from(n));
                    recorder.record(
                        &job(),
                        at(0),
                        &ended(worker * each + n, 1, run, Outcome::Succeeded),
                        None,
                    );
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    recorder.settle().await;
    let total = |days: std::collections::BTreeMap<Time, rosterd_domain::item::Counters>| {
        days.values().map(|day| day.succeeded).sum::<u64>()
    };
    assert_eq!(total(days(&reader, None, at(0), at(DAY.as_secs() as i64)).await), 20_000);
    recorder.record(&job(), at(0), &started(0, 2, run(Source::NormalTrigger, 1)), None);
    recorder.stop().await;
    assert_eq!((recorder.dropped(), recorder.waiting()), (0, 0));
    recorder.record(&job(), at(0), &started(0, 3, run(Source::NormalTrigger, 2)), None);
    recorder.settle().await;
    assert_eq!(recorder.dropped(), 1);
    // Everything recorded before the stop is there after it.
    let (_recorder, reader) = History::open(&path, Options::default(), clock).unwrap();
    let filter = RunFilter { state: Some(crate::RunState::Staging), ..RunFilter::default() };
    let rows = reader.runs(filter, Page { size: 9, token: None }).await.unwrap().0;
    assert_eq!(rows.iter().map(|row| row.token).collect::<Vec<_>>(), [Token(2)]);
}
