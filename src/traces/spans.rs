//! From what the coordinator's driver tells to spans.
//!
//! Runs in flight are remembered up to [`MOST_RUNS`]; of one that is not (there were more, or another coordinator began it) the
//! span says so much as its end tells, and is a root of its trace.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rosterd_coordinator::event::{Now, TxnId};
use rosterd_coordinator::tracer::Tracer;
use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::item::{Outcome, Running, Source};
use rosterd_domain::plan::Entry;
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Guard, Txn};
use rosterd_session::frame::{RunRef, Trigger};
use rosterd_session::trace::{FireTrace, SpanId, TraceId};

use super::export::Queue;
use super::{Span, Value};

/// Runs in flight that are remembered; one more makes it forget the oldest.
const MOST_RUNS: usize = 65_536;
/// The calendar is off by so much from what was refined of it: it was set.
const SET: Duration = Duration::from_millis(2);

/// Which traces are kept: this part of all, the same ones on every coordinator and in every client that decides by the
/// trace's id (OpenTelemetry's `TraceIdRatioBased`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    below: u64,
}

impl Sampling {
    /// `ratio`: 0 to 1.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "it is clamped"
    )]
    pub fn of(ratio: f64) -> Self {
        Self { below: (ratio.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64 }
    }

    fn keeps(self, trace: TraceId) -> bool {
        let low: [u8; 8] = std::array::from_fn(|n| trace.0[8 + n]);
        u64::from_be_bytes(low) >> 1 < self.below
    }
}

/// Makes spans of one coordinator.
pub struct Spans {
    queue: Queue,
    sampling: Sampling,
    coordinator: String,
    clock: Exact,
    /// Transactions under way that may start or end runs.
    pending: BTreeMap<TxnId, Pending>,
    /// Those of them that were answered, up to [`Tracer::settled`]: a job has one at a time.
    answered: BTreeMap<JobName, Answered>,
    /// Fires that began by them.
    fires: BTreeMap<(JobName, Time, bool), Fire>,
    runs: BTreeMap<(Token, JobName, Item), InFlight>,
}

struct Pending {
    job: JobName,
    incarnation: Arc<str>,
    from: u64,
}

struct Answered {
    incarnation: Arc<str>,
    from: u64,
    to: u64,
}

struct Fire {
    trace: FireTrace,
    /// The first of its runs that began.
    first: (Item, Token),
    source: Source,
    items: u32,
    from: u64,
    to: u64,
}

struct InFlight {
    trace: FireTrace,
    fire: SpanId,
    since: u64,
    told: u32,
    reported: Option<u64>,
}

/// The calendar to the nanosecond: what it says in milliseconds, refined by the clock that only grows.
#[derive(Default)]
struct Exact {
    /// From that clock to the calendar.
    ahead: Option<i128>,
}

impl Exact {
    fn read(&mut self, now: Now) -> u64 {
        let (wall, mono) = (i128::from(nanos(now.wall)), now.mono.0.as_nanos() as i128);
        let set = |ahead: &i128| (ahead + mono - wall).unsigned_abs() > SET.as_nanos();
        let ahead = self.ahead.filter(|ahead| !set(ahead)).unwrap_or(wall - mono);
        self.ahead = Some(ahead);
        u64::try_from(ahead + mono).unwrap_or(0)
    }
}

fn nanos(at: Time) -> u64 {
    u64::try_from(at.0).unwrap_or(0).saturating_mul(1_000_000)
}

impl Spans {
    /// Into `queue`, of the coordinator of this name.
    #[must_use]
    pub fn new(queue: Queue, sampling: Sampling, coordinator: String) -> Self {
        Self {
            queue,
            sampling,
            coordinator,
            clock: Exact::default(),
            pending: BTreeMap::new(),
            answered: BTreeMap::new(),
            fires: BTreeMap::new(),
            runs: BTreeMap::new(),
        }
    }

    fn started(&mut self, job: &JobName, item: Item, token: Token, run: &Running) {
        let Some(answered) = self.answered.get(job) else { return };
        let trace = FireTrace::new(job, &answered.incarnation, run.fire);
        if !self.sampling.keeps(trace.id()) {
            return;
        }
        // A failover begins anew what began at its time already.
        let again = run.source == Source::Failover;
        let fire = self.fires.entry((job.clone(), run.fire, again)).or_insert_with(|| Fire {
            trace,
            first: (item, token),
            source: run.source,
            items: 0,
            from: answered.from,
            to: answered.to,
        });
        fire.items += 1;
        let in_flight = InFlight { trace, fire: fire.id(), since: fire.to, told: 0, reported: None };
        self.runs.insert((token, job.clone(), item), in_flight);
        if self.runs.len() > MOST_RUNS {
            self.runs.pop_first();
        }
    }

