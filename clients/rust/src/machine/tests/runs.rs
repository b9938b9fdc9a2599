//! Runs from start to acknowledged report: stops, timeouts, attempts, credits, callbacks.

use bytes::Bytes;

use super::*;
use crate::machine::runs::pause_after;

fn cancel(item: u32, token: u64, reason: proto::CancelReason) -> Response {
    let run = Some(id(item, token).to_proto());
    Response::Cancel(proto::Cancel { run, reason: reason.into(), message: "why".into() })
}

fn failed(retry: bool) -> UserResult {
    UserResult::Failed { error: "boom".into(), retry }
}

#[test]
fn the_result_of_user_code_is_the_outcome() {
    let cases = [
        (UserResult::Done, RunOutcome::Succeeded),
        (failed(true), RunOutcome::Failed),
        (failed(false), RunOutcome::Failed),
        (UserResult::Cancelled, RunOutcome::Cancelled),
        (UserResult::Dropped, RunOutcome::Aborted),
        (UserResult::NotBegun, RunOutcome::NotStarted),
        (UserResult::Overdue, RunOutcome::Aborted),
    ];
    for (result, outcome) in cases {
        let mut bench = Bench::attached();
        bench.trigger(0, 1);
        bench.ended(id(0, 1), 1, result);
        assert_eq!(bench.outcomes(), [(0, 1, outcome)]);
    }
}

#[test]
fn a_stopped_run_reports_why_it_was_stopped_whatever_it_returned() {
    use proto::CancelReason as Reason;
    let cases = [
        (Reason::Operator, RunOutcome::Cancelled, 5_000),
        (Reason::TimedOut, RunOutcome::TimedOut, 5_000),
        (Reason::Fenced, RunOutcome::Aborted, 500),
    ];
    for (reason, outcome, grace) in cases {
        let mut bench = Bench::attached();
        bench.trigger(0, 1);
        bench.after(|bench| bench.frame(cancel(0, 1, reason)));
        assert_eq!((bench.cancels(), bench.outcomes()), (vec![id(0, 1)], vec![]), "{reason:?}");
        bench.live(grace - 1);
        assert_eq!(bench.aborts(), [], "{reason:?}");
        bench.live(grace);
        assert_eq!(bench.aborts(), [id(0, 1)], "{reason:?}");
        bench.live(grace + 9_000);
        assert_eq!(bench.aborts().len(), 1, "{reason:?}");
        bench.done(0, 1);
        assert_eq!(bench.outcomes(), [(0, 1, outcome)], "{reason:?}");
    }
}

#[test]
fn a_fence_outweighs_the_reason_before_it() {
    use proto::CancelReason as Reason;
    for reason in [Reason::Operator, Reason::TimedOut] {
        let mut bench = Bench::attached();
        bench.trigger(0, 1);
        bench.frame(cancel(0, 1, reason));
        bench.frame(cancel(0, 1, Reason::Fenced));
        bench.frame(cancel(0, 1, Reason::Operator));
        assert_eq!(bench.cancels(), [id(0, 1)], "user code is told once");
        bench.done(0, 1);
        assert_eq!(bench.outcomes(), [(0, 1, RunOutcome::Aborted)], "{reason:?}");
    }
}

#[test]
fn a_run_stopped_by_its_lease_is_reported_aborted_until_acknowledged() {
    let mut bench = Bench::attached();
    bench.trigger(0, 1);
    bench.close();
    bench.after(|bench| bench.advance(4_474));
    assert_eq!(bench.cancels(), []);
    bench.advance(4_475);
    assert_eq!(bench.cancels(), [id(0, 1)]);
    bench.advance(4_975);
    assert_eq!(bench.aborts(), [id(0, 1)], "gone when the lease is");
    bench.ended(id(0, 1), 1, UserResult::Dropped);
    bench.event(MachineEvent::Connected { connection: bench.connection });
    assert_eq!(bench.hello().runs_in_flight, [id(0, 1).to_proto()]);
    bench.frame(Response::Welcome(welcome("w1")));
    assert_eq!(bench.outcomes(), [(0, 1, RunOutcome::Aborted)]);
    bench.after(|bench| bench.reattach("w1"));
    assert_eq!(bench.outcomes(), [(0, 1, RunOutcome::Aborted)]);
    bench.acknowledge(0, 1, proto::ReportResult::Fenced);
    bench.after(|bench| bench.reattach("w1"));
    assert_eq!((bench.outcomes(), bench.hello().runs_in_flight.len()), (vec![], 0));
}

