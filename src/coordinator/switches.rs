//! What other tools write past us: items that they disable or enable, by the node `sharding/{item}/disabled`, and `config`.
//!
//! Which items are disabled `sharding` says; the nodes are written with it, in one transaction. Where they differ at one
//! revision another tool has written: the job's leader takes that over. It looks after its election, when it is told that
//! one has come or gone, and when it reconciles.

use std::collections::BTreeMap;
use std::sync::Arc;

use rosterd_domain::id::{Item, JobName};
use rosterd_domain::item::Missed;
use rosterd_domain::mutants;
use rosterd_domain::sharding::Gap;
use rosterd_domain::snapshot::Switches;
use rosterd_domain::time::Mono;
use rosterd_domain::txn::{Guard, Purpose, Write};
use rosterd_domain::view::Job;

use super::change::{self, led, rewrite};
use super::event::{Effect, Query};
use super::job::{Intent, JobState};
use super::node::{Node, ReadFor};
use super::timers::Timer;
use rosterd_registry::ReadError;

impl Node {
    pub(super) fn switches_moved(&mut self, name: JobName) {
        if mutants::is_on(mutants::FOREIGN_SWITCHES_UNTOLD) {
            return;
        }
        // Who is elected later looks then.
        if let Some(job) = self.jobs.get_mut(&name).filter(|job| job.leads()) {
            job.switches_stale = true;
            self.run_queue.insert(name);
        }
    }

    /// The leader alone is told of marks.
    pub(super) fn watch_items(&mut self, name: &JobName, job: &mut JobState, view: &Job) {
        let items = if job.leads() && job.watched { view.rules.items } else { 0 };
        if std::mem::replace(&mut job.watched_items, items) != items {
            self.out.push(Effect::WatchItems(name.clone(), items));
            // What was written before is told to nobody.
            job.switches_stale |= items > 0;
        }
    }

    /// Asks for them; nothing is written for the job meanwhile.
    pub(super) fn reads_switches(&mut self, name: &JobName, job: &mut JobState) -> bool {
        let asks = job.switches_stale && job.leads();
        if asks {
            job.switches_stale = false;
            job.reading = true;
            self.read(ReadFor::Switches(name.clone()), Query::Switches(name.clone()));
        }
        asks
    }

    pub(super) fn switches_read(&mut self, name: JobName, read: Result<Option<Switches>, ReadError>) {
        let Some(mut job) = self.jobs.remove(&name) else { return };
        job.reading = false;
        match read {
            Ok(read) => job.switches = read,
            Err(error) => {
                job.switches_stale = true;
                self.read_failed(&name, &mut job, &error);
            }
        }
        self.jobs.insert(name.clone(), job);
        // Who leaves waits for every read of its jobs, this one too.
        self.look_at_leavers = true;
        self.run_queue.insert(name);
    }

    /// Another tool has written `config`: whoever sees it first has that taken over, as if it had been applied.
    pub(super) fn foreign_config(&mut self, name: &JobName, job: &mut JobState, view: &Job) -> bool {
        // By a calendar that nobody believes nothing is written, and nothing starts meanwhile.
        let calendar = view.spec.max_clock_diff(self.settings.max_clock_difference);
        if self.no_starts() || !self.calendar_is_good(calendar) {
            return false;
        }
        let Some(txn) = change::restated(job, view, self.now.wall) else { return false };
        tracing::info!(job = %name, "its configuration was changed by a write of another tool");
        self.submit(name, job, txn, Intent::Restated);
        true
    }

    /// Makes `sharding` say what the nodes say.
    pub(super) fn switches(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        let Some(read) = job.switches.take().filter(|_| job.leads()) else { return false };
        if (read.incarnation.as_ref(), read.generation) != (Some(&view.incarnation), view.generation) {
            // One of the two is behind.
            (job.stale, job.switches_stale) = (true, true);
            self.run_queue.insert(name.clone());
            return false;
        }
        let mut sharding = view.sharding.withdrawn();
        let gap = Gap { until: self.now.wall, reason: Missed::Disabled };
        let (mut disabled, mut enabled): (Vec<Item>, Vec<Item>) = Default::default();
        for (item, marked) in read.disabled {
            let known = item.0 < view.rules.items || job.records.contains_key(&item);
            if marked && known && sharding.disabled_items.insert(item) {
                disabled.push(item);
            }
            // Before an item has a record there is nothing that its node could hang from.
            if !marked && job.records.contains_key(&item) && sharding.disabled_items.remove(&item) {
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
        // Whatever comes of it: the nodes may have changed meanwhile.
        job.switches_stale = true;
        self.submit(name, job, txn, Intent::Switches);
        true
    }

    /// The leader removes nodes that say of items that they have crashed, where the records have long said otherwise. Nobody goes
    /// by them, but tools show them.
    pub(super) fn forget_failovers(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        if !job.leads() || mutants::is_on(mutants::STRANGE_MIRRORS_STAY) {
            job.strange_failovers.clear();
            return false;
        }
        let record = |item: &Item| job.records.get(item);
        let strange = view
            .failover
            .iter()
            .filter(|item| record(item).is_none_or(|(_, record)| record.crashed().is_none()));
        let since = |item: &Item| job.strange_failovers.get(item).copied().unwrap_or(self.now.mono);
        let strange: BTreeMap<Item, Mono> = strange.map(|item| (*item, since(item))).collect();
        let mut txn = led(Purpose::FailoverItems, view);
        for (item, since) in &strange {
            let until = since.plus(self.settings.store_retry);
            if until > self.now.mono {
                self.timers.insert((until, Timer::Job(name.clone())));
                continue;
            }
            if let Some((version, _)) = record(item) {
                txn.guard(Guard::Record(name.clone(), *item, *version));
            }
            txn.write(Write::FailoverItem { job: name.clone(), item: *item, crashed: None });
        }
        job.strange_failovers = strange;
        let found = !txn.writes.is_empty();
        if found {
            self.submit(name, job, txn, Intent::FailoverItems);
        }
        found
    }
}
