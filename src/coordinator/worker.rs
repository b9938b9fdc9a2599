//! A worker whose stream ends, or ended last, at this coordinator: its attachment, its lease, its slots, and
//! what it was told on the stream it has now.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rosterd_domain::id::{InstanceId, Item, JobName, ServerAddress, StreamNumber, Token, Version, WorkerId};
use rosterd_domain::item::Running;
use rosterd_domain::mutants;
use rosterd_domain::plan::Waiting;
use rosterd_domain::snapshot::{Attachment, InstanceNode};
use rosterd_domain::time::Mono;

use super::barrier::Begun;
use super::event::StreamId;
use super::waitlist::Waitlist;
use rosterd_session::frame::{Hello, RunRef};
use rosterd_session::jobs::Jobs;

/// Where a worker is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The attachment is written; its jobs are being moved; not welcomed yet.
    Attaching,
    /// Welcomed.
    Attached,
    /// The attachment says that it is leaving; Draining is sent once nothing is in flight to it.
    Draining { confirmed: bool },
    /// It said Goodbye; the attachment goes once no record names it.
    Leaving,
    /// Its lease is over: the attachment is being deleted. Nothing it says is acknowledged any more.
    Expiring,
}

/// A worker at this host.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    pub(crate) instance: InstanceId,
    pub(crate) address: ServerAddress,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) client: String,
    pub(crate) slots: u32,
    /// It keeps a Trigger until its time.
    pub(crate) holds_triggers: bool,
    /// What it must show to come back.
    pub(crate) key: String,
    pub(crate) phase: Phase,
    /// The stream it has now; none while it is away.
    pub(crate) stream: Option<StreamId>,
    pub(crate) stream_number: StreamNumber,
    /// The attachment as this host last wrote it.
    pub(crate) attachment: Attachment,
    pub(crate) version: Version,
    /// Its name was given here and now: no record anywhere names it but by what this host wrote.
    pub(crate) fresh: bool,
    /// A write of the attachment is under way.
    pub(crate) writing: bool,
    /// It asked to drain meanwhile.
    pub(crate) drain_wanted: bool,
    /// Jobs it has registered.
    pub(crate) jobs: BTreeSet<JobName>,
    /// Jobs of its Hello that it registers, or gives up, once it is welcomed.
    pub(crate) pending_registrations: BTreeSet<JobName>,
    /// Jobs whose registration is not answered.
    pub(crate) registering: BTreeSet<JobName>,
    /// Jobs that it has said it gave up.
    pub(crate) unregistered: BTreeSet<JobName>,
    /// For which jobs the credential of its stream is.
    pub(crate) rights: Jobs,
    /// Jobs that it has had, or says it has, and that its credential is not for.
    pub(crate) lost: BTreeSet<JobName>,
    /// Jobs of its Hello that are not moved yet; Welcome waits for them.
    pub(crate) moving: BTreeSet<JobName>,
    /// The lease counts from here.
    pub(crate) heard: Mono,
    /// Its lease was found to be over, counted from then; and how many frames had come to this coordinator by that time.
    pub(crate) lease_expired_at: Option<(Mono, u64)>,
    /// The lease that the worker counts with.
    pub(crate) lease: Duration,
    /// Runs that it has been told of on this stream, or had in flight when it came, and since when.
    pub(crate) dispatched: BTreeMap<RunRef, Mono>,
    /// Those of which user code has begun.
    pub(crate) begun: Begun,
    /// Of these the ones that no record holds, since their jobs are without monitorExecution; as they were told, unless
    /// it came with them.
    pub(crate) untracked_runs: BTreeMap<RunRef, Option<Running>>,
    /// Runs that were taken away from it, and that it still names: each keeps its slot.
    pub(crate) taken_away: BTreeSet<RunRef>,
    /// It was another host's before, or this one's in another session.
    pub(crate) taken_over: bool,
    /// How often it was told of runs that it then did not name, heartbeat after heartbeat.
    pub(crate) unheeded: BTreeMap<RunRef, Unheeded>,
    /// Runs in flight in the records.
    pub(crate) runs: BTreeSet<(JobName, Item)>,
    /// Starts in transactions under way.
    pub(crate) reserved: u32,
    /// What waits for a slot, over all jobs.
    pub(crate) waiting: Waitlist,
    /// Reports that are not acknowledged.
    pub(crate) unacknowledged: usize,
}

