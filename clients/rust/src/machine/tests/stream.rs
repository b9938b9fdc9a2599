//! Streams: numbers, resume, backoff, the signs of death, and frames that are ignored.

use super::*;

#[test]
pub(super) fn hello_numbers_the_stream_and_resumes_with_what_is_in_flight() {
    let mut bench = Bench::new(settings());
    bench.connect();
    let first = bench.hello();
    assert_eq!((first.stream_number, first.worker_id.as_str(), first.slots), (1, "", 3));
    bench.frame(Response::Welcome(welcome("w1")));
    bench.trigger(2, 7);
    bench.trigger(0, 5);
    bench.done(0, 5);
    bench.after(|bench| bench.reattach("w1"));
    let second = bench.hello();
    assert_eq!(
        (second.stream_number, second.worker_id.as_str(), second.resume_key.as_str()),
        (2, "w1", "key")
    );
    assert_eq!(second.runs_in_flight, [id(0, 5).to_proto(), id(2, 7).to_proto()]);
    assert_eq!(bench.outcomes(), [(0, 5, RunOutcome::Succeeded)], "sent again");
    assert_eq!(bench.cancels(), [], "the run goes on");
}

#[test]
pub(super) fn the_old_stream_is_closed_before_the_new_one_and_its_frames_are_ignored() {
    let mut bench = Bench::attached();
    bench.after(|bench| bench.advance(3_400));
    let closes = bench.said.iter().position(|effect| *effect == Effect::Close { connection: 1 });
    let connects =
        bench.said.iter().position(|effect| matches!(effect, Effect::Connect { connection: 2, .. }));
    assert!(closes.unwrap() < connects.unwrap());
    let old = |frame| MachineEvent::Frame { connection: 1, frame };
    bench.after(|bench| {
        bench.event(old(Response::Trigger(trigger(0, 1))));
        bench.connect();
        bench.event(old(Response::Welcome(welcome("w9"))));
        bench.event(MachineEvent::Closed { connection: 1, error: LinkError::lost("late") });
        bench.frame(Response::Welcome(welcome("w1")));
        bench.event(old(Response::Trigger(trigger(0, 2))));
    });
    assert_eq!(bench.starts(), []);
    assert!(bench.machine.link.is_open());
}

#[test]
fn a_silent_stream_is_left_at_two_thirds_of_the_lease() {
    let mut bench = Bench::attached();
    bench.after(|bench| bench.advance(3_333));
    assert!(bench.machine.link.is_open());
    bench.advance(3_334);
    assert!(!bench.machine.link.is_open());
    assert_eq!(bench.connection, 2, "the next one at once");
    assert!(matches!(bench.said.last(), Some(Effect::Connect { address, .. }) if address == "b"));
}

#[test]
pub(super) fn a_stream_that_talks_but_does_not_renew_is_left_at_the_lease_end() {
    let mut bench = Bench::attached();
    bench.trigger(0, 1);
    for at in (500..=4_000).step_by(500) {
        bench.advance(at);
        bench.frame(Response::Assignment(proto::Assignment::default()));
    }
    bench.advance(4_474);
    assert_eq!((bench.cancels(), bench.machine.link.is_open()), (vec![], true));
    bench.advance(4_475);
    assert_eq!((bench.cancels(), bench.machine.link.is_open()), (vec![id(0, 1)], false));
}

#[test]
fn heartbeats_go_at_their_interval_name_the_runs_and_renew_the_lease() {
    let mut bench = Bench::attached();
    bench.trigger(1, 3);
    bench.after(|bench| bench.live(20_000));
    assert_eq!(bench.beats().len(), 20);
    assert!(bench.beats().iter().all(|beat| beat.runs_in_flight == [id(1, 3).to_proto()]));
    assert_eq!(bench.cancels(), []);
    assert_eq!(bench.machine.lease.stops_at(), Some(ms(20_000 + 4_475)));
}

