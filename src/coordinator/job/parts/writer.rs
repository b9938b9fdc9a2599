//! The one transaction of a job in flight, its purpose, and when the next one may be tried.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{InstanceId, Item, WorkerId};
use rosterd_domain::item::Records;
use rosterd_domain::plan::Plan;
use rosterd_domain::time::{Mono, Time};

use crate::io::operation::{Change, FieldChange};
use crate::job::parts::duties::Planned;
use crate::job::parts::operations::PendingRequest;

/// How many transactions of a job in a row may be refused before the next one waits, and how long it waits at first.
const AT_ONCE: u32 = 3;

const FIRST_WAIT: Duration = Duration::from_millis(10);

/// The operation in flight for a job: a read or a transaction, one at a time.
#[derive(Debug, Default)]
enum UnderWay {
    #[default]
    Nothing,
    /// A read of the job is in flight.
    Reading,
    /// The transaction in flight.
    Writing(Intent),
}

/// The one transaction of a job in flight, and when the next one may be tried.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    under_way: UnderWay,
    /// How many transactions in a row were refused.
    refused: u32,
    /// Nothing is tried before this: the store could not write, or refused too often. Independent of `under_way`, since
    /// an offset may turn out to be unreadable meanwhile.
    retry_at: Option<Mono>,
    /// Slots of starts whose outcome is unknown, until the records are read.
    slots_in_doubt: Vec<BTreeMap<WorkerId, u32>>,
    /// The last transaction was the host's: others have the next turn.
    host_wrote_last: bool,
    /// Background work waits for the fire that is near.
    deferred_for_fire: bool,
}

impl Writer {
    /// Whether a read or a transaction is in flight.
    pub(crate) fn is_busy(&self) -> bool {
        !matches!(self.under_way, UnderWay::Nothing)
    }

    pub(crate) fn is_reading(&self) -> bool {
        matches!(self.under_way, UnderWay::Reading)
    }

    pub(crate) fn is_writing(&self) -> bool {
        self.intent().is_some()
    }

    /// Returns the purpose of the transaction in flight.
    pub(crate) fn intent(&self) -> Option<&Intent> {
        match &self.under_way {
            UnderWay::Writing(intent) => Some(intent),
            UnderWay::Nothing | UnderWay::Reading => None,
        }
    }

    pub(crate) fn begin_reading(&mut self) {
        self.under_way = UnderWay::Reading;
    }

    pub(crate) fn read_ended(&mut self) {
        if self.is_reading() {
            self.under_way = UnderWay::Nothing;
        }
    }

    pub(crate) fn begin_writing(&mut self, intent: Intent) {
        self.under_way = UnderWay::Writing(intent);
    }

    /// The transaction has ended, or will never be answered. Returns its purpose.
    pub(crate) fn write_ended(&mut self) -> Option<Intent> {
        match std::mem::take(&mut self.under_way) {
            UnderWay::Writing(intent) => Some(intent),
            other => {
                self.under_way = other;
                None
            }
        }
    }

    /// Nothing is tried before `until`.
    pub(crate) fn back_off(&mut self, until: Mono) {
        self.retry_at = Some(until);
    }

    /// Returns until when nothing is tried; `None`: there is nothing to wait for.
    pub(crate) fn waits_until(&mut self, now: Mono) -> Option<Mono> {
        self.retry_at = self.retry_at.filter(|at| *at > now);
        self.retry_at
    }

    /// A transaction was refused. After several refusals in a row the job waits, a little longer each time up to
    /// `longest`.
    pub(crate) fn was_refused(&mut self, now: Mono, longest: Duration) {
        self.refused += 1;
        if self.refused > AT_ONCE {
            let wait = FIRST_WAIT * 2_u32.pow((self.refused - AT_ONCE).min(6));
            self.back_off(now.plus(wait.min(longest)));
        }
    }

    pub(crate) fn was_applied(&mut self) {
        self.refused = 0;
    }

    /// Runs may have started: their slots stay reserved until the records show whether they have.
    pub(crate) fn doubt(&mut self, reserved: BTreeMap<WorkerId, u32>) {
        self.slots_in_doubt.push(reserved);
    }

    /// The records show which runs have started. Returns the slots that were in doubt.
    pub(crate) fn take_doubts(&mut self) -> Vec<BTreeMap<WorkerId, u32>> {
        std::mem::take(&mut self.slots_in_doubt)
    }

    /// The transaction in flight is the host's.
    pub(crate) fn host_wrote(&mut self) {
        self.host_wrote_last = true;
    }

    /// Returns whether the host lets others write first: once after each of its own transactions.
    pub(crate) fn host_yields(&mut self) -> bool {
        std::mem::take(&mut self.host_wrote_last)
    }

    /// Records and returns whether background work waits for a fire that is near.
    pub(crate) fn defer_for_fire(&mut self, fires_soon: bool) -> bool {
        self.deferred_for_fire = fires_soon;
        fires_soon
    }

    pub(crate) fn is_deferred_for_fire(&self) -> bool {
        self.deferred_for_fire
    }
}

/// The purpose of the transaction in flight.
#[derive(Debug)]
pub(crate) enum Intent {
    /// The host's plan, with the slots that it takes, and the future scheduled time that it is for.
    Host { plan: Box<Plan>, reserved: BTreeMap<WorkerId, u32>, ahead: Option<Time> },
    /// Instances of these workers are written or removed, and runs of these are marked.
    Instances { put: Vec<WorkerId>, removed: Vec<InstanceId>, marked: Vec<WorkerId> },
    /// The instance of a worker here was deleted: it is shut down for this job.
    Dismiss { worker: WorkerId, instance: InstanceId },
    /// The leadership is taken.
    Elect,
    /// A new assignment.
    Assign(Box<Planned>),
    /// Records of new items.
    NewRecords(Records),
    /// `instance` mirrors.
    Mirrors(Vec<Item>),
    /// Commands were executed, or have nothing left to do.
    Commands,
    /// Unused servers are removed.
    Servers,
    /// Crash marks of items that have not crashed are removed.
    FailoverItems,
    /// Commands of older tools are adopted.
    ForeignTriggers,
    /// Another tool's marks of items are adopted.
    Switches,
    /// Another tool's configuration is adopted.
    Restated,
    /// The job is created for a registration by a worker with this credential.
    Create { by: Option<Arc<str>> },
    /// A person's operation.
    Operation { asked: Box<PendingRequest>, said: Change },
    /// A registration's config replaces these fields of the stored one.
    Overwrite { fields: Vec<FieldChange>, by: Option<Arc<str>> },
    /// A removed job's nodes are swept.
    Sweep,
    /// An announcement was answered, and held runs are released.
    Release(Vec<Item>),
    /// The instance for a callback is recorded.
    Announce,
    /// The leadership is given up.
    Abdicate,
}

impl Intent {
    /// Whether no fire, person or worker waits for it.
    pub(crate) fn is_background(&self) -> bool {
        matches!(
            self,
            Self::Elect
                | Self::Abdicate
                | Self::NewRecords(_)
                | Self::Assign(_)
                | Self::Mirrors(_)
                | Self::Servers
                | Self::FailoverItems
        )
    }
}
