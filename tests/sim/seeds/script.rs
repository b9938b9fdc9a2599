//! What a seed plays, as a file: a line for the world, a line for each event. It can be shrunk (`shrink`) and played
//! again (`SCRIPT=FILE cargo xtask sim`).
//!
//! A seed plays differently once the generator has changed; a script stays the same. It contains everything except the
//! random decisions while it is played, which come from its own `seed`.

use std::time::Duration;

use rosterd_domain::time::Time;
use serde::{Deserialize, Serialize};

use crate::faults::disruption::{Disruption, kinds};
use crate::faults::operator_request::{STRATEGIES, ZONES};
use crate::faults::store::StoreFaultRates;
use crate::rng::Rng;
use crate::seeds::play::{job, plan};
use crate::world::handlers::JobPlan;
use crate::world::network::Direction;
use crate::world::{WorldPlan, WorldTimes};

/// How long disruptions go on in a seed, in milliseconds. With the time to settle that makes two minutes.
pub const TROUBLE: u64 = 90_000;

/// How many faults must take effect at least: a crash of a process that is not running does not count.
const LEAST_FAULTS: usize = 20;

/// How many spare disruptions there are after that time, for a world in which too few took effect.
const SPARE: usize = 30;

/// Frames a second of the hostile worker; each world has one of these rates.
const HOSTILE: [u64; 4] = [0, 0, 4, 16];

/// What is played.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    pub seed: u64,
    pub coordinators: usize,
    pub workers: usize,
    pub times: WorldTimes,
    pub slots: (u64, u64),
    /// When the world begins.
    pub base: Time,
    pub jobs: Vec<JobPlan>,
    pub rates: StoreFaultRates,
    /// By how much clocks differ in rate.
    pub drift: u64,
    /// The store has a clock of its own, and one in twelve coordinators starts with a wrong one.
    #[serde(default)]
    pub store_clock: bool,
    /// When faults stop, in milliseconds; later ones happen only if fewer than `least` took effect.
    pub until: u64,
    #[serde(default)]
    pub least: usize,
    /// Frames in flight on a stream that its worker has left still arrive.
    #[serde(default)]
    pub lingers: bool,
    /// Frames a second of the hostile worker; `None`: there is no such worker.
    #[serde(default)]
    pub hostile: u64,
    /// Processes that are dead from then on: the others have to settle without them.
    pub dead: Vec<PermanentFailure>,
    #[serde(skip)]
    pub events: Vec<ScriptEvent>,
}

/// An event, with its time in milliseconds after the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptEvent {
    pub at: u64,
    #[serde(rename = "do")]
    pub what: Disruption,
}

/// A process that stays dead when the others are healed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermanentFailure {
    Coordinator {
        replica: usize,
        how: FailureMode,
    },
    Worker {
        machine: usize,
        how: FailureMode,
    },
    /// Both are alive, and never reach each other, or one never reaches the other.
    Pair {
        machine: usize,
        replica: usize,
        direction: Direction,
    },
}

kinds! { PermanentFailure:
    PermanentFailure::Coordinator { how: FailureMode::Killed, .. } => "left behind: coordinator killed",
    PermanentFailure::Coordinator { how: FailureMode::Vanished, .. } => "left behind: coordinator vanished",
    PermanentFailure::Coordinator { how: FailureMode::StandsStill, .. } => "left behind: coordinator stands still",
    PermanentFailure::Coordinator { how: FailureMode::CutOff, .. } => "left behind: coordinator cut off from the store",
    PermanentFailure::Coordinator { how: FailureMode::Parted, .. } => "left behind: coordinator parted from all workers",
    PermanentFailure::Coordinator { .. } => "left behind: coordinator parted from all workers one way",
    PermanentFailure::Worker { how: FailureMode::Killed, .. } => "left behind: worker killed",
    PermanentFailure::Worker { how: FailureMode::Vanished, .. } => "left behind: worker vanished",
    PermanentFailure::Worker { how: FailureMode::StandsStill, .. } => "left behind: worker stands still",
    PermanentFailure::Worker { how: FailureMode::Parted | FailureMode::CutOff, .. } => "left behind: worker parted from all coordinators",
    PermanentFailure::Worker { .. } => "left behind: worker parted from all coordinators one way",
    PermanentFailure::Pair { direction: Direction::Both, .. } => "left behind: worker parted from a coordinator",
    PermanentFailure::Pair { .. } => "left behind: worker parted from a coordinator one way",
}

/// How it is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureMode {
    Killed,
    Vanished,
    StandsStill,
    /// A coordinator is cut off from the store forever, and does not learn that its session is over.
    CutOff,
    /// Nothing passes between it and its workers, or its coordinators. A coordinator that is partitioned this way may
    /// still lead.
    Parted,
    /// No frame from workers passes; or none from coordinators.
    PartedUp,
    PartedDown,
}

