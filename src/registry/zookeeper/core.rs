//! What the parts of one session with the ensemble share.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use rosterd_domain::id::JobName;
use rosterd_runtime::tasks::panic_text;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use zookeeper_client::{Acls, Client, StateWatcher};

use super::existence::ExistenceCache;
use super::life::Life;
use super::options::Backoff;
use super::parts::Sizes;
use super::watch_barrier::WatchBarrier;
use crate::paths::Paths;
use crate::tree::SessionId;
use crate::{Hint, SessionState};

/// What the parts of a session share.
pub(super) struct Core {
    pub(super) paths: Arc<Paths>,
    pub(super) life: Life,
    pub(super) terms: RequestTerms,
    pub(super) session: SessionId,
    /// For reads; `None` once the session is over.
    pub(super) client: Mutex<Option<Client>>,
    pub(super) known: KnownNodes,
    /// How many transactions wait.
    pub(super) waiting: AtomicUsize,
    pub(super) watched: Mutex<BTreeSet<JobName>>,
    pub(super) gate: WatchBarrier,
    pub(super) stopped: CancellationToken,
    /// The states that the client library reports; it does not keep the connection open.
    pub(super) states: StateWatcher,
}

/// What applies to each request.
pub(super) struct RequestTerms {
    pub(super) acls: Acls<'static>,
    /// How long it may wait and take.
    pub(super) limit: Duration,
    pub(super) backoff: Backoff,
    /// Bytes that the chroot adds to every path.
    pub(super) chroot_bytes: usize,
}

/// What is known of the ensemble's nodes.
pub(super) struct KnownNodes {
    pub(super) existence: Mutex<ExistenceCache>,
    /// The sizes of what was read.
    pub(super) sizes: Mutex<Sizes>,
    /// The last transaction that was acknowledged.
    pub(super) seen: AtomicU64,
}

impl Core {
    pub(super) fn existence(&self) -> MutexGuard<'_, ExistenceCache> {
        self.known.existence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn watched(&self) -> MutexGuard<'_, BTreeSet<JobName>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn client(&self) -> Option<Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn tell(&self, hint: Hint) {
        if hint.job().is_none_or(|job| self.watched().contains(job)) {
            self.life.hints.push(hint);
        }
    }

    /// How often timeouts are checked.
    pub(super) fn tick(&self) -> Duration {
        (self.life.timeout / 40).clamp(Duration::from_millis(5), Duration::from_millis(250))
    }

    /// Runs a part of the session. A part that panics loses its state, and the rest of the session would hang: without
    /// its timekeeper it never ends, without a lane it gets no hints. So all of it ends, as if the servers had ended
    /// it; the panic itself is counted like every other.
    pub(super) fn run_part<F>(self: &Arc<Self>, name: &'static str, part: F) -> AbortHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let core = self.clone();
        let task = tokio::spawn(async move {
            if let Err(panic) = AssertUnwindSafe(part).catch_unwind().await {
                let why = panic_text(&*panic);
                tracing::error!(
                    task = name,
                    why,
                    "a task of the ZooKeeper session panicked, and the session ends: this is a defect, report it"
                );
                core.end();
            }
        });
        task.abort_handle()
    }

    /// The session is over. Everything that still holds its connection drops it.
    pub(super) fn end(&self) {
        self.life.enter(SessionState::Gone);
        self.let_go();
    }

    pub(super) fn let_go(&self) {
        self.stopped.cancel();
        drop(self.client.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
