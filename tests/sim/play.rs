//! How a seed is played.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use crate::faults::Rates;
use crate::log::JobPlan;
use crate::operator;
use crate::rng::Rng;
use crate::wire::Way;
use crate::world::{Later, Plan, Times, World};
use rosterd_domain::verify::{Fault, Line, What};

/// Runs a world on one thread, in simulated time.
pub fn block_on<T>(play: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    match runtime {
        Ok(runtime) => runtime.block_on(play),
        Err(error) => panic!("no runtime: {error}"),
    }
}

/// One of the jobs that worlds are made of.
pub fn job(name: &str) -> JobPlan {
    let plan = JobPlan {
        name: "short",
        period: 1,
        items: 3,
        failover: false,
        misfire: true,
        run: (20, 300),
        fails: 30,
        deaf: 0,
        strategy: "AVG_ALLOCATION",
        grace: None,
        guarantee: false,
    };
    match name {
        "again" => JobPlan { name: "again", period: 2, items: 4, failover: true, run: (400, 1600), ..plan },
        "long" => JobPlan { name: "long", period: 5, items: 2, failover: true, run: (5000, 15000), ..plan },
        _ => plan,
    }
}

/// A world of one coordinator, two workers and no jobs.
pub fn plan(seed: u64) -> Plan {
    let verbose = std::env::var("VERBOSE").is_ok();
    let (jobs, slots, times) = (Vec::new(), (8, 8), Times::LONG);
    Plan { seed, coordinators: 1, workers: 2, times, jobs, slots, verbose }
}

/// What became of a seed.
pub struct Outcome {
    pub seed: u64,
    pub broken: Vec<Fault>,
    pub trace: Vec<String>,
    pub coverage: BTreeMap<String, u64>,
}

impl Outcome {
    /// Takes stock of a world.
    pub fn of(world: &World) -> Self {
        world.judge();
        busy(world);
        let coverage = world.coverage.take();
        let watch = world.watch.lock();
        let (broken, trace) = (watch.broken.clone(), watch.trace.clone());
        Self { seed: world.plan.seed, broken, trace, coverage }
    }
}

/// Nobody goes round in circles: reads and writes stay below what the world can have reason for.
fn busy(world: &World) {
    let most = 150 * (1 + world.elapsed().as_secs());
    for (what, count) in [("writes", world.chaos.writes()), ("reads", world.chaos.reads())] {
        if count > most {
            let text = format!("{count} {what} in {:?}", world.elapsed());
            world.watch.lock().broke("nobody_spins", text);
        }
    }
}

/// The world of a seed.
pub fn world_of(seed: u64) -> Plan {
    let mut rng = Rng::new(seed ^ 0x0f_1e_2d_3c);
    let times = if rng.permille(300) { Times::LONG } else { Times::SHORT };
    let mut jobs = vec![job("short"), job("again"), job("long")];
    for job in &mut jobs {
        job.strategy = ["AVG_ALLOCATION", "STICKY", "ROUND_ROBIN", "ODEVITY"][rng.index(4)];
        job.deaf = [0, 0, 200][rng.index(3)];
    }
    jobs[0].misfire = rng.permille(700);
    jobs[1].grace = rng.permille(200).then_some(800);
    jobs[2].failover = rng.permille(600);
    let slots = if rng.permille(300) { (1, 3) } else { (4, 10) };
    let (coordinators, workers) = (1 + rng.index(3), 3 + rng.index(3));
    Plan { coordinators, workers, times, jobs, slots, ..plan(seed) }
}

/// Faults everywhere for `trouble`, then none: all must settle.
pub fn play(plan: Plan, trouble: Duration) -> Outcome {
    block_on(async {
        let mut world = World::new(plan);
        let mut rng = world.rng.fork("trouble");
        world.chaos.set(appetite(&mut rng));
        world.start_all();
        let busy = rng.millis(300, 3000);
        while world.elapsed() < trouble && world.watch.lock().broken.is_empty() {
            let quiet = rng.millis(50, u64::try_from(busy.as_millis()).unwrap_or(1000) * 2);
            world.pass(quiet).await;
            trouble_once(&mut world, &mut rng);
        }
        settle(&mut world).await;
        Outcome::of(&world)
    })
}

