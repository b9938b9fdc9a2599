//! The leader's assignments, and the mirrors of them that tools read.

use std::sync::Arc;

use rosterd_domain::id::{Item, JobName, ServerAddress, Version};
use rosterd_domain::item::{Record, Records};
use rosterd_domain::plan::Candidates;
use rosterd_domain::txn::{Guard, Purpose, Write};
use rosterd_domain::view::Job;
use rosterd_domain::{mutants, plan};

use crate::io::timers::Timer;
use crate::job::leader::LeaderTurn;
use crate::job::parts::duties::Planned;
use crate::job::parts::writer::Intent;
use crate::job::state::JobState;
use crate::job::txn::{CHUNK, led};
use crate::workers::parts::link::AttachmentPhase;

impl LeaderTurn<'_, '_> {
    // ---- leading

    pub(crate) fn assign(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        if view.paused && mutants::is_on(mutants::PAUSE_HOLDS_PLANS) {
            return false;
        }
        let mut candidates = Candidates { now: self.io.now.wall, ..Candidates::default() };
        for (instance, id) in job.roster.hosted() {
            let Some(worker) = self.workers.get(id) else { continue };
            match worker.link.phase() {
                AttachmentPhase::Attaching | AttachmentPhase::Attached => {}
                _ => {
                    candidates.leaving.insert(instance.clone());
                }
            }
        }
        for instance in view.sharding.instances() {
            if view.instances.contains_key(instance) || candidates.leaving.contains(instance) {
                continue;
            }
            let Some(worker) = instance.worker() else { continue };
            let here = self
                .workers
                .get(&worker)
                .is_some_and(|worker| worker.present() && job.roster.hosts(instance));
            let elsewhere = self.workers.elsewhere(&worker).is_some_and(|found| !found.is_draining());
            if (here || elsewhere) && !job.roster.is_dead(&worker) && !job.roster.is_leaving(instance) {
                candidates.absent.insert(instance.clone());
                // There is no hint when its attachment is deleted, so it is read as long as the instance is absent.
                if !here {
                    self.workers_turn().look_later(worker);
                }
            }
        }
        if job.duties.is_assigned(view, &candidates) {
            return false;
        }
        let Some(assigned) = plan::assign(view, &candidates) else {
            job.duties.need_not_assign(view, candidates);
            return false;
        };
        let planned = Planned { why: assigned.why, causes: assigned.causes };
        self.submit(name, job, assigned.txn, Intent::Assign(Box::new(planned)));
        true
    }

    pub(crate) fn new_records(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        let missing = (0..view.rules.items).map(Item).filter(|item| !job.cache.records().contains_key(item));
        let (base, now) = (view.base, self.io.now.wall);
        let record = Arc::new(Record::new(base, now));
        let new: Records = missing.take(CHUNK).map(|item| (item, (Version(0), record.clone()))).collect();
        if new.is_empty() {
            return false;
        }
        let mut txn = led(Purpose::Records, view);
        txn.guard(Guard::Generation(name.clone(), view.generation));
        for (item, (_, record)) in &new {
            let record = record.clone();
            txn.write(Write::Record { job: name.clone(), item: *item, expect: None, record });
            // Its mirror had no parent when the item was disabled.
            if view.sharding.disabled_items.contains(item) {
                txn.write(Write::ItemDisabled { job: name.clone(), item: *item, disabled: true });
            }
        }
        self.submit(name, job, txn, Intent::NewRecords(new));
        true
    }

    pub(crate) fn mirrors(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        let records = job.cache.records().keys().next_back().map_or(0, |item| item.0 + 1);
        job.duties.follow_assignment(view, records);
        let chunk = job.duties.mirrors(CHUNK);
        if chunk.is_empty() {
            return false;
        }
        let mut txn = led(Purpose::Mirrors, view);
        for (item, instance) in &chunk {
            txn.write(Write::ItemInstance { job: name.clone(), item: *item, instance: instance.clone() });
        }
        let items = chunk.into_iter().map(|(item, _)| item).collect();
        self.submit(name, job, txn, Intent::Mirrors(items));
        true
    }

    /// The leader removes servers that have been unused for long, unless they are disabled.
    pub(crate) fn forget_servers(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        if job.duties.are_servers_used(view) {
            return false;
        }
        let used = |server: &ServerAddress| view.instances.keys().any(|i| i.address() == server.as_str());
        let empty = view.servers.iter().filter(|(server, enabled)| **enabled && !used(server));
        let empty = empty.map(|(server, _)| server);
        let (now, retention) = (self.io.now.mono, self.io.settings.server_retention);
        let mut txn = led(Purpose::Servers, view);
        for (server, since) in job.duties.servers_are_empty(view, empty, now) {
            let until = since.plus(retention);
            if until <= now {
                txn.write(Write::RemoveServer(name.clone(), server.clone()));
            } else {
                self.io.timers.insert((until, Timer::Job(name.clone())));
            }
        }
        if txn.writes.is_empty() {
            return false;
        }
        self.submit(name, job, txn, Intent::Servers);
        true
    }
}
