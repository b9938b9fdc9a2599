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
use crate::trouble::Trouble;
use crate::wish::{STRATEGIES, ZONES};
use crate::world::{Plan, Times};

/// How long a seed has trouble, in milliseconds. With what it takes to come to rest that makes two minutes.
pub const TROUBLE: u64 = 90_000;

/// So many faults at least.
const LEAST_FAULTS: usize = 20;

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
    /// When faults stop, in milliseconds.
    pub until: u64,
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
    Coordinator { seat: usize, how: How },
    Worker { desk: usize, how: How },
}

impl Dead {
    /// For counts.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Coordinator { how: How::Killed, .. } => "left behind: coordinator killed",
            Self::Coordinator { how: How::Vanished, .. } => "left behind: coordinator vanished",
            Self::Coordinator { how: How::StandsStill, .. } => "left behind: coordinator stands still",
            Self::Coordinator { how: How::CutOff, .. } => "left behind: coordinator cut off from the store",
            Self::Coordinator { how: How::Parted, .. } => "left behind: coordinator parted from all workers",
            Self::Worker { how: How::Killed, .. } => "left behind: worker killed",
            Self::Worker { how: How::Vanished, .. } => "left behind: worker vanished",
            Self::Worker { how: How::StandsStill, .. } => "left behind: worker stands still",
            Self::Worker { .. } => "left behind: worker parted from all coordinators",
        }
    }
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
}

impl Script {
    /// The script of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x7a_11_e5);
        let plan = world_of(seed);
        let rates = appetite(&mut rng);
        let events = events(&mut rng, &plan);
        let dead = if rng.permille(350) { left_behind(&mut rng, &plan) } else { Vec::new() };
        let Plan { coordinators, workers, times, jobs, slots, base, drift, .. } = plan;
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
            until: TROUBLE,
            dead,
            events,
        }
    }

    /// The world that it is played in.
    pub fn plan(&self) -> Plan {
        let Self { coordinators, workers, times, slots, base, drift, .. } = *self;
        let jobs = self.jobs.clone();
        Plan { coordinators, workers, times, jobs, slots, base, drift, told: false, ..plan(self.seed) }
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
/// runs are long.
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
    let drift = if rng.permille(500) { 4500 } else { 0 };
    Plan { coordinators: 3, workers: 5, times, jobs, slots, base, drift, told: false, ..plan(seed) }
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
        let kind = what.kind();
        if let Some((_, allowed)) = kinds.iter().find(|(name, _)| *name == kind) {
            return *allowed;
        }
        let often = if kind.contains("calendar") { 300 } else { 700 };
        kinds.push((kind, has.permille(often)));
        kinds.last().is_some_and(|(_, allowed)| *allowed)
    };
    let busy = crate::trouble::millis(rng.millis(300, 3000));
    let (mut events, mut at, mut faults) = (Vec::new(), 0, 0);
    loop {
        at += crate::trouble::millis(rng.millis(50, busy * 2));
        if at >= TROUBLE && faults >= LEAST_FAULTS {
            break;
        }
        // Faults that are still missing come among the others.
        let when = if at < TROUBLE { at } else { rng.below(TROUBLE) };
        let what = Trouble::any(rng, plan);
        if allowed(&what) {
            faults += usize::from(what.is_fault());
            events.push(Event { at: when, what });
        }
    }
    events.sort_by_key(|event| event.at);
    events
}

fn left_behind(rng: &mut Rng, plan: &Plan) -> Vec<Dead> {
    let mut dead = Vec::new();
    let coordinators = if rng.permille(300) { 2 } else { 1 };
    let first = rng.index(plan.coordinators);
    for seat in 0..coordinators {
        let how = [How::Killed, How::Vanished, How::StandsStill, How::CutOff, How::Parted][rng.index(5)];
        dead.push(Dead::Coordinator { seat: (first + seat) % plan.coordinators, how });
    }
    let (workers, first) = (rng.index(3), rng.index(plan.workers));
    for desk in 0..workers {
        let how = [How::Killed, How::Vanished, How::StandsStill, How::Parted][rng.index(4)];
        dead.push(Dead::Worker { desk: (first + desk) % plan.workers, how });
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
        assert!(script.events.iter().filter(|event| event.what.is_fault()).count() >= LEAST_FAULTS);
    }
    assert!(Script::read("{}").is_err() && Script::read("").is_err());
}
