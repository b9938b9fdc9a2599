//! Leaving: two phases, bounds, and streams that end in the middle.

use super::*;

fn draining() -> Response {
    Response::Draining(proto::Draining {})
}

fn goodbye_ack() -> Response {
    Response::GoodbyeAck(proto::GoodbyeAck {})
}

fn says_goodbye(bench: &Bench) -> bool {
    bench.said_frame(|frame| matches!(frame, Request::Goodbye(_)))
}

fn asks_to_drain(bench: &Bench) -> bool {
    bench.said_frame(|frame| matches!(frame, Request::DrainRequest(_)))
}

#[test]
fn goodbye_waits_for_the_confirmation_the_runs_and_their_acknowledgements() {
    let mut bench = Bench::attached();
    bench.trigger(0, 1);
    bench.after(|bench| bench.event(MachineEvent::Leave));
    assert!(asks_to_drain(&bench));
    bench.trigger(1, 1);
    assert_eq!(bench.starts().len(), 1, "a trigger that crossed the request is run");
    bench.frame(draining());
    bench.after(|bench| bench.live(5_000));
    assert_eq!(bench.beats().len(), 5, "heartbeats go on");
    bench.done(0, 1);
    bench.acknowledge(0, 1, proto::ReportResult::Accepted);
    bench.done(1, 1);
    assert!(!says_goodbye(&bench));
    bench.acknowledge(1, 1, proto::ReportResult::Accepted);
    assert!(says_goodbye(&bench));
    assert_eq!(bench.exit(), None);
    bench.frame(goodbye_ack());
    assert_eq!(bench.exit(), Some(&Exit::Left));
}

#[test]
fn a_second_drain_can_only_shorten_the_first() {
    let drain = |millis| Response::Drain(proto::Drain { grace: proto_ms(millis), ..Default::default() });
    let mut bench = Bench::attached();
    bench.trigger(0, 1);
    bench.frame(drain(20_000));
    bench.frame(drain(2_000));
    bench.frame(drain(10_000));
    bench.live(1_999);
    assert_eq!(bench.cancels(), []);
    bench.live(2_000);
    assert_eq!(bench.cancels(), [id(0, 1)]);
}

#[test]
fn an_idle_worker_does_not_say_goodbye_before_the_confirmation() {
    let mut bench = Bench::attached();
    bench.event(MachineEvent::Leave);
    bench.event(MachineEvent::Leave);
    assert!(!says_goodbye(&bench));
    bench.frame(goodbye_ack());
    assert_eq!(bench.exit(), None, "an answer to nothing");
    bench.frame(draining());
    assert!(says_goodbye(&bench));
}

/// A run that was held until now; the goodbye hands it back.
#[test]
fn a_trigger_that_crosses_the_goodbye_starts_nothing() {
    let mut bench = Bench::attached();
    bench.event(MachineEvent::Leave);
    bench.frame(draining());
    assert!(says_goodbye(&bench));
    bench.trigger(0, 1);
    assert_eq!((bench.starts().len(), bench.outcomes()), (0, vec![(0, 1, RunOutcome::NotStarted)]));
    bench.frame(goodbye_ack());
    assert_eq!(bench.exit(), Some(&Exit::Left));
}

#[test]
fn runs_past_the_drain_timeout_are_handed_back() {
    let mut bench = Bench::attached();
    bench.trigger(0, 1);
    bench.event(MachineEvent::Leave);
    bench.frame(draining());
    bench.after(|bench| bench.live(29_999));
    assert_eq!(bench.cancels(), []);
    bench.live(30_000);
    assert_eq!(bench.cancels(), [id(0, 1)]);
    bench.ended(id(0, 1), 1, UserResult::Dropped);
    assert_eq!(bench.outcomes(), [(0, 1, RunOutcome::HandedBack)]);
    bench.acknowledge(0, 1, proto::ReportResult::Accepted);
    assert!(says_goodbye(&bench));
}

#[test]
fn a_drain_by_the_coordinator_brings_its_own_grace() {
    let mut bench = Bench::attached();
    bench.trigger(0, 1);
    bench.frame(Response::Drain(proto::Drain { grace: proto_ms(2_000), ..Default::default() }));
    bench.live(2_000);
    assert_eq!(bench.cancels(), [id(0, 1)]);
}

#[test]
pub(super) fn a_stream_that_ends_while_draining_is_opened_again_and_asked_again() {
    let mut bench = Bench::attached();
    bench.trigger(0, 1);
    bench.event(MachineEvent::Leave);
    bench.frame(draining());
    bench.after(|bench| bench.reattach("w1"));
    assert!(asks_to_drain(&bench));
    assert!(!bench.said_frame(|frame| matches!(frame, Request::Register(_))), "no new work");
    bench.done(0, 1);
    bench.acknowledge(0, 1, proto::ReportResult::Accepted);
    assert!(!says_goodbye(&bench), "the confirmation of the old stream does not count");
    bench.frame(draining());
    assert!(says_goodbye(&bench));
}