/// A run that its worker was told of and did not name.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unheeded {
    /// How often, each time for some heartbeats.
    pub(crate) times: u32,
    /// When it was first told so on the stream that it has now.
    pub(crate) since: Option<Mono>,
}

impl Worker {
    pub(crate) fn new(
        id: WorkerId,
        instance: InstanceId,
        hello: &Hello,
        stream: StreamId,
        attachment: Attachment,
        version: Version,
        heard: Mono,
    ) -> Self {
        Self {
            id,
            instance,
            address: hello.address.clone(),
            labels: hello.labels.clone(),
            client: hello.client.clone(),
            slots: hello.slots,
            holds_triggers: hello.holds_triggers,
            key: String::new(),
            phase: Phase::Attaching,
            stream: Some(stream),
            stream_number: hello.stream,
            lease: attachment.lease(),
            attachment,
            version,
            fresh: false,
            writing: false,
            drain_wanted: false,
            jobs: BTreeSet::new(),
            pending_registrations: hello.asked.iter().cloned().collect(),
            registering: BTreeSet::new(),
            unregistered: BTreeSet::new(),
            rights: Jobs::all(),
            lost: BTreeSet::new(),
            moving: BTreeSet::new(),
            heard,
            lease_expired_at: None,
            begun: Begun::of_hello(&hello.in_flight),
            dispatched: hello.in_flight.iter().map(|run| (run.clone(), heard)).collect(),
            untracked_runs: BTreeMap::new(),
            taken_away: BTreeSet::new(),
            taken_over: false,
            unheeded: BTreeMap::new(),
            runs: BTreeSet::new(),
            reserved: 0,
            waiting: Waitlist::default(),
            unacknowledged: 0,
        }
    }

    /// Slots that no run and no start under way takes.
    pub(crate) fn free(&self) -> u32 {
        if mutants::is_on(mutants::SLOTS_UNCOUNTED) {
            return self.slots;
        }
        let runs = self.runs.len() + self.untracked_runs.len() + self.taken_away.len();
        let used = u32::try_from(runs).unwrap_or(u32::MAX).saturating_add(self.reserved);
        self.slots.saturating_sub(used)
    }

    /// Whether it may be given runs.
    pub(crate) fn ready(&self) -> bool {
        self.phase == Phase::Attached && !self.writing
    }

    /// Whether it should be among the instances of its jobs.
    pub(crate) fn present(&self) -> bool {
        matches!(self.phase, Phase::Attaching | Phase::Attached)
    }

    /// Whether it has to do with a job: works for it, asks to, was told of runs of it, or is named by its records.
    pub(crate) fn concerns(&self, job: &JobName) -> bool {
        let first = RunRef { job: job.clone(), item: Item(0), token: Token(0) };
        let told = self.dispatched.range(first..).next().is_some_and(|(run, _)| run.job == *job);
        let runs = self.runs.range((job.clone(), Item(0))..).next().is_some_and(|(name, _)| name == job);
        told || runs
            || [&self.jobs, &self.pending_registrations, &self.registering, &self.moving]
                .into_iter()
                .any(|jobs| jobs.contains(job))
    }

    /// What other jobs' items have waited for, in their order, as far as it matters.
    pub(crate) fn others(&self, job: &JobName) -> Vec<Waiting> {
        self.waiting.others(job, self.free() as usize)
    }

    /// What `rosterd/instances/{id}` says.
    pub(crate) fn node(&self) -> InstanceNode {
        InstanceNode {
            address: self.address.clone(),
            slots: self.slots,
            client: self.client.clone(),
            labels: self.labels.clone(),
            host: self.attachment.host.clone(),
        }
    }
}