#[test]
fn the_lease_end_shortens_the_grace_of_a_run_that_was_stopped_before() {
    let mut bench = Bench::attached();
    bench.trigger(0, 1);
    bench.close();
    bench.advance(4_000);
    bench.event(MachineEvent::Leave);
    bench.frame(cancel(0, 1, proto::CancelReason::Operator));
    bench.after(|bench| bench.advance(4_975));
    assert_eq!(bench.aborts(), [id(0, 1)]);
}

#[test]
fn a_timeout_counts_over_all_attempts() {
    let mut bench = Bench::attached();
    let with = Trigger {
        timeout: proto_ms(2_500),
        max_attempts: 9,
        retry_backoff: proto_ms(1_000),
        ..trigger(0, 1)
    };
    bench.frame(Response::Trigger(with));
    bench.live(500);
    bench.ended(id(0, 1), 1, failed(true));
    bench.live(1_600);
    let starts = bench.starts();
    assert_eq!((starts[1].attempt, starts[1].timeout), (2, Some(ms(1_000))));
    bench.after(|bench| bench.live(2_499));
    assert_eq!(bench.cancels(), []);
    bench.live(2_500);
    assert_eq!(bench.cancels(), [id(0, 1)]);
    bench.ended(id(0, 1), 2, UserResult::Cancelled);
    assert_eq!(bench.outcomes(), [(0, 1, RunOutcome::TimedOut)]);
}

#[test]
fn pauses_grow_as_the_trigger_says_and_no_longer() {
    for (multiplier, longest, second) in
        [(0, None, 100), (3, None, 300), (3, Some(250), 250), (1, Some(50), 50)]
    {
        let mut bench = Bench::attached();
        let told = Trigger {
            max_attempts: 3,
            retry_backoff: proto_ms(100),
            retry_backoff_multiplier: multiplier,
            retry_backoff_max: longest.and_then(proto_ms),
            ..trigger(0, 1)
        };
        bench.frame(Response::Trigger(told));
        let first = second.min(100);
        for (attempt, pause) in [(1, first), (2, second)] {
            let failed_at = u64::try_from(bench.mono.as_millis()).unwrap();
            bench.ended(id(0, 1), attempt, failed(true));
            bench.after(|bench| bench.live(failed_at + pause - 1));
            assert_eq!(bench.starts().len(), 0, "{multiplier}, {longest:?}: after {attempt}");
            bench.after(|bench| bench.live(failed_at + pause));
            assert_eq!(bench.starts()[0].attempt, attempt + 1, "{multiplier}, {longest:?}");
        }
    }
}

/// And they end with the attempts.
#[test]
fn pauses_grow_up_to_their_limit_however_many_there_are() {
    let told = Trigger {
        max_attempts: 9,
        retry_backoff: proto_ms(1_000),
        retry_backoff_multiplier: 2,
        retry_backoff_max: proto_ms(60_000),
        ..trigger(0, 1)
    };
    let pauses: Vec<_> = (1..9).map(|attempt| pause_after(&told, attempt).as_secs()).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(pause_after(&told, u32::MAX - 1), ms(60_000));
    let mut bench = Bench::attached();
    bench.frame(Response::Trigger(told));
    for attempt in 1..=9 {
        bench.ended(id(0, 1), attempt, failed(true));
        let now = u64::try_from(bench.mono.as_millis()).unwrap();
        bench.live(now + 60_000);
    }
    assert_eq!((bench.starts().len(), bench.outcomes()), (9, vec![(0, 1, RunOutcome::Failed)]));
}

#[test]
fn attempts_keep_token_slot_and_offset() {
    let mut bench = Bench::attached();
    let retried = Trigger { max_attempts: 3, retry_backoff: proto_ms(700), ..trigger(0, 1) };
    bench.frame(Response::Trigger(Trigger { offset: Bytes::from_static(b"old"), ..retried }));
    assert_eq!(bench.starts()[0].offset, "old");
    bench.event(MachineEvent::Ended(Ended {
        id: id(0, 1),
        attempt: 1,
        result: failed(true),
        processed: 0,
        failed: 0,
        offset: Some(Bytes::from_static(b"new")),
        output: String::new(),
    }));
    bench.after(|bench| bench.trigger(0, 1));
    assert_eq!(bench.outcomes(), [], "the run is in flight between attempts");
    bench.after(|bench| bench.live(1_000));
    assert_eq!(bench.beats()[0].runs_in_flight.len(), 1);
    assert_eq!((bench.starts()[0].attempt, bench.starts()[0].offset.as_ref()), (2, b"new".as_slice()));
    bench.ended(id(0, 1), 1, UserResult::Done);
    assert_eq!(bench.outcomes(), [], "an end of an attempt that is over");
    bench.ended(id(0, 1), 2, failed(true));
    bench.live(2_000);
    bench.ended(id(0, 1), 3, failed(true));
    let report = bench.reports().pop().unwrap();
    assert_eq!((report.outcome(), report.attempt, report.error.as_str()), (RunOutcome::Failed, 3, "boom"));
    assert_eq!(report.offset.as_deref(), Some(b"new".as_slice()));
}

