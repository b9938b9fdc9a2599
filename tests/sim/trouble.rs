//! Everything that may go wrong in a world, and everything that people may ask for, as values: so that what a seed
//! plays can be written down, made shorter and played again. What a value means is in `strike`.

use serde::{Deserialize, Serialize};

use crate::rng::Rng;
use crate::wire::Way;
use crate::wish::{self, Wish};
use crate::world::{Plan, Times};

/// One thing that goes wrong. `desk` is a worker's place, `seat` a coordinator's; times are milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// The process dies; its streams break.
    WorkerCrashes {
        desk: usize,
    },
    /// Its machine does, so that nobody hears of it.
    WorkerVanishes {
        desk: usize,
    },
    /// The process dies right after its next frame but so many, which arrives or not.
    WorkerDiesSending {
        desk: usize,
        after: u64,
        arrives: bool,
    },
    WorkerLeaves {
        desk: usize,
    },
    WorkerStandsStill {
        desk: usize,
        span: u64,
    },
    /// Its handlers take so many times as long.
    HandlersSlow {
        desk: usize,
        times: u64,
        span: u64,
    },
    StreamBreaks {
        desk: usize,
    },
    /// What is under way waits; it arrives afterwards, after the frames of a younger stream if need be.
    StreamSilent {
        desk: usize,
        way: Way,
        span: u64,
    },
    /// A worker and a coordinator cannot reach each other, or one cannot reach the other; new streams neither.
    Parted {
        desk: usize,
        seat: usize,
        way: Way,
        span: u64,
    },
    /// No worker reaches the coordinator, which reaches the store.
    HostParted {
        seat: usize,
        way: Way,
        span: u64,
    },
    /// Frames that may be sent again are.
    FramesRepeated {
        desk: usize,
        span: u64,
    },
    NetworkSlow {
        longest: u64,
    },
    CoordinatorCrashes {
        seat: usize,
    },
    CoordinatorVanishes {
        seat: usize,
    },
    /// It dies right after its next applied write but so many.
    CoordinatorDiesWriting {
        seat: usize,
        after: u64,
    },
    CoordinatorStandsStill {
        seat: usize,
        span: u64,
    },
    CoordinatorStops {
        seat: usize,
    },
    /// The store is out of reach; longer than the session, and the session is over.
    StoreOutOfReach {
        seat: usize,
        span: u64,
    },
    /// The same several times.
    StoreFlaps {
        seat: usize,
        times: u64,
        span: u64,
    },
    /// The store ends a session that it could have kept.
    SessionEndsEarly {
        seat: usize,
    },
    /// It keeps one for so much longer than it had to.
    SessionEndsLate {
        seat: usize,
        by: u64,
    },
    /// It ends one that is out of reach; who held it hears of that only later.
    SessionEndsUnheard {
        seat: usize,
        span: u64,
    },
    /// Every write and read takes until then.
    StoreStalls {
        span: u64,
    },
    /// What a coordinator watches is told so much later.
    WatchesLate {
        seat: usize,
        by: u64,
        span: u64,
        /// One that is the same as one under way is told with it.
        #[serde(default)]
        merged: bool,
    },
    /// A coordinator's calendar jumps, and back again.
    CalendarJumps {
        seat: usize,
        by: i64,
        span: u64,
    },
    /// A worker's does.
    WorkerCalendarJumps {
        desk: usize,
        by: i64,
        span: u64,
    },
    /// A foreign tool removes a node.
    Foreign {
        job: usize,
        what: Foreign,
    },
    /// All streams of a worker fall silent, then those of the next and so on in this order, with so long between two; then
    /// they talk again in another order.
    Swizzled {
        silent: Vec<usize>,
        talk: Vec<usize>,
        gap: u64,
    },
    /// A coordinator's calendar runs fast or slow by so many parts of a million, its other clock does not; then it is set
    /// right again.
    CalendarSlews {
        seat: usize,
        fast: i64,
        span: u64,
    },
    /// Somebody wants something.
    Operator(Wish),
}

/// A node that a foreign tool removes or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Foreign {
    /// Who leads.
    Leader,
    /// An instance: a command.
    Instance,
    /// The node that says who runs an item: a mirror.
    Running,
    /// TRIGGER into an instance: its items are to run once.
    TriggerData,
    /// The same by a node of its own.
    TriggerNode,
    /// The node that says of an item that it is disabled.
    Disable,
    /// The same node goes.
    Enable,
}

