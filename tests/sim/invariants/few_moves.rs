//! A STICKY plan moves as few items as possible: none is moved from one instance to another that has more in the end,
//! and no two are exchanged.
//!
//! Source: Kafka's KIP-54, sticky assignment. Other items keep their worker when one comes or goes, and with it their
//! local state. The strategies have property tests of their own; this checks what leaders write, under faults.

use std::collections::BTreeMap;

use rosterd_domain::id::InstanceId;
use rosterd_domain::sharding::Sharding;
use rosterd_domain::txn::{Purpose, Write};
use rosterd_domain::view::Job;

use super::Invariant;
use crate::oracle::observer::AppliedStep;

/// Stateless.
#[derive(Default)]
pub struct FewMoves;

impl Invariant for FewMoves {
    fn name(&self) -> &'static str {
        "few_moves"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        let Some(txn) = step.txn.filter(|txn| txn.purpose == Purpose::Assign) else { return Ok(()) };
        for write in &txn.writes {
            let Write::Assignment { job, data, .. } = write else { continue };
            let (Some(before), Ok(after)) = (step.before.jobs.get(job), Sharding::decode(data)) else {
                continue;
            };
            let view = step.view.snapshot(job).ok().flatten();
            let view = view.and_then(|snapshot| Job::decode(job, &snapshot.nodes).ok().flatten());
            if view.is_some_and(|view| view.spec.strategy() == "STICKY") {
                needed(&before.sharding, &after).map_err(|why| format!("plan of {job}: {why}"))?;
            }
        }
        Ok(())
    }
}

fn needed(before: &Sharding, after: &Sharding) -> Result<(), String> {
    let mut has: BTreeMap<&InstanceId, usize> = BTreeMap::new();
    after.owned().for_each(|(_, owner)| *has.entry(owner).or_default() += 1);
    let moved: Vec<_> = after
        .owned()
        .filter_map(|(item, to)| before.owner(item).filter(|from| *from != to).map(|from| (item, from, to)))
        .collect();
    for (item, from, to) in &moved {
        if has.get(from).is_some_and(|left| left < &has[to]) {
            return Err(format!("item {item} goes from {from} to {to}, which then has more: {has:?}"));
        }
        if let Some((other, ..)) = moved.iter().find(|(_, back, forth)| (back, forth) == (to, from)) {
            return Err(format!("items {item} and {other} of {from} and {to} are exchanged"));
        }
    }
    Ok(())
}
