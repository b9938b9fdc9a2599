//! What a seed plays, written down: a line for the world, a line for each thing that happens. It can be made shorter
//! (`shrink`) and played again (`SCRIPT=FILE cargo xtask sim`).
//!
//! Seeds are other stories once what is made of them has changed; a script goes on being the same one. It names everything
//! itself, but for what chance decides while it is played, which its own `seed` gives.

use std::time::Duration;

use rosterd_domain::time::Time;
use serde::{Deserialize, Serialize};

use crate::faults::Rates;
use crate::log::JobPlan;
use crate::play::{job, plan};
use crate::rng::Rng;
use crate::trouble::{Trouble, kinds};
use crate::wire::Way;
use crate::wish::{STRATEGIES, ZONES};
use crate::world::{Plan, Times};

/// How long a seed has trouble, in milliseconds. With what it takes to come to rest that makes two minutes.
pub const TROUBLE: u64 = 90_000;

/// So many faults at least that took effect: a crash of who is not there is none.
const LEAST_FAULTS: usize = 20;

/// So many are at hand beyond the time of trouble, for a world in which too few have had any.
const SPARE: usize = 30;

/// What a worker that says anything says a second, in worlds of a kind each.
const HOSTILE: [u64; 4] = [0, 0, 4, 16];

/// What is played.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    pub seed: u64,
    pub coordinators: usize,
    pub workers: usize,
    pub times: Times,
    pub slots: (u64, u64),
    /// When the world begins.
    pub base: Time,
    pub jobs: Vec<JobPlan>,
    pub rates: Rates,
    /// By how much clocks differ in rate.
    pub drift: u64,
    /// The store has a clock of its own, and a coordinator of twelve begins with a wrong one.
    #[serde(default)]
    pub store_clock: bool,
    /// When faults stop, in milliseconds; those that come later come only where fewer than `least` took effect.
    pub until: u64,
    #[serde(default)]
    pub least: usize,
    /// What is under way on a stream that its worker has left arrives all the same.
    #[serde(default)]
    pub lingers: bool,
    /// So many frames a second a worker says that says whatever can be said; none: there is none.
    #[serde(default)]
    pub hostile: u64,
    /// Who is dead from then on: the others are to settle without them.
    pub dead: Vec<Dead>,
    #[serde(skip)]
    pub events: Vec<Event>,
}

/// Something that happens, so many milliseconds after the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub at: u64,
    #[serde(rename = "do")]
    pub what: Trouble,
}

/// Who is left behind when the others are healed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dead {
    Coordinator {
        seat: usize,
        how: How,
    },
    Worker {
        desk: usize,
        how: How,
    },
    /// Both live, and never reach each other, or one never reaches the other.
    Pair {
        desk: usize,
        seat: usize,
        way: Way,
    },
}

kinds! { Dead:
    Dead::Coordinator { how: How::Killed, .. } => "left behind: coordinator killed",
    Dead::Coordinator { how: How::Vanished, .. } => "left behind: coordinator vanished",
    Dead::Coordinator { how: How::StandsStill, .. } => "left behind: coordinator stands still",
    Dead::Coordinator { how: How::CutOff, .. } => "left behind: coordinator cut off from the store",
    Dead::Coordinator { how: How::Parted, .. } => "left behind: coordinator parted from all workers",
    Dead::Coordinator { .. } => "left behind: coordinator parted from all workers one way",
    Dead::Worker { how: How::Killed, .. } => "left behind: worker killed",
    Dead::Worker { how: How::Vanished, .. } => "left behind: worker vanished",
    Dead::Worker { how: How::StandsStill, .. } => "left behind: worker stands still",
    Dead::Worker { how: How::Parted | How::CutOff, .. } => "left behind: worker parted from all coordinators",
    Dead::Worker { .. } => "left behind: worker parted from all coordinators one way",
    Dead::Pair { way: Way::Both, .. } => "left behind: worker parted from a coordinator",
    Dead::Pair { .. } => "left behind: worker parted from a coordinator one way",
}

