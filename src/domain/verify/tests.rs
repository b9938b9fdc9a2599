use std::collections::BTreeSet;

use super::*;
use crate::time::Time;

fn line(at: u64, worker: &str, what: What, token: u64) -> Line {
    Line {
        at,
        wall: 0,
        worker: worker.into(),
        what,
        job: "j".into(),
        item: 0,
        token,
        fire: 1000,
        source: if token == 1 { "NORMAL_TRIGGER" } else { "FAILOVER" }.into(),
        attempt: 1,
        instance: worker.into(),
        lease: None,
        detail: String::new(),
    }
}

fn with_lease(line: Line, lease: u64) -> Line {
    Line { lease: Some(lease), ..line }
}

/// The rules that are broken.
fn broken(lines: &[Line]) -> Vec<&'static str> {
    judge(lines, u64::MAX).faults.iter().map(|fault| fault.rule).collect()
}

const NONE: [&str; 0] = [];

#[test]
fn a_run_after_the_end_or_the_death_of_the_first_is_in_order() {
    for (what, token) in
        [(What::End, 1), (What::Cancel, 1), (What::Drop, 1), (What::Told, 1), (What::Killed, 0)]
    {
        let lines = [line(1, "a", What::Start, 1), line(2, "a", what, token), line(3, "b", What::Start, 2)];
        assert_eq!(broken(&lines), NONE, "{what:?}");
    }
}

#[test]
fn overlaps_are_found_whatever_the_order_of_the_lines() {
    let mut lines =
        vec![line(4, "a", What::Cancel, 1), line(3, "b", What::Start, 2), line(1, "a", What::Start, 1)];
    for _ in 0..3 {
        lines.rotate_left(1);
        assert_eq!(broken(&lines), ["overlap"]);
    }
    let never = [line(1, "a", What::Start, 1), line(3, "b", What::Start, 2)];
    let verdict = judge(&never, u64::MAX);
    assert_eq!(verdict.faults[0].text, "j/0: token 2 on b began while token 1 on a was still in user code");
}

#[test]
fn a_frozen_run_may_be_replaced_if_it_stops_when_it_wakes() {
    let frozen = |how, waking| {
        let lines = [
            line(1, "a", What::Start, 1),
            line(2, "a", What::Frozen, 0),
            line(3, "b", What::Start, 2),
            line(4, "a", What::Thawed, 0),
            line(6, "a", how, 1),
        ];
        judge(&lines, waking).faults.iter().map(|fault| fault.rule).collect::<Vec<_>>()
    };
    assert_eq!(frozen(What::Cancel, u64::MAX), NONE);
    assert_eq!(frozen(What::Told, 2), NONE);
    assert_eq!(frozen(What::Told, 1), ["overlap"], "it went on for longer than it takes to notice");
    assert_eq!(frozen(What::End, u64::MAX), ["overlap"], "it ended as if nothing had been");
    // It was resumed, and frozen again before it could do anything, or after a moment of being awake.
    let again = |at| {
        let lines = [
            line(1, "a", What::Start, 1),
            line(2, "a", What::Frozen, 0),
            line(3, "b", What::Start, 2),
            line(4, "a", What::Thawed, 0),
            line(at, "a", What::Frozen, 0),
        ];
        judge(&lines, 0).faults.iter().map(|fault| fault.rule).collect::<Vec<_>>()
    };
    assert_eq!(again(4), NONE);
    assert_eq!(again(5), ["overlap"], "it went on when it woke");
    // It had woken before the other started.
    let awake = [
        line(1, "a", What::Start, 1),
        line(2, "a", What::Frozen, 0),
        line(3, "a", What::Thawed, 0),
        line(4, "b", What::Start, 2),
        line(5, "a", What::Cancel, 1),
    ];
    assert_eq!(broken(&awake), ["overlap"]);
    let mut at_once = awake.clone();
    at_once[3].at = 3;
    assert_eq!(broken(&at_once), ["overlap"]);
    // A moment before, having been frozen when its lease ended, which it notices as fast as it can.
    let woke = |lease: u64, stops: u64, waking: u64| {
        let mut lines = awake.clone();
        lines[0].lease = Some(lease);
        (lines[1].at, lines[2].at, lines[3].at, lines[4].at) = (10, 30, 33, stops);
        judge(&lines, waking).faults.iter().map(|fault| fault.rule).collect::<Vec<_>>()
    };
    assert_eq!(woke(9, 35, 5), NONE, "its lease ends at the instant of 10");
    assert_eq!(woke(28, 35, 5), NONE);
    assert_eq!(woke(28, 36, 5), ["overlap"], "it takes longer than that");
    assert_eq!(woke(28, 35, 3), ["overlap"], "it should have noticed before the other began");
    assert_eq!(woke(8, 35, 5), ["overlap"], "its lease had ended before it stood still");
    assert_eq!(woke(29, 35, 5), ["overlap"], "it was awake when its lease ended");
}

