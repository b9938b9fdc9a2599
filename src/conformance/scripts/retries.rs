//! Attempts of one run, the pauses between them, and the time that all of them have.

use std::time::Duration;

use rosterd_domain::verify::{Line, What};
use rosterd_wire::proto::v1::session_response::Frame;
use rosterd_wire::proto::v1::{CancelReason, RunOutcome, Trigger};

use super::{Group, scene};
use crate::broken::{Played, ensure};
use crate::coordinator::frames;
use crate::stage::{CALM, Stage, at};

pub(super) const GROUPS: &[Group] = &[Group {
    name: "retries",
    setting: CALM,
    attached: true,
    seconds: 8,
    scenes: &[
        scene!(a_failed_attempt_is_followed_by_another_after_its_pause: "RUN-17"),
        scene!(a_multiplier_of_nothing_counts_as_one: "RUN-17"),
        scene!(an_attempt_goes_on_from_the_offset_of_the_one_before: "RUN-27"),
        scene!(what_is_fatal_is_not_tried_again: "RUN-18"),
        scene!(what_was_told_to_stop_is_not_tried_again: "RUN-19"),
        scene!(the_timeout_counts_over_all_attempts: "RUN-20"),
    ],
}];

const MS: fn(u64) -> Duration = Duration::from_millis;

fn tried(trigger: Trigger, attempts: u32, pause: u64) -> Trigger {
    Trigger { max_attempts: attempts, retry_backoff: Some(frames::span(MS(pause))), ..trigger }
}

async fn a_failed_attempt_is_followed_by_another_after_its_pause(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    let trigger = Trigger {
        retry_backoff_multiplier: 10,
        retry_backoff_max: Some(frames::span(MS(600))),
        ..tried(stage.trigger_of(&run, "fail not yet"), 3, 300)
    };
    stage.say(Frame::Trigger(trigger)).await?;
    let report = stage.reported(&run, RunOutcome::Failed).await?;
    ensure(report.attempt == 3, || format!("the report is of attempt {}", report.attempt))?;
    let (starts, ends) =
        (stage.wait_for_lines(&run, What::Start, 3).await?, stage.wait_for_lines(&run, What::End, 2).await?);
    let attempts: Vec<u32> = starts.iter().map(|line| line.attempt).collect();
    ensure(attempts == [1, 2, 3], || format!("attempts {attempts:?} began"))?;
    let pauses = pauses(&starts, &ends);
    ensure(pauses.len() == 2 && pauses[0] >= MS(300) && pauses[1] >= MS(600), || {
        format!("the pauses were {pauses:?} instead of 300 and 600 ms")
    })?;
    ensure(pauses[1] < MS(2_900), || format!("the second pause was {:?}: its bound is 600 ms", pauses[1]))
}

/// From the end of each attempt to the beginning of the next.
fn pauses(starts: &[Line], ends: &[Line]) -> Vec<Duration> {
    starts.iter().skip(1).zip(ends).map(|(start, end)| at(start).saturating_sub(at(end))).collect()
}

async fn a_multiplier_of_nothing_counts_as_one(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    let trigger = tried(stage.trigger_of(&run, "fail not yet"), 3, 200);
    stage.say(Frame::Trigger(trigger)).await?;
    stage.reported(&run, RunOutcome::Failed).await?;
    let (starts, ends) =
        (stage.wait_for_lines(&run, What::Start, 3).await?, stage.wait_for_lines(&run, What::End, 2).await?);
    let pauses = pauses(&starts, &ends);
    ensure(pauses.len() == 2 && pauses.iter().all(|pause| *pause >= MS(200)), || {
        format!("the pauses were {pauses:?} instead of 200 ms each")
    })
}

async fn an_attempt_goes_on_from_the_offset_of_the_one_before(stage: &mut Stage) -> Played {
    let (run, file) = (stage.new_run(), stage.file());
    let steps = format!("append x;once {} fail not yet", file.display());
    let trigger = Trigger { offset: b"o".as_slice().into(), ..tried(stage.trigger_of(&run, &steps), 5, 50) };
    stage.say(Frame::Trigger(trigger)).await?;
    let report = stage.reported(&run, RunOutcome::Succeeded).await?;
    ensure(report.attempt == 2, || format!("the report is of attempt {}", report.attempt))?;
    ensure(report.offset.as_deref() == Some(b"oxx".as_slice()), || {
        format!("o and two attempts that append x make {:?}", report.offset)
    })
}

async fn what_is_fatal_is_not_tried_again(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    let trigger = tried(stage.trigger_of(&run, "fatal never"), 3, 50);
    stage.say(Frame::Trigger(trigger)).await?;
    let report = stage.reported(&run, RunOutcome::Failed).await?;
    ensure(report.attempt == 1, || format!("the report is of attempt {}", report.attempt))?;
    ensure(report.error.contains("never"), || format!("the error is {:?}", report.error))
}

async fn what_was_told_to_stop_is_not_tried_again(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    let trigger = tried(stage.trigger_of(&run, "ignore 300;fail not yet"), 5, 50);
    stage.say(Frame::Trigger(trigger)).await?;
    stage.started(&run).await?;
    stage.say(frames::cancel(&run, CancelReason::Operator)).await?;
    let report = stage.reported(&run, RunOutcome::Cancelled).await?;
    ensure(report.attempt == 1, || format!("the report is of attempt {}", report.attempt))?;
    // Between two attempts it ends at once.
    let run = stage.new_run();
    let trigger = tried(stage.trigger_of(&run, "fail not yet"), 5, 60_000);
    stage.say(Frame::Trigger(trigger)).await?;
    stage.line(&run, What::End).await?;
    stage.next_beat_names(&[&run]).await?;
    stage.say(frames::cancel(&run, CancelReason::Operator)).await?;
    stage.reported(&run, RunOutcome::Cancelled).await?;
    let starts = stage.lines(&run, What::Start).len();
    ensure(starts == 1, || format!("{starts} attempts began"))
}

async fn the_timeout_counts_over_all_attempts(stage: &mut Stage) -> Played {
    let run = stage.new_run();
    let trigger = Trigger {
        timeout: Some(frames::span(MS(1_200))),
        ..tried(stage.trigger_of(&run, "sleep 200;fail not yet"), 1_000, 100)
    };
    stage.say(Frame::Trigger(trigger)).await?;
    let report = stage.reported(&run, RunOutcome::TimedOut).await?;
    ensure(report.attempt > 1, || "it was stopped in its first attempt".into())?;
    let run = stage.new_run();
    let timeout = Some(frames::span(MS(300)));
    let trigger = Trigger { timeout, ..stage.trigger_of(&run, "sleep 60000") };
    stage.say(Frame::Trigger(trigger)).await?;
    let begun = at(&stage.started(&run).await?);
    let told = at(&stage.line(&run, What::Cancel).await?);
    stage.reported(&run, RunOutcome::TimedOut).await?;
    // Both clocks are the worker's; a client counts from a moment before its user code writes.
    ensure(told.saturating_sub(begun) >= MS(200), || {
        format!("it was told to stop {:?} after it began, its timeout is 300 ms", told.saturating_sub(begun))
    })
}
