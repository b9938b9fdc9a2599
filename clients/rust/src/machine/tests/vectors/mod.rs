//! The vectors of clients/spec/vectors, played as their README says.

mod compare;
mod frames;
mod rules;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tonic::Status;

use self::compare::{Said, compare};
use self::frames::{Fields, run_text, text};
use super::super::in_flight::Why;
use super::{
    Clocks, Effect, Ended, Exit, JobSpec, LinkError, Machine, MachineEvent, RunId, Settings, UserResult, ms,
    settings,
};
use crate::access::Access;

/// Names of vectors that this client does not pass yet. Empty at every release.
const KNOWN_FAILURES: &[&str] = &[];
const MOST_TICKS: usize = 1_000;

fn load() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../spec/vectors");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|is| is == "yaml")).collect();
    files.sort();
    let read = |path| yaml::read(&std::fs::read_to_string(path).unwrap()).as_array().unwrap().clone();
    files.iter().flat_map(read).collect()
}

#[test]
fn every_vector_is_passed() {
    let vectors = load();
    let names: BTreeSet<_> = vectors.iter().map(|vector| vector["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), vectors.len(), "each has a name of its own");
    assert!(KNOWN_FAILURES.iter().all(|name| names.contains(name)), "{KNOWN_FAILURES:?}");
    let mut problems = Vec::new();
    for vector in &vectors {
        let name = vector["name"].as_str().unwrap();
        match (Player::new(vector).play(), KNOWN_FAILURES.contains(&name)) {
            (Ok(()), true) => problems.push(format!("{name}: it passes, take it off the list")),
            (Err(problem), false) => problems.push(format!("{name}: {problem}")),
            _ => {}
        }
    }
    assert!(problems.is_empty(), "{} of {}:\n{}", problems.len(), vectors.len(), problems.join("\n"));
}

struct Player<'v> {
    vector: &'v Value,
    machine: Machine,
    time: Duration,
    /// The machine's numbers of its streams, in the order of their connects.
    streams: Vec<u64>,
    attempts: BTreeMap<RunId, u32>,
    expired: BTreeSet<RunId>,
    acknowledges: bool,
    said: Vec<Said>,
}

impl<'v> Player<'v> {
    fn new(vector: &'v Value) -> Self {
        let mut given = Fields::of(vector.get("given").unwrap_or(&json!({})));
        let texts = |value: Value| value.as_array().unwrap().iter().map(text).collect::<Vec<_>>();
        let jobs = texts(given.take("jobs").unwrap_or_else(|| json!(["j", "k"])));
        let spec = |name: String| JobSpec { handler_type: name.clone(), name, ..JobSpec::default() };
        let millis = |value: Option<Value>, or| ms(value.map_or(or, |value| value.as_u64().unwrap()));
        let servers = texts(given.take("servers").unwrap_or_else(|| json!(["a:1", "b:1"])));
        let mut says = |name: &str| given.take(name).is_some_and(|value| value == true);
        let access = Access {
            credential: says("credential").then(|| "secret".into()),
            ca: says("authorities").then(|| "ca.pem".into()),
            ..Access::default()
        };
        let settings = Settings {
            learn: access.learns(&servers),
            servers,
            jobs: jobs.into_iter().map(spec).collect(),
            slots: given.take("slots").map_or(4, |slots| u32::try_from(slots.as_u64().unwrap()).unwrap()),
            drain_timeout: millis(given.take("drain_timeout"), 30_000),
            leave_timeout: millis(given.take("leave_timeout"), 10_000),
            ..settings()
        };
        given.end();
        Self {
            vector,
            machine: Machine::new(settings),
            time: Duration::ZERO,
            streams: Vec::new(),
            attempts: BTreeMap::new(),
            expired: BTreeSet::new(),
            acknowledges: false,
            said: Vec::new(),
        }
    }

    fn play(mut self) -> Result<(), String> {
        if self.vector["begin"] == "attached" {
            self.attach();
        }
        for (number, step) in self.vector["steps"].as_array().unwrap().iter().enumerate() {
            let streams = self.streams.len();
            self.step(step)?;
            let said: Vec<_> = self.said.iter().filter(|one| self.is_listed(step, streams, one)).collect();
            compare(step, &said).map_err(|problem| {
                let said = self.said.iter().map(|one| format!("{} {} {}", one.at, one.kind, one.value));
                let said: Vec<_> = said.collect();
                format!("step {number} at {}: {problem}; said: {}", step["at"], said.join("; "))
            })?;
            self.said.clear();
        }
        Ok(())
    }

    fn is_listed(&self, step: &Value, streams: usize, one: &Said) -> bool {
        let unlisted = step.get("unlisted").or_else(|| self.vector.get("unlisted"));
        let unlisted = unlisted.cloned().unwrap_or_else(|| json!(["run_started"]));
        let named = unlisted.as_array().unwrap().iter().any(|kind| *kind == one.kind.as_str());
        let answered = step["acknowledge"] == true && one.kind == "heartbeat";
        let left = || step.get("stream").and_then(Value::as_u64).unwrap_or(streams as u64);
        let lost = step.get("lost").is_some() && one.kind == "close" && one.value == left();
        !(named || answered || lost)
    }

    fn attach(&mut self) {
        self.feed(MachineEvent::Tick);
        let connection = self.last();
        self.feed(MachineEvent::Connected { connection });
        self.frame("welcome", self.vector.get("welcome").unwrap_or(&json!({})), connection);
        let jobs: Vec<String> = self.machine.settings.jobs.iter().map(|job| job.name.clone()).collect();
        for job in jobs {
            self.frame("registered", &json!({ "job": job, "sharding_total_count": 3 }), connection);
        }
        self.said.clear();
    }

    fn last(&self) -> u64 {
        self.streams.last().copied().unwrap_or_default()
    }

    fn step(&mut self, step: &Value) -> Result<(), String> {
        self.acknowledges = step["acknowledge"] == true;
        let at = ms(step["at"].as_u64().unwrap());
        if step["asleep"] != true {
            self.tick_while(|due| due < at)?;
        }
        self.time = at;
        self.event(step);
        self.tick_while(|due| due <= at)
    }

    fn tick_while(&mut self, due: impl Fn(Duration) -> bool) -> Result<(), String> {
        for _ in 0..MOST_TICKS {
            if self.machine.exited || !due(self.machine.deadline()) {
                return Ok(());
            }
            self.time = self.time.max(self.machine.deadline());
            self.feed(MachineEvent::Tick);
        }
        Err(format!("the machine spins at {:?}", self.time))
    }

    // Input.

    fn event(&mut self, step: &Value) {
        let stream = step.get("stream").map(|stream| usize::try_from(stream.as_u64().unwrap()).unwrap());
        let connection = stream.map_or_else(|| self.last(), |stream| self.streams[stream - 1]);
        let of = |name: &str| step.get(name).map(Fields::of);
        let event = if step.get("start").is_some() || step.get("time").is_some() {
            MachineEvent::Tick
        } else if step.get("opened").is_some() {
            MachineEvent::Connected { connection }
        } else if let Some(mut lost) = of("lost") {
            MachineEvent::Closed { connection, error: error(&lost.text("code")) }
        } else if let Some(frame) = step.get("frame") {
            let (name, fields) = frame.as_object().unwrap().iter().next().unwrap();
            return self.frame(name, fields, connection);
        } else if let Some(said) = of("ended") {
            MachineEvent::Ended(self.ended(said))
        } else if let Some(mut said) = of("progress") {
            let run = RunId::from(said.run().unwrap());
            MachineEvent::Progress { run, percent: said.number("percent"), message: said.text("message") }
        } else if let Some(mut said) = of("offset") {
            MachineEvent::Offset { run: RunId::from(said.run().unwrap()), offset: said.text("offset").into() }
        } else if let Some(mut said) = of("found_expired") {
            // Reported with the end of the run.
            self.expired.insert(said.run().unwrap().into());
            MachineEvent::Tick
        } else if let Some(mut said) = of("callback_ended") {
            MachineEvent::CallbackEnded { callback_id: said.text("callback_id"), error: said.text("error") }
        } else if step.get("leave").is_some() {
            MachineEvent::Leave
        } else if step.get("kill").is_some() {
            MachineEvent::Kill
        } else {
            panic!("no event: {step}")
        };
        self.feed(event);
    }

    fn ended(&mut self, mut said: Fields) -> Ended {
        let id = RunId::from(said.run().unwrap());
        let error = said.text("error");
        let result = match said.text("result").as_str() {
            _ if self.expired.contains(&id) => UserResult::Overdue,
            "succeeded" => UserResult::Done,
            "failed" => UserResult::Failed { error, retry: true },
            "fatal" => UserResult::Failed { error, retry: false },
            "cancelled" => UserResult::Cancelled,
            other => panic!("no result: {other}"),
        };
        let attempt = self.attempts.get(&id).copied().unwrap_or(1);
        let (processed, failed) = (said.number("processed"), said.number("failed"));
        let (offset, output) = (said.take("offset").map(|offset| text(&offset).into()), said.text("output"));
        said.end();
        // Like user.rs.
        let cut = super::super::limits::cut;
        let output = cut(output, super::super::limits::OUTPUT_BYTES);
        let result = match result {
            UserResult::Failed { error, retry } => {
                UserResult::Failed { error: cut(error, super::super::limits::ERROR_BYTES), retry }
            }
            other => other,
        };
        Ended { id, attempt, result, processed, failed, offset, output }
    }

    fn frame(&mut self, name: &str, fields: &Value, connection: u64) {
        match frames::response(name, fields) {
            Some(frame) => self.feed(MachineEvent::Frame { connection, frame }),
            // Such a frame ends in the driver.
            None => self.feed(MachineEvent::Tick),
        }
    }

    fn feed(&mut self, event: MachineEvent) {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_millis(frames::WALL) + self.time;
        for effect in self.machine.handle(Clocks { mono: self.time, wall }, event) {
            self.take(effect);
        }
    }

    // Output.

    fn take(&mut self, effect: Effect) {
        match effect {
            Effect::Connect { connection, address } => {
                self.streams.push(connection);
                self.say("connect", address);
            }
            Effect::Close { connection } => {
                let stream = self.streams.iter().position(|stream| *stream == connection).unwrap() + 1;
                self.say("close", stream);
            }
            Effect::Send(frame) => {
                let (name, value) = frames::shown(&frame);
                let sequence = value["sequence"].clone();
                self.say(name, value);
                if name == "heartbeat" && self.acknowledges {
                    self.frame("heartbeat_ack", &json!({ "sequence": sequence }), self.last());
                }
            }
            Effect::Start(start) => {
                self.attempts.insert(start.id.clone(), start.attempt);
                let value = json!({
                    "run": run_text(&start.id), "attempt": start.attempt,
                    "offset": String::from_utf8_lossy(&start.offset), "props": *start.props,
                    "item_parameter": start.trigger.item_parameter, "job_parameter": start.trigger.job_parameter,
                    "instance_id": start.instance_id,
                });
                self.say("start", value);
            }
            Effect::Cancel(id) => {
                let reason = reason(self.machine.in_flight.runs[&id].stop.as_ref());
                self.say("stop", json!({ "run": run_text(&id), "reason": reason }));
            }
            Effect::StartCallback(callback) => self.say("callback", frames::callback(&callback)),
            Effect::Exit(exit) => self.say("finish", finish(&exit)),
            Effect::Abort(_) | Effect::StopCallback { .. } => {}
        }
    }

    fn say(&mut self, kind: &str, value: impl Into<Value>) {
        let at = self.time.as_secs_f64() * 1e3;
        self.said.push(Said { at, kind: kind.into(), value: value.into() });
    }
}

fn reason(why: Option<&Why>) -> &'static str {
    match why.expect("a reason") {
        Why::Operator(_) => "operator",
        Why::TimedOut => "timed_out",
        Why::DrainDeadline => "leaving",
        Why::LeaseEnded => "lease",
        Why::Fenced(_) => "fenced",
    }
}

fn finish(exit: &Exit) -> &'static str {
    match exit {
        Exit::Left => "left",
        Exit::LeaveTimedOut { .. } => "unacknowledged",
        Exit::Refused { .. } => "refused",
        Exit::Rejected(_) => "rejected",
        Exit::Killed => "killed",
    }
}

fn error(code: &str) -> LinkError {
    let status = |make: fn(&'static str) -> Status| LinkError::answered(&make("gone"));
    match code {
        "" => LinkError::lost("gone"),
        "UNAVAILABLE" => status(Status::unavailable),
        "UNAUTHENTICATED" => status(Status::unauthenticated),
        "PERMISSION_DENIED" => status(Status::permission_denied),
        "INVALID_ARGUMENT" => status(Status::invalid_argument),
        "NOT_FOUND" => status(Status::not_found),
        "UNIMPLEMENTED" => status(Status::unimplemented),
        "RESOURCE_EXHAUSTED" => status(Status::resource_exhausted),
        "FAILED_PRECONDITION" => status(Status::failed_precondition),
        "ABORTED" => status(Status::aborted),
        "INTERNAL" => status(Status::internal),
        _ => panic!("no status: {code}"),
    }
}
