//! Workers' frames to the words of the domain, and back. What comes in is hostile until it has passed here:
//! names become newtypes, texts are made fit for a terminal, lengths are limited, what is missing is refused by the name
//! of its field. What is
//! unknown (a frame or an enum value of a newer client) is ignored. Called by `worker` alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{Item, JobName, NameError, Namespace, ServerAddress, StreamNumber, Token, WorkerId};
use rosterd_domain::item::{Outcome, Source};
use rosterd_domain::job::Change;
use rosterd_domain::plan::Reported;

use crate::offer::{self, MAX_OFFER};
use crate::proto::v1;
use crate::scalar::{self, duration, timestamp};
use crate::status::{Malformed, cut};
use crate::text;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::{
    CallbackDone, CancelReason, Completed, FromWorker, Hello, RunKind, RunRef, ToWorker,
};
use rosterd_session::trace::FireTrace;
use v1::session_request::Frame as In;
use v1::session_response::Frame as Out;

/// Most labels of a worker, and the longest of their keys and values, in bytes.
pub const LABELS: (usize, usize) = (32, 128);
/// Longest error of a run, in bytes; more is cut.
pub const MAX_ERROR: usize = 8 << 10;
/// Longest output of a run, in bytes; of more the tail is kept.
pub const MAX_OUTPUT: usize = 64 << 10;
/// Largest offset of an item, in bytes; a larger one is refused.
pub const MAX_OFFSET: usize = 64 << 10;
/// Longest progress message, in bytes; more is cut.
pub const MAX_PROGRESS: usize = 1 << 10;
/// Longest job file that is applied at once, in bytes.
pub const MAX_CONFIG: usize = 512 << 10;
/// Longest short text (client, handler type, callback id), in bytes.
pub const MAX_TEXT: usize = 512;
/// Most slots of a worker.
pub const MAX_SLOTS: u32 = 4096;
/// Most runs that a frame names as in flight: all slots, and as many unacknowledged reports.
pub const MAX_IN_HAND: usize = 2 * MAX_SLOTS as usize;
/// Most jobs that a Hello names: as many as `max_jobs_per_worker` may allow.
pub const MAX_JOBS: usize = 100_000;

/// A frame that is refused.
#[derive(Debug)]
pub struct Defect {
    /// Where, and what the worker is told.
    pub malformed: Malformed,
    /// The answer that the frame has of its own; none: the stream ends.
    pub answer: Option<Box<v1::SessionResponse>>,
}

impl From<Malformed> for Defect {
    fn from(malformed: Malformed) -> Self {
        Self { malformed, answer: None }
    }
}

/// A worker's frame; `None`: one that this version does not know.
pub fn from_worker(frame: v1::SessionRequest) -> Result<Option<FromWorker>, Defect> {
    let Some(frame) = frame.frame else { return Ok(None) };
    Ok(Some(match frame {
        In::Hello(hello) => FromWorker::Hello(Box::new(from_hello(hello)?)),
        In::Register(register) => return from_register(register).map(Some),
        In::Unregister(v1::Unregister { job }) => {
            FromWorker::Unregister { job: name(Code::NameInvalid, "unregister.job", JobName::new(job))? }
        }
        In::Heartbeat(beat) => FromWorker::Heartbeat {
            sequence: beat.sequence,
            in_flight: runs(Code::RequestInvalid, "heartbeat.runs_in_flight", beat.runs_in_flight)?,
            lease: beat.lease.and_then(scalar::to_duration),
        },
        In::RunStarted(started) => FromWorker::RunStarted {
            run: run(Code::ReportInvalid, "run_started.run", started.run)?,
            at: started.started_at.and_then(scalar::to_time),
            attempt: started.attempt.max(1),
        },
        In::RunProgress(progress) => FromWorker::RunProgress {
            run: run(Code::ReportInvalid, "run_progress.run", progress.run)?,
            percent: progress.percent.min(100),
            message: text::line(&progress.message, MAX_PROGRESS),
            offset: offset("run_progress.offset", progress.offset)?,
        },
        In::RunCompleted(completed) => return from_completed(completed).map(Some),
        In::CallbackDone(done) => FromWorker::CallbackDone(CallbackDone {
            callback: short("callback_done.callback_id", done.callback_id)?,
            error: error(&done.error),
            timed_out: done.timed_out,
        }),
        In::DrainRequest(_) => FromWorker::DrainRequest,
        In::Goodbye(_) => FromWorker::Goodbye,
    }))
}