/// Says the name of each of some values, for counts, and lists all names: one table for both, so that none is left out.
macro_rules! kinds {
    ($of:ident: $($pattern:pat => $name:literal,)*) => {
        impl $of {
            /// All names.
            pub const KINDS: &[&str] = &[$($name),*];

            /// Its name, for counts.
            pub fn kind(&self) -> &'static str {
                match self { $($pattern => $name,)* }
            }
        }
    };
}

pub(crate) use kinds;

use Trouble as T;

kinds! { Trouble:
    T::WorkerCrashes { .. } => "fault: worker crashes",
    T::WorkerVanishes { .. } => "fault: worker vanishes",
    T::WorkerDiesSending { .. } => "fault: worker is to die after a frame",
    T::WorkerLeaves { .. } => "fault: worker leaves",
    T::WorkerStandsStill { .. } => "fault: worker stands still",
    T::HandlersSlow { .. } => "fault: handlers slow",
    T::StreamBreaks { .. } => "fault: stream breaks",
    T::StreamSilent { way: Way::Both, .. } => "fault: stream silent",
    T::StreamSilent { .. } => "fault: stream silent one way",
    T::Parted { way: Way::Both, .. } => "fault: worker parted from a coordinator",
    T::Parted { .. } => "fault: worker parted from a coordinator one way",
    T::HostParted { .. } => "fault: coordinator parted from all workers",
    T::FramesRepeated { .. } => "fault: frames are to be repeated",
    T::NetworkSlow { .. } => "fault: network slow",
    T::CoordinatorCrashes { .. } => "fault: coordinator crashes",
    T::CoordinatorVanishes { .. } => "fault: coordinator vanishes",
    T::CoordinatorDiesWriting { .. } => "fault: coordinator is to die after a write",
    T::CoordinatorStandsStill { .. } => "fault: coordinator stands still",
    T::CoordinatorStops { .. } => "fault: coordinator stops",
    T::StoreOutOfReach { .. } => "fault: store out of reach",
    T::StoreFlaps { .. } => "fault: store flaps",
    T::SessionEndsEarly { .. } => "fault: session ends early",
    T::SessionEndsLate { .. } => "fault: session ends late",
    T::SessionEndsUnheard { .. } => "fault: session ends unheard",
    T::StoreStalls { .. } => "fault: store stalls",
    T::WatchesLate { merged: false, .. } => "fault: watches late",
    T::WatchesLate { .. } => "fault: watches late and merged",
    T::CalendarJumps { .. } => "fault: calendar jumps",
    T::WorkerCalendarJumps { .. } => "fault: calendar of a worker jumps",
    T::Foreign { what: Foreign::Leader, .. } => "fault: foreign tool removes a leader",
    T::Foreign { what: Foreign::Instance, .. } => "fault: foreign tool removes an instance",
    T::Foreign { what: Foreign::Running, .. } => "fault: foreign tool removes a mirror",
    T::Foreign { what: Foreign::TriggerData, .. } => "fault: foreign tool writes TRIGGER into an instance",
    T::Foreign { what: Foreign::TriggerNode, .. } => "fault: foreign tool makes a trigger",
    T::Foreign { what: Foreign::Disable, .. } => "fault: foreign tool disables an item",
    T::Foreign { what: Foreign::Enable, .. } => "fault: foreign tool enables an item",
    T::Swizzled { .. } => "fault: streams silent and talking again in random order",
    T::CalendarSlews { .. } => "fault: calendar five percent fast or slow",
    T::Operator(_) => "an operator asks",
}

