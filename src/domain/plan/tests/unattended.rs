//! What gauges show of jobs that no worker serves.

use std::time::Duration;

use super::world::{World, instance, job, noon, seen};
use crate::id::{InstanceId, Item};
use crate::item::Missed;
use crate::sharding::Gap;
use crate::time::Time;
use crate::unattended::{Unattended, unattended};

/// Two items that fire each second and last fired at noon, owned by instances 0 and 1. It is ten seconds later.
fn world() -> World {
    let mut world = World::new(job(Some("* * * * * ?"), 2), &[0, 1], noon());
    world.job.instances = [0, 1].map(|n| (instance(n), seen())).into();
    world.now = noon().plus(Duration::from_secs(10));
    world
}

fn seconds(n: u64) -> Time {
    noon().plus(Duration::from_secs(n))
}

fn found(world: &World, leads: bool, hosts: &[usize]) -> Unattended {
    let hosted: Vec<InstanceId> = hosts.iter().map(|n| instance(*n)).collect();
    unattended(&world.job, &world.records, leads, &|instance| hosted.contains(instance))
}

#[test]
fn a_leader_tells_of_what_has_no_owner_and_a_host_of_what_it_hosts() {
    let mut world = world();
    world.record_mut(Item(1)).last_fire = seconds(4);
    let none = Unattended::default();
    assert_eq!(found(&world, true, &[]), none, "others host both");
    assert_eq!(found(&world, false, &[1]), Unattended { waits_since: Some(seconds(5)), ..none });
    assert_eq!(found(&world, true, &[0, 1]), Unattended { waits_since: Some(seconds(1)), ..none });
    world.job.instances.remove(&instance(1));
    let orphan = Unattended { items: 1, waits_since: Some(seconds(5)), ..none };
    assert_eq!(found(&world, true, &[]), orphan, "its owner has gone");
    assert_eq!(found(&world, false, &[]), none, "the leader reports it");
    world.job.instances.clear();
    let alone = Unattended { without_workers: true, items: 2, waits_since: Some(seconds(1)) };
    assert_eq!(found(&world, true, &[]), alone);
    assert_eq!(found(&world, false, &[]), none);
}

#[test]
fn an_instance_that_cannot_own_an_item_does_not_count_as_a_worker() {
    let mut world = world();
    world.job.sharding.disabled_instances.insert(instance(0));
    let items = |world: &World| (found(world, true, &[]).without_workers, found(world, true, &[]).items);
    assert_eq!(items(&world), (false, 1));
    world.job.instances.get_mut(&instance(1)).unwrap().node = None;
    assert_eq!(items(&world), (true, 2), "an instance of Elastic-Job runs nothing here");
}

#[test]
fn what_is_not_to_run_waits_for_nobody() {
    let mut world = world();
    world.job.instances.clear();
    let mut disabled = world.clone();
    disabled.job.sharding.disabled_items.insert(Item(0));
    assert_eq!(found(&disabled, true, &[]).items, 1);
    let mut paused = world.clone();
    paused.job.paused = true;
    assert_eq!(found(&paused, true, &[]), Unattended::default());
    let mut off = world.clone();
    off.job.rules.disabled = true;
    assert_eq!(found(&off, true, &[]), Unattended::default());
    world.job.sharding.gap = Some(Gap { until: seconds(6), reason: Missed::Paused });
    assert_eq!(found(&world, true, &[]).waits_since, Some(seconds(7)), "until then it was paused");
}
