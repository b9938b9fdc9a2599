//! The value that a strategy returns and the registry keeps: which instance owns which item. It never judges whether an
//! assignment is good or complete.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::id::{InstanceId, Item};

/// Which instance owns which item: every instance is listed (including those without items), items ascend, no item
/// appears twice.
///
/// Serialized as a map from instance to items: `{"10.0.0.7@-@w-1":[0,1],"10.0.0.8@-@w-2":[]}`.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "BTreeMap<InstanceId, Vec<Item>>")]
pub struct Assignment {
    /// Ascending by instance.
    lists: Vec<(InstanceId, Vec<Item>)>,
    /// Ascending by item: the index of the owner in `lists`. Derived from `lists`.
    owners: Vec<(Item, usize)>,
}

/// An assignment that names two owners of one item, or one owner twice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("item {item} is assigned twice, to {first} and to {second}: an item has one owner")]
pub struct ItemTwice {
    /// The item.
    pub item: Item,
    /// One owner.
    pub first: InstanceId,
    /// The other owner; the same when its list repeats the item.
    pub second: InstanceId,
}

impl Assignment {
    /// Lists `instances` and gives item `i` to the instance with index `owners[i]`.
    ///
    /// # Panics
    /// If an owner is not an index of `instances`.
    pub fn from_owners(instances: &[InstanceId], owners: impl IntoIterator<Item = usize>) -> Self {
        let mut lists: BTreeMap<&InstanceId, Vec<Item>> = instances.iter().map(|i| (i, vec![])).collect();
        let mut by_place: Vec<Vec<Item>> = vec![vec![]; instances.len()];
        for (item, place) in (0..).map(Item).zip(owners) {
            by_place[place].push(item);
        }
        for (instance, items) in instances.iter().zip(by_place) {
            lists.entry(instance).or_default().extend(items);
        }
        Self::from_lists(lists.into_iter().map(|(instance, items)| (instance.clone(), items)).collect())
    }

    /// Who owns this item.
    pub fn owner(&self, item: Item) -> Option<&InstanceId> {
        let found = self.owners.binary_search_by_key(&item, |(item, _)| *item).ok()?;
        Some(&self.lists[self.owners[found].1].0)
    }

    /// The items of an instance, ascending; empty if it is not listed.
    pub fn items(&self, instance: &InstanceId) -> &[Item] {
        self.place(instance).map_or(&[], |place| &self.lists[place].1)
    }

    /// Whether the instance is listed, with or without items.
    pub fn lists(&self, instance: &InstanceId) -> bool {
        self.place(instance).is_some()
    }

    /// Every instance with its items, both ascending.
    pub fn iter(&self) -> impl Iterator<Item = (&InstanceId, &[Item])> {
        self.lists.iter().map(|(instance, items)| (instance, &**items))
    }

    /// Every owned item with its owner, ascending by item.
    pub fn owners(&self) -> impl Iterator<Item = (Item, &InstanceId)> {
        self.owners.iter().map(|(item, place)| (*item, &self.lists[*place].0))
    }

    /// Whether no instance is listed.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    fn place(&self, instance: &InstanceId) -> Option<usize> {
        self.lists.binary_search_by(|(listed, _)| listed.cmp(instance)).ok()
    }

    /// `lists` ascends by instance.
    fn from_lists(mut lists: Vec<(InstanceId, Vec<Item>)>) -> Self {
        let mut owners = Vec::with_capacity(lists.iter().map(|(_, items)| items.len()).sum());
        for (place, (_, items)) in lists.iter_mut().enumerate() {
            items.sort_unstable();
            owners.extend(items.iter().map(|item| (*item, place)));
        }
        owners.sort_unstable();
        Self { lists, owners }
    }
}

impl TryFrom<BTreeMap<InstanceId, Vec<Item>>> for Assignment {
    type Error = ItemTwice;

    fn try_from(lists: BTreeMap<InstanceId, Vec<Item>>) -> Result<Self, ItemTwice> {
        let read = Self::from_lists(lists.into_iter().collect());
        let twice = read.owners.windows(2).find(|pair| pair[0].0 == pair[1].0);
        match twice.map(|pair| (pair[0].0, pair[0].1, pair[1].1)) {
            None => Ok(read),
            Some((item, first, second)) => {
                let instance = |place: usize| read.lists[place].0.clone();
                Err(ItemTwice { item, first: instance(first), second: instance(second) })
            }
        }
    }
}

impl Serialize for Assignment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl fmt::Debug for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = |items: &[Item]| items.iter().map(|item| item.0).collect::<Vec<_>>();
        f.debug_map().entries(self.iter().map(|(instance, items)| (instance, numbers(items)))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> InstanceId {
        InstanceId::new(name).unwrap()
    }

    fn read(json: &str) -> Result<Assignment, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn it_tells_the_items_of_an_instance_and_the_owner_of_an_item() {
        let a = Assignment::from_owners(&[id("B"), id("A"), id("C")], [0, 1, 1, 0]);
        assert_eq!(a.items(&id("A")), [Item(1), Item(2)]);
        assert_eq!(a.items(&id("B")), [Item(0), Item(3)]);
        assert_eq!(a.items(&id("C")), []);
        assert_eq!(a.items(&id("D")), []);
        assert!(a.lists(&id("C")) && !a.lists(&id("D")));
        assert_eq!(a.owner(Item(3)), Some(&id("B")));
        assert_eq!(a.owner(Item(4)), None);
        assert_eq!(a.owners().map(|(item, owner)| format!("{item}{owner}")).collect::<String>(), "0B1A2A3B");
        assert_eq!(format!("{a:?}"), "{A: [1, 2], B: [0, 3], C: []}");
    }

    #[test]
    fn an_instance_given_twice_is_listed_once() {
        let a = Assignment::from_owners(&[id("A"), id("B"), id("A")], [0, 1, 2]);
        assert_eq!(format!("{a:?}"), "{A: [0, 2], B: [1]}");
    }

    #[test]
    fn its_text_is_a_map_from_instance_to_items() {
        let a = Assignment::from_owners(&[id("B"), id("10.0.0.7@-@w-1")], [1, 1]);
        let text = r#"{"10.0.0.7@-@w-1":[0,1],"B":[]}"#;
        assert_eq!(serde_json::to_string(&a).unwrap(), text);
        assert_eq!(read(text).unwrap(), a);
        assert_eq!(read("{}").unwrap(), Assignment::default());
        assert!(Assignment::default().is_empty() && !a.is_empty());
    }

    #[test]
    fn a_text_may_have_gaps_and_any_order() {
        let a = read(r#"{"B":[4294967295,7],"A":[]}"#).unwrap();
        assert_eq!(a.items(&id("B")), [Item(7), Item(u32::MAX)]);
        assert_eq!(a.owner(Item(u32::MAX)), Some(&id("B")));
        assert_eq!(a.owner(Item(8)), None);
    }

    #[test]
    fn a_text_with_two_owners_of_an_item_is_refused() {
        let refused = read(r#"{"B":[1,2],"A":[0,2]}"#).unwrap_err().to_string();
        assert_eq!(refused, "item 2 is assigned twice, to A and to B: an item has one owner");
        assert!(read(r#"{"A":[3,3]}"#).is_err());
        assert!(read(r#"{"a/b":[3]}"#).is_err());
        assert!(read(r#"{"A":[-1]}"#).is_err());
    }
}
