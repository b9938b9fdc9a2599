//! Once faults have stopped each job goes on by itself: a live coordinator leads it, each item has a record, and every scheduled time
//! up to a moment ago is accounted for.
//!
//! Source: Elastic-Job #1807 and #123, jobs that stayed dead, and elections without end, after a healed fault; Dkron #998, no
//! jobs after a second election.

use std::time::Duration;

use rosterd_domain::id::Item;
use rosterd_domain::item::Record;
use rosterd_domain::view::Job;

use super::Resting;

/// Within this time a run starts for each item of a job that is due every few seconds, whatever else its worker has to
/// do.
const BEGINS_WITHIN: Duration = Duration::from_secs(20);

/// Jobs and items that do not go on.
pub(super) fn at_rest(of: &Resting<'_>) -> Vec<String> {
    let (view, mut found) = (of.view, Vec::new());
    match &view.leader {
        Some((leader, _)) if of.rest.coordinators.contains(leader.as_str()) => {}
        other => found.push(format!("{}: its leader is {other:?}", view.name)),
    }
    if !of.is_served() {
        return found;
    }
    for item in (0..view.rules.items).map(Item) {
        match of.snapshot.records.get(&item) {
            None => found.push(format!("{}: item {item} has no record", view.name)),
            Some((_, record)) => found.extend(forgotten(of, item, record)),
        }
        found.extend(not_begun(of, item));
    }
    found
}

fn is_open(view: &Job, item: Item) -> bool {
    !view.paused && !view.rules.disabled && !view.sharding.disabled_items.contains(&item)
}

/// An item whose scheduled times are all skipped, in a job whose runs no record holds, so that each may be taken for
/// busy. If slots are scarce, each may wait for one until the next comes, as long as misfires of others always come
/// first.
fn not_begun(of: &Resting<'_>, item: Item) -> Option<String> {
    let name = &of.view.name;
    let shadow = of.rest.shadows.get(name).filter(|shadow| !shadow.monitor)?;
    let since = of.rest.now.minus(BEGINS_WITHIN);
    // Long enough ago that one of them would have started.
    let was_due = shadow.due(since, since.plus(BEGINS_WITHIN / 4)) > 0;
    if !was_due || !is_open(of.view, item) || !has_slots_for_all(of, item) || goes_on_from_before(of, item) {
        return None;
    }
    let last = of.rest.last_begun.get(&(name.to_string(), item.0)).copied();
    let long_ago = last.is_none_or(|last| last < since);
    long_ago.then(|| format!("{name}: item {item}: nothing has begun since {last:?}"))
}

/// Whether user code still runs what a record holds from when the job used monitorExecution.
fn goes_on_from_before(of: &Resting<'_>, item: Item) -> bool {
    let Some((_, record)) = of.snapshot.records.get(&item) else { return false };
    let run = (of.view.name.to_string(), item.0, record.token.0);
    record.running().is_some() && of.rest.in_user_code.contains(&run)
}

/// Whether the item's owner can run all its items at once, of all jobs.
fn has_slots_for_all(of: &Resting<'_>, item: Item) -> bool {
    let Some(owner) = of.view.sharding.owner(item) else { return true };
    let jobs = of.rest.shadows.iter().filter(|(name, _)| of.rest.jobs.contains_key(*name));
    let items: usize = jobs.map(|(_, shadow)| shadow.sharding.items_of(owner).len()).sum();
    items as u64 <= of.rest.fewest_slots
}

/// Scheduled times that are not accounted for.
fn forgotten(of: &Resting<'_>, item: Item, record: &Record) -> Option<String> {
    let view = of.view;
    if !is_open(view, item) {
        return None;
    }
    let until = of.rest.now.minus(Duration::from_secs(25));
    let (name, last) = (&view.name, record.last_fire);
    let forgotten = of.rest.shadows.get(name)?.due(last, until);
    (forgotten > 0).then(|| {
        format!("{name}: item {item}: {forgotten} scheduled times after {last} are not accounted for")
    })
}