    fn ended(&mut self, to: u64, job: &JobName, item: Item, token: Token, run: &Running, outcome: Outcome) {
        let known = self.runs.remove(&(token, job.clone(), item));
        let told = || Some(FireTrace::new(job, &self.answered.get(job)?.incarnation, run.fire));
        let Some(trace) = known.as_ref().map(|known| known.trace).or_else(told) else { return };
        if !self.sampling.keeps(trace.id()) {
            return;
        }
        if let Some(from) = known.as_ref().and_then(|known| known.reported) {
            self.queue.put(Span {
                trace: trace.id(),
                id: trace.part("report", item, token, 0),
                parent: Some(trace.run(item, token)),
                name: "report".to_owned(),
                goes_on_elsewhere: false,
                from,
                to: to.max(from),
                attributes: vec![("rosterd.job", job.as_str().into()), ("rosterd.item", item.0.into())],
                failure: None,
            });
        }
        let from = known.as_ref().map_or(nanos(run.since), |known| known.since);
        self.queue.put(Span {
            trace: trace.id(),
            id: trace.run(item, token),
            parent: known.map(|known| known.fire),
            name: format!("run {job}"),
            goes_on_elsewhere: true,
            from,
            to: to.max(from),
            attributes: vec![
                ("rosterd.job", job.as_str().into()),
                ("rosterd.item", item.0.into()),
                ("rosterd.token", token.0.into()),
                ("rosterd.source", run.source.as_str().into()),
                ("rosterd.instance", run.instance.as_str().into()),
                ("rosterd.outcome", outcome.as_str().into()),
                ("rosterd.coordinator", self.coordinator.clone().into()),
            ],
            failure: (outcome != Outcome::Succeeded).then(|| outcome.as_str().to_owned()),
        });
    }
}

impl Fire {
    fn id(&self) -> SpanId {
        self.trace.part("fire", self.first.0, self.first.1, 0)
    }

    /// The fire, and the transaction in it.
    fn spans(self, job: &JobName, at: Time, coordinator: &str) -> [Span; 2] {
        let items = Value::from(self.items);
        // A failover waits for no scheduled time.
        let due = if self.source == Source::Failover { self.from } else { nanos(at) };
        let fire = Span {
            trace: self.trace.id(),
            id: self.id(),
            parent: None,
            name: format!("fire {job}"),
            goes_on_elsewhere: false,
            from: due.min(self.from),
            to: self.to.max(due),
            attributes: vec![
                ("rosterd.job", job.as_str().into()),
                ("rosterd.fire_time", at.to_string().into()),
                ("rosterd.source", self.source.as_str().into()),
                ("rosterd.items", items.clone()),
                ("rosterd.coordinator", coordinator.into()),
            ],
            failure: None,
        };
        let commit = Span {
            id: self.trace.part("commit", self.first.0, self.first.1, 0),
            parent: Some(fire.id),
            name: "commit".to_owned(),
            from: self.from,
            to: self.to,
            attributes: vec![("rosterd.job", job.as_str().into()), ("rosterd.items", items)],
            ..fire.clone()
        };
        [fire, commit]
    }
}

impl Tracer for Spans {
    fn handed_over(&mut self, now: Now, id: TxnId, txn: &Txn) {
        let job = txn.guards.iter().find_map(|guard| match guard {
            Guard::Incarnation(job, incarnation) => Some((job.clone(), incarnation.clone())),
            _ => None,
        });
        if let Some((job, incarnation)) = job {
            let from = self.clock.read(now);
            self.pending.insert(id, Pending { job, incarnation, from });
        }
    }

    fn answered(&mut self, now: Now, id: TxnId, applied: bool) {
        if let Some(Pending { job, incarnation, from }) = self.pending.remove(&id).filter(|_| applied) {
            let to = self.clock.read(now).max(from);
            self.answered.insert(job, Answered { incarnation, from, to });
        }
    }

    fn entry(&mut self, now: Now, job: &JobName, entry: &Entry) {
        match entry {
            Entry::Started { item, token, run } => self.started(job, *item, *token, run),
            Entry::Ended { item, token, run, outcome, .. } => {
                let to = self.clock.read(now);
                self.ended(to, job, *item, *token, run, *outcome);
            }
            Entry::NotRun { .. } => {}
        }
    }

    fn sent(&mut self, now: Now, trigger: &Trigger) {
        if !self.keeps(trigger) {
            return;
        }
        let to = self.clock.read(now);
        let RunRef { job, item, token } = trigger.run.clone();
        let trace = FireTrace::new(&job, &trigger.incarnation, trigger.fire);
        let (mut from, mut nth) = (to, 0);
        if let Some(run) = self.runs.get_mut(&(token, job.clone(), item)) {
            // Sent again it waited for nothing here: it was lost.
            from = if run.told == 0 { run.since.min(to) } else { to };
            nth = run.told;
            run.told += 1;
        }
        self.queue.put(Span {
            trace: trace.id(),
            id: trace.part("dispatch", item, token, nth),
            parent: Some(trace.run(item, token)),
            name: "dispatch".to_owned(),
            goes_on_elsewhere: false,
            from,
            to,
            attributes: vec![
                ("rosterd.job", job.as_str().into()),
                ("rosterd.item", item.0.into()),
                ("rosterd.task_id", trigger.task_id.as_str().into()),
                ("rosterd.times_sent", (nth + 1).into()),
            ],
            failure: None,
        });
    }

    fn reported(&mut self, now: Now, run: &RunRef) {
        let at = self.clock.read(now);
        if let Some(run) = self.runs.get_mut(&(run.token, run.job.clone(), run.item)) {
            // It may come again, until it is acknowledged.
            run.reported.get_or_insert(at);
        }
    }

    fn settled(&mut self, _now: Now) {
        self.answered.clear();
        for ((job, at, _), fire) in std::mem::take(&mut self.fires) {
            for span in fire.spans(&job, at, &self.coordinator) {
                self.queue.put(span);
            }
        }
    }

    fn keeps(&self, trigger: &Trigger) -> bool {
        self.sampling.keeps(FireTrace::new(&trigger.run.job, &trigger.incarnation, trigger.fire).id())
    }
}

#[cfg(test)]
#[path = "spans_tests.rs"]
mod tests;
