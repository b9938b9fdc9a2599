//! What a host does for one job, decided from the job's nodes, its records and what the host knows besides.
//!
//! [`host`] is the whole decision: reports end runs, the dead lose theirs, scheduled times are accounted for, and
//! what may start is started, in this order, on one draft of the records. The answer is a [`Plan`]: one
//! transaction, complete, with a reason for each change. It is level-triggered: planning again from what the
//! transaction left behind changes nothing. Nothing here sends anything: who has committed a plan looks at the
//! records and sends what they say (`persist, then speak`).

mod ahead;
mod assign;
mod complete;
mod crash;
mod draft;
mod due;
mod overdue;
mod progressed;
mod start;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use assign::{Assigned, Candidates, Why, assign};
pub use overdue::times_out;
pub use start::{Class, Waiting};

use draft::Draft;

use crate::id::{InstanceId, Item, Token, Version, WorkerId};
use crate::item::{Missed, Outcome, Record, Running};
use crate::time::Time;
use crate::txn::Txn;
use crate::view::Job;

/// What a host knows besides the registry.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Now, by the coordinator's calendar.
    pub now: Time,
    /// Tokens up to this one were given, whatever the records say: the store may be older than what it gave.
    pub given: Token,
    /// Nothing may start: the clock is off, the registry is suspended, or the host is leaving.
    pub no_starts: bool,
    /// When this coordinator began to listen: older scheduled times found not dispatched were missed while down.
    pub up_since: Time,
    /// Since when the host has been responsible for an item, where that is later than `up_since`.
    pub gained: &'a BTreeMap<Item, Time>,
    /// The instances of this job whose streams end here.
    pub hosted: &'a BTreeMap<InstanceId, Hosted>,
    /// Reports that wait to be committed.
    pub reports: &'a BTreeMap<Item, Report>,
    /// How far runs in flight have come, as their workers said.
    pub progressed: &'a BTreeMap<Item, Progressed>,
    /// It is time to write that down; else it waits for the run's end.
    pub writes_progressed: bool,
    /// Workers that are surely dead: their attachment is gone.
    pub dead: &'a BTreeSet<WorkerId>,
    /// Items that are in user code although their record is idle (jobs without monitorExecution).
    pub in_user_code: &'a BTreeSet<Item>,
    /// A last fire later than this was written by a clock that was wrong.
    pub furthest_last_fire: Time,
    /// How long after its timeout a run is taken away from its worker.
    pub timeout_grace: Duration,
    /// The largest number of records that one transaction writes.
    pub most_writes: usize,
    /// Somebody will read the plan's reasons.
    pub explain: bool,
}

/// An instance of the job whose stream ends at this host.
#[derive(Debug, Clone)]
pub struct Hosted {
    /// Its worker.
    pub worker: WorkerId,
    /// The version of the worker's attachment that this host wrote.
    pub attachment: Version,
    /// It may be given runs: leased, not draining, not disabled.
    pub ready: bool,
    /// Slots that are free, over all its jobs. One whose run's report waits to be committed is not free yet.
    pub free: u32,
    /// What other jobs' items wait for on the same worker, in their order; at most `free` of them.
    pub others: Vec<Waiting>,
}

/// A worker's report of a run's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The run.
    pub token: Token,
    /// Who reports.
    pub worker: WorkerId,
    /// What it says.
    pub ended: Reported,
    /// The item's new offset.
    pub offset: Option<Arc<[u8]>>,
}

/// How far a run in flight has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progressed {
    /// The run.
    pub token: Token,
    /// Who says so.
    pub worker: WorkerId,
    /// The item's offset by then.
    pub offset: Arc<[u8]>,
}

/// What a worker may say of a run's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reported {
    /// The handler ended, so.
    Done(Outcome),
    /// Stopped because the lease ended or the run was fenced.
    Aborted,
    /// The Trigger came, user code never began.
    NotStarted,
    /// The worker had to leave before the run's end.
    HandedBack,
    /// The worker said goodbye to this host, which has it attached at this version and says so for it.
    HandedBackByHost(Version),
    /// The worker, whom this host has attached at this version, was told of the run again and again and never named it.
    Forgotten(Version),
    /// Nobody was told of the run: it was held, and its announcement was not answered in time, or it was cancelled. One that
    /// was released meanwhile goes on.
    Skipped,
}

