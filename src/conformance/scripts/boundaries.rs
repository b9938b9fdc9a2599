//! A stream that is lost at every boundary of the conversation, in turn by a cut, an end and a status: each time the worker
//! comes back, and what was under way comes to its end once.

use std::time::Duration;

use rosterd_domain::verify::What;
use rosterd_wire::proto::v1::session_request::Frame as Said;
use rosterd_wire::proto::v1::session_response::Frame;
use rosterd_wire::proto::v1::{Assignment, CancelReason, Hello, RunOutcome, RunRef};
use rustix::process::Signal;
use tonic::Code;

use super::runs::open;
use super::{Group, scene};
use crate::broken::{Played, ensure};
use crate::coordinator::frames;
use crate::event::{TimedEvent, WorkerEvent};
use crate::stage::{CALM, PATIENCE, Setting, Stage};

pub(super) const GROUPS: &[Group] = &[Group {
    name: "boundaries",
    setting: Setting { interval: Duration::from_millis(100), ..CALM },
    attached: true,
    seconds: 14,
    scenes: &[scene!(a_stream_may_be_lost_between_any_two_frames: "LINK-27")],
}];

/// After which frame the stream is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Hello,
    Welcome,
    Register,
    Registered,
    Assignment,
    Trigger,
    UserCode,
    RunStarted,
    Heartbeat,
    Cancel,
    RunCompleted,
    ReportAck,
    Callback,
    CallbackDone,
}

const ALL: [After; 14] = [
    After::Hello,
    After::Welcome,
    After::Register,
    After::Registered,
    After::Assignment,
    After::Trigger,
    After::UserCode,
    After::RunStarted,
    After::Heartbeat,
    After::Cancel,
    After::RunCompleted,
    After::ReportAck,
    After::Callback,
    After::CallbackDone,
];

async fn a_stream_may_be_lost_between_any_two_frames(stage: &mut Stage) -> Played {
    for (turn, after) in ALL.into_iter().enumerate() {
        stage.did(format!("the stream is to be lost after {after:?}"));
        one(stage, after, turn)
            .await
            .map_err(|broken| crate::broken::Broken(format!("lost after {after:?}: {broken}")))?;
    }
    leaving(stage).await
}

async fn lose(stage: &mut Stage, turn: usize) -> Played {
    match turn % 3 {
        0 => stage.cut(),
        1 => stage.end(None).await,
        _ => stage.end(Some(Code::Unavailable)).await,
    }
}

/// A heartbeat was acknowledged: the next loss is met at once.
async fn well(stage: &mut Stage) -> Played {
    stage.beat("", |_| true).await?;
    stage.beat("", |_| true).await.map(drop)
}

async fn one(stage: &mut Stage, after: After, turn: usize) -> Played {
    let (run, gate) = (stage.new_run(), stage.file());
    well(stage).await?;
    if matches!(after, After::Hello | After::Welcome | After::Register) {
        stage.cut()?;
        greet_until(stage, after).await?;
        lose(stage, turn).await?;
        let hello = stage.attach().await?;
        known(&hello)?;
        return stage.probe().await;
    }
    let id = format!("callback-{turn}");
    let stopped = after == After::Cancel;
    say_until(stage, after, &run, &gate, &id).await?;
    lose(stage, turn).await?;
    let hello = stage.hello().await?;
    known(&hello)?;
    stage.accept().await?;
    let from = stage.here();
    if matches!(after, After::Callback | After::CallbackDone) {
        stage.say(frames::callback(&id, stage.setting.jobs[0], PATIENCE)).await?;
        answered(stage, from, &id).await?;
        let is_call = |entry: &TimedEvent| {
            matches!(&entry.event, WorkerEvent::Line(line) if line.what == What::Hook).then_some(())
        };
        // One for each of the two scenes that have one. The answer may overtake the line on standard output.
        let wanted = if after == After::Callback { 1 } else { 2 };
        let mut seen = 0;
        let come = |entry: &TimedEvent| {
            seen += usize::from(is_call(entry).is_some());
            (seen >= wanted).then_some(())
        };
        stage.find(0, "the line of the callback", come).await?;
        let called = stage.all(0, is_call);
        return ensure(called.len() == wanted, || format!("{} callbacks were called", called.len()));
    }
    open(&gate);
    if hello.runs_in_flight.contains(&run) {
        let report = stage.report(&run).await?;
        let outcome = report.outcome();
        // User code may not have begun when its stream was lost; the last look forbids it then.
        let fine = match outcome {
            RunOutcome::Succeeded => true,
            RunOutcome::Cancelled => stopped,
            RunOutcome::NotStarted => after == After::Trigger,
            _ => false,
        };
        ensure(fine, || format!("the run is reported {}", frames::outcome(outcome)))?;
        stage.acknowledge(&run).await?;
    } else if after != After::ReportAck {
        // It was not told, or not heard: a coordinator says it again.
        stage.trigger(&run, "succeed").await?;
        stage.reported(&run, RunOutcome::Succeeded).await?;
    }
    stage.next_beat_names(&[]).await?;
    let begun = stage.lines(&run, What::Start).len();
    let wanted = if after == After::Trigger { 0..=1 } else { 1..=1 };
    ensure(wanted.contains(&begun), || format!("user code began {begun} times"))
}

