//! Freed slots of workers.

use std::collections::BTreeMap;

use rosterd_domain::id::{Item, JobName, WorkerId};
use rosterd_domain::mutants;

use crate::workers::{Workers, WorkersTurn};

impl WorkersTurn<'_> {
    /// Gives a turn to the jobs whose items have waited longest for freed slots: once for all the slots that a worker
    /// got back together.
    pub(crate) fn offer_freed_slots(&mut self) {
        for id in std::mem::take(&mut self.workers.slots_freed) {
            let Some(worker) = self.workers.table.get(&id) else { continue };
            self.schedule
                .run_queue
                .extend(worker.ledger.waiting().first(worker.ledger.free() as usize).cloned());
        }
    }
}

impl Workers {
    /// Releases the slots of starts whose transactions have settled.
    pub(crate) fn release_slots(&mut self, reserved: &BTreeMap<WorkerId, u32>) {
        for (worker_id, starts) in reserved {
            if let Some(worker) = self.table.get_mut(worker_id) {
                worker.ledger.release(*starts);
            }
            self.slot_freed(worker_id);
        }
    }

    /// A record no longer gives this run to the worker.
    pub(crate) fn run_ended(&mut self, id: &WorkerId, job: &JobName, item: Item) {
        let Some(worker) = self.table.get_mut(id) else { return };
        worker.ledger.run_ended(job, item);
        worker.flight.forget_unheeded(job, item);
        self.slot_freed(id);
    }

    /// The worker may have a slot more than before: if an item waits for one, it is offered. Until then no other item
    /// gets it, and a job that is paused, or has no cron, has no other turn soon.
    pub(crate) fn slot_freed(&mut self, id: &WorkerId) {
        if self.table.get(id).is_some_and(|worker| !worker.ledger.waiting().is_empty())
            && !mutants::is_on(mutants::FREED_SLOTS_STAY)
        {
            self.slots_freed.insert(id.clone());
        }
    }

    /// Reserves slots for starts whose transaction is under way.
    pub(crate) fn reserve_slots(&mut self, reserved: &BTreeMap<WorkerId, u32>) {
        for (worker, starts) in reserved {
            if let Some(worker) = self.table.get_mut(worker) {
                worker.ledger.reserve(*starts);
            }
        }
    }

    pub(crate) fn one_report_less(&mut self, id: &WorkerId) {
        if let Some(worker) = self.table.get_mut(id) {
            worker.ledger.one_report_less();
        }
    }
}
