//! Runs that are held until a worker was notified that their fire begins.

use rosterd_coordinator::handle::Operation;
use rosterd_domain::id::Item;
use rosterd_domain::txn::Purpose;
use rosterd_registry::memory::CommitFault;

use super::fixture::*;
use super::operators::pause;
use super::races;
use crate::world::World;
use crate::world::handlers::JobPlan;

races! {
    /// The guarantee is switched off while runs are held: they start.
    held_runs_begin_when_nobody_is_asked_any_more: guarantee_switched_off, [HELD_STAYS_HELD => "no_orphans"];
    /// The last instance leaves the job while runs are held on it, and its host ends: no instance is left to call, and
    /// its next host hands them back.
    held_runs_do_not_stay_with_who_left: instance_leaves, [HELD_OUTLIVES_INSTANCE => "no_orphans"];
    /// Runs are held in all slots of the worker that is to run one more item: the fire does not wait for it.
    held_runs_wait_for_no_slot_of_their_own: more_items_than_slots, [HELD_WAITS_FOR_SLOTS => "scene"];
    /// A slow start elsewhere holds the others no longer than an answer may take.
    held_runs_wait_only_so_long: slow_start_elsewhere, [HELD_WAITS_FOR_EVER => "scene"];
    /// The leader's workers are leaving, and take long: another coordinator calls one of its own.
    held_runs_do_not_wait_for_who_leaves: leaders_worker_leaves, [DRAINED_ARE_ASKED => "scene"];
    /// A worker is asked to leave while it is being called: its answer counts, and no other is called.
    who_is_being_asked_may_leave: asked_worker_leaves, [ASKS_AND_LEAVES => "scene"];
    /// The leader loses its worker while runs are held, and receives a change that waits for them: another coordinator
    /// leads, and releases them.
    who_has_nobody_to_ask_gives_up_while_a_change_waits: leader_alone_with_a_change, [WAITING_KEEPS_LEADING => "scene"];
    /// No run of a skipped fire starts, not even one that gets a slot when the others have ended.
    of_a_skipped_fire_nothing_begins: skipped_with_few_slots;
    /// A worker gives up its callback by its own clock, a moment before it times out for the coordinator: the fire is
    /// skipped.
    a_fire_whose_answer_was_given_up_is_skipped: given_up_early, [GIVEN_UP_IS_ANSWERED => "scene"];
    /// A held run is cancelled: its worker is never sent it.
    a_held_run_that_is_cancelled_never_begins: held_run_is_cancelled, [HELD_IS_NOT_CANCELLED => "scene"];
    /// A run crashes while it is held: its failover run waits for the answer as well.
    a_held_run_that_crashed_waits_for_the_answer: held_run_crashes, [CLAIMS_ARE_NOT_HELD => "scene"];
}

fn held(period: u64) -> JobPlan {
    JobPlan { held: Some("run"), answer: (1, 1), ..again(2, 300, period) }
}

fn is_held(world: &World, item: u32) -> bool {
    running(world, "again", item).is_some_and(|run| run.held)
}

/// Both items of a job are held, each at a host of its own, and no worker can be called.
async fn both_held() -> World {
    let mut world = small_world(2, &[0, 1], vec![held(20)]);
    start(&mut world, 0..2).await;
    at_work(&mut world, "again", 2).await;
    before_due(&mut world, 20, secs(1)).await;
    lose(&world, Purpose::Announce, CommitFault::LoseBefore, 10_000);
    until(&mut world, "both are held", |world| (0..2).all(|item| is_held(world, item))).await;
    world
}

fn guarantee_switched_off() -> Faults {
    scene(async || {
        let mut world = both_held().await;
        let before = starts(&world, "again", "NORMAL_TRIGGER");
        ask(&world, 1, apply(&JobPlan { held: None, ..held(20) }));
        world.pass(secs(4)).await;
        want(&world, starts(&world, "again", "NORMAL_TRIGGER") == before + 2, "both begin");
        world
    })
}

fn instance_leaves() -> Faults {
    scene(async || {
        // Its worker stays, for another job.
        let jobs = vec![JobPlan { answer: (30_000, 30_000), ..held(20) }, short(1, 100, 2)];
        let mut world = small_world(2, &[0], jobs);
        start(&mut world, 0..1).await;
        at_work(&mut world, "again", 1).await;
        before_due(&mut world, 20, secs(1)).await;
        until(&mut world, "both are held", |world| (0..2).all(|item| is_held(world, item))).await;
        world.pass(millis(100)).await;
        let instance = instance(&world, "again", 0);
        ask(&world, 0, Operation::Shutdown { job: name("again"), instance });
        until(&mut world, "it has left", |world| covered(world, "operation Shutdown: done") == 1).await;
        lose_coordinator(&mut world, 0);
        world.pass(secs(8)).await;
        world
    })
}

fn leader_alone_with_a_change() -> Faults {
    scene(async || {
        let mut world = both_held().await;
        let Some(leads) = leader(&world, "again") else { return world };
        let alone = format!("c{leads}");
        let Some(machine) = (0..2).find(|machine| host(&world, *machine).as_ref() == Some(&alone)) else {
            return world;
        };
        lose_worker(&mut world, machine);
        ask(&world, leads, pause("again", true));
        until(&mut world, "it is written", |world| covered(world, "write: pause") == 1).await;
        world.store_faults.release_held();
        until(&mut world, "it is answered", |world| covered(world, "operation Pause: done") == 1).await;
        world
    })
}