fn from_hello(hello: v1::Hello) -> Result<Hello, Malformed> {
    const CODE: Code = Code::HelloInvalid;
    let namespace = (!hello.namespace.is_empty())
        .then(|| name(CODE, "hello.namespace", Namespace::new(hello.namespace)))
        .transpose()?;
    let identity = (!hello.worker_id.is_empty())
        .then(|| name(CODE, "hello.worker_id", WorkerId::new(hello.worker_id)))
        .transpose()?
        .map(|worker| (worker, cut(&hello.resume_key, MAX_TEXT).to_owned()));
    if hello.stream_number == 0 {
        return Err(Malformed::new(CODE, "hello.stream_number", "it is 0: number the streams from 1"));
    }
    if !(1..=MAX_SLOTS).contains(&hello.slots) {
        let what = format!("{} is not in 1 to {MAX_SLOTS}", hello.slots);
        return Err(Malformed::new(CODE, "hello.slots", what));
    }
    Ok(Hello {
        namespace,
        identity,
        stream: StreamNumber(hello.stream_number),
        address: name(CODE, "hello.address", ServerAddress::new(hello.address))?,
        labels: labels(hello.labels)?,
        slots: hello.slots,
        in_flight: runs(CODE, "hello.runs_in_flight", hello.runs_in_flight)?,
        jobs: jobs("hello.jobs", hello.jobs)?,
        asked: jobs("hello.jobs_asked", hello.jobs_asked)?,
        client: text::line(&hello.client, MAX_TEXT),
        sent_at: hello.sent_at.and_then(scalar::to_time),
        holds_triggers: hello.holds_triggers,
    })
}

fn jobs(field: &'static str, jobs: Vec<String>) -> Result<Vec<JobName>, Malformed> {
    if jobs.len() > MAX_JOBS {
        let what = format!("{} jobs are more than {MAX_JOBS}", jobs.len());
        return Err(Malformed::new(Code::TooManyJobs, field, what));
    }
    jobs.into_iter().map(|job| name(Code::HelloInvalid, field, JobName::new(job))).collect()
}

fn labels(labels: std::collections::HashMap<String, String>) -> Result<BTreeMap<String, String>, Malformed> {
    let (most, longest) = LABELS;
    let refuse = |what: String| Err(Malformed::new(Code::HelloInvalid, "hello.labels", what));
    if labels.len() > most {
        return refuse(format!("{} labels are more than {most}", labels.len()));
    }
    for (key, value) in &labels {
        if key.len() > longest || value.len() > longest {
            return refuse(format!("{:?} is longer than {longest} bytes", cut(key, longest)));
        }
    }
    // What stands for a control character is three times as long: nothing is cut.
    let fit = |text: String| text::line(&text, 3 * longest);
    Ok(labels.into_iter().map(|(key, value)| (fit(key), fit(value))).collect())
}

/// Why something failed: it may have several lines, as a traceback has.
fn error(said: &str) -> String {
    cut(&text::lines(said), MAX_ERROR).to_owned()
}

