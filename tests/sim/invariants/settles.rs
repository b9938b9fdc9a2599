//! Once faults have stopped: every enabled item belongs to exactly one live, enabled instance, the reshard flag
//! is gone, nothing refers to anything dead, no run waits for a taker or is in flight with nobody, and every due
//! time up to a moment ago is accounted for.
//!
//! Source: flags that nobody could clear any more, elections without end, plans that waited for items that never came, and
//! jobs that stayed dead after a healed fault.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::{InstanceId, Item, JobName, Token, WorkerId};
use rosterd_domain::snapshot::{Attachment, Snapshot};
use rosterd_domain::time::Time;
use rosterd_domain::view::Job;

use crate::watch::JobShadow;

/// The world at rest.
pub struct AtRest<'a> {
    pub now: Time,
    pub jobs: BTreeMap<JobName, Snapshot>,
    pub shadows: &'a BTreeMap<JobName, JobShadow>,
    pub attachments: BTreeMap<WorkerId, Attachment>,
    /// Sessions of coordinators that live.
    pub sessions: BTreeSet<String>,
    pub coordinators: BTreeSet<String>,
    /// The workers of processes that live.
    pub workers: BTreeSet<WorkerId>,
    /// Which jobs each of them works for.
    pub in_user_code: BTreeSet<(String, u32, u64)>,
}

/// What is not as it should be; empty: the world has settled.
pub fn check(rest: &AtRest<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (worker, attachment) in &rest.attachments {
        if !rest.workers.contains(worker) {
            found.push(format!("attachment of {worker}, which is dead (host {})", attachment.host));
        } else if !rest.sessions.contains(&attachment.session) {
            found.push(format!("{worker} is attached to {}, which is over", attachment.session));
        }
    }
    for (name, snapshot) in &rest.jobs {
        match Job::decode(name, &snapshot.nodes) {
            Ok(Some(view)) => job(rest, &view, snapshot, &mut found),
            Ok(None) => found.push(format!("job {name} is still being removed")),
            Err(why) => found.push(format!("job {name} is damaged: {why}")),
        }
    }
    found
}

fn lives(rest: &AtRest<'_>, instance: &InstanceId) -> bool {
    instance.worker().is_some_and(|worker| rest.workers.contains(&worker))
}

fn job(rest: &AtRest<'_>, view: &Job, snapshot: &Snapshot, found: &mut Vec<String>) {
    let name = &view.name;
    let live: Vec<&InstanceId> = view.instances.keys().filter(|instance| view.is_enabled(instance)).collect();
    for instance in view.instances.keys().filter(|instance| !lives(rest, instance)) {
        found.push(format!("{name}: instance {instance} is dead"));
    }
    match &view.leader {
        Some((leader, _)) if rest.coordinators.contains(leader.as_str()) => {}
        other => found.push(format!("{name}: its leader is {other:?}")),
    }
    if live.is_empty() {
        return;
    }
    if view.necessary.is_some() {
        found.push(format!("{name}: the reshard flag is up"));
    }
    if view.sharding.items() != view.rules.items {
        found.push(format!("{name}: {} items assigned of {}", view.sharding.items(), view.rules.items));
    }
    for item in (0..view.rules.items).map(Item) {
        match view.sharding.owner(item) {
            Some(owner) if live.contains(&owner) => {}
            owner => found.push(format!("{name}: item {item} belongs to {owner:?}")),
        }
        match snapshot.records.get(&item) {
            None => found.push(format!("{name}: item {item} has no record")),
            Some((_, record)) => item_at_rest(rest, view, item, record, found),
        }
    }
}

/// Whether an instance that may run items of the job has a free slot: without one a crashed run waits.
fn has_room(rest: &AtRest<'_>, view: &Job) -> bool {
    view.instances.iter().filter(|(instance, _)| view.is_enabled(instance)).any(|(instance, seen)| {
        let slots = seen.node.as_ref().map_or(0, |node| node.slots);
        let records = rest.jobs.values().flat_map(|job| job.records.values());
        let here = |run: &rosterd_domain::item::Running| Some(&run.worker) == instance.worker().as_ref();
        let taken = records.filter(|(_, record)| record.running().is_some_and(here)).count();
        taken < slots as usize
    })
}

fn item_at_rest(
    rest: &AtRest<'_>,
    view: &Job,
    item: Item,
    record: &rosterd_domain::item::Record,
    found: &mut Vec<String>,
) {
    let of = format!("{}: item {item}", view.name);
    if let Some(run) = record.running() {
        let Token(token) = record.token;
        let runs = rest.in_user_code.contains(&(view.name.to_string(), item.0, token));
        if !runs && rest.now.since(run.since).as_secs() >= 10 {
            found.push(format!(
                "{of}: run {token} on {} since {} is in nobody's hands",
                run.instance, run.since
            ));
        }
    }
    if let Some(crashed) = record.crashed()
        && has_room(rest, view)
        && rest.now.since(crashed.since).as_secs() >= 10
    {
        found.push(format!(
            "{of}: the run of {} crashed at {} and nobody takes it",
            crashed.fire, crashed.since
        ));
    }
    let disabled = view.rules.disabled || view.sharding.disabled_items.contains(&item);
    if view.paused || disabled {
        return;
    }
    if let Some(shadow) = rest.shadows.get(&view.name) {
        let until = rest.now.minus(std::time::Duration::from_secs(25));
        let forgotten = shadow.due(record.last_fire, until);
        if forgotten > 0 {
            found.push(format!(
                "{of}: {forgotten} due times after {} are not accounted for",
                record.last_fire
            ));
        }
    }
}
