//! The life of an item: its record, and the one table that says which event may follow which state.
//!
//! The record is the lock and the truth of an item. Every transaction that touches an item writes the record at the
//! version that it read, so if two decisions are made from the same record one is refused. The planners call
//! [`Record::apply`]; nothing else changes a record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::counters::Counters;
use crate::counters::add;
use crate::id::{InstanceId, Item, Token, TriggerId, Version, WorkerId};
use crate::mutants;
pub use crate::outcome::{Missed, Outcome, Source};
use crate::time::Time;

/// Records of a job's items, with the versions at which they were read or written.
pub type Records = BTreeMap<Item, (Version, Arc<Record>)>;

/// The data of `sharding/{item}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The token of the run in flight, else of the last run. A new record starts at the number of the
    /// transaction that created the job.
    pub token: Token,
    /// The latest scheduled time that is accounted for. Only scheduled times move it, never a run out of turn.
    pub last_fire: Time,
    /// What the item is doing.
    #[serde(default, skip_serializing_if = "State::is_idle")]
    pub state: State,
    /// The latest scheduled time that was skipped and waits to be run as a misfire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misfire: Option<Time>,
    /// Set when the last fire moved by more than [`LEAP`] at once: to this time, without a run of its own. It shows
    /// since when the clock was ahead, in case the last fire has to be set back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leapt: Option<Time>,
    /// Scheduled times that a clock which was ahead has accounted for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<Ahead>,
    /// How the last run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Ended>,
    /// Counts of all results of the item's fires, ever.
    #[serde(default, skip_serializing_if = "Counters::is_empty")]
    pub counters: Counters,
}

/// If a last fire moves further than this at once, it may have followed a clock that leapt ahead.
pub const LEAP: Duration = Duration::from_secs(3 * 3600);

/// Scheduled times after `since` and up to `until` are accounted for, although the last fire, which was set back, says
/// otherwise. They are not new when they come; those of another schedule are.
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
    /// Nothing: a start may take the item.
    #[default]
    Idle,
    /// A run is in flight: only its report, the death of its worker or a goodbye ends it.
    Running(Running),
    /// Its run crashed and waits for failover: only a claim takes the item.
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
    /// The instance that runs it.
    pub instance: InstanceId,
    /// The worker that runs it, by the name of its attachment.
    pub worker: WorkerId,
    /// When the start was decided.
    pub since: Time,
    /// The trigger, of a manual run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<TriggerId>,
    /// Whether it waits for the callback that all items of the fire have started, which happens once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// It was asked to stop: however it ends, it is not run again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
    /// How many workers died before while they ran this fire of the item.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deaths: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A crashed run that waits for failover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crashed {
    /// Its scheduled time, which the failover run takes over.
    pub fire: Time,
    /// The instance that ran it.
    pub instance: InstanceId,
    /// When it was found crashed.
    pub since: Time,
    /// Whether it was held: the start of its fire was not announced yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// How many workers died while they ran this fire of the item.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deaths: u32,
}

/// How a run ended, and whether its worker reported that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Its token.
    pub token: Token,
    /// Its scheduled time.
    pub fire: Time,
    /// Why it existed.
    pub source: Source,
    /// The instance that ran it.
    pub instance: InstanceId,
    /// How it ended.
    pub outcome: Outcome,
    /// When that was decided.
    pub at: Time,
    /// Its worker reported the end, and the report was acknowledged.
    pub reported: bool,
}

