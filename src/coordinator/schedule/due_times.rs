//! When each job is next due by the wall clock.

use std::collections::BTreeSet;

use rosterd_domain::id::JobName;
use rosterd_domain::time::Time;

/// When each job is next due by the wall clock.
#[derive(Debug, Default)]
pub(crate) struct DueTimes(BTreeSet<(Time, JobName)>);

impl DueTimes {
    /// Returns when the next job is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes the next job that is due by now.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<JobName> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, job)| job)
    }

    /// Sets when a job is due: at `next`, and no longer at `before`.
    pub(crate) fn put(&mut self, job: &JobName, before: Option<Time>, next: Option<Time>) {
        if let Some(before) = before {
            self.0.remove(&(before, job.clone()));
        }
        self.0.extend(next.map(|next| (next, job.clone())));
    }

    /// Forgets a job that is gone.
    pub(crate) fn forget(&mut self, job: &JobName) {
        self.0.retain(|(_, other)| other != job);
    }
}
