//! Hints, which say where to read again, and the queue in which they wait.
//!
//! A hint says where to look, never what is there, so two of the same kind that wait are merged. The queue can
//! therefore hold at most one hint per watched job and needs no bound of its own. Filled by the stores, read by the
//! coordinator.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rosterd_domain::id::JobName;
use tokio::sync::Notify;

use super::paths::{NodeRole, Paths};
use super::tree::Change;

/// The receiving end of a session's hints.
#[derive(Debug)]
pub struct Hints {
    queue: HintQueue,
}

impl Hints {
    /// Hints of a session that is over.
    pub(crate) fn over() -> Self {
        let queue = HintQueue::default();
        queue.close();
        Self { queue }
    }

    /// The next hint, in the order in which they first arrived; `None`: the session is over and all hints were read.
    /// Dropping the future loses nothing.
    pub async fn recv(&mut self) -> Option<Hint> {
        loop {
            {
                let mut waiting = self.queue.lock();
                if let Some(hint) = waiting.pop() {
                    return Some(hint);
                }
                if waiting.closed {
                    return None;
                }
            }
            self.queue.shared.arrived.notified().await;
        }
    }

    /// The next hint, if one waits.
    pub fn try_recv(&mut self) -> Option<Hint> {
        self.queue.lock().pop()
    }
}

/// The sending end, cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct HintQueue {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<PendingHints>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct PendingHints {
    order: VecDeque<Hint>,
    known: BTreeSet<Hint>,
    /// The last session state that was queued.
    state: Option<SessionState>,
    taken: bool,
    closed: bool,
}

impl PendingHints {
    fn pop(&mut self) -> Option<Hint> {
        let hint = self.order.pop_front()?;
        self.known.remove(&hint);
        Some(hint)
    }
}

impl HintQueue {
    /// The receiving end. A second call gets an end that is closed.
    pub(crate) fn take(&self) -> Hints {
        let again = std::mem::replace(&mut self.lock().taken, true);
        if again { Hints::over() } else { Hints { queue: self.clone() } }
    }

    pub(crate) fn push(&self, hint: Hint) {
        let mut waiting = self.lock();
        let new = match hint {
            // States alternate, so only the same state twice in a row is merged.
            Hint::Session(state) => waiting.state.replace(state) != Some(state),
            ref hint => waiting.known.insert(hint.clone()),
        };
        if new && !waiting.closed {
            waiting.order.push_back(hint);
            drop(waiting);
            self.shared.arrived.notify_one();
        }
    }

    /// Closes the queue: no hints follow those that wait.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.shared.arrived.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, PendingHints> {
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hints of a transaction: each once, in the order of the changes. They are not yet filtered by which session
/// watches which job.
pub(crate) fn told(paths: &Paths, changes: &[Change]) -> Vec<Hint> {
    let mut hints: Vec<Hint> = Vec::new();
    let mut known = BTreeSet::new();
    for change in changes {
        let hint = match paths.place(&change.path) {
            // Their data matters only to those that read it, but that they appear or disappear matters to all.
            NodeRole::Job | NodeRole::Coordinator if change.before.is_some() && change.after.is_some() => {
                continue;
            }
            NodeRole::Quiet => continue,
            NodeRole::Job => Hint::Jobs,
            NodeRole::Coordinator => Hint::Coordinators,
            // Fast path: most changes of a transaction are to the same job.
            NodeRole::Decision(job) if is_job(hints.last(), job) => continue,
            NodeRole::Decision(job) => match JobName::new(job) {
                Ok(job) => Hint::Job(job),
                Err(_) => continue,
            },
            NodeRole::Switch(job) => match JobName::new(job) {
                Ok(job) => Hint::Switches(job),
                Err(_) => continue,
            },
            NodeRole::Guarantee(job) => match JobName::new(job) {
                Ok(job) => Hint::Guarantee(job),
                Err(_) => continue,
            },
        };
        if known.insert(hint.clone()) {
            hints.push(hint);
        }
    }
    hints
}

fn is_job(hint: Option<&Hint>, name: &str) -> bool {
    matches!(hint, Some(Hint::Job(job)) if job.as_str() == name)
}

/// What a reader should look at again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hint {
    /// A job was created or removed.
    Jobs,
    /// The decision state of a watched job has changed. Run state (records, `running`) gives no hint.
    Job(JobName),
    /// An item of a watched job was disabled or enabled, by us or by another tool.
    Switches(JobName),
    /// A run of a watched job with guarantees was held, released, or has completed its fire.
    Guarantee(JobName),
    /// A coordinator came or went.
    Coordinators,
    /// The session's state has changed.
    Session(SessionState),
}

impl Hint {
    /// The job that it is about. A session that does not watch this job does not get the hint.
    pub(crate) fn job(&self) -> Option<&JobName> {
        match self {
            Self::Job(job) | Self::Switches(job) | Self::Guarantee(job) => Some(job),
            Self::Jobs | Self::Coordinators | Self::Session(_) => None,
        }
    }
}

/// What the holder of a session may still do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionState {
    /// Connected.
    Connected,
    /// No contact: it must not start anything, but its ephemeral nodes may still exist.
    Suspended,
    /// Over: the ephemeral nodes are gone.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str) -> Hint {
        Hint::Job(JobName::new(name).unwrap())
    }

    #[tokio::test]
    async fn hints_that_wait_are_merged_and_keep_their_order() {
        let queue = HintQueue::default();
        for hint in [job("b"), Hint::Jobs, job("a"), job("b"), Hint::Jobs] {
            queue.push(hint);
        }
        let mut hints = queue.take();
        assert_eq!(hints.recv().await, Some(job("b")));
        queue.push(job("b"));
        let rest: Vec<Hint> = std::iter::from_fn(|| hints.try_recv()).collect();
        assert_eq!(rest, [Hint::Jobs, job("a"), job("b")]);
        queue.close();
        assert_eq!(hints.recv().await, None);
        assert_eq!(queue.take().recv().await, None, "hints can be taken once");
    }

    #[test]
    fn session_states_are_never_reordered() {
        let queue = HintQueue::default();
        use SessionState::{Connected, Suspended};
        for state in [Suspended, Suspended, Connected, Suspended] {
            queue.push(Hint::Session(state));
        }
        let mut hints = queue.take();
        let states: Vec<Hint> = std::iter::from_fn(|| hints.try_recv()).collect();
        assert_eq!(states, [Suspended, Connected, Suspended].map(Hint::Session));
    }
}