#[test]
fn a_goodbye_without_an_answer_is_repeated_to_the_next_coordinator_and_given_up_in_the_end() {
    let mut bench = Bench::attached();
    bench.live(5_000);
    bench.event(MachineEvent::Leave);
    bench.frame(draining());
    bench.after(|bench| bench.advance(8_000));
    assert!(matches!(bench.said.last(), Some(Effect::Connect { address, .. }) if address == "b"));
    bench.connect();
    bench.frame(Response::Welcome(welcome("w1")));
    bench.frame(draining());
    assert!(says_goodbye(&bench));
    bench.close();
    bench.advance(15_000);
    assert_eq!(bench.exit(), Some(&Exit::LeaveTimedOut { in_flight: 0 }));
}

#[test]
fn a_handler_that_never_ends_cannot_hold_the_process() {
    let mut bench = Bench::attached();
    bench.trigger(0, 1);
    bench.event(MachineEvent::Leave);
    bench.frame(draining());
    bench.live(60_000);
    assert_eq!(bench.exit(), Some(&Exit::LeaveTimedOut { in_flight: 1 }));
}

#[test]
fn a_goodbye_that_was_applied_but_not_answered_ends_under_the_new_name() {
    let mut bench = Bench::attached();
    bench.event(MachineEvent::Leave);
    bench.frame(draining());
    bench.after(|bench| bench.reattach("w2"));
    bench.frame(draining());
    assert!(says_goodbye(&bench));
    bench.frame(goodbye_ack());
    assert_eq!(bench.exit(), Some(&Exit::Left));
}

#[test]
fn a_worker_that_was_never_welcomed_is_known_nowhere() {
    let mut bench = Bench::new(settings());
    bench.event(MachineEvent::Leave);
    assert_eq!(bench.exit(), Some(&Exit::Left));

    let mut bench = Bench::new(settings());
    bench.connect();
    bench.event(MachineEvent::Leave);
    assert_eq!(bench.exit(), None, "the Hello may have been heard");
    bench.frame(Response::Welcome(welcome("w1")));
    assert!(asks_to_drain(&bench));
}

#[test]
fn kill_exits_at_once_and_nothing_follows() {
    let mut bench = Bench::attached();
    bench.trigger(0, 1);
    bench.event(MachineEvent::Kill);
    assert_eq!(bench.exit(), Some(&Exit::Killed));
    bench.after(|bench| bench.trigger(1, 1));
    assert_eq!(bench.said, []);
}

#[test]
fn a_callback_that_does_not_end_is_stopped_at_the_drain_timeout() {
    let mut bench = Bench::attached();
    bench.frame(Response::Callback(proto::Callback { callback_id: "c".into(), ..Default::default() }));
    bench.event(MachineEvent::Leave);
    bench.frame(draining());
    bench.live(29_999);
    assert!(!says_goodbye(&bench));
    bench.live(30_000);
    assert!(bench.said.contains(&Effect::StopCallback { callback_id: "c".into() }));
    assert!(says_goodbye(&bench));
}

#[test]
fn another_coordinator_is_asked_where_none_says_draining() {
    let mut bench = Bench::attached();
    bench.trigger(0, 1);
    bench.event(MachineEvent::Leave);
    bench.live(5_000);
    assert!(!bench.said.iter().any(|effect| matches!(effect, Effect::Close { .. })), "a run is in flight");
    bench.done(0, 1);
    bench.acknowledge(0, 1, proto::ReportResult::Accepted);
    bench.after(|bench| bench.live(7_999));
    assert!(!bench.said.iter().any(|effect| matches!(effect, Effect::Close { .. })));
    bench.live(8_000);
    assert!(
        bench.said.iter().any(|effect| matches!(effect, Effect::Connect { .. })),
        "three seconds at rest"
    );
}

#[test]
fn a_worker_that_leaves_tries_again_within_a_second() {
    let mut bench = Bench::attached();
    bench.trigger(0, 1);
    bench.event(MachineEvent::Leave);
    for _ in 0..12 {
        bench.close();
        let pause = bench.machine.deadline().saturating_sub(bench.mono);
        assert!(pause <= ms(1_000), "{pause:?}");
        let next = u64::try_from((bench.mono + pause).as_millis()).unwrap() + 1;
        bench.advance(next);
    }
}
