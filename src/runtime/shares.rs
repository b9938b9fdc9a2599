//! What all who come under one name share, for as long as any of them is there: the streams of one credential their
//! places in a queue. Streams without a credential share as well.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Names seen before those that are no longer used are forgotten.
const SWEEP_ABOVE: usize = 64;

/// The shares by name.
pub struct Shares<T> {
    make: fn() -> T,
    known: Mutex<BTreeMap<Option<String>, Weak<T>>>,
}

impl<T> Shares<T> {
    /// Makes each with its first user.
    pub fn new(make: fn() -> T) -> Self {
        Self { make, known: Mutex::default() }
    }

    /// The one of this name.
    pub fn of(&self, name: Option<&str>) -> Arc<T> {
        let name = name.map(str::to_owned);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = known.get(&name).and_then(Weak::upgrade) {
            return share;
        }
        if known.len() > SWEEP_ABOVE {
            known.retain(|_, share| share.strong_count() > 0);
        }
        let share = Arc::new((self.make)());
        known.insert(name, Arc::downgrade(&share));
        share
    }
}

impl<T> fmt::Debug for Shares<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_one_name_share_until_the_last_has_gone() {
        let shares: Shares<Mutex<u32>> = Shares::new(Mutex::default);
        let first = shares.of(Some("a"));
        *first.lock().unwrap() = 7;
        assert_eq!(*shares.of(Some("a")).lock().unwrap(), 7);
        assert_eq!(*shares.of(Some("b")).lock().unwrap() + *shares.of(None).lock().unwrap(), 0);
        drop(first);
        assert_eq!(*shares.of(Some("a")).lock().unwrap(), 0);
    }
}