impl FailureMode {
    /// The blocked direction, if it is dead by a partition.
    pub fn direction(self) -> Option<Direction> {
        match self {
            Self::Parted => Some(Direction::Both),
            Self::PartedUp => Some(Direction::Up),
            Self::PartedDown => Some(Direction::Down),
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
        let WorldPlan { coordinators, workers, times, jobs, slots, base, drift, store_clock, .. } = plan;
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
    pub fn plan(&self) -> WorldPlan {
        let Self { coordinators, workers, times, slots, base, drift, store_clock, .. } = *self;
        let jobs = self.jobs.clone();
        let plan = plan(self.seed);
        WorldPlan { coordinators, workers, times, jobs, slots, base, drift, store_clock, told: false, ..plan }
    }

    /// Lines of JSON: the world, then the events.
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
/// runs are long; in some worlds one with some hours only, and one whose runs no record holds.
fn world_of(seed: u64) -> WorldPlan {
    let mut rng = Rng::new(seed ^ 0x0f_1e_2d_3c);
    let times = if rng.permille(300) { WorldTimes::LONG } else { WorldTimes::SHORT };
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
    // Scheduled times are skipped there while a crashed run waits for an instance.
    let mut skips = Rng::new(seed ^ 0x00_5c_1b_ed);
    jobs[1].misfire = skips.permille(800);
    jobs[2].misfire = skips.permille(800);
    let drift = if rng.permille(500) { 4500 } else { 0 };
    let store_clock = Rng::new(seed ^ 0x00_c1_0c_c5).permille(600);
    WorldPlan {
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

/// When worlds begin: on an ordinary day, and a moment before clocks change in one of the zones.
const BEGINNINGS: [&str; 6] = [
    "2026-03-01T00:00:00Z",
    "2026-03-01T00:00:00Z",
    "2026-03-08T06:59:15Z",
    "2026-11-01T05:59:15Z",
    "2026-04-04T14:59:15Z",
    "2026-10-03T15:29:15Z",
];

fn appetite(rng: &mut Rng) -> StoreFaultRates {
    let of = |rng: &mut Rng, choices: &[u64]| choices[rng.index(choices.len())];
    StoreFaultRates {
        lose_before: of(rng, &[0, 5, 20, 60]),
        lose_after: of(rng, &[0, 5, 20, 60]),
        refuse: of(rng, &[0, 0, 10]),
        slow: (of(rng, &[0, 30, 100]), of(rng, &[100, 1500])),
        read_fails: of(rng, &[0, 0, 20]),
    }
}

/// A world has only some kinds of disruption, so that rare combinations of two become frequent.
fn events(rng: &mut Rng, plan: &WorldPlan) -> Vec<ScriptEvent> {
    let mut has = rng.fork("kinds");
    let mut kinds: Vec<(&'static str, bool)> = Vec::new();
    let mut allowed = |what: &Disruption| {
        let kind = what.name();
        if let Some((_, allowed)) = kinds.iter().find(|(name, _)| *name == kind) {
            return *allowed;
        }
        let often = if kind.contains("calendar") { 300 } else { 700 };
        kinds.push((kind, has.permille(often)));
        kinds.last().is_some_and(|(_, allowed)| *allowed)
    };
    let busy = crate::faults::disruption::millis(rng.millis(300, 3000));
    let (mut events, mut at, mut spare) = (Vec::new(), 0, 0);
    while spare < SPARE {
        at += crate::faults::disruption::millis(rng.millis(50, if at < TROUBLE { busy * 2 } else { 600 }));
        let what = Disruption::any(rng, plan);
        if allowed(&what) {
            spare += usize::from(at >= TROUBLE && what.is_fault());
            events.push(ScriptEvent { at, what });
        }
    }
    events
}

fn left_behind(rng: &mut Rng, plan: &WorldPlan) -> Vec<PermanentFailure> {
    const PARTED: [FailureMode; 4] =
        [FailureMode::Parted, FailureMode::Parted, FailureMode::PartedUp, FailureMode::PartedDown];
    let mut dead = Vec::new();
    let coordinators = [0, 1, 1, 2][rng.index(4)];
    let first = rng.index(plan.coordinators);
    for replica in 0..coordinators {
        let parted = PARTED[rng.index(4)];
        let how = [
            FailureMode::Killed,
            FailureMode::Vanished,
            FailureMode::StandsStill,
            FailureMode::CutOff,
            parted,
        ][rng.index(5)];
        dead.push(PermanentFailure::Coordinator { replica: (first + replica) % plan.coordinators, how });
    }
    let (workers, first) = (rng.index(3), rng.index(plan.workers));
    for machine in 0..workers {
        let how =
            [FailureMode::Killed, FailureMode::Vanished, FailureMode::StandsStill, PARTED[rng.index(4)]]
                [rng.index(4)];
        dead.push(PermanentFailure::Worker { machine: (first + machine) % plan.workers, how });
    }
    // The last two: between processes that are not dead otherwise, if there are any.
    for pair in 0..(if coordinators < 2 { 1 + rng.index(2) } else { 0 }) {
        let (machine, replica) = (first + workers + pair, rng.index(plan.coordinators));
        let direction = [Direction::Up, Direction::Down, Direction::Both][rng.index(3)];
        dead.push(PermanentFailure::Pair { machine: machine % plan.workers, replica, direction });
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
