//! Which jobs are looked at next: those that something happened to, before their turn; and not those of which nobody
//! wants to know anything.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rosterd_domain::id::JobName;
use tokio::sync::Notify;

/// Jobs that may wait to be looked at before their turn: of more, all are looked at.
const HINTED: usize = 10_000;
/// A job of which nobody wants to know anything is looked at all the same after so many rounds.
const PLAIN_FOR: u32 = 60;

/// What is looked at next.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    listed: Mutex<Listed>,
    hinted: Notify,
}

#[derive(Debug, Default)]
struct Listed {
    /// Jobs that are looked at before their turn.
    hinted: BTreeSet<JobName>,
    /// All jobs are.
    all: bool,
    /// Jobs of which nobody wants to know anything: they are passed over until they change, or for some time.
    plain: BTreeSet<JobName>,
    /// For how many rounds.
    rounds: u32,
}

impl Agenda {
    fn listed(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened to a job.
    pub(crate) fn hint(&self, job: &JobName) {
        let mut listed = self.listed();
        if listed.hinted.len() < HINTED {
            listed.hinted.insert(job.clone());
        } else {
            listed.all = true;
        }
        drop(listed);
        self.hinted.notify_one();
    }

    /// Something happened that may concern any job.
    pub(crate) fn hint_all(&self) {
        self.listed().all = true;
        self.hinted.notify_one();
    }

    /// A job is another than before.
    pub(crate) fn changed(&self, job: &JobName) {
        self.listed().plain.remove(job);
        self.hint(job);
    }

    /// Waits until something happened to a job.
    pub(crate) async fn hinted(&self) {
        self.hinted.notified().await;
    }

    /// Takes the jobs that something happened to; `None`: all of them are to be looked at.
    pub(crate) fn take_hinted(&self) -> Option<BTreeSet<JobName>> {
        let mut listed = self.listed();
        let hinted = std::mem::take(&mut listed.hinted);
        (!std::mem::take(&mut listed.all)).then_some(hinted)
    }

    /// All jobs have their turn.
    pub(crate) fn begin_round(&self) {
        let mut listed = self.listed();
        (listed.hinted, listed.all) = (BTreeSet::new(), false);
        listed.rounds += 1;
        if listed.rounds >= PLAIN_FOR {
            (listed.plain, listed.rounds) = (BTreeSet::new(), 0);
        }
    }

    /// Nobody wants to know anything of a job.
    pub(crate) fn found_plain(&self, job: JobName) {
        self.listed().plain.insert(job);
    }

    /// The jobs of which nobody wants to know anything.
    pub(crate) fn plain(&self) -> BTreeSet<JobName> {
        self.listed().plain.clone()
    }
}
