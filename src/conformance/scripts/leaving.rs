//! The clean leave, and every way in which nobody answers it.

use std::time::Duration;

use rosterd_domain::verify::What;
use rosterd_wire::proto::v1::RunOutcome;
use rosterd_wire::proto::v1::session_request::Frame as Said;
use rustix::process::Signal;
use tonic::Code;

use super::runs::open;
use super::{Group, scene};
use crate::broken::{Played, ensure};
use crate::coordinator::frames;
use crate::event::now;
use crate::stage::{CALM, PATIENCE, Setting, Stage, at};

const TWO: Setting = Setting { coordinators: 2, given: 2, ..CALM };
const HURRIED: Setting = Setting { drain: Duration::from_millis(800), ..CALM };

const fn group(name: &'static str, setting: Setting, seconds: u32, scenes: &'static [super::Scene]) -> Group {
    Group { name, setting, attached: true, seconds, scenes }
}

pub(super) const GROUPS: &[Group] = &[
    group(
        "leave",
        CALM,
        4,
        &[scene!(a_leave_goes_step_by_step: "LEAVE-1", "LEAVE-2", "LEAVE-5", "LEASE-16", "LEAVE-6")],
    ),
    group("sigint", CALM, 2, &[scene!(sigint_is_the_same: "LEAVE-1")]),
    group("unasked", CALM, 2, &[scene!(what_was_not_asked_for_is_ignored: "LEAVE-6")]),
    group(
        "deadline",
        HURRIED,
        4,
        &[scene!(at_the_deadline_runs_are_handed_back: "LEAVE-3", "LEAVE-4", "RUN-9")],
    ),
    group("drain", CALM, 3, &[scene!(of_several_drains_the_earliest_deadline_counts: "LEAVE-4")]),
    group("undrained", TWO, 6, &[scene!(without_draining_the_next_is_asked: "LEAVE-8", "LEAVE-7", "JOB-9")]),
    group("unthanked", TWO, 6, &[scene!(without_an_answer_to_goodbye_the_next_is_asked: "LEAVE-9")]),
    group("unanswered", CALM, 15, &[scene!(without_any_answer_it_ends: "LEAVE-10")]),
    group("lost-leave", CALM, 4, &[scene!(a_new_stream_starts_the_leave_again: "LEAVE-7", "JOB-9")]),
    group("goodbye", CALM, 2, &[scene!(after_goodbye_nothing_starts: "RUN-10")]),
    group("two-signals", CALM, 3, &[scene!(two_signals_at_once_are_one: "LEAVE-13", "LEAVE-15")]),
    group("second-signal", CALM, 5, &[scene!(a_second_signal_ends_it_at_once: "LEAVE-13")]),
    Group {
        name: "never-welcomed",
        setting: CALM,
        attached: false,
        seconds: 3,
        scenes: &[scene!(a_worker_that_was_never_welcomed_ends_at_once: "LEAVE-12")],
    },
];

async fn leaves_well(stage: &mut Stage) -> Played {
    let code = stage.exits(PATIENCE).await?;
    ensure(code == Some(0), || format!("its exit code is {code:?}"))
}

/// It does not say Goodbye now, nor after two more heartbeats.
async fn no_goodbye(stage: &mut Stage, why: &str) -> Played {
    stage.beat("", |_| true).await?;
    stage.beat("", |_| true).await?;
    let said = stage.said_goodbye();
    ensure(!said, || format!("it says Goodbye although {why}"))
}

async fn a_leave_goes_step_by_step(stage: &mut Stage) -> Played {
    let (first, late, gate) = (stage.new_run(), stage.new_run(), stage.file());
    let steps = format!("gate {}", gate.display());
    stage.start_run(&first, &steps).await?;
    stage.signal(Signal::TERM);
    stage.asks_to_drain().await?;
    stage.next_rule();
    stage.start_run(&late, &steps).await?;
    stage.next_rule();
    stage.say(frames::draining()).await?;
    no_goodbye(stage, "runs are in user code").await?;
    open(&gate);
    stage.reported(&first, RunOutcome::Succeeded).await?;
    stage.report(&late).await?;
    no_goodbye(stage, "a report is not acknowledged").await?;
    stage.acknowledge(&late).await?;
    stage.says_goodbye().await?;
    stage.next_rule();
    stage.beat("after Goodbye", |_| true).await?;
    stage.next_rule();
    ensure(!stage.is_over(), || "it ended without a GoodbyeAck".into())?;
    stage.say(frames::goodbye_ack()).await?;
    leaves_well(stage).await
}

