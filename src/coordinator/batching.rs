//! What comes up many times at once and is done once.
//!
//! Runs that began together often end together. The first of their reports waits a moment for the others, so that
//! one transaction takes them all: on a registry that others share, transactions are what a fire costs.

use std::time::Duration;

use rosterd_domain::id::JobName;

use super::event::Query;
use super::job::JobState;
use super::node::{Node, ReadFor};
use super::timers::Timer;

/// How long a report waits at the most.
const MOST: Duration = Duration::from_millis(10);

/// The reads of all coordinators and of all attachments: each is under way or not, and wanted once more or not. A job
/// without a leader asks for one of them; hundreds of jobs whose leader has died get by with two.
#[derive(Debug, Default)]
pub(super) struct SingleFlight {
    coordinators: (bool, bool),
    attachments: (bool, bool),
}

impl Node {
    pub(super) fn read_members(&mut self) {
        if begins(&mut self.single_flight.coordinators) {
            self.read(ReadFor::Coordinators, Query::Coordinators);
        }
    }

    pub(super) fn read_attachments(&mut self) {
        if begins(&mut self.single_flight.attachments) {
            self.read(ReadFor::Attachments, Query::Attachments);
        }
    }

    /// A read has ended: if it was asked for meanwhile, it may have come too early to see why.
    pub(super) fn read_again(&mut self, whom: &ReadFor) {
        match whom {
            ReadFor::Coordinators if ends(&mut self.single_flight.coordinators) => self.read_members(),
            ReadFor::Attachments if ends(&mut self.single_flight.attachments) => self.read_attachments(),
            _ => {}
        }
    }

    /// Whether the reports of a job wait for more of them, and the job with them.
    pub(super) fn gathers(&mut self, name: &JobName, job: &mut JobState) -> bool {
        if job.reports.is_empty() || self.stopping || !self.worth_waiting(job) {
            job.batching_until = None;
            return false;
        }
        let until = *job.batching_until.get_or_insert(self.now.mono.plus(MOST));
        if until <= self.now.mono {
            job.batching_until = None;
            return false;
        }
        self.timers.insert((until, Timer::Job(name.clone())));
        true
    }

    /// More runs are in user code here, nobody waits for the slots of those that ended, and no scheduled time is so near
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

fn begins((under_way, again): &mut (bool, bool)) -> bool {
    *again = *under_way;
    !std::mem::replace(under_way, true)
}

fn ends((under_way, again): &mut (bool, bool)) -> bool {
    *under_way = false;
    std::mem::take(again)
}
