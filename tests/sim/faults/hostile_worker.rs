//! A worker that sends anything that the protocol allows, under a credential of its own, beside the honest ones:
//! reports, progress and starts of other workers' runs, runs in flight that it was never assigned, tokens of any size,
//! Unregister for jobs that it never had, nonsense registrations, endless Hellos. It does not send what the edge alone
//! rejects (jobs in Register and in the jobs of a Hello that its credential does not cover); everything else must have
//! no effect in the coordinator.
//!
//! The same must hold as in every world: the invariants, the judge and the checks at rest do not know about it.

use std::time::Duration;

use rosterd_coordinator::handle::{Peer, WorkerStream};
use rosterd_domain::id::{Item, JobName, ServerAddress, StreamNumber, Token, WorkerId};
use rosterd_domain::item::Outcome;
use rosterd_domain::plan::Reported;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::{CallbackDone, Completed, FromWorker, Hello, RunRef, ToWorker};
use tokio::task::AbortHandle;

use crate::oracle::coverage::Coverage;
use crate::oracle::observer::Observer;
use crate::rng::Rng;
use crate::world::World;
use crate::world::network::Network;

/// The names of everything that it sends, for counts.
pub const SAID: &[&str] = &[
    "hostile: Callback",
    "hostile: Completed",
    "hostile: Drain",
    "hostile: Goodbye",
    "hostile: Heartbeat",
    "hostile: Hello",
    "hostile: Progress",
    "hostile: Register",
    "hostile: Started",
    "hostile: Unregister",
];

struct Hostile {
    rng: Rng,
    net: Network,
    observer: Observer,
    coverage: Coverage,
    jobs: Vec<JobName>,
    stream: Option<WorkerStream>,
    identity: Option<(WorkerId, String)>,
    number: u64,
}

/// Attaches it; it sends this many frames a second until it is aborted.
pub fn enter(world: &World, rate: u64) -> AbortHandle {
    let jobs = world.plan.jobs.iter().filter_map(|job| JobName::new(job.name).ok()).collect();
    let mut hostile = Hostile {
        rng: Rng::new(world.plan.seed ^ 0x0bad_cafe),
        net: world.net.clone(),
        observer: world.observer.clone(),
        coverage: world.coverage.clone(),
        jobs,
        stream: None,
        identity: None,
        number: 0,
    };
    let pause = Duration::from_micros(1_000_000 / rate.max(1));
    let says = async move {
        loop {
            hostile.hear();
            hostile.say();
            tokio::time::sleep(pause).await;
        }
    };
    tokio::spawn(says).abort_handle()
}

impl Hostile {
    fn hear(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        let mut ended = false;
        while let Some(frame) = stream.outbox.try_recv() {
            match frame {
                ToWorker::Welcome(welcome) => self.identity = Some((welcome.worker, welcome.resume_key)),
                ToWorker::Close(_) => ended = true,
                // It gets no Trigger: it is assigned no run.
                _ => {}
            }
        }
        if ended {
            self.stream = None;
        }
    }

    fn say(&mut self) {
        if self.stream.is_none() || self.rng.permille(10) {
            self.open();
        }
        let (what, frame) = self.frame();
        let Some(stream) = &self.stream else { return };
        // Like the edge: a frame without room is not accepted.
        let Some(room) = stream.inbox.try_room(512) else { return };
        if stream.inbox.put(frame, room).is_ok() {
            self.coverage.count(what);
        }
    }

    fn open(&mut self) {
        let hosts = self.net.hosts();
        let Some((_, handle)) = self.rng.pick(&hosts) else { return };
        let peer =
            Peer { address: "10.6.6.6:6666".into(), principal: Some("hostile".into()), ..Peer::default() };
        self.stream = handle.open(peer).ok();
        self.number += self.rng.below(3);
        if self.rng.permille(300) {
            self.identity = None;
        }
        let hello = Hello {
            namespace: None,
            identity: self.identity.clone(),
            stream: StreamNumber(self.number.max(1)),
            address: ServerAddress::new("10.6.6.6").unwrap_or_else(|error| unreachable!("{error}")),
            labels: std::collections::BTreeMap::new(),
            slots: 4096,
            in_flight: self.some_runs(6),
            jobs: Vec::new(),
            asked: Vec::new(),
            client: "hostile".into(),
            sent_at: None,
            holds_triggers: self.rng.permille(500),
        };
        if let Some(stream) = &self.stream
            && let Some(room) = stream.inbox.try_room(512)
            && stream.inbox.put(FromWorker::Hello(Box::new(hello)), room).is_ok()
        {
            self.coverage.count("hostile: Hello");
        }
    }

