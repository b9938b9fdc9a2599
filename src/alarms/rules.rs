//! The decision: which of the rules' conditions hold for a job or a coordinator as it is now. Pure, and level-triggered: the
//! little that is remembered of a job is what cannot be seen of it at one moment.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

use rosterd_domain::item::Outcome;
use rosterd_domain::schedule::Schedule;
use rosterd_domain::time::Time;
use serde::{Deserialize, Serialize};

use super::facts::{Coordinator, Item, Job, LateStart};
use super::kind::AlarmKind;
use super::settings::Rule;

/// A condition that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// For people: what is wrong.
    pub text: String,
    /// How long it must be seen to hold before it is an alarm.
    pub hold: Duration,
}

/// Most steps of a counter that are remembered: more are added up.
const STEPS: usize = 64;
/// How many items a text names.
const NAMED: usize = 5;

/// What is remembered of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Items whose last run failed.
    failing: BTreeMap<u32, Streak>,
    crashed: Steps,
    missed: Steps,
    /// Runs that began late: when, the item, and by how many milliseconds.
    late: VecDeque<(Time, u32, u64)>,
}

/// Failures of an item, one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Streak {
    failed: u64,
    succeeded: u64,
    length: u64,
}

/// When a counter grew, and by how much.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Steps {
    seen: Option<u64>,
    steps: VecDeque<(Time, u64)>,
}

impl Steps {
    fn see(&mut self, total: u64, now: Time) {
        // Events before the first check raise nothing. A job that was created again counts from the beginning.
        let grown = total.saturating_sub(self.seen.unwrap_or(total));
        self.seen = Some(total);
        if grown > 0 {
            push(&mut self.steps, (now, grown), |(_, a), (at, b)| (at, a.saturating_add(b)));
        }
    }

    fn within(&self, span: Duration, now: Time) -> u64 {
        let from = now.minus(span);
        self.steps.iter().filter(|(at, _)| *at > from).map(|(_, count)| *count).fold(0, u64::saturating_add)
    }
}

/// Adds one; of too many the two oldest become one.
fn push<T: Copy>(steps: &mut VecDeque<T>, step: T, merge: impl Fn(T, T) -> T) {
    steps.push_back(step);
    if steps.len() > STEPS
        && let (Some(first), Some(second)) = (steps.pop_front(), steps.pop_front())
    {
        steps.push_front(merge(first, second));
    }
}

impl Memory {
    /// Takes in what a job is now.
    pub fn see(&mut self, job: &Job, now: Time) {
        self.crashed.see(job.crashed, now);
        self.missed.see(job.missed, now);
        let before = std::mem::take(&mut self.failing);
        for item in &job.items {
            if let Some(streak) = streak(before.get(&item.item).copied(), item) {
                self.failing.insert(item.item, streak);
            }
        }
    }

    /// A run began late.
    pub fn late(&mut self, start: &LateStart) {
        let by = u64::try_from(start.by.as_millis()).unwrap_or(u64::MAX);
        push(&mut self.late, (start.at, start.item, by), |_, second| second);
    }

