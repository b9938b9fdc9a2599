//! One plan with the input that it was made from: what each of the checks looks at.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::id::{Item, Token, Version};
use crate::item::{Outcome, Record, Records, Running};
use crate::plan::{Entry, Facts, Plan, Report, Reported};
use crate::time::Time;
use crate::txn::{Guard, Write};
use crate::view::Job;

/// What is wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The item, if it is about one.
    pub item: Option<Item>,
    /// What is wrong.
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

pub(super) struct Case<'a> {
    pub(super) job: &'a Job,
    pub(super) before: &'a Records,
    pub(super) facts: &'a Facts<'a>,
    pub(super) plan: &'a Plan,
    pub(super) found: Vec<Violation>,
}

impl<'a> Case<'a> {
    pub(super) fn expect(
        &mut self,
        holds: bool,
        item: impl Into<Option<Item>>,
        what: impl FnOnce() -> String,
    ) {
        if !holds {
            self.found.push(Violation { item: item.into(), what: what() });
        }
    }

    /// Every item that the plan mentions, and every item that exists.
    pub(super) fn items(&self) -> Vec<Item> {
        let entries = self.plan.entries.iter().map(item_of);
        let mut items: Vec<Item> = self.before.keys().copied().chain(entries).collect();
        items.extend(self.plan.records.keys());
        items.sort_unstable();
        items.dedup();
        items
    }

    pub(super) fn entries(&self, item: Item) -> impl Iterator<Item = &'a Entry> + use<'a> {
        self.plan.entries.iter().filter(move |entry| item_of(entry) == item)
    }

    /// The record that the plan writes.
    pub(super) fn written(&self, item: Item) -> Option<&'a Record> {
        self.plan.txn.writes.iter().find_map(|write| match write {
            Write::Record { item: written, record, .. } if *written == item => Some(&**record),
            _ => None,
        })
    }

    /// The record once the plan is committed.
    pub(super) fn after(&self, item: Item) -> Option<&'a Record> {
        self.written(item).or_else(|| self.before.get(&item).map(|(_, record)| &**record))
    }

    /// The valid report on a run: one from another worker does not count, nor does a skip of a run that is not held.
    pub(super) fn report_of(&self, item: Item, token: Token, run: &Running) -> Option<&'a Report> {
        let report = self.facts.reports.get(&item)?;
        let valid = report.token == token
            && report.worker == run.worker
            && (run.held || report.ended != Reported::Skipped);
        valid.then_some(report)
    }

    /// The progress of the run in flight, as its worker reported it.
    pub(super) fn progressed(&self, item: Item, before: &Record) -> Option<Arc<[u8]>> {
        let said = self.facts.progressed.get(&item).filter(|said| said.token == before.token)?;
        before.running().filter(|run| run.worker == said.worker).map(|_| said.offset.clone())
    }

    /// The offset that the plan should write for a run that continues; if the transaction is full, only some are
    /// written.
    pub(super) fn goes_on(&self, item: Item) -> Option<Arc<[u8]>> {
        let (_, before) = self.before.get(&item).filter(|_| self.facts.writes_progressed)?;
        let runs =
            self.after(item).is_some_and(|after| after.token == before.token && after.running().is_some());
        let written = || self.plan.offsets.iter().any(|(of, _)| *of == item);
        self.progressed(item, before).filter(|_| runs && (!self.plan.more || written()))
    }

    /// Whether the plan takes the run away from a worker that may continue with it.
    pub(super) fn is_taken_away(&self, item: Item, token: Token, run: &Running, outcome: Outcome) -> bool {
        outcome == Outcome::TimedOut
            && !self.facts.dead.contains(&run.worker)
            && self.report_of(item, token, run).is_none()
    }

    /// Whether user code of the item may be executing, whatever its record says.
    pub(super) fn in_user_code(&self, item: Item) -> bool {
        self.facts.in_user_code.contains(&item)
            || self.plan.entries.iter().any(|entry| match entry {
                Entry::Ended { item: of, token, run, outcome, .. } => {
                    *of == item && self.is_taken_away(item, *token, run, *outcome)
                }
                _ => false,
            })
    }

    pub(super) fn has(&self, guard: &Guard) -> bool {
        self.plan.txn.guards.contains(guard)
    }

    /// Whether the job or the item gets no runs.
    pub(super) fn disabled(&self, item: Item) -> bool {
        self.job.rules.disabled || self.job.sharding.disabled_items.contains(&item)
    }

    /// Whether failover applies to the item.
    pub(super) fn fails_over(&self, item: Item) -> bool {
        self.job.rules.failover && item.0 < self.job.rules.items && !self.disabled(item)
    }

    /// Whether this host accounts for the item's scheduled times.
    pub(super) fn accounts_for(&self, item: Item) -> bool {
        let owner = self.job.sharding.owner(item);
        item.0 < self.job.rules.items && owner.is_some_and(|owner| self.facts.hosted.contains_key(owner))
    }

    /// The first scheduled time after `after`, from the schedules themselves.
    pub(super) fn next_due(&self, record: &Record, after: Time) -> Option<Time> {
        let config = self.job.spec.config();
        let is_of = |cron: &str, zone: &str| config.cron.as_deref() == Some(cron) && config.zone() == zone;
        let ahead = record.ahead.as_ref().filter(|ahead| is_of(&ahead.schedule.0, &ahead.schedule.1));
        let due = self.next_of_job(after)?;
        match ahead {
            Some(ahead) if ahead.since < due && due <= ahead.until => self.next_of_job(ahead.until),
            _ => Some(due),
        }
    }

    pub(super) fn next_of_job(&self, after: Time) -> Option<Time> {
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
    pub(super) fn transaction(&mut self) {
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
            let told = (expect.map_or(Version(0), Version::next), record.clone());
            self.expect(written.insert(*item, told).is_none(), *item, || {
                "its record is written twice".into()
            });
        }
        self.expect(written == plan.records, None, || "the records of the plan are not those written".into());
        let most = self.facts.most_writes.max(1);
        self.expect(written.len() <= most, None, || format!("{} records are written", written.len()));
    }
}

pub(super) fn item_of(entry: &Entry) -> Item {
    match entry {
        Entry::Started { item, .. } | Entry::Ended { item, .. } | Entry::NotRun { item, .. } => *item,
    }
}
