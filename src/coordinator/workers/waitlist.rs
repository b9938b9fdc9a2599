//! The items that wait for a slot of one worker, over all its jobs.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::JobName;
use rosterd_domain::plan::Waiting;

/// In order, and by job: one job's part is replaced at each of its turns, whatever else waits.
#[derive(Debug, Default)]
pub(crate) struct Waitlist {
    order: BTreeSet<Waiting>,
    jobs: BTreeMap<JobName, Vec<Waiting>>,
}

impl Waitlist {
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Replaces a job's waiting items.
    pub(crate) fn set(&mut self, job: &JobName, waiting: Vec<Waiting>) {
        for old in self.jobs.remove(job).into_iter().flatten() {
            self.order.remove(&old);
        }
        if !waiting.is_empty() {
            self.order.extend(waiting.iter().cloned());
            self.jobs.insert(job.clone(), waiting);
        }
    }

    /// The first waiting items of other jobs.
    pub(crate) fn others(&self, job: &JobName, most: usize) -> Vec<Waiting> {
        self.order.iter().filter(|waiting| waiting.job != *job).take(most).cloned().collect()
    }

    /// The jobs of the first waiting items; a job may appear more than once.
    pub(crate) fn first(&self, most: usize) -> impl Iterator<Item = &JobName> {
        let mut last = None;
        let jobs = self.order.iter().take(most).map(|waiting| &waiting.job);
        jobs.filter(move |job| last.replace(*job) != Some(*job))
    }
}

#[cfg(test)]
mod tests {
    use rosterd_domain::id::Item;
    use rosterd_domain::plan::Class;
    use rosterd_domain::time::Time;

    use super::*;

    fn job(name: &str) -> JobName {
        JobName::new(name).unwrap()
    }

    fn waiting(name: &str, fire: i64, item: u32) -> Waiting {
        Waiting { class: Class::Fire, fire: Time(fire), job: job(name), item: Item(item) }
    }

    #[test]
    fn one_jobs_part_is_replaced_and_the_others_keep_their_place() {
        let mut list = Waitlist::default();
        list.set(&job("a"), vec![waiting("a", 1, 0), waiting("a", 1, 1), waiting("a", 3, 0)]);
        list.set(&job("b"), vec![waiting("b", 2, 0)]);
        assert_eq!(Vec::from_iter(list.first(9)), [&job("a"), &job("b"), &job("a")]);
        assert_eq!(Vec::from_iter(list.first(2)), [&job("a")]);
        assert_eq!(list.others(&job("b"), 2), [waiting("a", 1, 0), waiting("a", 1, 1)]);
        list.set(&job("a"), vec![waiting("a", 3, 0)]);
        assert_eq!(Vec::from_iter(list.first(9)), [&job("b"), &job("a")]);
        assert_eq!(list.others(&job("b"), 9), [waiting("a", 3, 0)]);
        list.set(&job("b"), Vec::new());
        list.set(&job("a"), Vec::new());
        assert!(list.is_empty() && list.jobs.is_empty());
    }
}
