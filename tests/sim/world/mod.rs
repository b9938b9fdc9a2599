//! The simulated world: one store, coordinators (`replicas`) and workers (`machines`) as processes that come and go, a
//! network between them, and one queue of future events. Everything is derived from the seed.

pub mod at_rest;
pub mod clock;
pub mod coordinators;
pub mod handlers;
pub mod network;
pub mod operator;
pub mod panics;
mod plans;
pub mod process;
pub mod scripted_worker;
pub mod workers;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rosterd_coordinator::handle::{Handle, Operation};
use rosterd_domain::id::{CoordinatorId, Namespace};
use rosterd_domain::time::Time;
use rosterd_domain::verify::What;
use rosterd_registry::memory::{Copied, MemoryStore};
use serde::{Deserialize, Serialize};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Level;
use tracing::subscriber::DefaultGuard;

use crate::faults::store::StoreFaults;
use crate::oracle::coverage::Coverage;
use crate::oracle::observer::{Observer, Shadow};
use crate::oracle::planted_secrets;
use crate::rng::Rng;
use crate::world::clock::NodeClock;
use crate::world::handlers::{HandlerLog, JobPlan};
use crate::world::network::{Direction, Network};
use crate::world::process::ProcessControl;

/// When the world begins.
pub const BASE: &str = "2026-03-01T00:00:00Z";

/// The timeouts of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorldTimes {
    #[serde(with = "crate::seeds::vocabulary::millis")]
    pub session: Duration,
    #[serde(with = "crate::seeds::vocabulary::millis")]
    pub lease: Duration,
    #[serde(with = "crate::seeds::vocabulary::millis")]
    pub heartbeat: Duration,
    #[serde(with = "crate::seeds::vocabulary::millis")]
    pub stop_budget: Duration,
}

impl WorldTimes {
    /// The defaults.
    pub const LONG: Self = Self {
        session: Duration::from_secs(10),
        lease: Duration::from_secs(5),
        heartbeat: Duration::from_secs(1),
        stop_budget: Duration::from_millis(500),
    };
    /// Short ones, so that more happens in a minute.
    pub const SHORT: Self = Self {
        session: Duration::from_secs(4),
        lease: Duration::from_millis(1500),
        heartbeat: Duration::from_millis(400),
        stop_budget: Duration::from_millis(200),
    };
}

/// The configuration of a world.
#[derive(Debug, Clone)]
pub struct WorldPlan {
    pub seed: u64,
    pub coordinators: usize,
    pub workers: usize,
    pub times: WorldTimes,
    pub jobs: Vec<JobPlan>,
    pub slots: (u64, u64),
    /// When it begins.
    pub base: Time,
    /// The store has a clock of its own, which is right.
    pub store_clock: bool,
    /// By how much clocks run fast or slow at most, in parts per million.
    pub drift: u64,
    /// Events are traced, which takes half of the time.
    pub told: bool,
    pub verbose: bool,
}

/// The contents of the store at one time, and the oracle's state by then.
pub struct Remembered {
    store: Copied,
    shadow: Shadow,
    numbered: u64,
}

/// A future event.
#[derive(Debug, Clone)]
pub enum Later {
    Expire(String),
    /// The session ends, and its holder is not notified.
    EndUnheard(String),
    Resume(String),
    StartCoordinator(usize),
    StartWorker(usize),
    ThawCoordinator(usize, u64),
    ThawWorker(usize, u64),
    EndSilence(String),
    /// A partition between workers and a coordinator heals.
    EndPartition(u64),
    /// A flapping store is unreachable again, this many times, for this long each.
    Suspend(usize, u64, Duration),
    /// A calendar jumps back.
    JumpClock(NodeClock, i64),
    /// A worker's handlers are as fast as before.
    HandlersRecover(usize),
    /// A process's frames are no longer repeated.
    StopRepeatingFrames(String),
    /// The streams of a machine's worker fall silent, or resume.
    SilenceStreams(usize, bool),
    /// A calendar is corrected, and runs at its proper rate.
    EndClockSlew(NodeClock),
    Operate(Operation),
}

