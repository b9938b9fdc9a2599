//! Elastic-Job's two strategies that order the instances by a hash of the job's name, so that jobs with few items do
//! not all use the same instances. They never consider the current assignment.

use super::average::deal;
use super::{Assignment, Question, Strategy};
use crate::id::InstanceId;

/// Elastic-Job's `ODEVITY`: average allocation over the instances in the given order if the name's hash is odd, in the
/// reverse order if it is even.
#[derive(Debug, Clone, Copy)]
pub struct Odevity;

/// Elastic-Job's `ROUND_ROBIN`: average allocation over the instances, rotated by the hash's absolute value.
///
/// Elastic-Job computes it in 32 bits, where the least integer has no absolute value, and throws for such a name (for
/// example "polygenelubricants") unless the number of instances divides it. Here it is computed in 64 bits.
#[derive(Debug, Clone, Copy)]
pub struct RoundRobin;

impl Strategy for Odevity {
    fn name(&self) -> &'static str {
        "ODEVITY"
    }

    fn rule(&self, question: &Question<'_>) -> String {
        let (order, parity) = match java_hash(question.job.as_str()) % 2 {
            0 => ("ascending", "even"),
            _ => ("descending", "odd"),
        };
        format!(
            "deals blocks of neighboring items in {order} order of ids, since the hash of the job's name is {parity}"
        )
    }

    fn assign(&self, question: &Question<'_>) -> Assignment {
        deal(&by_parity(java_hash(question.job.as_str()), question.instances), question.items)
    }
}

impl Strategy for RoundRobin {
    fn name(&self) -> &'static str {
        "ROUND_ROBIN"
    }

    fn rule(&self, question: &Question<'_>) -> String {
        let order = rotated(java_hash(question.job.as_str()), question.instances);
        let first = order.first().map_or("nobody", InstanceId::as_str);
        format!(
            "deals blocks of neighboring items in descending order of ids, beginning with {first} by the hash of the job's name"
        )
    }

    fn assign(&self, question: &Question<'_>) -> Assignment {
        deal(&rotated(java_hash(question.job.as_str()), question.instances), question.items)
    }
}

/// Java's `String.hashCode`: over UTF-16 code units, wrapping in 32 bits.
pub(super) fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

pub(super) fn by_parity(hash: i32, instances: &[InstanceId]) -> Vec<InstanceId> {
    if hash % 2 == 0 { instances.iter().rev().cloned().collect() } else { instances.to_vec() }
}

pub(super) fn rotated(hash: i32, instances: &[InstanceId]) -> Vec<InstanceId> {
    let mut order = instances.to_vec();
    if !order.is_empty() {
        let by = i64::from(hash).unsigned_abs() % order.len() as u64;
        order.rotate_left(by as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::JobName;

    #[test]
    fn the_hash_is_javas() {
        for (text, hash) in [
            ("", 0),
            ("a", 97),
            ("polygenelubricants", i32::MIN),
            ("f5a5a608", 0),
            ("alxexlna", i32::MAX),
            ("\u{1f600}", 1_772_899),
        ] {
            assert_eq!(java_hash(text), hash, "{text:?}");
        }
    }

    #[test]
    fn a_name_whose_hash_has_no_absolute_value_in_32_bits_is_rotated_too() {
        let instances = ["E", "D", "C", "B", "A"].map(|name| InstanceId::new(name).unwrap());
        let question = Question {
            job: &JobName::new("polygenelubricants").unwrap(),
            instances: &instances,
            items: 5,
            current: &Assignment::default(),
        };
        // 2^31 % 5 = 3: the first is B.
        assert_eq!(format!("{:?}", RoundRobin.assign(&question)), "{A: [1], B: [0], C: [4], D: [3], E: [2]}");
    }
}