fn more_items_than_slots() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![JobPlan { items: 3, ..held(20) }]);
        world.plan.slots = (2, 2);
        start(&mut world, 0..1).await;
        at_work(&mut world, "again", 1).await;
        before_due(&mut world, 20, secs(1)).await;
        let before = starts(&world, "again", "NORMAL_TRIGGER");
        // Its timeout is not yet over.
        world.pass(millis(2300)).await;
        want(&world, starts(&world, "again", "NORMAL_TRIGGER") == before + 3, "all three begin");
        world
    })
}

fn slow_start_elsewhere() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![held(20)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        before_due(&mut world, 20, secs(1)).await;
        let other = if leader(&world, "again") == Some(0) { "c1" } else { "c0" };
        slow(&world, other, Purpose::Host, secs(8), 1);
        let before = starts(&world, "again", "NORMAL_TRIGGER");
        world.pass(secs(5)).await;
        want(&world, starts(&world, "again", "NORMAL_TRIGGER") == before + 1, "one begins");
        world
    })
}

fn leaders_worker_leaves() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![held(20), short(2, 15_000, 10)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        until(&mut world, "both have much to do", |world| starts(world, "short", "NORMAL_TRIGGER") == 2)
            .await;
        let leads = if leader(&world, "again") == Some(0) { 0 } else { 1 };
        let instance = instance(&world, "again", leads);
        ask(&world, 0, Operation::Drain { instance, grace: secs(30) });
        before_due(&mut world, 20, secs(1)).await;
        let before = starts(&world, "again", "NORMAL_TRIGGER");
        world.pass(secs(4)).await;
        want(&world, starts(&world, "again", "NORMAL_TRIGGER") > before, "a run begins");
        world
    })
}

fn asked_worker_leaves() -> Faults {
    scene(async || {
        let mut world =
            small_world(2, &[0, 1], vec![JobPlan { answer: (1200, 1200), ..held(20) }, short(2, 3000, 18)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        before_due(&mut world, 20, secs(1)).await;
        until(&mut world, "both are held", |world| (0..2).all(|item| is_held(world, item))).await;
        let before = starts(&world, "again", "NORMAL_TRIGGER");
        world.pass(millis(100)).await;
        let leads = if leader(&world, "again") == Some(0) { 0 } else { 1 };
        let instance = instance(&world, "again", leads);
        ask(&world, 0, Operation::Drain { instance, grace: secs(10) });
        world.pass(millis(1300)).await;
        want(&world, starts(&world, "again", "NORMAL_TRIGGER") > before, "it has answered");
        world.pass(secs(8)).await;
        world
    })
}

fn skipped_with_few_slots() -> Faults {
    skipped(|world| world.plan.slots = (2, 2))
}

fn given_up_early() -> Faults {
    skipped(|world| world.machines[0].fast = Some(100_000))
}

fn skipped(with: impl FnOnce(&mut World)) -> Faults {
    scene(async || {
        let plan = JobPlan { items: 3, held: Some("skip"), answer: (30_000, 30_000), ..held(20) };
        let mut world = small_world(1, &[0], vec![plan]);
        with(&mut world);
        start(&mut world, 0..1).await;
        at_work(&mut world, "again", 1).await;
        before_due(&mut world, 20, secs(1)).await;
        let before = starts(&world, "again", "NORMAL_TRIGGER");
        world.pass(secs(6)).await;
        let cancelled = |item| record(&world, "again", item).map_or(0, |record| record.counters.cancelled);
        want(&world, (0..3).all(|item| cancelled(item) == 1), "all are skipped");
        want(&world, starts(&world, "again", "NORMAL_TRIGGER") == before, "nothing begins");
        world
    })
}

fn held_run_is_cancelled() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![JobPlan { answer: (30_000, 30_000), ..held(20) }]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "again", 1).await;
        before_due(&mut world, 20, secs(1)).await;
        until(&mut world, "both are held", |world| (0..2).all(|item| is_held(world, item))).await;
        let before = starts(&world, "again", "NORMAL_TRIGGER");
        ask(&world, 0, Operation::Cancel { job: name("again"), item: Item(0) });
        // Nothing waits for the answer for a fire that is over.
        world.pass(secs(1)).await;
        let cancelled = record(&world, "again", 0).is_some_and(|record| record.counters.cancelled == 1);
        want(&world, cancelled, "it has ended");
        world.pass(secs(4)).await;
        want(&world, starts(&world, "again", "NORMAL_TRIGGER") == before + 1, "the other one begins");
        world
    })
}

fn held_run_crashes() -> Faults {
    scene(async || {
        let held = JobPlan { items: 4, ..held(20) };
        let mut world = small_world(2, &[0, 0, 1, 1], vec![held]);
        start(&mut world, 0..4).await;
        at_work(&mut world, "again", 4).await;
        before_due(&mut world, 20, secs(1)).await;
        // The leader's announcement takes long.
        slow(&world, "", Purpose::Announce, secs(8), 1);
        until(&mut world, "all are held", |world| (0..4).all(|item| is_held(world, item))).await;
        let crashed = if leader(&world, "again") == Some(0) { 2 } else { 0 };
        lose_worker(&mut world, crashed);
        world.pass(secs(5)).await;
        want(&world, starts(&world, "again", "FAILOVER") == 0, "no worker was asked, and nothing begins");
        until(&mut world, "it begins", |world| starts(world, "again", "FAILOVER") == 1).await;
        world
    })
}
