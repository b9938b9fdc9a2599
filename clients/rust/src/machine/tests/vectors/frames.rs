//! Frames from the words of vectors, and back.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use super::super::{Request, Response, RunId, proto};

/// The wall clock at time 0: 2026-01-01T00:00:00Z.
pub(super) const WALL: u64 = 1_767_225_600_000;

pub(super) fn run(text: &str) -> RunId {
    let mut parts = text.split('/');
    let mut part = || parts.next().unwrap_or_else(|| panic!("no run: {text}"));
    let (job, item, token) = (part().to_owned(), part(), part());
    RunId { job, item: item.parse().unwrap(), token: token.parse().unwrap() }
}

pub(super) fn run_text(RunId { job, item, token }: &RunId) -> String {
    format!("{job}/{item}/{token}")
}

/// A text, also one that is described.
pub(super) fn text(value: &Value) -> String {
    match (value.as_str(), &value["repeat"]) {
        (Some(text), _) => text.to_owned(),
        (None, Value::String(repeated)) => {
            repeated.repeat(usize::try_from(value["times"].as_u64().unwrap()).unwrap())
        }
        (None, _) => panic!("no text: {value}"),
    }
}

/// The fields of a frame; each is taken once.
pub(super) struct Fields(pub(super) Map<String, Value>);

