//! Looks at many jobs. Some are read ahead, so that the store's thread answers several at each turn; configurations are decoded
//! only where they changed since the last look. One looks at a time, the others wait in line: however many people ask, what
//! fires shares the store with one of them. Who asks for a few jobs need not wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use rosterd_domain::id::JobName;
use rosterd_domain::snapshot::{JobNodes, Snapshot};
use rosterd_domain::view::Job;
use rosterd_session::code::Refusal;
use tokio::sync::{Mutex as Turn, MutexGuard as TurnGuard};

use super::handle::{Handle, JobRow};
use super::views::unreadable;
use rosterd_registry::Read;

/// Jobs read together: a millisecond of the store's thread at most. For no more than that nobody takes a turn.
const TOGETHER: usize = 16;

/// What looks share.
#[derive(Default)]
pub(crate) struct Looks {
    turn: Turn<Listed>,
    /// How many looks at the list of all jobs have begun.
    begun: AtomicU64,
    /// Jobs as they were decoded last: a job is looked at far more often than it is changed.
    decoded: Mutex<BTreeMap<JobName, Arc<Job>>>,
}

/// The list of all jobs as it was looked at last.
#[derive(Default)]
struct Listed {
    /// Which look it was, from 1.
    number: u64,
    rows: Arc<Vec<JobRow>>,
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
        let mut decoded = self.inner.looks.decoded();
        if decoded.len() > names.len() {
            decoded.retain(|name, _| names.contains(name));
        }
        Ok(names)
    }

    /// All jobs, by name. Who waited is told what was looked at meanwhile, if that began after they asked.
    pub async fn jobs(&self) -> Result<Arc<Vec<JobRow>>, Refusal> {
        let looks = &self.inner.looks;
        let asked = looks.begun.load(Ordering::SeqCst);
        let mut listed = looks.turn.lock().await;
        if listed.number <= asked {
            let number = looks.begun.fetch_add(1, Ordering::SeqCst) + 1;
            let names: Vec<JobName> = self.names().await?.into_iter().collect();
            let rows = self.look_in_turn(&names, |name, snapshot, view| self.row_of(name, snapshot, view));
            *listed = Listed { number, rows: Arc::new(rows.await?) };
        }
        Ok(listed.rows.clone())
    }

    /// What is seen of each of these jobs that is there, in their order.
    pub(crate) async fn look<T>(
        &self,
        names: &[JobName],
        see: impl FnMut(&JobName, &Snapshot, &Decoded) -> T,
    ) -> Result<Vec<T>, Refusal> {
        let _turn = self.turn(names).await;
        self.look_in_turn(names, see).await
    }

    /// The same, without what stands for single items, and undecoded.
    pub(crate) async fn look_at_nodes<T>(
        &self,
        names: &[JobName],
        mut see: impl FnMut(&JobName, &JobNodes) -> T,
    ) -> Result<Vec<T>, Refusal> {
        let _turn = self.turn(names).await;
        let registry = &self.inner.registry;
        read_together(names, |name| registry.job(name), |name, nodes| see(name, &nodes)).await
    }

    async fn turn(&self, names: &[JobName]) -> Option<TurnGuard<'_, Listed>> {
        if names.len() > TOGETHER { Some(self.inner.looks.turn.lock().await) } else { None }
    }

    async fn look_in_turn<T>(
        &self,
        names: &[JobName],
        mut see: impl FnMut(&JobName, &Snapshot, &Decoded) -> T,
    ) -> Result<Vec<T>, Refusal> {
        let (registry, looks) = (&self.inner.registry, &self.inner.looks);
        let see = |name: &JobName, snapshot: Snapshot| see(name, &snapshot, &looks.decode(name, &snapshot));
        read_together(names, |name| registry.snapshot(name), see).await
    }
}

async fn read_together<R, T>(
    names: &[JobName],
    read: impl Fn(&JobName) -> Read<Option<R>>,
    mut see: impl FnMut(&JobName, R) -> T,
) -> Result<Vec<T>, Refusal> {
    let mut seen = Vec::with_capacity(names.len());
    for part in names.chunks(TOGETHER) {
        for (name, found) in part.iter().zip(join_all(part.iter().map(&read)).await) {
            seen.extend(found.map_err(unreadable)?.map(|found| see(name, found)));
        }
    }
    Ok(seen)
}
