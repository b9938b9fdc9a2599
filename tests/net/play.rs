//! How a seed is played.

use std::collections::BTreeMap;
use std::time::Duration;

use rosterd_domain::verify::Fault;

use crate::rng::Rng;
use crate::work::JOBS;
use crate::world::{Break, Host, World, WorldPlan, WorldTimes};

/// The defaults.
pub const LONG: WorldTimes = WorldTimes {
    session: Duration::from_secs(10),
    lease: Duration::from_secs(5),
    heartbeat: Duration::from_secs(1),
    stop_budget: Duration::from_millis(500),
};

/// Short ones, so that more happens in a minute.
pub const SHORT: WorldTimes = WorldTimes {
    session: Duration::from_secs(4),
    lease: Duration::from_millis(1_500),
    heartbeat: Duration::from_millis(400),
    stop_budget: Duration::from_millis(200),
};

/// The result of a world.
pub struct Outcome {
    pub seed: u64,
    pub broken: Vec<Fault>,
    pub trace: Vec<String>,
    pub coverage: BTreeMap<String, u64>,
}

impl Outcome {
    /// The result of this world.
    pub fn of(world: &World) -> Self {
        world.judge();
        let coverage = world.shared.coverage.take().into_iter();
        let coverage = coverage.map(|(what, times)| (what.into_owned(), times)).collect();
        let observer = world.shared.observer.lock();
        Self {
            seed: world.plan.seed,
            broken: observer.broken.clone(),
            trace: observer.trace.clone(),
            coverage,
        }
    }

    /// Fails with the violations and the events before them.
    #[track_caller]
    pub fn is_clean(&self) {
        // The events before the first one, and a few after it.
        let broke = self.trace.iter().position(|line| line.contains("BROKEN")).unwrap_or(self.trace.len());
        let (from, to) = (broke.saturating_sub(60), (broke + 5).min(self.trace.len()));
        let seed = self.seed;
        assert!(
            self.broken.is_empty(),
            "seed {seed} breaks {:#?}\n{}\nplay it again: SEED={seed} cargo xtask sim --network\n",
            self.broken,
            self.trace[from..to].join("\n"),
        );
    }
}

/// The world of a seed.
pub fn world_of(seed: u64) -> WorldPlan {
    let mut rng = Rng::new(seed ^ 0x0e_70_0e_70);
    let times = if rng.permille(250) { LONG } else { SHORT };
    let slots = if rng.permille(250) { 2 } else { 6 };
    let (coordinators, workers) = (1 + rng.index(3), 2 + rng.index(3));
    WorldPlan { seed, coordinators, workers, times, jobs: JOBS.to_vec(), slots, person: true }
}

/// Plays faults everywhere for `trouble`, then none: everything must settle.
pub fn play(plan: WorldPlan, trouble: Duration) -> Outcome {
    let mut world = World::new(plan);
    let mut rng = world.rng.fork("trouble");
    let mut of = |choices: &[u64]| choices[rng.index(choices.len())];
    world.store_faults.set(of(&[0, 5, 30]), of(&[0, 5, 30]), of(&[0, 20, 80]));
    let busy = of(&[600, 1_500, 3_000]);
    world.pass(Duration::from_secs(3));
    while world.elapsed() < trouble && world.is_whole() {
        let quiet = rng.millis(50, busy);
        world.pass(quiet);
        trouble_once(&mut world, &mut rng);
    }
    settle(&mut world);
    Outcome::of(&world)
}

/// Stops the faults and waits until the world is at rest.
pub fn settle(world: &mut World) {
    world.heal();
    world.pass(Duration::from_secs(15));
    let mut unsettled = Vec::new();
    let settled = world.pass_until(Duration::from_secs(90), |world| {
        unsettled = world.unsettled();
        unsettled.is_empty()
    });
    if !settled && world.is_whole() {
        unsettled.into_iter().for_each(|(rule, text)| world.shared.observer.lock().broke(rule, text));
    }
}

/// Injects one fault.
fn trouble_once(world: &mut World, rng: &mut Rng) {
    let (desk, seat) = (rng.index(world.plan.workers), rng.index(world.plan.coordinators));
    let (lease, session) = (millis(world.plan.times.lease), millis(world.plan.times.session));
    let what = match rng.below(30) {
        0 | 1 => {
            world.crash(Host::Worker(desk), false);
            "worker crashes"
        }
        2 | 3 => {
            world.crash(Host::Worker(desk), true);
            "worker vanishes"
        }
        4 | 5 => {
            world.stop(Host::Worker(desk));
            "worker leaves"
        }
        6 | 7 => {
            world.crash(Host::Coordinator(seat), false);
            "coordinator crashes"
        }
        8 => {
            world.crash(Host::Coordinator(seat), true);
            "coordinator vanishes"
        }
        9 => {
            world.stop(Host::Coordinator(seat));
            "coordinator stops"
        }
        10..=12 => {
            world.suspend(seat, rng.millis(100, 2 * session));
            "store out of reach"
        }
        13..=24 => {
            let (how, what) = [
                (Break::Both, "packets lost both ways"),
                (Break::Up, "packets to a coordinator lost"),
                (Break::Down, "packets to a worker lost"),
                (Break::Held, "packets held"),
                (Break::Slow(rng.millis(50, lease / 3)), "packets slow"),
            ][rng.index(5)];
            world.break_for(desk, seat, how, rng.millis(50, 3 * lease));
            what
        }
        25 | 26 => {
            for (desk, seat) in world.links_of(Host::Worker(desk)) {
                world.break_for(desk, seat, Break::Both, rng.millis(lease / 2, 3 * lease));
            }
            "worker alone"
        }
        _ => {
            for (desk, seat) in world.links_of(Host::Coordinator(seat)) {
                world.break_for(desk, seat, Break::Held, rng.millis(100, lease));
            }
            "coordinator held up"
        }
    };
    world.shared.coverage.count(format!("fault: {what}"));
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
