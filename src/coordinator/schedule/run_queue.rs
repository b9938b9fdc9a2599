//! The jobs that need a turn: each once, in the order in which they were queued, so that none waits behind another that
//! is queued again and again. Jobs that fire now are served first: a coordinator that takes over from another has to
//! look at every job it knows, and no fire may wait for that. Names that exist only in workers' registrations have
//! every fourth turn while others wait, so that a worker with thousands of names delays no other.

use std::collections::VecDeque;

use rosterd_domain::id::JobName;
use rosterd_runtime::lookup::Lookup;

#[derive(Debug, Default)]
pub(crate) struct RunQueue {
    first: VecDeque<JobName>,
    order: VecDeque<JobName>,
    last: VecDeque<JobName>,
    /// All queued jobs with their lane. A job that was moved ahead may still be in a lower lane, where it is
    /// ignored.
    known: Lookup<JobName, Lane>,
    /// How many turns in a row others had while the last lane waited.
    waited: u32,
}

/// The lane of a job; the later ones are served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Last,
    InOrder,
    First,
}

/// The last lane has one turn in this many.
const LAST_HAS_ONE_IN: u32 = 4;

impl RunQueue {
    /// Adds a job to the normal lane, unless it is in that or a higher one.
    pub(crate) fn insert(&mut self, job: JobName) {
        self.put(job, Lane::InOrder);
    }

    /// Adds a job to the first lane.
    pub(crate) fn insert_first(&mut self, job: JobName) {
        self.put(job, Lane::First);
    }

    /// Adds a job to the last lane, unless it waits already.
    pub(crate) fn insert_last(&mut self, job: JobName) {
        self.put(job, Lane::Last);
    }

    fn put(&mut self, job: JobName, lane: Lane) {
        if let Some(known) = self.known.get_mut(&job) {
            if *known >= lane {
                return;
            }
            *known = lane;
        } else {
            self.known.insert(job.clone(), lane);
        }
        self.queue(lane).push_back(job);
    }

    fn queue(&mut self, lane: Lane) -> &mut VecDeque<JobName> {
        match lane {
            Lane::First => &mut self.first,
            Lane::InOrder => &mut self.order,
            Lane::Last => &mut self.last,
        }
    }

    /// Removes the next job, from the first lane or the one that has waited longest.
    pub(crate) fn pop(&mut self) -> Option<JobName> {
        let last_has_its_turn = self.waited + 1 >= LAST_HAS_ONE_IN;
        let lanes = match last_has_its_turn {
            true => [Lane::First, Lane::Last, Lane::InOrder],
            false => [Lane::First, Lane::InOrder, Lane::Last],
        };
        let (lane, popped) = lanes.into_iter().find_map(|lane| Some((lane, self.pop_from(lane)?)))?;
        self.waited = if lane == Lane::Last || self.last.is_empty() { 0 } else { self.waited + 1 };
        Some(popped)
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
        assert_eq!((rest.len(), queue.is_empty()), (997, true), "each has one turn");
    }
}
