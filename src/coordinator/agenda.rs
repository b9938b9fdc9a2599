//! The jobs that are worth a look: each once, in the order in which they came up. So none waits behind another
//! that comes up again and again. Those that fire now go before all others: a coordinator that takes over what another
//! has left has to look at every job it knows, and no fire is to wait for that.

use std::collections::{BTreeMap, VecDeque};

use rosterd_domain::id::JobName;

#[derive(Debug, Default)]
pub(crate) struct Agenda {
    first: VecDeque<JobName>,
    order: VecDeque<JobName>,
    /// All of them, and which stand first. What stands first may have a place in the order as well, that is void.
    known: BTreeMap<JobName, bool>,
}

impl Agenda {
    /// Puts a job last, unless it waits already.
    pub(crate) fn insert(&mut self, job: JobName) {
        if !self.known.contains_key(&job) {
            self.known.insert(job.clone(), false);
            self.order.push_back(job);
        }
    }

    /// Puts a job behind those only that stand first as well.
    pub(crate) fn insert_first(&mut self, job: JobName) {
        if self.known.insert(job.clone(), true) != Some(true) {
            self.first.push_back(job);
        }
    }

    /// Takes the job that stands first, or has waited longest.
    pub(crate) fn pop(&mut self) -> Option<JobName> {
        if let Some(job) = self.first.pop_front() {
            self.known.remove(&job);
            return Some(job);
        }
        while let Some(job) = self.order.pop_front() {
            if self.known.remove(&job).is_some() {
                return Some(job);
            }
        }
        None
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

impl Extend<JobName> for Agenda {
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
        let mut agenda = Agenda::default();
        agenda.extend(["b", "a", "b"].map(job));
        assert_eq!(agenda.pop(), Some(job("b")));
        agenda.insert(job("b"));
        assert_eq!([agenda.pop(), agenda.pop(), agenda.pop()], [Some(job("a")), Some(job("b")), None]);
        assert!(agenda.is_empty());
    }

    #[test]
    fn what_fires_goes_first_and_each_job_only_once() {
        let mut agenda = Agenda::default();
        agenda.extend(["a", "b", "c"].map(job));
        agenda.insert_first(job("c"));
        agenda.insert_first(job("d"));
        agenda.insert_first(job("c"));
        agenda.insert(job("d"));
        let all: Vec<_> = std::iter::from_fn(|| agenda.pop()).collect();
        assert_eq!(all, ["c", "d", "a", "b"].map(job));
        assert!(agenda.is_empty());
    }
}
