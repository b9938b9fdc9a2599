//! The simulated world: one store, coordinators (`seats`) and workers (`desks`) as processes that come and go, a network
//! between them, and one queue of what is to happen later. Everything follows from the seed.

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

use crate::canary;
use crate::clock::NodeClock;
use crate::coverage::Coverage;
use crate::faults::Chaos;
use crate::log::{JobPlan, Log};
use crate::process::Hand;
use crate::rng::Rng;
use crate::watch::{Shadow, Watch};
use crate::wire::{Net, Way};

/// When the world begins.
pub const BASE: &str = "2026-03-01T00:00:00Z";

/// The timeouts of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    #[serde(with = "crate::words::millis")]
    pub session: Duration,
    #[serde(with = "crate::words::millis")]
    pub lease: Duration,
    #[serde(with = "crate::words::millis")]
    pub heartbeat: Duration,
    #[serde(with = "crate::words::millis")]
    pub stop_budget: Duration,
}

impl Times {
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

/// What a world is made of.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub coordinators: usize,
    pub workers: usize,
    pub times: Times,
    pub jobs: Vec<JobPlan>,
    pub slots: (u64, u64),
    /// When it begins.
    pub base: Time,
    /// The store has a clock of its own, which is right.
    pub store_clock: bool,
    /// By how much clocks run fast or slow at most, in parts of a million.
    pub drift: u64,
    /// What happens is written down: it takes half of the time.
    pub told: bool,
    pub verbose: bool,
}

/// What the store held at one time, and what the writes had said by then.
pub struct Remembered {
    store: Copied,
    shadow: Shadow,
    numbered: u64,
}

/// Something that is to happen.
#[derive(Debug, Clone)]
pub enum Later {
    Expire(String),
    /// The session ends, and who holds it does not hear of it.
    EndUnheard(String),
    Resume(String),
    StartCoordinator(usize),
    StartWorker(usize),
    ThawCoordinator(usize, u64),
    ThawWorker(usize, u64),
    Talk(String),
    /// A wall between workers and a coordinator falls.
    Join(u64),
    /// A store that flaps is out of reach again, so many times, for so long each.
    Suspend(usize, u64, Duration),
    /// A calendar jumps back.
    Jump(NodeClock, i64),
    /// A worker's handlers are as fast as ever.
    Hurry(usize),
    /// A process's frames are not repeated any more.
    Once(String),
    /// The streams that a desk's worker has fall silent, or talk again.
    Hush(usize, bool),
    /// A calendar is set right, and runs as it should.
    Steady(NodeClock),
    Operate(Operation),
}

/// Where a coordinator runs.
pub struct Seat {
    pub name: String,
    pub url: String,
    pub running: Option<RunningCoordinator>,
    /// It is not started again, and what runs there is as good as dead.
    pub retired: bool,
    pub(crate) starts: u64,
}

pub struct RunningCoordinator {
    pub id: CoordinatorId,
    pub hand: Hand,
    pub session: String,
    pub handle: Handle,
    pub clock: NodeClock,
    pub(crate) ended: Arc<AtomicBool>,
}

/// Where a worker runs.
pub struct Desk {
    pub running: Option<RunningWorker>,
    /// It is not started again, and what runs there is as good as dead.
    pub retired: bool,
    /// The coordinator that its workers try first; none: any.
    pub first: Option<usize>,
    /// By how much the clocks of its workers run fast, in parts of a million; none: as the world has it.
    pub fast: Option<i64>,
    /// What its workers state as their address; none: one of their own.
    pub address: Option<String>,
    /// How many times as long its handlers take.
    pub slowness: Arc<AtomicU64>,
    pub(crate) starts: u64,
}

pub struct RunningWorker {
    pub process: String,
    pub hand: Hand,
    pub leave: CancellationToken,
    pub clock: NodeClock,
    /// How it ended.
    pub(crate) result: Arc<Mutex<Option<String>>>,
    pub leaving: bool,
}

