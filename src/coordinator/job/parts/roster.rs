//! The workers that are concerned with a job.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rosterd_domain::id::{InstanceId, Item, JobName, WorkerId};
use rosterd_domain::time::Time;
use rosterd_domain::view::Job;
use rosterd_session::code::Refusal;
use rosterd_session::frame::Offer;

use crate::io::event::StreamId;
use crate::job::parts::worker_index::WorkerIndex;

/// The workers that are concerned with a job.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    /// Workers here that have registered the job.
    hosted: BTreeMap<InstanceId, WorkerId>,
    /// Workers whose attachment is gone.
    dead: BTreeSet<WorkerId>,
    /// Instances of dead or draining workers.
    leaving: BTreeSet<InstanceId>,
    /// Workers that gave the job up and wait until their instance is gone, and on which stream.
    unregistering: BTreeMap<InstanceId, StreamId>,
    /// Registrations that wait.
    registering: VecDeque<Registering>,
    /// Instances here that were published. If one is gone, another tool or coordinator removed it.
    published: BTreeSet<InstanceId>,
    /// Workers that attached with runs whose marks may have ended with the session of their last host.
    unmarked: BTreeSet<WorkerId>,
    /// Workers that named the job before it was known; until it exists no other worker here is concerned with it.
    named_by: BTreeSet<WorkerId>,
    /// Since when this host is responsible for an item.
    owned_since: BTreeMap<Item, Time>,
    /// The job in which all of this is as it should be: every hosted instance is published, and none is left.
    settled_in: Option<Arc<Job>>,
    /// Items wait for slots of workers here.
    waits: bool,
}

impl Roster {
    /// Whether no worker here works for the job, is registering it, or waits until it has left the job.
    pub(crate) fn is_idle(&self) -> bool {
        self.hosted.is_empty() && self.registering.is_empty() && self.unregistering.is_empty()
    }

    // ---- the hosted

    /// Returns the workers here that have registered the job.
    pub(crate) fn hosted(&self) -> &BTreeMap<InstanceId, WorkerId> {
        &self.hosted
    }

    pub(crate) fn hosts(&self, instance: &InstanceId) -> bool {
        self.hosted.contains_key(instance)
    }

    /// Returns the worker here that is this instance of the job.
    pub(crate) fn worker_of(&self, instance: &InstanceId) -> Option<&WorkerId> {
        self.hosted.get(instance)
    }

    /// A worker here starts to work for the job; false: it already does.
    pub(crate) fn join(
        &mut self,
        job: &JobName,
        instance: &InstanceId,
        worker: &WorkerId,
        index: &mut WorkerIndex,
    ) -> bool {
        let joins = self.hosted.insert(instance.clone(), worker.clone()).is_none();
        self.settled_in = None;
        if joins {
            index.hosted(worker, job);
        }
        joins
    }

    /// An instance no longer works for the job here. Returns its worker, if it did.
    pub(crate) fn part(
        &mut self,
        job: &JobName,
        instance: &InstanceId,
        index: &mut WorkerIndex,
    ) -> Option<WorkerId> {
        let worker = self.hosted.remove(instance)?;
        self.settled_in = None;
        index.released(&worker, job);
        Some(worker)
    }

    /// The job is gone, and no worker works for it. Returns those that did.
    pub(crate) fn part_all(&mut self, job: &JobName, index: &mut WorkerIndex) -> Vec<WorkerId> {
        self.owned_since.clear();
        self.settled_in = None;
        let workers: Vec<WorkerId> = std::mem::take(&mut self.hosted).into_values().collect();
        workers.iter().for_each(|worker| index.released(worker, job));
        workers
    }

    /// Since when this host is responsible for an item.
    pub(crate) fn owned_since(&self) -> &BTreeMap<Item, Time> {
        &self.owned_since
    }

    pub(crate) fn owns_since(&mut self, since: BTreeMap<Item, Time>) {
        self.owned_since = since;
    }

    // ---- the dead

    /// Workers whose attachment is gone.
    pub(crate) fn dead(&self) -> &BTreeSet<WorkerId> {
        &self.dead
    }

    pub(crate) fn is_dead(&self, worker: &WorkerId) -> bool {
        self.dead.contains(worker)
    }

    /// A worker is dead: its instance, if it is known, is leaving.
    pub(crate) fn mark_dead(&mut self, worker: &WorkerId, instance: Option<&InstanceId>) {
        self.dead.insert(worker.clone());
        self.settled_in = None;
        self.leaving.extend(instance.cloned());
    }

    /// Forgets the dead workers that are no longer named.
    pub(crate) fn forget_dead(&mut self, is_named: impl FnMut(&WorkerId) -> bool) {
        self.dead.retain(is_named);
    }

