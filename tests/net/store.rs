//! Faults between a coordinator and the store: slow steps, lost requests and replies. The world decides when it is
//! unreachable.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rosterd_domain::txn::Txn;
use rosterd_registry::memory::{CommitFault, Faults, StoreStep};

use crate::oracle::coverage::Coverage;
use crate::rng::Rng;

/// The faults, and when each session was last active. Cheap to clone.
#[derive(Clone)]
pub struct StoreFaults {
    coverage: Coverage,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    rng: Rng,
    /// Per thousand transactions, how many are lost before and after they are applied, and how many steps are slow.
    rates: (u64, u64, u64),
    heard: BTreeMap<String, Duration>,
}

impl StoreFaults {
    pub fn new(rng: Rng, coverage: Coverage) -> Self {
        let inner = Inner { rng, rates: (0, 0, 0), heard: BTreeMap::new() };
        Self { coverage, inner: Arc::new(Mutex::new(inner)) }
    }

    /// Sets these rates from now on.
    pub fn set(&self, lost: u64, answers_lost: u64, slow: u64) {
        self.lock().rates = (lost, answers_lost, slow);
    }

    /// A transaction of this session was applied.
    pub fn applied(&self, session: &str, at: Duration) {
        self.lock().heard.insert(session.to_owned(), at);
    }

    /// When that was last.
    pub fn heard(&self, session: &str) -> Option<Duration> {
        self.lock().heard.get(session).copied()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Faults for StoreFaults {
    fn on_commit(&self, _session: &str, _txn: &Txn) -> CommitFault {
        let mut inner = self.lock();
        let (lost, answers_lost, _) = inner.rates;
        if inner.rng.permille(lost) {
            self.coverage.count("fault: transaction lost");
            return CommitFault::LoseBefore;
        }
        if inner.rng.permille(answers_lost) {
            self.coverage.count("fault: answer of the store lost");
            return CommitFault::LoseAfter;
        }
        CommitFault::None
    }

    fn delay(&self, _session: &str, _step: StoreStep) -> Option<Duration> {
        let mut inner = self.lock();
        let slow = inner.rates.2;
        if inner.rng.permille(slow) {
            self.coverage.count("fault: slow store");
            return Some(inner.rng.millis(20, 1_500));
        }
        Some(inner.rng.millis(1, 4))
    }
}
