//! Our results against those of the released Elastic-Job, which `tests/data/strategy` explains.

use serde_json::Value;

use super::average::deal;
use super::name_hash::{by_parity, java_hash, rotated};
use super::{Assignment, Question, by_name};
use crate::id::{InstanceId, Item, JobName};

const DATA: &str = include_str!("../../../tests/data/strategy/elastic-job.jsonl");
const DIGITS: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// One line of the data: type, job, hash, instances, items, answer.
type Line = (String, String, i32, usize, u32, Value);

fn lines() -> Vec<Line> {
    DATA.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// This many instances, in descending order of id.
fn instances(n: usize) -> Vec<InstanceId> {
    (0..n).rev().map(|i| InstanceId::new(format!("10.0.0.{i:02}@-@w")).unwrap()).collect()
}

/// Through the strategy; for a name that is not a valid job name here, through the strategy's parts.
fn ours(strategy: &str, job: &str, instances: &[InstanceId], items: u32) -> Assignment {
    let current = &Assignment::default();
    match (JobName::new(job), strategy) {
        (Ok(job), _) => by_name(strategy).unwrap().assign(&Question { job: &job, instances, items, current }),
        (Err(_), "ODEVITY") => deal(&by_parity(java_hash(job), instances), items),
        (Err(_), "ROUND_ROBIN") => deal(&rotated(java_hash(job), instances), items),
        (Err(_), _) => panic!("{strategy} does not ask for the name {job:?}"),
    }
}

/// In the notation of the data.
fn written(assignment: &Assignment, instances: &[InstanceId], items: u32) -> String {
    let digit = |item| {
        let owner = assignment.owner(Item(item)).expect("every item has an owner");
        let place = instances.iter().position(|i| i == owner).expect("an owner is one of the instances");
        char::from(DIGITS.as_bytes()[place])
    };
    if instances.is_empty() { String::new() } else { (0..items).map(digit).collect() }
}

/// Our result if Elastic-Job throws: the rotation by the hash's true absolute value.
fn defined(hash: i32, n: usize, items: u32) -> String {
    let first = if n == 0 { 0 } else { (i64::from(hash).abs() % n as i64) as usize };
    let place = |block: usize| char::from(DIGITS.as_bytes()[(block + first) % n]);
    let block = items as usize / n.max(1);
    let blocks = block * n;
    let item = |item| if item < blocks { place(item / block) } else { place(item - blocks) };
    if n == 0 { String::new() } else { (0..items as usize).map(item).collect() }
}

#[test]
fn every_answer_is_elastic_jobs() {
    let mut crashes = Vec::new();
    for (strategy, job, hash, n, items, answer) in lines() {
        let what = format!("{strategy} of {job:?}: {items} items on {n}");
        let instances = instances(n);
        assert_eq!(java_hash(&job), hash, "{what}");
        let assignment = ours(&strategy, &job, &instances, items);
        assert!(
            assignment.iter().map(|(i, _)| i).eq(instances.iter().rev()),
            "{what}: an instance is missing"
        );
        let written = written(&assignment, &instances, items);
        match answer.as_str() {
            Some(theirs) => assert_eq!(written, theirs, "{what}"),
            None => {
                assert_eq!(written, defined(hash, n, items), "{what}");
                crashes.push((strategy, hash, n));
            }
        }
    }
    assert!(crashes.iter().all(|(s, hash, n)| s == "ROUND_ROBIN" && (*hash == i32::MIN || *n == 0)));
    assert!(crashes.iter().any(|(_, _, n)| *n > 0), "the crash of Elastic-Job is in the data");
}

#[test]
fn the_data_covers_the_hard_names() {
    let lines = lines();
    assert!(lines.len() >= 900, "{}", lines.len());
    for hash in [0, 1, -1, i32::MIN, i32::MIN + 1, i32::MAX, i32::MAX - 1] {
        for strategy in ["ODEVITY", "ROUND_ROBIN"] {
            assert!(lines.iter().any(|line| line.0 == strategy && line.2 == hash), "{strategy} {hash}");
        }
    }
    assert!(lines.iter().any(|line| line.1.chars().any(|c| c.len_utf16() == 2)));
    assert!(lines.iter().any(|line| line.4 > 0 && (line.4 as usize) < line.3));
}
