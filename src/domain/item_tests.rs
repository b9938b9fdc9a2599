use super::*;

fn run(source: Source, fire: i64) -> Running {
    Running {
        fire: Time::from_seconds(fire),
        source,
        instance: InstanceId::new("a@-@1").unwrap(),
        worker: WorkerId::new("1").unwrap(),
        since: Time::from_seconds(fire),
        trigger: None,
        held: false,
        cancelled: false,
        deaths: 0,
    }
}

fn taken_over(fire: i64, deaths: u32) -> Running {
    Running { deaths, ..run(Source::Failover, fire) }
}

fn states() -> [Record; 4] {
    let idle = Record::new(Token(7), Time::from_seconds(10));
    let running = idle.apply(&ItemEvent::Start(run(Source::NormalTrigger, 20))).unwrap();
    let held =
        idle.apply(&ItemEvent::Start(Running { held: true, ..run(Source::NormalTrigger, 20) })).unwrap();
    let crashed = running.apply(&end(true)).unwrap();
    [idle, running, held, crashed]
}

fn end(requeue: bool) -> ItemEvent {
    ItemEvent::End { outcome: Outcome::Crashed, at: Time::from_seconds(30), reported: false, requeue }
}

/// Which of the states idle, running, held and crashed each event may follow.
#[test]
fn the_whole_table() {
    let (at, latest, count) = (Time::from_seconds(40), Time::from_seconds(40), 1);
    let table: [(ItemEvent, [bool; 4]); 17] = [
        (ItemEvent::Start(run(Source::NormalTrigger, 40)), [true, false, false, false]),
        (ItemEvent::Start(run(Source::NormalTrigger, 10)), [false, false, false, false]),
        (ItemEvent::Start(run(Source::Misfire, 40)), [false, false, false, false]),
        (ItemEvent::Start(run(Source::Manual, 40)), [true, false, false, false]),
        (ItemEvent::Start(run(Source::Failover, 20)), [false, false, false, false]),
        (ItemEvent::Claim(taken_over(20, 1)), [false, false, false, true]),
        (ItemEvent::Claim(taken_over(20, 0)), [false, false, false, false]),
        (ItemEvent::Claim(taken_over(21, 1)), [false, false, false, false]),
        (ItemEvent::Release, [false, false, true, false]),
        (ItemEvent::Cancel, [false, true, true, false]),
        (end(true), [false, true, true, false]),
        (end(false), [false, true, true, false]),
        (ItemEvent::GiveUp { at }, [false, false, false, true]),
        (ItemEvent::Misfire { latest, count }, [true, true, true, true]),
        (ItemEvent::Skip { latest, count }, [true, true, true, true]),
        (ItemEvent::Miss { latest, count, reason: Missed::Down }, [true, true, true, true]),
        (ItemEvent::DropMisfire { reason: Missed::Disabled }, [false, false, false, false]),
    ];
    for (event, allowed) in table {
        for (record, allowed) in states().iter().zip(allowed) {
            assert_eq!(record.apply(&event).is_ok(), allowed, "{} on {:?}", event.name(), record.state);
        }
    }
}

#[test]
fn what_has_ended_ends_no_more_and_who_tries_is_told_so() {
    let [_, running, ..] = states();
    let ended = running.apply(&end(false)).unwrap();
    assert!(ended.apply(&end(true)).is_err());
    let refused = ended.apply(&end(false)).unwrap_err().to_string();
    assert!(refused.contains("end") && refused.contains("idle"), "{refused}");
}

#[test]
fn a_scheduled_time_is_accounted_for_once() {
    for record in states() {
        let latest = record.last_fire;
        for event in [
            ItemEvent::Misfire { latest, count: 1 },
            ItemEvent::Skip { latest, count: 1 },
            ItemEvent::Miss { latest, count: 1, reason: Missed::Down },
        ] {
            assert!(record.apply(&event).is_err(), "{} repeats {latest}", event.name());
        }
    }
}

#[test]
fn every_start_raises_the_token_by_one_and_every_run_ends_once() {
    let [idle, running, _, crashed] = states();
    assert_eq!(running.token, idle.token.next());
    assert_eq!(crashed.token, running.token);
    let again = crashed.apply(&ItemEvent::Claim(taken_over(20, 1))).unwrap();
    assert_eq!(again.token, running.token.next());
    assert_eq!(again.counters.fired, again.counters.ended() + 1);
}

#[test]
fn only_what_is_marked_runs_as_a_misfire_and_only_once() {
    let marked = Record { misfire: Some(Time::from_seconds(9)), ..states()[0].clone() };
    assert!(marked.apply(&ItemEvent::Start(run(Source::Misfire, 8))).is_err());
    let started = marked.apply(&ItemEvent::Start(run(Source::Misfire, 9))).unwrap();
    assert_eq!(started.misfire, None);
}

