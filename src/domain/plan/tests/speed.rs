//! The cost of a plan. Run with `cargo test --release -p rosterd-domain speed -- --ignored --nocapture`.
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::time::{Duration, Instant};

use super::world::{World, job, noon};
use crate::plan::{Plan, host};
use crate::time::Time;

const ITEMS: usize = 5000;

fn measured(world: &World) -> (Plan, Duration) {
    let facts = world.facts();
    let run = || {
        let begun = Instant::now();
        let plan = host(&world.job, &world.records, &facts);
        (plan, begun.elapsed())
    };
    (0..20).map(|_| run()).min_by_key(|(_, took)| *took).unwrap()
}

#[test]
#[ignore = "a measurement, for release builds"]
fn large_jobs_are_planned_fast() {
    let owners: Vec<usize> = (0..ITEMS).map(|item| item % 10).collect();
    let mut world = World::new(job(Some("0 * * * * ?"), u32::try_from(ITEMS).unwrap()), &owners, noon());
    let (idle, nothing) = measured(&world);
    assert!(idle.txn.writes.is_empty());
    world.now = Time(world.now.0 + 60_000);
    let (fired, all) = measured(&world);
    assert_eq!(fired.records.len(), ITEMS);
    world.commit(&fired);
    world.now = Time(world.now.0 + 60_000);
    let (merged, busy) = measured(&world);
    assert_eq!(merged.records.len(), ITEMS);
    println!("{ITEMS} items: nothing to do {nothing:?}, firing {all:?}, busy {busy:?}");
    assert!(nothing < Duration::from_millis(1) && all < Duration::from_millis(20));
}