#[test]
fn tokens_that_fall_and_fires_that_come_twice_are_found() {
    let normal = |line: Line| Line { source: "NORMAL_TRIGGER".into(), ..line };
    let twice = |token: u64| {
        broken(&[
            normal(line(1, "a", What::Start, 5)),
            normal(line(2, "a", What::End, 5)),
            normal(line(3, "b", What::Start, token)),
        ])
    };
    assert_eq!(twice(6), ["once_per_fire"]);
    assert_eq!(twice(4), ["tokens", "once_per_fire"]);
}

#[test]
fn a_token_that_begins_twice_is_found_and_another_attempt_is_none() {
    let again = |worker: &str, attempt| {
        let start = Line { attempt, ..line(3, worker, What::Start, 1) };
        judge(&[line(1, "a", What::Start, 1), line(2, "a", What::End, 1), start], u64::MAX)
    };
    let rules =
        |verdict: Verdict| verdict.faults.into_iter().map(|fault| fault.rule).collect::<BTreeSet<_>>();
    assert_eq!(rules(again("a", 1)), ["started_twice"].into());
    assert!(rules(again("b", 1)).contains("started_twice"));
    let second = again("a", 2);
    assert_eq!((second.runs.len(), second.runs[0].attempts, second.runs[0].stop), (1, 2, None));
    assert_eq!(rules(second), [].into());
}

#[test]
fn what_happens_without_or_against_a_lease_is_found() {
    assert_eq!(broken(&[with_lease(line(1, "a", What::Start, 1), 0)]), ["lease"]);
    let replaced = |what, token, at| {
        broken(&[
            with_lease(line(1, "a", What::Start, 1), 5),
            with_lease(line(3, "a", What::Tick, 1), 7),
            line(4, "a", what, token),
            line(at, "b", What::Start, 2),
        ])
    };
    assert_eq!(replaced(What::Killed, 0, 9), ["lease"], "its lease was valid until 10");
    assert_eq!(replaced(What::Killed, 0, 10), NONE);
    assert_eq!(replaced(What::Frozen, 0, 9), ["lease"]);
    assert_eq!(replaced(What::Frozen, 0, 10), NONE);
    // Under another identity the process has another lease.
    let again = [
        with_lease(line(1, "a", What::Start, 1), 5),
        line(2, "a", What::Frozen, 0),
        line(7, "b", What::Start, 2),
        line(8, "a", What::Thawed, 0),
        with_lease(line(9, "a", What::Cancel, 1), 50),
    ];
    assert_eq!(broken(&again), NONE);
    for what in [What::End, What::Cancel, What::Drop, What::Told] {
        assert_eq!(replaced(what, 1, 5), NONE, "{what:?}: a worker that has stopped needs no lease");
    }
}

