//! Work that no fire waits for: elections, assignments, mirrors for tools.

use std::sync::Arc;

use rosterd_domain::id::JobName;
use rosterd_domain::view::Job;

use crate::job::JobTurn;
use crate::job::leader::LeaderTurn;
use crate::job::state::JobState;

impl JobTurn<'_> {
    /// Does the next piece of it; true if a transaction is in flight.
    pub(crate) fn run_background(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        if job.writer.defer_for_fire(self.fires_soon(job)) {
            // Its fire, or the lack of it, gives the job another turn.
            return false;
        }
        if self.schedule.background.is_full() {
            self.schedule.background.wait(name.clone());
            return false;
        }
        if self.elect(name, job, view) {
            return true;
        }
        // New records first: only the assignment gives hosts a hint to read them.
        let decides = |mut leader: LeaderTurn<'_, '_>, job: &mut JobState| {
            leader.new_records(name, job, view) || leader.assign(name, job, view)
        };
        if self.deciding_leader(job).is_some_and(|leader| decides(leader, job)) {
            return true;
        }
        let Some(mut leader) = self.leader(job) else {
            job.duties.lay_down();
            return false;
        };
        leader.mirrors(name, job, view)
            || leader.forget_servers(name, job, view)
            || leader.forget_failovers(name, job, view)
    }
}
