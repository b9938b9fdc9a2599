//! What this coordinator holds of one job: a cache of the registry, what waits to be done, and the one
//! transaction under way. At most one transaction of a job is under way at a time, so what ends together is
//! committed together; different jobs' transactions go side by side.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{Generation, InstanceId, Item, JobName, ServerAddress, Token, Version, WorkerId};
use rosterd_domain::item::{Record, Running};
use rosterd_domain::job::JobSpec;
use rosterd_domain::mutants;
use rosterd_domain::ownership::Cause;
use rosterd_domain::plan::{Plan, Report, Why};
use rosterd_domain::snapshot::Switches;
use rosterd_domain::time::{Mono, Time};
use rosterd_domain::unattended::Unattended;
use rosterd_domain::view::Job;

use super::barrier::Barrier;
use super::event::{RequestId, StreamId};
use super::handle::{Action, Change, ChangeEffect, FieldChange, Target};
use super::progress::Progress;
use super::standing::Standing;
use rosterd_session::frame::{Completed, Offer, Props};

/// Why a job cannot be understood.
#[derive(Debug, Clone)]
pub(crate) struct Damaged {
    pub(crate) why: String,
    /// What guards whoever mends or removes it; none where not even that could be read.
    pub(crate) torn: Option<Torn>,
}

/// The nodes of a job whose configuration, policy or assignment is none.
#[derive(Debug, Clone)]
pub(crate) struct Torn {
    pub(crate) incarnation: Arc<str>,
    pub(crate) config_version: Version,
    pub(crate) generation: Generation,
    pub(crate) assignment: Arc<[u8]>,
}

/// Why this leader planned another assignment, and why each item that it moves has another owner.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) why: Why,
    pub(crate) causes: BTreeMap<Item, Cause>,
}

