//! Requests that wait for the answers of several jobs.

use std::collections::BTreeMap;

use rosterd_domain::id::JobName;
use rosterd_session::code::Refusal;

use crate::io::operation::{Change, ChangeEffect, Done};

/// A request that waits for the answers of several jobs.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    left: usize,
    done: Done,
    /// Why jobs were not changed.
    refusals: Vec<(JobName, Refusal)>,
    /// The position of each job in the request, if there are several.
    places: BTreeMap<JobName, usize>,
    /// A refusal by one job is a change like the others, rather than the answer.
    partial: bool,
}

impl Pending {
    /// A request for one job.
    pub(crate) fn of_one() -> Self {
        Self { left: 1, ..Self::default() }
    }

    /// A request for these jobs, in this order.
    pub(crate) fn of(jobs: impl ExactSizeIterator<Item = JobName>) -> Self {
        let left = jobs.len();
        Self {
            left,
            places: jobs.enumerate().map(|(place, name)| (name, place)).collect(),
            ..Self::default()
        }
    }

    /// The same, except that a refusal by one job is a change like the others, rather than the answer.
    pub(crate) fn of_each(jobs: impl ExactSizeIterator<Item = JobName>) -> Self {
        Self { partial: true, ..Self::of(jobs) }
    }

    /// Adds the answer of a job; true: it was the last one.
    pub(crate) fn take(&mut self, name: &JobName, part: Result<Change, Refusal>) -> bool {
        match part {
            Ok(change) => self.done.changes.push((name.clone(), change)),
            Err(Refusal { code, message }) if self.partial => {
                self.done.changes.push((name.clone(), Change::new(ChangeEffect::Refused(code), message)));
            }
            Err(refusal) => self.refusals.push((name.clone(), refusal)),
        }
        self.left = self.left.saturating_sub(1);
        self.left == 0
    }

    /// The answer, in the order of the request. If there are several refusals, the first determines the code.
    pub(crate) fn answer(mut self) -> Result<Done, Refusal> {
        let place = |name: &JobName| self.places.get(name).copied();
        self.refusals.sort_by_key(|(name, _)| place(name));
        self.done.changes.sort_by_key(|(name, _)| place(name));
        let code = self.refusals.first().map(|(_, refusal)| refusal.code);
        let messages: Vec<String> = self.refusals.into_iter().map(|(_, refusal)| refusal.message).collect();
        code.map_or(Ok(self.done), |code| Err(Refusal::new(code, messages.join("\n"))))
    }
}
