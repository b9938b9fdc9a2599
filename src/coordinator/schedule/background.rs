//! How much work that no fire waits for may be in flight at a time, and the jobs that wait for their turn.

use rosterd_domain::id::JobName;

use crate::schedule::run_queue::RunQueue;

/// Background transactions in flight at a time. Enough to share packets and syncs.
const MOST: usize = 32;

/// The background work in flight, and the jobs that wait for their turn.
#[derive(Debug, Default)]
pub(crate) struct BackgroundBudget {
    under_way: usize,
    waiting: RunQueue,
}

impl BackgroundBudget {
    pub(crate) fn began(&mut self, counts: bool) {
        self.under_way += usize::from(counts);
    }

    pub(crate) fn ended(&mut self, counts: bool) {
        self.under_way = self.under_way.saturating_sub(usize::from(counts));
    }

    /// Whether the limit is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.under_way >= MOST
    }

    /// Queues the job for its turn.
    pub(crate) fn wait(&mut self, job: JobName) {
        self.waiting.insert(job);
    }

    /// Whether a waiting job can have its turn.
    pub(crate) fn has_turn(&self) -> bool {
        self.under_way < MOST && !self.waiting.is_empty()
    }

    /// The next job that can have its turn.
    pub(crate) fn pop(&mut self) -> Option<JobName> {
        if self.under_way < MOST { self.waiting.pop() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_much_of_it_is_under_way_at_a_time() {
        let mut budget = BackgroundBudget::default();
        let job = |n: usize| JobName::new(format!("job-{n}")).unwrap();
        (0..MOST).for_each(|_| budget.began(true));
        (0..3).for_each(|n| budget.wait(job(n)));
        assert_eq!((budget.has_turn(), budget.pop()), (false, None));
        // Work that people and workers wait for does not count.
        budget.began(false);
        budget.ended(false);
        assert_eq!(budget.pop(), None);
        budget.ended(true);
        assert_eq!((budget.has_turn(), budget.pop()), (true, Some(job(0))));
        budget.began(true);
        assert_eq!(budget.pop(), None);
        budget.ended(true);
        assert_eq!([budget.pop(), budget.pop(), budget.pop()], [Some(job(1)), Some(job(2)), None]);
    }
}
