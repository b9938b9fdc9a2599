//! The jobs that are worth a look: each once, in the order in which they came up. So none waits behind another
//! that comes up again and again. Those that fire now go before all others: a coordinator that takes over what another
//! has left has to look at every job it knows, and no fire is to wait for that. And names that are only said so far, by
//! workers that register them, have every fourth turn while others wait: whoever says thousands keeps nobody waiting.

use std::collections::{BTreeMap, VecDeque};

use rosterd_domain::id::JobName;

#[derive(Debug, Default)]
pub(crate) struct RunQueue {
    first: VecDeque<JobName>,
    order: VecDeque<JobName>,
    last: VecDeque<JobName>,
    /// All of them, and where they stand. What was moved ahead may have a place further back as well, that is void.
    known: BTreeMap<JobName, Lane>,
    /// Turns in a row that others had before those that stand last.
    waited: u32,
}

/// Where a job stands; the later ones go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Last,
    InOrder,
    First,
}

/// Those that stand last have one turn in so many.
const LAST_HAS_ONE_IN: u32 = 4;

impl RunQueue {
    /// Puts a job behind those in order, unless it waits already.
    pub(crate) fn insert(&mut self, job: JobName) {
        self.put(job, Lane::InOrder);
    }

    /// Puts a job behind those only that stand first as well.
    pub(crate) fn insert_first(&mut self, job: JobName) {
        self.put(job, Lane::First);
    }

    /// Puts a job behind all others, unless it waits already.
    pub(crate) fn insert_last(&mut self, job: JobName) {
        self.put(job, Lane::Last);
    }

    fn put(&mut self, job: JobName, lane: Lane) {
        if self.known.get(&job).is_some_and(|known| *known >= lane) {
            return;
        }
        self.known.insert(job.clone(), lane);
        self.queue(lane).push_back(job);
    }

    fn queue(&mut self, lane: Lane) -> &mut VecDeque<JobName> {
        match lane {
            Lane::First => &mut self.first,
            Lane::InOrder => &mut self.order,
            Lane::Last => &mut self.last,
        }
    }

    /// Takes the job that stands first, or has waited longest.
    pub(crate) fn pop(&mut self) -> Option<JobName> {
        let last_has_its_turn = self.waited + 1 >= LAST_HAS_ONE_IN;
        let lanes = match last_has_its_turn {
            true => [Lane::First, Lane::Last, Lane::InOrder],
            false => [Lane::First, Lane::InOrder, Lane::Last],
        };
        let (lane, job) = lanes.into_iter().find_map(|lane| Some((lane, self.pop_from(lane)?)))?;
        self.waited = if lane == Lane::Last || self.last.is_empty() { 0 } else { self.waited + 1 };
        Some(job)
    }

    fn pop_from(&mut self, lane: Lane) -> Option<JobName> {
        while let Some(job) = self.queue(lane).pop_front() {
            if self.known.get(&job) == Some(&lane) {
                self.known.remove(&job);
                return Some(job);
            }
        }
        None
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

impl Extend<JobName> for RunQueue {
    fn extend<T: IntoIterator<Item = JobName>>(&mut self, jobs: T) {
        jobs.into_iter().for_each(|job| self.insert(job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str) -> JobName {
        JobName::new(name).unwrap()
    }

    #[test]
    fn a_job_that_comes_up_again_does_not_overtake() {
        let mut queue = RunQueue::default();
        queue.extend(["b", "a", "b"].map(job));
        assert_eq!(queue.pop(), Some(job("b")));
        queue.insert(job("b"));
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some(job("a")), Some(job("b")), None]);
        assert!(queue.is_empty());
    }

    #[test]
    fn what_fires_goes_first_and_each_job_only_once() {
        let mut queue = RunQueue::default();
        queue.extend(["a", "b", "c"].map(job));
        queue.insert_first(job("c"));
        queue.insert_first(job("d"));
        queue.insert_first(job("c"));
        queue.insert(job("d"));
        let all: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(all, ["c", "d", "a", "b"].map(job));
        assert!(queue.is_empty());
    }

    #[test]
    fn names_that_are_only_said_keep_no_job_waiting() {
        let mut queue = RunQueue::default();
        (0..1000).for_each(|n| queue.insert_last(job(&format!("said-{n}"))));
        queue.extend(["a", "b", "c", "d", "said-7"].map(job));
        let first: Vec<_> = std::iter::from_fn(|| queue.pop()).take(7).collect();
        assert_eq!(first, ["a", "b", "c", "said-0", "d", "said-7", "said-1"].map(job));
        queue.insert_first(job("e"));
        assert_eq!(queue.pop(), Some(job("e")));
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!((rest.len(), queue.is_empty()), (997, true), "and each has its turn once");
    }
}