#[test]
fn runs_are_counted_per_item_and_fire_and_lines_that_are_none_are_passed_over() {
    let lines: Vec<Line> =
        [line(1, "a", What::Start, 1), line(2, "a", What::End, 1), line(3, "a", What::Hook, 0)]
            .into_iter()
            .chain([line(4, "b", What::Start, 2)])
            .collect();
    let text: String =
        lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect::<String>() + "{\"at\":";
    assert_eq!(read(&text), lines);
    let verdict = judge(&lines, 0);
    let counts = verdict.counts("j");
    assert_eq!(counts[&(0, 1000, "NORMAL_TRIGGER".into())], 1);
    assert_eq!(counts[&(0, 1000, "FAILOVER".into())], 1);
    assert_eq!(verdict.done("j", "NORMAL_TRIGGER"), [0].into());
    assert!(verdict.of("k").next().is_none() && verdict.table().contains("j/0 token 2"));
}

#[test]
fn a_run_that_never_ends_is_told_of_once() {
    let normal = |line: Line, fire| Line { source: "NORMAL_TRIGGER".into(), fire, ..line };
    let lines: Vec<Line> = std::iter::once(line(1, "a", What::Start, 1))
        .chain((2..6).flat_map(|n| {
            let (start, end) = (line(10 * n, "b", What::Start, n), line(10 * n + 1, "b", What::End, n));
            [normal(start, n as i64), normal(end, n as i64)]
        }))
        .collect();
    assert_eq!(broken(&lines), ["overlap"]);
}

#[test]
fn what_is_taken_over_after_its_outcome_was_written_down_is_found() {
    let taken_over = |outcome: &str| {
        let settled = Line { detail: outcome.into(), ..line(3, "a", What::Settled, 1) };
        broken(&[
            line(1, "a", What::Start, 1),
            line(2, "a", What::End, 1),
            settled,
            line(4, "b", What::Start, 2),
        ])
    };
    assert_eq!(taken_over("succeeded"), ["once_per_fire"]);
    assert_eq!(taken_over("crashed"), NONE);
    assert_eq!(taken_over("cancelled"), NONE);
}

#[test]
fn scheduled_times_without_a_result_and_runs_that_were_lost_are_found() {
    let due = |fire, item| Line { fire, item, ..line(9, "", What::Scheduled, 0) };
    let lines = [
        line(1, "a", What::Start, 1),
        line(2, "a", What::Lost, 1),
        due(1000, 0),
        due(2000, 0),
        due(2000, 1),
        Line { fire: 2000, item: 1, detail: "missed".into(), ..line(9, "", What::NotRun, 0) },
    ];
    let faults = judge(&lines, 0).faults;
    let texts: Vec<&str> = faults.iter().map(|fault| fault.text.as_str()).collect();
    let lost = "j/0: nobody knows how token 1 on a ended";
    assert_eq!(texts, [lost, "j/0: no result is recorded for 1970-01-01T00:00:02Z"]);
    assert!(faults.iter().all(|fault| fault.rule == "no_outcome"));
    assert_eq!((faults[0].proof(&lines), faults[1].proof(&lines)), (vec![0, 1], vec![3]));
}

#[test]
fn what_needs_a_record_of_runs_is_left_out_of_jobs_without_one() {
    let lines = [
        with_lease(line(1, "a", What::Start, 2), 5),
        line(3, "b", What::Start, 1),
        line(4, "b", What::Lost, 1),
        Line { fire: 2000, ..line(5, "b", What::Start, 3) },
        Line { fire: 2000, source: "NORMAL_TRIGGER".into(), ..line(6, "c", What::Start, 3) },
        Line { fire: 2000, source: "NORMAL_TRIGGER".into(), ..line(7, "c", What::Start, 4) },
        Line { fire: 3000, ..line(8, "", What::Scheduled, 0) },
    ];
    let rules = |unmonitored: &str| {
        let mut verdict = judge(&lines, 0);
        let left = verdict.leave_out(&[unmonitored.to_owned()].into());
        let all: BTreeSet<&str> = verdict.faults.iter().map(|fault| fault.rule).collect();
        (left > 0, all.into_iter().collect::<Vec<_>>())
    };
    let all = ["lease", "no_outcome", "once_per_fire", "overlap", "started_twice", "tokens"];
    assert_eq!(rules("other"), (false, all.to_vec()));
    assert_eq!(rules("j"), (true, vec!["no_outcome", "once_per_fire", "started_twice"]));
    let mut verdict = judge(&lines, 0);
    verdict.leave_out(&["j".to_owned()].into());
    let due =
        verdict.faults.iter().filter(|fault| fault.rule == "no_outcome").map(|fault| fault.due.is_some());
    assert_eq!(due.collect::<Vec<_>>(), [true], "what was due is promised all the same");
}

