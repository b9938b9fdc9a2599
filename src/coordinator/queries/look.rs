//! Reads many jobs. Some are read ahead, so that the store's thread answers several at each turn; configurations are
//! decoded only if they changed since the last time. One reader runs at a time, the others wait in line, so that firing
//! shares the store with only one of them. Readers of a few jobs need not wait.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use rosterd_domain::id::JobName;
use rosterd_domain::snapshot::{JobNodes, Snapshot};
use rosterd_registry::Read;
use rosterd_session::code::Refusal;
use tokio::sync::MutexGuard as TurnGuard;

use crate::handle::{Handle, JobRow};
use crate::queries::looks::{Decoded, Listed};
use crate::queries::views::unreadable;

/// How many jobs are read together: at most a millisecond of the store's thread. For up to this number no turn is
/// needed.
const TOGETHER: usize = 16;

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

    /// All jobs, by name. A caller that waited gets the result of another if that was started after the caller asked.
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

    /// Applies a function to each of these jobs that exists, in their order.
    pub(crate) async fn look<T>(
        &self,
        names: &[JobName],
        see: impl FnMut(&JobName, &Snapshot, &Decoded) -> T,
    ) -> Result<Vec<T>, Refusal> {
        let _turn = self.turn(names).await;
        self.look_in_turn(names, see).await
    }

    /// The same, without the items' records, and undecoded.
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