fn from_register(register: v1::Register) -> Result<FromWorker, Defect> {
    let refused = |malformed: Malformed, job: &str| {
        let refused = v1::Refused {
            job: job.to_owned(),
            code: malformed.refusal.code.as_str().to_owned(),
            message: malformed.refusal.message.clone(),
        };
        Defect { malformed, answer: Some(Box::new(frame(Out::Refused(refused)))) }
    };
    let job = name(Code::NameInvalid, "register.job", JobName::new(&register.job))
        .map_err(|defect| refused(defect, cut(&register.job, MAX_TEXT)))?;
    let too_long = |field: &str, max: usize, code| {
        refused(Malformed::new(code, field, format!("it is longer than {max} bytes")), job.as_str())
    };
    if register.handler_type.len() > MAX_TEXT {
        return Err(too_long("register.handler_type", MAX_TEXT, Code::RequestInvalid));
    }
    if text::line(&register.handler_type, MAX_TEXT) != register.handler_type {
        let what = "it holds a control or bidirectional character: name the type without";
        return Err(refused(
            Malformed::new(Code::RequestInvalid, "register.handler_type", what),
            job.as_str(),
        ));
    }
    if register.config.len() > MAX_OFFER {
        return Err(too_long("register.config", MAX_OFFER, Code::ConfigInvalid));
    }
    let offered =
        (!register.config.is_empty()).then(|| offer::parse(&job, &register.config, &register.handler_type));
    Ok(FromWorker::Register {
        job,
        handler_type: register.handler_type,
        config: offered,
        overwrite: register.overwrite,
    })
}

/// A report that breaks a rule is answered and forgotten by its worker: ending the stream would only bring it
/// again.
fn from_completed(completed: v1::RunCompleted) -> Result<FromWorker, Defect> {
    let named = completed.run.clone();
    completed_parts(completed).map_err(|malformed| {
        let ack = v1::ReportAck {
            run: named.clone(),
            result: v1::ReportResult::Invalid.into(),
            code: malformed.refusal.code.as_str().to_owned(),
            message: malformed.refusal.message.clone(),
        };
        Defect { answer: named.map(|_| Box::new(frame(Out::ReportAck(ack)))), malformed }
    })
}

fn completed_parts(completed: v1::RunCompleted) -> Result<FromWorker, Malformed> {
    let outcome = completed.outcome();
    let run = run(Code::ReportInvalid, "run_completed.run", completed.run)?;
    let ended = match outcome {
        v1::RunOutcome::Succeeded => Reported::Done(Outcome::Succeeded),
        v1::RunOutcome::Failed => Reported::Done(Outcome::Failed),
        v1::RunOutcome::Cancelled => Reported::Done(Outcome::Cancelled),
        v1::RunOutcome::TimedOut => Reported::Done(Outcome::TimedOut),
        v1::RunOutcome::Aborted => Reported::Aborted,
        v1::RunOutcome::NotStarted => Reported::NotStarted,
        v1::RunOutcome::HandedBack => Reported::HandedBack,
        v1::RunOutcome::Unspecified | v1::RunOutcome::Crashed => {
            let what = format!("{} is not an outcome that a worker reports", outcome.as_str_name());
            return Err(Malformed::new(Code::ReportInvalid, "run_completed.outcome", what));
        }
    };
    Ok(FromWorker::RunCompleted(Box::new(Completed {
        run,
        ended,
        error: error(&completed.error),
        counts: (completed.processed, completed.failed),
        offset: offset("run_completed.offset", completed.offset)?,
        started_at: completed.started_at.and_then(scalar::to_time),
        ended_at: completed.ended_at.and_then(scalar::to_time),
        output: scalar::tail(&text::lines(&completed.output), MAX_OUTPUT).to_owned(),
        attempt: completed.attempt.max(1),
    })))
}

fn offset(field: &str, offset: Option<bytes::Bytes>) -> Result<Option<Arc<[u8]>>, Malformed> {
    let Some(offset) = offset else { return Ok(None) };
    if offset.len() > MAX_OFFSET {
        let what = format!("its {} bytes are more than {MAX_OFFSET}; keep less in it", offset.len());
        return Err(Malformed::new(Code::ReportInvalid, field, what));
    }
    Ok(Some(Arc::from(&offset[..])))
}

fn name<T>(code: Code, field: &str, parsed: Result<T, NameError>) -> Result<T, Malformed> {
    parsed.map_err(|error| Malformed::new(code, field, error))
}

