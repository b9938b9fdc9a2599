//! Where a test may interfere with the store in memory, and where it may watch.
//!
//! Called by the store only. None of these is called while the store is locked, except the observer.

use std::time::Duration;

use rosterd_domain::id::Revision;
use rosterd_domain::txn::Txn;

use crate::{Hint, View};

/// What is to happen to one commit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CommitFault {
    /// Nothing out of the ordinary.
    #[default]
    None,
    /// The request is lost: never applied, answered `Unknown`.
    LoseBefore,
    /// The reply is lost: applied if it holds, answered `Unknown`.
    LoseAfter,
    /// Not applied, answered `Unavailable` with this text.
    Refuse(String),
}

/// What is to happen to one hint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum HintFault {
    /// It is given at once.
    #[default]
    None,
    /// It is given later.
    Delay(Duration),
    /// It is never given.
    Lose,
}

/// What a delay is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// From handing a transaction over to its being applied.
    Commit,
    /// From its being applied to its answer.
    Reply,
    /// From asking to reading.
    Read,
}

/// The faults of a simulation. Asked with the session's name; a `&self` that answers from a seed.
pub trait Faults: Send + Sync + 'static {
    /// Asked once per transaction, when it is handed over.
    fn on_commit(&self, _session: &str, _txn: &Txn) -> CommitFault {
        CommitFault::None
    }

    /// Asked once per read; a text: the read is `Unavailable`.
    fn on_read(&self, _session: &str, _read: &'static str) -> Option<String> {
        None
    }

    /// Asked once per hint and session.
    fn on_hint(&self, _session: &str, _hint: &Hint) -> HintFault {
        HintFault::None
    }

    /// How long a step takes; `None`: no time at all. A delayed commit or hint needs a tokio runtime. Commits
    /// of one session are applied in the order they were handed over, whatever their delays.
    fn delay(&self, _session: &str, _step: Step) -> Option<Duration> {
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
    /// A foreign tool's hand.
    Foreign,
}

/// What the observer sees, after each change and before anybody is told of it.
pub struct Seen<'a> {
    /// The number of the change.
    pub revision: Revision,
    /// Whose it is.
    pub session: &'a str,
    /// What it is.
    pub cause: Cause<'a>,
    /// The tree after it.
    pub view: View<'a>,
}

/// Watches every change. It is called under the store's lock: it may read the view and may panic, but must
/// not call the store.
pub type Observer = Box<dyn FnMut(&Seen<'_>) + Send>;