/// How it is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    Killed,
    Vanished,
    StandsStill,
    /// A coordinator is cut off from the store for ever, and does not hear that its session is over.
    CutOff,
    /// Nothing passes between it and those whom it serves, or who serve it. A coordinator so parted may lead all the
    /// same.
    Parted,
    /// Nothing of the workers passes; or nothing of the coordinators.
    PartedUp,
    PartedDown,
}

impl How {
    /// Which way nothing passes, if that is how it is dead.
    pub fn way(self) -> Option<Way> {
        match self {
            Self::Parted => Some(Way::Both),
            Self::PartedUp => Some(Way::Up),
            Self::PartedDown => Some(Way::Down),
            Self::Killed | Self::Vanished | Self::StandsStill | Self::CutOff => None,
        }
    }
}

impl Script {
    /// The script of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x7a_11_e5);
        let plan = world_of(seed);
        let rates = appetite(&mut rng);
        let events = events(&mut rng, &plan);
        let dead = if rng.permille(600) { left_behind(&mut rng, &plan) } else { Vec::new() };
        let Plan { coordinators, workers, times, jobs, slots, base, drift, store_clock, .. } = plan;
        let (until, least) = (TROUBLE, LEAST_FAULTS);
        Self {
            seed,
            coordinators,
            workers,
            times,
            slots,
            base,
            jobs,
            rates,
            drift,
            store_clock,
            until,
            least,
            lingers: true,
            hostile: HOSTILE[Rng::new(seed ^ 0x0e_71_11).index(HOSTILE.len())],
            dead,
            events,
        }
    }

    /// The world that it is played in.
    pub fn plan(&self) -> Plan {
        let Self { coordinators, workers, times, slots, base, drift, store_clock, .. } = *self;
        let jobs = self.jobs.clone();
        let plan = plan(self.seed);
        Plan { coordinators, workers, times, jobs, slots, base, drift, store_clock, told: false, ..plan }
    }

    /// Lines of JSON: the world, then what happens.
    pub fn text(&self) -> String {
        let line = |of: Result<String, serde_json::Error>| of.unwrap_or_default() + "\n";
        let events = self.events.iter().map(|event| line(serde_json::to_string(event)));
        line(serde_json::to_string(self)) + &events.collect::<String>()
    }

    pub fn read(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let wrong = |at: usize, error: serde_json::Error| format!("line {}: {error}", at + 1);
        let (at, first) = lines.next().ok_or("a script begins with a line for the world")?;
        let mut script: Self = serde_json::from_str(first).map_err(|error| wrong(at, error))?;
        for (at, line) in lines {
            script.events.push(serde_json::from_str(line).map_err(|error| wrong(at, error))?);
        }
        Ok(script)
    }
}

/// The world of a seed: three coordinators, five workers, a job that fires each second, one with failover, one whose
/// runs are long; in some one of some hours, and one whose runs no record holds.
fn world_of(seed: u64) -> Plan {
    let mut rng = Rng::new(seed ^ 0x0f_1e_2d_3c);
    let times = if rng.permille(300) { Times::LONG } else { Times::SHORT };
    let mut jobs = vec![job("short"), job("again"), job("long")];
    for job in &mut jobs {
        job.strategy = STRATEGIES[rng.index(4)];
        job.deaf = [0, 0, 200][rng.index(3)];
        job.zone = [None, Some(ZONES[rng.index(ZONES.len())])][rng.index(2)];
    }
    jobs[0].misfire = rng.permille(700);
    jobs[1].grace = rng.permille(200).then_some(800);
    jobs[1].held = rng.permille(150).then(|| ["run", "skip"][rng.index(2)]);
    jobs[2].failover = rng.permille(600);
    jobs[2].timeout = rng.permille(250).then_some(9000);
    let slots = if rng.permille(300) { (1, 3) } else { (4, 10) };
    let base = Time::parse(BEGINNINGS[rng.index(BEGINNINGS.len())]).unwrap_or_default();
    if rng.permille(400) {
        let zone = [ZONES[1], ZONES[2]][rng.index(2)];
        let hours = [vec![1], vec![2], vec![1, 2], vec![1, 3], vec![0, 2]][rng.index(5)].clone();
        let period = [5, 20, 60][rng.index(3)];
        jobs.push(JobPlan { zone: Some(zone), hours, period, misfire: rng.permille(500), ..job("hours") });
    }
    let mut bare = Rng::new(seed ^ 0x00_ba_5e_d0);
    if bare.permille(250) {
        jobs.push(JobPlan { strategy: STRATEGIES[bare.index(4)], ..job("bare") });
    }
    // What is scheduled while a crashed run waits for a taker is skipped there.
    let mut skips = Rng::new(seed ^ 0x00_5c_1b_ed);
    jobs[1].misfire = skips.permille(800);
    jobs[2].misfire = skips.permille(800);
    let drift = if rng.permille(500) { 4500 } else { 0 };
    let store_clock = Rng::new(seed ^ 0x00_c1_0c_c5).permille(600);
    Plan {
        coordinators: 3,
        workers: 5,
        times,
        jobs,
        slots,
        base,
        drift,
        store_clock,
        told: false,
        ..plan(seed)
    }
}

