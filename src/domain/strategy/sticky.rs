//! Sticky: balanced within one, and no item changes owners unnecessarily. It has no counterpart in Elastic-Job, whose
//! strategies redistribute everything when an instance joins or leaves. It does not consider how long an instance has
//! been there or what it runs.

use std::collections::BTreeSet;
use std::iter::repeat_n;

use super::{Assignment, Question, Strategy};
use crate::id::{InstanceId, Item};

/// Every instance ends with `items / n` items or one more, and among all such assignments this is one that differs from
/// the current one in the fewest items. If that leaves a choice, earlier instances get more, an instance gives away its
/// highest items, and items without an owner are given out in blocks.
#[derive(Debug, Clone, Copy)]
pub struct Sticky;

impl Strategy for Sticky {
    fn name(&self) -> &'static str {
        "STICKY"
    }

    fn rule(&self, _: &Question<'_>) -> String {
        "moves no more items than it must".to_owned()
    }

    fn assign(&self, question: &Question<'_>) -> Assignment {
        let instances = distinct(question.instances);
        if instances.is_empty() {
            return Assignment::default();
        }
        let items = question.items as usize;
        let held: Vec<&[Item]> =
            instances.iter().map(|i| below(question.items, question.current.items(i))).collect();
        let quotas = quotas(&held, items);
        Assignment::from_owners(&instances, owners(&held, &quotas, items))
    }
}

/// The instances in the given order, each once: every instance has one quota.
fn distinct(instances: &[InstanceId]) -> Vec<InstanceId> {
    let mut seen = BTreeSet::new();
    instances.iter().filter(|instance| seen.insert(*instance)).cloned().collect()
}

/// Those of `held` that the job still has.
fn below(items: u32, held: &[Item]) -> &[Item] {
    &held[..held.partition_point(|item| item.0 < items)]
}

/// How many items each instance is to own.
///
/// The `items % n` instances with one item more are chosen among those that hold more than `items / n`: each such
/// choice saves one move, and no other choice saves any.
fn quotas(held: &[&[Item]], items: usize) -> Vec<usize> {
    let (least, more) = (items / held.len(), items % held.len());
    let (saving, other): (Vec<usize>, Vec<usize>) = (0..held.len()).partition(|&at| held[at].len() > least);
    let mut quotas = vec![least; held.len()];
    for at in saving.into_iter().chain(other).take(more) {
        quotas[at] += 1;
    }
    quotas
}

/// The owner of each item: its present one while within that one's quota, else the first with room.
fn owners(held: &[&[Item]], quotas: &[usize], items: usize) -> Vec<usize> {
    let mut kept = vec![None; items];
    for (at, (held, quota)) in held.iter().zip(quotas).enumerate() {
        for item in held.iter().take(*quota) {
            kept[item.0 as usize] = Some(at);
        }
    }
    let room =
        |(at, (held, quota)): (usize, (&&[Item], &usize))| repeat_n(at, quota.saturating_sub(held.len()));
    let mut room = held.iter().zip(quotas).enumerate().flat_map(room);
    kept.into_iter()
        .map(|owner| owner.or_else(|| room.next()).expect("the quotas add up to the items"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::JobName;

    /// Instances are letters; the result has the same notation as `current`.
    fn sticky(instances: &str, items: u32, current: &str) -> String {
        let instances: Vec<_> = instances.chars().map(|c| InstanceId::new(c.to_string()).unwrap()).collect();
        let current: Assignment = serde_json::from_str(current).unwrap();
        let job = JobName::new("job").unwrap();
        let question = Question { job: &job, instances: &instances, items, current: &current };
        serde_json::to_string(&Sticky.assign(&question)).unwrap()
    }

    #[test]
    fn with_nothing_to_keep_it_deals_blocks() {
        assert_eq!(sticky("CBA", 8, "{}"), r#"{"A":[6,7],"B":[3,4,5],"C":[0,1,2]}"#);
        assert_eq!(sticky("", 8, r#"{"A":[0,1]}"#), "{}");
        assert_eq!(sticky("BA", 0, r#"{"A":[0,1]}"#), r#"{"A":[],"B":[]}"#);
    }

    #[test]
    fn only_the_items_of_the_worker_that_left_move() {
        let current = r#"{"A":[0,3,6],"B":[1,4,7],"C":[2,5,8]}"#;
        assert_eq!(sticky("CA", 9, current), r#"{"A":[0,3,6,7],"C":[1,2,4,5,8]}"#);
    }

    #[test]
    fn a_worker_that_joins_gets_one_share_and_no_more() {
        let current = r#"{"A":[0,3,6],"B":[1,4,7],"C":[2,5,8]}"#;
        assert_eq!(sticky("DCBA", 9, current), r#"{"A":[0,3],"B":[1,4],"C":[2,5,8],"D":[6,7]}"#);
    }

    #[test]
    fn more_or_fewer_items_leave_the_others_where_they_are() {
        let current = r#"{"A":[0,3],"B":[1,2]}"#;
        assert_eq!(sticky("BA", 7, current), r#"{"A":[0,3,6],"B":[1,2,4,5]}"#);
        assert_eq!(sticky("BA", 2, current), r#"{"A":[0],"B":[1]}"#);
    }

    #[test]
    fn an_instance_given_twice_counts_once() {
        assert_eq!(sticky("BAB", 4, "{}"), r#"{"A":[2,3],"B":[0,1]}"#);
    }
}
