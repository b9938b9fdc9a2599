//! Reconciliation: after the job's interval the leader checks everything of its job again, regardless of hints, so that
//! it also finds a change without a hint.

use std::time::Duration;

use rosterd_domain::id::JobName;
use rosterd_domain::view::Job;

use crate::io::timers::Timer;
use crate::job::state::JobState;
use crate::job::{AllJobs, JobTurn};

impl JobTurn<'_> {
    /// Schedules the next reconciliation: after an election, and if the interval was changed.
    pub(crate) fn reconcile_later(&mut self, name: &JobName, job: &mut JobState) {
        let Some(interval) = job.cache.view().and_then(|view| self.interval(view)) else {
            job.duties.reconcile_at(None);
            return;
        };
        let at = self.io.now.mono.plus(interval);
        job.duties.reconcile_at(Some(at));
        self.io.timers.insert((at, Timer::Reconcile(name.clone())));
    }

    /// The interval may have been changed with the job's configuration.
    pub(crate) fn follow_interval(&mut self, name: &JobName, job: &mut JobState, before: Option<&Job>) {
        let Some(before) = before.filter(|_| job.leads()) else { return };
        if job.cache.view().is_some_and(|view| self.interval(view) != self.interval(before)) {
            self.reconcile_later(name, job);
        }
    }

    fn interval(&self, view: &Job) -> Option<Duration> {
        view.spec.config().reconcile_interval_minutes.map(|minutes| self.io.settings.minute * minutes)
    }
}

impl AllJobs<'_> {
    pub(crate) fn reconcile_job(&mut self, name: &JobName) {
        let now = self.io.now.mono;
        let Some((mut turn, job)) = self.turn_of(name) else { return };
        // Ignore a stale timer.
        if job.leads() && job.duties.is_to_reconcile(now) {
            job.cache.records_went_stale();
            job.cache.switches_went_stale();
            if let Some(view) = job.cache.view() {
                job.duties.mirror_all(view);
            }
            turn.reconcile_later(name, job);
            turn.schedule.run_queue.insert(name.clone());
        }
    }
}
