use rosterd_domain::id::TriggerId;
use rosterd_domain::item::Missed;

use super::*;
use crate::RunState;

const NORMAL: Source = Source::NormalTrigger;

#[tokio::test]
async fn a_run_is_seen_to_begin_and_to_end() {
    let mut desk = Desk::new();
    desk.record(&started(0, 8, run(NORMAL, 100)), None);
    let before = desk.all().await;
    assert_eq!((before[0].state, before[0].started, before[0].ended), (RunState::Staging, None, None));
    desk.record(&ended(0, 8, run(NORMAL, 100), Outcome::Failed), Some(detail()));
    let after = desk.all().await;
    assert_eq!(after.len(), 1);
    let row = &after[0];
    assert_eq!((row.state, row.state.outcome()), (RunState::Error, Some(Outcome::Failed)));
    assert_eq!((row.started, row.ended, row.since), (Some(at(101)), Some(at(104)), at(100)));
    assert_eq!((row.error.as_str(), row.output.as_str()), ("disk full", "3 lines"));
    assert_eq!((row.processed, row.failed, row.attempt), (7, 2, 3));
}

#[tokio::test]
async fn either_order_and_any_repetition_give_the_same_row() {
    let manual = Running { trigger: Some(TriggerId::new("t-1").unwrap()), ..run(Source::Manual, 100) };
    let begin = (started(3, 8, manual.clone()), None);
    let end = (ended(3, 8, manual, Outcome::Succeeded), Some(detail()));
    let mut rows = Vec::new();
    for order in [&[0, 1][..], &[1, 0], &[1], &[0, 0, 1, 1, 0, 1]] {
        let mut desk = Desk::new();
        for which in order {
            let (entry, detail) = [&begin, &end][*which].clone();
            desk.record(&entry, detail);
        }
        rows.push(desk.all().await);
        let counts = days(&desk.reader, Some(&job()), at(0), at(200)).await;
        let counts: Vec<_> = counts.into_values().map(|c| (c.fired, c.succeeded, c.ended())).collect();
        assert_eq!(counts, [(1, 1, 1)], "{order:?}");
    }
    assert_eq!(rows[0].len(), 1);
    assert!(rows.iter().all(|other| *other == rows[0]), "{rows:#?}");
}

#[tokio::test]
async fn the_first_end_stands_and_detail_that_comes_late_is_filled_in() {
    let mut desk = Desk::new();
    desk.record(&ended(0, 8, run(NORMAL, 100), Outcome::Crashed), None);
    desk.record(&ended(0, 8, run(NORMAL, 100), Outcome::Succeeded), Some(detail()));
    let row = &desk.all().await[0];
    assert_eq!((row.state, row.error.as_str()), (RunState::Lost, ""));
    desk.record(&ended(0, 8, run(NORMAL, 100), Outcome::Crashed), Some(detail()));
    desk.record(
        &ended(0, 8, run(NORMAL, 100), Outcome::Crashed),
        Some(Detail { error: "other".into(), ..detail() }),
    );
    let row = &desk.all().await[0];
    assert_eq!((row.state, row.error.as_str(), row.processed), (RunState::Lost, "disk full", 7));
}

#[tokio::test]
async fn a_run_whose_end_was_lost_is_not_running_for_ever() {
    let mut desk = Desk::new();
    desk.record(&started(0, 8, run(NORMAL, 100)), None);
    desk.record(&started(1, 3, run(NORMAL, 100)), None);
    desk.record(&started(0, 9, run(NORMAL, 200)), None);
    let states: Vec<_> = desk.all().await.iter().map(|r| (r.item.0, r.token.0, r.state)).collect();
    let expected = [(0, 9, RunState::Staging), (1, 3, RunState::Staging), (0, 8, RunState::Unknown)];
    assert_eq!(states, expected);
    desk.record(&ended(0, 8, run(NORMAL, 100), Outcome::TimedOut), None);
    assert_eq!(desk.all().await[2].state, RunState::Failed);
}

/// The writer remembers which items have a run without an end: also across a restart, and if runs come late.
#[tokio::test]
async fn a_run_whose_end_was_lost_is_over_whenever_a_later_one_comes() {
    let mut desk = Desk::new();
    desk.record(&started(0, 8, run(NORMAL, 100)), None);
    let mut desk = desk.again();
    desk.record(&ended(0, 9, run(NORMAL, 200), Outcome::Succeeded), None);
    assert_eq!(desk.all().await[1].state, RunState::Unknown);
    desk.record(&started(0, 12, run(NORMAL, 400)), None);
    desk.record(&ended(0, 11, run(NORMAL, 300), Outcome::Succeeded), None);
    desk.record(&ended(0, 13, run(NORMAL, 500), Outcome::Succeeded), None);
    let mut states: Vec<_> = desk.all().await.iter().map(|r| (r.token.0, r.state)).collect();
    states.sort_by_key(|(token, _)| *token);
    let (over, done) = (RunState::Unknown, RunState::Finished);
    assert_eq!(states, [(8, over), (9, done), (11, done), (12, over), (13, done)]);
}

#[tokio::test]
async fn long_texts_are_cut_between_characters() {
    let mut desk = Desk::new();
    let detail = Detail { error: "é".repeat(9_000), output: "ü".repeat(70_000), ..Detail::default() };
    desk.record(&ended(0, 8, run(NORMAL, 100), Outcome::Failed), Some(detail));
    let row = &desk.all().await[0];
    for (text, max) in [(&row.error, crate::MAX_ERROR), (&row.output, crate::MAX_OUTPUT)] {
        assert!(text.len() <= max && text.len() > max - 16, "{}", text.len());
        assert!(text.ends_with("(cut)"));
    }
}