/// Stops the faults and waits until the world is at rest.
pub async fn settle(world: &mut World) {
    settle_after(world, Duration::from_secs(30)).await;
}

/// The same, with a first look after `first`.
pub async fn settle_after(world: &mut World, first: Duration) {
    world.heal();
    let bound = world.elapsed() + Duration::from_secs(90);
    world.pass(first).await;
    loop {
        let unsettled = world.unsettled();
        if unsettled.is_empty() || !world.watch.lock().broken.is_empty() {
            return;
        }
        if world.elapsed() > bound {
            return world.watch.lock().broke("settles", unsettled.join("; "));
        }
        world.pass(Duration::from_millis(700)).await;
    }
}

pub fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Runs that began in user code, by their source.
pub fn starts(world: &World, job: &str, source: &str) -> usize {
    let is = |line: &&Line| line.what == What::Start && line.job == job && line.source == source;
    world.log.lines().iter().filter(is).count()
}

/// Nothing was broken, and the world is at rest.
#[track_caller]
pub fn at_peace(world: &World) {
    world.judge();
    let broken = world.watch.lock().broken.clone();
    assert!(broken.is_empty(), "{broken:#?}");
    let unsettled = world.unsettled();
    assert!(unsettled.is_empty(), "{unsettled:#?}");
}

fn appetite(rng: &mut Rng) -> Rates {
    let of = |rng: &mut Rng, choices: &[u64]| choices[rng.index(choices.len())];
    Rates {
        lose_before: of(rng, &[0, 5, 20, 60]),
        lose_after: of(rng, &[0, 5, 20, 60]),
        refuse: of(rng, &[0, 0, 10]),
        slow: (of(rng, &[0, 30, 100]), of(rng, &[100, 1500])),
        read_fails: of(rng, &[0, 0, 20]),
    }
}

/// One thing goes wrong, or somebody wants something.
fn trouble_once(world: &mut World, rng: &mut Rng) {
    let (seat, desk) = (rng.index(world.seats.len()), rng.index(world.desks.len()));
    let process =
        world.desks[desk].running.as_ref().map(|running| running.process.clone()).unwrap_or_default();
    let (lease, session) = (millis(world.plan.times.lease), millis(world.plan.times.session));
    let what = match rng.below(32) {
        0..=2 => {
            world.crash_worker(desk, false);
            "worker crashes"
        }
        3 | 4 => {
            world.crash_worker(desk, true);
            "worker vanishes"
        }
        5 | 6 => {
            world.leave(desk);
            "worker leaves"
        }
        7 | 8 => {
            world.freeze_worker(desk, rng.millis(100, 2 * lease));
            "worker stands still"
        }
        9..=11 => {
            world.net.cut(&process);
            "stream breaks"
        }
        12..=14 => {
            let way = [Way::Up, Way::Down, Way::Both][rng.index(3)];
            world.net.silence_of(&process, way, true);
            world.later(rng.millis(100, 3 * lease), Later::Talk(process));
            "stream falls silent"
        }
        15 | 16 => {
            world.crash_coordinator(seat, false);
            "coordinator crashes"
        }
        17 => {
            world.crash_coordinator(seat, true);
            "coordinator vanishes"
        }
        18..=20 => {
            doom(world, seat, 1 + rng.below(3));
            "coordinator is to die after a write"
        }
        21 | 22 => {
            world.freeze_coordinator(seat, rng.millis(100, 2 * session));
            "coordinator stands still"
        }
        23 | 24 => {
            world.suspend(seat, rng.millis(100, 2 * session));
            "store out of reach"
        }
        25 => {
            if let Some(running) = &world.seats[seat].running {
                running.handle.stop();
            }
            "coordinator stops"
        }
        26 => {
            world.net.slow([3, 50, 400][rng.index(3)]);
            "network slow"
        }
        _ => {
            operator::bother(world);
            "operator"
        }
    };
    world.coverage.count(format!("fault: {what}"));
}

/// The coordinator dies right after its next write but `after`.
pub fn doom(world: &mut World, seat: usize, after: u64) {
    let Some(running) = &world.seats[seat].running else { return };
    let name = world.seats[seat].name.clone();
    let mut watch = world.watch.lock();
    let at = watch.writes_of(&name) + after;
    watch.doomed = Some((name, at, running.hand.clone()));
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