#[test]
pub(super) fn the_lease_counts_from_when_the_acknowledged_heartbeat_was_sent() {
    let mut bench = Bench::attached();
    bench.advance(1_000);
    bench.advance(1_900);
    bench.acknowledge_beat();
    assert_eq!(bench.machine.lease.stops_at(), Some(ms(1_000 + 4_475)));
}

#[test]
fn a_connection_that_does_not_come_is_given_up_after_three_seconds_and_a_hello_after_six() {
    let mut bench = Bench::new(settings());
    bench.after(|bench| bench.advance(3_000));
    assert_eq!((bench.said[0] == Effect::Close { connection: 1 }, bench.connection), (true, 2));
    bench.connect();
    bench.after(|bench| bench.advance(8_999));
    assert_eq!(bench.said, []);
    bench.advance(9_000);
    assert_eq!(bench.said[0], Effect::Close { connection: 2 });
}

#[test]
fn reconnects_back_off_until_a_heartbeat_is_acknowledged() {
    let mut bench = Bench::attached();
    let mut attempts = Vec::new();
    for _ in 0..6 {
        bench.close();
        let before = bench.mono;
        bench.advance(u64::try_from(bench.machine.deadline().as_millis()).unwrap() + 1);
        attempts.push(bench.mono - before);
        bench.connect();
        bench.frame(Response::Welcome(welcome("w1")));
    }
    assert!(attempts[0] <= ms(1), "{attempts:?}");
    assert!(
        attempts[1..].windows(2).all(|pair| pair[0] < pair[1]),
        "a welcome alone heals nothing: {attempts:?}"
    );
    bench.advance(u64::try_from(bench.mono.as_millis()).unwrap() + 1_000);
    bench.acknowledge_beat();
    bench.close();
    assert!(bench.machine.deadline() <= bench.mono, "the first attempt is immediate again");
}

#[test]
pub(super) fn another_identity_fences_everything_in_flight() {
    let mut bench = Bench::attached();
    bench.trigger(0, 4);
    bench.trigger(1, 5);
    bench.done(1, 5);
    bench.after(|bench| bench.reattach("w2"));
    assert_eq!(bench.cancels(), [id(0, 4)]);
    assert_eq!(bench.outcomes(), [], "its reports would be refused");
    bench.after(|bench| bench.advance(500));
    assert_eq!(bench.aborts(), [id(0, 4)], "within the stop budget");
    bench.after(|bench| bench.trigger(0, 6));
    assert_eq!(bench.outcomes(), [(0, 6, RunOutcome::NotStarted)], "the item is still occupied");
    bench.after(|bench| bench.ended(id(0, 4), 1, UserResult::Dropped));
    assert_eq!(bench.outcomes(), [], "the fenced run ends without a word");
    bench.after(|bench| bench.trigger(0, 7));
    assert_eq!(bench.starts().len(), 1);
    bench.after(|bench| bench.trigger(1, 5));
    assert_eq!(bench.starts(), [], "tokens seen by the old identity count");
}

#[test]
fn a_rejection_by_every_coordinator_before_any_welcome_ends_the_worker() {
    let rejected = || LinkError::answered(&tonic::Status::unauthenticated("who are you?"));
    let mut bench = Bench::new(settings());
    for _ in 0..2 {
        assert_eq!(bench.exit(), None);
        bench.event(MachineEvent::Closed { connection: bench.connection, error: rejected() });
        bench.advance(20_000.min(u64::try_from(bench.mono.as_millis()).unwrap() + 10));
    }
    assert_eq!(bench.exit(), Some(&Exit::Rejected(rejected())));

    let mut bench = Bench::attached();
    for _ in 0..5 {
        bench.event(MachineEvent::Closed { connection: bench.connection, error: rejected() });
        bench.advance(u64::try_from(bench.mono.as_millis()).unwrap() + 10_000);
    }
    assert_eq!(bench.exit(), None, "a worker that was welcome once goes on");
}
