//! A worker whose stream ends, or last ended, at this coordinator.

use std::collections::BTreeMap;

use rosterd_domain::id::{InstanceId, JobName, ServerAddress, WorkerId};
use rosterd_domain::plan::Waiting;
use rosterd_domain::snapshot::InstanceNode;
use rosterd_domain::time::Mono;
use rosterd_session::frame::Hello;
use rosterd_session::jobs::JobScope;

use crate::workers::parts::flight::Flight;
use crate::workers::parts::lease::Lease;
use crate::workers::parts::ledger::SlotLedger;
use crate::workers::parts::link::{AttachmentPhase, Link};
use crate::workers::parts::work::Work;

/// A worker at this host.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    pub(crate) instance: InstanceId,
    pub(crate) address: ServerAddress,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) client: String,
    /// The worker can keep a Trigger until its time.
    pub(crate) holds_triggers: bool,
    /// The key that the worker must present to come back.
    pub(crate) key: String,
    pub(crate) link: Link,
    pub(crate) lease: Lease,
    pub(crate) work: Work,
    pub(crate) ledger: SlotLedger,
    pub(crate) flight: Flight,
}

impl Worker {
    pub(crate) fn new(
        id: WorkerId,
        instance: InstanceId,
        hello: &Hello,
        link: Link,
        rights: JobScope,
        heard: Mono,
    ) -> Self {
        Self {
            id,
            instance,
            address: hello.address.clone(),
            labels: hello.labels.clone(),
            client: hello.client.clone(),
            holds_triggers: hello.holds_triggers,
            key: String::new(),
            lease: Lease::new(heard, link.attachment().lease()),
            link,
            work: Work::new(hello.asked.iter().cloned().collect(), rights),
            ledger: SlotLedger::new(hello.slots),
            flight: Flight::of_hello(&hello.in_flight, heard),
        }
    }

    /// The worker attached again, on another stream.
    pub(crate) fn go_on(&mut self, before: Self) {
        self.ledger.go_on(before.ledger);
        self.flight.go_on(before.flight);
        self.work.go_on(before.work);
    }

    /// Whether the worker may be sent runs.
    pub(crate) fn ready(&self) -> bool {
        self.link.phase() == AttachmentPhase::Attached && !self.link.is_writing()
    }

    /// Whether the worker should be among the instances of its jobs.
    pub(crate) fn present(&self) -> bool {
        matches!(self.link.phase(), AttachmentPhase::Attaching | AttachmentPhase::Attached)
    }

    /// Whether the worker is concerned with a job: it works for the job, asks for it, was sent runs of it, is named by
    /// its records, or waits for a read of them.
    pub(crate) fn concerns(&self, job: &JobName) -> bool {
        self.flight.knows_runs_of(job)
            || self.ledger.has_runs_of(job)
            || self.work.names(job)
            || self.link.waits_for(job)
    }

    /// Returns the first waiting items of other jobs, as many as there are free slots.
    pub(crate) fn others(&self, job: &JobName) -> Vec<Waiting> {
        self.ledger.waiting().others(job, self.ledger.free() as usize)
    }

    /// Returns the content of `rosterd/instances/{id}`.
    pub(crate) fn node(&self) -> InstanceNode {
        InstanceNode {
            address: self.address.clone(),
            slots: self.ledger.slots(),
            client: self.client.clone(),
            labels: self.labels.clone(),
            host: self.link.attachment().host.clone(),
        }
    }
}
