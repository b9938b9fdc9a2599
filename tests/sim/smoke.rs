//! The paths of a peaceful day, one by one.

use std::time::Duration;

use crate::log::JobPlan;
use crate::play::{block_on, job, plan};
use crate::world::{Plan, World};

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn starts(world: &World, of: &str, source: &str) -> usize {
    let lines = world.log.lines();
    let is = |line: &&crate::judge::Line| match &line.what {
        crate::judge::What::Start { job, source: why, .. } => job == of && why == source,
        _ => false,
    };
    lines.iter().filter(is).count()
}

fn world(coordinators: usize, workers: usize, jobs: Vec<JobPlan>) -> World {
    World::new(Plan { coordinators, workers, jobs, ..plan(1) })
}

fn at_peace(world: &World) {
    world.judge();
    let broken = world.watch.lock().broken.clone();
    assert!(broken.is_empty(), "{broken:#?}");
    let unsettled = world.unsettled();
    assert!(unsettled.is_empty(), "{unsettled:#?}");
}

#[test]
fn a_job_that_fires_each_second_fires_each_second() {
    block_on(async {
        let mut world = world(1, 1, vec![job("short")]);
        world.start_all();
        world.pass(secs(60)).await;
        let ran = starts(&world, "short", "NORMAL_TRIGGER");
        assert!((3 * 56..=3 * 60).contains(&ran), "{ran} runs");
        assert_eq!(starts(&world, "short", "MISFIRE"), 0);
        at_peace(&world);
    });
}