#[test]
fn a_fault_names_the_lines_that_prove_it() {
    let mut lines = [
        line(4, "b", What::Start, 2),
        with_lease(line(1, "a", What::Start, 1), 5),
        with_lease(line(2, "a", What::Tick, 1), 7),
        with_lease(line(3, "a", What::Tick, 1), 9),
        line(5, "a", What::Hook, 1),
        line(6, "a", What::End, 1),
        line(7, "c", What::Killed, 0),
        line(8, "b", What::Frozen, 0),
        line(4, "a", What::Tick, 1),
        with_lease(line(5, "a", What::Tick, 1), 12),
        Line { item: 1, ..line(2, "b", What::Start, 2) },
    ];
    let faults = judge(&lines, u64::MAX).faults;
    let overlap = faults.iter().find(|fault| fault.rule == "overlap").unwrap();
    assert_eq!(overlap.to_string(), format!("overlap: {}", overlap.text));
    let proof = |rule| faults.iter().find(|fault| fault.rule == rule).unwrap().proof(&lines);
    assert_eq!(proof("overlap"), [1, 0, 5, 7]);
    assert_eq!(proof("lease"), [1, 3, 0, 5, 7], "and the lease that was good");
    lines.swap(0, 1);
    let faults = judge(&lines, u64::MAX).faults;
    let lease = faults.iter().find(|fault| fault.rule == "lease").unwrap();
    assert_eq!(lease.proof(&lines), [0, 3, 1, 5, 7]);
}

