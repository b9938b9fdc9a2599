//! Sizes, and what goes out while a run is in user code.

use std::time::Duration;

use rosterd_wire::proto::v1::session_request::Frame as Said;
use rosterd_wire::proto::v1::{RunOutcome, RunProgress, RunRef};

use super::runs::open;
use super::{Group, scene};
use crate::broken::{Played, ensure};
use crate::coordinator::frames;
use crate::stage::{CALM, Stage, at};

pub(super) const GROUPS: &[Group] = &[Group {
    name: "texts",
    setting: CALM,
    attached: true,
    seconds: 10,
    scenes: &[
        scene!(texts_are_cut_between_characters: "REPORT-12"),
        scene!(an_offset_that_is_too_large_is_refused_to_the_handler: "REPORT-15"),
        scene!(progress_goes_out_four_times_a_second: "REPORT-9"),
        scene!(an_offset_goes_out_along_the_way: "REPORT-10"),
    ],
}];

const KIB: usize = 1024;
/// What four times a second is, with room for the first, the last and a clock's step.
const EVERY: Duration = Duration::from_millis(250);
const BESIDE: usize = 3;

async fn texts_are_cut_between_characters(stage: &mut Stage) -> Played {
    let cut = |what: &str, text: &str, most: usize| {
        // Three bytes each, so that no bound falls between two of them.
        ensure(text.len() <= most, || format!("{what} has {} bytes, {most} are allowed", text.len()))?;
        ensure(text.len() + 4 * KIB.min(most / 4) >= most, || {
            format!("{what} has {} bytes, although {most} are allowed", text.len())
        })
    };
    let run = stage.new_run();
    stage.trigger(&run, &format!("fail {}", "雪".repeat(5_000))).await?;
    cut("error", &stage.reported(&run, RunOutcome::Failed).await?.error, 8 * KIB)?;
    let run = stage.new_run();
    stage.trigger(&run, &format!("output {}", "雪".repeat(30_000))).await?;
    cut("output", &stage.reported(&run, RunOutcome::Succeeded).await?.output, 64 * KIB)?;
    let (run, gate) = (stage.new_run(), stage.file());
    stage.trigger(&run, &format!("progress 250 {};gate {}", "雪".repeat(900), gate.display())).await?;
    let progress = progress_since(stage, 0, &run).await?;
    cut("the message of progress", &progress.message, KIB)?;
    ensure(progress.percent <= 100, || format!("progress is {} %", progress.percent))?;
    open(&gate);
    stage.reported(&run, RunOutcome::Succeeded).await.map(drop)
}

async fn progress_since(stage: &mut Stage, from: usize, run: &RunRef) -> Played<RunProgress> {
    let (what, run) = (format!("RunProgress of {}", frames::name(run)), run.clone());
    stage
        .frame(from, &what, |frame| match frame {
            Said::RunProgress(progress) if progress.run.as_ref() == Some(&run) => Some(progress.clone()),
            _ => None,
        })
        .await
}

async fn an_offset_that_is_too_large_is_refused_to_the_handler(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    stage.trigger(&run, &format!("offset {}", "x".repeat(64 * KIB + 1))).await?;
    let report = stage.reported(&run, RunOutcome::Failed).await?;
    ensure(report.offset.is_none(), || "its report carries an offset".into())?;
    let run = stage.new_run();
    stage.trigger(&run, &format!("offset {}", "x".repeat(64 * KIB))).await?;
    let report = stage.reported(&run, RunOutcome::Succeeded).await?;
    let length = report.offset.map(|offset| offset.len());
    ensure(length == Some(64 * KIB), || format!("an offset of 64 KiB is reported as {length:?} bytes"))
}

async fn progress_goes_out_four_times_a_second(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    let steps: Vec<String> = (1..=90).map(|percent| format!("progress {percent};sleep 20")).collect();
    stage.trigger(&run, &steps.join(";")).await?;
    stage.reported(&run, RunOutcome::Succeeded).await?;
    let took = at(&stage.over(&run).await?).saturating_sub(at(&stage.started(&run).await?));
    let of = run.clone();
    let said = stage.frames(0, |frame| match frame {
        Said::RunProgress(progress) if progress.run.as_ref() == Some(&of) => Some(progress.percent),
        _ => None,
    });
    let percents: Vec<u32> = said.into_iter().map(|(_, percent)| percent).collect();
    let most = usize::try_from(took.as_millis() / EVERY.as_millis()).unwrap_or(usize::MAX) + BESIDE;
    ensure((2..=most).contains(&percents.len()), || {
        format!("{} RunProgress came within {took:?}: 2 to {most} were expected", percents.len())
    })?;
    ensure(percents.is_sorted() && percents.last() > Some(&45), || {
        format!("they are not the latest values: {percents:?}")
    })
}

async fn an_offset_goes_out_along_the_way(stage: &mut Stage) -> Played {
    let (run, gate) = (stage.new_run(), stage.file());
    stage.start_run(&run, &format!("offset so far;gate {}", gate.display())).await?;
    for _ in 0..2 {
        let progress = progress_since(stage, 0, &run).await?;
        ensure(progress.offset.as_deref() == Some(b"so far".as_slice()), || {
            format!("RunProgress carries the offset {:?}", progress.offset)
        })?;
        // After each Welcome again: the next coordinator may not know it.
        stage.beat("", |_| true).await?;
        stage.cut()?;
        stage.attach().await?;
    }
    open(&gate);
    stage.reported(&run, RunOutcome::Succeeded).await.map(drop)
}