/// A reconnect that is lost on its way.
async fn greet_until(stage: &mut Stage, after: After) -> Played {
    stage.hello().await?;
    if after == After::Hello {
        return Ok(());
    }
    stage.welcome().await?;
    if after == After::Register {
        stage.registers().await?;
    }
    Ok(())
}

async fn say_until(
    stage: &mut Stage,
    after: After,
    run: &RunRef,
    gate: &std::path::Path,
    callback: &str,
) -> Played {
    let job = stage.setting.jobs[0];
    match after {
        After::Hello | After::Welcome | After::Register => return Ok(()),
        After::Registered => return stage.register(job).await,
        After::Assignment => {
            return stage
                .say(Frame::Assignment(Assignment { job: job.into(), ..Assignment::default() }))
                .await;
        }
        After::Callback | After::CallbackDone => {
            let from = stage.here();
            stage.say(frames::callback(callback, job, PATIENCE)).await?;
            if after == After::Callback {
                return Ok(());
            }
            return answered(stage, from, callback).await;
        }
        _ => {}
    }
    stage.trigger(run, &format!("gate {}", gate.display())).await?;
    if after == After::Trigger {
        return Ok(());
    }
    stage.started(run).await?;
    match after {
        After::RunStarted => {
            let run = run.clone();
            stage
                .frame(0, "RunStarted", |frame| match frame {
                    Said::RunStarted(started) => (started.run.as_ref() == Some(&run)).then_some(()),
                    _ => None,
                })
                .await
        }
        After::Heartbeat => {
            stage.acknowledge_heartbeats(false);
            stage.beat("", |_| true).await?;
            stage.acknowledge_heartbeats(true);
            Ok(())
        }
        After::Cancel => stage.say(frames::cancel(run, CancelReason::Operator)).await,
        After::RunCompleted | After::ReportAck => {
            open(gate);
            stage.report(run).await?;
            if after == After::ReportAck { stage.acknowledge(run).await } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

async fn answered(stage: &mut Stage, from: usize, id: &str) -> Played {
    stage
        .frame(from, &format!("CallbackDone of {id}"), |frame| match frame {
            Said::CallbackDone(done) => (done.callback_id == id).then_some(()),
            _ => None,
        })
        .await
}

fn known(hello: &Hello) -> Played {
    ensure(hello.worker_id == "w1", || format!("the next Hello is of {:?}", hello.worker_id))
}

/// The same on the way out.
async fn leaving(stage: &mut Stage) -> Played {
    let broken = |after: &str| {
        let after = after.to_owned();
        move |broken: crate::broken::Broken| crate::broken::Broken(format!("lost after {after}: {broken}"))
    };
    stage.signal(Signal::TERM);
    stage.asks_to_drain().await?;
    stage.cut()?;
    again(stage).await.map_err(broken("DrainRequest"))?;
    stage.say(frames::draining()).await?;
    stage.end(None).await?;
    again(stage).await.map_err(broken("Draining"))?;
    stage.say(frames::draining()).await?;
    stage.says_goodbye().await?;
    stage.cut()?;
    again(stage).await.map_err(broken("Goodbye"))?;
    stage.say(frames::draining()).await?;
    stage.says_goodbye().await?;
    stage.say(frames::goodbye_ack()).await?;
    let code = stage.exits(PATIENCE).await?;
    ensure(code == Some(0), || format!("its exit code is {code:?}"))
}

/// The next stream: a leave starts again there.
async fn again(stage: &mut Stage) -> Played {
    known(&stage.hello().await?)?;
    stage.welcome().await?;
    stage.asks_to_drain().await
}