/// Where a coordinator runs.
pub struct Replica {
    pub name: String,
    pub url: String,
    pub running: Option<RunningCoordinator>,
    /// It is not started again, and its process is effectively dead.
    pub retired: bool,
    pub(crate) starts: u64,
}

pub struct RunningCoordinator {
    pub id: CoordinatorId,
    pub control: ProcessControl,
    pub session: String,
    pub handle: Handle,
    pub clock: NodeClock,
    pub(crate) ended: Arc<AtomicBool>,
}

/// Where a worker runs.
pub struct Machine {
    pub running: Option<RunningWorker>,
    /// It is not started again, and its process is effectively dead.
    pub retired: bool,
    /// The coordinator that its workers try first; `None`: any.
    pub first: Option<usize>,
    /// By how much the clocks of its workers run fast, in parts per million; `None`: as the world's.
    pub fast: Option<i64>,
    /// The address that its workers state; `None`: one of their own.
    pub address: Option<String>,
    /// The factor by which its handlers are slower.
    pub slowness: Arc<AtomicU64>,
    pub(crate) starts: u64,
}

pub struct RunningWorker {
    pub process: String,
    pub control: ProcessControl,
    pub leave: CancellationToken,
    pub clock: NodeClock,
    /// How it ended.
    pub(crate) result: Arc<Mutex<Option<String>>>,
    pub leaving: bool,
}

pub struct World {
    pub plan: WorldPlan,
    pub rng: Rng,
    pub store: MemoryStore,
    pub store_faults: StoreFaults,
    pub net: Network,
    pub log: HandlerLog,
    pub observer: Observer,
    pub coverage: Coverage,
    pub replicas: Vec<Replica>,
    pub machines: Vec<Machine>,
    /// Faults are over: a process that ends is restarted at once.
    pub calm: bool,
    /// How many faults have taken effect.
    pub faults: usize,
    pub(crate) queue: BTreeMap<(Instant, u64), Later>,
    last: u64,
    pub(crate) start: Instant,
    /// How long after its timeout a run is taken away. `None`: so long that a client with a valid lease has abandoned
    /// its handler, however long it was frozen.
    pub timeout_grace: Option<Duration>,
    /// By how much the clocks of starting coordinators are off.
    pub wrong_at_boot: i64,
    /// The hostile worker, while faults go on.
    pub hostile: Option<AbortHandle>,
    _listens: Option<DefaultGuard>,
}

impl World {
    /// A world with everything started.
    pub fn new(plan: WorldPlan) -> Self {
        let mut rng = Rng::new(plan.seed);
        let coverage = Coverage::default();
        let store_faults = StoreFaults::new(rng.fork("chaos"), coverage.clone());
        let store = MemoryStore::with_faults(&namespace(), Arc::new(store_faults.clone()));
        let observer = Observer::new(plan.base, coverage.clone(), plan.told, plan.verbose);
        let seen_by = observer.clone();
        store.observe(Box::new(move |seen| seen_by.lock().seen(seen)));
        plans::look_at(&observer);
        let net = Network::new(rng.fork("net"), coverage.clone());
        let listener = observer.clone();
        net.listen(Box::new(move |worker, host, frame| listener.lock().heard(worker, host, frame)));
        let overhearing = observer.clone();
        net.overhear(Box::new(move |worker, frame| overhearing.lock().said(worker, frame)));
        let replicas = (0..plan.coordinators)
            .map(|i| Replica {
                name: format!("c{i}"),
                url: format!("sim://c{i}"),
                running: None,
                retired: false,
                starts: 0,
            })
            .collect();
        let machines = (0..plan.workers)
            .map(|_| Machine {
                running: None,
                retired: false,
                first: None,
                fast: None,
                address: None,
                slowness: Arc::new(AtomicU64::new(1)),
                starts: 0,
            })
            .collect();
        let (log, queue, start) = (HandlerLog::new(&plan), BTreeMap::new(), Instant::now());
        let (calm, faults, last) = (false, 0, 0);
        // Formatting everything takes a while: only some seeds trace below the default level.
        let all = plan.told || plan.seed.is_multiple_of(4);
        let listens = planted_secrets::listen(if all { Level::DEBUG } else { Level::INFO });
        let world = Self {
            plan,
            rng,
            store,
            store_faults,
            net,
            log,
            observer,
            coverage,
            replicas,
            machines,
            calm,
            faults,
            queue,
            last,
            start,
            timeout_grace: None,
            wrong_at_boot: 0,
            hostile: None,
            _listens: listens,
        };
        if world.plan.store_clock {
            world.give_store_a_clock();
        }
        world
    }