#[test]
fn a_fatal_failure_or_a_stop_ends_the_attempts() {
    let retried = Trigger { max_attempts: 3, retry_backoff: proto_ms(700), ..trigger(0, 1) };
    let mut bench = Bench::attached();
    bench.frame(Response::Trigger(retried.clone()));
    bench.ended(id(0, 1), 1, failed(false));
    assert_eq!(bench.outcomes(), [(0, 1, RunOutcome::Failed)]);

    let mut bench = Bench::attached();
    bench.frame(Response::Trigger(retried));
    bench.ended(id(0, 1), 1, failed(true));
    bench.after(|bench| bench.frame(cancel(0, 1, proto::CancelReason::Operator)));
    assert_eq!((bench.cancels(), bench.outcomes()), (vec![], vec![(0, 1, RunOutcome::Cancelled)]));
}

#[test]
fn reports_wait_for_credit_and_keep_their_order() {
    let mut bench = Bench::attached();
    for item in [2, 0, 1] {
        bench.trigger(item, 1);
    }
    for item in [2, 0, 1] {
        bench.done(item, 1);
    }
    let first = [(2, 1, RunOutcome::Succeeded), (0, 1, RunOutcome::Succeeded)];
    assert_eq!(bench.outcomes(), first);
    bench.after(|bench| bench.reattach("w1"));
    assert_eq!(bench.outcomes(), first, "again, and still two");
    assert_eq!(bench.hello().runs_in_flight.len(), 3);
    bench.after(|bench| bench.acknowledge(0, 1, proto::ReportResult::Accepted));
    assert_eq!(bench.outcomes(), [(1, 1, RunOutcome::Succeeded)]);
    bench.after(|bench| bench.acknowledge(0, 1, proto::ReportResult::Accepted));
    assert_eq!(bench.outcomes(), [], "an acknowledgement gives its credit once");
}

#[test]
fn any_answer_to_a_report_ends_it() {
    use proto::ReportResult as Answer;
    for answer in [Answer::Accepted, Answer::Fenced, Answer::Unspecified] {
        let mut bench = Bench::attached();
        bench.trigger(0, 1);
        bench.done(0, 1);
        bench.acknowledge(0, 1, answer);
        bench.after(|bench| bench.reattach("w1"));
        assert_eq!(bench.outcomes(), []);
    }
}

/// Nothing of a refused report was written: without another one the run would stay in flight forever.
#[test]
fn a_run_whose_report_is_refused_is_reported_as_failed_once() {
    let mut bench = Bench::attached();
    bench.trigger(0, 1);
    bench.done(0, 1);
    let refuse = |bench: &mut Bench| {
        bench.frame(Response::ReportAck(proto::ReportAck {
            run: Some(id(0, 1).to_proto()),
            result: proto::ReportResult::Invalid.into(),
            code: "REPORT_INVALID".into(),
            message: "run_completed.offset: its 70000 bytes are more than 65536".into(),
        }));
    };
    bench.after(refuse);
    assert_eq!(bench.outcomes(), [(0, 1, RunOutcome::Failed)]);
    let report = bench.reports().remove(0);
    let wanted = "the report SUCCEEDED was refused: REPORT_INVALID: run_completed.offset: its 70000 bytes are more than 65536";
    assert_eq!((report.error.as_str(), report.offset, report.output.as_str()), (wanted, None, ""));
    bench.after(|bench| bench.reattach("w1"));
    assert_eq!(bench.hello().runs_in_flight, [id(0, 1).to_proto()], "in flight until that one is answered");
    assert_eq!(bench.outcomes(), [(0, 1, RunOutcome::Failed)]);
    bench.after(refuse);
    bench.after(|bench| bench.reattach("w1"));
    assert_eq!(bench.outcomes(), [], "only once");
}

#[test]
fn a_finished_run_waits_for_its_answer_and_ignores_a_cancel() {
    let mut bench = Bench::attached();
    bench.trigger(0, 1);
    bench.done(0, 1);
    bench.after(|bench| bench.frame(cancel(0, 1, proto::CancelReason::Fenced)));
    assert_eq!(bench.said, []);
    bench.after(|bench| bench.reattach("w1"));
    assert_eq!(bench.outcomes(), [(0, 1, RunOutcome::Succeeded)]);
}

