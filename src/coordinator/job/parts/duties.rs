//! The state of a job's leader.

use std::collections::BTreeMap;
use std::sync::Arc;

use rosterd_domain::id::{InstanceId, Item, ServerAddress};
use rosterd_domain::ownership::Cause;
use rosterd_domain::plan::{Candidates, Why};
use rosterd_domain::sharding::Sharding;
use rosterd_domain::time::Mono;
use rosterd_domain::view::Job;

/// Why this leader planned another assignment, and why each item that moves has another owner.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) why: Why,
    pub(crate) causes: BTreeMap<Item, Cause>,
}

/// The state of a leader.
#[derive(Debug, Default)]
pub(crate) struct Duties {
    /// Since when the job has no leader, as far as this coordinator knows.
    leaderless: Option<Mono>,
    /// The membership in which this coordinator was elected although another ranks first.
    stands_in: Option<u64>,
    /// `instance` mirrors that the leader has to write.
    mirrors: BTreeMap<Item, Option<InstanceId>>,
    /// The job as of when they were determined: they follow its assignment.
    mirrored: Option<Arc<Job>>,
    /// The job and the candidates for which no other assignment was to be made.
    assigned: Option<(Arc<Job>, Candidates)>,
    /// Servers without an instance, and since when, for the leader.
    empty_servers: BTreeMap<ServerAddress, Mono>,
    /// The job in which there was none.
    servers_used: Option<Arc<Job>>,
    /// Items that are marked as crashed although they have not crashed, and since when, for the leader.
    strange_failovers: BTreeMap<Item, Mono>,
    /// When the leader reconciles the job.
    reconcile_at: Option<Mono>,
    /// Why the assignment was last changed, by this leader.
    planned: Option<Box<Planned>>,
}

impl Duties {
    /// Another coordinator leads: clears the state.
    pub(crate) fn lay_down(&mut self) {
        self.mirrored = None;
        self.mirrors.clear();
        self.assigned = None;
        self.servers_used = None;
        self.empty_servers.clear();
        self.strange_failovers.clear();
    }

    // ---- who leads

    pub(crate) fn has_leader(&mut self) {
        self.leaderless = None;
    }

    /// The job has no leader. Returns since when, and whether this was not known before.
    pub(crate) fn has_no_leader(&mut self, now: Mono) -> (Mono, bool) {
        let news = self.leaderless.is_none();
        (*self.leaderless.get_or_insert(now), news)
    }

    /// This coordinator takes the leadership. `stands_in`: the current membership, if another coordinator ranks first.
    pub(crate) fn is_elected(&mut self, stands_in: Option<u64>) {
        self.stands_in = stands_in;
    }

    /// Whether this coordinator was elected in this membership although another ranks first.
    pub(crate) fn stands_in(&self, membership: u64) -> bool {
        self.stands_in == Some(membership)
    }

    // ---- the assignment

    /// Whether it is known that no other assignment is to be made.
    pub(crate) fn is_assigned(&self, view: &Arc<Job>, candidates: &Candidates) -> bool {
        self.assigned.as_ref().is_some_and(|(job, known)| {
            Arc::ptr_eq(job, view)
                && (&known.absent, &known.leaving) == (&candidates.absent, &candidates.leaving)
        })
    }

    /// No other assignment is to be made.
    pub(crate) fn need_not_assign(&mut self, view: &Arc<Job>, candidates: Candidates) {
        self.assigned = Some((view.clone(), candidates));
    }

    // ---- what tools read

    /// Determines the `instance` mirrors to write: those of the items that moved, or all of them for a new leader,
    /// which does not know what the previous one left undone. `items`: how many items have records.
    pub(crate) fn follow_assignment(&mut self, view: &Arc<Job>, items: u32) {
        let same_election =
            |known: &Job| (&known.incarnation, known.epoch) == (&view.incarnation, view.epoch);
        let known = self.mirrored.take().filter(|known| same_election(known));
        if known.as_ref().is_none_or(|known| known.generation != view.generation) {
            let before = known.as_ref().map(|known| &known.sharding);
            let seen = before.map_or(0, Sharding::items);
            for item in (0..view.sharding.items().max(seen).max(items)).map(Item) {
                let owner = view.sharding.owner(item);
                if before.is_none_or(|before| before.owner(item) != owner) {
                    self.mirrors.insert(item, owner.cloned());
                }
            }
        }
        self.mirrored = Some(view.clone());
    }

