//! Every spawned task has a kind, a name and an owner: a [`Tasks`], which knows what the end of each means.
//!
//! | kind | a panic | an end before shutdown |
//! | --- | --- | --- |
//! | Essential | the process ends, non-zero | the same |
//! | Restartable | logged, begun again after a pause | the same |
//! | Session | logged and counted; what it served is over | nothing: it was done |
//!
//! Nothing dies silently, and nothing is detached: at shutdown the phases end one after the other, the edge
//! first, and a task that is still there at its phase's deadline is aborted and named in the log.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

/// When a task is asked to stop: in this order, each phase after the one before has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShutdownPhase {
    /// Listeners and conversations.
    Edge,
    /// What decides.
    Work,
    /// What stores.
    Store,
}

impl ShutdownPhase {
    /// All, in the order in which they end.
    pub const ALL: [Self; 3] = [Self::Edge, Self::Work, Self::Store];
}

/// What a task's end means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskKind {
    Essential,
    Restartable,
    Session,
}

/// An essential task ended: the process cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the task {task} ended: {why}")]
pub struct Failure {
    /// Its name.
    pub task: &'static str,
    /// What was seen.
    pub why: String,
}

/// Owns tasks. Cheap to clone.
#[derive(Clone)]
pub struct Tasks {
    inner: Arc<Inner>,
}

struct Inner {
    stops: [CancellationToken; 3],
    running: Mutex<BTreeMap<u64, (ShutdownPhase, &'static str, AbortHandle)>>,
    changed: watch::Sender<u64>,
    next: AtomicU64,
    panics: AtomicU64,
    failed: watch::Sender<Option<Failure>>,
    restart_pause: Duration,
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new(Duration::from_secs(1))
    }
}

impl Tasks {
    /// No tasks yet; a restartable task that ended begins again after `restart_pause`.
    pub fn new(restart_pause: Duration) -> Self {
        Self {
            inner: Arc::new(Inner {
                stops: std::array::from_fn(|_| CancellationToken::new()),
                running: Mutex::new(BTreeMap::new()),
                changed: watch::Sender::new(0),
                next: AtomicU64::new(0),
                panics: AtomicU64::new(0),
                failed: watch::Sender::new(None),
                restart_pause,
            }),
        }
    }

    /// Cancelled when the tasks of the phase are to stop. Essential tasks and sessions watch it themselves.
    pub fn stop(&self, phase: ShutdownPhase) -> CancellationToken {
        self.inner.stops[phase as usize].clone()
    }

    /// A task without which the process is of no use.
    pub fn essential<F>(&self, phase: ShutdownPhase, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (inner, stop) = (self.inner.clone(), self.stop(phase));
        self.spawn(phase, name, async move {
            let ended = AssertUnwindSafe(task).catch_unwind().await;
            if ended.is_ok() && stop.is_cancelled() {
                return;
            }
            let why = ended.map_or_else(
                |panic| inner.panicked(TaskKind::Essential, name, &panic),
                |()| "it was not asked to".to_owned(),
            );
            tracing::error!(task = name, why, "an essential task ended: the process stops");
            inner.failed.send_if_modified(|failed| {
                let first = failed.is_none();
                failed.get_or_insert(Failure { task: name, why });
                first
            });
        });
    }

