//! The workers that are attached here, and what is known of those elsewhere. This part knows no job: it reports what a
//! worker's state means for jobs as a [`WorkerChange`], which the machine hands on.

pub(crate) mod admission;
pub(crate) mod arrivals;
pub(crate) mod attach;
pub(crate) mod begun;
pub(crate) mod drain;
pub(crate) mod drain_request;
pub(crate) mod failure_detector;
pub(crate) mod lease;
pub(crate) mod parts;
pub(crate) mod remote;
pub(crate) mod slots;
pub(crate) mod speech;
pub(crate) mod stream;
pub(crate) mod streams;
pub(crate) mod waitlist;
pub(crate) mod worker;

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::{InstanceId, JobName, WorkerId};
use rosterd_runtime::lookup::Lookup;
use rosterd_session::frame::Hello;

use crate::cluster::Cluster;
use crate::io::Io;
use crate::io::event::{FrameCounts, StreamId};
use crate::schedule::Schedule;
use admission::Admission;
use parts::link::AttachmentPhase;
use remote::{PendingExpiry, RemoteAttachment};
use stream::Stream;
use worker::Worker;

/// The workers that are attached here, and what is known of those elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    table: Lookup<WorkerId, Worker>,
    streams: Lookup<StreamId, Stream>,
    /// Workers that are being admitted.
    admission: Admission,
    /// Attachments that are hosted elsewhere, or no longer hosted.
    elsewhere: BTreeMap<WorkerId, RemoteAttachment>,
    /// Workers that are about to be marked dead.
    expiry: PendingExpiry,
    leavers: Leavers,
    moves: Moves,
    inbox: Inbox,
    /// Workers with freed slots that other jobs wait for.
    slots_freed: BTreeSet<WorkerId>,
    /// Changes that jobs are yet to handle, in order.
    changes: Vec<WorkerChange>,
}

/// Workers that are draining or leaving.
#[derive(Debug, Default)]
struct Leavers {
    all: BTreeSet<WorkerId>,
    /// Some of them may be able to proceed. The check takes a while, so it is done once for several events.
    look: bool,
}

/// Attach, read, Welcome: workers that wait until the records of a job have been read after their attachment was
/// written.
#[derive(Debug, Default)]
struct Moves {
    /// By job, the workers that cannot be welcomed before its records have been read.
    awaiting_read: BTreeMap<JobName, BTreeSet<WorkerId>>,
    /// Those of them that were attached before the read in flight was requested: it covers them, whichever workers
    /// arrive meanwhile.
    covered_by_read: BTreeMap<JobName, BTreeSet<WorkerId>>,
}

/// Frames from workers that are waiting.
#[derive(Debug, Default)]
struct Inbox {
    /// How many frames have arrived from workers, and how many of them were handled.
    frames: FrameCounts,
    /// Streams whose next frame waits for room.
    waiting: BTreeSet<StreamId>,
}

impl Workers {
    // ---- who is here, and who elsewhere

    /// Returns the workers that are attached here.
    pub(crate) fn here(&self) -> &Lookup<WorkerId, Worker> {
        &self.table
    }

    /// How many were welcomed, and are neither leaving nor expired.
    pub(crate) fn count_attached(&self) -> usize {
        let is_attached = |worker: &&Worker| {
            matches!(worker.link.phase(), AttachmentPhase::Attached | AttachmentPhase::Draining { .. })
        };
        self.table.unordered_values().filter(is_attached).count()
    }

    pub(crate) fn get(&self, id: &WorkerId) -> Option<&Worker> {
        self.table.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &WorkerId) -> Option<&mut Worker> {
        self.table.get_mut(id)
    }

    pub(crate) fn is_here(&self, id: &WorkerId) -> bool {
        self.table.contains_key(id)
    }

    /// Returns the attachment of a worker that another coordinator hosts, or that has lost its host.
    pub(crate) fn elsewhere(&self, id: &WorkerId) -> Option<&RemoteAttachment> {
        self.elsewhere.get(id)
    }

    /// Whether the worker is attached anywhere, as far as is known.
    pub(crate) fn is_anywhere(&self, id: &WorkerId) -> bool {
        self.table.contains_key(id) || self.elsewhere.contains_key(id)
    }

    #[cfg(test)]
    pub(crate) fn all_elsewhere(&self) -> impl Iterator<Item = &WorkerId> {
        self.elsewhere.keys()
    }

    #[cfg(test)]
    pub(crate) fn admission(&self) -> &Admission {
        &self.admission
    }

    #[cfg(test)]
    pub(crate) fn expiry(&self) -> &PendingExpiry {
        &self.expiry
    }

    // ---- streams, and what is on its way

    pub(crate) fn stream(&self, id: StreamId) -> Option<&Stream> {
        self.streams.get(&id)
    }

