//! Writes of other tools: items that they disable or enable, by the node `sharding/{item}/disabled`, and `config`.
//!
//! `sharding` determines which items are disabled; the nodes are written with it, in one transaction. If they differ at
//! one revision, another tool has written: the job's leader adopts that. It checks after its election, after a hint
//! that a node was created or deleted, and when it reconciles.

use std::sync::Arc;

use rosterd_domain::id::{Item, JobName, TriggerId};
use rosterd_domain::item::Missed;
use rosterd_domain::mutants;
use rosterd_domain::sharding::Gap;
use rosterd_domain::snapshot::{Switches, TriggerNode};
use rosterd_domain::txn::{Guard, Purpose, Write};
use rosterd_domain::view::Job;
use rosterd_registry::ReadError;

use crate::io::event::{Effect, Query};
use crate::io::pending::ReadFor;
use crate::io::timers::Timer;
use crate::job::leader::LeaderTurn;
use crate::job::parts::writer::Intent;
use crate::job::state::JobState;
use crate::job::txn::{guarded, led, rewrite};
use crate::job::{AllJobs, JobTurn, changes};

impl JobTurn<'_> {
    /// Adopts the marks of another tool, if this coordinator leads.
    pub(crate) fn foreign_switches(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        let read = job.cache.take_switches();
        match (self.leader(job), read) {
            (Some(mut leader), Some(read)) => leader.switches(name, job, view, read),
            _ => false,
        }
    }

    /// Commands of older tools: the items of the named instance are triggered once, if they may run and are not
    /// running, and the command is cleared.
    pub(crate) fn foreign_triggers(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        let mut txn = guarded(Purpose::ForeignTrigger, view);
        txn.guard(Guard::Generation(name.clone(), view.generation));
        let mine = view.foreign_triggers.iter().filter(|(instance, _)| job.roster.hosts(instance));
        for (instance, how) in mine {
            let Ok(id) = TriggerId::new((self.io.ids)()) else { continue };
            let mut items = 0;
            for item in view.sharding.items_of(instance) {
                let idle = job.cache.record(item).is_some_and(|(_, record)| record.state.is_idle());
                let disabled = view.rules.disabled || view.sharding.disabled_items.contains(&item);
                if idle && !disabled && !view.triggers.contains_key(&item) {
                    let node = TriggerNode { id: id.clone(), at: self.io.now.wall };
                    txn.write(Write::Trigger { job: name.clone(), item, node });
                    items += 1;
                }
            }
            tracing::info!(job = %name, %instance, items, "triggered by a write of another tool");
            if !mutants::is_on(mutants::FOREIGN_TRIGGERS_STAY) {
                let (job, instance, how) = (name.clone(), instance.clone(), *how);
                txn.write(Write::ClearForeignTrigger { job, instance, how });
            }
        }
        if txn.writes.is_empty() {
            return false;
        }
        self.submit(name, job, txn, Intent::ForeignTriggers);
        true
    }
}

impl AllJobs<'_> {
    pub(crate) fn switches_moved(&mut self, name: JobName) {
        if mutants::is_on(mutants::FOREIGN_SWITCHES_UNTOLD) {
            return;
        }
        // A new leader reads the marks when it is elected.
        if let Some(job) = self.jobs.all.get_mut(&name).filter(|job| job.leads()) {
            job.cache.switches_went_stale();
            self.schedule.run_queue.insert(name);
        }
    }
}

impl JobTurn<'_> {
    /// Only the leader gets hints about marks.
    pub(crate) fn watch_items(&mut self, name: &JobName, job: &mut JobState, view: &Job) {
        let items = if job.leads() && job.wakeups.is_watched() { view.rules.items } else { 0 };
        if job.wakeups.watch_items(items) {
            self.io.out.push(Effect::WatchItems(name.clone(), items));
            // There was no hint for earlier writes.
            if items > 0 {
                job.cache.switches_went_stale();
            }
        }
    }

    /// Reads the marks; no transaction of the job starts meanwhile.
    pub(crate) fn reads_switches(&mut self, name: &JobName, job: &mut JobState) -> bool {
        let asks = job.leads() && job.cache.begin_reading_switches();
        if asks {
            job.writer.begin_reading();
            self.io.read(ReadFor::Switches(name.clone()), Query::Switches(name.clone()));
        }
        asks
    }
}

