use std::time::Duration;

use proptest::prelude::*;
use rosterd_domain::item::Outcome;

use super::{at, job};
use crate::facts::{Coordinator, Item, Job, LateStart};
use crate::kind::AlarmKind;
use crate::rules::{Memory, of_coordinator, of_job, shown};
use crate::settings::Rule;

/// What a rule of this kind says of a job after these looks, a second apart.
fn text_of(rule: &Rule, looks: &[Job]) -> Option<String> {
    let mut memory = Memory::default();
    let mut text = None;
    for (second, job) in looks.iter().enumerate() {
        memory.see(job, at(1000 + second as u64));
        text = of_job(rule, job, &memory, at(1000 + second as u64)).map(|condition| condition.text);
    }
    text
}

fn with(change: impl FnOnce(&mut Job)) -> Job {
    let mut changed = job(2);
    change(&mut changed);
    changed
}

#[test]
fn each_kind_by_what_a_job_is() {
    let waits = |seconds| with(|job| job.items[1].waits = Some(at(seconds)));
    let open = |seconds| with(|job| job.items[0].unfinished = Some(at(seconds)));
    let hour = Duration::from_secs(3600);
    let after = |kind, after| Rule { after, ..Rule::new(kind) };
    let rows: Vec<(&str, Rule, Job, Option<&str>)> = vec![
        (
            "no worker",
            Rule::new(AlarmKind::NoWorker),
            with(|job| job.has_worker = false),
            Some("report has no enabled worker"),
        ),
        ("a worker", Rule::new(AlarmKind::NoWorker), job(2), None),
        (
            "no worker, and out of service",
            Rule::new(AlarmKind::NoWorker),
            with(|job| (job.has_worker, job.in_service) = (false, false)),
            None,
        ),
        (
            "not started for a minute",
            Rule::new(AlarmKind::NotStarted),
            waits(940),
            Some("report was not started for item 1 of 2026-11-25T05:35:40Z"),
        ),
        ("not started for less", Rule::new(AlarmKind::NotStarted), waits(941), None),
        (
            "not started, for want of a worker",
            Rule::new(AlarmKind::NotStarted),
            with(|job| (job.has_worker, job.items[0].waits) = (false, Some(at(0)))),
            Some("report was not started for item 0 of 2026-11-25T05:20:00Z: it has no enabled worker"),
        ),
        (
            "paused",
            Rule::new(AlarmKind::NotStarted),
            with(|job| (job.in_service, job.items[0].waits) = (false, Some(at(0)))),
            None,
        ),
        (
            "running for too long",
            after(AlarmKind::NotFinished, Duration::from_secs(60)),
            open(940),
            Some("report was not finished within 1 min for item 0 of 2026-11-25T05:35:40Z"),
        ),
        ("running", after(AlarmKind::NotFinished, Duration::from_secs(60)), open(941), None),
        (
            "neither run nor recorded for too long",
            after(AlarmKind::NotFinished, Duration::from_secs(60)),
            waits(940),
            Some("report was not finished within 1 min for item 1 of 2026-11-25T05:35:40Z"),
        ),
        (
            "not finished by a time of the day",
            Rule { by: Some(5 * 60 + 30), ..Rule::new(AlarmKind::NotFinished) },
            open(600),
            Some("report was not finished by 05:30 UTC for item 0 of 2026-11-25T05:30:00Z"),
        ),
        (
            "begun after it",
            Rule { by: Some(5 * 60 + 30), ..Rule::new(AlarmKind::NotFinished) },
            open(601),
            None,
        ),
        (
            "another zone's",
            Rule { by: Some(5 * 60 + 30), ..Rule::new(AlarmKind::NotFinished) },
            with(|job| {
                job.zone = "Asia/Shanghai".into();
                job.items[0].unfinished = Some(at(600));
            }),
            None,
        ),
        ("no kind of jobs", Rule { after: hour, ..Rule::new(AlarmKind::ClockOff) }, job(1), None),
    ];
    for (row, rule, job, wanted) in rows {
        assert_eq!(text_of(&rule, &[job]).as_deref(), wanted, "{row}");
    }
}