    pub(crate) fn stream_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.streams.get_mut(&id)
    }

    /// Sets how many frames have arrived and were handled so far, and the streams whose next frame waits for room.
    pub(crate) fn set_inbox(&mut self, frames: FrameCounts, waiting: BTreeSet<StreamId>) {
        self.inbox = Inbox { frames, waiting };
    }

    /// A Hello arrived before this coordinator may attach workers.
    pub(crate) fn comes_early(&mut self, stream: StreamId, hello: Box<Hello>) {
        self.admission.comes_early(stream, hello);
    }

    /// Takes the workers whose attachment was written, and whether known records may contain runs of theirs that are
    /// not accounted for yet: processed together.
    pub(crate) fn take_attached(&mut self) -> BTreeMap<WorkerId, bool> {
        self.admission.take_attached()
    }

    /// Whether no waiting worker can be admitted now, and no freed slot has to be offered.
    pub(crate) fn is_settled(&self) -> bool {
        self.slots_freed.is_empty() && self.admission.is_settled()
    }

    // ---- what jobs are told

    /// Takes the changes that jobs are yet to handle, in order.
    pub(crate) fn take_changes(&mut self) -> Vec<WorkerChange> {
        std::mem::take(&mut self.changes)
    }

    // ---- those that leave

    /// Something has happened that leaving workers may have waited for.
    pub(crate) fn leavers_may_go_on(&mut self) {
        self.leavers.look = true;
    }

    pub(crate) fn has_leavers_to_look_at(&self) -> bool {
        self.leavers.look
    }

    /// Returns the draining and leaving workers for a check, and forgets those that are gone.
    pub(crate) fn take_leavers(&mut self) -> Vec<WorkerId> {
        self.leavers.look = false;
        self.leavers.all.retain(|id| self.table.contains_key(id));
        self.leavers.all.iter().cloned().collect()
    }

    // ---- those whose Welcome waits for the records of a job

    /// The Welcome of a worker waits until the records of a job have been read; false: the worker is not here.
    pub(crate) fn wait_for_read(&mut self, id: WorkerId, job: &JobName) -> bool {
        let Some(worker) = self.table.get_mut(&id) else { return false };
        worker.link.wait_for(job);
        self.moves.awaiting_read.entry(job.clone()).or_default().insert(id);
        true
    }

    /// A read of a job's records starts: it covers all workers that wait for one so far.
    pub(crate) fn read_begins(&mut self, job: &JobName) {
        if let Some(movers) = self.moves.awaiting_read.remove(job) {
            self.moves.covered_by_read.insert(job.clone(), movers);
        }
    }

    /// The read has ended. Returns the workers that it covered.
    pub(crate) fn read_ended(&mut self, job: &JobName) -> BTreeSet<WorkerId> {
        self.moves.covered_by_read.remove(job).unwrap_or_default()
    }

    /// These workers wait for the next read.
    pub(crate) fn wait_again(&mut self, job: &JobName, workers: BTreeSet<WorkerId>) {
        if !workers.is_empty() {
            self.moves.awaiting_read.entry(job.clone()).or_default().extend(workers);
        }
    }

    /// Takes all workers that wait for the records of a job that does not exist.
    pub(crate) fn take_waiting(&mut self, job: &JobName) -> impl Iterator<Item = WorkerId> + use<> {
        let awaiting = self.moves.awaiting_read.remove(job).unwrap_or_default();
        awaiting.into_iter().chain(self.read_ended(job))
    }
}

/// What a worker's state means for jobs. Workers never call jobs: the machine hands these on, in order.
#[derive(Debug)]
pub(crate) enum WorkerChange {
    /// Its attachment was written: it hosts these jobs here, lost those that its credential is not for, and waits until
    /// the records of others have been read.
    Attached {
        worker: WorkerId,
        instance: InstanceId,
        jobs: Vec<JobName>,
        lost: Vec<JobName>,
        narrowed: bool,
        moving: BTreeSet<JobName>,
    },
    /// It was welcomed: its runs in flight are compared with the records.
    Welcomed(WorkerId),
    /// A write of its attachment has ended, which its jobs may have waited for.
    AttachmentWritten(WorkerId),
    /// It drains: its instances are removed.
    Draining(WorkerId),
    /// It may be able to proceed with leaving, as far as its jobs allow.
    Leaving(WorkerId),
    /// Its attachment is gone, and everything that depends on it. It is dead, or attached elsewhere.
    Gone { worker: Box<Worker>, dead: bool },
    /// A worker that was never here is dead.
    Orphaned(WorkerId),
    /// It is attached elsewhere: leaders of jobs that lack its instance check again.
    SeenElsewhere(WorkerId),
    /// All attachments were read.
    AttachmentsRead,
}

/// The state that a worker's own event may change: no job.
pub(crate) struct WorkersTurn<'a> {
    pub(crate) workers: &'a mut Workers,
    pub(crate) cluster: &'a mut Cluster,
    pub(crate) schedule: &'a mut Schedule,
    pub(crate) io: &'a mut Io,
}
