//! How a run begins, and what keeps it from beginning.

use rosterd_domain::verify::What;
use rosterd_wire::proto::v1::session_request::Frame as Said;
use rosterd_wire::proto::v1::session_response::Frame;
use rosterd_wire::proto::v1::{RunOutcome, RunRef, RunSource, Trigger};

use super::{Group, scene};
use crate::broken::{Played, ensure};
use crate::coordinator::frames;
use crate::stage::{CALM, Stage};

pub(super) const GROUPS: &[Group] = &[Group {
    name: "runs",
    setting: CALM,
    attached: true,
    seconds: 12,
    scenes: &[
        scene!(a_trigger_runs_user_code: "RUN-1", "RUN-16", "RUN-35", "REPORT-11", "REPORT-13"),
        scene!(the_offset_reaches_user_code: "RUN-16"),
        scene!(a_failure_is_reported_with_its_text: "RUN-34", "REPORT-11"),
        scene!(a_trigger_of_a_run_in_flight_is_dropped: "RUN-4"),
        scene!(a_repeated_token_does_not_start: "RUN-3"),
        scene!(a_lower_token_does_not_start: "RUN-3"),
        scene!(a_higher_token_fences_the_older_run: "RUN-6", "RUN-5", "RUN-24"),
        scene!(one_more_than_the_slots_does_not_start: "RUN-7"),
        scene!(an_unknown_job_does_not_start: "RUN-8"),
        scene!(tokens_come_back_to_the_digit: "RUN-29"),
        scene!(the_start_of_a_run_is_reported: "RUN-15"),
    ],
}];

async fn a_trigger_runs_user_code(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    let source = RunSource::Failover.into();
    let trigger = Trigger { source, ..stage.trigger_of(&run, "count 3 1;offset here;output made") };
    let fire = trigger.fire_time.map(|time| time.seconds * 1000).unwrap_or_default();
    stage.say(Frame::Trigger(trigger)).await?;
    let line = stage.started(&run).await?;
    stage.next_rule();
    let is = (line.fire, line.source.as_str(), line.attempt, line.instance.as_str());
    ensure(is == (fire, "FAILOVER", 1, "10.0.0.7@-@w1"), || {
        format!("user code was given fire, source, attempt, instance {is:?}")
    })?;
    stage.next_rule();
    let report = stage.reported(&run, RunOutcome::Succeeded).await?;
    let is = (report.output.as_str(), report.processed, report.failed);
    ensure(is == ("made", 3, 1), || format!("the report says output, processed, failed {is:?}"))?;
    stage.next_rule();
    ensure(report.offset.as_deref() == Some(b"here".as_slice()), || {
        format!("the offset is {:?}", report.offset)
    })?;
    stage.next_rule();
    let (Some(began), Some(ended)) = (report.started_at, report.ended_at) else {
        return ensure(false, || "the report has no started_at or no ended_at".into());
    };
    ensure((began.seconds, began.nanos) <= (ended.seconds, ended.nanos), || {
        format!("the run ended ({ended:?}) before it began ({began:?})")
    })?;
    ensure(report.attempt == 1, || format!("the report is of attempt {}", report.attempt))
}

async fn the_offset_reaches_user_code(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    let offset = b"abc".as_slice().into();
    let trigger = Trigger { offset, ..stage.trigger_of(&run, "append def") };
    stage.say(Frame::Trigger(trigger)).await?;
    let report = stage.reported(&run, RunOutcome::Succeeded).await?;
    ensure(report.offset.as_deref() == Some(b"abcdef".as_slice()), || {
        format!("abc and def make {:?}", report.offset)
    })
}

async fn a_failure_is_reported_with_its_text(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    stage.trigger(&run, "fail the disk is full").await?;
    let report = stage.reported(&run, RunOutcome::Failed).await?;
    ensure(report.error.contains("the disk is full"), || format!("the error is {:?}", report.error))?;
    stage.next_rule();
    ensure(report.offset.is_none(), || format!("the offset is {:?}, and none was set", report.offset))
}

async fn a_trigger_of_a_run_in_flight_is_dropped(stage: &mut Stage) -> Played {
    let (run, gate) = (stage.new_run(), stage.file());
    let here = stage.here();
    let steps = format!("gate {}", gate.display());
    stage.start_run(&run, &steps).await?;
    for _ in 0..3 {
        stage.trigger(&run, &steps).await?;
    }
    stage.probe().await?;
    reports_of(stage, here, &run, 0)?;
    open(&gate);
    stage.report(&run).await?;
    // It is in flight until its report is acknowledged.
    stage.trigger(&run, &steps).await?;
    stage.probe().await?;
    reports_of(stage, here, &run, 1)?;
    stage.reported(&run, RunOutcome::Succeeded).await?;
    let starts = stage.lines(&run, What::Start).len();
    ensure(starts == 1, || format!("user code began {starts} times"))
}

