use rosterd_domain::item::Missed;

use super::*;
use crate::EventKind;

const NO_WORKER: FireResult = FireResult::Missed(Missed::NoWorker);

impl Desk {
    /// First, last and count of each gap.
    async fn gaps(&self) -> Vec<(i64, i64, u64)> {
        let rows = self.reader.not_run(&job(), at(0), at(1_000_000)).await.unwrap();
        let second = |time: Time| time.0 / 1000 - TODAY;
        rows.iter().map(|row| (second(row.first), second(row.latest), row.count)).collect()
    }
}

#[tokio::test]
async fn an_hour_without_a_worker_is_one_row() {
    let mut desk = Desk::new();
    for minute in 1..=60 {
        desk.record(&not_run(0, minute * 60, minute * 60, 1, NO_WORKER), None);
    }
    assert_eq!(desk.gaps().await, [(60, 3600, 60)]);
    let counts = days(&desk.reader, None, at(0), at(3600)).await;
    assert_eq!(counts.values().map(|c| c.missed[&Missed::NoWorker]).sum::<u64>(), 60);
}

#[tokio::test]
async fn what_lies_between_ends_a_gap() {
    type Between = fn(&mut Desk);
    let between: [(&str, Between); 5] = [
        ("a run", |desk| desk.record(&started(0, 8, run(Source::NormalTrigger, 65)), None)),
        ("a misfire run", |desk| desk.record(&started(0, 8, run(Source::Misfire, 65)), None)),
        ("another reason", |desk| {
            desk.record(&not_run(0, 65, 65, 1, FireResult::Skipped), None);
        }),
        ("a change of the job", |desk| {
            desk.recorder.event(at(65), Some(&job()), EventKind::Job, "changed", None);
            desk.write();
        }),
        ("a loss", |desk| desk.queue.lost(1)),
    ];
    for (what, between) in between {
        let mut desk = Desk::new();
        desk.record(&not_run(0, 60, 60, 1, NO_WORKER), None);
        between(&mut desk);
        desk.record(&not_run(0, 70, 90, 3, NO_WORKER), None);
        let gaps = desk.gaps().await;
        assert!(gaps.contains(&(60, 60, 1)) && gaps.contains(&(70, 90, 3)), "{what}: {gaps:?}");
    }
}

#[tokio::test]
async fn a_gap_recorded_again_changes_nothing() {
    let mut desk = Desk::new();
    let recorded = [not_run(0, 60, 90, 4, NO_WORKER), not_run(0, 100, 120, 3, NO_WORKER)];
    for _ in 0..2 {
        recorded.iter().for_each(|entry| desk.record(entry, None));
        assert_eq!(desk.gaps().await, [(60, 120, 7)]);
    }
    let mut desk = desk.again();
    recorded.iter().for_each(|entry| desk.record(entry, None));
    assert_eq!(desk.gaps().await, [(60, 120, 7)]);
}

#[tokio::test]
async fn only_gaps_that_reach_into_the_span_are_returned() {
    let mut desk = Desk::new();
    for (item, first, latest) in [(0, 10, 20), (1, 15, 40), (2, 30, 50), (3, 50, 60)] {
        desk.record(&not_run(item, first, latest, 2, FireResult::Skipped), None);
    }
    let rows = desk.reader.not_run(&job(), at(21), at(50)).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.item.0).collect::<Vec<_>>(), [1, 2]);
}