async fn sigint_is_the_same(stage: &mut Stage) -> Played {
    stage.signal(Signal::INT);
    stage.farewell().await?;
    leaves_well(stage).await
}

async fn what_was_not_asked_for_is_ignored(stage: &mut Stage) -> Played {
    stage.say(frames::draining()).await?;
    stage.say(frames::goodbye_ack()).await?;
    stage.probe().await?;
    stage.signal(Signal::TERM);
    stage.asks_to_drain().await?;
    stage.say(frames::goodbye_ack()).await?;
    no_goodbye(stage, "Draining did not come since it asked").await?;
    ensure(!stage.is_over(), || "it ended by a GoodbyeAck before its Goodbye".into())?;
    stage.say(frames::draining()).await?;
    stage.says_goodbye().await?;
    stage.say(frames::goodbye_ack()).await?;
    leaves_well(stage).await
}

async fn at_the_deadline_runs_are_handed_back(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    stage.start_run(&run, "sleep 60000").await?;
    let asked = now();
    stage.signal(Signal::TERM);
    stage.asks_to_drain().await?;
    stage.say(frames::draining()).await?;
    let report = stage.report(&run).await?;
    ensure(report.outcome() == RunOutcome::HandedBack, || {
        format!("the run is reported {}", frames::outcome(report.outcome()))
    })?;
    stage.next_rule();
    let told = at(&stage.line(&run, What::Cancel).await?).saturating_sub(asked);
    ensure(told >= stage.setting.drain, || {
        format!("it was told to stop {told:?} after the signal: {:?} were given", stage.setting.drain)
    })?;
    stage.next_rule();
    let late = stage.new_run();
    stage.is_not_started(&late, "succeed").await?;
    stage.acknowledge(&run).await?;
    stage.says_goodbye().await?;
    stage.say(frames::goodbye_ack()).await?;
    leaves_well(stage).await
}

async fn of_several_drains_the_earliest_deadline_counts(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    stage.start_run(&run, "sleep 60000").await?;
    stage.say(frames::drain(Some(Duration::from_secs(40)))).await?;
    stage.asks_to_drain().await?;
    let asked = now();
    stage.say(frames::drain(Some(Duration::from_millis(500)))).await?;
    stage.say(frames::drain(Some(Duration::from_secs(40)))).await?;
    stage.say(frames::draining()).await?;
    stage.reported(&run, RunOutcome::HandedBack).await?;
    let told = at(&stage.line(&run, What::Cancel).await?).saturating_sub(asked);
    ensure(told >= Duration::from_millis(500), || {
        format!("it was told to stop {told:?} after a grace of 500 ms")
    })?;
    stage.says_goodbye().await?;
    stage.say(frames::goodbye_ack()).await?;
    leaves_well(stage).await
}

async fn without_draining_the_next_is_asked(stage: &mut Stage) -> Played {
    stage.signal(Signal::TERM);
    stage.asks_to_drain().await?;
    let before = stage.stream()?.at;
    stage.hello().await?;
    let after = stage.stream()?.at;
    ensure(before != after, || "the same coordinator is asked again".into())?;
    stage.next_rule();
    stage.welcome().await?;
    stage.farewell().await?;
    stage.next_rule();
    nothing_registered(stage)?;
    leaves_well(stage).await
}

fn nothing_registered(stage: &mut Stage) -> Played {
    let registers = stage.frames(0, |frame| matches!(frame, Said::Register(_)).then_some(()));
    ensure(registers.is_empty(), || "it registers a job while it leaves".into())
}

async fn without_an_answer_to_goodbye_the_next_is_asked(stage: &mut Stage) -> Played {
    stage.signal(Signal::TERM);
    stage.asks_to_drain().await?;
    stage.say(frames::draining()).await?;
    stage.says_goodbye().await?;
    let before = stage.stream()?.at;
    stage.hello().await?;
    let after = stage.stream()?.at;
    ensure(before != after, || "the same coordinator is asked again".into())?;
    stage.welcome().await?;
    stage.farewell().await?;
    leaves_well(stage).await
}

