//! A host's decision: the transaction to commit, its consequences for the history, and the reasons.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::waiting::Waiting;
use crate::id::{InstanceId, Item, Token};
use crate::item::{Missed, Outcome, Records, Running};
use crate::time::Time;
use crate::txn::Txn;

/// Results of fires and runs, for the history: true once the plan's transaction is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A run was started.
    Started { item: Item, token: Token, run: Running },
    /// A run ended.
    Ended { item: Item, token: Token, run: Running, outcome: Outcome, at: Time, requeued: bool },
    /// `count` scheduled times, `first` to `latest`, had no run of their own.
    NotRun { item: Item, first: Time, latest: Time, count: u64, result: FireResult },
}

/// The result of a scheduled time that had no run of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FireResult {
    /// Merged into a later run.
    Misfired,
    /// Skipped by the job's policy.
    Skipped,
    /// Missed.
    Missed(Missed),
}

/// One change and its reason, for people: command line, log and golden files print the same text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The item that changes.
    pub item: Item,
    /// Why.
    pub why: String,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "item {}: {}", self.item, self.why)
    }
}

/// What to commit, and its consequences.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The transaction; empty when there is nothing to do.
    pub txn: Txn,
    /// The records as they are after the commit, with their versions.
    pub records: Records,
    /// For the history.
    pub entries: Vec<Entry>,
    /// For people; empty unless [`super::Facts::explain`].
    pub reasons: Vec<Reason>,
    /// Runs of a job without monitorExecution: the record does not hold them, so they are sent once, after the commit,
    /// and are then among [`super::Facts::in_user_code`].
    pub unmonitored: Vec<(Item, Token, Running)>,
    /// Offsets of runs that continue.
    pub offsets: Vec<(Item, Arc<[u8]>)>,
    /// The items that wait for a free slot, by instance.
    pub waiting: BTreeMap<InstanceId, Vec<Waiting>>,
    /// When to plan again if nothing else happens: at the next scheduled time, or when a waiting one becomes too old to
    /// wait longer. Later than now.
    pub next: Option<Time>,
    /// There was more to do than fits in one transaction: plan again at once. `next` and `waiting` then cover only some
    /// of the items.
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
