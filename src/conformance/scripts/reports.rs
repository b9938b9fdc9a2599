//! Reports: kept until they are acknowledged, and sent within the coordinator's credit.

use rosterd_wire::proto::v1::session_request::Frame as Said;
use rosterd_wire::proto::v1::session_response::Frame;
use rosterd_wire::proto::v1::{ReportAck, ReportResult, RunOutcome, RunRef};

use super::runs::open;
use super::{Group, scene};
use crate::broken::{Played, ensure};
use crate::coordinator::frames;
use crate::stage::{CALM, Setting, Stage, same};

pub(super) const GROUPS: &[Group] = &[
    Group {
        name: "reports",
        setting: CALM,
        attached: true,
        seconds: 8,
        scenes: &[
            scene!(a_report_is_kept_until_it_is_acknowledged: "REPORT-2", "LINK-6", "REPORT-1", "LINK-10"),
            scene!(any_answer_but_invalid_ends_it: "REPORT-3"),
            scene!(a_refused_report_is_followed_by_one_that_says_failed: "REPORT-4", "REPORT-5"),
            scene!(an_answer_to_nothing_does_nothing: "REPORT-8"),
        ],
    },
    Group {
        name: "credits",
        setting: Setting { credits: 2, ..CALM },
        attached: true,
        seconds: 3,
        scenes: &[scene!(reports_wait_for_credit_in_the_order_of_their_ends: "REPORT-6", "REPORT-7")],
    },
];

async fn a_report_is_kept_until_it_is_acknowledged(stage: &mut Stage) -> Played {
    let (done, going, gate) = (stage.new_run(), stage.new_run(), stage.file());
    stage.trigger(&done, "output kept").await?;
    stage.report(&done).await?;
    stage.start_run(&going, &format!("gate {}", gate.display())).await?;
    stage.next_beat_names(&[&done, &going]).await?;
    for _ in 0..2 {
        stage.cut()?;
        let hello = stage.hello().await?;
        stage.next_rule();
        ensure(same(&hello.runs_in_flight, &[&done, &going]), || {
            format!("Hello names {}", frames::names(&hello.runs_in_flight))
        })?;
        stage.next_rule();
        stage.accept().await?;
        let report = stage.report(&done).await?;
        ensure(report.outcome() == RunOutcome::Succeeded && report.output == "kept", || {
            format!("it is another report the second time: {report:?}")
        })?;
        stage.next_beat_names(&[&done, &going]).await?;
        stage.first_rule();
    }
    stage.acknowledge(&done).await?;
    stage.next_beat_names(&[&going]).await?;
    stage.cut()?;
    let hello = stage.attach().await?;
    ensure(same(&hello.runs_in_flight, &[&going]), || {
        format!("Hello names {} after the acknowledgement", frames::names(&hello.runs_in_flight))
    })?;
    stage.probe().await?;
    no_report(stage, &done)?;
    open(&gate);
    stage.reported(&going, RunOutcome::Succeeded).await.map(drop)
}

/// None has come on the stream of now.
fn no_report(stage: &mut Stage, run: &RunRef) -> Played {
    let came = reports(stage, run);
    ensure(came == 0, || format!("a report of {} came although it was answered", frames::name(run)))
}

fn reports(stage: &mut Stage, run: &RunRef) -> usize {
    let of_run = |frame: &Said| match frame {
        Said::RunCompleted(report) if report.run.as_ref() == Some(run) => Some(()),
        _ => None,
    };
    stage.frames(0, of_run).len()
}

async fn any_answer_but_invalid_ends_it(stage: &mut Stage) -> Played {
    for result in [1, 2, 0, 99] {
        let run = stage.new_run();
        stage.trigger(&run, "succeed").await?;
        stage.report(&run).await?;
        let ack = ReportAck { run: Some(run.clone()), result, ..ReportAck::default() };
        stage.say(Frame::ReportAck(ack)).await?;
        stage.next_beat_names(&[]).await?;
        let came = reports(stage, &run);
        ensure(came == 1, || format!("{came} reports came, answered with result {result}"))?;
    }
    Ok(())
}

async fn a_refused_report_is_followed_by_one_that_says_failed(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    stage.trigger(&run, "count 7 2;offset far;output much").await?;
    let here = stage.here();
    stage.report(&run).await?;
    let here = here.max(stage.here());
    stage.say(frames::report_ack(&run, ReportResult::Invalid)).await?;
    let second = stage.report_since(here, &run).await?;
    ensure(second.outcome() == RunOutcome::Failed, || {
        format!("the report after it says {}", frames::outcome(second.outcome()))
    })?;
    ensure(second.error.contains("REPORT_INVALID") || second.error.contains("does not like it"), || {
        format!("its error does not say why: {:?}", second.error)
    })?;
    let bare =
        second.output.is_empty() && second.processed == 0 && second.failed == 0 && second.offset.is_none();
    ensure(bare, || format!("it has output, counts or offset: {second:?}"))?;
    stage.next_beat_names(&[&run]).await?;
    stage.next_rule();
    stage.say(frames::report_ack(&run, ReportResult::Invalid)).await?;
    stage.next_beat_names(&[]).await?;
    let came = reports(stage, &run);
    ensure(came == 2, || format!("{came} reports came"))
}

async fn an_answer_to_nothing_does_nothing(stage: &mut Stage) -> Played {
    let (run, gate) = (stage.new_run(), stage.file());
    stage.start_run(&run, &format!("gate {}", gate.display())).await?;
    let done = stage.new_run();
    stage.trigger(&done, "succeed").await?;
    stage.report(&done).await?;
    let unknown = stage.new_run();
    for result in [ReportResult::Accepted, ReportResult::Invalid, ReportResult::Fenced] {
        for of in [&done, &unknown, &run] {
            stage.say(frames::report_ack(of, result)).await?;
        }
    }
    stage.probe().await?;
    stage.next_beat_names(&[&run]).await?;
    open(&gate);
    stage.reported(&run, RunOutcome::Succeeded).await.map(drop)
}

async fn reports_wait_for_credit_in_the_order_of_their_ends(stage: &mut Stage) -> Played {
    let mut runs = Vec::new();
    for _ in 0..7 {
        let run = stage.new_run();
        stage.trigger(&run, "succeed").await?;
        stage.over(&run).await?;
        // The end is known to the client once another run has taken the slot.
        stage.beat("", |_| true).await?;
        runs.push(run);
    }
    stage.next_beat_names(&runs.iter().collect::<Vec<_>>()).await?;
    // Never more than the credit at a time: that is looked at in every script.
    for run in &runs {
        stage.report(run).await?;
        stage.acknowledge(run).await?;
    }
    stage.next_rule();
    let order = stage.frames(0, |frame| match frame {
        Said::RunCompleted(report) => report.run.clone(),
        _ => None,
    });
    let order: Vec<RunRef> = order.into_iter().map(|(_, run)| run).collect();
    ensure(order == runs, || format!("they came as {}", frames::names(&order)))
}
