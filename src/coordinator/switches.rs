//! Items that another tool disables or enables, by the node `sharding/{item}/disabled`.
//!
//! Which items are disabled `sharding` says; the nodes are written with it, in one transaction. Where they differ at one
//! revision another tool has written: the job's leader takes that over. It looks after its election, when it is told that
//! one has come or gone, and when it reconciles.

use std::sync::Arc;

use rosterd_domain::id::{Item, JobName};
use rosterd_domain::item::Missed;
use rosterd_domain::mutants;
use rosterd_domain::sharding::Gap;
use rosterd_domain::snapshot::Switches;
use rosterd_domain::view::Job;

use super::change::{led, rewrite};
use super::event::{Effect, Query};
use super::job::{Intent, JobState};
use super::node::{Node, ReadFor};
use rosterd_registry::ReadError;

impl Node {
    pub(super) fn switches_moved(&mut self, name: JobName) {
        if mutants::is_on(mutants::FOREIGN_SWITCHES_UNTOLD) {
            return;
        }
        // Who is elected later looks then.
        if let Some(job) = self.jobs.get_mut(&name).filter(|job| job.leads()) {
            job.switches_stale = true;
            self.dirty.insert(name);
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
        self.dirty.insert(name);
    }

    /// Makes `sharding` say what the nodes say.
    pub(super) fn switches(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        let Some(read) = job.switches.take().filter(|_| job.leads()) else { return false };
        if (read.incarnation.as_ref(), read.generation) != (Some(&view.incarnation), view.generation) {
            // One of the two is behind.
            (job.stale, job.switches_stale) = (true, true);
            self.dirty.insert(name.clone());
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
        let mut txn = led("foreign switch", view);
        rewrite(&mut txn, view, &sharding);
        // Whatever comes of it: the nodes may have changed meanwhile.
        job.switches_stale = true;
        self.submit(name, job, txn, Intent::Switches);
        true
    }
}
