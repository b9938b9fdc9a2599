//! The order of turns: queued jobs, those that are due by the wall clock, and work that can wait for others.

pub(crate) mod background;
pub(crate) mod due_times;
pub(crate) mod lead_time;
pub(crate) mod run_queue;
pub(crate) mod single_flight;

use std::time::Duration;

use rosterd_domain::id::JobName;
use rosterd_domain::time::Time;

use background::BackgroundBudget;
use due_times::DueTimes;
use lead_time::LeadTime;
use run_queue::RunQueue;
use single_flight::SingleFlight;

/// The order of turns.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(crate) run_queue: RunQueue,
    /// When each job is next due by the wall clock.
    pub(crate) due_times: DueTimes,
    pub(crate) lead_time: LeadTime,
    /// Work that can wait until jobs that fire have had their turn.
    pub(crate) background: BackgroundBudget,
    /// Reads of all coordinators and of all attachments: at most one of each at a time.
    pub(crate) single_flight: SingleFlight,
}

impl Schedule {
    pub(crate) fn new(ahead: (Duration, Duration)) -> Self {
        Self {
            run_queue: RunQueue::default(),
            due_times: DueTimes::default(),
            lead_time: LeadTime::new(ahead),
            background: BackgroundBudget::default(),
            single_flight: SingleFlight::default(),
        }
    }

    /// Takes the job that has the next turn. Returns it with the cause of its turn.
    pub(crate) fn next_turn(&mut self) -> Option<JobName> {
        self.run_queue.pop().or_else(|| self.background.pop())
    }

    /// Returns when the next job is due by the wall clock, or the next waiting run has to be sent.
    pub(crate) fn next_by_calendar(&self) -> Option<Time> {
        [self.due_times.next(), self.lead_time.next()].into_iter().flatten().min()
    }
}