fn short(field: &str, text: String) -> Result<String, Malformed> {
    if text.len() > MAX_TEXT {
        let what = format!("it is longer than {MAX_TEXT} bytes");
        return Err(Malformed::new(Code::RequestInvalid, field, what));
    }
    Ok(text)
}

fn run(code: Code, field: &str, run: Option<v1::RunRef>) -> Result<RunRef, Malformed> {
    let Some(run) = run else { return Err(Malformed::new(code, field, "it is missing")) };
    if i64::try_from(run.token).is_err() {
        return Err(Malformed::new(code, format!("{field}.token"), "it has more than 63 bits"));
    }
    // The field is spelled only for who is refused: most frames of a worker name runs.
    let job = JobName::new(run.job).map_err(|error| Malformed::new(code, format!("{field}.job"), error))?;
    Ok(RunRef { job, item: Item(run.item), token: Token(run.token) })
}

fn runs(code: Code, field: &str, list: Vec<v1::RunRef>) -> Result<Vec<RunRef>, Malformed> {
    if list.len() > MAX_IN_HAND {
        let what = format!("{} runs are more than {MAX_IN_HAND}", list.len());
        return Err(Malformed::new(code, field, what));
    }
    list.into_iter().map(|each| run(code, field, Some(each))).collect()
}

fn to_difference(change: &Change) -> v1::ConfigDifference {
    let (stored, offered) = change.shown();
    v1::ConfigDifference { field: change.field.clone(), stored, offered }
}

fn frame(frame: Out) -> v1::SessionResponse {
    v1::SessionResponse { frame: Some(frame) }
}

/// A frame for the worker; `Close` has no frame: it ends the stream.
pub fn to_worker(to: ToWorker) -> Result<v1::SessionResponse, Option<Refusal>> {
    Ok(frame(match to {
        ToWorker::Welcome(welcome) => Out::Welcome(v1::Welcome {
            worker_id: welcome.worker.into(),
            instance_id: welcome.instance.into(),
            resume_key: welcome.resume_key,
            namespace: welcome.namespace.into(),
            lease: Some(duration(welcome.lease)),
            heartbeat_interval: Some(duration(welcome.heartbeat)),
            stop_budget: Some(duration(welcome.stop_budget)),
            coordinators: welcome.coordinators,
            max_unacknowledged_reports: welcome.max_reports,
            coordinator_id: welcome.coordinator,
        }),
        ToWorker::Registered { job, items, kind, lease, heartbeat, ignored, next } => {
            Out::Registered(v1::Registered {
                config_differences: ignored.iter().map(to_difference).collect(),
                job: job.into(),
                sharding_total_count: items,
                kind: to_kind(kind).into(),
                streaming: streams(kind),
                lease: Some(duration(lease)),
                heartbeat_interval: Some(duration(heartbeat)),
                next_fire_in: next.map(duration),
            })
        }
        ToWorker::Refused { job, refusal } => {
            Out::Refused(v1::Refused { job, code: refusal.code.to_string(), message: refusal.message })
        }
        ToWorker::Unregistered { job } => Out::Unregistered(v1::Unregistered { job: job.into() }),
        ToWorker::HeartbeatAck { sequence } => Out::HeartbeatAck(v1::HeartbeatAck { sequence }),
        ToWorker::Assignment { job, items, generation, total, props } => Out::Assignment(v1::Assignment {
            props: props.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            job: job.into(),
            items: items.into_iter().map(|Item(item)| item).collect(),
            generation,
            sharding_total_count: total,
        }),
        ToWorker::Trigger(trigger) => Out::Trigger(to_trigger(*trigger)),
        ToWorker::Cancel { run, reason, message } => {
            Out::Cancel(v1::Cancel { run: Some(to_run(run)), reason: to_reason(reason).into(), message })
        }
        ToWorker::ReportAck { run, refusal } => Out::ReportAck(to_ack(run, refusal)),
        ToWorker::Callback { id, job, fire, completed, timeout } => Out::Callback(v1::Callback {
            callback_id: id,
            job: job.into(),
            fire_time: Some(timestamp(fire)),
            kind: if completed { v1::CallbackKind::AllCompleted } else { v1::CallbackKind::AllStarted }
                .into(),
            timeout: Some(duration(timeout)),
        }),
        ToWorker::Drain { message, grace } => {
            let grace = (grace != Duration::MAX).then(|| duration(grace));
            Out::Drain(v1::Drain { message, grace })
        }
        ToWorker::Draining => Out::Draining(v1::Draining {}),
        ToWorker::GoodbyeAck => Out::GoodbyeAck(v1::GoodbyeAck {}),
        ToWorker::Shutdown { job, message } => {
            Out::Shutdown(v1::Shutdown { job: job.map(String::from).unwrap_or_default(), message })
        }
        ToWorker::Close(why) => return Err(why),
    }))
}