/// When worlds begin: on a day like others, and a moment before clocks are changed in one of the zones.
const BEGINNINGS: [&str; 6] = [
    "2026-03-01T00:00:00Z",
    "2026-03-01T00:00:00Z",
    "2026-03-08T06:59:15Z",
    "2026-11-01T05:59:15Z",
    "2026-04-04T14:59:15Z",
    "2026-10-03T15:29:15Z",
];

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

/// Of all kinds of trouble a world has only some: so rare meetings of two become frequent.
fn events(rng: &mut Rng, plan: &Plan) -> Vec<Event> {
    let mut has = rng.fork("kinds");
    let mut kinds: Vec<(&'static str, bool)> = Vec::new();
    let mut allowed = |what: &Trouble| {
        let kind = what.name();
        if let Some((_, allowed)) = kinds.iter().find(|(name, _)| *name == kind) {
            return *allowed;
        }
        let often = if kind.contains("calendar") { 300 } else { 700 };
        kinds.push((kind, has.permille(often)));
        kinds.last().is_some_and(|(_, allowed)| *allowed)
    };
    let busy = crate::trouble::millis(rng.millis(300, 3000));
    let (mut events, mut at, mut spare) = (Vec::new(), 0, 0);
    while spare < SPARE {
        at += crate::trouble::millis(rng.millis(50, if at < TROUBLE { busy * 2 } else { 600 }));
        let what = Trouble::any(rng, plan);
        if allowed(&what) {
            spare += usize::from(at >= TROUBLE && what.is_fault());
            events.push(Event { at, what });
        }
    }
    events
}

fn left_behind(rng: &mut Rng, plan: &Plan) -> Vec<Dead> {
    const PARTED: [How; 4] = [How::Parted, How::Parted, How::PartedUp, How::PartedDown];
    let mut dead = Vec::new();
    let coordinators = [0, 1, 1, 2][rng.index(4)];
    let first = rng.index(plan.coordinators);
    for seat in 0..coordinators {
        let parted = PARTED[rng.index(4)];
        let how = [How::Killed, How::Vanished, How::StandsStill, How::CutOff, parted][rng.index(5)];
        dead.push(Dead::Coordinator { seat: (first + seat) % plan.coordinators, how });
    }
    let (workers, first) = (rng.index(3), rng.index(plan.workers));
    for desk in 0..workers {
        let how = [How::Killed, How::Vanished, How::StandsStill, PARTED[rng.index(4)]][rng.index(4)];
        dead.push(Dead::Worker { desk: (first + desk) % plan.workers, how });
    }
    // Those at the two last places left: between who is not dead by itself, where there is one.
    for pair in 0..(if coordinators < 2 { 1 + rng.index(2) } else { 0 }) {
        let (desk, seat) = (first + workers + pair, rng.index(plan.coordinators));
        let way = [Way::Up, Way::Down, Way::Both][rng.index(3)];
        dead.push(Dead::Pair { desk: desk % plan.workers, seat, way });
    }
    dead
}

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn a_script_reads_back() {
    for seed in 1..200 {
        let script = Script::of(seed);
        assert_eq!(Script::read(&script.text()), Ok(script.clone()), "seed {seed}");
    }
    assert!(Script::read("{}").is_err() && Script::read("").is_err());
}
