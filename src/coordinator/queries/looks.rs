//! State shared by reads of many jobs.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rosterd_domain::id::JobName;
use rosterd_domain::snapshot::Snapshot;
use rosterd_domain::view::Job;
use tokio::sync::Mutex as Turn;

use crate::queries::rows::JobRow;

/// The shared state.
#[derive(Default)]
pub(crate) struct Looks {
    pub(crate) turn: Turn<Listed>,
    /// How many reads of the list of all jobs have started.
    pub(crate) begun: AtomicU64,
    /// Jobs as they were decoded last: a job is read far more often than it changes.
    decoded: Mutex<BTreeMap<JobName, Arc<Job>>>,
}

/// The last list of all jobs.
#[derive(Default)]
pub(crate) struct Listed {
    /// The number of its read, from 1.
    pub(crate) number: u64,
    pub(crate) rows: Arc<Vec<JobRow>>,
}

/// A stored job, decoded, or why that failed; `None`: it is being removed.
pub(crate) type Decoded = Result<Option<Arc<Job>>, String>;

impl Looks {
    pub(crate) fn decoded(&self) -> MutexGuard<'_, BTreeMap<JobName, Arc<Job>>> {
        self.decoded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn decode(&self, name: &JobName, snapshot: &Snapshot) -> Decoded {
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
