//! The world: coordinators, workers and a person on hosts of a simulated network, the store in memory behind the
//! coordinators, and one queue of future events. Everything is derived from the seed.

#[allow(dead_code, reason = "shared with the simulation, which uses more of it")]
#[path = "../sim/world/clock.rs"]
pub mod clock;
#[allow(dead_code, reason = "shared with the simulation, which uses more of it")]
#[path = "../sim/world/process.rs"]
pub mod process;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rosterd_domain::id::{JobName, Namespace, WorkerId};
use rosterd_domain::time::Time;
use rosterd_domain::verify::{What, judge};
use rosterd_registry::memory::MemoryStore;
use turmoil::Sim;

use crate::host::{self, Life, Machine, Shared, WorkerSetup};
use crate::invariants::{AtRest, Unsettled, at_rest};
use crate::network::url;
use crate::oracle::coverage::Coverage;
use crate::oracle::observer::Observer;
use crate::rng::Rng;
use crate::store::StoreFaults;
use crate::tap::Processes;
use crate::time;
use crate::work::{JobPlan, Log};

/// When the world begins.
const BASE: &str = "2026-03-01T00:00:00Z";
/// The usual latency of a packet.
const LATENCY: Duration = Duration::from_millis(3);

pub fn base() -> Time {
    Time::parse(BASE).unwrap_or_default()
}

pub fn namespace() -> Namespace {
    Namespace::new("net").expect("it is a name")
}

/// The timeouts of a world.
#[derive(Debug, Clone, Copy)]
pub struct WorldTimes {
    pub session: Duration,
    pub lease: Duration,
    pub heartbeat: Duration,
    pub stop_budget: Duration,
}

/// The configuration of a world.
#[derive(Debug, Clone)]
pub struct WorldPlan {
    pub seed: u64,
    pub coordinators: usize,
    pub workers: usize,
    pub times: WorldTimes,
    pub jobs: Vec<JobPlan>,
    pub slots: u32,
    /// A person sends requests.
    pub person: bool,
}

/// A host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    Coordinator(usize),
    Worker(usize),
}

/// How the network fails between a worker and a coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// Packets are lost, in both directions, to the coordinator, or back. They are not sent again: the connection is
    /// dead, without notice to either end.
    Both,
    Up,
    Down,
    /// Packets wait, and arrive all at once in the end.
    Held,
    /// Each takes this long.
    Slow(Duration),
}

enum Later {
    Expire(String),
    Resume(String),
    Start(Host),
    Mend(usize, usize),
}

struct Program {
    machine: Arc<Machine>,
    running: bool,
    /// It is not started again.
    retired: bool,
}

pub struct World {
    pub plan: WorldPlan,
    pub rng: Rng,
    pub shared: Shared,
    pub store_faults: StoreFaults,
    sim: Sim<'static>,
    programs: BTreeMap<Host, Program>,
    broken: BTreeMap<(usize, usize), Break>,
    queue: BTreeMap<(Duration, u64), Later>,
    last: u64,
    /// Faults are over: a program that ends is restarted at once.
    calm: bool,
}

impl World {
    /// A world with everything started.
    pub fn new(plan: WorldPlan) -> Self {
        time::begin(Duration::ZERO);
        let (mut rng, coverage) = (Rng::new(plan.seed), Coverage::default());
        let store_faults = StoreFaults::new(rng.fork("store"), coverage.clone());
        let store = MemoryStore::with_faults(&namespace(), Arc::new(store_faults.clone()));
        let observer = Observer::new(base(), coverage.clone(), true, std::env::var("VERBOSE").is_ok());
        let (seen_by, heard) = (observer.clone(), store_faults.clone());
        store.observe(Box::new(move |seen| {
            heard.applied(seen.session, time::begun());
            seen_by.lock().seen(seen);
        }));
        let processes = Processes::default();
        let (log, times, jobs) = (Log::new(), plan.times, plan.jobs.clone());
        let shared = Shared { store, observer, log, coverage, processes, times, jobs };
        let sim = turmoil::Builder::new()
            .rng_seed(rng.next())
            .epoch(UNIX_EPOCH + Duration::from_millis(base().0.unsigned_abs()))
            .tick_duration(time::STEP)
            .min_message_latency(Duration::from_millis(1))
            .max_message_latency(LATENCY * 3)
            .tcp_capacity(4_096)
            .simulation_duration(Duration::from_secs(86_400))
            .build();
        let (programs, broken, queue) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut world =
            Self { plan, rng, shared, store_faults, sim, programs, broken, queue, last: 0, calm: false };
        world.settle_down();
        world
    }