#[test]
fn the_first_worker_of_a_run_is_shown_beside_the_next() {
    let twice = [line(1, "a", What::Start, 1), line(2, "a", What::End, 1), line(3, "b", What::Start, 1)];
    let faults = judge(&twice, u64::MAX).faults;
    let fault = faults.iter().find(|fault| fault.rule == "started_twice").unwrap();
    assert_eq!(fault.runs.iter().map(|run| run.worker.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn a_worker_whose_run_was_given_away_no_longer_counts_as_frozen() {
    let at = |begins| {
        broken(&[
            line(1, "a", What::Start, 1),
            line(2, "a", What::Frozen, 0),
            line(4, "a", What::Thawed, 0),
            line(begins, "b", What::Start, 2),
            line(6, "a", What::Cancel, 1),
        ])
    };
    assert_eq!((at(3), at(4)), (NONE.to_vec(), vec!["overlap"]));
}

/// A run that did not overlap with the next one may overlap with the one after that.
#[test]
fn a_run_is_held_against_all_that_begin_before_it_has_stopped_and_is_believed_no_more() {
    let stands = [
        line(1, "a", What::Start, 1),
        line(2, "a", What::Frozen, 0),
        line(3, "b", What::Start, 2),
        line(4, "b", What::End, 2),
        line(5, "a", What::Thawed, 0),
        line(6, "c", What::Start, 3),
        line(8, "a", What::Cancel, 1),
    ];
    let runs = |lines: &[Line], rule: &str| {
        let faults = judge(lines, u64::MAX).faults;
        let of = faults.iter().filter(|fault| fault.rule == rule);
        of.map(|fault| [fault.runs[0].token, fault.runs[1].token]).collect::<Vec<_>>()
    };
    assert_eq!(runs(&stands, "overlap"), [[1, 3]]);
    let killed = [
        with_lease(line(1, "a", What::Start, 1), 9),
        line(2, "a", What::Killed, 0),
        line(3, "b", What::Start, 2),
        line(4, "b", What::End, 2),
        line(5, "c", What::Start, 3),
        line(6, "c", What::End, 3),
        line(12, "d", What::Start, 4),
    ];
    assert_eq!(runs(&killed, "lease"), [[1, 2], [1, 3]]);
}

#[test]
fn owners_are_the_workers_that_ran_an_item_in_a_row() {
    let lines = [
        line(1, "a", What::Start, 1),
        line(2, "a", What::End, 1),
        line(3, "a", What::Start, 2),
        line(4, "a", What::End, 2),
        line(5, "b", What::Start, 3),
        Line { item: 1, ..line(5, "b", What::Start, 1) },
    ];
    let owners = judge(&lines, 0).owners();
    let short: Vec<_> = owners.iter().map(|o| (o.item, o.worker.as_str(), o.from, o.until, o.runs)).collect();
    assert_eq!(short, [(0, "a", 1, Some(4), 2), (0, "b", 5, None, 1), (1, "b", 5, None, 1)]);
}

#[test]
fn a_strict_reader_passes_over_nothing_but_a_torn_end() {
    let good = serde_json::to_string(&line(1, "a", What::Start, 1)).unwrap();
    let numbers = |text: &str| read_all(text).map(|lines| lines.iter().map(|(n, _)| *n).collect::<Vec<_>>());
    assert_eq!(numbers(&format!("{good}\n\n{good}\n{{\"at\":")), Ok(vec![1, 3]));
    assert_eq!(numbers(&format!("{good}\n{good}")), Ok(vec![1, 2]));
    assert_eq!(numbers(&format!("{good}\n{{\"at\":\n{good}\n")).unwrap_err().line, 2);
    assert_eq!(numbers("{\"at\": 1, \"worker\": \"a\", \"what\": \"fly\"}\n").unwrap_err().line, 1);
}

#[test]
fn many_runs_of_one_item_are_audited_quickly() {
    let lines: Vec<Line> = (0..30_000_u64)
        .flat_map(|n| {
            let about = |line: Line| Line { fire: n as i64, source: "NORMAL_TRIGGER".into(), ..line };
            [about(line(2 * n, "a", What::Start, n + 1)), about(line(2 * n + 1, "a", What::End, n + 1))]
        })
        .collect();
    let verdict = judge(&lines, 0);
    assert_eq!((verdict.runs.len(), verdict.faults.len()), (30_000, 0));
}

#[test]
fn a_word_of_a_line_is_the_one_that_is_shown() {
    for what in
        ["start", "tick", "told", "end", "cancel", "drop", "killed", "frozen", "thawed", "hook", "exit"]
    {
        let text = format!(r#"{{"at": 1, "worker": "a", "what": "{what}"}}"#);
        let line: Line = serde_json::from_str(&text).unwrap();
        assert_eq!(line.what.as_str(), what);
    }
}

#[test]
fn a_verdict_tells_of_its_runs() {
    let ms = |n: u64| n * 1_000_000;
    let lines = [
        line(ms(5), "a", What::Start, 1),
        line(ms(7), "a", What::Cancel, 1),
        Line { item: 3, ..line(ms(8), "a", What::Start, 2) },
        Line { item: 3, ..line(ms(9), "a", What::End, 2) },
        Line { item: 4, ..line(ms(10), "b", What::Start, 2) },
        Line { item: 4, ..line(ms(11), "b", What::Drop, 2) },
        Line { item: 5, ..line(ms(12), "b", What::Start, 2) },
    ];
    let verdict = judge(&lines, u64::MAX);
    let stopped: Vec<u32> =
        verdict.runs.iter().filter(|run| run.stopped_by_order()).map(|run| run.item).collect();
    assert_eq!(stopped, [0, 4]);
    assert_eq!(verdict.done("j", "FAILOVER"), [3].into());
    let table = verdict.table();
    assert!(table.contains("j/3 token 2 fire 1000 FAILOVER on a: 3 to 4 ms Some(End)"), "{table}");
    assert!(table.contains("on b: 7 to never ms None"), "{table}");
    let owners = verdict.owners_by(&[], Time::default());
    assert_eq!(owners, verdict.owners());
    assert_eq!(owners.len(), 4);
}
