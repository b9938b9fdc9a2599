//! An acknowledged change is a barrier: it is answered once every run that was written before it has started or is
//! over, so that nothing that the change forbids starts afterwards.
//!
//! Starts that are decided after the change are refused by the generation. Runs that were written before it, and were
//! sent ahead of time or are still on their way, are awaited: if the worker is attached here, until it reports the
//! start; if not, until its host removes a command.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::{Item, Token};
use rosterd_domain::txn::Txn;

use crate::io::operation::{Change, Target};

/// The runs that an operation waits for before it is executed or answered.
#[derive(Debug, Clone)]
pub(crate) struct Barrier {
    target: Target,
    /// `None`: the operation is executed once the barrier is passed.
    answer: Option<Change>,
    /// Runs that may not have started, and whether their host was asked by a command; `None`: not determined yet.
    runs: Option<BTreeMap<(Item, Token), bool>>,
    /// Runs that were awaited and have started.
    counted: BTreeSet<(Item, Token)>,
}

impl Barrier {
    /// Creates a barrier that an operation waits for before it is executed.
    pub(crate) fn before(target: Target) -> Self {
        Self { target, answer: None, runs: None, counted: BTreeSet::new() }
    }

    /// Creates a barrier that an executed operation waits for before it is answered.
    pub(crate) fn after(target: Target, answer: Change) -> Self {
        Self { answer: Some(answer), ..Self::before(target) }
    }

    /// Whether the operation is executed once the barrier is passed.
    pub(crate) fn is_before(&self) -> bool {
        self.answer.is_none()
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Whether the runs were determined.
    pub(crate) fn has_looked(&self) -> bool {
        self.runs.is_some()
    }

    /// Adds runs that may not have started, unless they were counted as started. No host was asked about a new one yet.
    pub(crate) fn found(&mut self, running: impl IntoIterator<Item = (Item, Token)>) {
        let runs = self.runs.get_or_insert_default();
        for run in running.into_iter().filter(|run| !self.counted.contains(run)) {
            runs.entry(run).or_insert(false);
        }
    }

    /// Takes the awaited runs for a check. The caller puts back those that are still awaited.
    pub(crate) fn take_runs(&mut self) -> BTreeMap<(Item, Token), bool> {
        self.runs.take().unwrap_or_default()
    }

    pub(crate) fn put_back_runs(&mut self, left: BTreeMap<(Item, Token), bool>) {
        self.runs = Some(left);
    }

    /// Counts a run as started from now on.
    pub(crate) fn has_begun(&mut self, run: (Item, Token)) {
        self.counted.insert(run);
    }

    /// No host was asked: the runs are determined again.
    pub(crate) fn anew(self) -> Self {
        Self { runs: None, ..self }
    }

    /// The answer if the job was removed, and all runs with it.
    pub(crate) fn answer(self) -> Option<Change> {
        self.answer
    }
}

/// Whether all runs have started or are over.
pub(crate) enum Passed {
    No,
    /// Hosts elsewhere have to be asked first.
    Asks(Txn),
    Yes(Option<Change>),
}
