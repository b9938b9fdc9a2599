//! What goes wrong between a coordinator and the store: slow steps, lost requests, lost replies, refusals, and a
//! coordinator that dies right after a write.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rosterd::registry::Hint;
use rosterd::registry::memory::{CommitFault, Faults, HintFault, Step};
use rosterd_domain::txn::Txn;

use crate::coverage::Coverage;
use crate::rng::Rng;

/// In so many of a thousand commits.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    pub lose_before: u64,
    pub lose_after: u64,
    pub refuse: u64,
    /// A step takes long, and how long at most (milliseconds).
    pub slow: (u64, u64),
    /// A read is answered with an error.
    pub read_fails: u64,
}

/// One fault at one place: the write number `at` of the coordinators, counted over all sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forced {
    None,
    LoseAfter(u64),
    LoseBefore(u64),
}

/// The store's faults.
#[derive(Clone)]
pub struct Chaos(Arc<Mutex<Inner>>);

struct Inner {
    rng: Rng,
    rates: Rates,
    forced: Forced,
    writes: u64,
    reads: u64,
    coverage: Coverage,
}

impl Chaos {
    pub fn new(rng: Rng, coverage: Coverage) -> Self {
        let (rates, forced) = (Rates::default(), Forced::None);
        let inner = Inner { rng, rates, forced, writes: 0, reads: 0, coverage };
        Self(Arc::new(Mutex::new(inner)))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, rates: Rates) {
        self.lock().rates = rates;
    }

    pub fn force(&self, forced: Forced) {
        self.lock().forced = forced;
    }

    /// How many reads were asked for.
    pub fn reads(&self) -> u64 {
        self.lock().reads
    }

    /// How many writes were handed over.
    pub fn writes(&self) -> u64 {
        self.lock().writes
    }
}

impl Faults for Chaos {
    fn on_commit(&self, _session: &str, txn: &Txn) -> CommitFault {
        let mut inner = self.lock();
        inner.writes += 1;
        let (rates, number, forced) = (inner.rates, inner.writes, inner.forced);
        let fault = match forced {
            Forced::LoseAfter(at) if at == number => CommitFault::LoseAfter,
            Forced::LoseBefore(at) if at == number => CommitFault::LoseBefore,
            _ if inner.rng.permille(rates.lose_before) => CommitFault::LoseBefore,
            _ if inner.rng.permille(rates.lose_after) => CommitFault::LoseAfter,
            _ if inner.rng.permille(rates.refuse) => CommitFault::Refuse("no space left".into()),
            _ => CommitFault::None,
        };
        let word = match &fault {
            CommitFault::None => return fault,
            CommitFault::LoseBefore => "request lost",
            CommitFault::LoseAfter => "reply lost",
            CommitFault::Refuse(_) => "write refused",
        };
        inner.coverage.count(format!("fault: {word}"));
        inner.coverage.count(format!("{word}: {}", txn.purpose));
        fault
    }

    fn on_read(&self, _session: &str, _read: &'static str) -> Option<String> {
        let mut inner = self.lock();
        inner.reads += 1;
        let rate = inner.rates.read_fails;
        let fails = inner.rng.permille(rate);
        if fails {
            inner.coverage.count("fault: read failed");
        }
        fails.then(|| "nobody answers".into())
    }

    fn on_hint(&self, _session: &str, _hint: &Hint) -> HintFault {
        let mut inner = self.lock();
        let (often, longest) = inner.rates.slow;
        if inner.rng.permille(often) {
            return HintFault::Delay(inner.rng.millis(1, longest));
        }
        HintFault::Delay(inner.rng.millis(1, 3))
    }

    /// A reply always takes some time, so that a coordinator can die between a write and its reply.
    fn delay(&self, _session: &str, _step: Step) -> Option<Duration> {
        let mut inner = self.lock();
        let (often, longest) = inner.rates.slow;
        if inner.rng.permille(often) {
            inner.coverage.count("fault: slow store");
            return Some(inner.rng.millis(1, longest));
        }
        Some(inner.rng.millis(1, 3))
    }
}