/// A job as this coordinator knows it.
#[derive(Debug, Default)]
pub(crate) struct JobState {
    /// Decoded; none until it was read, and while it cannot be decoded.
    pub(crate) view: Option<Arc<Job>>,
    /// It was read at least once.
    pub(crate) loaded: bool,
    /// It is there, but cannot be understood.
    pub(crate) damaged: Option<Damaged>,
    /// It is there without an incarnation: being removed.
    pub(crate) ending: bool,
    /// It was there at some time.
    pub(crate) existed: bool,
    /// Who named it when it was looked up for them, until then nobody else here has to do with it.
    pub(crate) named_by: BTreeSet<WorkerId>,
    /// The records of all its items; own writes keep those of hosted items true.
    pub(crate) records: BTreeMap<Item, (Version, Record)>,
    /// The decision state may be behind.
    pub(crate) stale: bool,
    /// The records may be behind.
    pub(crate) stale_records: bool,
    /// The marks of disabled items may say what is not known yet.
    pub(crate) switches_stale: bool,
    /// What they said, to be looked at.
    pub(crate) switches: Option<Switches>,
    /// A read is under way.
    pub(crate) reading: bool,
    /// A transaction is under way.
    pub(crate) writing: Option<Intent>,
    /// Transactions in a row that were refused.
    pub(crate) refused: u32,
    /// Slots of starts whose outcome is unknown, until the records are read.
    pub(crate) slots_in_doubt: Vec<BTreeMap<WorkerId, u32>>,
    /// Nothing is tried before this (the store could not write).
    pub(crate) retry_at: Option<Mono>,
    /// Reports to be committed.
    pub(crate) reports: BTreeMap<Item, Report>,
    /// Until when they wait for more of them.
    pub(crate) batching_until: Option<Mono>,
    /// The same reports in full, for the history and the answer.
    pub(crate) details: BTreeMap<Item, (WorkerId, Arc<Completed>)>,
    /// Reports of other runs of the same items: which is the item's is decided once the records were read.
    pub(crate) disputed: VecDeque<(WorkerId, Completed)>,
    /// Workers here that have registered the job.
    pub(crate) hosted: BTreeMap<InstanceId, WorkerId>,
    /// Workers whose attachment is gone.
    pub(crate) dead: BTreeSet<WorkerId>,
    /// Instances that a dead or leaving worker leaves behind.
    pub(crate) leaving: BTreeSet<InstanceId>,
    /// Workers that gave the job up and are to hear that their instance has gone, and on which stream.
    pub(crate) unregistering: BTreeMap<InstanceId, StreamId>,
    /// Items whose last fire lies in the future, which somebody was told.
    pub(crate) silent_until: BTreeMap<Item, Time>,
    /// Since when this host is responsible for an item.
    pub(crate) owned_since: BTreeMap<Item, Time>,
    /// How far runs in flight have come, not written yet.
    pub(crate) progress: Progress,
    /// Offsets as far as they are known.
    pub(crate) offsets: BTreeMap<Item, Option<Arc<[u8]>>>,
    /// Offsets being read, and the item's last run that had ended when they were asked for.
    pub(crate) reading_offsets: BTreeMap<Item, Option<Token>>,
    /// Registrations that wait.
    pub(crate) registering: VecDeque<Registering>,
    /// Runs whose workers were told to stop them, by token and on which stream.
    pub(crate) told_to_stop: BTreeMap<Item, (Token, StreamId)>,
    /// Runs that have timed out, and the stream on which their workers were told so.
    pub(crate) told_of_timeout: BTreeMap<Item, (Token, StreamId)>,
    /// Operations that wait.
    pub(crate) operations: VecDeque<Asked>,
    /// Since when it has no leader, as far as this coordinator knows.
    pub(crate) leaderless: Option<Mono>,
    /// The membership in which this coordinator was elected though another should lead.
    pub(crate) stands_in: Option<u64>,
    /// Instances here that were put and stood: one that has gone was taken away by somebody else.
    pub(crate) published_instances: BTreeSet<InstanceId>,
    /// `instance` mirrors to be written, by the leader.
    pub(crate) mirrors: BTreeMap<Item, Option<InstanceId>>,
    /// Servers without an instance, and since when, for the leader.
    pub(crate) empty_servers: BTreeMap<ServerAddress, Mono>,
    /// Nodes of crashed items that have not crashed, and since when, for the leader.
    pub(crate) strange_failovers: BTreeMap<Item, Mono>,
    /// When the leader looks at everything again.
    pub(crate) reconcile_at: Option<Mono>,
    /// The job as it was when they were found: its assignment is the one that they follow.
    pub(crate) mirrored: Option<Arc<Job>>,
    /// What each hosted instance was last told.
    pub(crate) last_assignment_sent: BTreeMap<InstanceId, Told>,
    /// The job's properties; another value is another pointer.
    pub(crate) props: Props,
    /// Runs without a record that wait for their offset to be read.
    pub(crate) unmonitored: Vec<(Item, rosterd_domain::id::Token, rosterd_domain::item::Running)>,
    /// Why the assignment was last changed, by this leader.
    pub(crate) planned: Option<Box<Planned>>,
    /// Hints are asked for.
    pub(crate) watched: bool,
    /// Of so many items the marks are.
    pub(crate) watched_items: u32,
    /// When the calendar next wants something.
    pub(crate) next: Option<Time>,
    /// The calendar has brought it up, and it had no turn yet.
    pub(crate) due: bool,
    /// Workers that came with runs whose marks may have gone with the session of their last host.
    pub(crate) unmarked: BTreeSet<WorkerId>,
    /// Housekeeping waits for the fire that is near.
    pub(crate) deferred_for_fire: bool,
    /// When the records are to be read again: see [`super::timers::Timer::LookAgain`].
    pub(crate) reread_at: Option<Mono>,
    /// The last transaction was the host's: others come first now.
    pub(crate) host_wrote_last: bool,
    /// What nobody attends to, as it was found since its last turn.
    pub(crate) unattended: Option<Unattended>,
    /// It had a turn since monitoring was last told.
    pub(crate) turned: bool,
    /// What monitoring was told of it, if it was.
    pub(crate) shown: Option<Option<Standing>>,
    /// Callbacks of the fire under way.
    pub(crate) guarantee: super::guarantee::Guarantee,
}

/// What an instance was told: on which stream, that it owns what, and what its runs are to know.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) stream: StreamId,
    pub(crate) items: Vec<Item>,
    pub(crate) props: Props,
}

impl Told {
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.stream == other.stream && self.items == other.items && Arc::ptr_eq(&self.props, &other.props)
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
}

/// An operation on this job that somebody asked for.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) request: RequestId,
    /// By whom.
    pub(crate) by: Option<Arc<str>>,
    pub(crate) operation: JobOperation,
    pub(crate) tries: u32,
    /// The records were read for it.
    pub(crate) informed: bool,
    /// It is done, or may be, and waits for this before it is answered.
    pub(crate) barrier: Option<Barrier>,
}

impl Asked {
    /// What is to be done after it before it is answered with `said`. There may be more runs to be stopped than one
    /// transaction takes.
    pub(super) fn then_cancel(&self, said: &Change) -> Option<JobOperation> {
        match &self.operation {
            JobOperation::Enable { target, enabled: false, cancel: true } => {
                Some(JobOperation::CancelAll { target: target.clone(), said: said.clone() })
            }
            JobOperation::CancelAll { .. } => Some(self.operation.clone()),
            _ => None,
        }
    }
}