impl Trouble {
    /// Its name, and of a wish its own.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Operator(wish) => wish.wants.kind(),
            fault => fault.kind(),
        }
    }

    /// Whether it is a fault, not a wish.
    pub fn is_fault(&self) -> bool {
        !matches!(self, Self::Operator(_))
    }

    /// One at random.
    pub fn any(rng: &mut Rng, plan: &Plan) -> Self {
        let (seat, desk) = (rng.index(plan.coordinators), rng.index(plan.workers));
        let Times { lease, session, .. } = plan.times;
        let (lease, session) = (millis(lease), millis(session));
        let way = [Way::Up, Way::Down, Way::Both][rng.index(3)];
        let some = |rng: &mut Rng, from: u64, to: u64| millis(rng.millis(from, to));
        match rng.below(66) {
            0..=2 => T::WorkerCrashes { desk },
            3 | 4 => T::WorkerVanishes { desk },
            5..=7 => T::WorkerDiesSending { desk, after: rng.below(6), arrives: rng.permille(500) },
            8..=10 => T::WorkerLeaves { desk },
            11 | 12 => T::WorkerStandsStill { desk, span: some(rng, 100, 2 * lease) },
            13 => T::HandlersSlow { desk, times: 2 + rng.below(8), span: some(rng, 1000, 10_000) },
            14..=16 => T::StreamBreaks { desk },
            17..=19 => T::StreamSilent { desk, way, span: some(rng, 100, 3 * lease) },
            20 | 21 => T::Parted { desk, seat, way, span: some(rng, 100, 3 * session) },
            22 => T::HostParted { seat, way, span: some(rng, 100, 3 * session) },
            23 => T::FramesRepeated { desk, span: some(rng, 2000, 15_000) },
            24 | 25 => T::NetworkSlow { longest: [3, 50, 400][rng.index(3)] },
            26 | 27 => T::CoordinatorCrashes { seat },
            28 => T::CoordinatorVanishes { seat },
            29..=31 => T::CoordinatorDiesWriting { seat, after: 1 + rng.below(3) },
            32 | 33 => T::CoordinatorStandsStill { seat, span: some(rng, 100, 2 * session) },
            34 => T::CoordinatorStops { seat },
            35 | 36 => T::StoreOutOfReach { seat, span: some(rng, 100, 2 * session) },
            37 => T::StoreFlaps { seat, times: 2 + rng.below(4), span: some(rng, 100, session) },
            38 => T::SessionEndsEarly { seat },
            39 => T::SessionEndsLate { seat, by: some(rng, 500, 2 * session) },
            40 => T::SessionEndsUnheard { seat, span: some(rng, session, 3 * session) },
            41 => T::StoreStalls { span: some(rng, 200, session / 2) },
            42 | 43 => {
                let (by, span) = (some(rng, 100, 3000), some(rng, 1000, 10_000));
                T::WatchesLate { seat, by, span, merged: rng.permille(500) }
            }
            44 | 45 => T::CalendarJumps { seat, by: jump(rng), span: some(rng, 500, 20_000) },
            46 => T::WorkerCalendarJumps { desk, by: jump(rng), span: some(rng, 500, 20_000) },
            47 | 48 => {
                let what = FOREIGN[rng.index(FOREIGN.len())];
                T::Foreign { job: rng.index(plan.jobs.len()), what }
            }
            49 => T::Swizzled {
                silent: shuffled(rng, plan.workers),
                talk: shuffled(rng, plan.workers),
                gap: some(rng, 20, lease / 2),
            },
            50 => T::CalendarSlews {
                seat,
                fast: [-50_000, 50_000][rng.index(2)],
                span: some(rng, 2000, LONGEST_SLEW),
            },
            _ => T::Operator(wish::any(rng, plan)),
        }
    }
}

/// What foreign tools do.
const FOREIGN: [Foreign; 7] = [
    Foreign::Leader,
    Foreign::Instance,
    Foreign::Running,
    Foreign::TriggerData,
    Foreign::TriggerNode,
    Foreign::Disable,
    Foreign::Enable,
];

/// Within so long a calendar that is five percent fast or slow comes no further off than 0.9 s: it is followed, since none
/// could know.
const LONGEST_SLEW: u64 = 18_000;

/// All of so many, in any order.
fn shuffled(rng: &mut Rng, len: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..len).collect();
    for at in (1..len).rev() {
        all.swap(at, rng.index(at + 1));
    }
    all
}

/// By how much a calendar jumps: less than anybody minds, or much more.
pub fn jump(rng: &mut Rng) -> i64 {
    let by = [90, 900, 1900, 60_000, 3_600_000, 86_400_000][rng.index(6)];
    if rng.permille(500) { by } else { -by }
}

pub fn millis(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