impl Reported {
    /// Its worker said so itself, and waits to hear that it was taken.
    pub fn is_of_worker(self) -> bool {
        !matches!(self, Self::HandedBackByHost(_) | Self::Forgotten(_) | Self::Skipped)
    }

    /// Whether a host says it for a worker that left, rather than the worker itself.
    pub fn is_left(self) -> bool {
        matches!(self, Self::HandedBackByHost(_))
    }

    /// The version of the worker's attachment by which its host speaks for it.
    pub fn spoken_for(self) -> Option<Version> {
        match self {
            Self::HandedBackByHost(version) | Self::Forgotten(version) => Some(version),
            _ => None,
        }
    }
}

/// What became of fires and runs, for the history: true once the plan's transaction is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A run began.
    Started { item: Item, token: Token, run: Running },
    /// A run ended.
    Ended { item: Item, token: Token, run: Running, outcome: Outcome, at: Time, requeued: bool },
    /// `count` scheduled times, `first` to `latest`, were not run on their own.
    Unrun { item: Item, first: Time, latest: Time, count: u64, became: FireResult },
}

/// What became of a scheduled time that was not run on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FireResult {
    /// Merged into a later run.
    Misfired,
    /// Skipped by the job's policy.
    Skipped,
    /// Missed.
    Missed(Missed),
}

/// One change and why, for people: command line, log and golden files print the same text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// What is changed.
    pub item: Item,
    /// Why.
    pub why: String,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "item {}: {}", self.item, self.why)
    }
}

/// What is to be committed, and what it means.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The transaction; empty when there is nothing to do.
    pub txn: Txn,
    /// The records as they are after the commit, with their versions.
    pub records: BTreeMap<Item, (Version, Record)>,
    /// For the history.
    pub entries: Vec<Entry>,
    /// For people; empty unless [`Facts::explain`].
    pub reasons: Vec<Reason>,
    /// Runs of a job without monitorExecution: the record does not hold them, so they are sent once, after the
    /// commit, and are among [`Facts::in_user_code`] from then on.
    pub unmonitored: Vec<(Item, Token, Running)>,
    /// Offsets of runs that go on.
    pub offsets: Vec<(Item, Arc<[u8]>)>,
    /// What waits for a free slot, by instance.
    pub waiting: BTreeMap<InstanceId, Vec<Waiting>>,
    /// When to look again by the calendar, if nothing else happens: the next scheduled time, or when one that waits
    /// becomes too old to wait longer. Later than now.
    pub next: Option<Time>,
    /// There was more to do than one transaction takes: look again at once. `next` and `waiting` are then those
    /// of a part of the items.
    pub more: bool,
}

impl fmt::Display for FireResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misfired => f.write_str("merged into a later run"),
            Self::Skipped => f.write_str("skipped"),
            Self::Missed(reason) => write!(f, "missed ({reason})"),
        }
    }
}

/// Decides what this host does for the job now.
pub fn host(job: &Job, records: &BTreeMap<Item, (Version, Record)>, facts: &Facts<'_>) -> Plan {
    let mut draft = Draft::new(job, records, facts);
    complete::complete(&mut draft);
    crash::crash(&mut draft);
    if !facts.no_starts {
        overdue::overdue(&mut draft);
    }
    progressed::write(&mut draft);
    if facts.no_starts {
        due::look_again(&mut draft);
    } else {
        if due::account(&mut draft) {
            start::start(&mut draft);
        }
        due::look_at_rest(&mut draft);
    }
    draft.finish()
}

/// Decides what this host can start ahead of time: the runs of a scheduled time that is about to come, [`Facts::now`].
/// They are recorded as running since then, and nobody is to be told of them before. Everything else is left to
/// [`host`], at that time.
pub fn ahead(job: &Job, records: &BTreeMap<Item, (Version, Record)>, facts: &Facts<'_>) -> Plan {
    let mut draft = Draft::new(job, records, facts);
    ahead::ahead(&mut draft);
    draft.finish()
}
