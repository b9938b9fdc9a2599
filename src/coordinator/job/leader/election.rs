//! Leader election: a coordinator becomes leader by creating the leader's node, at once if it ranks first, later if it
//! stands in for one that does. A leader that does not rank first gives the leadership up once another can take it.
//! None of this delays fires: hosts fire what is assigned to them without asking the leader.

use std::sync::Arc;

use rosterd_domain::id::{Epoch, JobName};
use rosterd_domain::mutants;
use rosterd_domain::txn::{Purpose, Write};
use rosterd_domain::view::Job;

use crate::io::timers::Timer;
use crate::job::JobTurn;
use crate::job::parts::operations::PendingRequest;
use crate::job::parts::writer::Intent;
use crate::job::state::JobState;
use crate::job::txn::guarded;

/// The maximum wait for better-ranked coordinators, as a multiple of the patience.
const MOST_PATIENCE: usize = 5;

impl JobTurn<'_> {
    /// Whether this coordinator can lead the job: a leader that announces fires needs a worker of its own for that.
    pub(crate) fn can_lead(&self, job: &JobState, view: &Job) -> bool {
        let drains = mutants::is_on(mutants::DRAINED_ARE_ASKED);
        let mut workers = job.roster.hosted().values().filter_map(|id| self.workers.get(id));
        !view.rules.announces()
            || view.instances.is_empty()
            || workers.any(|worker| worker.present() || drains)
    }

    /// Takes the leadership if the job has no leader, or gives it up; true if a transaction is in flight.
    pub(crate) fn elect(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        if view.leader.is_some() {
            job.duties.has_leader();
        }
        if job.leads() && self.gives_up(name, job, view) {
            let mut txn = guarded(Purpose::Abdicate, view);
            txn.write(Write::Abdicate { job: name.clone(), expect: view.epoch });
            self.submit(name, job, txn, Intent::Abdicate);
            return true;
        }
        if view.epoch > Epoch(0) && mutants::is_on(mutants::ELECTED_ONCE) {
            return false;
        }
        if view.leader.is_some() || self.cluster.no_starts(self.io) || self.waits_for_another(name, job, view)
        {
            return false;
        }
        let mut txn = guarded(Purpose::Elect, view);
        let (coordinator, expect) = (self.io.settings.id.clone(), view.epoch);
        txn.write(Write::Elect { job: name.clone(), coordinator, expect });
        txn.write(Write::RaiseNecessary(name.clone()));
        let stands_in =
            self.cluster.members().rank(name, &self.io.settings.id) > 0 && self.can_lead(job, view);
        let forgets = mutants::is_on(mutants::STANDING_IN_IS_FORGOTTEN);
        job.duties.is_elected((stands_in && !forgets).then_some(self.cluster.members().changes()));
        self.submit(name, job, txn, Intent::Elect);
        true
    }

    /// Whether this leader should step down: it is draining, and has said so; or another should lead, and has been
    /// there for a while. A leader that was elected because the other did not campaign stays until the membership
    /// changes.
    fn gives_up(&mut self, name: &JobName, job: &JobState, view: &Job) -> bool {
        if self.cluster.is_stopping() {
            return !self.cluster.is_proving(self.io);
        }
        if job.guarantee.is_asking() && !mutants::is_on(mutants::ASKS_AND_LEAVES) {
            return false;
        }
        // Step down if we cannot lead and a capable candidate exists; the highest-ranked candidate may be incapable too.
        let is_for_others = self.is_for_others(job, view);
        let better = is_for_others
            || (!view.rules.announces() && self.cluster.members().rank(name, &self.io.settings.id) > 0);
        // A stand-in that can no longer lead steps down as well.
        let stands_in = !is_for_others && job.duties.stands_in(self.cluster.members().changes());
        // Operations that only wait for runs to start do not prevent it: another leader may have to announce the fire
        // first.
        let waits = |asked: &PendingRequest| {
            asked.barrier.is_some() && !mutants::is_on(mutants::WAITING_KEEPS_LEADING)
        };
        if !better || stands_in || !job.operations.iter().all(waits) {
            return false;
        }
        let steady = self.cluster.members().since().plus(self.io.settings.election_patience * 3);
        if steady > self.io.now.mono {
            self.io.timers.insert((steady, Timer::Job(name.clone())));
            return false;
        }
        true
    }

    /// Whether another coordinator can lead the job, and this one cannot.
    fn is_for_others(&self, job: &JobState, view: &Job) -> bool {
        let mut hosts = view.instances.values().filter_map(|seen| Some(&seen.node.as_ref()?.host));
        !self.can_lead(job, view)
            && hosts.any(|host| *host != self.io.settings.id && self.cluster.members().is_candidate(host))
    }

    /// Whether better-ranked coordinators still have time to be elected.
    fn waits_for_another(&mut self, name: &JobName, job: &mut JobState, view: &Job) -> bool {
        let rank = self.cluster.members().rank(name, &self.io.settings.id).min(MOST_PATIENCE);
        let before = if self.can_lead(job, view) { rank } else { MOST_PATIENCE + 1 };
        // Do not campaign if we would step down immediately.
        let is_for_others = self.is_for_others(job, view) && !mutants::is_on(mutants::ELECTED_FOR_NOTHING);
        if before == 0 {
            return false;
        }
        let (since, news) = job.duties.has_no_leader(self.io.now.mono);
        if news {
            // Better-ranked coordinators may be draining, which gives no hint, or gone.
            self.schedule.single_flight.read_members(self.io);
        }
        let patience = self.io.settings.election_patience * u32::try_from(before).unwrap_or(u32::MAX);
        let mut until = since.plus(patience);
        if is_for_others && until <= self.io.now.mono {
            // In rounds: one timer, however often the job has its turn.
            let rounds = self.io.now.mono.since(since).as_millis() / patience.as_millis().max(1) + 1;
            until = since.plus(patience * u32::try_from(rounds).unwrap_or(u32::MAX));
        }
        if until > self.io.now.mono {
            self.io.timers.insert((until, Timer::Job(name.clone())));
        }
        until > self.io.now.mono
    }
}
