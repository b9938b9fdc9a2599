//! A map that is looked up often and visited rarely. A look-up hashes its key, where an ordered map compares a dozen
//! names, each in another place in memory; a visit is in the order of the keys, so that nothing depends on the hashes.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::ops::Index;

use foldhash::fast::RandomState;

/// A map with quick look-ups, visited in the order of its keys.
#[derive(Debug, Clone)]
pub struct Lookup<K, V>(HashMap<K, V, RandomState>);

impl<K, V> Default for Lookup<K, V> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Hash + Ord, V> Lookup<K, V> {
    /// An empty one with room for so many keys.
    pub fn with_capacity(keys: usize) -> Self {
        Self(HashMap::with_capacity_and_hasher(keys, RandomState::default()))
    }

    /// The value of a key.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key)
    }

    /// The value of a key, to be changed.
    pub fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.0.get_mut(key)
    }

    /// Whether the key has a value.
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.contains_key(key)
    }

    /// Sets the value of a key; returns the one before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    /// Removes a key; returns its value.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.0.remove(key)
    }

    /// The place of a key, with a value or without.
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        self.0.entry(key)
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of it, in the order of the keys: sorted on each call.
    pub fn iter(&self) -> std::vec::IntoIter<(&K, &V)> {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all.into_iter()
    }

    /// The same, with values that may be changed.
    pub fn iter_mut(&mut self) -> std::vec::IntoIter<(&K, &mut V)> {
        let mut all: Vec<_> = self.0.iter_mut().collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all.into_iter()
    }

    /// The keys, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// The values in no order, for what does not depend on it: sums, whether there is one, the same change to all.
    pub fn unordered_values(&self) -> impl Iterator<Item = &V> {
        self.0.values()
    }

    /// The same, to be changed.
    pub fn unordered_values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.values_mut()
    }
}

impl<K: Ord, V> IntoIterator for Lookup<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        let mut all: Vec<_> = self.0.into_iter().collect();
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        all.into_iter()
    }
}

impl<K: Hash + Eq + Borrow<Q>, Q: Hash + Eq + ?Sized, V> Index<&Q> for Lookup<K, V> {
    type Output = V;

    fn index(&self, key: &Q) -> &V {
        &self.0[key]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_are_in_the_order_of_the_keys() {
        let mut lookup = Lookup::default();
        let keys: Vec<u32> = (0..1000).map(|n| n * 7919 % 1000).collect();
        for key in &keys {
            assert_eq!(lookup.insert(*key, *key), None);
        }
        lookup.iter_mut().for_each(|(_, value)| *value *= 2);
        assert_eq!(lookup.remove(&500), Some(1000));
        *lookup.entry(1000).or_default() += 1;
        let expected: Vec<u32> = (0..=1000).filter(|key| *key != 500).collect();
        assert_eq!(lookup.keys().copied().collect::<Vec<_>>(), expected);
        assert_eq!(lookup.clone().into_iter().map(|(key, _)| key).collect::<Vec<_>>(), expected);
        assert_eq!(lookup.len(), 1000);
        assert_eq!((lookup[&7], lookup.get(&500), lookup.contains_key(&1000)), (14, None, true));
    }
}