    fn frame(&mut self) -> (&'static str, FromWorker) {
        match self.rng.below(17) {
            0..=2 => {
                let (sequence, in_flight) = (self.rng.next(), self.some_runs(20));
                let lease = self.rng.permille(300).then(|| self.rng.millis(1, 4000));
                ("hostile: Heartbeat", FromWorker::Heartbeat { sequence, in_flight, lease })
            }
            3..=9 => ("hostile: Completed", FromWorker::RunCompleted(Box::new(self.report()))),
            10 | 11 => {
                let run = self.some_run();
                let message = "\u{1b}[31mforged".to_owned();
                (
                    "hostile: Progress",
                    FromWorker::RunProgress {
                        run,
                        percent: 200,
                        message,
                        offset: Some(b"forged"[..].into()),
                    },
                )
            }
            12 => {
                let job = self.some_job();
                ("hostile: Unregister", FromWorker::Unregister { job })
            }
            13 => {
                let callback = ["", "id-1", "c0-7"][self.rng.index(3)].to_owned();
                let done = CallbackDone { callback, error: "no".into(), timed_out: self.rng.permille(500) };
                ("hostile: Callback", FromWorker::CallbackDone(done))
            }
            14 => {
                let name = format!("evil-{}", self.rng.below(1_000_000));
                let job = JobName::new(name).unwrap_or_else(|error| unreachable!("{error}"));
                let nonsense = Refusal::new(Code::ConfigInvalid, "nonsense");
                let config = self.rng.permille(500).then_some(Err(nonsense));
                let (handler_type, overwrite) = (String::new(), self.rng.permille(500));
                ("hostile: Register", FromWorker::Register { job, handler_type, config, overwrite })
            }
            15 => {
                let (run, attempt) = (self.some_run(), u32::MAX);
                ("hostile: Started", FromWorker::RunStarted { run, at: None, attempt })
            }
            _ if self.rng.permille(500) => ("hostile: Drain", FromWorker::DrainRequest),
            _ => ("hostile: Goodbye", FromWorker::Goodbye),
        }
    }

    fn report(&mut self) -> Completed {
        let outcomes = [
            Reported::Done(Outcome::Succeeded),
            Reported::Done(Outcome::Failed),
            Reported::Aborted,
            Reported::NotStarted,
            Reported::HandedBack,
        ];
        Completed {
            run: self.some_run(),
            ended: *self.rng.one(&outcomes),
            error: "forged".into(),
            counts: (u64::MAX, u64::MAX),
            offset: self.rng.permille(300).then(|| b"forged"[..].into()),
            started_at: None,
            ended_at: None,
            output: String::new(),
            attempt: 1,
        }
    }

    fn some_job(&mut self) -> JobName {
        self.rng.one(&self.jobs).clone()
    }

    fn some_runs(&mut self, most: u64) -> Vec<RunRef> {
        (0..self.rng.below(most)).map(|_| self.some_run()).collect()
    }

    /// A run of another worker: the one in flight, one with a token near it, or one that will never exist.
    fn some_run(&mut self) -> RunRef {
        let (job, item) = (self.some_job(), Item(u32::try_from(self.rng.below(5)).unwrap_or(0)));
        let token = {
            let observer = self.observer.lock();
            observer.shadow.records.get(&(job.clone(), item)).map_or(0, |record| record.token.0)
        };
        let token = match self.rng.below(6) {
            0..=2 => token,
            3 => token + 1,
            4 => token.saturating_sub(1),
            _ => i64::MAX.unsigned_abs(),
        };
        RunRef { job, item, token: Token(token) }
    }
}