#[test]
fn many_items_are_counted_and_some_named() {
    let all = with(|facts| {
        *facts = job(40);
        facts.items.iter_mut().for_each(|item| item.waits = Some(at(0)));
    });
    let text = text_of(&Rule::new(AlarmKind::NotStarted), &[all]).unwrap();
    assert!(text.ends_with("item 4 of 2026-11-25T05:20:00Z and 35 more"), "{text}");
}

/// An item of these counters: failed, succeeded, how the last one ended.
fn item(failed: u64, succeeded: u64, last: Option<Outcome>) -> Job {
    with(|job| job.items[0] = Item { failed, succeeded, last, ..job.items[0].clone() })
}

#[test]
fn failures_in_a_row_are_counted_from_the_record_alone() {
    use Outcome::{Cancelled, Crashed, Failed, Succeeded, TimedOut};
    let rows: Vec<(&str, Vec<Job>, Option<&str>)> = vec![
        ("never ran", vec![item(0, 0, None)], None),
        ("one", vec![item(0, 5, Some(Succeeded)), item(1, 5, Some(Failed))], None),
        (
            "two, and seen both",
            vec![item(0, 5, Some(Succeeded)), item(1, 5, Some(Failed)), item(2, 5, Some(TimedOut))],
            Some("report failed for item 0 twice"),
        ),
        (
            "two between two looks",
            vec![item(1, 5, Some(Failed)), item(3, 5, Some(Failed))],
            Some("report failed for item 0 3 times"),
        ),
        (
            "two, and never any success",
            vec![item(2, 0, Some(Failed))],
            Some("report failed for item 0 twice"),
        ),
        ("two, and then a success", vec![item(2, 0, Some(Failed)), item(2, 1, Some(Succeeded))], None),
        ("a success between them", vec![item(1, 5, Some(Failed)), item(2, 6, Some(Failed))], None),
        (
            "a crash and a cancel between them are not successes",
            vec![
                item(1, 5, Some(Failed)),
                item(1, 5, Some(Crashed)),
                item(1, 5, Some(Cancelled)),
                item(2, 5, Some(Failed)),
            ],
            Some("report failed for item 0 twice"),
        ),
        ("how many, the first look cannot know", vec![item(7, 5, Some(Failed))], None),
        ("the job was created again", vec![item(7, 0, Some(Failed)), item(0, 0, None)], None),
    ];
    let rule = Rule { times: 2, ..Rule::new(AlarmKind::Failed) };
    for (row, looks, wanted) in rows {
        assert_eq!(text_of(&rule, &looks).as_deref(), wanted, "{row}");
    }
}

#[test]
fn crashes_and_missed_times_count_within_a_span_and_not_those_before_the_first_look() {
    let crashed = |count| with(|job| job.crashed = count);
    let rule = Rule { times: 2, within: Duration::from_secs(3), ..Rule::new(AlarmKind::Crashed) };
    assert_eq!(text_of(&rule, &[crashed(9), crashed(10)]), None);
    let two = "report crashed twice within 3 s";
    assert_eq!(text_of(&rule, &[crashed(9), crashed(10), crashed(11)]).as_deref(), Some(two));
    let later = [crashed(9), crashed(11), crashed(11), crashed(11), crashed(11)];
    assert_eq!(text_of(&rule, &later), None, "they are too old");
    assert_eq!(text_of(&rule, &[crashed(9), crashed(1), crashed(2)]), None, "the job was created again");
    let missed = |count| with(|job| job.missed = count);
    let rule = Rule::new(AlarmKind::Missed);
    let one = "report: 1 scheduled time was not run within 1 h";
    assert_eq!(text_of(&rule, &[missed(4), missed(5)]).as_deref(), Some(one));
}