    /// Like a copy of the store's directory.
    pub fn remembers(&self) -> Remembered {
        let observer = self.observer.lock();
        let (shadow, numbered) = (observer.shadow.clone(), observer.numbered());
        drop(observer);
        Remembered { store: self.store.copied(), shadow, numbered }
    }

    /// The contents of a store that replaces a lost one.
    pub fn remembers_nothing(&self, new: &MemoryStore) -> Remembered {
        Remembered { store: new.copied(), shadow: Shadow::default(), numbered: 0 }
    }

    /// The store goes back in time; no coordinator has it open.
    pub fn put_back(&self, remembered: Remembered) {
        let Remembered { store, shadow, numbered } = remembered;
        self.store.put_back(store);
        self.observer.lock().goes_back(shadow, numbered);
    }

    /// Starts every process.
    pub fn start_all(&mut self) {
        for replica in 0..self.replicas.len() {
            self.start_coordinator(replica);
        }
        for machine in 0..self.machines.len() {
            self.start_worker(machine);
        }
    }

    pub fn now(&self) -> Time {
        self.plan.base.plus(self.start.elapsed())
    }

    /// The store's clock is right.
    pub fn give_store_a_clock(&self) {
        self.observer.lock().store_clock = true;
        let (base, begun) = (self.plan.base, self.start);
        self.store.set_clock(Box::new(move || base.plus(begun.elapsed())));
    }

    /// One in twelve coordinators that start while faults go on has a wrong clock, which is corrected later.
    pub(crate) fn set_wrong_at_boot(&mut self, clock: &NodeClock) {
        if self.wrong_at_boot != 0 {
            return clock.jump(self.wrong_at_boot);
        }
        if self.plan.store_clock && !self.calm && self.rng.below(12) == 0 {
            self.coverage.count("fault: a clock is wrong at boot");
            let by = crate::faults::disruption::jump(&mut self.rng);
            clock.jump(by);
            self.note(|| format!("its calendar is off by {by} ms"));
            let span = Duration::from_millis(1000 + self.rng.below(20_000));
            self.later(span, Later::JumpClock(clock.clone(), -by));
        }
    }

    /// By how much the clocks of the next process run fast.
    pub(crate) fn some_drift(&mut self) -> i64 {
        let most = i64::try_from(self.plan.drift).unwrap_or(0);
        if most == 0 {
            return 0;
        }
        let drift = i64::try_from(self.rng.below(2 * self.plan.drift + 1)).unwrap_or(0) - most;
        if drift != 0 {
            self.coverage.count("fault: clocks of a process fast or slow");
        }
        drift
    }

    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    pub fn note(&self, line: impl FnOnce() -> String) {
        self.observer.note(line);
    }

    pub fn later(&mut self, after: Duration, what: Later) {
        self.last += 1;
        self.queue.insert((Instant::now() + after, self.last), what);
    }

