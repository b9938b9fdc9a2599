//! How a seed is played.

use std::future::Future;
use std::time::Duration;

use crate::faults::hostile_worker;
use crate::faults::inject::inject;
use crate::invariants::nobody_spins;
use crate::oracle::coverage::Counts;
use crate::oracle::reference_schedule::ReferenceSchedule;
use crate::seeds::script::{Script, ms};
use crate::world::handlers::JobPlan;
use crate::world::panics;
use crate::world::{World, WorldPlan, WorldTimes, base};
use rosterd_domain::verify::{Fault, Line, What};

/// Runs a world on one thread, in simulated time.
pub fn block_on<T>(play: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    match runtime {
        Ok(runtime) => runtime.block_on(play),
        Err(error) => panic!("no runtime: {error}"),
    }
}

/// One of the jobs of a world.
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
        zone: None,
        hours: Vec::new(),
        timeout: None,
        held: None,
        answer: (1, 1800),
        monitor: true,
    };
    match name {
        "hours" => JobPlan { name: "hours", period: 20, items: 2, ..plan },
        "again" => JobPlan { name: "again", period: 2, items: 4, failover: true, run: (400, 1600), ..plan },
        "long" => JobPlan { name: "long", period: 5, items: 2, failover: true, run: (5000, 15000), ..plan },
        "bare" => {
            JobPlan { name: "bare", items: 2, misfire: false, monitor: false, run: (100, 1600), ..plan }
        }
        _ => plan,
    }
}

/// A world of one coordinator, two workers and no jobs.
pub fn plan(seed: u64) -> WorldPlan {
    let verbose = std::env::var("VERBOSE").is_ok();
    let (jobs, slots, times) = (Vec::new(), (8, 8), WorldTimes::LONG);
    WorldPlan {
        seed,
        coordinators: 1,
        workers: 2,
        times,
        jobs,
        slots,
        base: base(),
        store_clock: false,
        drift: 0,
        told: true,
        verbose,
    }
}

/// The result of a seed.
pub struct PlayOutcome {
    pub seed: u64,
    pub broken: Vec<Fault>,
    /// When the first invariant was broken.
    pub broke_at: Option<Duration>,
    /// How long it lasted.
    pub simulated: Duration,
    pub trace: Vec<String>,
    pub coverage: Counts,
}

impl PlayOutcome {
    /// The result of this world.
    pub fn of(world: &World) -> Self {
        world.judge();
        busy(world);
        let coverage = world.coverage.take();
        let observer = world.observer.lock();
        let (broken, trace) = (observer.broken.clone(), observer.trace.clone());
        Self {
            seed: world.plan.seed,
            broken,
            broke_at: observer.broke_at,
            simulated: world.elapsed(),
            trace,
            coverage,
        }
    }
}

/// Checks for busy loops: reads and writes stay below what the world justifies.
pub fn busy(world: &World) {
    for (what, count) in [("writes", world.store_faults.writes()), ("reads", world.store_faults.reads())] {
        if let Err(text) = nobody_spins::over_all(what, count, world.elapsed()) {
            world.observer.lock().broke("nobody_spins", text);
        }
    }
}

/// A world in which fewer faults took effect than its script asks for.
pub const TOO_FEW: &str = "world: too few faults took effect";

/// Plays a script: faults everywhere, then none, and everything must settle, except processes that are left dead.
pub fn play(script: &Script, told: bool) -> PlayOutcome {
    let before = panics::take();
    drop(before);
    let mut plan = script.plan();
    plan.told |= told;
    let mut outcome = block_on(async {
        let mut world = World::new(plan);
        world.store_faults.set(script.rates);
        world.net.linger(script.lingers);
        world.start_all();
        if script.hostile > 0 {
            world.hostile = Some(hostile_worker::enter(&world, script.hostile));
        }
        for event in &script.events {
            if event.at >= script.until && world.faults >= script.least {
                break;
            }
            let wait = ms(event.at).saturating_sub(world.elapsed());
            world.pass(wait).await;
            if !world.observer.lock().broken.is_empty() {
                break;
            }
            inject(&mut world, &event.what);
        }
        if world.faults < script.least && world.observer.lock().broken.is_empty() {
            world.coverage.count(TOO_FEW);
        }
        if world.observer.lock().broken.is_empty() {
            let wait = ms(script.until).saturating_sub(world.elapsed());
            world.pass(wait).await;
        }
        world.heal();
        script.dead.iter().for_each(|dead| world.leave_behind(*dead));
        rest(&mut world, Duration::from_secs(30)).await;
        clocks_changed(&world);
        PlayOutcome::of(&world)
    });
    for text in panics::take() {
        outcome.broken.push(Fault::new("panic", text, Vec::new()));
    }
    outcome
}

/// Counts a world in which the clocks of a job's zone changed.
fn clocks_changed(world: &World) {
    let changed = |zone| ReferenceSchedule::changes(zone, world.plan.base, world.now());
    let mut jobs = world.plan.jobs.iter();
    if jobs.any(|job| job.zone.is_some_and(changed)) {
        world.coverage.count("world: clocks are changed in the zone of a job");
    }
    if world.plan.jobs.iter().any(|job| !job.hours.is_empty() && job.zone.is_some_and(changed)) {
        world.coverage.count("world: clocks are changed in the zone of a job of some hours");
    }
}

/// Stops the faults and waits until the world is at rest, with a first check after `first`.
pub async fn settle_after(world: &mut World, first: Duration) {
    world.heal();
    rest(world, first).await;
}

/// Waits until the world is at rest, within a bound.
async fn rest(world: &mut World, first: Duration) {
    let bound = world.elapsed() + Duration::from_secs(90);
    world.pass(first).await;
    loop {
        let unsettled = world.unsettled();
        if unsettled.is_empty() || !world.observer.lock().broken.is_empty() {
            return;
        }
        if world.elapsed() > bound {
            return unsettled.into_iter().for_each(|(rule, text)| world.observer.lock().broke(rule, text));
        }
        world.pass(Duration::from_millis(700)).await;
    }
}

pub fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Runs that started in user code, by their source.
pub fn starts(world: &World, job: &str, source: &str) -> usize {
    let is = |line: &&Line| line.what == What::Start && line.job == job && line.source == source;
    world.log.lines().iter().filter(is).count()
}

/// Nothing was broken, and the world is at rest.
#[track_caller]
pub fn at_peace(world: &World) {
    world.judge();
    let broken = world.observer.lock().broken.clone();
    assert!(broken.is_empty(), "{broken:#?}");
    let unsettled = world.unsettled();
    assert!(unsettled.is_empty(), "{unsettled:#?}");
}
