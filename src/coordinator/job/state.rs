//! A job as this coordinator knows it.

use std::collections::VecDeque;

use rosterd_domain::id::{Item, Token, WorkerId};
use rosterd_domain::item::Running;
use rosterd_domain::mutants;

use crate::job::parts::cache::Cache;
use crate::job::parts::callbacks::Guarantee;
use crate::job::parts::dispatch::Dispatch;
use crate::job::parts::duties::Duties;
use crate::job::parts::operations::PendingRequest;
use crate::job::parts::progress::Progress;
use crate::job::parts::reports::Reports;
use crate::job::parts::roster::Roster;
use crate::job::parts::shown::Shown;
use crate::job::parts::wakeups::Wakeups;
use crate::job::parts::writer::Writer;

/// A job as this coordinator knows it.
#[derive(Debug, Default)]
pub(crate) struct JobState {
    pub(crate) cache: Cache,
    pub(crate) writer: Writer,
    pub(crate) reports: Reports,
    pub(crate) roster: Roster,
    pub(crate) dispatch: Dispatch,
    /// The progress of runs in flight, not written yet.
    pub(crate) progress: Progress,
    pub(crate) wakeups: Wakeups,
    pub(crate) duties: Duties,
    /// Callbacks of the current fire.
    pub(crate) guarantee: Guarantee,
    pub(crate) shown: Shown,
    /// Operations that wait.
    pub(crate) operations: VecDeque<PendingRequest>,
}

impl JobState {
    /// Whether this coordinator leads the job.
    pub(crate) fn leads(&self) -> bool {
        self.cache.view().is_some_and(|view| matches!(view.leader, Some((_, true))))
    }

    /// This host no longer acts for a worker: drops the reports that hand its runs back. The worker's next host ends
    /// those runs, or its death does.
    pub(crate) fn drop_handoff_reports(&mut self, worker: &WorkerId) {
        if !mutants::is_on(mutants::HANDED_BACK_BY_THE_DEAD) {
            self.reports.retain(|_, report| report.worker != *worker || report.ended.spoken_for().is_none());
        }
    }

    /// Returns the run in flight of an item, if its record has this token.
    pub(crate) fn running(&self, item: Item, token: Token) -> Option<&Running> {
        self.cache.record(item).filter(|(_, record)| record.token == token)?.1.running()
    }

    /// Whether everything was read, and nothing is in flight.
    pub(crate) fn is_known(&self) -> bool {
        !self.cache.is_behind() && !self.writer.is_busy()
    }

    /// Whether the known records show which run is the item's.
    pub(crate) fn records_are_known(&self) -> bool {
        self.cache.records_are_current() && !self.writer.is_reading()
    }

    /// Whether nothing here needs the cache.
    pub(crate) fn idle(&self) -> bool {
        self.roster.is_idle()
            && self.operations.is_empty()
            && self.reports.is_empty()
            && self.reports.disputed().is_empty()
    }
}