    /// Lets `span` pass in the world.
    pub async fn pass(&mut self, span: Duration) {
        let until = Instant::now() + span;
        loop {
            let next = self.queue.first_key_value().map(|((at, _), _)| *at).filter(|at| *at <= until);
            // The end of a process is noticed within a moment.
            let look = (Instant::now() + Duration::from_millis(20)).min(until);
            tokio::time::sleep_until(next.unwrap_or(look).min(look)).await;
            while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= Instant::now()) {
                let what = entry.remove();
                match self.put_off(&what) {
                    Some(wait) => self.later(wait, what),
                    None => self.happen(what),
                }
            }
            self.notice();
            if Instant::now() >= until {
                return;
            }
        }
    }

    pub(crate) fn happen(&mut self, what: Later) {
        match what {
            Later::Expire(session) => {
                if self.store.expire(&session) {
                    self.note(|| format!("session {session} expires"));
                }
            }
            Later::EndUnheard(session) => {
                self.store.end_unheard(&session);
            }
            Later::Resume(session) => {
                if self.store.resume(&session) {
                    self.coverage.count("recovery: the store is reached again within the session's time");
                }
            }
            Later::StartCoordinator(replica) => self.start_coordinator(replica),
            Later::StartWorker(machine) => self.start_worker(machine),
            Later::ThawCoordinator(replica, start) => {
                if self.replicas[replica].starts == start
                    && let Some(running) = &self.replicas[replica].running
                {
                    running.control.freeze(false);
                    self.note(|| format!("c{replica} goes on"));
                }
            }
            Later::ThawWorker(machine, start) => {
                if self.machines[machine].starts == start {
                    self.thaw_worker(machine);
                }
            }
            Later::Operate(operation) => {
                crate::world::operator::ask(self, operation);
            }
            Later::EndSilence(worker) => {
                self.net.silence_of(&worker, Direction::Both, false);
            }
            Later::EndPartition(partition) => self.net.join(partition),
            Later::Suspend(replica, times, span) => {
                self.flap(replica, times, span);
            }
            Later::JumpClock(clock, by) => clock.jump(by),
            Later::HandlersRecover(machine) => self.machines[machine].slowness.store(1, Ordering::Relaxed),
            Later::StopRepeatingFrames(process) => self.net.repeat(&process, false),
            Later::SilenceStreams(machine, silent) => {
                if let Some(running) = &self.machines[machine].running {
                    self.net.silence_of(&running.process, Direction::Both, silent);
                }
            }
            Later::EndClockSlew(clock) => clock.steady(),
        }
    }

    /// Processes that have ended by themselves, or were killed by a write or a frame.
    fn notice(&mut self) {
        let deaths = std::mem::take(&mut self.observer.lock().deaths);
        for name in deaths {
            let killed = |replica: &Replica| {
                replica.running.as_ref().is_some_and(|running| running.control.is_killed())
            };
            if let Some(replica) =
                self.replicas.iter().position(|replica| replica.name == name && killed(replica))
            {
                self.coverage.count("fault: coordinator dies after a write");
                self.buried(replica, false);
            }
        }
        for machine in 0..self.machines.len() {
            if self.machines[machine].running.as_ref().is_some_and(|running| running.control.is_killed()) {
                self.coverage.count("fault: worker dies after a frame");
                self.crash_worker(machine, false);
            }
        }
        self.notice_ends();
    }

    fn notice_ends(&mut self) {
        for replica in 0..self.replicas.len() {
            let ended = |running: &RunningCoordinator| running.ended.load(Ordering::SeqCst);
            if self.replicas[replica].running.as_ref().is_some_and(ended)
                && let Some(running) = self.replicas[replica].running.take()
            {
                let (url, session) = (self.replicas[replica].url.clone(), running.session);
                self.note(|| format!("c{replica} has ended"));
                self.net.down(&url, false);
                self.store.expire(&session);
                let after = self.pause_before_start();
                self.later(after, Later::StartCoordinator(replica));
            }
        }
        for machine in 0..self.machines.len() {
            let Some(running) = &self.machines[machine].running else { continue };
            let ended = running.result.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(how) = ended {
                let process = running.process.clone();
                self.note(|| format!("{process} has ended: {how}"));
                self.coverage.count(format!(
                    "worker ended: {}",
                    how.split([':', ',', '(']).next().unwrap_or_default()
                ));
                self.log.write(&process, What::Killed, None);
                self.machines[machine].running = None;
                let after = self.pause_before_start();
                self.later(after, Later::StartWorker(machine));
            }
        }
    }

    pub(crate) fn pause_before_start(&mut self) -> Duration {
        if self.calm { Duration::from_millis(100) } else { self.rng.millis(100, 6000) }
    }
}

pub fn namespace() -> Namespace {
    Namespace::new("sim").unwrap_or_else(|error| unreachable!("{error}"))
}

pub fn base() -> Time {
    Time::parse(BASE).unwrap_or_default()
}
