//! What a coordinator says, and how frames look in a transcript.

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use rosterd_wire::proto::v1::session_request::Frame as Said;
use rosterd_wire::proto::v1::session_response::Frame;
use rosterd_wire::proto::v1::{
    Callback, CallbackKind, Cancel, CancelReason, Drain, Draining, GoodbyeAck, HeartbeatAck, Refused,
    ReportAck, ReportResult, RunOutcome, RunRef, SessionResponse, Shutdown, Trigger,
};

/// How many items a job of a script has.
pub(crate) const ITEMS: u32 = 100_000;

pub(crate) fn encode(frame: Frame) -> Bytes {
    SessionResponse { frame: Some(frame) }.encode_to_vec().into()
}

pub(crate) fn span(length: Duration) -> prost_types::Duration {
    length.try_into().unwrap_or_default()
}

pub(crate) fn run(job: &str, item: u32, token: u64) -> RunRef {
    RunRef { job: job.to_owned(), item, token }
}

pub(crate) fn heartbeat_ack(sequence: u64) -> Frame {
    Frame::HeartbeatAck(HeartbeatAck { sequence })
}

pub(crate) fn cancel(run: &RunRef, reason: CancelReason) -> Frame {
    cancel_by_number(run, reason.into())
}

/// Also with a reason that no version knows.
pub(crate) fn cancel_by_number(run: &RunRef, reason: i32) -> Frame {
    Frame::Cancel(Cancel { run: Some(run.clone()), reason, message: String::new() })
}

pub(crate) fn report_ack(run: &RunRef, result: ReportResult) -> Frame {
    let (code, message) = match result {
        ReportResult::Invalid => ("REPORT_INVALID", "the script does not like it"),
        ReportResult::Fenced => ("RUN_FENCED", "another run took its place"),
        _ => ("", ""),
    };
    let (code, message) = (code.to_owned(), message.to_owned());
    Frame::ReportAck(ReportAck { run: Some(run.clone()), result: result.into(), code, message })
}

pub(crate) fn refused(job: &str) -> Frame {
    let (code, message) = ("JOB_UNKNOWN".to_owned(), "the script refuses it".to_owned());
    Frame::Refused(Refused { job: job.to_owned(), code, message })
}

pub(crate) fn shutdown(job: &str) -> Frame {
    Frame::Shutdown(Shutdown { job: job.to_owned(), message: "the script says so".into() })
}

pub(crate) fn drain(grace: Option<Duration>) -> Frame {
    Frame::Drain(Drain { message: "the script says so".into(), grace: grace.map(span) })
}

pub(crate) fn draining() -> Frame {
    Frame::Draining(Draining {})
}

pub(crate) fn goodbye_ack() -> Frame {
    Frame::GoodbyeAck(GoodbyeAck {})
}

pub(crate) fn callback(id: &str, job: &str, timeout: Duration) -> Frame {
    Frame::Callback(Callback {
        callback_id: id.to_owned(),
        job: job.to_owned(),
        fire_time: Some(prost_types::Timestamp { seconds: 1_700_000_000, nanos: 0 }),
        kind: CallbackKind::AllStarted.into(),
        timeout: Some(span(timeout)),
    })
}

/// One line of a transcript.
pub(crate) fn show(frame: &Frame) -> String {
    let of = |run: &Option<RunRef>| run.as_ref().map(name).unwrap_or_default();
    match frame {
        Frame::Welcome(welcome) => format!("Welcome {}", welcome.worker_id),
        Frame::Trigger(Trigger { run, item_parameter, .. }) => {
            format!("Trigger {} {}", of(run), brief(item_parameter))
        }
        Frame::Cancel(cancel) => format!("Cancel {} reason {}", of(&cancel.run), cancel.reason),
        Frame::ReportAck(ack) => format!("ReportAck {} result {}", of(&ack.run), ack.result),
        Frame::HeartbeatAck(ack) => format!("HeartbeatAck {}", ack.sequence),
        Frame::Registered(registered) => format!("Registered {}", registered.job),
        Frame::Refused(refused) => format!("Refused {}", refused.job),
        Frame::Unregistered(gone) => format!("Unregistered {}", gone.job),
        Frame::Assignment(assignment) => format!("Assignment {}", assignment.job),
        Frame::Callback(callback) => format!("Callback {} of {}", callback.callback_id, callback.job),
        Frame::Drain(drain) => format!("Drain {:?}", drain.grace.as_ref().map(|grace| grace.seconds)),
        Frame::Draining(_) => "Draining".into(),
        Frame::GoodbyeAck(_) => "GoodbyeAck".into(),
        Frame::Shutdown(shutdown) => format!("Shutdown {:?}", shutdown.job),
    }
}

/// The same for what the worker says.
pub(crate) fn show_said(frame: &Said) -> String {
    let of = |run: &Option<RunRef>| run.as_ref().map(name).unwrap_or_default();
    match frame {
        Said::Hello(hello) => format!(
            "Hello stream {} worker {:?} jobs {:?} asked {:?} in flight {}",
            hello.stream_number,
            hello.worker_id,
            hello.jobs,
            hello.jobs_asked,
            names(&hello.runs_in_flight)
        ),
        Said::Register(register) => format!("Register {}", register.job),
        Said::Unregister(unregister) => format!("Unregister {}", unregister.job),
        Said::Heartbeat(beat) => {
            format!("Heartbeat {} in flight {}", beat.sequence, names(&beat.runs_in_flight))
        }
        Said::RunStarted(started) => format!("RunStarted {} attempt {}", of(&started.run), started.attempt),
        Said::RunProgress(progress) => format!("RunProgress {} {}", of(&progress.run), progress.percent),
        Said::RunCompleted(report) => {
            format!("RunCompleted {} {} {}", of(&report.run), outcome(report.outcome()), brief(&report.error))
        }
        Said::CallbackDone(done) => {
            format!("CallbackDone {} {:?} timed_out {}", done.callback_id, done.error, done.timed_out)
        }
        Said::DrainRequest(_) => "DrainRequest".into(),
        Said::Goodbye(_) => "Goodbye".into(),
    }
}

pub(crate) fn outcome(outcome: RunOutcome) -> &'static str {
    outcome.as_str_name().trim_start_matches("RUN_OUTCOME_")
}

pub(crate) fn name(run: &RunRef) -> String {
    format!("{}/{}#{}", run.job, run.item, run.token)
}

pub(crate) fn names(runs: &[RunRef]) -> String {
    let shown: Vec<String> = runs.iter().take(6).map(name).collect();
    let more = if runs.len() > shown.len() {
        format!(" and {} more", runs.len() - shown.len())
    } else {
        String::new()
    };
    format!("[{}]{more}", shown.join(" "))
}

pub(crate) fn brief(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() > 80 {
        line.chars().take(80).collect::<String>() + "…"
    } else {
        line.to_owned()
    }
}
