//! The records under decision, and the plan that grows with each change to them. The steps of a plan share one draft;
//! it is private to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::waiting::Wanted;
use super::{Entry, Facts, FireResult, Hosted, Plan, Reason};
use crate::id::{InstanceId, Item, JobName, Version};
use crate::item::{ItemEvent, Record, Records, Running};
use crate::mutants;
use crate::time::Time;
use crate::txn::{Guard, Purpose, Write};
use crate::view::{Job, Timeline};

/// How many bytes of offsets fit into one transaction, unless a single one is larger.
const MOST_LEFT: usize = 128 * 1024;

pub(super) struct Draft<'a> {
    pub(super) job: &'a Job,
    pub(super) facts: &'a Facts<'a>,
    pub(super) before: &'a Records,
    pub(super) changed: BTreeMap<Item, Record>,
    pub(super) timeline: Timeline<'a>,
    /// The instances hosted here, ascending.
    pub(super) seats: Vec<Seat<'a>>,
    /// For each place in the assignment's instances its seat, if that instance is hosted here.
    seat_of: Vec<Option<usize>>,
    /// Items whose runs this plan takes away: they may still be in user code.
    pub(super) taken_away: BTreeSet<Item>,
    /// Items whose next timer is computed once everything is decided.
    pub(super) looked_at: Vec<Item>,
    generation_guarded: bool,
    /// Bytes of the offsets of runs that end with this plan.
    bytes: usize,
    pub(super) plan: Plan,
}

/// An instance hosted here.
pub(super) struct Seat<'a> {
    pub(super) instance: &'a InstanceId,
    pub(super) hosted: &'a Hosted,
    /// Whether it may get runs of this job.
    pub(super) eligible: bool,
    /// What its items, and crashed ones offered to it, could start.
    pub(super) wanted: Vec<Wanted>,
    /// A run of its worker ends with this plan: its slot is free once that is committed, and does not count as free
    /// yet.
    pub(super) freed: bool,
    guarded: bool,
}

impl<'a> Draft<'a> {
    pub(super) fn new(job: &'a Job, before: &'a Records, facts: &'a Facts<'a>) -> Self {
        let seat = |(instance, hosted): (&'a InstanceId, &'a Hosted)| {
            let alive = hosted.ready && !facts.dead.contains(&hosted.worker);
            let eligible = alive && job.is_enabled(instance);
            Seat { instance, hosted, eligible, wanted: Vec::new(), freed: false, guarded: false }
        };
        let seats: Vec<Seat<'a>> = facts.hosted.iter().map(seat).collect();
        let place = |instance| seats.binary_search_by(|seat| seat.instance.cmp(instance)).ok();
        let mut plan = Plan::default();
        plan.txn.purpose = Purpose::Host;
        Self {
            seat_of: job.sharding.instances().iter().map(place).collect(),
            seats,
            timeline: Timeline::new(job),
            changed: BTreeMap::new(),
            taken_away: BTreeSet::new(),
            looked_at: Vec::new(),
            bytes: 0,
            generation_guarded: false,
            job,
            facts,
            before,
            plan,
        }
    }

    pub(super) fn record(&self, item: Item) -> Option<&Record> {
        self.changed.get(&item).or_else(|| self.before.get(&item).map(|(_, record)| &**record))
    }

    /// The seat of the item's owner, if it is hosted here.
    pub(super) fn seat(&self, item: Item) -> Option<usize> {
        *self.seat_of.get(self.job.sharding.owner_place(item)?)?
    }

    pub(super) fn name(&self) -> JobName {
        self.job.name.clone()
    }

    /// Whether the job or the item gets no runs.
    pub(super) fn disabled(&self, item: Item) -> bool {
        self.job.rules.disabled || self.job.sharding.disabled_items.contains(&item)
    }

    /// Whether a worker may execute the item although no record holds the run.
    pub(super) fn is_in_user_code(&self, item: Item) -> bool {
        self.facts.in_user_code.contains(&item) || self.taken_away.contains(&item)
    }

    /// Whether failover applies to the item's crashed run, or to the one in flight if it crashes.
    pub(super) fn requeues(&self, item: Item) -> bool {
        let cancelled = self.record(item).and_then(Record::running).is_some_and(|run| run.cancelled);
        if cancelled && !mutants::is_on(mutants::CANCELLED_RUNS_AGAIN) {
            return false;
        }
        let rules = &self.job.rules;
        let disabled = self.disabled(item) && !mutants::is_on(mutants::FAILOVER_OF_DISABLED);
        rules.failover && item.0 < rules.items && !disabled
    }

