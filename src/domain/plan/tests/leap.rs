//! A clock that leaps a day ahead, is trusted, and is set back: what was run meanwhile is not run again when its time
//! comes.

use std::collections::BTreeMap;

use super::world::{World, job, noon};
use crate::item::{Outcome, Source};
use crate::plan::{Entry, Report, Reported};
use crate::time::Time;

const SECOND: i64 = 1000;
const HOUR: i64 = 3600 * SECOND;

/// One item, whose runs end at once, and how many runs each scheduled time had.
struct Played {
    world: World,
    runs: BTreeMap<Time, usize>,
}

impl Played {
    fn play(&mut self, from: Time, until: Time) {
        let mut now = from;
        while now <= until {
            self.world.now = now;
            for _ in 0..3 {
                let entries = self.world.settle().entries;
                for entry in &entries {
                    if let Entry::Started { item, token, run, .. } = entry {
                        assert_ne!(run.source, Source::Manual);
                        *self.runs.entry(run.fire).or_default() += 1;
                        let ended = Reported::Done(Outcome::Succeeded);
                        let report =
                            Report { token: *token, worker: run.worker.clone(), ended, offset: None };
                        self.world.reports.insert(*item, report);
                    }
                }
            }
            now = Time(now.0 + 10 * SECOND);
        }
    }
}

#[test]
fn what_ran_while_the_calendar_was_ahead_is_not_run_again() {
    let begin = noon();
    let at = |hours: i64, seconds: i64| Time(begin.0 + hours * HOUR + seconds * SECOND);
    let mut played =
        Played { world: World::new(job(Some("0/10 * * * * ?"), 1), &[0], begin), runs: BTreeMap::new() };
    played.play(at(0, 10), at(0, 60));
    played.play(at(26, 0), at(26, 60));
    let ahead: Vec<Time> = played.runs.keys().copied().filter(|fire| *fire > at(1, 0)).collect();
    // The one that was found too late is run nevertheless, and the next skipped with it.
    assert_eq!(ahead, [-10, 10, 20, 30, 40, 50, 60].map(|seconds| at(26, seconds)));
    // Only what became due between the two moments is skipped.
    played.play(at(0, 120), at(26, 300));
    let twice: Vec<_> = played.runs.iter().filter(|(_, runs)| **runs != 1).collect();
    assert_eq!(twice, []);
    let wanted = (1..=6).chain(13..=26 * 360 + 30).map(|n| at(0, 10 * n)).filter(|fire| *fire != at(26, 0));
    assert_eq!(played.runs.keys().copied().collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
    assert_eq!(played.world.records.values().next().and_then(|(_, record)| record.ahead.clone()), None);
}

/// Another schedule has its own times, whatever the previous one has accounted for.
#[test]
fn a_schedule_that_is_given_afterwards_is_followed() {
    let begin = noon();
    let at = |hours: i64, seconds: i64| Time(begin.0 + hours * HOUR + seconds * SECOND);
    let mut played =
        Played { world: World::new(job(Some("0/10 * * * * ?"), 1), &[0], begin), runs: BTreeMap::new() };
    played.play(at(0, 10), at(0, 60));
    played.play(at(26, 0), at(26, 60));
    played.play(at(0, 120), at(0, 180));
    let other = World::new(job(Some("5/10 * * * * ?"), 1), &[0], begin);
    let records = std::mem::take(&mut played.world.records);
    played.world = World { records, ..other };
    played.runs.clear();
    played.play(at(0, 185), at(26, 65));
    assert_eq!(played.runs.keys().filter(|fire| **fire > at(26, 0)).count(), 7);
}