    // ---- those that leave

    /// Instances of dead or draining workers.
    pub(crate) fn leaving(&self) -> &BTreeSet<InstanceId> {
        &self.leaving
    }

    pub(crate) fn is_leaving(&self, instance: &InstanceId) -> bool {
        self.leaving.contains(instance)
    }

    pub(crate) fn leave(&mut self, instance: &InstanceId) {
        self.settled_in = None;
        self.leaving.insert(instance.clone());
    }

    /// An instance was removed or is written again: it is no longer leaving.
    pub(crate) fn has_left(&mut self, instance: &InstanceId) {
        self.leaving.remove(instance);
    }

    /// All leaving instances are gone.
    pub(crate) fn all_have_left(&mut self) {
        self.leaving.clear();
    }

    /// A worker gives the job up. It is told on this stream once its instance is gone.
    pub(crate) fn unregister(&mut self, instance: InstanceId, stream: StreamId) {
        self.settled_in = None;
        self.leaving.insert(instance.clone());
        self.unregistering.insert(instance, stream);
    }

    /// Takes the streams of workers that gave the job up and whose instance is gone.
    pub(crate) fn take_unregistered(&mut self) -> Vec<StreamId> {
        let (leaving, mut gone) = (&self.leaving, Vec::new());
        self.unregistering.retain(|instance, stream| {
            let still = leaving.contains(instance);
            if !still {
                gone.push(*stream);
            }
            still
        });
        gone
    }

    // ---- registrations

    /// Registrations that wait.
    pub(crate) fn registering(&self) -> &VecDeque<Registering> {
        &self.registering
    }

    /// Queues the registration of a worker, in place of an earlier one that still waits.
    pub(crate) fn register(&mut self, registering: Registering) {
        self.forget_registration(&registering.worker);
        self.registering.push_back(registering);
    }

    /// Forgets the unanswered registration of a worker.
    pub(crate) fn forget_registration(&mut self, worker: &WorkerId) {
        self.registering.retain(|registering| registering.worker != *worker);
    }

    pub(crate) fn take_registration(&mut self) -> Option<Registering> {
        self.registering.pop_front()
    }

    /// Puts back a registration that is not answered yet, as the next one.
    pub(crate) fn put_back_registration(&mut self, registering: Registering) {
        self.registering.push_front(registering);
    }

    pub(crate) fn take_registrations(&mut self) -> VecDeque<Registering> {
        std::mem::take(&mut self.registering)
    }

    /// Puts back the registrations that still wait.
    pub(crate) fn put_back_registrations(&mut self, registering: VecDeque<Registering>) {
        self.registering = registering;
    }

    // ---- what was published

    /// Takes the published instances that are still hosted. The caller puts them back.
    pub(crate) fn take_published(&mut self) -> BTreeSet<InstanceId> {
        let mut published = std::mem::take(&mut self.published);
        published.retain(|instance| self.hosted.contains_key(instance));
        published
    }

    pub(crate) fn put_back_published(&mut self, published: BTreeSet<InstanceId>) {
        self.published = published;
    }

    /// Forgets that an instance was published: if it is gone, that is not a command to shut it down.
    pub(crate) fn forget_published(&mut self, instance: &InstanceId) {
        self.settled_in = None;
        self.published.remove(instance);
    }

    /// The same for all instances.
    pub(crate) fn forget_all_published(&mut self) {
        self.settled_in = None;
        self.published.clear();
    }

    /// Whether nothing is to be published or removed as long as neither the job nor any of this changes.
    pub(crate) fn is_settled(&self, view: &Arc<Job>) -> bool {
        self.settled_in.as_ref().is_some_and(|settled| Arc::ptr_eq(settled, view))
    }

    /// Nothing was to be published or removed. That stays so if each instance here is published and stands in the job
    /// with its server, and no other instance of ours does.
    pub(crate) fn settle(&mut self, view: &Arc<Job>) {
        let stands = |instance: &InstanceId| {
            self.published.contains(instance)
                && view.instances.get(instance).is_some_and(|seen| {
                    seen.mine
                        && seen.node.as_ref().is_some_and(|node| view.servers.contains_key(&node.address))
                })
        };
        let ours = view.instances.values().filter(|seen| seen.mine).count();
        let settled = self.leaving.is_empty()
            && self.unmarked.is_empty()
            && ours == self.hosted.len()
            && self.hosted.keys().all(stands);
        self.settled_in = settled.then(|| view.clone());
    }

    // ---- slots

    /// Whether items wait for slots of workers here, or did so before.
    pub(crate) fn lets_wait(&mut self, waits: bool) -> bool {
        std::mem::replace(&mut self.waits, waits) || waits
    }

