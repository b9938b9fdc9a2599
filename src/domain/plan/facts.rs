//! What a host knows beyond the registry: its instances, their reports, and the limits of a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::waiting::Waiting;
use crate::id::{InstanceId, Item, Token, Version, WorkerId};
use crate::item::Outcome;
use crate::time::Time;

/// What a host knows beyond the registry.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The current time, by the coordinator's clock.
    pub now: Time,
    /// Tokens up to this one may have been given, whatever the records say: the store may have been restored from an older
    /// state.
    pub given: Token,
    /// Nothing may start: the clock is off, the registry is suspended, or the host is draining.
    pub no_starts: bool,
    /// When this coordinator started: older scheduled times that were not dispatched were missed while it was down.
    pub up_since: Time,
    /// Since when the host has been responsible for an item, if that is later than `up_since`.
    pub gained: &'a BTreeMap<Item, Time>,
    /// The instances of this job whose streams end here.
    pub hosted: &'a BTreeMap<InstanceId, Hosted>,
    /// Reports to be committed.
    pub reports: &'a BTreeMap<Item, Report>,
    /// The progress of runs in flight, as their workers reported it.
    pub progressed: &'a BTreeMap<Item, Progressed>,
    /// Whether progress is to be written now; otherwise it waits for the run's end.
    pub writes_progressed: bool,
    /// Workers that are certainly dead: their attachment is gone.
    pub dead: &'a BTreeSet<WorkerId>,
    /// Items whose user code is executing although no record holds the run: their job has no monitorExecution, or had none
    /// when the run started, or the run was taken away at its timeout.
    pub in_user_code: &'a BTreeSet<Item>,
    /// A last fire later than this was written by a wrong clock.
    pub furthest_last_fire: Time,
    /// How long after its timeout a run is taken away from its worker.
    pub timeout_grace: Duration,
    /// The largest number of records that one transaction writes.
    pub most_writes: usize,
    /// Whether the plan's reasons will be read.
    pub explain: bool,
}

/// An instance of the job whose stream ends at this host.
#[derive(Debug, Clone)]
pub struct Hosted {
    /// Its worker.
    pub worker: WorkerId,
    /// The version of the worker's attachment that this host wrote.
    pub attachment: Version,
    /// Whether it may get runs: it has its lease, and is neither draining nor disabled.
    pub ready: bool,
    /// Free slots, over all its jobs. A slot whose run's report is yet to be committed is not free.
    pub free: u32,
    /// Items of other jobs that wait for the same worker, in their order; at most `free` of them.
    pub others: Vec<Waiting>,
}

/// A worker's report of a run's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The run.
    pub token: Token,
    /// The worker that reports.
    pub worker: WorkerId,
    /// How the run ended.
    pub ended: Reported,
    /// The item's new offset.
    pub offset: Option<Arc<[u8]>>,
}

/// The progress of a run in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progressed {
    /// The run.
    pub token: Token,
    /// The worker that reports it.
    pub worker: WorkerId,
    /// The item's offset at that point.
    pub offset: Arc<[u8]>,
}

/// How a worker may report a run's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reported {
    /// The handler ended, with this outcome.
    Done(Outcome),
    /// Stopped because the lease ended or the run was fenced.
    Aborted,
    /// The trigger arrived, but user code never started.
    NotStarted,
    /// The worker had to shut down before the run's end.
    HandedBack,
    /// The worker said goodbye to this host, which reports for the worker that is attached at this version.
    HandedBackByHost(Version),
    /// The worker, attached here at this version, was sent the run repeatedly and never listed it.
    Forgotten(Version),
    /// The run was never sent: it was held, and its announcement was not answered in time, or it was cancelled. One
    /// that was released meanwhile continues.
    Skipped,
}

impl Reported {
    /// Whether its worker reported it, and waits for the acknowledgement.
    pub fn is_of_worker(self) -> bool {
        !matches!(self, Self::HandedBackByHost(_) | Self::Forgotten(_) | Self::Skipped)
    }

    /// Whether the host reports it for a worker that left, rather than the worker itself.
    pub fn is_left(self) -> bool {
        matches!(self, Self::HandedBackByHost(_))
    }

    /// The version of the worker's attachment under which its host reports for it.
    pub fn spoken_for(self) -> Option<Version> {
        match self {
            Self::HandedBackByHost(version) | Self::Forgotten(version) => Some(version),
            _ => None,
        }
    }
}