/// What can happen to an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemEvent {
    /// A run starts on an idle item: a scheduled time later than the last, the marked misfire, or a trigger.
    Start(Running),
    /// An instance takes over a crashed item.
    Claim(Running),
    /// The triggers of the fire may be sent.
    Release,
    /// The run in flight is asked to stop.
    Cancel,
    /// The run in flight ended; `requeue`: it is to be run again elsewhere.
    End { outcome: Outcome, at: Time, reported: bool, requeue: bool },
    /// Failover does not apply, or no longer does, or the run was cancelled: the crashed run will not be run again.
    GiveUp { at: Time },
    /// `count` scheduled times up to `latest` are merged into a later run.
    Misfire { latest: Time, count: u64 },
    /// `count` scheduled times up to `latest` are skipped by policy.
    Skip { latest: Time, count: u64 },
    /// `count` scheduled times up to `latest` are missed.
    Miss { latest: Time, count: u64, reason: Missed },
    /// The misfire mark will not be run.
    DropMisfire { reason: Missed },
    /// A last fire that lies in the future is set back, under this schedule: expression and zone.
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

    /// The crashed run that waits for failover.
    pub fn crashed(&self) -> Option<&Crashed> {
        match &self.state {
            State::Crashed(crashed) => Some(crashed),
            _ => None,
        }
    }

    /// A copy whose token is not below `given`, the highest token given so far.
    #[must_use]
    pub fn above(&self, given: Token) -> Self {
        Self { token: self.token.max(given), ..self.clone() }
    }

    /// The record after `event`, or why the event is illegal. This is the whole transition table.
    pub fn apply(&self, event: &ItemEvent) -> Result<Self, Illegal> {
        let mut next = self.clone();
        match (&self.state, event) {
            (State::Idle, ItemEvent::Start(run)) => {
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
            (State::Crashed(crashed), ItemEvent::Claim(run)) => {
                let same = run.fire == crashed.fire && run.deaths == crashed.deaths;
                if run.source != Source::Failover || !same {
                    return Err(self.illegal(event));
                }
                next.start(run);
            }
            (State::Running(run), ItemEvent::Release) if run.held => {
                next.state = State::Running(Running { held: false, ..run.clone() });
            }
            (State::Running(run), ItemEvent::Cancel) if !run.cancelled => {
                next.state = State::Running(Running { cancelled: true, ..run.clone() });
            }
            (State::Running(run), ItemEvent::End { outcome, at, reported, requeue })
                if !(*requeue && run.cancelled) || mutants::is_on(mutants::CANCELLED_RUNS_AGAIN) =>
            {
                next.end(run, *outcome, *at, *reported);
                if mutants::is_on(mutants::EXPIRY_DROPS_MISFIRE) {
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
            (State::Crashed(_), ItemEvent::GiveUp { .. }) => next.state = State::Idle,
            (_, ItemEvent::Misfire { latest, count }) if *latest > self.last_fire => {
                // The latest of them has a run of its own.
                next.moves(*latest, (*count > 1).then_some(Time(latest.0 - 1)));
                next.misfire = Some(*latest);
                add(&mut next.counters.misfired, *count);
            }
            // Also an idle item: if runs are not monitored, the record does not show that one is in user code.
            (_, ItemEvent::Skip { latest, count }) if *latest > self.last_fire => {
                next.moves(*latest, Some(*latest));
                add(&mut next.counters.skipped, *count);
            }
            (_, ItemEvent::Miss { latest, count, reason }) if *latest > self.last_fire => {
                next.moves(*latest, Some(*latest));
                if !mutants::is_on(mutants::MISSES_UNCOUNTED) {
                    add(next.counters.missed.entry(*reason).or_default(), *count);
                }
            }
            (_, ItemEvent::DropMisfire { reason }) if self.misfire.is_some() => {
                next.misfire = None;
                add(next.counters.missed.entry(*reason).or_default(), 1);
            }
            (_, ItemEvent::Cap { last_fire, schedule }) if *last_fire < self.last_fire => {
                next.set_back(*last_fire, schedule.clone());
            }
            _ => return Err(self.illegal(event)),
        }
        Ok(next)
    }

    /// Moves the last fire forward, past scheduled times up to `leapt` that had no run.
    fn moves(&mut self, to: Time, leapt: Option<Time>) {
        let far = to > self.last_fire.plus(LEAP);
        if let Some(leapt) = leapt.filter(|_| far) {
            self.leapt = Some(leapt);
        }
        self.last_fire = to;
        self.ahead.take_if(|ahead| ahead.until <= to);
    }

    /// Sets back a last fire that lies in the future, and remembers what was accounted for there.
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

    fn illegal(&self, event: &ItemEvent) -> Illegal {
        let state = match self.state {
            State::Idle => "idle",
            State::Running(_) => "running",
            State::Crashed(_) => "crashed",
        };
        Illegal { state, event: event.name() }
    }
}

impl ItemEvent {
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