#[test]
fn late_starts_count_for_a_time() {
    let rule = Rule { times: 2, within: Duration::from_secs(100), ..Rule::new(AlarmKind::Late) };
    let mut memory = Memory::default();
    let mut late = |seconds, by| {
        let start =
            LateStart { job: super::name("report"), item: 3, by: Duration::from_secs(by), at: at(seconds) };
        memory.late(&start);
        of_job(&rule, &job(4), &memory, at(seconds)).map(|condition| condition.text)
    };
    assert_eq!(late(0, 10), None, "one is not enough");
    assert_eq!(late(1, 9), None, "it was not late enough");
    assert_eq!(late(2, 70).unwrap(), "report began 2 runs late: item 3 by 1 min 10 s");
    assert_eq!(late(150, 10), None, "the others are too old");
}

#[test]
fn a_coordinator_has_alarms_by_its_own_state() {
    let well = Coordinator {
        name: "http://a:1".into(),
        clock_off: false,
        store_lost: false,
        certificate_ends: None,
    };
    let text_of = |kind, coordinator: &Coordinator| {
        of_coordinator(&Rule::new(kind), coordinator, at(0)).map(|condition| condition.text)
    };
    for kind in
        [AlarmKind::ClockOff, AlarmKind::StoreLost, AlarmKind::CertificateSoonOver, AlarmKind::NoWorker]
    {
        assert_eq!(text_of(kind, &well), None);
    }
    let ill =
        Coordinator { clock_off: true, store_lost: true, certificate_ends: Some(at(14 * 86_400)), ..well };
    assert_eq!(
        text_of(AlarmKind::ClockOff, &ill).unwrap(),
        "http://a:1: its clock is off, so it fires nothing"
    );
    assert!(text_of(AlarmKind::StoreLost, &ill).is_some());
    let ends = "http://a:1: its certificate is over at 2026-12-09T05:20:00Z";
    assert_eq!(text_of(AlarmKind::CertificateSoonOver, &ill).unwrap(), ends);
    let later = Coordinator { certificate_ends: Some(at(14 * 86_400 + 1)), ..ill.clone() };
    assert_eq!(text_of(AlarmKind::CertificateSoonOver, &later), None);
    let over = Coordinator { certificate_ends: Some(at(0)), ..ill };
    assert!(text_of(AlarmKind::CertificateSoonOver, &over).unwrap().contains("is over since"));
}

#[test]
fn spans_are_shown_by_their_two_largest_units() {
    let rows =
        [(0, "0 s"), (999, "999 ms"), (61_000, "1 min 1 s"), (86_400_000, "1 d"), (90_061_001, "1 d 1 h")];
    for (millis, wanted) in rows {
        assert_eq!(shown(Duration::from_millis(millis)), wanted);
    }
}

proptest! {
    /// However often and however irregularly it is looked: what is remembered is bounded, and a look that sees nothing new
    /// changes no verdict but by the time that has passed.
    #[test]
    fn looking_twice_changes_nothing(steps in prop::collection::vec((0u64..50, 0u64..5, 0u64..5, 0u8..6), 1..200)) {
        let (mut memory, mut now) = (Memory::default(), at(0));
        let mut facts = job(1);
        for (seconds, crashed, failed, last) in steps {
            now = now.plus(Duration::from_secs(seconds));
            facts.crashed += crashed;
            facts.missed += crashed / 2;
            facts.items[0].failed += failed;
            facts.items[0].last = Outcome::ALL.get(usize::from(last)).copied();
            if facts.items[0].last == Some(Outcome::Succeeded) {
                facts.items[0].succeeded += 1;
            }
            memory.see(&facts, now);
            let once = memory.clone();
            memory.see(&facts, now);
            prop_assert_eq!(&memory, &once);
            for kind in AlarmKind::ALL {
                let rule = Rule::new(kind);
                prop_assert_eq!(of_job(&rule, &facts, &memory, now), of_job(&rule, &facts, &once, now));
            }
            let text = serde_json::to_string(&memory).unwrap();
            prop_assert!(text.len() < 8192, "{} bytes", text.len());
            prop_assert_eq!(serde_json::from_str::<Memory>(&text).unwrap(), memory.clone());
        }
    }
}
