//! Average allocation: equal blocks of adjacent items, as in Elastic-Job. The strategies that order instances by the
//! job's name distribute them the same way. It never considers the current assignment.

use super::{Assignment, Question, Strategy};
use crate::id::InstanceId;

/// Elastic-Job's `AVG_ALLOCATION`: each instance in the given order gets a block of `items / n`, and the remaining
/// `items % n` go one each to the first instances. 8 items on 3 instances: 016, 237, 45.
#[derive(Debug, Clone, Copy)]
pub struct Average;

impl Strategy for Average {
    fn name(&self) -> &'static str {
        "AVG_ALLOCATION"
    }

    fn rule(&self, _: &Question<'_>) -> String {
        "deals blocks of neighboring items in descending order of ids".to_owned()
    }

    fn assign(&self, question: &Question<'_>) -> Assignment {
        deal(question.instances, question.items)
    }
}

/// Distributes `items` over `order`, as Elastic-Job calls the list once it is sorted.
pub(super) fn deal(order: &[InstanceId], items: u32) -> Assignment {
    let (items, n) = (items as usize, order.len());
    if n == 0 {
        return Assignment::default();
    }
    let block = items / n;
    let in_blocks = block * n;
    let owner = |item| if item < in_blocks { item / block } else { item - in_blocks };
    Assignment::from_owners(order, (0..items).map(owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(items: u32) -> String {
        let order = ["C", "B", "A"].map(|name| InstanceId::new(name).unwrap());
        let dealt = deal(&order, items);
        let text = |i| dealt.items(i).iter().map(ToString::to_string).collect::<String>();
        order.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn blocks_first_then_the_rest_one_each() {
        assert_eq!(dealt(9), "012 345 678");
        assert_eq!(dealt(8), "016 237 45");
        assert_eq!(dealt(10), "0129 345 678");
        assert_eq!(dealt(2), "0 1 ");
        assert_eq!(dealt(0), "  ");
    }
}
