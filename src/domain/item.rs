//! The life of an item: its record, and the one table that says which event may follow which state.
//!
//! The record is the lock and the truth of an item. Every transaction that touches an item writes the record
//! at the version it read, so of two decisions made from the same record one is refused. The planners call
//! [`Record::apply`]; nothing else changes a record.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::counters::Counters;
use crate::counters::add;
use crate::id::{InstanceId, Token, TriggerId, WorkerId};
use crate::mutants;
use crate::time::Time;

/// Why a run exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Source {
    /// A scheduled time of the schedule.
    NormalTrigger,
    /// Scheduled times skipped while the item was busy, merged.
    Misfire,
    /// A crashed run, run again.
    Failover,
    /// A trigger by hand.
    Manual,
}

impl Source {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::NormalTrigger, Self::Misfire, Self::Failover, Self::Manual];

    /// The name that user code and tools see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NormalTrigger => "NORMAL_TRIGGER",
            Self::Misfire => "MISFIRE",
            Self::Failover => "FAILOVER",
            Self::Manual => "MANUAL",
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The handler returned.
    Succeeded,
    /// The handler failed, after its last attempt.
    Failed,
    /// Stopped on request, or handed back by a worker that had to leave.
    Cancelled,
    /// Its worker was marked dead, or reported the run as aborted or not started.
    Crashed,
    /// It took longer than its timeout.
    TimedOut,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Succeeded, Self::Failed, Self::Cancelled, Self::Crashed, Self::TimedOut];

    /// The name that tools see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Crashed => "crashed",
            Self::TimedOut => "timed_out",
        }
    }
}

/// Why a fire was not run for an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// No coordinator was up.
    Down,
    /// No enabled worker owned the item.
    NoWorker,
    /// The owner's slots were all taken.
    NoSlot,
    /// Found due too long after its time.
    TooLate,
    /// The coordinator's clock could not be trusted.
    Clock,
    /// The job was paused.
    Paused,
    /// The job or the item was disabled.
    Disabled,
}