#[test]
fn every_state_reads_back() {
    for state in RunState::ALL {
        assert_eq!(RunState::named(state.as_str()), Some(state));
        assert!(state.outcome().is_none_or(|outcome| RunState::from(outcome) == state));
    }
}

#[tokio::test]
async fn a_run_is_found_with_all_runs_of_its_fire() {
    let mut desk = Desk::new();
    for (fire, token) in (0..50).zip(10..) {
        desk.record(&ended(0, token, run(NORMAL, fire), Outcome::Succeeded), None);
        desk.record(&ended(1, token, run(NORMAL, fire), Outcome::Succeeded), None);
    }
    let again = |since| Running { since: at(since), ..run(Source::Failover, 60) };
    desk.record(&ended(0, 70, run(NORMAL, 60), Outcome::Crashed), None);
    for (token, since) in [(71, 61), (72, 120), (73, 5_000), (74, 59)] {
        desk.record(&ended(0, token, again(since), Outcome::Succeeded), None);
    }
    let tokens = async |token: u64| -> Vec<u64> {
        let found = desk.reader.attempts(&job(), Item(0), Token(token)).await.unwrap();
        found.iter().map(|run| run.token.0).collect()
    };
    let all: Vec<u64> = (70..=74).collect();
    assert_eq!((tokens(70).await, tokens(73).await, tokens(10).await), (all.clone(), all, vec![10]));
    assert_eq!((tokens(9).await, tokens(75).await), (vec![], vec![]));
}

#[tokio::test]
async fn one_run_is_found_by_its_token() {
    let mut desk = Desk::new();
    let again = Running { since: at(61), ..run(Source::Failover, 60) };
    desk.record(&ended(0, 70, run(NORMAL, 60), Outcome::Crashed), None);
    desk.record(&ended(0, 71, again, Outcome::Succeeded), None);
    desk.record(&ended(1, 71, run(NORMAL, 60), Outcome::Failed), None);
    let one = || RunFilter {
        job: Some(job()),
        item: Some(Item(0)),
        token: Some(Token(71)),
        ..RunFilter::default()
    };
    let found = async |filter: RunFilter| -> Vec<(u32, u64)> {
        let (rows, next) = desk.reader.runs(filter, Page { size: 10, token: None }).await.unwrap();
        assert_eq!(next, None);
        rows.iter().map(|run| (run.item.0, run.token.0)).collect()
    };
    assert_eq!(found(one()).await, [(0, 71)]);
    assert_eq!(found(RunFilter { item: Some(Item(1)), ..one() }).await, [(1, 71)]);
    assert_eq!(
        found(RunFilter { state: Some(RunState::Finished), from: Some(at(61)), ..one() }).await,
        [(0, 71)]
    );
    for none in [
        RunFilter { token: Some(Token(72)), ..one() },
        RunFilter { state: Some(RunState::Lost), ..one() },
        RunFilter { to: Some(at(61)), ..one() },
        RunFilter { from: Some(at(62)), ..one() },
        RunFilter { item: None, ..one() },
    ] {
        assert_eq!(found(none).await, []);
    }
}

#[tokio::test]
async fn recent_activity_is_counted() {
    let mut desk = Desk::new();
    for (token, fire, late) in [(1, 1, 7), (2, 100, 30), (3, 101, -5), (4, 102, 10)] {
        let detail = Detail { started_at: Some(Time(at(fire).0 + late)), ..detail() };
        desk.record(&ended(0, token, run(NORMAL, fire), Outcome::Succeeded), Some(detail));
    }
    desk.record(&ended(1, 5, run(Source::Manual, 103), Outcome::Succeeded), Some(detail()));
    let missed =
        |first, latest, count| not_run(0, first, latest, count, FireResult::Missed(Missed::NoWorker));
    desk.record(&missed(3, 5, 2), None);
    desk.record(&not_run(1, 3, 3, 1, FireResult::Misfired), None);
    let pulse = desk.reader.pulse(at(60), at(0)).await.unwrap();
    assert_eq!((pulse.runs, pulse.lags), (4, vec![0, 10, 30]));
    let missed: Vec<_> = pulse.missed.iter().map(|row| (row.reason, row.count, row.latest)).collect();
    assert_eq!(missed, [(Missed::NoWorker, 2, at(5))]);
    assert_eq!(desk.reader.pulse(at(60), at(10)).await.unwrap().missed, []);
}

/// Elastic-Job's names: assigned, then in user code, then over.
#[tokio::test]
async fn a_run_is_staging_until_its_user_code_is_known_to_have_begun() {
    let mut desk = Desk::new();
    let normal = || run(Source::NormalTrigger, 100);
    let began = |desk: &mut Desk, item, second| {
        desk.recorder.begun(&job(), at(0), (Item(item), Token(1)), &normal(), Some(at(second)));
        desk.write();
    };
    desk.record(&started(0, 1, normal()), None);
    assert_eq!((desk.all().await[0].state, desk.all().await[0].started), (RunState::Staging, None));
    for second in [101, 107] {
        began(&mut desk, 0, second);
        assert_eq!(
            (desk.all().await[0].state, desk.all().await[0].started),
            (RunState::Running, Some(at(101)))
        );
    }
    desk.record(&ended(0, 1, normal(), Outcome::Failed), None);
    began(&mut desk, 0, 101);
    let over = desk.all().await.remove(0);
    assert_eq!((over.state, over.started), (RunState::Error, Some(at(101))));
    // The same is known of a run whose start was lost.
    began(&mut desk, 1, 102);
    desk.record(&started(1, 1, normal()), None);
    let begun = desk.all().await.into_iter().find(|run| run.item == Item(1)).unwrap();
    assert_eq!((begun.state, begun.started), (RunState::Running, Some(at(102))));
}
