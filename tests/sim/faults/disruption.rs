//! All faults of a world, and all operator requests, as values: so that what a seed plays can be written to a file,
//! shrunk and played again. `inject` implements them.

use serde::{Deserialize, Serialize};

use crate::faults::operator_request::{self, OperatorRequest};
use crate::rng::Rng;
use crate::world::network::Direction;
use crate::world::{WorldPlan, WorldTimes};

/// One disruption. `machine` is a worker's index, `replica` a coordinator's; times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disruption {
    /// The process dies; its streams break.
    WorkerCrashes {
        machine: usize,
    },
    /// Its machine dies, so that nobody is notified.
    WorkerVanishes {
        machine: usize,
    },
    /// The process dies right after a number of further frames, the last of which arrives or not.
    WorkerDiesSending {
        machine: usize,
        after: u64,
        arrives: bool,
    },
    WorkerLeaves {
        machine: usize,
    },
    WorkerStandsStill {
        machine: usize,
        span: u64,
    },
    /// Its handlers are slower by a factor.
    HandlersSlow {
        machine: usize,
        times: u64,
        span: u64,
    },
    StreamBreaks {
        machine: usize,
    },
    /// Frames in flight wait; they arrive afterwards, even after the frames of a newer stream.
    StreamSilent {
        machine: usize,
        direction: Direction,
        span: u64,
    },
    /// A worker and a coordinator cannot reach each other, or one cannot reach the other; this includes new streams.
    Parted {
        machine: usize,
        replica: usize,
        direction: Direction,
        span: u64,
    },
    /// No worker reaches the coordinator; the coordinator reaches the store.
    HostParted {
        replica: usize,
        direction: Direction,
        span: u64,
    },
    /// Repeatable frames are repeated.
    FramesRepeated {
        machine: usize,
        span: u64,
    },
    NetworkSlow {
        longest: u64,
    },
    CoordinatorCrashes {
        replica: usize,
    },
    CoordinatorVanishes {
        replica: usize,
    },
    /// It dies right after a number of further applied writes.
    CoordinatorDiesWriting {
        replica: usize,
        after: u64,
    },
    CoordinatorStandsStill {
        replica: usize,
        span: u64,
    },
    CoordinatorStops {
        replica: usize,
    },
    /// The store is unreachable; if longer than the session, the session is over.
    StoreOutOfReach {
        replica: usize,
        span: u64,
    },
    /// The same several times.
    StoreFlaps {
        replica: usize,
        times: u64,
        span: u64,
    },
    /// The store ends a session that it could have kept.
    SessionEndsEarly {
        replica: usize,
    },
    /// It keeps a session longer than it had to.
    SessionEndsLate {
        replica: usize,
        by: u64,
    },
    /// It ends an unreachable session; its holder learns of that only later.
    SessionEndsUnheard {
        replica: usize,
        span: u64,
    },
    /// No write or read is answered before this time is over.
    StoreStalls {
        span: u64,
    },
    /// A coordinator's watches are notified later by this time.
    WatchesLate {
        replica: usize,
        by: u64,
        span: u64,
        /// A notification that equals one in flight is merged with it.
        #[serde(default)]
        merged: bool,
    },
    /// A coordinator's calendar jumps, and back again.
    CalendarJumps {
        replica: usize,
        by: i64,
        span: u64,
    },
    /// A worker's calendar jumps, and back again.
    WorkerCalendarJumps {
        machine: usize,
        by: i64,
        span: u64,
    },
    /// A foreign tool removes a node.
    ForeignTool {
        job: usize,
        what: ForeignToolAction,
    },
    /// All streams of a worker fall silent, then those of the next and so on in this order, with a pause between two;
    /// then they resume in another order.
    Swizzled {
        silent: Vec<usize>,
        talk: Vec<usize>,
        gap: u64,
    },
    /// A coordinator's calendar runs fast or slow by this many parts per million, its other clock does not; then it is
    /// corrected.
    CalendarSlews {
        replica: usize,
        fast: i64,
        span: u64,
    },
    /// An operator request.
    Operator(OperatorRequest),
}

/// A node that a foreign tool removes or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForeignToolAction {
    /// The leader's node.
    Leader,
    /// An instance: a command.
    Instance,
    /// The node that names the instance that runs an item: a mirror.
    Running,
    /// TRIGGER as data of an instance: its items have to run once.
    TriggerData,
    /// The same by a node of its own.
    TriggerNode,
    /// The node that marks an item as disabled.
    Disable,
    /// The same node is removed.
    Enable,
}

/// Names some values, for counts, and lists all names: one table for both, so that none is forgotten.
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

use Disruption as T;

kinds! { Disruption:
    T::WorkerCrashes { .. } => "fault: worker crashes",
    T::WorkerVanishes { .. } => "fault: worker vanishes",
    T::WorkerDiesSending { .. } => "fault: worker is to die after a frame",
    T::WorkerLeaves { .. } => "fault: worker leaves",
    T::WorkerStandsStill { .. } => "fault: worker stands still",
    T::HandlersSlow { .. } => "fault: handlers slow",
    T::StreamBreaks { .. } => "fault: stream breaks",
    T::StreamSilent { direction: Direction::Both, .. } => "fault: stream silent",
    T::StreamSilent { .. } => "fault: stream silent one way",
    T::Parted { direction: Direction::Both, .. } => "fault: worker parted from a coordinator",
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
    T::ForeignTool { what: ForeignToolAction::Leader, .. } => "fault: foreign tool removes a leader",
    T::ForeignTool { what: ForeignToolAction::Instance, .. } => "fault: foreign tool removes an instance",
    T::ForeignTool { what: ForeignToolAction::Running, .. } => "fault: foreign tool removes a mirror",
    T::ForeignTool { what: ForeignToolAction::TriggerData, .. } => "fault: foreign tool writes TRIGGER into an instance",
    T::ForeignTool { what: ForeignToolAction::TriggerNode, .. } => "fault: foreign tool makes a trigger",
    T::ForeignTool { what: ForeignToolAction::Disable, .. } => "fault: foreign tool disables an item",
    T::ForeignTool { what: ForeignToolAction::Enable, .. } => "fault: foreign tool enables an item",
    T::Swizzled { .. } => "fault: streams silent and talking again in random order",
    T::CalendarSlews { .. } => "fault: calendar five percent fast or slow",
    T::Operator(_) => "an operator asks",
}