impl Missed {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Down, Self::NoWorker, Self::NoSlot, Self::TooLate, Self::Clock, Self::Paused, Self::Disabled];

    /// The name that tools see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::NoWorker => "no_worker",
            Self::NoSlot => "no_slot",
            Self::TooLate => "too_late",
            Self::Clock => "clock",
            Self::Paused => "paused",
            Self::Disabled => "disabled",
        }
    }

    /// A sentence for people.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Down => "No coordinator was up.",
            Self::NoWorker => "No enabled worker owned the item.",
            Self::NoSlot => "All slots of the item's owner were taken until the next scheduled time.",
            Self::TooLate => "It was found too long after its time.",
            Self::Clock => "The coordinator's clock could not be trusted.",
            Self::Paused => "The job was paused.",
            Self::Disabled => "The job or the item was disabled.",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The data of `sharding/{item}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The token of the run in flight, else of the last run. A new record starts at the number of the
    /// transaction that created the job.
    pub token: Token,
    /// The latest scheduled time that is accounted for. Moved only by a scheduled time, never by a run out of turn.
    pub last_fire: Time,
    /// What the item is doing.
    #[serde(default, skip_serializing_if = "State::is_idle")]
    pub state: State,
    /// The latest scheduled time that was skipped and waits to be run as a misfire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misfire: Option<Time>,
    /// Where the last fire moved by more than [`LEAP`] at once: to this, without a run of its own. By it is known since when
    /// the calendar was ahead, should the last fire have to be set back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leapt: Option<Time>,
    /// Scheduled times that a calendar which was ahead has accounted for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<Ahead>,
    /// How the last run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Ended>,
    /// Everything that ever became of the item's fires.
    #[serde(default, skip_serializing_if = "Counters::is_empty")]
    pub counters: Counters,
}

/// Moved further than this at once, a last fire may have followed a calendar that leapt.
pub const LEAP: Duration = Duration::from_secs(3 * 3600);

/// Scheduled times after `since` and up to `until` have been accounted for, though the last fire says otherwise, which was
/// set back. They are not taken for new ones when they come; those of another schedule are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ahead {
    pub since: Time,
    pub until: Time,
    pub schedule: (String, String),
}

impl Ahead {
    /// Whether the time is one of them.
    pub fn has(&self, time: Time) -> bool {
        self.since < time && time <= self.until
    }
}

/// What an item is doing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nothing: a start may take it.
    #[default]
    Idle,
    /// A run is in flight: only its report, a verdict of death or a goodbye ends it.
    Running(Running),
    /// Its run crashed and waits to be run again: only a claim takes it.
    Crashed(Crashed),
}

impl State {
    /// Whether a start may take the item.
    pub fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }
}

/// The run in flight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// The scheduled time, or the trigger's time.
    pub fire: Time,
    /// Why it exists.
    pub source: Source,
    /// Who runs it.
    pub instance: InstanceId,
    /// Whose attachment speaks for it.
    pub worker: WorkerId,
    /// When the start was decided.
    pub since: Time,
    /// The trigger, of a manual run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<TriggerId>,
    /// Whether it waits for the one callback that all items of the fire have started.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Somebody asked for it to be stopped: however it ends, it is not run again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
    /// So many workers died before while they ran this fire of the item.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deaths: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A crashed run that waits for a taker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crashed {
    /// Its scheduled time, which the next run carries on.
    pub fire: Time,
    /// Who ran it.
    pub instance: InstanceId,
    /// When it was found crashed.
    pub since: Time,
    /// Whether it was held: nobody was told that its fire begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// So many workers died while they ran this fire of the item.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deaths: u32,
}

/// How a run ended, and who said so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Its token.
    pub token: Token,
    /// Its scheduled time.
    pub fire: Time,
    /// Why it existed.
    pub source: Source,
    /// Who ran it.
    pub instance: InstanceId,
    /// How it ended.
    pub outcome: Outcome,
    /// When that was decided.
    pub at: Time,
    /// Its worker's own report said so, and was acknowledged for it.
    pub reported: bool,
}

/// Only what is idle may start; bugs that are put in think otherwise.
fn may_start(state: &State) -> bool {
    match state {
        State::Idle => true,
        State::Running(_) => {
            mutants::is_on(mutants::RUNNING_NODE_IS_THE_LOCK) || mutants::is_on(mutants::BUSY_IS_FREE)
        }
        State::Crashed(_) => mutants::is_on(mutants::CRASHED_IS_FREE),
    }
}

/// What can happen to an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A run starts on an idle item: a scheduled time later than the last, the marked misfire, or a trigger.
    Start(Running),
    /// A crashed item is taken over.
    Claim(Running),
    /// The Triggers of the fire may go out.
    Release,
    /// Somebody asks for the run in flight to be stopped.
    Cancel,
    /// The run in flight ended; `requeue`: it is to be run again elsewhere.
    End { outcome: Outcome, at: Time, reported: bool, requeue: bool },
    /// Failover does not apply (any more), or somebody cancelled it: the crashed run will not be run again.
    GiveUp { at: Time },
    /// `count` scheduled times up to `latest` are merged into a later run.
    Misfire { latest: Time, count: u64 },
    /// `count` scheduled times up to `latest` are skipped by policy.
    Skip { latest: Time, count: u64 },
    /// `count` scheduled times up to `latest` are missed.
    Miss { latest: Time, count: u64, reason: Missed },
    /// The misfire mark will not be run.
    DropMisfire { reason: Missed },
    /// A last fire that lies in the future is set back, where this is the schedule: expression and zone.
    Cap { last_fire: Time, schedule: (String, String) },
}

/// An event that may not happen in the item's state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{event} is not possible while the item is {state}")]
pub struct Illegal {
    /// The state's name.
    pub state: &'static str,
    /// The event's name.
    pub event: &'static str,
}

impl Record {
    /// The record of an item that never ran: `base` is the number of the transaction that created the job.
    pub fn new(base: Token, now: Time) -> Self {
        Self {
            token: base,
            last_fire: now,
            state: State::Idle,
            misfire: None,
            leapt: None,
            ahead: None,
            last: None,
            counters: Counters::default(),
        }
    }

    /// The run in flight.
    pub fn running(&self) -> Option<&Running> {
        match &self.state {
            State::Running(running) => Some(running),
            _ => None,
        }
    }

    /// The crashed run that waits for a taker.
    pub fn crashed(&self) -> Option<&Crashed> {
        match &self.state {
            State::Crashed(crashed) => Some(crashed),
            _ => None,
        }
    }

    /// The same where tokens up to `given` were given.
    #[must_use]
    pub fn above(&self, given: Token) -> Self {
        Self { token: self.token.max(given), ..self.clone() }
    }

    /// The record after `event`, or why it may not happen. This is the whole table.
    pub fn apply(&self, event: &Event) -> Result<Self, Illegal> {
        let mut next = self.clone();
        match (&self.state, event) {
            (state, Event::Start(run)) if may_start(state) => {
                let startable = match run.source {
                    Source::NormalTrigger => run.fire > self.last_fire,
                    Source::Misfire => self.misfire == Some(run.fire),
                    Source::Manual => true,
                    Source::Failover => false,
                };
                if !startable {
                    return Err(self.illegal(event));
                }
                next.start(run);
            }
            (State::Crashed(crashed), Event::Claim(run)) => {
                let same = run.fire == crashed.fire && run.deaths == crashed.deaths;
                if run.source != Source::Failover || !same {
                    return Err(self.illegal(event));
                }
                next.start(run);
            }
            (State::Running(run), Event::Release) if run.held => {
                next.state = State::Running(Running { held: false, ..run.clone() });
            }
            (State::Running(run), Event::Cancel) if !run.cancelled => {
                next.state = State::Running(Running { cancelled: true, ..run.clone() });
            }
            (State::Running(run), Event::End { outcome, at, reported, requeue })
                if !(*requeue && run.cancelled) || mutants::is_on(mutants::CANCELLED_RUNS_AGAIN) =>
            {
                next.end(run, *outcome, *at, *reported);
                if mutants::is_on(mutants::VERDICT_DROPS_MISFIRE) {
                    next.misfire = next.misfire.filter(|_| *reported);
                }
                if *requeue {
                    next.state = State::Crashed(Crashed {
                        fire: run.fire,
                        instance: run.instance.clone(),
                        since: *at,
                        held: run.held,
                        deaths: run.deaths.saturating_add(u32::from(!reported)),
                    });
                }
            }
            (State::Idle, Event::End { at, requeue: true, .. })
                if mutants::is_on(mutants::ENDED_ITEMS_CRASH) =>
            {
                let Some(last) = &self.last else { return Err(self.illegal(event)) };
                let (fire, instance) = (last.fire, last.instance.clone());
                next.state = State::Crashed(Crashed { fire, instance, since: *at, held: false, deaths: 0 });
            }
            (State::Crashed(_), Event::GiveUp { .. }) => next.state = State::Idle,
            (_, Event::Misfire { latest, count }) if *latest > self.last_fire => {
                // The latest of them has a run of its own.
                next.moves(*latest, (*count > 1).then_some(Time(latest.0 - 1)));
                next.misfire = Some(*latest);
                add(&mut next.counters.misfired, *count);
                if mutants::is_on(mutants::MARK_MOVES_TOKEN) && self.running().is_some() {
                    next.token = self.token.next();
                }
            }
            // Also an idle item: where runs are not monitored the record does not know that one is in user code.
            (_, Event::Skip { latest, count }) if *latest > self.last_fire => {
                next.moves(*latest, Some(*latest));
                add(&mut next.counters.skipped, *count);
            }
            (_, Event::Miss { latest, count, reason }) if *latest > self.last_fire => {
                next.moves(*latest, Some(*latest));
                if !mutants::is_on(mutants::MISSES_UNCOUNTED) {
                    add(next.counters.missed.entry(*reason).or_default(), *count);
                }
            }
            (_, Event::DropMisfire { reason }) if self.misfire.is_some() => {
                next.misfire = None;
                add(next.counters.missed.entry(*reason).or_default(), 1);
            }
            (_, Event::Cap { last_fire, schedule }) if *last_fire < self.last_fire => {
                next.set_back(*last_fire, schedule.clone());
            }
            _ => return Err(self.illegal(event)),
        }
        Ok(next)
    }

    /// The last fire moves on, past scheduled times up to `leapt` that had no run.
    fn moves(&mut self, to: Time, leapt: Option<Time>) {
        let far = to > self.last_fire.plus(LEAP);
        if let Some(leapt) = leapt.filter(|_| far) {
            self.leapt = Some(leapt);
        }
        self.last_fire = to;
        self.ahead.take_if(|ahead| ahead.until <= to);
    }

    /// It lies in the future, and is set back. What was accounted for there is kept in mind.
    fn set_back(&mut self, to: Time, schedule: (String, String)) {
        let until = self.last_fire;
        let since = self.leapt.take().filter(|leapt| *leapt > to).unwrap_or(Time(until.0 - 1));
        let since = self.ahead.as_ref().map_or(since, |before| before.since.min(since));
        let ahead = Ahead { since, until, schedule };
        self.ahead = (since < until).then_some(ahead);
        self.last_fire = to;
    }

    fn start(&mut self, run: &Running) {
        self.token = self.token.next();
        match run.source {
            Source::NormalTrigger if mutants::is_on(mutants::NEXT_FIRE_NOT_STORED) => {}
            Source::NormalTrigger => self.moves(run.fire, None),
            Source::Misfire if mutants::is_on(mutants::MISFIRE_STAYS) => {}
            Source::Misfire => self.misfire = None,
            _ if mutants::is_on(mutants::ANY_RUN_MOVES_LAST_FIRE) => self.last_fire = run.fire,
            Source::Failover | Source::Manual => {}
        }
        add(&mut self.counters.fired, 1);
        self.state = State::Running(run.clone());
    }

    fn end(&mut self, run: &Running, outcome: Outcome, at: Time, reported: bool) {
        if !mutants::is_on(mutants::OUTCOMES_UNCOUNTED) {
            self.counters.count(outcome);
        }
        self.last = Some(Ended {
            token: self.token,
            fire: run.fire,
            source: run.source,
            instance: run.instance.clone(),
            outcome,
            at,
            reported,
        });
        self.state = State::Idle;
    }

    fn illegal(&self, event: &Event) -> Illegal {
        let state = match self.state {
            State::Idle => "idle",
            State::Running(_) => "running",
            State::Crashed(_) => "crashed",
        };
        Illegal { state, event: event.name() }
    }
}

impl Event {
    /// The event's name, for messages and coverage.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Start(_) => "start",
            Self::Claim(_) => "claim",
            Self::Release => "release",
            Self::Cancel => "cancel",
            Self::End { .. } => "end",
            Self::GiveUp { .. } => "give_up",
            Self::Misfire { .. } => "misfire",
            Self::Skip { .. } => "skip",
            Self::Miss { .. } => "miss",
            Self::DropMisfire { .. } => "drop_misfire",
            Self::Cap { .. } => "cap",
        }
    }
}

#[cfg(test)]
#[path = "item_tests.rs"]
mod tests;