fn to_trigger(trigger: rosterd_session::frame::Trigger) -> v1::Trigger {
    let retries = trigger.retries;
    let trace = FireTrace::new(&trigger.run.job, &trigger.incarnation, trigger.fire);
    let parent = trace.parent(trigger.run.item, trigger.run.token, trigger.sampled);
    v1::Trigger {
        run: Some(to_run(trigger.run)),
        fire_time: Some(timestamp(trigger.fire)),
        source: to_source(trigger.source).into(),
        item_parameter: trigger.item_parameter,
        job_parameter: trigger.job_parameter,
        sharding_total_count: trigger.total,
        attempt: 1,
        offset: bytes::Bytes::copy_from_slice(&trigger.offset),
        timeout: trigger.timeout.map(duration),
        kind: to_kind(trigger.kind).into(),
        streaming: streams(trigger.kind),
        max_attempts: retries.max_attempts.max(1),
        retry_backoff: Some(duration(retries.backoff.max(Duration::from_millis(1)))),
        retry_backoff_multiplier: retries.backoff_multiplier,
        retry_backoff_max: Some(duration(retries.backoff_max)),
        task_id: trigger.task_id,
        trace_context: [("traceparent".to_owned(), parent)].into(),
        starts_in: (!trigger.starts_in.is_zero()).then(|| duration(trigger.starts_in)),
    }
}

fn to_ack(run: RunRef, refusal: Option<Refusal>) -> v1::ReportAck {
    let result = match refusal.as_ref().map(|refusal| refusal.code) {
        None => v1::ReportResult::Accepted,
        Some(Code::ReportFenced) => v1::ReportResult::Fenced,
        Some(_) => v1::ReportResult::Invalid,
    };
    let (code, message) =
        refusal.map_or_else(Default::default, |refusal| (refusal.code.to_string(), refusal.message));
    v1::ReportAck { run: Some(to_run(run)), result: result.into(), code, message }
}

fn to_run(run: RunRef) -> v1::RunRef {
    v1::RunRef { job: run.job.into(), item: run.item.0, token: run.token.0 }
}

pub fn to_source(source: Source) -> v1::RunSource {
    match source {
        Source::NormalTrigger => v1::RunSource::NormalTrigger,
        Source::Misfire => v1::RunSource::Misfire,
        Source::Failover => v1::RunSource::Failover,
        Source::Manual => v1::RunSource::Manual,
    }
}

fn to_kind(kind: RunKind) -> v1::JobKind {
    match kind {
        RunKind::Simple => v1::JobKind::Simple,
        RunKind::Dataflow { .. } => v1::JobKind::Dataflow,
        RunKind::Command => v1::JobKind::Command,
    }
}

fn streams(kind: RunKind) -> bool {
    matches!(kind, RunKind::Dataflow { streaming: true })
}

fn to_reason(reason: CancelReason) -> v1::CancelReason {
    match reason {
        CancelReason::Operator => v1::CancelReason::Operator,
        CancelReason::Fenced => v1::CancelReason::Fenced,
        CancelReason::TimedOut => v1::CancelReason::TimedOut,
    }
}

#[cfg(test)]
#[path = "convert_test.rs"]
mod tests;
