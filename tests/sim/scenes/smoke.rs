//! The fault-free paths, one by one.

use std::time::Duration;

use crate::seeds::play::{at_peace, block_on, job, plan, secs, starts};
use crate::world::handlers::JobPlan;
use crate::world::{World, WorldPlan};

fn world(coordinators: usize, workers: usize, jobs: Vec<JobPlan>) -> World {
    World::new(WorldPlan { coordinators, workers, jobs, ..plan(1) })
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

/// One write for its start, one for the ends, even if these are spread over some milliseconds.
#[test]
fn a_fire_costs_two_transactions() {
    block_on(async {
        let mut world = world(1, 2, vec![JobPlan { run: (1, 8), items: 6, ..job("short") }]);
        world.start_all();
        world.pass(secs(10)).await;
        let before = world.observer.lock().writes_of("c0");
        world.pass(secs(40)).await;
        let written = world.observer.lock().writes_of("c0") - before;
        assert!(
            (80..=88).contains(&written),
            "{written} transactions for 40 fires, those of the coordinator itself among them"
        );
        at_peace(&world);
    });
}

#[test]
fn a_run_that_is_longer_than_its_period_is_followed_by_one_misfire() {
    block_on(async {
        let slow = JobPlan { run: (2500, 2500), items: 1, ..job("short") };
        let mut world = world(1, 1, vec![slow]);
        world.start_all();
        world.pass(secs(30)).await;
        assert!(starts(&world, "short", "MISFIRE") >= 5);
        at_peace(&world);
    });
}

#[test]
fn items_of_a_worker_that_crashed_go_to_another_and_its_runs_are_run_again() {
    block_on(async {
        let mut world = world(1, 2, vec![JobPlan { run: (1500, 1500), ..job("again") }]);
        world.start_all();
        world.pass(secs(10)).await;
        world.pass(Duration::from_millis(500)).await;
        world.crash_worker(0, true);
        world.pass(secs(20)).await;
        assert!(starts(&world, "again", "FAILOVER") >= 1);
        at_peace(&world);
    });
}

#[test]
fn a_worker_that_leaves_cleanly_causes_no_failover() {
    block_on(async {
        let mut world = world(1, 2, vec![job("again"), job("short")]);
        world.calm = true;
        world.start_all();
        for _ in 0..4 {
            world.pass(secs(7)).await;
            world.leave(0);
        }
        world.pass(secs(15)).await;
        assert_eq!(starts(&world, "again", "FAILOVER"), 0);
        assert_eq!(world.coverage.take().get("worker ended: left"), Some(&4));
        at_peace(&world);
    });
}

#[test]
fn workers_of_a_coordinator_that_crashed_go_on_at_another() {
    block_on(async {
        let mut world = world(2, 3, vec![job("again"), job("short")]);
        world.start_all();
        world.pass(secs(8)).await;
        world.crash_coordinator(0, false);
        world.pass(secs(30)).await;
        assert_eq!(starts(&world, "again", "FAILOVER"), 0, "no worker was marked dead");
        at_peace(&world);
    });
}

#[test]
fn a_coordinator_that_stops_hands_everything_over() {
    block_on(async {
        let mut world = world(2, 3, vec![job("again"), job("short")]);
        world.start_all();
        world.pass(secs(8)).await;
        for _ in 0..2 {
            for replica in 0..2 {
                if let Some(running) = &world.replicas[replica].running {
                    running.handle.stop();
                }
                world.pass(secs(12)).await;
            }
        }
        assert_eq!(starts(&world, "again", "FAILOVER"), 0, "no worker was marked dead");
        at_peace(&world);
    });
}

#[test]
fn a_single_coordinator_comes_back_and_finds_its_workers() {
    block_on(async {
        let mut world = world(1, 3, vec![job("again"), job("short"), job("long")]);
        world.start_all();
        world.pass(secs(8)).await;
        for _ in 0..3 {
            world.calm = true;
            world.crash_coordinator(0, false);
            world.pass(secs(20)).await;
        }
        assert_eq!(starts(&world, "again", "FAILOVER"), 0, "no worker was marked dead");
        at_peace(&world);
    });
}
