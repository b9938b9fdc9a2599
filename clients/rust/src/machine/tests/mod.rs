//! The machine against a coordinator that each test scripts: every rule has its own tests.

mod chaos;
mod early;
mod jobs;
mod leave;
#[cfg(feature = "mutants")]
mod mutants;
mod runs;
mod start;
mod stream;
mod vectors;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::types::{Clocks, Effect, Ended, Exit, JobSpec, MachineEvent, RunId, Settings, Start, UserResult};
use super::{Machine, Request, Response};
use crate::access::Learn;
use crate::link_error::LinkError;
use crate::options::OnRefused;
use crate::proto;
use crate::proto::{RunCompleted, RunOutcome, RunRef, Trigger, Welcome};

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) fn proto_ms(millis: u64) -> Option<prost_types::Duration> {
    ms(millis).try_into().ok()
}

/// A machine, its time, and its output since the last check.
pub(super) struct Bench {
    pub(super) machine: Machine,
    pub(super) mono: Duration,
    pub(super) said: Vec<Effect>,
    pub(super) connection: u64,
    /// When runs began, and whether the lease was valid then.
    pub(super) began: BTreeMap<RunId, (Duration, bool)>,
}

pub(super) fn settings() -> Settings {
    let job = |name: &str| JobSpec { name: name.into(), handler_type: name.into(), ..JobSpec::default() };
    Settings {
        servers: vec!["a".into(), "b".into()],
        learn: Learn::All,
        namespace: String::new(),
        address: "here".into(),
        labels: BTreeMap::new(),
        slots: 3,
        jobs: vec![job("j"), job("k")],
        drain_timeout: ms(30_000),
        leave_timeout: ms(10_000),
        stop_grace: ms(5_000),
        on_refused: OnRefused::Exit,
        seed: 1,
    }
}

pub(super) fn welcome(worker_id: &str) -> Welcome {
    Welcome {
        worker_id: worker_id.into(),
        instance_id: format!("here@-@{worker_id}"),
        resume_key: "key".into(),
        lease: proto_ms(5_000),
        heartbeat_interval: proto_ms(1_000),
        stop_budget: proto_ms(500),
        max_unacknowledged_reports: 2,
        ..Welcome::default()
    }
}

pub(super) fn id(item: u32, token: u64) -> RunId {
    RunId { job: "j".into(), item, token }
}

pub(super) fn trigger(item: u32, token: u64) -> Trigger {
    Trigger { run: Some(id(item, token).to_proto()), attempt: 1, max_attempts: 1, ..Trigger::default() }
}

impl Bench {
    /// Not connected yet.
    pub(super) fn new(settings: Settings) -> Self {
        let mut bench = Self {
            machine: Machine::new(settings),
            mono: ms(0),
            said: Vec::new(),
            connection: 0,
            began: BTreeMap::new(),
        };
        bench.advance(0);
        bench
    }

    /// Attached as worker w1 since 0 ms.
    pub(super) fn attached() -> Self {
        Self::attached_with(settings(), welcome("w1"))
    }

    pub(super) fn attached_with(settings: Settings, welcome: Welcome) -> Self {
        let mut bench = Self::new(settings);
        bench.connect();
        bench.frame(Response::Welcome(welcome));
        bench.said.clear();
        bench
    }

    pub(super) fn event(&mut self, event: MachineEvent) {
        let now = Clocks { mono: self.mono, wall: SystemTime::UNIX_EPOCH + self.mono };
        for effect in self.machine.handle(now, event) {
            if let Effect::Connect { connection, .. } = &effect {
                self.connection = *connection;
            }
            if let Effect::Start(start) = &effect {
                let leased = self.machine.lease.valid(self.mono);
                self.began.insert(start.id.clone(), (self.mono, leased));
            }
            self.said.push(effect);
        }
    }

    /// Lets time pass to `to` milliseconds, with a tick at every deadline on the way.
    pub(super) fn advance(&mut self, to: u64) {
        for _ in 0..10_000 {
            let due = self.machine.deadline();
            if due > ms(to) || self.machine.exited {
                self.mono = self.mono.max(ms(to));
                return;
            }
            self.mono = self.mono.max(due);
            self.event(MachineEvent::Tick);
        }
        panic!("the machine spins at {:?}: {:?}", self.mono, self.machine.deadline());
    }

    /// The process sleeps: no tick on the way.
    pub(super) fn sleep(&mut self, to: u64) {
        self.mono = ms(to);
    }

    pub(super) fn connect(&mut self) {
        self.event(MachineEvent::Connected { connection: self.connection });
    }

    pub(super) fn close(&mut self) {
        let error = LinkError::lost("gone");
        self.event(MachineEvent::Closed { connection: self.connection, error });
    }

