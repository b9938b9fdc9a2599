//! Where a test can interfere with the in-memory store, and where it can observe it.
//!
//! Called by the store only. All but the observer are called while the store is not locked.

use std::time::Duration;

use rosterd_domain::id::Revision;
use rosterd_domain::txn::Txn;

use crate::{Hint, View};

/// What happens to one commit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CommitFault {
    /// Nothing out of the ordinary.
    #[default]
    None,
    /// The request is lost: never applied, answered `Unknown`.
    LoseBefore,
    /// The reply is lost: applied if its guards hold, answered `Unknown`.
    LoseAfter,
    /// Not applied, answered `Unavailable` with this text.
    Refuse(String),
}

/// What happens to one hint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum HintFault {
    /// It is delivered at once.
    #[default]
    None,
    /// It is delivered later.
    Delay(Duration),
    /// It is never delivered.
    Lose,
}

/// What can be delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreStep {
    /// From handing a transaction over until it is applied.
    Commit,
    /// From when it is applied until it is answered.
    Reply,
    /// From the request until the read.
    Read,
}

/// The faults of a simulation. Called with the session's name; takes `&self`, and answers from a seed.
pub trait Faults: Send + Sync + 'static {
    /// Asked once per transaction, when it is handed over.
    fn on_commit(&self, _session: &str, _txn: &Txn) -> CommitFault {
        CommitFault::None
    }

    /// Asked once per read; `Some`: the read is `Unavailable`, with this text.
    fn on_read(&self, _session: &str, _read: &'static str) -> Option<String> {
        None
    }

    /// Asked once per hint and session.
    fn on_hint(&self, _session: &str, _hint: &Hint) -> HintFault {
        HintFault::None
    }

    /// How long a step takes; `None`: no time at all. A delayed commit or hint needs a tokio runtime. Commits
    /// of one session are applied in the order they were handed over, whatever their delays.
    fn delay(&self, _session: &str, _step: StoreStep) -> Option<Duration> {
        None
    }
}

/// No faults.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFaults;

impl Faults for NoFaults {}

/// Why the tree has changed.
#[derive(Debug, Clone, Copy)]
pub enum Cause<'a> {
    /// This transaction was applied.
    Txn(&'a Txn),
    /// The session ended, and its ephemeral nodes went.
    SessionEnd,
    /// A write by a foreign tool.
    Foreign,
}

/// What the observer sees, after each change and before any hint of it is delivered.
pub struct Seen<'a> {
    /// The number of the change.
    pub revision: Revision,
    /// The session that made it.
    pub session: &'a str,
    /// Why it was made.
    pub cause: Cause<'a>,
    /// The tree after it.
    pub view: View<'a>,
}

/// Observes every change. It is called under the store's lock: it may read the view and may panic, but must not call
/// the store.
pub type Observer = Box<dyn FnMut(&Seen<'_>) + Send>;
