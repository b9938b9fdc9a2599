//! What nobody attends to here, for the gauges.

use std::time::Duration;

use rosterd_domain::id::InstanceId;
use rosterd_domain::unattended::{Unattended, unattended};
use rosterd_domain::view::Job;

use super::job::JobState;
use super::node::Node;

impl Node {
    /// How many of the jobs led here have no worker, how many of their items no owner, and for how long the oldest scheduled
    /// time has waited that this coordinator answers for. Only jobs that had a turn since are looked at again.
    pub fn unattended(&mut self) -> (usize, usize, Duration) {
        let (mut jobs, mut items, mut oldest) = (0, 0, self.now.wall);
        for job in self.jobs.values_mut() {
            let found = job.unattended.unwrap_or_else(|| of(job));
            job.unattended = Some(found);
            jobs += usize::from(found.without_workers);
            items += found.items as usize;
            oldest = oldest.min(found.waits_since.unwrap_or(oldest));
        }
        (jobs, items, self.now.wall.since(oldest))
    }
}

fn of(job: &JobState) -> Unattended {
    let Some(view) = &job.view else { return Unattended::default() };
    unattended(view, &job.records, job.leads(), &|instance| job.hosted.contains_key(instance))
}

/// Whether a leader has come to answer for items of which another host wrote so far: their owner has gone.
pub(super) fn has_orphans(view: &Job, before: &Job) -> bool {
    let leads = |view: &Job| matches!(view.leader, Some((_, true)));
    let theirs = |gone: &InstanceId| before.instances.get(gone).is_some_and(|seen| !seen.mine);
    let mut gone = view.sharding.instances().iter().filter(|owner| !view.instances.contains_key(*owner));
    leads(view) && gone.any(|gone| theirs(gone) || !leads(before))
}