    /// Loses the stream and gets another one.
    pub(super) fn reattach(&mut self, worker_id: &str) {
        self.close();
        let old = self.connection;
        while self.connection == old {
            self.mono = self.mono.max(self.machine.deadline());
            self.event(MachineEvent::Tick);
        }
        self.connect();
        self.frame(Response::Welcome(welcome(worker_id)));
    }

    pub(super) fn frame(&mut self, frame: Response) {
        self.event(MachineEvent::Frame { connection: self.connection, frame });
    }

    pub(super) fn trigger(&mut self, item: u32, token: u64) {
        self.frame(Response::Trigger(trigger(item, token)));
    }

    /// A Trigger that comes before its time.
    pub(super) fn trigger_early(&mut self, item: u32, token: u64, starts_in: u64) {
        let early = Trigger { starts_in: proto_ms(starts_in), ..trigger(item, token) };
        self.frame(Response::Trigger(early));
    }

    pub(super) fn ended(&mut self, id: RunId, attempt: u32, result: UserResult) {
        let (offset, output) = (None, String::new());
        self.event(MachineEvent::Ended(Ended {
            id,
            attempt,
            result,
            processed: 0,
            failed: 0,
            offset,
            output,
        }));
    }

    pub(super) fn done(&mut self, item: u32, token: u64) {
        self.ended(id(item, token), 1, UserResult::Done);
    }

    pub(super) fn acknowledge(&mut self, item: u32, token: u64, result: proto::ReportResult) {
        let run = Some(id(item, token).to_proto());
        let ack = proto::ReportAck { run, result: result.into(), ..Default::default() };
        self.frame(Response::ReportAck(ack));
    }

    /// Acknowledges the last heartbeat.
    pub(super) fn acknowledge_beat(&mut self) {
        let sequence = self.beats().last().expect("a heartbeat").sequence;
        self.frame(Response::HeartbeatAck(proto::HeartbeatAck { sequence }));
    }

    /// Runs for a while with a healthy coordinator.
    pub(super) fn live(&mut self, to: u64) {
        while self.mono < ms(to) {
            self.advance((u64::try_from(self.mono.as_millis()).unwrap() + 1_000).min(to));
            if !self.beats().is_empty() {
                self.acknowledge_beat();
            }
        }
    }

    // The output.

    pub(super) fn frames(&self) -> impl Iterator<Item = &Request> {
        self.said.iter().filter_map(|effect| match effect {
            Effect::Send(frame) => Some(frame),
            _ => None,
        })
    }

    pub(super) fn beats(&self) -> Vec<proto::Heartbeat> {
        let beats = self.frames().filter_map(|frame| match frame {
            Request::Heartbeat(beat) => Some(beat.clone()),
            _ => None,
        });
        beats.collect()
    }

    pub(super) fn reports(&self) -> Vec<RunCompleted> {
        let reports = self.frames().filter_map(|frame| match frame {
            Request::RunCompleted(report) => Some(report.clone()),
            _ => None,
        });
        reports.collect()
    }

    /// (item, token, outcome) of every report.
    pub(super) fn outcomes(&self) -> Vec<(u32, u64, RunOutcome)> {
        let reports = self.reports().into_iter().map(|report| {
            let RunRef { item, token, .. } = report.run.clone().unwrap();
            (item, token, report.outcome())
        });
        reports.collect()
    }

    pub(super) fn starts(&self) -> Vec<Start> {
        let starts = self.said.iter().filter_map(|effect| match effect {
            Effect::Start(start) => Some(start.clone()),
            _ => None,
        });
        starts.collect()
    }

    pub(super) fn hello(&self) -> proto::Hello {
        let hello = self.frames().find_map(|frame| match frame {
            Request::Hello(hello) => Some(hello.clone()),
            _ => None,
        });
        hello.expect("a hello")
    }

    pub(super) fn cancels(&self) -> Vec<RunId> {
        let cancels = self.said.iter().filter_map(|effect| match effect {
            Effect::Cancel(id) => Some(id.clone()),
            _ => None,
        });
        cancels.collect()
    }

    pub(super) fn aborts(&self) -> Vec<RunId> {
        let aborts = self.said.iter().filter_map(|effect| match effect {
            Effect::Abort(id) => Some(id.clone()),
            _ => None,
        });
        aborts.collect()
    }

    pub(super) fn said_frame(&self, which: fn(&Request) -> bool) -> bool {
        self.frames().any(which)
    }

    pub(super) fn exit(&self) -> Option<&Exit> {
        self.said.iter().find_map(|effect| match effect {
            Effect::Exit(exit) => Some(exit),
            _ => None,
        })
    }

    /// The output of one step alone.
    pub(super) fn after(&mut self, step: impl FnOnce(&mut Self)) -> &mut Self {
        self.said.clear();
        step(self);
        self
    }
}