async fn a_repeated_token_does_not_start(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    stage.trigger(&run, "succeed").await?;
    stage.reported(&run, RunOutcome::Succeeded).await?;
    // Its report may overtake the line, which would look like a second start.
    stage.started(&run).await?;
    stage.is_not_started(&run, "succeed").await
}

async fn a_lower_token_does_not_start(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    stage.trigger(&run, "succeed").await?;
    stage.reported(&run, RunOutcome::Succeeded).await?;
    let older = RunRef { token: run.token - 1, ..run.clone() };
    stage.is_not_started(&older, "succeed").await?;
    // What was not started has not made the next one too old.
    let later = stage.later(&run);
    stage.trigger(&later, "succeed").await?;
    stage.reported(&later, RunOutcome::Succeeded).await.map(drop)
}

async fn a_higher_token_fences_the_older_run(stage: &mut Stage) -> Played {
    let old = stage.new_run();
    stage.start_run(&old, "sleep 60000").await?;
    let new = stage.later(&old);
    stage.trigger(&new, "succeed").await?;
    stage.line(&old, What::Cancel).await?;
    stage.reported(&old, RunOutcome::Aborted).await?;
    stage.next_rule();
    stage.not_started_since(0, &new).await?;
    stage.next_rule();
    let deaf = stage.later(&old);
    stage.start_run(&deaf, "ignore 2000").await?;
    for _ in 0..3 {
        let new = stage.later(&old);
        stage.is_not_started(&new, "succeed").await?;
    }
    stage.reported(&deaf, RunOutcome::Aborted).await?;
    let last = stage.later(&old);
    stage.trigger(&last, "succeed").await?;
    stage.reported(&last, RunOutcome::Succeeded).await.map(drop)
}

async fn one_more_than_the_slots_does_not_start(stage: &mut Stage) -> Played {
    // A report takes no slot.
    let reported = stage.new_run();
    stage.trigger(&reported, "succeed").await?;
    stage.report(&reported).await?;
    let gate = stage.file();
    let mut runs = Vec::new();
    for _ in 0..stage.setting.slots {
        let run = stage.new_run();
        stage.start_run(&run, &format!("gate {}", gate.display())).await?;
        runs.push(run);
    }
    let more = stage.new_run();
    stage.is_not_started(&more, "succeed").await?;
    open(&gate);
    for run in &runs {
        stage.reported(run, RunOutcome::Succeeded).await?;
    }
    stage.acknowledge(&reported).await?;
    stage.probe().await
}

async fn an_unknown_job_does_not_start(stage: &mut Stage) -> Played {
    let run = RunRef { job: "nobody".into(), ..stage.new_run() };
    stage.is_not_started(&run, "succeed").await
}

async fn tokens_come_back_to_the_digit(stage: &mut Stage) -> Played {
    let odd = RunRef { token: (1 << 53) + 1, ..stage.new_run() };
    let largest = RunRef { token: (1 << 63) - 1, ..stage.new_run() };
    for run in [odd, largest] {
        stage.start_run(&run, "succeed").await?;
        stage.reported(&run, RunOutcome::Succeeded).await?;
    }
    Ok(())
}

async fn the_start_of_a_run_is_reported(stage: &mut Stage) -> Played {
    let (run, gate) = (stage.new_run(), stage.file());
    stage.start_run(&run, &format!("gate {}", gate.display())).await?;
    // The first of these may have been under way already.
    stage.beat("", |_| true).await?;
    stage.beat("", |_| true).await?;
    stage.beat("", |_| true).await?;
    let of = run.clone();
    let said = stage.frames(0, |frame| match frame {
        Said::RunStarted(started) if started.run.as_ref() == Some(&of) => Some(started.clone()),
        _ => None,
    });
    open(&gate);
    ensure(said.len() == 1, || format!("{} RunStarted came of {}", said.len(), frames::name(&run)))?;
    let started = &said[0].1;
    ensure(started.started_at.is_some() && started.attempt == 1, || {
        format!("RunStarted says started_at {:?}, attempt {}", started.started_at, started.attempt)
    })?;
    stage.reported(&run, RunOutcome::Succeeded).await.map(drop)
}

/// So many reports of the run have come on the stream of now.
fn reports_of(stage: &mut Stage, from: usize, run: &RunRef, wanted: usize) -> Played {
    let came = stage.frames(from, |frame| match frame {
        Said::RunCompleted(report) if report.run.as_ref() == Some(run) => Some(()),
        _ => None,
    });
    ensure(came.len() == wanted, || {
        format!("{} reports of {} came instead of {wanted}", came.len(), frames::name(run))
    })
}

/// Lets a handler go on that waits at this gate.
pub(super) fn open(gate: &std::path::Path) {
    // Where it cannot be written the handler stays, and the script says so.
    let _ = std::fs::write(gate, "");
}
