//! Housekeeping: who leads, what is assigned to whom, what tools read of it. None of it is to delay a fire. When a
//! coordinator dies, all of its jobs want all of this at once, from coordinators that fire for these very jobs: so it
//! waits while a fire of its job is near, and only some of it is under way at a time, so that what fires finds short
//! queues in front of the store.

use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::JobName;
use rosterd_domain::view::Job;

use super::job::{Intent, JobState};
use super::node::Node;
use super::run_queue::RunQueue;

/// Transactions of housekeeping that are under way at a time. Enough to share packets and syncs.
const MOST: usize = 32;
/// So long before a job is to be looked at for a fire nothing else is begun for it: about what a transaction and the
/// reads after it take.
const NEAR: Duration = Duration::from_millis(30);

/// What is under way of it, and the jobs that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct BackgroundBudget {
    under_way: usize,
    waiting: RunQueue,
}

impl BackgroundBudget {
    pub(super) fn began(&mut self, intent: &Intent) {
        self.under_way += usize::from(is_housekeeping(intent));
    }

    pub(super) fn ended(&mut self, intent: &Intent) {
        self.under_way = self.under_way.saturating_sub(usize::from(is_housekeeping(intent)));
    }

    /// Whether a job waits that may have its turn.
    pub(super) fn has_turn(&self) -> bool {
        self.under_way < MOST && !self.waiting.is_empty()
    }

    /// The next job that may have its turn.
    pub(super) fn pop(&mut self) -> Option<JobName> {
        if self.under_way < MOST { self.waiting.pop() } else { None }
    }
}

fn is_housekeeping(intent: &Intent) -> bool {
    matches!(
        intent,
        Intent::Elect
            | Intent::Abdicate
            | Intent::NewRecords(_)
            | Intent::Assign(_)
            | Intent::Mirrors(_)
            | Intent::Servers
            | Intent::FailoverItems
    )
}

impl Node {
    /// Does the next of it; true when a transaction is under way.
    pub(super) fn run_background(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        job.deferred_for_fire = self.fires_soon(job);
        if job.deferred_for_fire {
            // Its fire brings it up again, or that there is none.
            return false;
        }
        if self.background.under_way >= MOST {
            self.background.waiting.insert(name.clone());
            return false;
        }
        self.elect(name, job, view)
            // Hosts hear of the assignment, and of new records they do not: these come first.
            || self.new_records(name, job, view)
            || self.assign(name, job, view)
            || self.mirrors(name, job, view)
            || self.forget_servers(name, job, view)
            || self.forget_failovers(name, job, view)
    }

    /// Whether the calendar is about to bring the job up.
    pub(super) fn fires_soon(&self, job: &JobState) -> bool {
        let soon = self.now.wall.plus(NEAR);
        !self.stopping && job.next.is_some_and(|next| self.now.wall < next && next <= soon)
    }

    /// Something has changed of a job, and it is to be read again; but a fire of it is near, or due: that goes first,
    /// decided by what is known. If just that has changed it is refused, as it may be at any time, and decided again.
    pub(super) fn fires_first(&mut self, name: &JobName, job: &mut JobState) -> bool {
        if !job.loaded || job.stale_records || self.stopping || !job.reports.is_empty() {
            return false;
        }
        let Some(view) = job.view.clone() else { return false };
        // A trigger that was taken still stands in what is known, and an announcement has more to look at.
        if !view.triggers.is_empty() || view.rules.announces() {
            return false;
        }
        self.fires_soon(job) || job.due && self.host(name, job, &view)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::job::Planned;

    #[test]
    fn only_so_much_of_it_is_under_way_at_a_time() {
        let mut budget = BackgroundBudget::default();
        let job = |n: usize| JobName::new(format!("job-{n}")).unwrap();
        (0..MOST).for_each(|_| budget.began(&Intent::Elect));
        (0..3).for_each(|n| budget.waiting.insert(job(n)));
        assert_eq!((budget.has_turn(), budget.pop()), (false, None));
        // What people and workers wait for is none of it.
        budget.began(&Intent::Commands);
        budget.ended(&Intent::Commands);
        assert_eq!(budget.pop(), None);
        budget.ended(&Intent::Elect);
        assert_eq!((budget.has_turn(), budget.pop()), (true, Some(job(0))));
        let planned = Planned { why: rosterd_domain::plan::Why::Requested, causes: BTreeMap::new() };
        let assign = Intent::Assign(Box::new(planned));
        budget.began(&assign);
        assert_eq!(budget.pop(), None);
        budget.ended(&assign);
        assert_eq!([budget.pop(), budget.pop(), budget.pop()], [Some(job(1)), Some(job(2)), None]);
    }
}