    /// A task that can begin anew at any time, and be dropped wherever it waits when its phase ends.
    pub fn restartable<M, F>(&self, phase: ShutdownPhase, name: &'static str, mut make: M)
    where
        M: FnMut() -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let (inner, stop) = (self.inner.clone(), self.stop(phase));
        self.spawn(phase, name, async move {
            loop {
                let ended = tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    ended = AssertUnwindSafe(async { make().await }).catch_unwind() => ended,
                };
                match ended {
                    Ok(()) => tracing::warn!(task = name, "a task ended; it begins again"),
                    Err(panic) => drop(inner.panicked(TaskKind::Restartable, name, &panic)),
                }
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(inner.restart_pause) => {}
                }
            }
        });
    }

    /// A task that serves one conversation or request and is done with it.
    pub fn session<F>(&self, phase: ShutdownPhase, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let inner = self.inner.clone();
        self.spawn(phase, name, async move {
            if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                inner.panicked(TaskKind::Session, name, &panic);
            }
        });
    }

    fn spawn(
        &self,
        phase: ShutdownPhase,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let inner = self.inner.clone();
        let id = inner.next.fetch_add(1, Ordering::Relaxed);
        let gone = Gone { id, inner: inner.clone() };
        // Registered under the lock, so that a task that ends at once is not registered after its end.
        let mut running = inner.running.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = tokio::spawn(async move {
            let _gone = gone;
            task.await;
        });
        running.insert(id, (phase, name, handle.abort_handle()));
    }

    /// How many tasks have panicked.
    pub fn panics(&self) -> u64 {
        self.inner.panics.load(Ordering::Relaxed)
    }

    /// The names of the tasks that run, in the order of their start.
    pub fn running(&self, phase: ShutdownPhase) -> Vec<&'static str> {
        let running = self.inner.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.values().filter(|(of, ..)| *of == phase).map(|(_, name, _)| *name).collect()
    }

    /// Returns once an essential task has ended. Whoever awaits this ends the process with a non-zero code.
    pub async fn failed(&self) -> Failure {
        let mut failed = self.inner.failed.subscribe();
        loop {
            if let Some(failure) = failed.borrow_and_update().clone() {
                return failure;
            }
            if failed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Asks the tasks of a phase to stop, waits for them until `deadline` has passed, then aborts the rest.
    /// Says which had to be aborted.
    pub async fn end(&self, phase: ShutdownPhase, deadline: Duration) -> Vec<&'static str> {
        self.stop(phase).cancel();
        let mut changed = self.inner.changed.subscribe();
        let all_gone = async {
            loop {
                changed.borrow_and_update();
                if self.running(phase).is_empty() || changed.changed().await.is_err() {
                    return;
                }
            }
        };
        if tokio::time::timeout(deadline, all_gone).await.is_ok() {
            return Vec::new();
        }
        let late = self.running(phase);
        tracing::warn!(?phase, tasks = ?late, "tasks did not stop in time and are aborted");
        for (of, _, handle) in self.inner.running.lock().unwrap_or_else(PoisonError::into_inner).values() {
            if *of == phase {
                handle.abort();
            }
        }
        late
    }
}

impl Inner {
    fn panicked(&self, kind: TaskKind, task: &'static str, panic: &Box<dyn Any + Send>) -> String {
        self.panics.fetch_add(1, Ordering::Relaxed);
        let why = format!("it panicked: {}", panic_text(&**panic));
        tracing::error!(task, ?kind, why, "a task panicked: this is a defect, report it");
        why
    }
}

/// What a panic said.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

struct Gone {
    id: u64,
    inner: Arc<Inner>,
}

impl Drop for Gone {
    fn drop(&mut self) {
        self.inner.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        self.inner.changed.send_modify(|n| *n = n.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_an_essential_task_is_a_failure_with_its_name() {
        let tasks = Tasks::default();
        tasks.essential(ShutdownPhase::Work, "planner", async { panic!("boom") });
        let failure = tasks.failed().await;
        assert_eq!(failure.to_string(), "the task planner ended: it panicked: boom");
        assert_eq!(tasks.panics(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_restartable_task_begins_again_until_its_phase_ends() {
        let tasks = Tasks::default();
        let (begun, mut count) = watch::channel(0);
        tasks.restartable(ShutdownPhase::Work, "sweep", move || {
            begun.send_modify(|n| *n += 1);
            async { panic!("again") }
        });
        count.wait_for(|n| *n == 3).await.unwrap();
        assert!(tasks.end(ShutdownPhase::Work, Duration::from_secs(1)).await.is_empty());
        assert!(tasks.running(ShutdownPhase::Work).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_stop_is_aborted_and_named() {
        let tasks = Tasks::default();
        let stop = tasks.stop(ShutdownPhase::Edge);
        tasks.session(ShutdownPhase::Edge, "deaf", std::future::pending());
        tasks.essential(ShutdownPhase::Edge, "listener", async move { stop.cancelled().await });
        assert_eq!(tasks.end(ShutdownPhase::Edge, Duration::from_secs(1)).await, ["deaf"]);
        assert!(tasks.failed().now_or_never().is_none(), "a listener that was asked to stop has not failed");
    }
}
