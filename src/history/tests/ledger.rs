use proptest::prelude::*;
use rosterd_domain::item::Missed;

use super::*;
use crate::{Fate, FireRow};

impl Desk {
    async fn fires(&self, expected: &[i64], items: u32, from: i64, to: i64) -> Vec<FireRow> {
        let expected: Vec<Time> = expected.iter().map(|second| at(*second)).collect();
        self.reader.fires(&job(), expected, (0..items).map(Item), at(from), at(to)).await.unwrap()
    }

    async fn fates(&self, expected: &[i64]) -> Vec<(Fate, Option<u64>)> {
        let rows = self.fires(expected, 1, 0, 100_000).await;
        rows.into_iter().map(|row| (row.fate, row.run.map(|run| run.token.0))).collect()
    }
}

#[tokio::test]
async fn each_scheduled_time_has_its_result() {
    let mut desk = Desk::new();
    let missed = FireResult::Missed(Missed::Down);
    desk.record(&ended(0, 8, run(Source::NormalTrigger, 10), Outcome::Succeeded), None);
    desk.record(&not_run(0, 20, 30, 2, missed), None);
    desk.record(&started(0, 9, run(Source::NormalTrigger, 40)), None);
    desk.record(&not_run(0, 50, 60, 2, FireResult::Misfired), None);
    desk.record(&started(0, 10, run(Source::Misfire, 60)), None);
    desk.record(&not_run(0, 70, 70, 1, FireResult::Skipped), None);
    let fates = desk.fates(&[5, 10, 20, 30, 40, 50, 60, 70, 80]).await;
    let expected = [
        (Fate::Unknown, None),
        (Fate::Run, Some(8)),
        (Fate::Missed, None),
        (Fate::Missed, None),
        (Fate::Run, Some(9)),
        (Fate::Misfired, Some(10)),
        (Fate::Misfired, Some(10)),
        (Fate::Skipped, None),
        (Fate::Pending, None),
    ];
    assert_eq!(fates, expected);
    let rows = desk.fires(&[20], 1, 0, 100).await;
    assert_eq!(rows[0].reason, Some(Missed::Down));
}

#[tokio::test]
async fn a_run_taken_over_is_one_fire_with_two_runs() {
    let mut desk = Desk::new();
    desk.record(&ended(0, 8, run(Source::NormalTrigger, 10), Outcome::Crashed), None);
    desk.record(&ended(0, 9, run(Source::Failover, 10), Outcome::Succeeded), None);
    desk.record(&ended(0, 10, run(Source::Manual, 10), Outcome::Failed), None);
    let row = desk.fires(&[10], 1, 0, 100).await.remove(0);
    let taken = row.run.unwrap();
    assert_eq!((row.fate, taken.token.0, taken.source, taken.runs), (Fate::Run, 9, Source::Failover, 2));
}

#[tokio::test]
async fn a_misfire_may_be_merged_into_a_run_after_the_span() {
    let mut desk = Desk::new();
    desk.record(&not_run(0, 50, 50, 1, FireResult::Misfired), None);
    assert_eq!(desk.fates(&[50]).await, [(Fate::Misfired, None)]);
    desk.record(&not_run(0, 60, 70, 2, FireResult::Misfired), None);
    desk.record(&started(0, 12, run(Source::Misfire, 70)), None);
    let row = desk.fires(&[50, 60, 70], 1, 0, 55).await.remove(0);
    assert_eq!((row.fate, row.run.map(|run| run.token.0)), (Fate::Misfired, Some(12)));
}

#[tokio::test]
async fn a_misfire_that_is_called_off_was_missed_and_its_run_is_not_a_later_one() {
    let mut desk = Desk::new();
    desk.record(&not_run(0, 50, 60, 2, FireResult::Misfired), None);
    desk.record(&not_run(0, 60, 60, 1, FireResult::Missed(Missed::Disabled)), None);
    desk.record(&not_run(0, 70, 70, 1, FireResult::Missed(Missed::Disabled)), None);
    desk.record(&not_run(0, 80, 80, 1, FireResult::Misfired), None);
    desk.record(&started(0, 12, run(Source::Misfire, 80)), None);
    let expected =
        [(Fate::Misfired, None), (Fate::Missed, None), (Fate::Missed, None), (Fate::Misfired, Some(12))];
    assert_eq!(desk.fates(&[50, 60, 70, 80]).await, expected);
}

#[tokio::test]
async fn too_much_is_refused_and_an_endless_schedule_is_not_read_to_its_end() {
    let desk = Desk::new();
    let endless = || (0..).map(at);
    let rows = desk.reader.fires(&job(), endless(), (0..1000).map(Item), at(50), at(150)).await.unwrap();
    assert_eq!(rows.len(), 100_000);
    assert!(desk.reader.fires(&job(), endless(), (0..1000).map(Item), at(50), at(151)).await.is_err());
}

