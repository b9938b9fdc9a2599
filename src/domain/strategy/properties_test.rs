//! What holds for every strategy, and that sticky moves no more items than necessary.

use std::collections::BTreeMap;

use proptest::prelude::{Just, ProptestConfig, Strategy as _, prop_assert, prop_assert_eq, proptest};
use proptest::{collection, sample};

use super::{Assignment, Question, Sticky, Strategy, by_name, names};
use crate::id::{InstanceId, Item, JobName};

fn id(number: usize) -> InstanceId {
    InstanceId::new(format!("10.0.0.{number}@-@w")).unwrap()
}

fn ids(n: usize) -> Vec<InstanceId> {
    (0..n).rev().map(id).collect()
}

fn assign(strategy: &dyn Strategy, instances: &[InstanceId], items: u32, current: &Assignment) -> Assignment {
    let job = JobName::new("word-count").unwrap();
    strategy.assign(&Question { job: &job, instances, items, current })
}

/// `owners[i]` owns item i; `None`: it has no owner.
fn holding(owners: &[Option<usize>]) -> Assignment {
    let mut lists: BTreeMap<InstanceId, Vec<Item>> = BTreeMap::new();
    for (item, owner) in (0..).map(Item).zip(owners) {
        if let Some(owner) = owner {
            lists.entry(id(*owner)).or_default().push(item);
        }
    }
    Assignment::try_from(lists).unwrap()
}

fn moves(items: u32, from: &Assignment, to: &Assignment) -> usize {
    (0..items).map(Item).filter(|item| from.owner(*item) != to.owner(*item)).count()
}

/// Every instance is listed, every item is owned once, and no instance has more than one item more than another.
fn is_sound(assignment: &Assignment, instances: &[InstanceId], items: u32) -> bool {
    let mut sorted = instances.to_vec();
    sorted.sort_unstable();
    let sizes = || assignment.iter().map(|(_, items)| items.len());
    let items = if instances.is_empty() { 0 } else { items };
    assignment.iter().map(|(instance, _)| instance).eq(&sorted)
        && assignment.owners().map(|(item, _)| item).eq((0..items).map(Item))
        && sizes().sum::<usize>() == items as usize
        && assignment.owners().all(|(item, owner)| assignment.items(owner).binary_search(&item).is_ok())
        && sizes().max().unwrap_or(0) - sizes().min().unwrap_or(0) <= 1
}

/// The fewest moves, by trying every balanced assignment; a branch is cut once it cannot be better.
struct Search<'a> {
    current: &'a [Option<usize>],
    sizes: Vec<usize>,
    best: usize,
}

impl Search<'_> {
    fn fewest(current: &[Option<usize>], n: usize) -> usize {
        let mut search = Search { current, sizes: vec![0; n], best: usize::MAX };
        search.place(0, 0);
        search.best
    }

    fn place(&mut self, item: usize, moved: usize) {
        if moved >= self.best {
            return;
        }
        if item == self.current.len() {
            if self.sizes.iter().max().unwrap() - self.sizes.iter().min().unwrap() <= 1 {
                self.best = moved;
            }
            return;
        }
        for owner in 0..self.sizes.len() {
            if self.sizes[owner] < self.current.len().div_ceil(self.sizes.len()) {
                self.sizes[owner] += 1;
                self.place(item + 1, moved + usize::from(self.current[item] != Some(owner)));
                self.sizes[owner] -= 1;
            }
        }
    }
}

/// The `number`th way to assign each of `items` items to one of `n` present instances, to one that is gone (index n) or
/// to none (n + 1).
fn numbered(mut number: usize, n: usize, items: usize) -> Vec<Option<usize>> {
    let mut digit = || {
        let owner = number % (n + 2);
        number /= n + 2;
        (owner <= n).then_some(owner)
    };
    (0..items).map(|_| digit()).collect()
}

/// How many numbered ways are tried for one number of instances and items.
const TRIED: usize = 1_500;

/// All of them for small numbers, a sample at equal distances for larger ones.
fn some_ways(n: usize, items: usize) -> impl Iterator<Item = Vec<Option<usize>>> {
    let all = (n + 2).pow(u32::try_from(items).unwrap());
    // Coprime to every base, so every digit varies.
    let stride = (all / TRIED..).find(|s| [2, 3, 5, 7].iter().all(|prime| s % prime != 0)).unwrap();
    (0..all).step_by(stride).map(move |number| numbered(number, n, items))
}

/// Every way in which owners ascend with items: all there are, except for permutations of the items.
fn ascending_ways(n: usize, items: usize) -> Vec<Vec<Option<usize>>> {
    let mut ways: Vec<Vec<usize>> = vec![vec![]];
    for _ in 0..items {
        let longer = |way: &Vec<usize>| {
            let least = way.last().copied().unwrap_or(0);
            let way = way.clone();
            (least..n + 2).map(move |owner| [way.clone(), vec![owner]].concat()).collect::<Vec<_>>()
        };
        ways = ways.iter().flat_map(longer).collect();
    }
    let owner = |owner: usize| (owner <= n).then_some(owner);
    ways.into_iter().map(|way| way.into_iter().map(owner).collect()).collect()
}

