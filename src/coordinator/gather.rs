//! Runs that began together often end together. The first of their reports waits a moment for the others, so that
//! one transaction takes them all: on a registry that others share, transactions are what a fire costs.

use std::time::Duration;

use rosterd_domain::id::JobName;

use super::job::JobState;
use super::node::{Node, Timer};

/// How long a report waits at the most.
const MOST: Duration = Duration::from_millis(10);

impl Node {
    /// Whether the reports of a job wait for more of them, and the job with them.
    pub(super) fn gathers(&mut self, name: &JobName, job: &mut JobState) -> bool {
        if job.reports.is_empty() || self.stopping || !self.worth_waiting(job) {
            job.gathers_until = None;
            return false;
        }
        let until = *job.gathers_until.get_or_insert(self.now.mono.plus(MOST));
        if until <= self.now.mono {
            job.gathers_until = None;
            return false;
        }
        self.timers.insert((until, Timer::Job(name.clone())));
        true
    }

    /// More runs are in user code here, nobody waits for the slots of those that ended, and no due time is so near
    /// that it would find an item busy whose run has ended.
    fn worth_waiting(&self, job: &JobState) -> bool {
        let near = job.next.is_some_and(|next| next <= self.now.wall.plus(MOST));
        let wanted =
            |id| self.workers.get(id).is_none_or(|worker| !worker.ready() || !worker.waiting.is_empty());
        let in_code = |id| self.workers.get(id).is_some_and(|worker| worker.stream.is_some());
        !near
            && !job.reports.values().any(|report| wanted(&report.worker))
            && job.records.iter().any(|(item, (_, record))| {
                !job.reports.contains_key(item)
                    && record.running().is_some_and(|run| !run.held && in_code(&run.worker))
            })
    }
}