#[test]
fn progress_is_cut_thinned_and_the_latest_wins() {
    let mut bench = Bench::attached();
    bench.trigger(0, 1);
    bench.said.clear();
    for percent in [1, 2, 300] {
        bench.event(MachineEvent::Progress { run: id(0, 1), percent, message: "é".repeat(1_000) });
    }
    bench.advance(1_000);
    let progress = bench.frames().filter_map(|frame| match frame {
        Request::RunProgress(progress) => Some((progress.percent, progress.message.len())),
        _ => None,
    });
    assert_eq!(progress.collect::<Vec<_>>(), [(1, 1_024), (100, 1_024)]);
}

#[test]
fn an_offset_goes_out_along_the_way_and_again_on_a_new_stream() {
    let mut bench = Bench::attached();
    bench.trigger(0, 1);
    bench.said.clear();
    let said = |bench: &Bench| {
        let offsets = bench.frames().filter_map(|frame| match frame {
            Request::RunProgress(progress) => Some(progress.offset.clone().unwrap_or_default()),
            _ => None,
        });
        offsets.collect::<Vec<_>>()
    };
    let come = |bench: &mut Bench, so_far: &'static str| {
        bench.event(MachineEvent::Offset { run: id(0, 1), offset: Bytes::from_static(so_far.as_bytes()) });
    };
    come(&mut bench, "one");
    assert_eq!(said(&bench), Vec::<Bytes>::new(), "a run that is over soon says so with its end");
    bench.advance(300);
    come(&mut bench, "two");
    come(&mut bench, "three");
    assert_eq!(said(&bench), ["two"]);
    bench.after(|bench| bench.reattach("w1"));
    bench.advance(3_000);
    assert_eq!(
        said(&bench).last().map(|last| &last[..]),
        Some(b"three".as_slice()),
        "another host may not know"
    );
}

#[test]
fn callbacks_are_answered_once_and_in_time() {
    let mut bench = Bench::attached();
    let callback = |id: &str| {
        let timeout = proto_ms(2_000);
        Response::Callback(proto::Callback { callback_id: id.into(), timeout, ..Default::default() })
    };
    bench.frame(callback("c1"));
    bench.frame(callback("c1"));
    bench.frame(callback("c2"));
    let started = |effect: &&Effect| matches!(effect, Effect::StartCallback(_));
    assert_eq!(bench.said.iter().filter(started).count(), 2);
    bench.event(MachineEvent::CallbackEnded { callback_id: "c1".into(), error: String::new() });
    bench.live(1_000);
    bench.close();
    bench.advance(2_000);
    assert!(bench.said.contains(&Effect::StopCallback { callback_id: "c2".into() }));
    bench.after(|bench| {
        bench.connect();
        bench.frame(Response::Welcome(welcome("w1")));
    });
    let answered = |frame: &Request| matches!(frame, Request::CallbackDone(done) if done.callback_id == "c2" && done.timed_out && done.error.contains("timeout"));
    assert!(bench.said_frame(answered), "the answer waited for a stream");
    // A coordinator that has not received the answer asks again.
    bench.said.clear();
    bench.frame(callback("c1"));
    assert_eq!(bench.said.iter().filter(started).count(), 0);
    assert!(bench.said_frame(
        |frame| matches!(frame, Request::CallbackDone(done) if done.callback_id == "c1" && !done.timed_out && done.error.is_empty())
    ));
}

#[test]
fn as_many_callbacks_as_slots_are_taken_at_a_time() {
    let mut bench = Bench::attached();
    let callback =
        |id: u32| Response::Callback(proto::Callback { callback_id: format!("c{id}"), ..Default::default() });
    (0..4).for_each(|id| bench.frame(callback(id)));
    let started = bench.said.iter().filter(|effect| matches!(effect, Effect::StartCallback(_))).count();
    assert_eq!(started, 3);
    let refused = |frame: &Request| matches!(frame, Request::CallbackDone(done) if done.callback_id == "c3" && done.error.contains("too many"));
    assert!(bench.said_frame(refused));
    bench.event(MachineEvent::CallbackEnded { callback_id: "c0".into(), error: String::new() });
    bench.after(|bench| bench.frame(callback(3)));
    assert!(bench.said.iter().any(|effect| matches!(effect, Effect::StartCallback(_))), "it is asked again");
}