/// Up to 5 instances and 8 items: every multiset of owners, and a sample of their orders.
#[test]
fn sticky_makes_the_fewest_moves_there_are() {
    for n in 1..=5 {
        let instances = ids(n);
        for items in 0..=8 {
            for way in ascending_ways(n, items).into_iter().chain(some_ways(n, items)) {
                let current = holding(&way);
                let next = assign(&Sticky, &instances, items as u32, &current);
                assert!(is_sound(&next, &instances, items as u32), "{current:?} became {next:?}");
                let fewest = Search::fewest(&way, n);
                assert_eq!(moves(items as u32, &current, &next), fewest, "{current:?} became {next:?}");
            }
        }
    }
}

/// Each instance keeps at most `items / n`, and `items % n` of those that hold more keep one more.
fn fewest_by_formula(current: &Assignment, instances: &[InstanceId], items: u32) -> usize {
    let (least, more) = (items as usize / instances.len(), items as usize % instances.len());
    let held = |i| current.items(i).iter().filter(|item| item.0 < items).count();
    let held: Vec<usize> = instances.iter().map(held).collect();
    let kept: usize = held.iter().map(|held| least.min(*held)).sum();
    items as usize - kept - more.min(held.iter().filter(|held| **held > least).count())
}

#[test]
fn when_one_leaves_many_only_its_items_move() {
    for (n, items) in [(10, 1_000), (50, 5_000), (10, 5_000), (50, 100_000)] {
        let before = assign(&Sticky, &ids(n), items, &Assignment::default());
        let gone = n / 2;
        let left: Vec<_> = ids(n).into_iter().filter(|i| *i != id(gone)).collect();
        let after = assign(&Sticky, &left, items, &before);
        assert!(is_sound(&after, &left, items));
        assert_eq!(moves(items, &before, &after), before.items(&id(gone)).len());
    }
}

#[test]
fn no_instances_no_assignment_and_no_items_no_work() {
    let current = holding(&[Some(0), Some(1)]);
    for strategy in names().map(|name| by_name(name).unwrap()) {
        assert_eq!(assign(strategy, &[], 7, &current), Assignment::default());
        assert_eq!(assign(strategy, &ids(2), 0, &current), Assignment::from_owners(&ids(2), []));
    }
}

/// A situation with some instances gone, some new, items without owner, and items that the job no longer has.
fn setting() -> impl proptest::strategy::Strategy<Value = (Vec<InstanceId>, u32, Assignment)> {
    let instances = sample::subsequence((0..60).map(id).collect::<Vec<_>>(), 0..=50).prop_shuffle();
    let skew = sample::select(vec![1_usize, 3, 12, 60]);
    let owned =
        skew.prop_flat_map(|range| collection::vec(proptest::option::weighted(0.9, 0..range), 0..600));
    (instances, 0_u32..600, owned).prop_map(|(instances, items, owned)| (instances, items, holding(&owned)))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(ProptestConfig::default().cases * 5 / 4) })]

    #[test]
    fn every_strategy_gives_every_item_once_balanced_within_one(
        (instances, items, current) in setting(),
        job in "[A-Za-z0-9_-]{1,20}",
        strategy in sample::select(names().collect::<Vec<_>>()),
    ) {
        let (strategy, job) = (by_name(strategy).unwrap(), JobName::new(job).unwrap());
        let question = Question { job: &job, instances: &instances, items, current: &current };
        let answer = strategy.assign(&question);
        prop_assert!(is_sound(&answer, &instances, items), "{:?}", answer);
        prop_assert_eq!(&strategy.assign(&question), &answer);
        let again = strategy.assign(&Question { current: &answer, ..question });
        prop_assert_eq!(&again, &answer, "planning again changes nothing");
        let text = serde_json::to_string(&answer).unwrap();
        prop_assert_eq!(serde_json::from_str::<Assignment>(&text).unwrap(), answer);
    }

    #[test]
    fn sticky_makes_as_many_moves_as_the_formula_says((instances, items, current) in setting()) {
        if !instances.is_empty() {
            let next = assign(&Sticky, &instances, items, &current);
            prop_assert_eq!(moves(items, &current, &next), fewest_by_formula(&current, &instances, items));
        }
    }

    #[test]
    fn sticky_is_as_still_in_another_order(
        ((instances, items, current), shuffled) in setting().prop_flat_map(|setting| {
            let shuffled = Just(setting.0.clone()).prop_shuffle();
            (Just(setting), shuffled)
        }),
    ) {
        let settled = assign(&Sticky, &instances, items, &current);
        prop_assert_eq!(assign(&Sticky, &shuffled, items, &settled), settled);
    }
}