    /// Whether a run whose worker died may be run again: not if that happened too often, since the run may be what
    /// kills its workers.
    pub(super) fn outlives(&self, run: &Running) -> bool {
        run.deaths < self.job.spec.policy().max_failovers || mutants::is_on(mutants::KILLERS_GO_ON)
    }

    /// Whether the transaction has no room for this item's writes.
    pub(super) fn full(&mut self, item: Item) -> bool {
        let full = self.changed.len() >= self.facts.most_writes.max(1) && !self.changed.contains_key(&item);
        self.plan.more |= full;
        full
    }

    /// Whether it has room for an offset of this many bytes; a single one always fits.
    pub(super) fn has_room_for(&mut self, bytes: usize) -> bool {
        let room = self.bytes == 0 || self.bytes + bytes <= MOST_LEFT;
        self.plan.more |= !room;
        self.bytes += if room { bytes } else { 0 };
        room
    }

    /// Whether it already writes as many offsets of continuing runs as it may write records.
    pub(super) fn full_of_offsets(&self) -> bool {
        self.plan.offsets.len() >= self.facts.most_writes.max(1)
    }

    /// Applies one row of the transition table; an illegal event is a bug in the planner, and is dropped.
    pub(super) fn apply(&mut self, item: Item, event: ItemEvent, why: impl FnOnce() -> String) -> bool {
        let Some(record) = self.record(item) else { return false };
        let applied = match &event {
            ItemEvent::Start(_) | ItemEvent::Claim(_) => record.above(self.facts.given).apply(&event),
            _ => record.apply(&event),
        };
        match applied {
            Ok(next) => {
                self.changed.insert(item, next);
                if self.facts.explain {
                    self.plan.reasons.push(Reason { item, why: why() });
                }
                true
            }
            Err(illegal) => {
                debug_assert!(false, "item {item}: {illegal}");
                false
            }
        }
    }

    pub(super) fn write(&mut self, write: Write) {
        self.plan.txn.write(write);
    }

    pub(super) fn guard(&mut self, guard: Guard) {
        self.plan.txn.guard(guard);
    }

    /// The decision depends on the rights that were read.
    pub(super) fn guard_generation(&mut self) {
        if !self.generation_guarded && !mutants::is_on(mutants::START_IGNORES_GENERATION) {
            self.generation_guarded = true;
            let guard = Guard::Generation(self.name(), self.job.generation);
            self.plan.txn.guards.push(guard);
        }
    }

    /// A run depends on its worker being attached here.
    pub(super) fn guard_attachment(&mut self, seat: usize) {
        let seat = &mut self.seats[seat];
        let skips = mutants::is_on(mutants::START_IGNORES_ATTACHMENT);
        if !std::mem::replace(&mut seat.guarded, true) && !skips {
            let guard = Guard::Attachment(seat.hosted.worker.clone(), seat.hosted.attachment);
            self.plan.txn.guards.push(guard);
        }
    }

    /// Notes scheduled times that get no run of their own.
    pub(super) fn not_run(&mut self, item: Item, first: Time, latest: Time, count: u64, result: FireResult) {
        self.plan.entries.push(Entry::NotRun { item, first, latest, count, result });
    }

    /// Requests planning at `at`, if that is the earliest.
    pub(super) fn look_at(&mut self, at: Option<Time>) {
        self.plan.next = [self.plan.next, at].into_iter().flatten().min();
    }

    pub(super) fn finish(mut self) -> Plan {
        let job = self.name();
        let mut mirrors = std::mem::take(&mut self.plan.txn.writes);
        let mut writes = Vec::with_capacity(self.changed.len() + mirrors.len());
        let mut records = Vec::with_capacity(self.changed.len());
        for (item, record) in self.changed {
            let before = self.before.get(&item);
            let expect = before.map(|(version, _)| *version);
            let marked = record.misfire.is_some();
            if before.is_some_and(|(_, before)| before.misfire.is_some()) != marked {
                mirrors.push(Write::Misfire { job: job.clone(), item, marked });
            }
            let record = Arc::new(record);
            writes.push(Write::Record { job: job.clone(), item, expect, record: record.clone() });
            records.push((item, (expect.map_or(Version(0), Version::next), record)));
        }
        writes.append(&mut mirrors);
        if !writes.is_empty() {
            self.plan.txn.guards.insert(0, Guard::Incarnation(job, self.job.incarnation.clone()));
        }
        self.plan.txn.writes = writes;
        self.plan.records = records.into_iter().collect();
        self.plan
    }
}