    /// Schedules all mirrors to be written again.
    pub(crate) fn mirror_all(&mut self, view: &Job) {
        let items = (0..view.rules.items).map(Item);
        self.mirrors = items.map(|item| (item, view.sharding.owner(item).cloned())).collect();
    }

    /// Returns the first mirrors to write, at most `most`.
    pub(crate) fn mirrors(&self, most: usize) -> Vec<(Item, Option<InstanceId>)> {
        self.mirrors.iter().take(most).map(|(item, owner)| (*item, owner.clone())).collect()
    }

    pub(crate) fn mirrors_written(&mut self, items: &[Item]) {
        for item in items {
            self.mirrors.remove(item);
        }
    }

    /// Whether it is known that each server has an instance.
    pub(crate) fn are_servers_used(&self, view: &Arc<Job>) -> bool {
        self.servers_used.as_ref().is_some_and(|job| Arc::ptr_eq(job, view))
    }

    /// Replaces the servers without an instance. Returns since when each of them has none.
    pub(crate) fn servers_are_empty<'a>(
        &mut self,
        view: &Arc<Job>,
        servers: impl Iterator<Item = &'a ServerAddress>,
        now: Mono,
    ) -> &BTreeMap<ServerAddress, Mono> {
        let since = |server| self.empty_servers.get(server).copied().unwrap_or(now);
        self.empty_servers = servers.map(|server| (server.clone(), since(server))).collect();
        self.servers_used = self.empty_servers.is_empty().then(|| view.clone());
        &self.empty_servers
    }

    /// Replaces the items that are marked as crashed although they have not crashed. Returns since when each mark is
    /// known.
    pub(crate) fn failovers_are_strange<'a>(
        &mut self,
        items: impl Iterator<Item = &'a Item>,
        now: Mono,
    ) -> &BTreeMap<Item, Mono> {
        let since = |item| self.strange_failovers.get(item).copied().unwrap_or(now);
        self.strange_failovers = items.map(|item| (*item, since(item))).collect();
        &self.strange_failovers
    }

    // ---- reconciliation, plans

    /// Sets when the leader reconciles the job, if at all.
    pub(crate) fn reconcile_at(&mut self, at: Option<Mono>) {
        self.reconcile_at = at;
    }

    /// Whether the reconciliation is due.
    pub(crate) fn is_to_reconcile(&self, now: Mono) -> bool {
        self.reconcile_at.is_some_and(|at| at <= now)
    }

    /// This leader changed the assignment.
    pub(crate) fn has_planned(&mut self, planned: Box<Planned>) {
        self.planned = Some(planned);
    }

    pub(crate) fn take_planned(&mut self) -> Option<Box<Planned>> {
        self.planned.take()
    }
}

#[cfg(test)]
mod tests {
    use rosterd_domain::id::WorkerId;
    use rosterd_domain::time::Time;

    use super::*;
    use crate::tests::job_with;

    #[test]
    fn what_was_found_holds_for_that_job_and_those_candidates_until_another_leads() {
        let address = ServerAddress::new("10.0.0.1").unwrap();
        let instance = InstanceId::from_parts(&address, &WorkerId::new("w").unwrap()).unwrap();
        let (_, view) = job_with(&instance);
        let read_again = Arc::new((*view).clone());
        let (some, none) = ([instance].into(), Candidates::default());
        let absent = Candidates { absent: some, ..none.clone() };
        let leaving = Candidates { leaving: absent.absent.clone(), ..none.clone() };
        let later = Candidates { now: Time::from_seconds(9), ..none.clone() };
        let mut duties = Duties::default();
        assert!(!duties.is_assigned(&view, &none) && !duties.are_servers_used(&view));
        duties.need_not_assign(&view, none.clone());
        let same = [&none, &later, &absent, &leaving].map(|candidates| duties.is_assigned(&view, candidates));
        assert_eq!(same, [true, true, false, false]);
        assert!(!duties.is_assigned(&read_again, &none));

        duties.servers_are_empty(&view, [&address].into_iter(), Mono::default());
        assert!(!duties.are_servers_used(&view));
        duties.servers_are_empty(&view, std::iter::empty(), Mono::default());
        assert!(duties.are_servers_used(&view) && !duties.are_servers_used(&read_again));
        duties.lay_down();
        assert!(!duties.is_assigned(&view, &none) && !duties.are_servers_used(&view));
    }
}
