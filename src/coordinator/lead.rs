//! Who leads a job: an election by creating the leader's node, at once by the coordinator that should lead, later by
//! one that stands in for it. A leader that should not lead gives the leadership up once somebody else can take it.
//! None of this is in the way of firing: hosts fire what is assigned to them without asking the leader.

use std::sync::Arc;

use rosterd_domain::id::{Epoch, JobName};
use rosterd_domain::mutants;
use rosterd_domain::txn::{Purpose, Write};
use rosterd_domain::view::Job;

use super::change::guarded;
use super::job::{Asked, Intent, JobState};
use super::node::Node;
use super::timers::Timer;

/// Nobody waits longer for those who should rather lead than so many times the patience.
const MOST_PATIENCE: usize = 5;

impl Node {
    /// Takes the leadership where there is none, or gives it up; true when a transaction is under way.
    pub(super) fn elect(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        if view.leader.is_some() {
            job.leaderless = None;
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
        if view.leader.is_some() || self.no_starts() || self.waits_for_another(name, job, view) {
            return false;
        }
        let mut txn = guarded(Purpose::Elect, view);
        let (coordinator, expect) = (self.settings.id.clone(), view.epoch);
        txn.write(Write::Elect { job: name.clone(), coordinator, expect });
        txn.write(Write::RaiseNecessary(name.clone()));
        let stands_in = self.coordinators.rank(name, &self.settings.id) > 0 && self.can_lead(job, view);
        let forgets = mutants::is_on(mutants::STANDING_IN_IS_FORGOTTEN);
        job.stands_in = (stands_in && !forgets).then_some(self.coordinators.changes);
        self.submit(name, job, txn, Intent::Elect);
        true
    }

    /// Whether this leader should lead no more: it is leaving, and has said so; or another should lead, and has been
    /// there for a while. Who was elected because that other did not come keeps on until the membership changes.
    fn gives_up(&mut self, name: &JobName, job: &JobState, view: &Job) -> bool {
        if self.stopping {
            return !self.is_proving();
        }
        if job.guarantee.is_asking() && !mutants::is_on(mutants::ASKS_AND_LEAVES) {
            return false;
        }
        // Who cannot lead is better replaced by anybody who can; where not everybody can, the first need not be one.
        let is_for_others = self.is_for_others(job, view);
        let better =
            is_for_others || (!view.rules.announces() && self.coordinators.rank(name, &self.settings.id) > 0);
        // Standing in is no reason to keep what one cannot do any more.
        let stands_in = !is_for_others && job.stands_in == Some(self.coordinators.changes);
        // What only waits for runs to begin may wait for what another leader announces.
        let waits =
            |asked: &Asked| asked.barrier.is_some() && !mutants::is_on(mutants::WAITING_KEEPS_LEADING);
        if !better || stands_in || !job.operations.iter().all(waits) {
            return false;
        }
        let steady = self.members_since.plus(self.settings.election_patience * 3);
        if steady > self.now.mono {
            self.timers.insert((steady, Timer::Job(name.clone())));
            return false;
        }
        true
    }

    /// Whether another coordinator can lead the job, and this one cannot.
    fn is_for_others(&self, job: &JobState, view: &Job) -> bool {
        let mut hosts = view.instances.values().filter_map(|seen| Some(&seen.node.as_ref()?.host));
        !self.can_lead(job, view)
            && hosts.any(|host| *host != self.settings.id && self.coordinators.is_candidate(host))
    }

    /// Whether others, who should rather lead, have some time left to be elected.
    fn waits_for_another(&mut self, name: &JobName, job: &mut JobState, view: &Job) -> bool {
        let rank = self.coordinators.rank(name, &self.settings.id).min(MOST_PATIENCE);
        let before = if self.can_lead(job, view) { rank } else { MOST_PATIENCE + 1 };
        // Whom somebody who can lead is to replace at once need not begin.
        let is_for_others = self.is_for_others(job, view) && !mutants::is_on(mutants::ELECTED_FOR_NOTHING);
        if before == 0 {
            return false;
        }
        if job.leaderless.is_none() {
            job.leaderless = Some(self.now.mono);
            // Those who should rather lead may be leaving, or gone: nothing tells of the former.
            self.read_members();
        }
        let patience = self.settings.election_patience * u32::try_from(before).unwrap_or(u32::MAX);
        let since = job.leaderless.unwrap_or(self.now.mono);
        let mut until = since.plus(patience);
        if is_for_others && until <= self.now.mono {
            // In rounds: one timer, however often the job has its turn.
            let rounds = self.now.mono.since(since).as_millis() / patience.as_millis().max(1) + 1;
            until = since.plus(patience * u32::try_from(rounds).unwrap_or(u32::MAX));
        }
        if until > self.now.mono {
            self.timers.insert((until, Timer::Job(name.clone())));
        }
        until > self.now.mono
    }
}