    /// Puts the hosts into the network.
    fn settle_down(&mut self) {
        let urls: Vec<String> = (0..self.plan.coordinators).map(|seat| url(&format!("c{seat}"))).collect();
        for seat in 0..self.plan.coordinators {
            let (machine, shared) = (Machine::new(format!("c{seat}")), self.shared.clone());
            let on = machine.clone();
            self.sim.host(format!("c{seat}"), move || {
                begin(&on, &shared);
                host::coordinator(on.clone(), shared.clone())
            });
            self.add(Host::Coordinator(seat), machine);
        }
        for desk in 0..self.plan.workers {
            let (machine, shared) = (Machine::new(format!("w{desk}")), self.shared.clone());
            let (on, seed) = (machine.clone(), self.rng.next());
            let setup = WorkerSetup { servers: urls.clone(), slots: self.plan.slots, seed };
            // The address is known before the host is.
            let address = self.sim.lookup(format!("w{desk}")).to_string();
            self.sim.host(format!("w{desk}"), move || {
                begin(&on, &shared);
                shared.processes.begin(&address, on.process());
                host::worker(on.clone(), setup.clone(), shared.clone())
            });
            self.add(Host::Worker(desk), machine);
        }
        if self.plan.person {
            let (seed, shared) = (self.rng.next(), self.shared.clone());
            self.sim.host("p", move || host::person(urls.clone(), seed, shared.clone()));
        }
    }

    fn add(&mut self, host: Host, machine: Arc<Machine>) {
        self.programs.insert(host, Program { machine, running: true, retired: false });
    }

    pub fn elapsed(&self) -> Duration {
        self.sim.elapsed()
    }

    pub fn now(&self) -> Time {
        base().plus(self.elapsed())
    }

    pub fn note(&self, line: impl FnOnce() -> String) {
        self.shared.observer.note(line);
    }

    pub fn is_whole(&self) -> bool {
        self.shared.observer.lock().broken.is_empty()
    }

    fn later(&mut self, after: Duration, what: Later) {
        self.last += 1;
        self.queue.insert((self.elapsed() + after, self.last), what);
    }

