//! Triggers that come before their time.

use super::*;

#[test]
fn a_trigger_is_held_until_its_time() {
    let mut bench = Bench::attached();
    bench.trigger_early(0, 7, 200);
    bench.advance(199);
    assert_eq!(bench.starts().len(), 0);
    assert!(!bench.said_frame(|frame| matches!(frame, Request::RunStarted(_))));
    bench.trigger_early(0, 7, 1);
    bench.advance(200);
    assert_eq!(bench.began, [(id(0, 7), (ms(200), true))].into(), "told again, it is the same run");
    assert!(!bench.said_frame(|frame| matches!(frame, Request::RunStarted(_))));
    bench.live(1_000);
    assert!(bench.said_frame(|frame| matches!(frame, Request::RunStarted(_))), "said with a heartbeat");
    bench.done(0, 7);
    assert_eq!(bench.outcomes(), [(0, 7, RunOutcome::Succeeded)]);
}

#[test]
fn one_that_was_longer_on_its_way_is_held_so_much_less() {
    let trigger = |item, fire| Trigger {
        fire_time: Some((SystemTime::UNIX_EPOCH + ms(fire)).into()),
        starts_in: proto_ms(100),
        ..trigger(item, 1)
    };
    let mut bench = Bench::attached();
    // Both were sent 100 ms before their time.
    for (item, at) in [(0, 501), (1, 504)] {
        bench.advance(at);
        bench.frame(Response::Trigger(trigger(item, 600)));
    }
    bench.advance(700);
    let began = |bench: &Bench, item| bench.began[&id(item, 1)].0;
    assert_eq!((began(&bench, 0), began(&bench, 1)), (ms(601), ms(601)));
    // Delays of another stream do not apply to this one.
    bench.reattach("w1");
    let came = bench.mono.as_millis() as u64;
    bench.frame(Response::Trigger(trigger(2, came + 90)));
    bench.advance(came + 200);
    assert_eq!(began(&bench, 2), ms(came + 100));
}

#[test]
fn a_held_run_is_in_flight_and_takes_a_slot() {
    let mut bench = Bench::attached();
    for item in 0..3 {
        bench.trigger_early(item, 1, 2_000);
    }
    bench.trigger(3, 1);
    assert_eq!(bench.outcomes(), [(3, 1, RunOutcome::NotStarted)], "every slot is taken");
    bench.live(1_000);
    assert_eq!(bench.beats().last().unwrap().runs_in_flight.len(), 4);
    bench.live(2_000);
    assert_eq!(bench.starts().len(), 3);
}

#[test]
fn its_timeout_counts_from_its_time() {
    let mut bench = Bench::attached();
    let trigger = Trigger { starts_in: proto_ms(300), timeout: proto_ms(400), ..trigger(0, 1) };
    bench.frame(Response::Trigger(trigger));
    bench.advance(699);
    assert_eq!((bench.starts()[0].timeout, bench.cancels().len()), (Some(ms(400)), 0));
    bench.advance(700);
    assert_eq!(bench.cancels(), [id(0, 1)]);
}

#[test]
fn with_its_stream_it_is_let_go_of_and_may_come_again() {
    let mut bench = Bench::attached();
    bench.trigger_early(0, 5, 300);
    bench.after(|bench| bench.reattach("w1"));
    assert_eq!(bench.hello().runs_in_flight, []);
    bench.advance(1_000);
    assert_eq!((bench.starts().len(), bench.reports().len()), (0, 0), "nobody knows of it any more");
    bench.trigger(0, 4);
    assert_eq!(bench.starts().len(), 0, "older than what the item has seen");
    bench.trigger(0, 5);
    assert_eq!(bench.starts().len(), 1);
    bench.reattach("w1");
    bench.after(|bench| bench.trigger(0, 5));
    assert_eq!(bench.starts().len(), 0, "what has begun never begins again");
}

#[test]
fn what_is_stopped_before_its_time_never_begins() {
    let cancel = |reason: proto::CancelReason| {
        let run = Some(id(0, 1).to_proto());
        Response::Cancel(proto::Cancel { run, reason: reason.into(), message: String::new() })
    };
    let cases = [
        (proto::CancelReason::Operator, RunOutcome::Cancelled),
        (proto::CancelReason::Fenced, RunOutcome::NotStarted),
    ];
    for (reason, outcome) in cases {
        let mut bench = Bench::attached();
        bench.trigger_early(0, 1, 200);
        bench.frame(cancel(reason));
        assert_eq!(bench.outcomes(), [(0, 1, outcome)]);
        assert_eq!(bench.reports()[0].started_at, None);
        bench.advance(900);
        assert_eq!((bench.starts().len(), bench.cancels().len()), (0, 0));
    }
}

#[test]
fn a_process_that_slept_past_its_lease_does_not_begin_what_it_held() {
    let mut bench = Bench::attached();
    bench.trigger_early(0, 1, 200);
    bench.sleep(9_000);
    bench.event(MachineEvent::Tick);
    assert_eq!(bench.starts().len(), 0);
}

#[test]
fn of_a_burst_the_first_have_their_turn_before_the_last() {
    let mut bench = Bench::attached_with(Settings { slots: 100, ..settings() }, welcome("w1"));
    for item in 0..100 {
        bench.trigger_early(item, 1, 200);
    }
    bench.sleep(200);
    let mut turns = Vec::new();
    while bench.machine.deadline() <= bench.mono && turns.len() < 10 {
        bench.after(|bench| bench.event(MachineEvent::Tick));
        turns.push(bench.starts().len());
    }
    assert_eq!(turns, [32, 32, 32, 4]);
}
