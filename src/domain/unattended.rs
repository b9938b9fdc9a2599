//! What is unattended in a job: whether it has a worker at all, which items have no owner, and since when a scheduled
//! time waits. Each coordinator reports the items that it hosts, and a job's leader those without an owner, so that the
//! sum over all coordinators is right. Nothing is decided from it: it is for monitoring.

use crate::id::{InstanceId, Item};
use crate::item::Records;
use crate::time::Time;
use crate::view::{Job, Timeline};

/// What is unattended, as far as one coordinator is responsible for it. Empty for a job that is paused or disabled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unattended {
    /// It is led here, and has no enabled worker.
    pub without_workers: bool,
    /// Enabled items, without an enabled worker that owns them, of a job that is led here.
    pub items: u32,
    /// The first scheduled time that is neither run nor recorded; it may be in the future.
    pub waits_since: Option<Time>,
}

/// Examines a job. `leads`: it is led here; `hosts`: whether an instance's worker is attached here.
pub fn unattended(
    job: &Job,
    records: &Records,
    leads: bool,
    hosts: &dyn Fn(&InstanceId) -> bool,
) -> Unattended {
    let mut found = Unattended::default();
    if job.paused || job.rules.disabled {
        return found;
    }
    let works = |instance: &InstanceId| {
        job.instances.get(instance).is_some_and(|seen| seen.node.is_some()) && job.is_enabled(instance)
    };
    found.without_workers = leads && !job.instances.keys().any(works);
    let timeline = Timeline::new(job);
    for item in (0..job.rules.items).map(Item) {
        if job.sharding.disabled_items.contains(&item) {
            continue;
        }
        let owner = job.sharding.owner(item).filter(|owner| works(owner));
        found.items += u32::from(leads && owner.is_none());
        if !owner.map_or(leads, hosts) {
            continue;
        }
        let Some((_, record)) = records.get(&item) else { continue };
        let timeline = timeline.of(record);
        let mut next = timeline.next(record.last_fire);
        while let Some(gap) = next.and_then(|due| job.sharding.gap_of(item, due)) {
            // Nothing was to be run during the gap.
            next = timeline.next(gap.until);
        }
        found.waits_since = found.waits_since.into_iter().chain(next).min();
    }
    found
}
