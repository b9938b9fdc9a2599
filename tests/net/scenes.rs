//! Effects of the network on a worker and a coordinator, one at a time.

use std::time::Duration;

use rosterd_domain::verify::judge;

use crate::apart::apart;
use crate::play::{LONG, Outcome, settle};
use crate::work::{JOBS, JobPlan};
use crate::world::{Break, Host, World, WorldPlan};

/// Runs of half a second, each second, that are run again when they crash.
const STEADY: JobPlan =
    JobPlan { name: "steady", period: 1, items: 2, failover: true, run: (300, 500), fails: 0 };

/// A world that works.
fn world(coordinators: usize, workers: usize, jobs: &[JobPlan]) -> World {
    let plan = WorldPlan {
        seed: 1,
        coordinators,
        workers,
        times: LONG,
        jobs: jobs.to_vec(),
        slots: 6,
        person: false,
    };
    let mut world = World::new(plan);
    assert!(world.pass_until(Duration::from_secs(20), |world| runs(world) > 4), "nothing runs");
    world
}

fn runs(world: &World) -> usize {
    judge(&world.shared.log.lines(), 0).runs.len()
}

/// How many runs of this source other workers than this one have.
fn of(world: &World, source: &str, not: &str) -> usize {
    let verdict = judge(&world.shared.log.lines(), 0);
    verdict.runs.iter().filter(|run| run.source == source && !run.worker.starts_with(not)).count()
}

fn taken(world: &World, what: &str) -> u64 {
    world.shared.coverage.take().get(what).copied().unwrap_or(0)
}

fn ends_well(mut world: World) {
    settle(&mut world);
    Outcome::of(&world).is_clean();
}

const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_link_that_is_held_for_less_than_the_lease_costs_nothing() {
    apart("scenes::a_link_that_is_held_for_less_than_the_lease_costs_nothing", || {
        let mut world = world(1, 1, &[STEADY]);
        assert!(world.break_for(0, 0, Break::Held, Duration::from_secs(3)));
        world.pass(Duration::from_secs(10));
        assert_eq!(taken(&world, "recovery: expire by the host"), 0);
        assert_eq!(of(&world, "FAILOVER", "-"), 0);
        ends_well(world);
    });
}

#[test]
fn a_worker_that_is_cut_off_without_a_word_stops_and_its_runs_go_to_another() {
    apart("scenes::a_worker_that_is_cut_off_without_a_word_stops_and_its_runs_go_to_another", || {
        let mut world = world(1, 2, &JOBS);
        assert!(world.break_for(0, 0, Break::Both, Duration::from_secs(20)));
        assert!(world.pass_until(SOON, |world| of(world, "FAILOVER", "w0") > 0), "nobody takes over");
        assert!(taken(&world, "recovery: expire by the host") > 0);
        ends_well(world);
    });
}

#[test]
fn a_worker_whose_heartbeats_do_not_arrive_is_marked_dead_although_it_receives() {
    apart("scenes::a_worker_whose_heartbeats_do_not_arrive_is_marked_dead_although_it_receives", || {
        let mut world = world(1, 2, &[STEADY]);
        assert!(world.break_for(0, 0, Break::Up, Duration::from_secs(15)));
        let expired = |world: &World| taken(world, "recovery: expire by the host") > 0;
        assert!(world.pass_until(SOON, expired), "a worker that nobody hears is believed");
        ends_well(world);
    });
}

#[test]
fn a_worker_that_receives_nothing_stops_although_its_heartbeats_arrive() {
    apart("scenes::a_worker_that_receives_nothing_stops_although_its_heartbeats_arrive", || {
        let mut world = world(1, 2, &[STEADY]);
        let (before, own) = (world.elapsed(), |world: &World| {
            let lines = world.shared.log.lines();
            lines.iter().filter(|line| line.worker == "w0.1").map(|line| line.at).max().unwrap_or(0)
        });
        assert!(world.break_for(0, 0, Break::Down, Duration::from_secs(20)));
        world.pass(Duration::from_secs(12));
        let latest = Duration::from_nanos(own(&world));
        assert!(latest < before + LONG.lease + Duration::from_millis(20), "it works on at {latest:?}");
        ends_well(world);
    });
}

#[test]
fn a_coordinator_that_crashes_loses_no_worker() {
    apart("scenes::a_coordinator_that_crashes_loses_no_worker", || {
        let mut world = world(2, 3, &JOBS);
        world.crash(Host::Coordinator(0), false);
        world.crash(Host::Coordinator(1), true);
        world.pass(Duration::from_secs(20));
        assert_eq!(of(&world, "FAILOVER", "-"), 0, "workers look dead whose coordinators died");
        ends_well(world);
    });
}

#[test]
fn a_session_that_is_over_is_followed_by_another_behind_the_same_port() {
    apart("scenes::a_session_that_is_over_is_followed_by_another_behind_the_same_port", || {
        let mut world = world(1, 2, &[STEADY]);
        world.suspend(0, Duration::from_secs(20));
        let again = |world: &World| taken(world, "recovery: a new session in the same process") > 0;
        assert!(world.pass_until(SOON * 2, again), "the coordinator stays without a session");
        let so_far = runs(&world);
        assert!(world.pass_until(SOON, |world| runs(world) > so_far + 4), "nothing runs any more");
        ends_well(world);
    });
}

#[test]
fn a_worker_that_leaves_over_a_slow_network_crashes_nothing() {
    apart("scenes::a_worker_that_leaves_over_a_slow_network_crashes_nothing", || {
        let mut world = world(1, 2, &[STEADY]);
        assert!(world.break_for(0, 0, Break::Slow(Duration::from_millis(400)), Duration::from_secs(20)));
        world.retire(Host::Worker(0));
        world.stop(Host::Worker(0));
        assert!(world.pass_until(SOON, |world| taken(world, "worker ended: left") > 0), "it does not leave");
        world.pass(Duration::from_secs(10));
        assert_eq!(of(&world, "FAILOVER", "-"), 0, "a clean exit is no crash");
        ends_well(world);
    });
}
