//! Triggers that come before their time.

use std::time::Duration;

use rosterd_wire::proto::v1::session_response::Frame;
use rosterd_wire::proto::v1::{CancelReason, RunOutcome, RunRef, Trigger};

use super::{Group, scene};
use crate::broken::{Played, ensure};
use crate::coordinator::frames;
use crate::event::now;
use crate::stage::{CALM, Stage, at};

pub(super) const GROUPS: &[Group] = &[Group {
    name: "held",
    setting: CALM,
    attached: true,
    seconds: 6,
    scenes: &[
        scene!(it_begins_when_its_time_has_come: "RUN-11"),
        scene!(it_is_in_flight_and_takes_a_slot: "RUN-12"),
        scene!(withdrawn_it_never_begins: "RUN-14"),
        scene!(it_goes_with_its_stream_and_may_come_again: "RUN-13"),
    ],
}];

/// The most that a client may take off for the Trigger's way.
const EARLY: Duration = Duration::from_millis(5);

async fn hold(stage: &mut Stage, run: &RunRef, millis: u64) -> Played {
    let starts_in = Some(frames::span(Duration::from_millis(millis)));
    let trigger = Trigger { starts_in, ..stage.trigger_of(run, "succeed") };
    stage.say(Frame::Trigger(trigger)).await
}

async fn it_begins_when_its_time_has_come(stage: &mut Stage) -> Played {
    for wait in [100, 400, 700] {
        let run = stage.new_run();
        let sent = now();
        hold(stage, &run, wait).await?;
        let line = stage.started(&run).await?;
        let after = at(&line).saturating_sub(sent);
        ensure(after + EARLY >= Duration::from_millis(wait), || {
            format!("user code began {after:?} after a Trigger with starts_in {wait} ms")
        })?;
        stage.reported(&run, RunOutcome::Succeeded).await?;
    }
    Ok(())
}

async fn it_is_in_flight_and_takes_a_slot(stage: &mut Stage) -> Played {
    let runs: Vec<RunRef> = (0..stage.setting.slots).map(|_| stage.new_run()).collect();
    for run in &runs {
        hold(stage, run, 60_000).await?;
    }
    stage.next_beat_names(&runs.iter().collect::<Vec<_>>()).await?;
    let more = stage.new_run();
    stage.is_not_started(&more, "succeed").await?;
    for run in &runs {
        stage.say(frames::cancel(run, CancelReason::Operator)).await?;
        stage.report(run).await?;
        stage.acknowledge(run).await?;
    }
    stage.probe().await
}

async fn withdrawn_it_never_begins(stage: &mut Stage) -> Played {
    let pairs = [
        (CancelReason::Operator, RunOutcome::Cancelled),
        (CancelReason::TimedOut, RunOutcome::TimedOut),
        (CancelReason::Fenced, RunOutcome::NotStarted),
    ];
    let mut runs = Vec::new();
    for (reason, outcome) in pairs {
        let run = stage.new_run();
        hold(stage, &run, 900).await?;
        stage.say(frames::cancel(&run, reason)).await?;
        stage.reported(&run, outcome).await?;
        runs.push(run);
    }
    // Longer than any of them was to be kept.
    stage.pass(Duration::from_millis(1_200)).await;
    stage.probe().await?;
    for run in &runs {
        stage.ensure_not_begun(run)?;
    }
    Ok(())
}

async fn it_goes_with_its_stream_and_may_come_again(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    hold(stage, &run, 60_000).await?;
    stage.probe().await?;
    stage.cut()?;
    let here = stage.here();
    let hello = stage.attach().await?;
    ensure(!hello.runs_in_flight.contains(&run), || "the next Hello names it".into())?;
    stage.probe().await?;
    let reports = stage.frames(here, |frame| match frame {
        rosterd_wire::proto::v1::session_request::Frame::RunCompleted(report) => {
            (report.run.as_ref() == Some(&run)).then_some(())
        }
        _ => None,
    });
    ensure(reports.is_empty(), || "it was reported".into())?;
    stage.ensure_not_begun(&run)?;
    hold(stage, &run, 100).await?;
    stage.reported(&run, RunOutcome::Succeeded).await.map(drop)
}