/// What may be asked of one job.
#[derive(Debug, Clone)]
pub(crate) enum JobOperation {
    Apply {
        spec: Box<JobSpec>,
        dry_run: bool,
        /// What it is to replace; none: whatever is there.
        expected: Option<Box<JobSpec>>,
    },
    Trigger {
        items: Vec<Item>,
        after_current: bool,
    },
    Pause(bool),
    Enable {
        target: Target,
        enabled: bool,
        cancel: bool,
    },
    Remove {
        cancel: bool,
    },
    Cancel {
        item: Item,
    },
    /// Stops the runs of a target; follows an operation that was asked to, and is answered with what that has said.
    CancelAll {
        target: Target,
        said: Change,
    },
    Drain {
        instance: InstanceId,
        grace: Duration,
    },
    Shutdown {
        instance: InstanceId,
    },
    ShutdownMachine(ServerAddress),
    RemoveMachine(ServerAddress),
}

impl JobOperation {
    /// What it is to whoever watches, once it had this effect.
    pub(crate) fn action(&self, effect: ChangeEffect) -> Action {
        match self {
            Self::Apply { .. } if effect == ChangeEffect::Created => Action::Create,
            Self::Apply { .. } => Action::Change,
            Self::Trigger { .. } => Action::Trigger,
            Self::Pause(true) => Action::Pause,
            Self::Pause(false) => Action::Resume,
            Self::Enable { enabled: true, .. } => Action::Enable,
            Self::Enable { enabled: false, .. } => Action::Disable,
            Self::Remove { .. } => Action::Remove,
            Self::Cancel { .. } | Self::CancelAll { .. } => Action::Cancel,
            Self::Drain { .. } => Action::Drain,
            Self::Shutdown { .. } | Self::ShutdownMachine(_) => Action::Shutdown,
            Self::RemoveMachine(_) => Action::ForgetMachine,
        }
    }
}

/// What the transaction under way is for.
#[derive(Debug)]
pub(crate) enum Intent {
    /// The host's plan, with the slots it takes, and the scheduled time to come that it is for.
    Host { plan: Box<Plan>, reserved: BTreeMap<WorkerId, u32>, ahead: Option<Time> },
    /// Instances of these workers are put or removed, and runs of these are marked.
    Instances { put: Vec<WorkerId>, removed: Vec<InstanceId>, marked: Vec<WorkerId> },
    /// Somebody deleted the instance of a worker here: it is shut down for this job.
    Dismiss { worker: WorkerId, instance: InstanceId },
    /// The leadership is taken.
    Elect,
    /// A new assignment.
    Assign(Box<Planned>),
    /// Records of new items.
    NewRecords(BTreeMap<Item, (Version, Record)>),
    /// `instance` mirrors.
    Mirrors(Vec<Item>),
    /// Commands were carried out, or have nothing left to do.
    Commands,
    /// Servers that nobody uses are forgotten.
    Servers,
    /// Nodes that say of items that they have crashed, which they have not, are removed.
    FailoverItems,
    /// Commands of older tools are taken over.
    ForeignTriggers,
    /// Items are as another tool marked them.
    Switches,
    /// The configuration is as another tool wrote it.
    Restated,
    /// The job is made for a registration, by the worker of this credential.
    Create { by: Option<Arc<str>> },
    /// A person's operation.
    Operation { asked: Box<Asked>, said: Change },
    /// A registration's config replaces what is registered: these fields.
    Overwrite { fields: Vec<FieldChange>, by: Option<Arc<str>> },
    /// A removed job's nodes are swept.
    Sweep,
    /// An announcement was answered, and held runs are released.
    Release(Vec<Item>),
    /// Somebody is to be asked.
    Announce,
    /// The leadership is given up.
    Abdicate,
}

impl JobState {
    /// Whether this coordinator leads the job.
    pub(crate) fn leads(&self) -> bool {
        self.view.as_ref().is_some_and(|view| matches!(view.leader, Some((_, true))))
    }

    /// This host speaks for a worker no more: what was to be handed back for it is for others to end, or for its death.
    pub(crate) fn drop_handoff_reports(&mut self, worker: &WorkerId) {
        if !mutants::is_on(mutants::HANDED_BACK_BY_THE_DEAD) {
            self.reports.retain(|_, report| report.worker != *worker || report.ended.spoken_for().is_none());
        }
    }

    /// A run that its record holds.
    pub(crate) fn running(&self, item: Item, token: Token) -> Option<&Running> {
        self.records.get(&item).filter(|(_, record)| record.token == token)?.1.running()
    }

    /// Nobody here needs the cache.
    pub(crate) fn idle(&self) -> bool {
        self.hosted.is_empty()
            && self.registering.is_empty()
            && self.unregistering.is_empty()
            && self.operations.is_empty()
            && self.reports.is_empty()
            && self.disputed.is_empty()
    }
}

/// A job's name with its state, as most functions need both.
/// Boxed: a job is taken out for its turn and put back, and a state is large.
pub(crate) type Jobs = BTreeMap<JobName, Box<JobState>>;
