//! The jobs that are worth a look: each once, in the order in which they came up. So none waits behind another
//! that comes up again and again.

use std::collections::{BTreeSet, VecDeque};

use rosterd_domain::id::JobName;

#[derive(Debug, Default)]
pub(crate) struct Agenda {
    order: VecDeque<JobName>,
    known: BTreeSet<JobName>,
}

impl Agenda {
    /// Puts a job last, unless it waits already.
    pub(crate) fn insert(&mut self, job: JobName) {
        if self.known.insert(job.clone()) {
            self.order.push_back(job);
        }
    }

    /// Takes the job that has waited longest.
    pub(crate) fn pop(&mut self) -> Option<JobName> {
        let job = self.order.pop_front()?;
        self.known.remove(&job);
        Some(job)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
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

    #[test]
    fn a_job_that_comes_up_again_does_not_overtake() {
        let job = |name| JobName::new(name).unwrap();
        let mut agenda = Agenda::default();
        agenda.extend(["b", "a", "b"].map(job));
        assert_eq!(agenda.pop(), Some(job("b")));
        agenda.insert(job("b"));
        assert_eq!([agenda.pop(), agenda.pop(), agenda.pop()], [Some(job("a")), Some(job("b")), None]);
        assert!(agenda.is_empty());
    }
}
