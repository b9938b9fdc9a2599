//! Callbacks of fires: called once, answered as often as they are asked for.

use std::time::Duration;

use rosterd_domain::verify::What;
use rosterd_wire::proto::v1::CallbackDone;
use rosterd_wire::proto::v1::session_request::Frame as Said;

use super::{Group, scene};
use crate::broken::{Played, ensure};
use crate::coordinator::frames;
use crate::event::{TimedEvent, WorkerEvent};
use crate::stage::{CALM, PATIENCE, Setting, Stage};

/// The names say what the callbacks do: the second takes two seconds, the third fails.
const FAST: &str = "conformance";
const SLOW: &str = "slow-callback";
const BAD: &str = "bad-callback";

pub(super) const GROUPS: &[Group] = &[Group {
    name: "calls",
    setting: Setting { jobs: &[FAST, SLOW, BAD], ..CALM },
    attached: true,
    seconds: 14,
    scenes: &[
        scene!(a_callback_is_called_once: "CALL-1"),
        scene!(an_answer_is_given_again_when_it_is_asked_for_again: "CALL-2"),
        scene!(an_answer_outlives_its_stream: "CALL-5", "CALL-2"),
        scene!(as_many_as_slots_are_called_at_a_time: "CALL-3"),
        scene!(one_that_takes_too_long_is_answered_for: "CALL-4"),
        scene!(one_that_fails_is_answered_with_its_text: "CALL-7"),
    ],
}];

async fn done(stage: &mut Stage, from: usize, id: &str) -> Played<CallbackDone> {
    stage
        .frame(from, &format!("CallbackDone of {id}"), |frame| match frame {
            Said::CallbackDone(done) if done.callback_id == id => Some(done.clone()),
            _ => None,
        })
        .await
}

fn fine(done: &CallbackDone) -> Played {
    ensure(done.error.is_empty() && !done.timed_out, || format!("it is answered {done:?}"))
}

fn is_call(entry: &TimedEvent) -> bool {
    matches!(&entry.event, WorkerEvent::Line(line) if line.what == What::Hook)
}

/// Waits for as many calls of user code since then, and sees that there were no more. What a worker prints comes by another
/// way than what it answers, and may come later.
async fn ensure_called(stage: &mut Stage, from: usize, wanted: usize) -> Played {
    let mut seen = 0;
    stage
        .find(from, &format!("call {wanted} of user code"), |entry| {
            seen += usize::from(is_call(entry));
            (seen >= wanted).then_some(())
        })
        .await?;
    let times = stage.all(from, |entry| is_call(entry).then_some(())).len();
    ensure(times == wanted, || format!("user code was called {times} times instead of {wanted}"))
}

async fn a_callback_is_called_once(stage: &mut Stage) -> Played {
    let from = stage.here();
    stage.say(frames::callback("once-fast", FAST, PATIENCE)).await?;
    fine(&done(stage, from, "once-fast").await?)?;
    ensure_called(stage, from, 1).await?;
    let from = stage.here();
    for _ in 0..3 {
        stage.say(frames::callback("once-slow", SLOW, PATIENCE)).await?;
    }
    fine(&done(stage, from, "once-slow").await?)?;
    stage.probe().await?;
    ensure_called(stage, from, 1).await?;
    let answers = stage.frames(from, |frame| match frame {
        Said::CallbackDone(done) => (done.callback_id == "once-slow").then_some(()),
        _ => None,
    });
    ensure(answers.len() == 1, || format!("it was answered {} times", answers.len()))
}

async fn an_answer_is_given_again_when_it_is_asked_for_again(stage: &mut Stage) -> Played {
    let begun = stage.here();
    for _ in 0..3 {
        let from = stage.here();
        stage.say(frames::callback("again", FAST, PATIENCE)).await?;
        fine(&done(stage, from, "again").await?)?;
    }
    ensure_called(stage, begun, 1).await
}

async fn an_answer_outlives_its_stream(stage: &mut Stage) -> Played {
    let begun = stage.here();
    stage.say(frames::callback("outlives", SLOW, PATIENCE)).await?;
    stage.find(begun, "the call", |entry| is_call(entry).then_some(())).await?;
    stage.cut()?;
    stage.attach().await?;
    let from = stage.here();
    stage.say(frames::callback("outlives", SLOW, PATIENCE)).await?;
    fine(&done(stage, from, "outlives").await?)?;
    stage.next_rule();
    ensure_called(stage, begun, 1).await
}

async fn as_many_as_slots_are_called_at_a_time(stage: &mut Stage) -> Played {
    let from = stage.here();
    let slots = stage.setting.slots;
    for number in 0..slots {
        stage.say(frames::callback(&format!("slot-{number}"), SLOW, PATIENCE)).await?;
    }
    stage.say(frames::callback("one-more", FAST, PATIENCE)).await?;
    let more = done(stage, from, "one-more").await?;
    ensure(!more.error.is_empty(), || "one more than there are slots was called".into())?;
    for number in 0..slots {
        fine(&done(stage, from, &format!("slot-{number}")).await?)?;
    }
    ensure_called(stage, from, slots as usize).await?;
    // Its answer was not its own: asked again it is called.
    let from = stage.here();
    stage.say(frames::callback("one-more", FAST, PATIENCE)).await?;
    fine(&done(stage, from, "one-more").await?)?;
    ensure_called(stage, from, 1).await
}

async fn one_that_takes_too_long_is_answered_for(stage: &mut Stage) -> Played {
    let from = stage.here();
    stage.say(frames::callback("late", SLOW, Duration::from_millis(300))).await?;
    let late = done(stage, from, "late").await?;
    ensure(late.timed_out && !late.error.is_empty(), || format!("it is answered {late:?}"))?;
    let from = stage.here();
    stage.say(frames::callback("late", SLOW, Duration::from_millis(300))).await?;
    let again = done(stage, from, "late").await?;
    ensure(again == late, || format!("and then {again:?}"))
}

async fn one_that_fails_is_answered_with_its_text(stage: &mut Stage) -> Played {
    let from = stage.here();
    stage.say(frames::callback("bad", BAD, PATIENCE)).await?;
    let bad = done(stage, from, "bad").await?;
    ensure(bad.error.contains("refused") && !bad.timed_out, || format!("it is answered {bad:?}"))
}