    /// Whether it says nothing that the next look would not.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How often an item has failed in a row, by its counters and how its last run ended; `None`: it has not.
fn streak(before: Option<Streak>, item: &Item) -> Option<Streak> {
    let failing = matches!(item.last, Some(Outcome::Failed | Outcome::TimedOut));
    let now = |length| Some(Streak { failed: item.failed, succeeded: item.succeeded, length });
    match before {
        // No success since: each failure is one more, whatever crashed or was cancelled between them.
        Some(before) if before.succeeded == item.succeeded && before.failed <= item.failed => {
            now(before.length.saturating_add(item.failed - before.failed))
        }
        // How many came after the last success, only the first look after it could tell.
        _ if failing => now(if item.succeeded == 0 { item.failed.max(1) } else { 1 }),
        _ => None,
    }
}

/// Whether a rule's condition holds for a job of which this is remembered, [`Memory::see`] included.
pub fn of_job(rule: &Rule, job: &Job, memory: &Memory, now: Time) -> Option<Condition> {
    let at_once = |text: String| Some(Condition { text, hold: Duration::ZERO });
    let name = &job.name;
    match rule.kind {
        AlarmKind::NoWorker => (job.in_service && !job.has_worker)
            .then(|| Condition { text: format!("{name} has no enabled worker"), hold: rule.after }),
        AlarmKind::NotStarted => {
            let waits = |item: &Item| item.waits.filter(|due| now.since(*due) >= rule.after);
            let late = if job.in_service { times(&job.items, waits) } else { Vec::new() };
            let why = if job.has_worker { "" } else { ": it has no enabled worker" };
            listed(&late).and_then(|items| at_once(format!("{name} was not started for {items}{why}")))
        }
        AlarmKind::Late => {
            let late = memory.late.iter().filter(|(at, _, by)| {
                now.since(*at) < rule.within && u128::from(*by) >= rule.after.as_millis()
            });
            let late: Vec<_> = late.collect();
            let (_, item, by) = late.iter().max_by_key(|(_, _, by)| *by)?;
            (late.len() as u64 >= rule.times).then_some(())?;
            let (count, runs) = (late.len(), if late.len() == 1 { "run" } else { "runs" });
            let longest = shown(Duration::from_millis(*by));
            at_once(format!("{name} began {count} {runs} late: item {item} by {longest}"))
        }
        AlarmKind::Failed => {
            let failing = memory.failing.iter().filter(|(_, streak)| streak.length >= rule.times);
            let failing: Vec<_> = failing.map(|(item, s)| (*item, often(s.length))).collect();
            listed(&failing).and_then(|items| at_once(format!("{name} failed for {items}")))
        }
        AlarmKind::Crashed => {
            let count = memory.crashed.within(rule.within, now);
            let span = shown(rule.within);
            (count >= rule.times)
                .then(|| at_once(format!("{name} crashed {} within {span}", often(count))))?
        }
        AlarmKind::Missed => {
            let count = memory.missed.within(rule.within, now);
            let (span, fires) = (shown(rule.within), if count == 1 { "time was" } else { "times were" });
            let text = || format!("{name}: {count} scheduled {fires} not run within {span}");
            (count >= rule.times).then(|| at_once(text()))?
        }
        AlarmKind::NotFinished => not_finished(rule, job, now).and_then(at_once),
        AlarmKind::ClockOff | AlarmKind::StoreLost | AlarmKind::CertificateSoonOver => None,
    }
}

fn not_finished(rule: &Rule, job: &Job, now: Time) -> Option<String> {
    let waits = |item: &Item| item.waits.filter(|_| job.in_service);
    let earliest = |item: &Item| [item.unfinished, waits(item)].into_iter().flatten().min();
    let (latest, what) = match rule.by {
        Some(by) => {
            let (hour, minute) = (by / 60, by % 60);
            let daily = Schedule::parse(&format!("0 {minute} {hour} * * ?"), &job.zone).ok()?;
            let day = Duration::from_secs(26 * 3600);
            (daily.last_at_or_before(now, now.minus(day))?, format!("by {hour:02}:{minute:02} {}", job.zone))
        }
        None => (now.minus(rule.after), format!("within {}", shown(rule.after))),
    };
    let open = times(&job.items, |item| earliest(item).filter(|fire| *fire <= latest));
    listed(&open).map(|items| format!("{} was not finished {what} for {items}", job.name))
}

/// Whether a rule's condition holds for a coordinator.
pub fn of_coordinator(rule: &Rule, coordinator: &Coordinator, now: Time) -> Option<Condition> {
    let name = &coordinator.name;
    let holds = |text: &str| Some(Condition { text: format!("{name}: {text}"), hold: rule.after });
    match rule.kind {
        AlarmKind::ClockOff if coordinator.clock_off => holds("its clock is off, so it fires nothing"),
        AlarmKind::StoreLost if coordinator.store_lost => {
            holds("its store does not answer, so it fires nothing")
        }
        AlarmKind::CertificateSoonOver => {
            let ends = coordinator.certificate_ends.filter(|ends| *ends <= now.plus(rule.after))?;
            let text = if ends <= now {
                format!("{name}: its certificate is over since {ends}")
            } else {
                format!("{name}: its certificate is over at {ends}")
            };
            Some(Condition { text, hold: Duration::ZERO })
        }
        _ => None,
    }
}

/// The items for which `of` says a time, each with it.
fn times(items: &[Item], of: impl Fn(&Item) -> Option<Time>) -> Vec<(u32, String)> {
    items.iter().filter_map(|item| Some((item.item, format!("of {}", of(item)?)))).collect()
}

/// `item 0 of …, item 3 of … and 2 more`; none: nothing.
fn listed(items: &[(u32, String)]) -> Option<String> {
    let named: Vec<_> = items.iter().take(NAMED).map(|(item, what)| format!("item {item} {what}")).collect();
    let mut text = named.join(", ");
    if items.len() > NAMED {
        let _ = write!(text, " and {} more", items.len() - NAMED);
    }
    (!items.is_empty()).then_some(text)
}

fn often(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}

/// A length of time for people: the two largest units.
pub(crate) fn shown(span: Duration) -> String {
    const UNITS: [(&str, u64); 5] =
        [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)];
    let mut left = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let mut parts = Vec::new();
    for (unit, size) in UNITS {
        if left >= size && parts.len() < 2 {
            parts.push(format!("{} {unit}", left / size));
            left %= size;
        }
    }
    if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") }
}