impl AllJobs<'_> {
    pub(crate) fn switches_read(&mut self, name: JobName, read: Result<Option<Switches>, ReadError>) {
        let Some((mut turn, job)) = self.turn_of(&name) else { return };
        job.writer.read_ended();
        match read {
            Ok(read) => job.cache.switches_read(read),
            Err(error) => {
                job.cache.switches_went_stale();
                turn.read_failed(&name, job, &error);
            }
        }
        // A worker that drains waits for every read of its jobs, including this one.
        self.workers.leavers_may_go_on();
        self.schedule.run_queue.insert(name);
    }
}

impl JobTurn<'_> {
    /// Another tool has written `config`: the first coordinator that sees it adopts it, as if it had been applied.
    pub(crate) fn foreign_config(&mut self, name: &JobName, job: &mut JobState, view: &Job) -> bool {
        // With a wrong clock nothing is written, and nothing starts meanwhile.
        let calendar = view.spec.max_clock_diff(self.io.settings.max_clock_difference);
        if self.cluster.no_starts(self.io) || !self.cluster.calendar_is_good(calendar) {
            return false;
        }
        let Some(txn) = changes::restated(job, view, self.io.now.wall) else { return false };
        tracing::info!(job = %name, "its configuration was changed by a write of another tool");
        self.submit(name, job, txn, Intent::Restated);
        true
    }
}

impl LeaderTurn<'_, '_> {
    /// Updates `sharding` from the nodes.
    pub(crate) fn switches(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        view: &Arc<Job>,
        read: Switches,
    ) -> bool {
        if (read.incarnation.as_ref(), read.generation) != (Some(&view.incarnation), view.generation) {
            // One of the two reads is outdated.
            job.cache.went_stale();
            job.cache.switches_went_stale();
            self.schedule.run_queue.insert(name.clone());
            return false;
        }
        let mut sharding = view.sharding.withdrawn();
        let gap = Gap { until: self.io.now.wall, reason: Missed::Disabled };
        let (mut disabled, mut enabled): (Vec<Item>, Vec<Item>) = Default::default();
        for (item, marked) in read.disabled {
            let known = item.0 < view.rules.items || job.cache.records().contains_key(&item);
            if marked && known && sharding.disabled_items.insert(item) {
                disabled.push(item);
            }
            // Until an item has a record, its node has no parent.
            if !marked && job.cache.records().contains_key(&item) && sharding.disabled_items.remove(&item) {
                sharding.gaps.insert(item, gap);
                enabled.push(item);
            }
        }
        if disabled.is_empty() && enabled.is_empty() {
            return false;
        }
        tracing::info!(job = %name, ?disabled, ?enabled, "items are switched by a write of another tool");
        let mut txn = led(Purpose::ForeignSwitch, view);
        rewrite(&mut txn, view, &sharding);
        // Whatever the outcome, since the nodes may have changed meanwhile.
        job.cache.switches_went_stale();
        self.submit(name, job, txn, Intent::Switches);
        true
    }

    /// The leader removes nodes that mark items as crashed although the records have long shown otherwise. No decision
    /// depends on them, but tools show them.
    pub(crate) fn forget_failovers(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        if mutants::is_on(mutants::STRANGE_MIRRORS_STAY) {
            job.duties.failovers_are_strange(std::iter::empty(), self.io.now.mono);
            return false;
        }
        let record = |item: &Item| job.cache.record(*item);
        let strange = view
            .failover
            .iter()
            .filter(|item| record(item).is_none_or(|(_, record)| record.crashed().is_none()));
        let mut txn = led(Purpose::FailoverItems, view);
        for (item, since) in job.duties.failovers_are_strange(strange, self.io.now.mono) {
            let until = since.plus(self.io.settings.store_retry);
            if until > self.io.now.mono {
                self.io.timers.insert((until, Timer::Job(name.clone())));
                continue;
            }
            if let Some((version, _)) = record(item) {
                txn.guard(Guard::Record(name.clone(), *item, *version));
            }
            txn.write(Write::FailoverItem { job: name.clone(), item: *item, crashed: None });
        }
        let found = !txn.writes.is_empty();
        if found {
            self.submit(name, job, txn, Intent::FailoverItems);
        }
        found
    }
}
