//! Hints: who is told to look again, and the queue in which hints wait.
//!
//! A hint says where to look, never what is there, so two of the same kind that wait are one. The queue can
//! therefore hold at most one hint per watched job and needs no bound of its own. Filled by the stores, read by
//! the coordinator.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rosterd_domain::id::JobName;
use tokio::sync::Notify;

use super::paths::{Paths, Place};
use super::tree::Change;
use super::{Hint, SessionState};

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

    /// The next hint, in the order in which they first came; `None`: the session is over, and so are its hints.
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
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    order: VecDeque<Hint>,
    known: BTreeSet<Hint>,
    /// The last session state that was queued.
    state: Option<SessionState>,
    taken: bool,
    closed: bool,
}

impl Waiting {
    fn pop(&mut self) -> Option<Hint> {
        let hint = self.order.pop_front()?;
        self.known.remove(&hint);
        Some(hint)
    }
}

impl HintQueue {
    /// The receiving end; who takes it again gets one that is over.
    pub(crate) fn take(&self) -> Hints {
        let again = std::mem::replace(&mut self.lock().taken, true);
        if again { Hints::over() } else { Hints { queue: self.clone() } }
    }

    pub(crate) fn push(&self, hint: Hint) {
        let mut waiting = self.lock();
        let new = match hint {
            // States come in turn: only the same one twice running is one.
            Hint::Session(state) => waiting.state.replace(state) != Some(state),
            ref hint => waiting.known.insert(hint.clone()),
        };
        if new && !waiting.closed {
            waiting.order.push_back(hint);
            drop(waiting);
            self.shared.arrived.notify_one();
        }
    }

    /// No more hints after those that wait.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.shared.arrived.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a transaction tells: each hint once, in the order of the changes. Jobs are not yet filtered by who
/// watches them.
pub(crate) fn told(paths: &Paths, changes: &[Change]) -> Vec<Hint> {
    let mut hints: Vec<Hint> = Vec::new();
    let mut known = BTreeSet::new();
    for change in changes {
        let hint = match paths.place(&change.path) {
            // What stands in these is nobody's concern but of who reads it; that they come and go is everybody's.
            Place::Job | Place::Coordinator if !change.deleted && change.before.is_some() => continue,
            Place::Quiet => continue,
            Place::Job => Hint::Jobs,
            Place::Coordinator => Hint::Coordinators,
            // The same job again, most of the time.
            Place::Decision(job) if is_job(hints.last(), job) => continue,
            Place::Decision(job) => match JobName::new(job) {
                Ok(job) => Hint::Job(job),
                Err(_) => continue,
            },
            Place::Switch(job) => match JobName::new(job) {
                Ok(job) => Hint::Switches(job),
                Err(_) => continue,
            },
            Place::Guarantee(job) => match JobName::new(job) {
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