async fn without_any_answer_it_ends(stage: &mut Stage) -> Played {
    let asked = now();
    stage.signal(Signal::TERM);
    stage.asks_to_drain().await?;
    let until = asked + Duration::from_secs(40);
    while now() < until && !stage.is_over() {
        // Whoever comes is welcomed, and then hears no more.
        if stage.hello_within(Duration::from_millis(500)).await.is_ok() {
            stage.welcome().await?;
        }
    }
    let code = stage.exits(Duration::from_secs(1)).await?;
    let after = now().saturating_sub(asked);
    ensure(after >= Duration::from_secs(8), || {
        format!("it ended {after:?} after the signal: 10 s are asked for")
    })?;
    ensure(code.is_some_and(|code| code != 0), || {
        format!("nobody acknowledged, and its exit code is {code:?}")
    })
}

async fn a_new_stream_starts_the_leave_again(stage: &mut Stage) -> Played {
    let (run, gate) = (stage.new_run(), stage.file());
    stage.start_run(&run, &format!("gate {}", gate.display())).await?;
    stage.signal(Signal::TERM);
    stage.asks_to_drain().await?;
    stage.say(frames::draining()).await?;
    stage.beat("", |_| true).await?;
    stage.beat("", |_| true).await?;
    stage.cut()?;
    stage.hello().await?;
    stage.welcome().await?;
    stage.asks_to_drain().await?;
    open(&gate);
    stage.reported(&run, RunOutcome::Succeeded).await?;
    no_goodbye(stage, "Draining came on the stream before alone").await?;
    stage.next_rule();
    nothing_registered(stage)?;
    stage.first_rule();
    stage.say(frames::draining()).await?;
    stage.says_goodbye().await?;
    stage.say(frames::goodbye_ack()).await?;
    leaves_well(stage).await
}

async fn after_goodbye_nothing_starts(stage: &mut Stage) -> Played {
    stage.signal(Signal::TERM);
    stage.asks_to_drain().await?;
    stage.say(frames::draining()).await?;
    stage.says_goodbye().await?;
    let run = stage.new_run();
    stage.is_not_started(&run, "succeed").await?;
    stage.say(frames::goodbye_ack()).await?;
    leaves_well(stage).await
}

async fn two_signals_at_once_are_one(stage: &mut Stage) -> Played {
    let (run, gate) = (stage.new_run(), stage.file());
    stage.start_run(&run, &format!("gate {}", gate.display())).await?;
    stage.signal(Signal::TERM);
    stage.signal(Signal::INT);
    stage.asks_to_drain().await?;
    stage.beat("", |_| true).await?;
    stage.beat("", |_| true).await?;
    ensure(!stage.is_over(), || "it ended at once".into())?;
    stage.next_rule();
    stage.says_on_stderr("second signal").await?;
    let lines = stage.stderr("second signal");
    ensure(lines.len() == 1 && lines[0].contains(&run.job), || {
        format!("it does not say once which runs it waits for: {lines:?}")
    })?;
    stage.first_rule();
    open(&gate);
    stage.reported(&run, RunOutcome::Succeeded).await?;
    stage.say(frames::draining()).await?;
    stage.says_goodbye().await?;
    stage.say(frames::goodbye_ack()).await?;
    leaves_well(stage).await
}

async fn a_second_signal_ends_it_at_once(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    stage.start_run(&run, "ignore 60000").await?;
    stage.signal(Signal::TERM);
    stage.asks_to_drain().await?;
    stage.pass(Duration::from_millis(2_500)).await;
    ensure(!stage.is_over(), || "it ended after one signal, with a run in user code".into())?;
    stage.signal(Signal::TERM);
    let code = stage.exits(PATIENCE).await?;
    ensure(code != Some(0), || "it ended at once, with exit code 0".into())
}

async fn a_worker_that_was_never_welcomed_ends_at_once(stage: &mut Stage) -> Played {
    // Its signals are taken care of by the time that it says Hello; between attempts nobody knows of it.
    for _ in 0..4 {
        stage.hello().await?;
        stage.end(Some(Code::Unavailable)).await?;
    }
    stage.signal(Signal::TERM);
    let asked = now();
    let code = stage.exits(PATIENCE).await?;
    let after = now().saturating_sub(asked);
    ensure(after <= Duration::from_secs(5) + stage.slack(asked), || {
        format!("it ended {after:?} after the signal")
    })?;
    ensure(code == Some(0), || format!("its exit code is {code:?}"))
}