    /// Lets `span` pass in the world.
    pub fn pass(&mut self, span: Duration) {
        let until = self.elapsed() + span;
        while self.elapsed() < until {
            time::begin(self.elapsed());
            if let Err(error) = self.sim.step() {
                self.shared.observer.lock().broke("hosts go on", error.to_string());
                return;
            }
            time::begin(self.elapsed());
            while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= time::begun()) {
                let what = entry.remove();
                self.happen(what);
            }
            self.notice();
        }
    }

    /// Lets time pass until this holds. Returns whether it did within `most`.
    pub fn pass_until(&mut self, most: Duration, mut holds: impl FnMut(&Self) -> bool) -> bool {
        let until = self.elapsed() + most;
        while self.elapsed() < until && self.is_whole() {
            if holds(self) {
                return true;
            }
            self.pass(Duration::from_millis(50));
        }
        false
    }

    fn happen(&mut self, what: Later) {
        match what {
            Later::Expire(session) => {
                if self.shared.store.expire(&session) {
                    self.note(|| format!("session {session} expires"));
                }
            }
            Later::Resume(session) => {
                self.shared.store.resume(&session);
            }
            Later::Start(host) => self.start(host),
            Later::Mend(desk, seat) => self.mend(desk, seat),
        }
    }

    /// Programs that have ended by themselves.
    fn notice(&mut self) {
        let hosts: Vec<Host> =
            self.programs.iter().filter(|(_, program)| program.running).map(|(host, _)| *host).collect();
        for host in hosts {
            let machine = self.programs[&host].machine.clone();
            if self.sim.is_host_running(machine.name.as_str()) {
                continue;
            }
            self.note(|| format!("{} is over", machine.process()));
            self.buried(host);
            if let Some(session) = machine.life().session.take() {
                self.shared.store.expire(&session);
            }
        }
    }

    fn buried(&mut self, host: Host) {
        let program = self.programs.get_mut(&host).expect("every host has a program");
        program.running = false;
        let machine = program.machine.clone();
        if matches!(host, Host::Worker(_)) {
            self.shared.log.write(&machine.process(), What::Killed, None);
        }
        let pause = if self.calm { Duration::from_millis(100) } else { self.rng.millis(100, 5_000) };
        self.later(pause, Later::Start(host));
    }

    // ---- faults

    /// A program dies, and its connections with it; `silently`: its machine dies, without notice to anybody.
    pub fn crash(&mut self, host: Host, silently: bool) {
        let program = &self.programs[&host];
        if !program.running {
            return;
        }
        let machine = program.machine.clone();
        self.note(|| {
            format!("{} crashes{}", machine.process(), if silently { " without a word" } else { "" })
        });
        if silently {
            for (desk, seat) in self.links_of(host) {
                self.break_for(desk, seat, Break::Both, Duration::from_millis(50));
            }
        }
        self.sim.crash(machine.name.as_str());
        if let Some(session) = machine.life().session.take() {
            let silence = self.until_expiry(&session);
            self.later(silence, Later::Expire(session));
        }
        self.buried(host);
    }

    /// Asks a program to end, as SIGTERM does.
    pub fn stop(&mut self, host: Host) {
        let machine = &self.programs[&host].machine;
        self.note(|| format!("{} is asked to end", machine.process()));
        machine.life().stop.cancel();
    }

    /// It is not started again, once it is over.
    pub fn retire(&mut self, host: Host) {
        self.programs.get_mut(&host).expect("every host has a program").retired = true;
    }

    fn start(&mut self, host: Host) {
        let program = self.programs.get_mut(&host).expect("every host has a program");
        if program.running || program.retired {
            return;
        }
        program.running = true;
        let machine = program.machine.clone();
        self.sim.bounce(machine.name.as_str());
        self.note(|| format!("{} starts", machine.process()));
    }

    /// The store cannot be reached; if longer than the session, the session is over.
    pub fn suspend(&mut self, seat: usize, span: Duration) {
        let session = self.programs[&Host::Coordinator(seat)].machine.life().session.clone();
        let Some(session) = session.filter(|session| self.shared.store.suspend(session)) else { return };
        self.note(|| format!("c{seat} loses the store for {span:?}"));
        let until = self.until_expiry(&session);
        if span > until {
            self.shared.coverage.count("fault: session of a living coordinator expires");
            self.later(until, Later::Expire(session));
        } else {
            self.later(span, Later::Resume(session));
        }
    }

    /// How long the store waits from now on before it ends a session that has fallen silent.
    fn until_expiry(&mut self, session: &str) -> Duration {
        let jitter = self.rng.millis(0, 500);
        let heard = self.store_faults.heard(session).unwrap_or_default();
        (heard + self.plan.times.session).saturating_sub(self.elapsed()) + jitter
    }

    /// The link between a worker and a coordinator fails. Returns whether it worked before.
    pub fn break_for(&mut self, desk: usize, seat: usize, how: Break, span: Duration) -> bool {
        if self.broken.contains_key(&(desk, seat)) {
            return false;
        }
        let (worker, coordinator) = (format!("w{desk}"), format!("c{seat}"));
        self.note(|| format!("{worker} and {coordinator}: {how:?} for {span:?}"));
        match how {
            Break::Both => self.sim.partition(worker, coordinator),
            Break::Up => self.sim.partition_oneway(worker, coordinator),
            Break::Down => self.sim.partition_oneway(coordinator, worker),
            Break::Held => self.sim.hold(worker, coordinator),
            Break::Slow(latency) => self.sim.set_link_latency(worker, coordinator, latency),
        }
        self.broken.insert((desk, seat), how);
        self.later(span, Later::Mend(desk, seat));
        true
    }

    fn mend(&mut self, desk: usize, seat: usize) {
        let Some(how) = self.broken.remove(&(desk, seat)) else { return };
        let (worker, coordinator) = (format!("w{desk}"), format!("c{seat}"));
        self.note(|| format!("{worker} and {coordinator} reach each other again"));
        match how {
            Break::Both => self.sim.repair(worker, coordinator),
            Break::Up => self.sim.repair_oneway(worker, coordinator),
            Break::Down => self.sim.repair_oneway(coordinator, worker),
            Break::Held => self.sim.release(worker, coordinator),
            Break::Slow(_) => self.sim.set_link_latency(worker, coordinator, LATENCY),
        }
    }

    /// All links of a host.
    pub fn links_of(&self, host: Host) -> Vec<(usize, usize)> {
        match host {
            Host::Coordinator(seat) => (0..self.plan.workers).map(|desk| (desk, seat)).collect(),
            Host::Worker(desk) => (0..self.plan.coordinators).map(|seat| (desk, seat)).collect(),
        }
    }

    /// Stops the faults and repairs their effects.
    pub fn heal(&mut self) {
        self.note(|| "faults stop".into());
        self.calm = true;
        self.store_faults.set(0, 0, 0);
        for (desk, seat) in self.broken.keys().copied().collect::<Vec<_>>() {
            self.mend(desk, seat);
        }
        for program in self.programs.values() {
            if let Some(session) = &program.machine.life().session {
                self.shared.store.resume(session);
            }
        }
    }

    // ---- the end

    fn lives(&self, of: fn(&Host) -> bool) -> impl Iterator<Item = &Arc<Machine>> {
        let live = self.programs.iter().filter(move |(host, program)| of(host) && program.running);
        live.map(|(_, program)| &program.machine)
    }

    /// What violates the invariants of a world at rest.
    pub fn unsettled(&self) -> Unsettled {
        let (jobs, dumps, attachments) = self.shared.store.view(|view| {
            let names: Vec<JobName> = view.jobs().into_iter().collect();
            let jobs: BTreeMap<JobName, _> =
                names.iter().filter_map(|name| Some((name.clone(), view.snapshot(name).ok()??))).collect();
            let dumps: BTreeMap<JobName, _> =
                names.iter().filter_map(|name| Some((name.clone(), view.dump(name)?))).collect();
            (jobs, dumps, view.attachments().unwrap_or_default())
        });
        let observer = self.shared.observer.lock();
        let seat = |host: &Host| matches!(host, Host::Coordinator(_));
        let desk = |host: &Host| matches!(host, Host::Worker(_));
        let missing = (jobs.len() < self.plan.jobs.len())
            .then(|| ("settles", format!("{} jobs of {}", jobs.len(), self.plan.jobs.len())));
        let watched = |session: String| (session.clone(), self.shared.store.watched(&session));
        let rest = AtRest {
            now: self.now(),
            shadows: &observer.shadow.jobs,
            attachments: attachments.into_iter().map(|(id, (_, attachment))| (id, attachment)).collect(),
            sessions: self
                .lives(seat)
                .filter_map(|machine| machine.life().session.clone().map(watched))
                .collect(),
            coordinators: self
                .lives(seat)
                .filter_map(|machine| Some(machine.life().id.as_ref()?.to_string()))
                .collect(),
            workers: self
                .lives(desk)
                .filter_map(|machine| observer.who.get(&machine.process()).cloned())
                .collect::<BTreeSet<WorkerId>>(),
            streams: BTreeMap::new(),
            asked_to_leave: &observer.asked_to_leave,
            shut_down: &observer.shut_down,
            unmarked: &observer.unmarked,
            last_begun: BTreeMap::new(),
            fewest_slots: u64::MAX,
            in_user_code: self.shared.log.in_user_code(),
            jobs,
            dumps,
        };
        at_rest(&rest).into_iter().chain(missing).collect()
    }

    /// Judges the handlers' log.
    pub fn judge(&self) {
        for fault in judge(&self.shared.log.lines(), 0).faults {
            self.shared.observer.lock().broke(fault.rule, fault.text);
        }
    }
}

/// A program starts on a machine.
fn begin(machine: &Machine, shared: &Shared) {
    let mut life = machine.life();
    *life = Life { starts: life.starts + 1, ..Life::default() };
    shared.coverage.count("starts");
}