#[test]
fn a_run_is_released_once_and_is_then_like_any_other() {
    let [_, running, held, _] = states();
    let released = held.apply(&ItemEvent::Release).unwrap();
    assert_eq!(released, running);
    assert!(released.apply(&ItemEvent::Release).is_err());
}

#[test]
fn a_cancelled_run_ends_once_and_is_not_run_again() {
    let [_, running, ..] = states();
    let cancelled = running.apply(&ItemEvent::Cancel).unwrap();
    assert!(cancelled.apply(&ItemEvent::Cancel).is_err());
    assert!(cancelled.apply(&end(true)).is_err());
    assert_eq!(cancelled.apply(&end(false)).unwrap(), running.apply(&end(false)).unwrap());
    let text = serde_json::to_string(&cancelled).unwrap();
    assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), cancelled);
}

#[test]
fn a_last_fire_is_only_ever_set_back() {
    for record in states() {
        let Time(at) = record.last_fire;
        for last_fire in [Time(at), Time(at + 1)] {
            assert!(
                record.apply(&ItemEvent::Cap { last_fire, schedule: schedule() }).is_err(),
                "{last_fire} of {at}"
            );
        }
        let last_fire = Time(at - 1);
        let capped = record.apply(&ItemEvent::Cap { last_fire, schedule: schedule() }).unwrap();
        assert_eq!(capped, Record { last_fire, ahead: capped.ahead.clone(), ..record });
    }
}

#[test]
fn only_a_scheduled_time_moves_the_last_fire() {
    let idle = &states()[0];
    let marked = Record { misfire: Some(Time::from_seconds(9)), ..idle.clone() };
    for run in [run(Source::Misfire, 9), run(Source::Manual, 99)] {
        assert_eq!(marked.apply(&ItemEvent::Start(run)).unwrap().last_fire, idle.last_fire);
    }
    let fired = idle.apply(&ItemEvent::Start(run(Source::NormalTrigger, 99))).unwrap();
    assert_eq!(fired.last_fire, Time::from_seconds(99));
}

#[test]
fn a_record_reads_back_and_an_idle_one_is_short() {
    for record in states() {
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }
    let text = serde_json::to_string(&states()[0]).unwrap();
    assert_eq!(text, r#"{"token":7,"last_fire":"1970-01-01T00:00:10Z"}"#);
}

fn schedule() -> (String, String) {
    ("0 0 * * * ?".to_owned(), "UTC".to_owned())
}

/// What a clock that leapt ahead has accounted for is remembered when the last fire is set back.
#[test]
fn a_last_fire_that_is_set_back_is_kept_in_mind() {
    let hour = |n: i64| Time(n * 3_600_000);
    let record = Record::new(Token(1), hour(1));
    let leapt =
        record.apply(&ItemEvent::Miss { latest: hour(27), count: 26, reason: Missed::TooLate }).unwrap();
    let there = leapt.apply(&ItemEvent::Skip { latest: hour(29), count: 2 }).unwrap();
    let back = there.apply(&ItemEvent::Cap { last_fire: hour(4), schedule: schedule() }).unwrap();
    let ahead = Ahead { since: hour(27), until: hour(29), schedule: schedule() };
    assert_eq!((back.last_fire, back.leapt, back.ahead.clone()), (hour(4), None, Some(ahead.clone())));
    assert_eq!([hour(27), hour(28), hour(29), hour(30)].map(|at| ahead.has(at)), [false, true, true, false]);
    let later = back.apply(&ItemEvent::Skip { latest: hour(27), count: 23 }).unwrap();
    assert_eq!(later.ahead, Some(ahead), "they are in the future");
    let beyond = later.apply(&ItemEvent::Skip { latest: hour(30), count: 1 }).unwrap();
    assert_eq!(beyond.ahead, None);
    // A single scheduled time in its turn, after which the clock leapt, and nothing was skipped: only that one.
    let one = record.apply(&ItemEvent::Misfire { latest: hour(27), count: 1 }).unwrap();
    let back = one.apply(&ItemEvent::Cap { last_fire: hour(2), schedule: schedule() }).unwrap();
    assert_eq!(back.ahead.map(|ahead| (ahead.has(hour(26)), ahead.has(hour(27)))), Some((false, true)));
    // All of them were skipped, so all are yet to be run.
    let none =
        record.apply(&ItemEvent::Miss { latest: hour(27), count: 26, reason: Missed::TooLate }).unwrap();
    let back = none.apply(&ItemEvent::Cap { last_fire: hour(2), schedule: schedule() }).unwrap();
    assert_eq!(back.ahead, None);
}
