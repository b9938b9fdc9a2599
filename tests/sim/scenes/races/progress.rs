//! A run's offset is written while it runs.

use rosterd_domain::txn::Purpose;

use super::fixture::*;
use super::races;
use crate::world::World;

races! {
    /// A worker dies in the second half of a run: the failover run starts at its offset.
    a_taker_goes_on_from_where_the_crashed_run_had_come: dies_half_way, [PROGRESS_IS_NOT_WRITTEN => "scene"];
    /// The write of a run's offset takes so long that the run has ended at another host, and the next one runs: it is
    /// not applied.
    what_a_run_had_said_is_not_written_once_it_is_over: said_too_late, [PROGRESS_IS_UNGUARDED => "offsets_go_on"];
    /// A run that is over within a second costs no write for its offset.
    a_short_run_says_all_with_its_end: short_runs;
}

fn left(world: &World) -> String {
    let read = world.store.view(|view| view.dump(&name("again"))?.remove("/offset/0"));
    read.map(|node| String::from_utf8_lossy(&node.data).into_owned()).unwrap_or_default()
}

/// A run of eight seconds at machine 0, of two at hosts of their own, that started this many milliseconds ago.
async fn under_way(since: u64) -> (World, u64) {
    let mut world = small_world(2, &[0, 1], vec![again(1, 8000, 3600)]);
    start(&mut world, 0..2).await;
    at_work(&mut world, "again", 2).await;
    ask(&world, 0, trigger("again"));
    until(&mut world, "it runs", |world| starts(world, "again", "MANUAL") == 1).await;
    world.pass(millis(since)).await;
    let token = record(&world, "again", 0).map_or(0, |record| record.token.0);
    (world, token)
}

fn dies_half_way() -> Faults {
    scene(async || {
        let (mut world, token) = under_way(6000).await;
        let half = format!("{token}, half");
        want(&world, left(&world) == half, "the progress that it reported halfway is written");
        let Some(machine) = owner(&world, "again", 0) else { return world };
        lose_worker(&mut world, machine);
        // An invariant checks for each Trigger that it starts there.
        until(&mut world, "another has it", |world| taker(world, "again").is_some()).await;
        world.pass(secs(3)).await;
        world
    })
}

fn said_too_late() -> Faults {
    scene(async || {
        let (mut world, token) = under_way(4200).await;
        let Some(machine) = owner(&world, "again", 0) else { return world };
        let Some(before) = host(&world, machine) else { return world };
        slow(&world, &before, Purpose::Host, secs(9), 1);
        until(&mut world, "it is on its way", |world| world.store_faults.holds() == 0).await;
        cut(&world, machine);
        until(&mut world, "the worker is elsewhere", |world| {
            host(world, machine).is_some_and(|now| now != before)
        })
        .await;
        until(&mut world, "the run has ended there", |world| left(world) == format!("{token}, half")).await;
        let Some(replica) = world.replicas.iter().position(|replica| replica.name != before) else {
            return world;
        };
        ask(&world, replica, trigger("again"));
        until(&mut world, "the next one runs", |world| starts(world, "again", "MANUAL") == 2).await;
        world.pass(secs(12)).await;
        world
    })
}

fn short_runs() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![again(1, 900, 3600)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "again", 1).await;
        let before = covered(&world, "write: host");
        ask(&world, 0, trigger("again"));
        until(&mut world, "it has ended", |world| !left(world).is_empty()).await;
        want(&world, covered(&world, "write: host") == before + 2, "a run costs two transactions");
        world
    })
}