impl Disruption {
    /// Its name; for an operator request, the name of that.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Operator(request) => request.action.kind(),
            fault => fault.kind(),
        }
    }

    /// Whether it is a fault, not an operator request.
    pub fn is_fault(&self) -> bool {
        !matches!(self, Self::Operator(_))
    }

    /// One at random.
    pub fn any(rng: &mut Rng, plan: &WorldPlan) -> Self {
        let (replica, machine) = (rng.index(plan.coordinators), rng.index(plan.workers));
        let WorldTimes { lease, session, .. } = plan.times;
        let (lease, session) = (millis(lease), millis(session));
        let direction = [Direction::Up, Direction::Down, Direction::Both][rng.index(3)];
        let some = |rng: &mut Rng, from: u64, to: u64| millis(rng.millis(from, to));
        match rng.below(66) {
            0..=2 => T::WorkerCrashes { machine },
            3 | 4 => T::WorkerVanishes { machine },
            5..=7 => T::WorkerDiesSending { machine, after: rng.below(6), arrives: rng.permille(500) },
            8..=10 => T::WorkerLeaves { machine },
            11 | 12 => T::WorkerStandsStill { machine, span: some(rng, 100, 2 * lease) },
            13 => T::HandlersSlow { machine, times: 2 + rng.below(8), span: some(rng, 1000, 10_000) },
            14..=16 => T::StreamBreaks { machine },
            17..=19 => T::StreamSilent { machine, direction, span: some(rng, 100, 3 * lease) },
            20 | 21 => T::Parted { machine, replica, direction, span: some(rng, 100, 3 * session) },
            22 => T::HostParted { replica, direction, span: some(rng, 100, 3 * session) },
            23 => T::FramesRepeated { machine, span: some(rng, 2000, 15_000) },
            24 | 25 => T::NetworkSlow { longest: [3, 50, 400][rng.index(3)] },
            26 | 27 => T::CoordinatorCrashes { replica },
            28 => T::CoordinatorVanishes { replica },
            29..=31 => T::CoordinatorDiesWriting { replica, after: 1 + rng.below(3) },
            32 | 33 => T::CoordinatorStandsStill { replica, span: some(rng, 100, 2 * session) },
            34 => T::CoordinatorStops { replica },
            35 | 36 => T::StoreOutOfReach { replica, span: some(rng, 100, 2 * session) },
            37 => T::StoreFlaps { replica, times: 2 + rng.below(4), span: some(rng, 100, session) },
            38 => T::SessionEndsEarly { replica },
            39 => T::SessionEndsLate { replica, by: some(rng, 500, 2 * session) },
            40 => T::SessionEndsUnheard { replica, span: some(rng, session, 3 * session) },
            41 => T::StoreStalls { span: some(rng, 200, session / 2) },
            42 | 43 => {
                let (by, span) = (some(rng, 100, 3000), some(rng, 1000, 10_000));
                T::WatchesLate { replica, by, span, merged: rng.permille(500) }
            }
            44 | 45 => T::CalendarJumps { replica, by: jump(rng), span: some(rng, 500, 20_000) },
            46 => T::WorkerCalendarJumps { machine, by: jump(rng), span: some(rng, 500, 20_000) },
            47 | 48 => {
                let what = FOREIGN[rng.index(FOREIGN.len())];
                T::ForeignTool { job: rng.index(plan.jobs.len()), what }
            }
            49 => T::Swizzled {
                silent: shuffled(rng, plan.workers),
                talk: shuffled(rng, plan.workers),
                gap: some(rng, 20, lease / 2),
            },
            50 => T::CalendarSlews {
                replica,
                fast: [-50_000, 50_000][rng.index(2)],
                span: some(rng, 2000, LONGEST_SLEW),
            },
            _ => T::Operator(operator_request::any(rng, plan)),
        }
    }
}

/// What foreign tools do.
const FOREIGN: [ForeignToolAction; 7] = [
    ForeignToolAction::Leader,
    ForeignToolAction::Instance,
    ForeignToolAction::Running,
    ForeignToolAction::TriggerData,
    ForeignToolAction::TriggerNode,
    ForeignToolAction::Disable,
    ForeignToolAction::Enable,
];

/// Within this time a calendar that is five percent fast or slow is at most 0.9 s off: it is followed, since no process
/// could detect it.
const LONGEST_SLEW: u64 = 18_000;

/// All indexes below `len`, in random order.
fn shuffled(rng: &mut Rng, len: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..len).collect();
    for at in (1..len).rev() {
        all.swap(at, rng.index(at + 1));
    }
    all
}

/// By how much a calendar jumps: less than the limit, or much more.
pub fn jump(rng: &mut Rng) -> i64 {
    let by = [90, 900, 1900, 60_000, 3_600_000, 86_400_000][rng.index(6)];
    if rng.permille(500) { by } else { -by }
}

pub fn millis(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
