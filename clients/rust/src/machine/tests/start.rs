//! The check before user code, branch by branch.

use super::*;

/// The expected effect of a trigger.
#[derive(Debug)]
enum Then {
    Starts,
    Dropped,
    NotStarted(&'static str),
}

fn case(what: &str, prepare: impl FnOnce(&mut Bench) -> Trigger, then: &Then) {
    let mut bench = Bench::attached();
    let trigger = prepare(&mut bench);
    let run = RunId::from(trigger.run.clone().unwrap());
    bench.said.clear();
    bench.frame(Response::Trigger(trigger));
    let started = bench.starts().iter().any(|start| start.id == run);
    let report = bench.reports().into_iter().find(|report| report.run == Some(run.to_proto()));
    match then {
        Then::Starts => {
            assert!(started && report.is_none(), "{what}");
            assert!(bench.said_frame(|frame| matches!(frame, Request::RunStarted(_))), "{what}");
        }
        Then::Dropped => assert!(!started && report.is_none(), "{what}"),
        Then::NotStarted(why) => {
            assert!(!started, "{what}");
            let report = report.unwrap_or_else(|| panic!("{what}: no report"));
            assert_eq!(report.outcome(), RunOutcome::NotStarted, "{what}");
            assert!(report.error.contains(why), "{what}: {}", report.error);
        }
    }
}

#[test]
pub(super) fn every_branch_of_the_check() {
    case("a first token", |_| trigger(0, 1), &Then::Starts);
    case(
        "a higher token after an acknowledged run",
        |bench| {
            bench.trigger(0, 4);
            bench.done(0, 4);
            bench.acknowledge(0, 4, proto::ReportResult::Accepted);
            trigger(0, 5)
        },
        &Then::Starts,
    );
    case(
        "a higher token while the outcome of the last is not acknowledged",
        |bench| {
            bench.trigger(0, 4);
            bench.done(0, 4);
            trigger(0, 5)
        },
        &Then::Starts,
    );
    case(
        "the same trigger while it runs",
        |bench| {
            bench.trigger(0, 4);
            trigger(0, 4)
        },
        &Then::Dropped,
    );
    case(
        "the same trigger after its report was acknowledged",
        |bench| {
            bench.trigger(0, 4);
            bench.done(0, 4);
            bench.acknowledge(0, 4, proto::ReportResult::Accepted);
            trigger(0, 4)
        },
        &Then::NotStarted("a run 4 of the item was seen already"),
    );
    case(
        "a lower token",
        |bench| {
            bench.trigger(0, 4);
            bench.done(0, 4);
            trigger(0, 3)
        },
        &Then::NotStarted("a run 4 of the item was seen already"),
    );
    case(
        "a lower token of another item",
        |bench| {
            bench.trigger(0, 4);
            trigger(1, 3)
        },
        &Then::Starts,
    );
    case(
        "another run of the item in user code",
        |bench| {
            bench.trigger(0, 4);
            trigger(0, 5)
        },
        &Then::NotStarted("run 4 of this item is still in user code"),
    );
    case(
        "another run of the item that was cancelled and does not end",
        |bench| {
            bench.trigger(0, 4);
            let run = Some(id(0, 4).to_proto());
            bench.frame(Response::Cancel(proto::Cancel { run, ..Default::default() }));
            trigger(0, 5)
        },
        &Then::NotStarted("run 4 of this item is still in user code"),
    );
    case(
        "the process slept past its lease with the trigger in its socket",
        |bench| {
            bench.sleep(4_475);
            trigger(0, 1)
        },
        &Then::Dropped, // The worker leaves the stream before it reads the frame: see the test below.
    );
    case(
        "a job that is not ours",
        |_| Trigger { run: Some(RunRef { job: "other".into(), item: 0, token: 1 }), ..Trigger::default() },
        &Then::NotStarted("does not work for the job"),
    );
    case(
        "more than the slots",
        |bench| {
            (0..3).for_each(|item| bench.trigger(item, 1));
            trigger(3, 1)
        },
        &Then::NotStarted("every slot"),
    );
    case(
        "between DrainRequest and the drain deadline",
        |bench| {
            bench.event(MachineEvent::Leave);
            trigger(0, 1)
        },
        &Then::Starts,
    );
    case(
        "past the drain deadline",
        |bench| {
            bench.trigger(1, 1);
            bench.event(MachineEvent::Leave);
            bench.live(31_000);
            trigger(0, 1)
        },
        &Then::NotStarted("drain deadline"),
    );
}

/// The lease may expire while the stream is fresh: a late Welcome.
#[test]
pub(super) fn no_start_before_a_late_welcome_is_renewed() {
    let mut bench = Bench::new(settings());
    bench.connect();
    bench.sleep(2_900);
    let late = Welcome { lease: proto_ms(3_000), ..welcome("w1") };
    bench.frame(Response::Welcome(late));
    bench.trigger(0, 1);
    assert_eq!(bench.starts(), []);
    assert_eq!(bench.outcomes(), [(0, 1, RunOutcome::NotStarted)]);
    bench.advance(2_900);
    bench.acknowledge_beat();
    bench.trigger(1, 1);
    assert_eq!(bench.starts().len(), 1, "the acknowledged heartbeat made the lease good");
}

#[test]
fn a_woken_process_stops_its_runs_before_it_reads_its_socket() {
    let mut bench = Bench::attached();
    bench.trigger(0, 1);
    bench.sleep(60_000);
    bench.after(|bench| bench.trigger(1, 1));
    assert_eq!(bench.cancels(), [id(0, 1)]);
    assert_eq!(bench.starts(), []);
    assert!(bench.said.contains(&Effect::Close { connection: 1 }), "the stream is left");
}

#[test]
fn a_not_started_report_is_kept_and_its_trigger_not_answered_twice() {
    let mut bench = Bench::attached();
    bench.trigger(0, 1);
    bench.trigger(0, 2);
    bench.after(|bench| bench.trigger(0, 2));
    assert_eq!(bench.outcomes(), []);
    bench.after(|bench| bench.reattach("w1"));
    assert_eq!(bench.outcomes(), [(0, 2, RunOutcome::NotStarted)]);
}
