//! Checks plans, apart from the planners: what a plan writes is derived anew from the records before it, the
//! table of an item's life, the schedule counted one scheduled time after the other, and what the host knows. It
//! shares no decision with [`crate::plan`]; tests and the simulation call it after every plan.

mod assigned;
mod due;
mod mirrors;
mod rights;
mod slots;
mod story;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use assigned::check_assign;

use crate::id::{Item, Token, Version};
use crate::item::{Outcome, Record, Running};
use crate::plan::{Entry, Facts, Plan, Report, Reported};
use crate::time::Time;
use crate::txn::{Guard, Write};
use crate::view::Job;

/// Records with the versions at which they were read.
pub type Records = BTreeMap<Item, (Version, Record)>;

/// What is wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// With which item, where it is about one.
    pub item: Option<Item>,
    /// What.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.item {
            Some(item) => write!(f, "item {item}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// Everything that is wrong with a host's plan; empty: it may be committed.
pub fn check(job: &Job, before: &Records, facts: &Facts<'_>, plan: &Plan) -> Vec<Violation> {
    let mut case = Case { job, before, facts, plan, found: Vec::new() };
    case.transaction();
    for item in case.items() {
        story::check(&mut case, item);
        mirrors::check(&mut case, item);
    }
    rights::check(&mut case);
    slots::check(&mut case);
    if !plan.more {
        due::check(&mut case);
    }
    case.found
}

struct Case<'a> {
    job: &'a Job,
    before: &'a Records,
    facts: &'a Facts<'a>,
    plan: &'a Plan,
    found: Vec<Violation>,
}

impl<'a> Case<'a> {
    fn expect(&mut self, holds: bool, item: impl Into<Option<Item>>, what: impl FnOnce() -> String) {
        if !holds {
            self.found.push(Violation { item: item.into(), what: what() });
        }
    }

    /// Every item that the plan mentions anywhere, and every item there is.
    fn items(&self) -> Vec<Item> {
        let entries = self.plan.entries.iter().map(item_of);
        let mut items: Vec<Item> = self.before.keys().copied().chain(entries).collect();
        items.extend(self.plan.records.keys());
        items.sort_unstable();
        items.dedup();
        items
    }

    fn entries(&self, item: Item) -> impl Iterator<Item = &'a Entry> + use<'a> {
        self.plan.entries.iter().filter(move |entry| item_of(entry) == item)
    }