pub struct World {
    pub plan: Plan,
    pub rng: Rng,
    pub store: MemoryStore,
    pub chaos: Chaos,
    pub net: Net,
    pub log: Log,
    pub watch: Watch,
    pub coverage: Coverage,
    pub seats: Vec<Seat>,
    pub desks: Vec<Desk>,
    /// Faults are over: what ends is started again at once.
    pub calm: bool,
    /// So many faults have taken effect.
    pub faults: usize,
    pub(crate) queue: BTreeMap<(Instant, u64), Later>,
    last: u64,
    pub(crate) start: Instant,
    /// How long after its timeout a run is taken away. None: so long that a client whose lease is good has given its handler
    /// up, however long it stood still.
    pub timeout_grace: Option<Duration>,
    /// By how much the clocks of coordinators are off that begin.
    pub wrong_at_boot: i64,
    /// Who says whatever can be said, while faults go on.
    pub hostile: Option<AbortHandle>,
    _listens: Option<DefaultGuard>,
}

impl World {
    /// A world with everything started.
    pub fn new(plan: Plan) -> Self {
        let mut rng = Rng::new(plan.seed);
        let coverage = Coverage::default();
        let chaos = Chaos::new(rng.fork("chaos"), coverage.clone());
        let store = MemoryStore::with_faults(&namespace(), Arc::new(chaos.clone()));
        let watch = Watch::new(plan.base, coverage.clone(), plan.told, plan.verbose);
        let observer = watch.clone();
        store.observe(Box::new(move |seen| observer.lock().seen(seen)));
        let net = Net::new(rng.fork("net"), coverage.clone());
        let listener = watch.clone();
        net.listen(Box::new(move |worker, host, frame| listener.lock().heard(worker, host, frame)));
        let overhearing = watch.clone();
        net.overhear(Box::new(move |worker, frame| overhearing.lock().said(worker, frame)));
        let seats = (0..plan.coordinators)
            .map(|i| Seat {
                name: format!("c{i}"),
                url: format!("sim://c{i}"),
                running: None,
                retired: false,
                starts: 0,
            })
            .collect();
        let desks = (0..plan.workers)
            .map(|_| Desk {
                running: None,
                retired: false,
                first: None,
                fast: None,
                address: None,
                slowness: Arc::new(AtomicU64::new(1)),
                starts: 0,
            })
            .collect();
        let (log, queue, start) = (Log::new(&plan), BTreeMap::new(), Instant::now());
        let (calm, faults, last) = (false, 0, 0);
        // To put all into words takes a while: only some seeds are listened to below what is told anyway.
        let all = plan.told || plan.seed.is_multiple_of(4);
        let listens = canary::listen(if all { Level::DEBUG } else { Level::INFO });
        let world = Self {
            plan,
            rng,
            store,
            chaos,
            net,
            log,
            watch,
            coverage,
            seats,
            desks,
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

    /// As a copy of the store's directory would.
    pub fn remembers(&self) -> Remembered {
        let watch = self.watch.lock();
        let (shadow, numbered) = (watch.shadow.clone(), watch.numbered());
        drop(watch);
        Remembered { store: self.store.copied(), shadow, numbered }
    }

    /// What a store holds in the place of one that was lost.
    pub fn remembers_nothing(&self, new: &MemoryStore) -> Remembered {
        Remembered { store: new.copied(), shadow: Shadow::default(), numbered: 0 }
    }

    /// The store goes back in time; no coordinator has it open.
    pub fn put_back(&self, remembered: Remembered) {
        let Remembered { store, shadow, numbered } = remembered;
        self.store.put_back(store);
        self.watch.lock().goes_back(shadow, numbered);
    }

    /// Starts every process.
    pub fn start_all(&mut self) {
        for seat in 0..self.seats.len() {
            self.start_coordinator(seat);
        }
        for desk in 0..self.desks.len() {
            self.start_worker(desk);
        }
    }

    pub fn now(&self) -> Time {
        self.plan.base.plus(self.start.elapsed())
    }

    /// The store's clock is right.
    pub fn give_store_a_clock(&self) {
        self.watch.lock().store_clock = true;
        let (base, begun) = (self.plan.base, self.start);
        self.store.set_clock(Box::new(move || base.plus(begun.elapsed())));
    }

    /// Of the coordinators that begin while faults go on one of twelve does so with a wrong clock, which is set right later.
    pub(crate) fn set_wrong_at_boot(&mut self, clock: &NodeClock) {
        if self.wrong_at_boot != 0 {
            return clock.jump(self.wrong_at_boot);
        }
        if self.plan.store_clock && !self.calm && self.rng.below(12) == 0 {
            self.coverage.count("fault: a clock is wrong at boot");
            let by = crate::trouble::jump(&mut self.rng);
            clock.jump(by);
            self.note(|| format!("its calendar is off by {by} ms"));
            let span = Duration::from_millis(1000 + self.rng.below(20_000));
            self.later(span, Later::Jump(clock.clone(), -by));
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
        self.watch.note(line);
    }

    pub fn later(&mut self, after: Duration, what: Later) {
        self.last += 1;
        self.queue.insert((Instant::now() + after, self.last), what);
    }

    /// Lets the world go on for `span`.
    pub async fn pass(&mut self, span: Duration) {
        let until = Instant::now() + span;
        loop {
            let next = self.queue.first_key_value().map(|((at, _), _)| *at).filter(|at| *at <= until);
            // Ends of processes are noticed within a moment.
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
            Later::StartCoordinator(seat) => self.start_coordinator(seat),
            Later::StartWorker(desk) => self.start_worker(desk),
            Later::ThawCoordinator(seat, start) => {
                if self.seats[seat].starts == start
                    && let Some(running) = &self.seats[seat].running
                {
                    running.hand.freeze(false);
                    self.note(|| format!("c{seat} goes on"));
                }
            }
            Later::ThawWorker(desk, start) => {
                if self.desks[desk].starts == start {
                    self.thaw_worker(desk);
                }
            }
            Later::Operate(operation) => {
                crate::operator::ask(self, operation);
            }
            Later::Talk(worker) => {
                self.net.silence_of(&worker, Way::Both, false);
            }
            Later::Join(wall) => self.net.join(wall),
            Later::Suspend(seat, times, span) => {
                self.flap(seat, times, span);
            }
            Later::Jump(clock, by) => clock.jump(by),
            Later::Hurry(desk) => self.desks[desk].slowness.store(1, Ordering::Relaxed),
            Later::Once(process) => self.net.repeat(&process, false),
            Later::Hush(desk, silent) => {
                if let Some(running) = &self.desks[desk].running {
                    self.net.silence_of(&running.process, Way::Both, silent);
                }
            }
            Later::Steady(clock) => clock.steady(),
        }
    }

    /// Processes that have ended by themselves, or were killed by a write or a frame.
    fn notice(&mut self) {
        let deaths = std::mem::take(&mut self.watch.lock().deaths);
        for name in deaths {
            let killed = |seat: &Seat| seat.running.as_ref().is_some_and(|running| running.hand.is_killed());
            if let Some(seat) = self.seats.iter().position(|seat| seat.name == name && killed(seat)) {
                self.coverage.count("fault: coordinator dies after a write");
                self.buried(seat, false);
            }
        }
        for desk in 0..self.desks.len() {
            if self.desks[desk].running.as_ref().is_some_and(|running| running.hand.is_killed()) {
                self.coverage.count("fault: worker dies after a frame");
                self.crash_worker(desk, false);
            }
        }
        self.notice_ends();
    }

    fn notice_ends(&mut self) {
        for seat in 0..self.seats.len() {
            let ended = |running: &RunningCoordinator| running.ended.load(Ordering::SeqCst);
            if self.seats[seat].running.as_ref().is_some_and(ended)
                && let Some(running) = self.seats[seat].running.take()
            {
                let (url, session) = (self.seats[seat].url.clone(), running.session);
                self.note(|| format!("c{seat} has ended"));
                self.net.down(&url, false);
                self.store.expire(&session);
                let after = self.pause_before_start();
                self.later(after, Later::StartCoordinator(seat));
            }
        }
        for desk in 0..self.desks.len() {
            let Some(running) = &self.desks[desk].running else { continue };
            let ended = running.result.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(how) = ended {
                let process = running.process.clone();
                self.note(|| format!("{process} has ended: {how}"));
                self.coverage.count(format!(
                    "worker ended: {}",
                    how.split([':', ',', '(']).next().unwrap_or_default()
                ));
                self.log.write(&process, What::Killed, None);
                self.desks[desk].running = None;
                let after = self.pause_before_start();
                self.later(after, Later::StartWorker(desk));
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
