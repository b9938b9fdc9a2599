//! The leader's plan: which instance owns which item. It writes `sharding` alone; everything else that shows the
//! assignment is written later, and nothing waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::candidates::Candidates;
use crate::id::{InstanceId, Item};
use crate::mutants;
use crate::ownership::{Cause, Why, causes, standing};
use crate::sharding::{Sharding, Stated};
use crate::strategy::{Assignment, Question};
use crate::txn::{Guard, Purpose, Txn, Write};
use crate::view::Job;

/// A new assignment and what it changes.
#[derive(Debug, Clone)]
pub struct Assigned {
    /// The transaction to commit.
    pub txn: Txn,
    /// The new content of `sharding`.
    pub sharding: Sharding,
    /// Items that change owner.
    pub moved: Vec<(Item, Option<InstanceId>)>,
    /// Why each of them changes owners.
    pub causes: BTreeMap<Item, Cause>,
    /// Why there is a new plan.
    pub why: Why,
}

/// See [`super::assign`].
pub(super) fn assign(job: &Job, candidates: &Candidates) -> Option<Assigned> {
    let mut enabled: Vec<InstanceId> = job
        .instances
        .iter()
        .filter(|(instance, seen)| seen.node.is_some() && !candidates.leaving.contains(*instance))
        .map(|(instance, _)| instance)
        .chain(candidates.absent.iter().filter(|absent| !job.instances.contains_key(*absent)))
        .filter(|instance| job.is_enabled(instance) || mutants::is_on(mutants::DISABLED_OWN_ITEMS))
        .cloned()
        .collect();
    // Elastic-Job lists instances in descending order of id, and its strategies expect that order.
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
        // Usually after a new leader was elected. Starts in flight rely on this generation, so it must not change.
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

/// Why the current assignment is wrong; `None`: it is right, or no instance may own items.
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
