//! The simulated world: one store, coordinators and workers as processes that come and go, a network between
//! them, and one queue of what is to happen later. Everything follows from the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use rosterd::coordinator::driver::{NoHistory, coordinator};
use rosterd::coordinator::handle::{Handle, Operation};
use rosterd::coordinator::settings::Settings;
use rosterd::registry::Registry as _;
use rosterd::registry::memory::{MemoryStore, SessionOptions};
use rosterd::runtime::clock::Simulated;
use rosterd_client::{OnRefused, Options, TokioClock, Worker};
use rosterd_domain::id::{CoordinatorId, JobName, Namespace, WorkerId};
use rosterd_domain::time::Time;
use rosterd_domain::verify::{What, judge};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::coverage::Coverage;
use crate::faults::Chaos;
use crate::invariants::{mirrors, settles};
use crate::log::{JobPlan, Log};
use crate::process::Hand;
use crate::rng::Rng;
use crate::watch::Watch;
use crate::wire::{Net, SimConnector};

/// When the world begins.
pub const BASE: &str = "2026-03-01T00:00:00Z";

/// The timeouts of a world.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub session: Duration,
    pub lease: Duration,
    pub heartbeat: Duration,
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
    pub verbose: bool,
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
    Operate(Operation),
}

/// Where a coordinator runs.
pub struct Seat {
    pub name: String,
    pub url: String,
    pub running: Option<RunningCoordinator>,
    /// It is not started again.
    pub retired: bool,
    starts: u64,
}

pub struct RunningCoordinator {
    pub hand: Hand,
    pub session: String,
    pub handle: Handle,
    ended: Arc<AtomicBool>,
}

/// Where a worker runs.
pub struct Desk {
    pub running: Option<RunningWorker>,
    /// It is not started again.
    pub retired: bool,
    /// The coordinator that its workers try first; none: any.
    pub first: Option<usize>,
    starts: u64,
}

pub struct RunningWorker {
    pub process: String,
    pub hand: Hand,
    pub leave: CancellationToken,
    /// How it ended.
    result: Arc<Mutex<Option<String>>>,
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
    queue: BTreeMap<(Instant, u64), Later>,
    last: u64,
    start: Instant,
}

