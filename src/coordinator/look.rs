//! Looks at many jobs. Some are read ahead, so that the store's thread answers several at each turn; configurations are decoded
//! only where they changed since the last look. One looks at a time, the others wait in line: however many people ask, what
//! fires shares the store with one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use rosterd_domain::id::JobName;
use rosterd_domain::snapshot::Snapshot;
use rosterd_domain::view::Job;
use rosterd_session::code::Refusal;
use tokio::sync::Semaphore;

use super::handle::Handle;
use super::views::unreadable;

/// Jobs read together: a millisecond of the store's thread at most.
const TOGETHER: usize = 16;

/// What looks share.
pub(crate) struct Looks {
    turn: Semaphore,
    /// Jobs as they were decoded last: a job is looked at far more often than it is changed.
    decoded: Mutex<BTreeMap<JobName, Arc<Job>>>,
}

impl Default for Looks {
    fn default() -> Self {
        Self { turn: Semaphore::new(1), decoded: Mutex::default() }
    }
}

/// A job as it is stored, as it is decoded, or why it cannot be; `None`: it is being removed.
pub(crate) type Decoded = Result<Option<Arc<Job>>, String>;

impl Looks {
    fn decoded(&self) -> MutexGuard<'_, BTreeMap<JobName, Arc<Job>>> {
        self.decoded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decode(&self, name: &JobName, snapshot: &Snapshot) -> Decoded {
        let before = self.decoded().get(name).cloned();
        let view = Job::decode_after(name, snapshot.nodes.clone(), before.as_deref());
        let view = view.map(|view| view.map(Arc::new));
        match &view {
            Ok(Some(view)) => drop(self.decoded().insert(name.clone(), view.clone())),
            _ => drop(self.decoded().remove(name)),
        }
        view
    }
}

impl Handle {
    /// The names of all jobs.
    pub async fn names(&self) -> Result<BTreeSet<JobName>, Refusal> {
        let names = self.inner.registry.jobs().await.map_err(unreadable)?;
        self.inner.looks.decoded().retain(|name, _| names.contains(name));
        Ok(names)
    }

    /// What is seen of each of these jobs that is there, in their order.
    pub(crate) async fn look<T>(
        &self,
        names: &[JobName],
        mut see: impl FnMut(&JobName, &Snapshot, &Decoded) -> T,
    ) -> Result<Vec<T>, Refusal> {
        // Never closed.
        let _turn = self.inner.looks.turn.acquire().await;
        let mut seen = Vec::with_capacity(names.len());
        for part in names.chunks(TOGETHER) {
            let reads = join_all(part.iter().map(|name| self.inner.registry.snapshot(name))).await;
            for (name, read) in part.iter().zip(reads) {
                if let Some(snapshot) = read.map_err(unreadable)? {
                    seen.push(see(name, &snapshot, &self.inner.looks.decode(name, &snapshot)));
                }
            }
        }
        Ok(seen)
    }
}
