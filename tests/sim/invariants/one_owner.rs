//! A plan assigns each item of the job to one instance, no items beyond the count, and none to a disabled instance.
//! Once faults have stopped each item belongs to a live, enabled instance, if there is any, and no plan is due.
//!
//! Source: Elastic-Job #2449, #1471 and #69, plans that never came or never ended; #165, one that waited for items of a
//! disabled instance; Saturn #119, items of an executor that had been removed.

use rosterd_domain::id::{InstanceId, Item};
use rosterd_domain::sharding::Sharding;
use rosterd_domain::txn::{Purpose, Write};

use super::{Invariant, Resting};
use crate::oracle::observer::{AppliedStep, JobShadow};

/// Stateless.
#[derive(Default)]
pub struct OneOwner;

impl Invariant for OneOwner {
    fn name(&self) -> &'static str {
        "one_owner"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        let Some(txn) = step.txn.filter(|txn| txn.purpose == Purpose::Assign) else { return Ok(()) };
        for write in &txn.writes {
            let Write::Assignment { job, data, .. } = write else { continue };
            let (Some(shadow), Ok(plan)) = (step.before.jobs.get(job), Sharding::decode(data)) else {
                continue;
            };
            gives_all(shadow, &plan).map_err(|why| format!("plan of {job}: {why}"))?;
        }
        Ok(())
    }
}

fn gives_all(job: &JobShadow, plan: &Sharding) -> Result<(), String> {
    if plan.items() != job.items {
        return Err(format!("{} items of {}", plan.items(), job.items));
    }
    let disabled = |instance: &InstanceId| {
        plan.disabled_instances.contains(instance) || job.servers.get(instance.address()) == Some(&false)
    };
    for item in (0..job.items).map(Item) {
        match plan.owner(item) {
            None => return Err(format!("item {item} has no owner")),
            Some(owner) if disabled(owner) => {
                return Err(format!("item {item} is given to {owner}, which is disabled"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Items without a live owner.
pub(super) fn at_rest(of: &Resting<'_>) -> Vec<String> {
    let (view, mut found) = (of.view, Vec::new());
    let name = &view.name;
    if !of.is_served() {
        return found;
    }
    if view.necessary.is_some() {
        found.push(format!("{name}: the reshard flag is up"));
    }
    if view.sharding.items() != view.rules.items {
        found.push(format!("{name}: {} items assigned of {}", view.sharding.items(), view.rules.items));
    }
    for item in (0..view.rules.items).map(Item) {
        match view.sharding.owner(item) {
            Some(owner) if view.instances.contains_key(owner) && view.is_enabled(owner) => {}
            owner => found.push(format!("{name}: item {item} belongs to {owner:?}")),
        }
    }
    found
}
