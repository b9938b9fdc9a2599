//! Reconciliation: the leader looks at everything of its job again after the job's interval, whatever it was told,
//! so that a change of which nothing told is found all the same.

use std::time::Duration;

use rosterd_domain::id::{Item, JobName};
use rosterd_domain::view::Job;

use super::job::JobState;
use super::node::Node;
use super::timers::Timer;

impl Node {
    /// Sets the time of the next look: after an election, and where the interval is another than before.
    pub(super) fn reconcile_later(&mut self, name: &JobName, job: &mut JobState) {
        let Some(interval) = job.view.as_ref().and_then(|view| self.interval(view)) else {
            job.reconcile_at = None;
            return;
        };
        let at = self.now.mono.plus(interval);
        job.reconcile_at = Some(at);
        self.timers.insert((at, Timer::Reconcile(name.clone())));
    }

    /// The interval was changed by whoever applied the job.
    pub(super) fn follow_interval(&mut self, name: &JobName, job: &mut JobState, before: Option<&Job>) {
        let Some(before) = before.filter(|_| job.leads()) else { return };
        if job.view.as_ref().is_some_and(|view| self.interval(view) != self.interval(before)) {
            self.reconcile_later(name, job);
        }
    }

    fn interval(&self, view: &Job) -> Option<Duration> {
        view.spec.config().reconcile_interval_minutes.map(|minutes| self.settings.minute * minutes)
    }

    pub(super) fn reconcile_job(&mut self, name: &JobName) {
        let now = self.now.mono;
        let Some(mut job) = self.jobs.remove(name) else { return };
        // A timer of an interval that is none any more says nothing.
        if job.leads() && job.reconcile_at.is_some_and(|at| at <= now) {
            job.stale = true;
            job.stale_records = true;
            job.switches_stale = true;
            if let Some(view) = &job.view {
                let owners =
                    (0..view.rules.items).map(Item).map(|item| (item, view.sharding.owner(item).cloned()));
                job.mirrors = owners.collect();
            }
            self.reconcile_later(name, &mut job);
            self.run_queue.insert(name.clone());
        }
        self.jobs.insert(name.clone(), job);
    }
}