    /// The record that the plan writes.
    fn written(&self, item: Item) -> Option<&'a Record> {
        self.plan.txn.writes.iter().find_map(|write| match write {
            Write::Record { item: written, record, .. } if *written == item => Some(&**record),
            _ => None,
        })
    }

    /// The record once the plan is committed.
    fn after(&self, item: Item) -> Option<&'a Record> {
        self.written(item).or_else(|| self.before.get(&item).map(|(_, record)| record))
    }

    /// What is reported of a run: what others say of it is no report, nor is a skip of one that is not held.
    fn report_of(&self, item: Item, token: Token, run: &Running) -> Option<&'a Report> {
        let report = self.facts.reports.get(&item)?;
        let valid = report.token == token
            && report.worker == run.worker
            && (run.held || report.ended != Reported::Skipped);
        valid.then_some(report)
    }

    /// How far the run in flight has come, as its worker said.
    fn progressed(&self, item: Item, before: &Record) -> Option<Arc<[u8]>> {
        let said = self.facts.progressed.get(&item).filter(|said| said.token == before.token)?;
        before.running().filter(|run| run.worker == said.worker).map(|_| said.offset.clone())
    }

    /// The offset that the plan writes of a run that goes on; where it has room for no more, not all are.
    fn goes_on(&self, item: Item) -> Option<Arc<[u8]>> {
        let (_, before) = self.before.get(&item).filter(|_| self.facts.writes_progressed)?;
        let runs =
            self.after(item).is_some_and(|after| after.token == before.token && after.running().is_some());
        let written = || self.plan.offsets.iter().any(|(of, _)| *of == item);
        self.progressed(item, before).filter(|_| runs && (!self.plan.more || written()))
    }

    /// Whether a run is taken away by this plan: its worker may go on with it.
    fn is_taken_away(&self, item: Item, token: Token, run: &Running, outcome: Outcome) -> bool {
        outcome == Outcome::TimedOut
            && !self.facts.dead.contains(&run.worker)
            && self.report_of(item, token, run).is_none()
    }

    /// Whether the item is in user code, whatever its record says.
    fn in_user_code(&self, item: Item) -> bool {
        self.facts.in_user_code.contains(&item)
            || self.plan.entries.iter().any(|entry| match entry {
                Entry::Ended { item: of, token, run, outcome, .. } => {
                    *of == item && self.is_taken_away(item, *token, run, *outcome)
                }
                _ => false,
            })
    }

    fn has(&self, guard: &Guard) -> bool {
        self.plan.txn.guards.contains(guard)
    }

    /// Whether the job or the item gets no runs.
    fn disabled(&self, item: Item) -> bool {
        self.job.rules.disabled || self.job.sharding.disabled_items.contains(&item)
    }

    /// Whether failover applies to the item.
    fn fails_over(&self, item: Item) -> bool {
        self.job.rules.failover && item.0 < self.job.rules.items && !self.disabled(item)
    }

    /// Whether this host accounts for the item's scheduled times.
    fn accounts_for(&self, item: Item) -> bool {
        let owner = self.job.sharding.owner(item);
        item.0 < self.job.rules.items && owner.is_some_and(|owner| self.facts.hosted.contains_key(owner))
    }

    /// The first scheduled time after `after`, from the schedules themselves.
    fn next_due(&self, record: &Record, after: Time) -> Option<Time> {
        let config = self.job.spec.config();
        let is_of = |cron: &str, zone: &str| config.cron.as_deref() == Some(cron) && config.zone() == zone;
        let ahead = record.ahead.as_ref().filter(|ahead| is_of(&ahead.schedule.0, &ahead.schedule.1));
        let due = self.next_of_job(after)?;
        match ahead {
            Some(ahead) if ahead.since < due && due <= ahead.until => self.next_of_job(ahead.until),
            _ => Some(due),
        }
    }

    fn next_of_job(&self, after: Time) -> Option<Time> {
        let mut from = after;
        for (until, schedule) in &self.job.rules.before {
            let due = schedule.as_ref().filter(|_| from < *until).and_then(|schedule| schedule.next(from));
            if let Some(due) = due.filter(|due| due <= until) {
                return Some(due);
            }
            from = from.max(*until);
        }
        self.job.rules.schedule.as_ref()?.next(from)
    }

    /// What any transaction of a host looks like: each record once, at the version read.
    fn transaction(&mut self) {
        let plan = self.plan;
        let incarnation = Guard::Incarnation(self.job.name.clone(), self.job.incarnation.clone());
        self.expect(plan.txn.writes.is_empty() || self.has(&incarnation), None, || {
            "the incarnation is not guarded".into()
        });
        let mut written = BTreeMap::new();
        for write in &plan.txn.writes {
            let Write::Record { job, item, expect, record } = write else { continue };
            self.expect(*job == self.job.name, *item, || format!("the record of {job} is written"));
            let read = self.before.get(item).map(|(version, _)| *version);
            self.expect(read.is_some() && *expect == read, *item, || {
                format!("the record is written at {expect:?}, it was read at {read:?}")
            });
            let told = (expect.map_or(Version(0), Version::next), (**record).clone());
            self.expect(written.insert(*item, told).is_none(), *item, || {
                "its record is written twice".into()
            });
        }
        self.expect(written == plan.records, None, || "the records told are not those written".into());
        let most = self.facts.most_writes.max(1);
        self.expect(written.len() <= most, None, || format!("{} records are written", written.len()));
    }
}

fn item_of(entry: &Entry) -> Item {
    match entry {
        Entry::Started { item, .. } | Entry::Ended { item, .. } | Entry::Unrun { item, .. } => *item,
    }
}
