//! Decides which transactions may be on their way to the servers at the same time.
//!
//! A hundred operations in one `multi` cost about as much as ten in one of their own, so waiting transactions share
//! one, and several are in flight at once. Two transactions may overtake each other, or share a packet, only if neither
//! writes what the other reads or writes: so the order of calls holds wherever it is visible, and a refused transaction
//! can be sent again without changing what later ones see. Plain bookkeeping; it sends nothing.

use std::collections::HashMap;

use rosterd_domain::mutants;

use crate::paths::Path;
use crate::tree::Op;

use super::encode::subject;

/// The nodes that a transaction touches, and whether it writes them.
#[derive(Debug, Clone, Default)]
pub(super) struct Touched {
    nodes: HashMap<Path, bool>,
    /// It reads and deletes nodes that are not known beforehand, so it runs alone.
    pub(super) alone: bool,
}

impl Touched {
    pub(super) fn by(ops: &[Op]) -> Self {
        let mut touched = Self::default();
        for op in ops {
            let path = subject(op);
            let writes = !matches!(op, Op::Check { .. } | Op::CheckExists { .. });
            touched.add(path.clone(), writes);
            let makes_or_ends = writes && !matches!(op, Op::Set { .. });
            if makes_or_ends && let Some(parent) = path.parent() {
                touched.add(parent, false);
            }
            touched.alone |= matches!(op, Op::Sweep { .. });
        }
        touched
    }

    fn add(&mut self, path: Path, writes: bool) {
        *self.nodes.entry(path).or_default() |= writes;
    }
}

/// Nodes in use, with the number of transactions that read and that write them.
#[derive(Debug, Default)]
pub(super) struct InUse {
    nodes: HashMap<Path, (u32, u32)>,
    transactions: usize,
    alone: bool,
}

impl InUse {
    /// Whether a transaction may run beside those in flight.
    pub(super) fn admits(&self, touched: &Touched) -> bool {
        if self.alone || touched.alone && self.transactions > 0 {
            return false;
        }
        if mutants::is_on(mutants::PACKETS_MIX) {
            return true;
        }
        touched.nodes.iter().all(|(path, writes)| match self.nodes.get(path) {
            None | Some((_, 0)) if !writes => true,
            None => true,
            Some(_) => false,
        })
    }

    pub(super) fn take(&mut self, touched: &Touched) {
        self.transactions += 1;
        self.alone |= touched.alone;
        for (path, writes) in &touched.nodes {
            let (lookers, writers) = self.nodes.entry(path.clone()).or_default();
            *(if *writes { writers } else { lookers }) += 1;
        }
    }

    pub(super) fn release(&mut self, touched: &Touched) {
        self.transactions = self.transactions.saturating_sub(1);
        self.alone &= !touched.alone;
        for (path, writes) in &touched.nodes {
            let Some((lookers, writers)) = self.nodes.get_mut(path) else { continue };
            let count = if *writes { &mut *writers } else { &mut *lookers };
            *count = count.saturating_sub(1);
            if (*lookers, *writers) == (0, 0) {
                self.nodes.remove(path);
            }
        }
    }
}

/// How many transactions may share a `multi`. A refusal names only the first operation that did not hold; if many do
/// not hold, as when a coordinator takes over what another has left, small ones in parallel find them soonest.
#[derive(Debug)]
pub(super) struct Together {
    most: usize,
    limit: usize,
}

impl Together {
    /// Starts at the limit.
    pub(super) fn new(limit: usize) -> Self {
        Self { most: limit, limit }
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// A `multi` with this number of transactions was refused.
    pub(super) fn refused(&mut self, transactions: usize) {
        self.most = (transactions / 2).max(1);
    }

    /// A `multi` was applied.
    pub(super) fn landed(&mut self) {
        self.most = self.most.saturating_mul(2).min(self.limit);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rosterd_domain::id::Version;

    use super::*;

    fn path(text: &str) -> Path {
        Path::stored(text).unwrap()
    }

    fn check(text: &str) -> Op {
        Op::Check { path: path(text), version: Version(1) }
    }

    fn set(text: &str) -> Op {
        Op::Set { path: path(text), data: Arc::from([]), expect: None }
    }

    fn create(text: &str) -> Op {
        Op::Create { path: path(text), data: Arc::from([]), ephemeral: false }
    }

    #[test]
    fn lookers_share_and_writers_do_not() {
        let mut used = InUse::default();
        let first = Touched::by(&[check("/g"), set("/a")]);
        used.take(&first);
        assert!(used.admits(&Touched::by(&[check("/g"), set("/b")])));
        for refused in [vec![set("/g")], vec![check("/a")], vec![set("/a")], vec![create("/a/x")]] {
            assert!(!used.admits(&Touched::by(&refused)), "{refused:?}");
        }
        used.release(&first);
        assert!(used.admits(&Touched::by(&[set("/g"), set("/a")])) && used.nodes.is_empty());
    }

    #[test]
    fn a_sweep_goes_alone() {
        let sweep = Op::Sweep { root: path("/j"), unless: [path("/j/a"), path("/j/b")], limit: 1 };
        let sweep = Touched::by(&[sweep]);
        let mut used = InUse::default();
        assert!(used.admits(&sweep));
        used.take(&sweep);
        assert!(!used.admits(&Touched::by(&[set("/elsewhere")])));
        used.release(&sweep);
        used.take(&Touched::by(&[set("/elsewhere")]));
        assert!(!used.admits(&sweep));
    }

    #[test]
    fn a_refusal_halves_what_goes_together_and_it_grows_again() {
        let mut together = Together::new(100);
        assert_eq!(together.most(), 100);
        // Halved from what was sent, not from the limit.
        together.refused(20);
        assert_eq!(together.most(), 10);
        for (sent, most) in [(10, 5), (5, 2), (2, 1), (1, 1), (0, 1)] {
            together.refused(sent);
            assert_eq!(together.most(), most, "{sent} were sent");
        }
        for most in [2, 4, 8, 16, 32, 64, 100, 100] {
            together.landed();
            assert_eq!(together.most(), most);
        }
    }
}
