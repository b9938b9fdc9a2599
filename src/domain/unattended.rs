//! What of a job nobody attends to: whether it has a worker at all, which items have no owner, and since when a scheduled
//! time waits. Each coordinator answers for what it hosts, and a job's leader for what nobody owns, so that a sum over all
//! coordinators is right. Nothing is decided by it: it is told.

use std::collections::BTreeMap;

use crate::id::{InstanceId, Item, Version};
use crate::item::Record;
use crate::time::Time;
use crate::view::{Job, Timeline};

/// What nobody attends to, as far as one coordinator answers for it. Nothing of a job that is paused or disabled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unattended {
    /// It is led here, and no enabled worker is there for it.
    pub without_workers: bool,
    /// Enabled items of a job that is led here, without an enabled worker that owns them.
    pub items: u32,
    /// The first scheduled time that is neither run nor recorded; it may be still to come.
    pub waits_since: Option<Time>,
}

/// Looks at a job. `leads`: it is led here; `hosts`: whose worker is attached here.
pub fn unattended(
    job: &Job,
    records: &BTreeMap<Item, (Version, Record)>,
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
            // Nothing was to be run then.
            next = timeline.next(gap.until);
        }
        found.waits_since = found.waits_since.into_iter().chain(next).min();
    }
    found
}
