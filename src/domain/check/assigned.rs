//! Checks a new assignment.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use crate::id::{InstanceId, Item};
use crate::plan::{Assigned, Candidates};
use crate::sharding::Sharding;
use crate::txn::{Guard, Write};
use crate::view::Job;

/// Everything that is wrong with the leader's plan; empty: it may be committed.
pub fn check_assign(job: &Job, candidates: &Candidates, assigned: &Assigned) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut expect = |holds: bool, item: Option<Item>, what: String| {
        if !holds {
            found.push(Violation { item, what });
        }
    };
    let after = &assigned.sharding;
    let eligible = eligible(job, candidates);
    expect(!eligible.is_empty(), None, "no instance may own an item".into());
    expect(after.items() == job.rules.items, None, format!("{} items are assigned", after.items()));
    let mut owned: BTreeMap<&InstanceId, u32> = eligible.iter().map(|instance| (*instance, 0)).collect();
    for item in (0..job.rules.items).map(Item) {
        match after.owner(item).and_then(|owner| owned.get_mut(owner)) {
            Some(count) => *count += 1,
            None => expect(false, Some(item), format!("it belongs to {:?}", after.owner(item))),
        }
    }
    let (least, most) = (owned.values().min().copied(), owned.values().max().copied());
    expect(
        most <= least.map(|least| least + 1),
        None,
        format!("between {least:?} and {most:?} items are owned"),
    );
    let listed: BTreeSet<&InstanceId> = after.instances().iter().collect();
    expect(listed == eligible, None, format!("{listed:?} are listed"));
    expect(same_rights(&job.sharding, after), None, "a withdrawn right comes back".into());
    for (item, owner) in moved(&job.sharding, after) {
        expect(
            assigned.moved.contains(&(item, owner.clone())),
            Some(item),
            format!("its move to {owner:?} is not reported"),
        );
    }
    expect(
        assigned.moved.len() == moved(&job.sharding, after).len(),
        None,
        "moves are reported that did not happen".into(),
    );
    transaction(job, assigned, &mut expect);
    found
}

fn eligible<'a>(job: &'a Job, candidates: &'a Candidates) -> BTreeSet<&'a InstanceId> {
    let present = job.instances.iter().filter(|(_, seen)| seen.node.is_some()).map(|(instance, _)| instance);
    let present = present.filter(|instance| !candidates.leaving.contains(*instance));
    let absent = candidates.absent.iter().filter(|instance| !job.instances.contains_key(*instance));
    present.chain(absent).filter(|instance| job.is_enabled(instance)).collect()
}

/// Whether only the assignment has changed; a raised count may have been noted.
fn same_rights(before: &Sharding, after: &Sharding) -> bool {
    before.disabled_items == after.disabled_items
        && before.disabled_instances == after.disabled_instances
        && before.withdrawals == after.withdrawals
        && (before.gap, &before.gaps) == (after.gap, &after.gaps)
        && (before.made, before.numbered, &before.floor, &before.floors)
            == (after.made, after.numbered, &after.floor, &after.floors)
        && (before.surplus == after.surplus || (1..after.items()).contains(&before.items()))
}

fn moved(before: &Sharding, after: &Sharding) -> Vec<(Item, Option<InstanceId>)> {
    let most = before.items().max(after.items());
    let changed = (0..most).map(Item).filter(|item| before.owner(*item) != after.owner(*item));
    changed.map(|item| (item, after.owner(item).cloned())).collect()
}

fn transaction(job: &Job, assigned: &Assigned, expect: &mut impl FnMut(bool, Option<Item>, String)) {
    let mut guards = vec![
        Guard::Incarnation(job.name.clone(), job.incarnation.clone()),
        Guard::Epoch(job.name.clone(), job.epoch),
    ];
    let mut writes = Vec::new();
    if assigned.sharding == job.sharding {
        // No item moves: only the flag is cleared, and starts in flight remain valid.
        guards.push(Guard::Generation(job.name.clone(), job.generation));
    } else {
        let data = assigned.sharding.encode().into();
        writes.push(Write::Assignment { job: job.name.clone(), expect: job.generation, data });
    }
    expect(assigned.txn.guards == guards, None, format!("the guards are {:?}", assigned.txn.guards));
    writes.extend(job.necessary.map(|version| Write::ClearNecessary(job.name.clone(), version)));
    expect(
        assigned.txn.writes == writes,
        None,
        "the writes are not the assignment and the flag as read".into(),
    );
}