impl Fields {
    pub(super) fn of(value: &Value) -> Self {
        Self(value.as_object().unwrap_or_else(|| panic!("no fields: {value}")).clone())
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    pub(super) fn text(&mut self, name: &str) -> String {
        self.take(name).map(|value| text(&value)).unwrap_or_default()
    }

    pub(super) fn number<N: TryFrom<i64> + Default>(&mut self, name: &str) -> N
    where
        N::Error: std::fmt::Debug,
    {
        self.take(name)
            .map(|value| N::try_from(value.as_i64().expect("a number")).unwrap())
            .unwrap_or_default()
    }

    fn flag(&mut self, name: &str) -> bool {
        self.take(name).is_some_and(|value| value.as_bool().unwrap())
    }

    pub(super) fn run(&mut self) -> Option<proto::RunRef> {
        self.take("run").map(|value| run(value.as_str().unwrap()).to_proto())
    }

    fn duration(&mut self, name: &str) -> Option<prost_types::Duration> {
        let millis = self.take(name)?.as_u64().expect("milliseconds");
        Duration::from_millis(millis).try_into().ok()
    }

    fn time(&mut self, name: &str) -> Option<prost_types::Timestamp> {
        let millis = self.take(name)?.as_u64().expect("milliseconds");
        Some((SystemTime::UNIX_EPOCH + Duration::from_millis(WALL + millis)).into())
    }

    fn texts(&mut self, name: &str) -> Vec<String> {
        self.take(name).map(|list| list.as_array().unwrap().iter().map(text).collect()).unwrap_or_default()
    }

    /// An enum value: its name without the prefix, or what is on the wire.
    fn value(&mut self, name: &str, known: impl Fn(&str) -> Option<i32>) -> i32 {
        match self.take(name) {
            None => 0,
            Some(Value::String(word)) => known(&word).unwrap_or_else(|| panic!("no {name}: {word}")),
            Some(number) => i32::try_from(number.as_i64().unwrap()).unwrap(),
        }
    }

    /// Fails if a field was not taken: it is not known.
    pub(super) fn end(self) {
        assert!(self.0.values().all(Value::is_null), "fields that are not known: {:?}", self.0);
    }
}

/// The default fields of a frame in a vector.
fn defaults(name: &str, given: &Fields) -> Value {
    match name {
        "welcome" => {
            let worker = given.0.get("worker_id").map_or_else(|| "w1".to_owned(), text);
            json!({
                "worker_id": worker, "instance_id": format!("here@-@{worker}"), "resume_key": format!("key of {worker}"),
                "lease": 5000, "heartbeat_interval": 1000, "stop_budget": 500, "max_unacknowledged_reports": 64,
            })
        }
        "trigger" => json!({
            "attempt": 1, "max_attempts": 1, "sharding_total_count": 3, "source": "NORMAL_TRIGGER", "kind": "SIMPLE",
        }),
        "report_ack" => json!({ "result": "ACCEPTED" }),
        "cancel" => json!({ "reason": "OPERATOR" }),
        _ => json!({}),
    }
}

/// The frame of this name; None: it is not known.
pub(super) fn response(name: &str, given: &Value) -> Option<Response> {
    let mut of = Fields::of(given);
    for (field, value) in defaults(name, &of).as_object().unwrap() {
        of.0.entry(field).or_insert_with(|| value.clone());
    }
    let frame = match name {
        "welcome" => Response::Welcome(welcome(&mut of)),
        "registered" => Response::Registered(proto::Registered {
            job: of.text("job"),
            sharding_total_count: of.number("sharding_total_count"),
            lease: of.duration("lease"),
            heartbeat_interval: of.duration("heartbeat_interval"),
            ..Default::default()
        }),
        "refused" => Response::Refused(proto::Refused {
            job: of.text("job"),
            code: of.text("code"),
            message: of.text("message"),
        }),
        "unregistered" => Response::Unregistered(proto::Unregistered { job: of.text("job") }),
        "heartbeat_ack" => Response::HeartbeatAck(proto::HeartbeatAck { sequence: of.number("sequence") }),
        "assignment" => Response::Assignment(assignment(&mut of)),
        "trigger" => Response::Trigger(trigger(&mut of)),
        "cancel" => Response::Cancel(proto::Cancel {
            run: of.run(),
            reason: of.value("reason", |word| {
                proto::CancelReason::from_str_name(&format!("CANCEL_REASON_{word}")).map(i32::from)
            }),
            message: of.text("message"),
        }),
        "report_ack" => Response::ReportAck(proto::ReportAck {
            run: of.run(),
            result: of.value("result", |word| {
                proto::ReportResult::from_str_name(&format!("REPORT_RESULT_{word}")).map(i32::from)
            }),
            code: of.text("code"),
            message: of.text("message"),
        }),
        "callback" => Response::Callback(proto::Callback {
            callback_id: of.text("callback_id"),
            job: of.text("job"),
            fire_time: of.time("fire_time"),
            kind: of.value("kind", |word| {
                proto::CallbackKind::from_str_name(&format!("CALLBACK_KIND_{word}")).map(i32::from)
            }),
            timeout: of.duration("timeout"),
        }),
        "drain" => Response::Drain(proto::Drain { message: of.text("message"), grace: of.duration("grace") }),
        "draining" => Response::Draining(proto::Draining {}),
        "goodbye_ack" => Response::GoodbyeAck(proto::GoodbyeAck {}),
        "shutdown" => {
            Response::Shutdown(proto::Shutdown { job: of.text("job"), message: of.text("message") })
        }
        "unknown" => return None,
        _ => panic!("no frame: {name}"),
    };
    of.end();
    Some(frame)
}

fn welcome(of: &mut Fields) -> proto::Welcome {
    proto::Welcome {
        worker_id: of.text("worker_id"),
        instance_id: of.text("instance_id"),
        resume_key: of.text("resume_key"),
        namespace: of.text("namespace"),
        lease: of.duration("lease"),
        heartbeat_interval: of.duration("heartbeat_interval"),
        stop_budget: of.duration("stop_budget"),
        coordinators: of.texts("coordinators"),
        max_unacknowledged_reports: of.number("max_unacknowledged_reports"),
        coordinator_id: of.text("coordinator_id"),
    }
}

fn assignment(of: &mut Fields) -> proto::Assignment {
    let items = of.take("items").unwrap_or_else(|| json!([]));
    let props = of.take("props").unwrap_or_else(|| json!({}));
    let item = |item: &Value| u32::try_from(item.as_u64().unwrap()).unwrap();
    proto::Assignment {
        job: of.text("job"),
        items: items.as_array().unwrap().iter().map(item).collect(),
        generation: of.number("generation"),
        sharding_total_count: of.number("sharding_total_count"),
        props: props.as_object().unwrap().iter().map(|(name, value)| (name.clone(), text(value))).collect(),
    }
}

fn trigger(of: &mut Fields) -> proto::Trigger {
    proto::Trigger {
        run: of.run(),
        fire_time: of.time("fire_time"),
        source: of.value("source", |word| {
            proto::RunSource::from_str_name(&format!("RUN_SOURCE_{word}")).map(i32::from)
        }),
        item_parameter: of.text("item_parameter"),
        job_parameter: of.text("job_parameter"),
        sharding_total_count: of.number("sharding_total_count"),
        attempt: of.number("attempt"),
        offset: of.text("offset").into(),
        timeout: of.duration("timeout"),
        kind: of
            .value("kind", |word| proto::JobKind::from_str_name(&format!("JOB_KIND_{word}")).map(i32::from)),
        streaming: of.flag("streaming"),
        max_attempts: of.number("max_attempts"),
        retry_backoff: of.duration("retry_backoff"),
        starts_in: of.duration("starts_in"),
        retry_backoff_multiplier: of.number("retry_backoff_multiplier"),
        retry_backoff_max: of.duration("retry_backoff_max"),
        task_id: of.text("task_id"),
        ..Default::default()
    }
}

// Times are shown as numbers with a fraction: they are compared with some room.

fn millis(time: Option<&prost_types::Duration>) -> Value {
    time.map_or(Value::Null, |time| json!(time.seconds as f64 * 1e3 + f64::from(time.nanos) / 1e6))
}

fn instant(time: Option<&prost_types::Timestamp>) -> Value {
    let since = |time: &prost_types::Timestamp| time.seconds as f64 * 1e3 - WALL as f64;
    time.map_or(Value::Null, |time| json!(since(time) + f64::from(time.nanos) / 1e6))
}

fn reference(run: Option<&proto::RunRef>) -> Value {
    run.map_or(Value::Null, |run| run_text(&RunId::from(run.clone())).into())
}

fn bytes(bytes: &[u8]) -> Value {
    String::from_utf8_lossy(bytes).into()
}

/// The name and the fields of a frame that goes out.
pub(super) fn shown(request: &Request) -> (&'static str, Value) {
    match request {
        Request::Hello(of) => ("hello", hello(of)),
        Request::Register(of) => (
            "register",
            json!({ "job": of.job, "handler_type": of.handler_type, "config": of.config, "overwrite": of.overwrite }),
        ),
        Request::Unregister(of) => ("unregister", json!({ "job": of.job })),
        Request::Heartbeat(of) => {
            let runs: Vec<_> = of.runs_in_flight.iter().map(|run| reference(Some(run))).collect();
            let lease = millis(of.lease.as_ref());
            ("heartbeat", json!({ "sequence": of.sequence, "runs_in_flight": runs, "lease": lease }))
        }
        Request::RunStarted(of) => {
            let (run, started_at) = (reference(of.run.as_ref()), instant(of.started_at.as_ref()));
            ("run_started", json!({ "run": run, "started_at": started_at, "attempt": of.attempt }))
        }
        Request::RunProgress(of) => {
            let (run, offset) = (reference(of.run.as_ref()), of.offset.as_deref().map(bytes));
            let (percent, message) = (of.percent, &of.message);
            ("run_progress", json!({ "run": run, "percent": percent, "message": message, "offset": offset }))
        }
        Request::RunCompleted(of) => ("run_completed", completed(of)),
        Request::CallbackDone(of) => (
            "callback_done",
            json!({ "callback_id": of.callback_id, "error": of.error, "timed_out": of.timed_out }),
        ),
        Request::DrainRequest(_) => ("drain_request", json!({})),
        Request::Goodbye(_) => ("goodbye", json!({})),
    }
}

fn hello(of: &proto::Hello) -> Value {
    let runs: Vec<_> = of.runs_in_flight.iter().map(|run| reference(Some(run))).collect();
    json!({
        "namespace": of.namespace, "worker_id": of.worker_id, "resume_key": of.resume_key,
        "stream_number": of.stream_number, "address": of.address, "labels": of.labels, "slots": of.slots,
        "runs_in_flight": runs, "client": of.client, "sent_at": instant(of.sent_at.as_ref()), "jobs": of.jobs,
        "holds_triggers": of.holds_triggers, "jobs_asked": of.jobs_asked,
    })
}

fn completed(of: &proto::RunCompleted) -> Value {
    let outcome = of.outcome().as_str_name().trim_start_matches("RUN_OUTCOME_");
    json!({
        "run": reference(of.run.as_ref()), "outcome": outcome, "error": of.error, "processed": of.processed,
        "failed": of.failed, "offset": of.offset.as_deref().map(bytes),
        "started_at": instant(of.started_at.as_ref()), "ended_at": instant(of.ended_at.as_ref()),
        "output": of.output, "attempt": of.attempt,
    })
}

pub(super) fn callback(of: &proto::Callback) -> Value {
    let kind = of.kind().as_str_name().trim_start_matches("CALLBACK_KIND_");
    json!({ "callback_id": of.callback_id, "job": of.job, "kind": kind })
}