impl World {
    /// A world with everything started.
    pub fn new(plan: Plan) -> Self {
        let mut rng = Rng::new(plan.seed);
        let coverage = Coverage::default();
        let chaos = Chaos::new(rng.fork("chaos"), coverage.clone());
        let store = MemoryStore::with_faults(&namespace(), Arc::new(chaos.clone()));
        let watch = Watch::new(base(), coverage.clone(), plan.verbose);
        let observer = watch.clone();
        store.observe(Box::new(move |seen| observer.lock().seen(seen)));
        let net = Net::new(rng.fork("net"));
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
            .map(|_| Desk { running: None, retired: false, first: None, starts: 0 })
            .collect();
        let (log, queue, start) = (Log::new(&plan.jobs), BTreeMap::new(), Instant::now());
        let (calm, last) = (false, 0);
        Self { plan, rng, store, chaos, net, log, watch, coverage, seats, desks, calm, queue, last, start }
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
        base().plus(self.start.elapsed())
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
                self.happen(what);
            }
            self.notice();
            if Instant::now() >= until {
                return;
            }
        }
    }

    fn happen(&mut self, what: Later) {
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
                self.store.resume(&session);
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
            Later::Operate(operation) => crate::operator::ask(self, operation),
            Later::Talk(worker) => self.net.silence_of(&worker, crate::wire::Way::Both, false),
        }
    }

    /// Processes that have ended by themselves, or were killed by a write.
    fn notice(&mut self) {
        let deaths = std::mem::take(&mut self.watch.lock().deaths);
        for name in deaths {
            let killed = |seat: &Seat| seat.running.as_ref().is_some_and(|running| running.hand.is_killed());
            if let Some(seat) = self.seats.iter().position(|seat| seat.name == name && killed(seat)) {
                self.coverage.count("fault: coordinator dies after a write");
                self.buried(seat, false);
            }
        }
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

    fn pause_before_start(&mut self) -> Duration {
        if self.calm { Duration::from_millis(100) } else { self.rng.millis(100, 6000) }
    }

    // ---- coordinators

    pub fn start_coordinator(&mut self, seat: usize) {
        if self.seats[seat].running.is_some() || self.seats[seat].retired {
            return;
        }
        let times = self.plan.times;
        let options = SessionOptions { timeout: Some(times.session) };
        self.seats[seat].starts += 1;
        let (name, url, start) = {
            let seat = &self.seats[seat];
            (seat.name.clone(), seat.url.clone(), seat.starts)
        };
        let registry = Arc::new(self.store.open(&name, options));
        let session = registry.session();
        let Ok(id) = CoordinatorId::new(&name) else { return };
        let mut settings = Settings::new(namespace(), id);
        settings.advertise = url.clone();
        settings.session = Some(times.session);
        settings.session_tick = times.session / 5;
        settings.lease = times.lease;
        settings.heartbeat = times.heartbeat;
        settings.stop_budget = times.stop_budget;
        settings.store_retry = Duration::from_millis(500);
        let clock = Arc::new(Simulated::new(self.now()));
        let count = AtomicU64::new(0);
        let ids = Box::new(move || format!("{name}.{start}.{}", count.fetch_add(1, Ordering::Relaxed)));
        let (handle, driver) =
            coordinator(settings, registry, clock, ids, Box::new(NoHistory), Box::new(NoHistory));
        let (hand, ended) = (Hand::default(), Arc::new(AtomicBool::new(false)));
        let (held, end) = (hand.hold(driver.run()), ended.clone());
        tokio::spawn(async move {
            if held.await.is_some() {
                end.store(true, Ordering::SeqCst);
            }
        });
        self.note(|| format!("c{seat} starts as {session}"));
        self.net.up(&url, handle.clone());
        self.seats[seat].running = Some(RunningCoordinator { hand, session, handle, ended });
    }

    /// The process dies; `vanish`: its machine does, so that nobody hears of it.
    pub fn crash_coordinator(&mut self, seat: usize, vanish: bool) {
        if let Some(running) = &self.seats[seat].running {
            running.hand.kill();
            self.note(|| format!("c{seat} crashes{}", if vanish { " without a word" } else { "" }));
            self.buried(seat, vanish);
        }
    }

    /// What follows a coordinator's sudden death.
    fn buried(&mut self, seat: usize, vanish: bool) {
        let Some(running) = self.seats[seat].running.take() else { return };
        let url = self.seats[seat].url.clone();
        self.net.down(&url, vanish);
        let silence = self.until_expiry(&running.session);
        self.later(silence, Later::Expire(running.session));
        let after = self.pause_before_start();
        self.later(after, Later::StartCoordinator(seat));
    }

    /// The process stands still; longer than its session, and the session is over.
    pub fn freeze_coordinator(&mut self, seat: usize, span: Duration) {
        let Some(running) = &self.seats[seat].running else { return };
        running.hand.freeze(true);
        let session = running.session.clone();
        self.note(|| format!("c{seat} stands still for {span:?}"));
        let start = self.seats[seat].starts;
        let until = self.until_expiry(&session);
        if span > until {
            self.coverage.count("fault: session of a frozen coordinator expires");
            self.later(until, Later::Expire(session));
        }
        self.later(span, Later::ThawCoordinator(seat, start));
    }

    /// The store cannot be reached; longer than the session, and the session is over.
    pub fn suspend(&mut self, seat: usize, span: Duration) {
        let Some(running) = &self.seats[seat].running else { return };
        let session = running.session.clone();
        self.store.suspend(&session);
        self.note(|| format!("c{seat} loses the store for {span:?}"));
        let until = self.until_expiry(&session);
        if span > until {
            self.coverage.count("fault: session of a living coordinator expires");
            self.later(until, Later::Expire(session));
        } else {
            self.later(span, Later::Resume(session));
        }
    }

    /// The store cannot be reached and ends the session, which nobody can tell this coordinator for `span`.
    pub fn cut_off(&mut self, seat: usize, span: Duration) {
        let Some(running) = &self.seats[seat].running else { return };
        let session = running.session.clone();
        self.store.suspend(&session);
        self.note(|| format!("c{seat} is cut off from the store for {span:?}"));
        let until = self.until_expiry(&session);
        self.later(until, Later::EndUnheard(session.clone()));
        self.later(span.max(until), Later::Expire(session));
    }

    /// How long the store waits from now on before it ends a session that has fallen silent: the last committed
    /// write is the last thing that is certain to have been heard.
    fn until_expiry(&mut self, session: &str) -> Duration {
        let jitter = self.rng.millis(0, 500);
        let last = self.watch.lock().last_commit.get(session).copied().unwrap_or(self.start);
        (last + self.plan.times.session).saturating_duration_since(Instant::now()) + jitter
    }

    // ---- workers

    pub fn start_worker(&mut self, desk: usize) {
        if self.desks[desk].running.is_some() || self.desks[desk].retired {
            return;
        }
        self.desks[desk].starts += 1;
        let process = format!("w{desk}.{}", self.desks[desk].starts);
        let mut urls: Vec<String> = self.seats.iter().map(|seat| seat.url.clone()).collect();
        let any = self.rng.index(urls.len());
        let first = self.desks[desk].first.unwrap_or(any);
        urls.rotate_left(first);
        let (from, to) = self.plan.slots;
        let options = Options {
            servers: urls,
            address: format!("10.0.0.{desk}"),
            slots: u32::try_from(from + self.rng.below(to - from + 1)).unwrap_or(1),
            drain_deadline: Duration::from_secs(4),
            stop_grace: Duration::from_secs(1),
            on_refused: OnRefused::Retry,
            seed: Some(self.rng.next()),
            credential: Some("none".into()),
            ..Options::default()
        };
        let (hand, leave) = (Hand::default(), CancellationToken::new());
        let mut worker = Worker::new(options).shutdown(leave.clone().cancelled_owned());
        for job in self.plan.jobs.clone() {
            worker = worker.add(job.offer(&process, &hand, &self.log, &mut self.rng));
        }
        let connector = SimConnector { net: self.net.clone(), worker: process.clone() };
        let since = u64::try_from(self.now().0).unwrap_or(0);
        let clock = TokioClock::starting_at(UNIX_EPOCH + Duration::from_millis(since));
        let result = Arc::new(Mutex::new(None));
        let (held, end) = (hand.hold(worker.drive(connector, clock)), result.clone());
        tokio::spawn(async move {
            if let Some(how) = held.await {
                let how = how.map_or_else(|error| error.to_string(), |()| "left".into());
                *end.lock().unwrap_or_else(PoisonError::into_inner) = Some(how);
            }
        });
        self.note(|| format!("{process} starts"));
        self.desks[desk].running = Some(RunningWorker { process, hand, leave, result, leaving: false });
    }

    pub fn crash_worker(&mut self, desk: usize, vanish: bool) {
        let Some(running) = self.desks[desk].running.take() else { return };
        let process = running.process;
        self.note(|| format!("{process} crashes{}", if vanish { " without a word" } else { "" }));
        if vanish {
            self.net.vanish(&process);
        }
        running.hand.kill();
        self.log.write(&process, What::Killed, None);
        let after = self.pause_before_start();
        self.later(after, Later::StartWorker(desk));
    }

    pub fn freeze_worker(&mut self, desk: usize, span: Duration) {
        let start = self.desks[desk].starts;
        let Some(running) = &self.desks[desk].running else { return };
        if running.hand.is_frozen() {
            return;
        }
        running.hand.freeze(true);
        let process = running.process.clone();
        self.log.write(&process, What::Frozen, None);
        self.note(|| format!("{process} stands still for {span:?}"));
        self.later(span, Later::ThawWorker(desk, start));
    }

    pub fn thaw_worker(&mut self, desk: usize) {
        let Some(running) = &self.desks[desk].running else { return };
        if running.hand.is_frozen() {
            let process = running.process.clone();
            self.log.write(&process, What::Thawed, None);
            running.hand.freeze(false);
            self.note(|| format!("{process} goes on"));
        }
    }

    /// Asks a worker to leave, as SIGTERM would.
    pub fn leave(&mut self, desk: usize) {
        if let Some(running) = &mut self.desks[desk].running {
            running.leaving = true;
            running.leave.cancel();
            let process = running.process.clone();
            self.note(|| format!("{process} is asked to leave"));
        }
    }

    // ---- the end

    /// Faults stop, and what is broken is mended.
    pub fn heal(&mut self) {
        self.note(|| "faults stop".into());
        self.calm = true;
        self.chaos.set(crate::faults::Rates::default());
        self.watch.lock().doomed = None;
        self.net.slow(3);
        self.net.heal();
        for desk in 0..self.desks.len() {
            self.thaw_worker(desk);
        }
        let sessions: Vec<String> =
            self.seats.iter().filter_map(|s| Some(s.running.as_ref()?.session.clone())).collect();
        for session in sessions {
            self.store.resume(&session);
        }
        for seat in &self.seats {
            if let Some(running) = &seat.running {
                running.hand.freeze(false);
            }
        }
    }

    /// Whatever is wrong with the world at rest.
    pub fn unsettled(&self) -> Vec<String> {
        let (jobs, dumps, attachments) = self.store.view(|view| {
            let names: Vec<JobName> = view.jobs().into_iter().collect();
            let jobs: BTreeMap<JobName, _> =
                names.iter().filter_map(|name| Some((name.clone(), view.snapshot(name).ok()??))).collect();
            let dumps: BTreeMap<JobName, _> =
                names.iter().filter_map(|name| Some((name.clone(), view.dump(name)?))).collect();
            let attachments = view.attachments().unwrap_or_default();
            (jobs, dumps, attachments)
        });
        let watch = self.watch.lock();
        let sessions =
            self.seats.iter().filter_map(|seat| Some(seat.running.as_ref()?.session.clone())).collect();
        let coordinators =
            self.seats.iter().filter(|seat| seat.running.is_some()).map(|seat| seat.name.clone()).collect();
        let rest = settles::AtRest {
            now: self.now(),
            shadows: &watch.shadow.jobs,
            attachments: attachments.into_iter().map(|(id, (_, attachment))| (id, attachment)).collect(),
            sessions,
            coordinators,
            workers: self.live_workers(&watch.who),
            in_user_code: self.in_user_code(),
            jobs,
        };
        let mut found = settles::check(&rest);
        for (name, dump) in &dumps {
            if let Some(snapshot) = rest.jobs.get(name)
                && let Ok(Some(view)) = rosterd_domain::view::Job::decode(name, &snapshot.nodes)
            {
                found.extend(mirrors::check(&view, snapshot, dump));
            }
        }
        found
    }

    /// The workers of living processes, as they were last welcomed.
    fn live_workers(&self, who: &BTreeMap<String, WorkerId>) -> BTreeSet<WorkerId> {
        let live = self.desks.iter().filter_map(|desk| desk.running.as_ref());
        live.filter_map(|running| who.get(&running.process).cloned()).collect()
    }

    fn in_user_code(&self) -> BTreeSet<(String, u32, u64)> {
        let mut runs = BTreeSet::new();
        for line in self.log.lines() {
            let run = (line.job, line.item, line.token);
            match line.what {
                What::Start => drop(runs.insert(run)),
                What::End | What::Drop => drop(runs.remove(&run)),
                _ => {}
            }
        }
        runs
    }

    /// Judges what the handlers wrote down.
    pub fn judge(&self) {
        // Here a process notices at once when it wakes.
        for fault in judge(&self.log.lines(), 0).faults {
            self.watch.lock().broke(fault.rule, fault.text);
        }
    }
}

pub fn namespace() -> Namespace {
    Namespace::new("sim").unwrap_or_else(|error| unreachable!("{error}"))
}

pub fn base() -> Time {
    Time::parse(BASE).unwrap_or_default()
}