/// What a planner may do with the next scheduled times of an idle item, in the order in which it accounts for them.
#[derive(Debug, Clone)]
enum Step {
    Run {
        crashes: bool,
    },
    Miss {
        count: usize,
        reason: Missed,
    },
    Skip {
        count: usize,
    },
    /// Merged, and then run, cancelled, or still waiting when the story ends.
    Misfire {
        count: usize,
        run: bool,
    },
    Manual,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let reason = prop_oneof![Just(Missed::Down), Just(Missed::NoWorker), Just(Missed::Paused)];
    let step = prop_oneof![
        any::<bool>().prop_map(|crashes| Step::Run { crashes }),
        (1..4_usize, reason).prop_map(|(count, reason)| Step::Miss { count, reason }),
        (1..4_usize).prop_map(|count| Step::Skip { count }),
        (1..4_usize, any::<bool>()).prop_map(|(count, run)| Step::Misfire { count, run }),
        Just(Step::Manual),
    ];
    proptest::collection::vec(step, 0..12)
}

/// How long after its scheduled time a run starts, in seconds: in time, late, or before it, if the clock was set back.
const STARTS: [i64; 6] = [0, 60, 61, 7, 10_000, -5];

/// The entries of a story, and the result of each scheduled time (10, 20, 30 …).
fn story(item: u32, steps: &[Step], starts: usize) -> (Vec<Entry>, Vec<Fate>) {
    let (mut entries, mut fates, mut token) = (Vec::new(), Vec::new(), 100);
    for step in steps {
        let next = |fates: &Vec<Fate>| 10 * (i64::try_from(fates.len()).unwrap() + 1);
        let first = next(&fates);
        let mut begin = |source, fire, outcome, entries: &mut Vec<Entry>| {
            token += 1;
            let since = at(fire + STARTS[(starts + token as usize) % STARTS.len()]);
            let run = Running { since, ..run(source, fire) };
            entries.push(started(item, token, run.clone()));
            entries.push(ended(item, token, run, outcome));
        };
        let mut gap = |count: usize, result, fate, entries: &mut Vec<Entry>| {
            fates.extend(vec![fate; count]);
            let latest = next(&fates) - 10;
            entries.push(not_run(item, first, latest, count as u64, result));
            latest
        };
        match step {
            Step::Run { crashes: false } => {
                begin(Source::NormalTrigger, first, Outcome::Succeeded, &mut entries);
                fates.push(Fate::Run);
            }
            Step::Run { crashes: true } => {
                begin(Source::NormalTrigger, first, Outcome::Crashed, &mut entries);
                begin(Source::Failover, first, Outcome::Failed, &mut entries);
                fates.push(Fate::Run);
            }
            Step::Miss { count, reason } => {
                gap(*count, FireResult::Missed(*reason), Fate::Missed, &mut entries);
            }
            Step::Skip { count } => {
                gap(*count, FireResult::Skipped, Fate::Skipped, &mut entries);
            }
            Step::Misfire { count, run: true } => {
                let latest = gap(*count, FireResult::Misfired, Fate::Misfired, &mut entries);
                begin(Source::Misfire, latest, Outcome::Succeeded, &mut entries);
            }
            Step::Misfire { count, run: false } => {
                let latest = gap(*count, FireResult::Misfired, Fate::Misfired, &mut entries);
                entries.push(not_run(item, latest, latest, 1, FireResult::Missed(Missed::Disabled)));
                *fates.last_mut().unwrap() = Fate::Missed;
            }
            Step::Manual => begin(Source::Manual, first, Outcome::Succeeded, &mut entries),
        }
    }
    (entries, fates)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every scheduled time has exactly one result, whatever is recorded twice and however it is batched.
    #[test]
    fn the_ledger_is_the_schedule(
        stories in proptest::collection::vec(steps(), 1..4),
        twice in any::<bool>(),
        batch in 1..9_usize,
        pending in 0..3_usize,
        starts in 0..STARTS.len(),
    ) {
        let mut desk = Desk::with(Options { batch, ..Options::default() });
        let mut expected = Vec::new();
        for (item, steps) in (0..).zip(&stories) {
            let (entries, fates) = story(item, steps, starts);
            for entry in &entries {
                for _ in 0..1 + usize::from(twice) {
                    desk.recorder.record(&job(), at(0), entry, None);
                }
            }
            expected.push(fates);
        }
        desk.write();
        let longest = expected.iter().map(Vec::len).max().unwrap() + pending;
        let due: Vec<i64> = (1..=longest).map(|n| 10 * n as i64).collect();
        let items = u32::try_from(stories.len()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let rows = runtime.block_on(desk.fires(&due, items, 0, 1_000_000));
        prop_assert_eq!(rows.len(), longest * stories.len());
        let mut found: Vec<Vec<Fate>> = vec![Vec::new(); stories.len()];
        for row in &rows {
            found[row.item.0 as usize].push(row.fate);
        }
        for (found, mut expected) in found.into_iter().zip(expected) {
            expected.resize(longest, Fate::Pending);
            prop_assert_eq!(found, expected);
        }
    }
}