    // ---- those that came

    /// Returns the workers that attached with runs whose marks may have ended with the session of their last host.
    pub(crate) fn unmarked(&self) -> &BTreeSet<WorkerId> {
        &self.unmarked
    }

    pub(crate) fn comes_unmarked(&mut self, worker: WorkerId) {
        self.settled_in = None;
        self.unmarked.insert(worker);
    }

    pub(crate) fn retain_unmarked(&mut self, stays: impl FnMut(&WorkerId) -> bool) {
        self.unmarked.retain(stays);
    }

    /// Workers that named the job before it was known.
    pub(crate) fn was_named_by(&mut self, workers: impl IntoIterator<Item = WorkerId>) {
        self.named_by.extend(workers);
    }

    pub(crate) fn take_named_by(&mut self) -> BTreeSet<WorkerId> {
        std::mem::take(&mut self.named_by)
    }
}

/// A registration that waits.
#[derive(Debug, Clone)]
pub(crate) struct Registering {
    pub(crate) worker: WorkerId,
    pub(crate) stream: StreamId,
    pub(crate) handler_type: String,
    pub(crate) config: Option<Offer>,
    pub(crate) overwrite: bool,
    /// Why its credential's limits do not allow it.
    pub(crate) over_limit: Option<Refusal>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rosterd_domain::id::{CoordinatorId, ServerAddress};
    use rosterd_domain::snapshot::{InstanceNode, InstanceSeen};

    use super::*;
    use crate::tests::job_with;

    struct World {
        roster: Roster,
        index: WorkerIndex,
        name: JobName,
        worker: WorkerId,
        instance: InstanceId,
        view: Arc<Job>,
    }

    /// A job with one instance, that of a worker here, published and with its server.
    fn world() -> World {
        let address = ServerAddress::new("10.0.0.1").unwrap();
        let worker = WorkerId::new("w").unwrap();
        let instance = InstanceId::from_parts(&address, &worker).unwrap();
        let (name, view) = job_with(&instance);
        let mut view = (*view).clone();
        let node = InstanceNode {
            address: address.clone(),
            slots: 1,
            client: String::new(),
            labels: BTreeMap::new(),
            host: CoordinatorId::new("c").unwrap(),
        };
        view.instances.insert(instance.clone(), InstanceSeen { mine: true, node: Some(node) });
        view.servers.insert(address, true);
        let (mut roster, mut index) = (Roster::default(), WorkerIndex::default());
        roster.join(&name, &instance, &worker, &mut index);
        roster.put_back_published([instance.clone()].into());
        World { roster, index, name, worker, instance, view: Arc::new(view) }
    }

    #[test]
    fn it_is_settled_until_anything_changes() {
        let changes: [fn(&mut World); 9] = [
            |_| (),
            |w| {
                w.roster.join(&w.name, &w.instance, &w.worker, &mut w.index);
            },
            |w| drop(w.roster.part(&w.name, &w.instance, &mut w.index)),
            |w| drop(w.roster.part_all(&w.name, &mut w.index)),
            |w| w.roster.mark_dead(&w.worker, Some(&w.instance)),
            |w| w.roster.leave(&w.instance),
            |w| w.roster.forget_published(&w.instance),
            |w| w.roster.forget_all_published(),
            |w| w.roster.comes_unmarked(w.worker.clone()),
        ];
        for (n, change) in changes.into_iter().enumerate() {
            let mut world = world();
            world.roster.settle(&world.view);
            change(&mut world);
            assert_eq!(world.roster.is_settled(&world.view), n == 0, "change {n}");
            // The same job, read again: another session may have changed what is not compared here.
            assert!(!world.roster.is_settled(&Arc::new((*world.view).clone())));
        }
    }

    #[test]
    fn it_is_not_settled_while_something_is_to_be_done() {
        let flaws: [fn(&mut World, &mut Job); 8] = [
            |_, _| (),
            |w, _| w.roster.leave(&w.instance),
            |w, _| w.roster.comes_unmarked(w.worker.clone()),
            |w, _| w.roster.forget_published(&w.instance),
            |_, view| view.servers.clear(),
            |_, view| view.instances.clear(),
            |_, view| view.instances.values_mut().for_each(|seen| seen.mine = false),
            |w, _| drop(w.roster.part(&w.name, &w.instance, &mut w.index)),
        ];
        for (n, flaw) in flaws.into_iter().enumerate() {
            let mut world = world();
            let mut view = (*world.view).clone();
            flaw(&mut world, &mut view);
            let view = Arc::new(view);
            world.roster.settle(&view);
            assert_eq!(world.roster.is_settled(&view), n == 0, "flaw {n}");
        }
    }
}
