//! Faults between a coordinator and the store: slow steps, lost requests, lost replies, refusals, and a coordinator
//! that dies right after a write.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rosterd_domain::txn::{Purpose, Txn};
use rosterd_registry::Hint;
use rosterd_registry::memory::{CommitFault, Faults, HintFault, StoreStep};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::oracle::coverage::Coverage;
use crate::rng::Rng;

/// Rates per thousand commits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreFaultRates {
    pub lose_before: u64,
    pub lose_after: u64,
    pub refuse: u64,
    /// A step is slow, and how long it takes at most (milliseconds).
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

/// Writes of one purpose that are slow or lost: those of sessions whose name begins with `of`.
#[derive(Debug, Clone)]
pub struct Hold {
    pub of: String,
    pub purpose: Purpose,
    pub fault: CommitFault,
    pub takes: Duration,
    /// How many of them.
    pub times: u32,
}

/// The store's faults.
#[derive(Clone)]
pub struct StoreFaults(Arc<Mutex<Inner>>);

struct Inner {
    rng: Rng,
    rates: StoreFaultRates,
    forced: Forced,
    holds: Vec<Hold>,
    /// The delay of the write that is being submitted.
    held: Option<Duration>,
    /// The sessions whose hints are delayed, by how much, and until when.
    deaf: Vec<Deaf>,
    /// The session that gets no hints, and until when.
    lost: Option<(String, Instant)>,
    /// Nothing is answered before this.
    stalled: Option<Instant>,
    writes: u64,
    reads: u64,
    coverage: Coverage,
}

/// A session whose hints are delayed.
struct Deaf {
    of: String,
    span: Duration,
    until: Option<Instant>,
    /// When hints in flight are delivered; equal ones are merged with them.
    merged: Option<BTreeMap<(String, Hint), Instant>>,
}

impl StoreFaults {
    pub fn new(rng: Rng, coverage: Coverage) -> Self {
        let (rates, forced) = (StoreFaultRates::default(), Forced::None);
        let (holds, held, deaf, lost, stalled) = (Vec::new(), None, Vec::new(), None, None);
        let inner =
            Inner { rng, rates, forced, holds, held, deaf, lost, stalled, writes: 0, reads: 0, coverage };
        Self(Arc::new(Mutex::new(inner)))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, rates: StoreFaultRates) {
        self.lock().rates = rates;
    }

    pub fn force(&self, forced: Forced) {
        self.lock().forced = forced;
    }

    /// The next writes that match are slow, or lost.
    pub fn hold(&self, hold: Hold) {
        self.lock().holds.push(hold);
    }

    /// How many writes are still to be held.
    pub fn holds(&self) -> u32 {
        self.lock().holds.iter().map(|hold| hold.times).sum()
    }

    /// Stops holding writes.
    pub fn release_held(&self) {
        self.lock().holds.clear();
    }

    /// Sessions with this name prefix get their hints only after `span`.
    pub fn deafen(&self, of: &str, span: Duration) {
        self.lock().deaf.push(Deaf { of: of.to_owned(), span, until: None, merged: None });
    }

    /// The same for a while; `merged`: a hint that equals one in flight is merged with it.
    pub fn deafen_for(&self, of: &str, span: Duration, until: Duration, merged: bool) {
        let (until, merged) = (Some(Instant::now() + until), merged.then(BTreeMap::new));
        self.lock().deaf.push(Deaf { of: of.to_owned(), span, until, merged });
    }

    /// Sessions with this name prefix get no hints for a while, and never those of changes meanwhile.
    pub fn lose_watches(&self, of: &str, until: Duration) {
        self.lock().lost = Some((of.to_owned(), Instant::now() + until));
    }

    /// The store answers nothing for a while.
    pub fn stall(&self, span: Duration) {
        let until = Instant::now() + span;
        let mut inner = self.lock();
        inner.stalled = inner.stalled.max(Some(until));
    }

    /// The store answers again, and delivers all hints at once.
    pub fn recover(&self) {
        let mut inner = self.lock();
        inner.deaf.clear();
        inner.stalled = None;
    }

    /// How many reads were requested.
    pub fn reads(&self) -> u64 {
        self.lock().reads
    }

    /// How many writes were submitted.
    pub fn writes(&self) -> u64 {
        self.lock().writes
    }
}

impl Faults for StoreFaults {
    fn on_commit(&self, session: &str, txn: &Txn) -> CommitFault {
        let mut inner = self.lock();
        inner.writes += 1;
        let is =
            |hold: &&mut Hold| hold.times > 0 && session.starts_with(&hold.of) && hold.purpose == txn.purpose;
        if let Some(hold) = inner.holds.iter_mut().find(is) {
            hold.times -= 1;
            let (takes, fault) = (hold.takes, hold.fault.clone());
            inner.held = Some(takes);
            return fault;
        }
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

    fn on_read(&self, _session: &str, read: &'static str) -> Option<String> {
        let mut inner = self.lock();
        // The read of the store's clock accompanies a write.
        inner.reads += u64::from(read != "clock");
        let rate = inner.rates.read_fails;
        let fails = inner.rng.permille(rate);
        if fails {
            inner.coverage.count("fault: read failed");
        }
        fails.then(|| "nobody answers".into())
    }

    fn on_hint(&self, session: &str, hint: &Hint) -> HintFault {
        let mut inner = self.lock();
        let now = Instant::now();
        inner.deaf.retain(|deaf| deaf.until.is_none_or(|until| now < until));
        let lost = inner.lost.as_ref().is_some_and(|(of, until)| session.starts_with(of) && now < *until);
        if lost && !matches!(hint, Hint::Session(_)) {
            inner.coverage.count("fault: watch lost");
            return HintFault::Lose;
        }
        let deaf = inner.deaf.iter_mut().find(|deaf| session.starts_with(&deaf.of));
        if let (Some(deaf), false) = (deaf, matches!(hint, Hint::Session(_))) {
            let span = deaf.span;
            if let Some(under_way) = &mut deaf.merged {
                let told = under_way.entry((session.to_owned(), hint.clone())).or_insert(now);
                if now < *told {
                    inner.coverage.count("fault: watches merged");
                    return HintFault::Lose;
                }
                *told = now + span;
            }
            inner.coverage.count("fault: watch told late");
            return HintFault::Delay(span);
        }
        let (often, longest) = inner.rates.slow;
        if inner.rng.permille(often) {
            return HintFault::Delay(inner.rng.millis(1, longest));
        }
        HintFault::Delay(inner.rng.millis(1, 3))
    }

    /// A reply always takes some time, so that a coordinator can die between a write and its reply.
    fn delay(&self, _session: &str, step: StoreStep) -> Option<Duration> {
        let mut inner = self.lock();
        if let Some(takes) = inner.held.take_if(|_| step == StoreStep::Commit) {
            return Some(takes);
        }
        let now = Instant::now();
        if let Some(until) = inner.stalled.filter(|until| now < *until) {
            inner.coverage.count("fault: step of a stalled store");
            return Some(until.duration_since(now) + inner.rng.millis(1, 20));
        }
        let (often, longest) = inner.rates.slow;
        if inner.rng.permille(often) {
            inner.coverage.count("fault: slow store");
            return Some(inner.rng.millis(1, longest));
        }
        Some(inner.rng.millis(1, 3))
    }
}
