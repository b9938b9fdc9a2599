//! The leader's plan: which instance owns which item. It writes `sharding` alone; everything else that shows
//! the assignment follows later and nobody waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::id::{InstanceId, Item};
use crate::mutants;
use crate::ownership::{Cause, Standing, causes, standing};
use crate::sharding::{Sharding, Stated};
use crate::strategy::{Assignment, Question};
use crate::time::Time;
use crate::txn::{Guard, Purpose, Txn, Write};
use crate::view::Job;

/// Instances that an item may be given to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidates {
    /// Absent from `instances`, but their worker's attachment lives: they may come back before they are dead.
    pub absent: BTreeSet<InstanceId>,
    /// Leaving: present, but not to be given anything.
    pub leaving: BTreeSet<InstanceId>,
    /// Now: items that come back with a raised count owe nothing of the time before.
    pub now: Time,
}

/// A new assignment and what it changes.
#[derive(Debug, Clone)]
pub struct Assigned {
    /// To be committed.
    pub txn: Txn,
    /// What `sharding` holds after.
    pub sharding: Sharding,
    /// Items that change owner.
    pub moved: Vec<(Item, Option<InstanceId>)>,
    /// Why each of them does.
    pub causes: BTreeMap<Item, Cause>,
    /// Why there is a new plan.
    pub why: Why,
}

/// Why an assignment is not right any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The number of items is another than that of the assignment.
    Items { before: u32, now: u32 },
    /// An instance that has items is not there, or may not have any: which of them it is.
    Gone(InstanceId, Standing),
    /// An instance is there and has none.
    Come(InstanceId),
    /// Somebody asked for a new one.
    Requested,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Items { before, now } => write!(f, "{now} items instead of {before}"),
            Self::Gone(instance, standing) => write!(f, "{instance} {standing}"),
            Self::Come(instance) => write!(f, "{instance} has come"),
            Self::Requested => f.write_str("resharding requested"),
        }
    }
}

/// Plans the assignment, or answers `None` where the one in force is right or nobody could own an item.
pub fn assign(job: &Job, candidates: &Candidates) -> Option<Assigned> {
    let mut enabled: Vec<InstanceId> = job
        .instances
        .iter()
        .filter(|(instance, seen)| seen.node.is_some() && !candidates.leaving.contains(*instance))
        .map(|(instance, _)| instance)
        .chain(candidates.absent.iter().filter(|absent| !job.instances.contains_key(*absent)))
        .filter(|instance| job.is_enabled(instance) || mutants::is_on(mutants::DISABLED_OWN_ITEMS))
        .cloned()
        .collect();
    // Elastic-Job lists instances in descending order of id, and its strategies take them in that order.
    enabled.sort_by(|a, b| b.cmp(a));
    enabled.dedup();
    let why = reason(job, &enabled, candidates)?;
    let current = if mutants::is_on(mutants::STICKY_FORGETS) {
        Assignment::default()
    } else {
        job.sharding.assignment()
    };
    let question =
        Question { job: &job.name, instances: &enabled, items: job.rules.items, current: &current };
    let assignment = job.rules.strategy.assign(&question);
    let mut sharding = job.sharding.with_assignment(&assignment, job.rules.items);
    if (1..job.rules.items).contains(&job.sharding.items()) {
        sharding = sharding.raised(Item(job.sharding.items()), candidates.now);
    }
    if sharding != job.sharding && sharding.stated.is_none() {
        sharding.stated = Some(Stated::by(job.spec.config()));
    }
    let moved = moved(&job.sharding, &sharding);
    let causes = causes(job, &job.sharding, &sharding, candidates, Some(&why));

    let mut txn = Txn::new(Purpose::Assign);
    txn.guard(Guard::Incarnation(job.name.clone(), job.incarnation.clone()));
    if !mutants::is_on(mutants::PLAN_IGNORES_EPOCH) {
        txn.guard(Guard::Epoch(job.name.clone(), job.epoch));
    }
    if sharding == job.sharding && job.necessary.is_some() {
        // A new leader, most often. Starts that are under way go by this generation, and are none of its business.
        txn.guard(Guard::Generation(job.name.clone(), job.generation));
    } else {
        let (expect, data) = (job.generation, Arc::from(sharding.encode()));
        txn.write(Write::Assignment { job: job.name.clone(), expect, data });
    }
    if let Some(version) = job.necessary {
        txn.write(Write::ClearNecessary(job.name.clone(), version));
    }
    Some(Assigned { txn, sharding, moved, causes, why })
}

/// Why the assignment in force is not right; `None`: it is, or there is nobody to give an item to.
fn reason(job: &Job, enabled: &[InstanceId], candidates: &Candidates) -> Option<Why> {
    if enabled.is_empty() {
        return None;
    }
    if job.sharding.items() != job.rules.items {
        return Some(Why::Items { before: job.sharding.items(), now: job.rules.items });
    }
    let flag = || job.necessary.map(|_| Why::Requested);
    if mutants::is_on(mutants::PLANS_FOLLOW_THE_FLAG) {
        return flag();
    }
    let planned: BTreeSet<&InstanceId> = job.sharding.instances().iter().collect();
    let present: BTreeSet<&InstanceId> = enabled.iter().collect();
    if let Some(gone) = planned.difference(&present).next() {
        return Some(Why::Gone((*gone).clone(), standing(job, gone, candidates)));
    }
    if let Some(new) = present.difference(&planned).next() {
        return Some(Why::Come((*new).clone()));
    }
    flag()
}

pub(super) fn moved(before: &Sharding, after: &Sharding) -> Vec<(Item, Option<InstanceId>)> {
    let most = before.items().max(after.items());
    (0..most)
        .map(Item)
        .filter(|item| before.owner(*item) != after.owner(*item))
        .map(|item| (item, after.owner(item).cloned()))
        .collect()
}
