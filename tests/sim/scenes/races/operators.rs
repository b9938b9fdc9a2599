//! Operators make changes while hosts act on outdated state.

use std::time::Duration;

use rosterd_coordinator::handle::{MachineAction, Operation, Target};
use rosterd_domain::id::{Item, ServerAddress};
use rosterd_domain::mutants;
use rosterd_domain::txn::Purpose;
use rosterd_domain::verify::What;

use super::fixture::*;
use super::races;
use crate::world::World;
use crate::world::handlers::JobPlan;

races! {
    /// A host that has not noticed a disable starts the item.
    hole_9_a_start_after_an_acknowledged_disable: unheard_disable_item, [START_IGNORES_GENERATION => "right_to_start"];
    /// The same with the whole job, which the assignment does not show.
    ej_946_a_disabled_job_starts_nothing: unheard_disable_job, [DISABLE_KEEPS_GENERATION => "right_to_start"];
    /// The same with a server.
    ej_2009_a_disabled_server_is_given_nothing: unheard_disable_server, [DISABLE_KEEPS_GENERATION => "right_to_start"];
    /// The same with a pause.
    ej_158_a_host_that_has_not_heard_of_a_pause: unheard_pause, [PAUSE_KEEPS_GENERATION => "right_to_start"];
    /// A worker joins during a pause: it has items when the job is resumed.
    ej_158_join_during_pause: join_during_pause, [PAUSE_HOLDS_PLANS => "scene"];
    /// A disabled job is enabled again: its missed fires are counted and not run.
    ej_562_enabling_releases_no_flood: enabled_again, [GAPS_FORGOTTEN => "scene"];
    /// A start that was decided for a job that was then removed and created again.
    hole_17_a_start_for_a_job_that_was_made_again: made_again_meanwhile, [INCARNATION_UNCHECKED => "removed_is_gone"];
    /// A node that was created again under the same name is another node, although its version is the same.
    curator_391_what_was_made_again_is_not_what_was_read: made_again_meanwhile, [INCARNATION_UNCHECKED => "removed_is_gone"];
    /// A job is triggered manually while another one's handlers take very long on the same workers.
    ej_2038_a_trigger_waits_for_no_other_job: triggered_beside_a_long_one, [WORKERS_JOIN_BATCHES => "scene"];
    /// A run starts at another host while a removal that has to wait for runs is in flight.
    a_removal_that_meets_a_start_is_refused: removal_meets_a_start, [REMOVAL_IGNORES_RECORDS => "scene"];
    /// A job is paused a moment before a fire that was sent to its worker already: the pause is answered once its run
    /// has started.
    a_pause_waits_for_what_was_told_ahead: paused_right_before, [CHANGES_ANSWER_AT_ONCE => "barrier", TOLD_IS_BEGUN => "barrier"];
    /// The same request to a coordinator that does not host the worker: its host reports when the run has started.
    a_pause_waits_for_what_another_host_told_ahead: paused_elsewhere, [CHANGES_ANSWER_AT_ONCE => "barrier", TOLD_IS_BEGUN => "barrier", SETTLED_BY_ANYBODY => "barrier"];
    /// The parameter of a job is changed a moment before a fire, and an item of another is disabled.
    an_apply_waits_for_what_was_told_ahead: applied_right_before, [CHANGES_ANSWER_AT_ONCE => "barrier"];
    /// A job is removed with its runs a moment before a fire.
    a_removal_waits_for_what_was_told_ahead: removed_right_before, [CHANGES_ANSWER_AT_ONCE => "barrier"];
    /// The same while one run that it waits for does not start, and another is written meanwhile.
    a_removal_waits_for_what_joins_while_it_waits: removed_while_one_joins, [JOINED_IS_BEGUN => "barrier"];
    /// A worker is frozen with a run that was sent ahead: the pause is answered when its lease has ended.
    a_pause_waits_for_a_worker_that_stands_still: paused_while_frozen, [CHANGES_ANSWER_AT_ONCE => "barrier"];
    /// A job is removed and created again, and fires once.
    ej_246_delete_and_create_fires_once: deleted_and_created, [NEXT_FIRE_NOT_STORED => "no_fire_vanishes"];
    /// An item is disabled before its record exists: tools still see it.
    an_item_that_is_disabled_before_it_has_a_record: disabled_at_once;
    /// The item count goes down and up again.
    hole_18_records_outlive_the_count: count_goes_down_and_up, [RECORDS_GO_WITH_COUNT => "tokens_grow"];
    /// A long run of a surplus item ends normally.
    a_surplus_run_completes: count_goes_down_mid_run;
    /// A job is removed while the worker that runs it has no stream: the run is stopped when the worker reconnects.
    saturn_136_a_job_is_removed_while_its_worker_is_away: removed_while_away, [FENCED_UNTOLD => "scene"];
    /// A worker is asked to leave over a stream that no longer delivers frames: it is told on its next stream.
    who_is_asked_to_leave_is_told_on_its_next_stream: asked_over_a_dead_stream, [DRAINS_ARE_ONLY_SAID => "nothing_acknowledged_is_lost"];
    /// A worker is shut down for a job while frames no longer reach it: it comes back with that job, and may not have
    /// it.
    who_is_shut_down_for_a_job_does_not_come_back_with_it: shut_down_over_a_dead_stream, [SHUTDOWNS_ARE_ONLY_SAID => "nothing_acknowledged_is_lost"];
    /// A run is cancelled over a stream that no longer delivers frames: its worker is told on its next stream.
    who_is_to_stop_a_run_is_told_on_its_next_stream: cancelled_over_a_dead_stream, [CANCELS_ARE_ONLY_SAID => "scene"];
    /// A run is cancelled, and its worker dies before it was told: the run is not run again.
    a_cancelled_run_is_not_run_again: cancelled_and_lost, [CANCELLED_RUNS_AGAIN => "cancelled_stays_cancelled"];
    /// A run has crashed and waits for a worker when it is cancelled: it is not run again.
    a_crashed_run_that_is_cancelled_is_given_up: crashed_and_cancelled;
    /// A worker of another host is asked to leave. That host dies before it has noticed it, and the worker's node goes.
    who_is_asked_to_leave_is_told_by_its_next_host: asked_of_a_host_that_dies, [COMMANDS_GO_WITH_INSTANCES => "nothing_acknowledged_is_lost"];
    /// A machine is removed as a worker on it attaches: its node is created again, so that it can be disabled.
    a_machine_that_is_removed_under_a_live_worker_comes_back: machine_removed_under_a_worker;
    /// A machine is disabled and shut down in two jobs at once, and removed; when it comes back it is like a new one.
    a_machine_is_forgotten_in_all_its_jobs: machine_forgotten, [CHANGES_ANSWER_AT_ONCE => "barrier"];
    /// Items are moved while they run: no other instance starts them.
    items_that_move_while_they_run_run_once: moved_mid_run, [BUSY_IS_FREE => "one_runner"];
}

fn machine_removed_under_a_worker() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0], vec![short(2, 50, 3)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        let id = instance(&world, "short", 0);
        let path = format!("/servers/{}", id.address());
        want(&world, world.store.foreign(&name("short"), &path, None, false), "it is deleted");
        world.pass(secs(5)).await;
        let Ok(machine) = ServerAddress::new(id.address()) else { return world };
        // Only an existing one can be disabled.
        ask(&world, 1, disable("short", Target::Machine(machine)));
        until(&mut world, "it is disabled", |world| covered(world, "operation Enable: done") == 1).await;
        world
    })
}

fn machine_forgotten() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0, 0], vec![short(2, 100, 3), again(2, 100, 3)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        at_work(&mut world, "again", 2).await;
        world.pass(secs(6)).await;
        let Ok(machine) = ServerAddress::new(instance(&world, "short", 1).address()) else { return world };
        let of = |action| Operation::Machine {
            machine: machine.clone(),
            jobs: ["short", "again"].map(name).into(),
            action,
        };
        // The run that was sent ahead has started before the disable is acknowledged.
        before_due(&mut world, 3, TOLD).await;
        ask(&world, 0, of(MachineAction::Enable { enabled: false, cancel: false }));
        until(&mut world, "both jobs are disabled there", |world| covered(world, "write: disable") == 2)
            .await;
        ask(&world, 0, of(MachineAction::Remove));
        let owns = |world: &World| ["short", "again"].map(|job| item_of(world, job, 1).is_some());
        until(&mut world, "its items are given away", |world| owns(world) == [false; 2]).await;
        want(&world, covered(&world, "write: remove machine") == 0, "a machine in use is not removed");
        ask(&world, 0, of(MachineAction::Shutdown));
        until(&mut world, "it is shut down", |world| covered(world, "write: shutdown") == 2).await;
        lose_worker(&mut world, 1);
        world.pass(secs(10)).await;
        ask(&world, 0, of(MachineAction::Remove));
        until(&mut world, "it is forgotten", |world| covered(world, "write: remove machine") == 2).await;
        world.machines[1].retired = false;
        world.start_worker(1);
        at_work(&mut world, "short", 2).await;
        at_work(&mut world, "again", 2).await;
        world
    })
}

pub fn pause(job: &str, paused: bool) -> Operation {
    Operation::Pause { job: name(job), paused }
}

/// c0 hosts a worker and does not notice the request to c1.
async fn unheard(of: impl Fn(&crate::world::World) -> Operation) -> crate::world::World {
    let mut world = small_world(2, &[0, 1], vec![short(2, 100, 3)]);
    start(&mut world, 0..2).await;
    at_work(&mut world, "short", 2).await;
    world.pass(secs(6)).await;
    before_due(&mut world, 3, secs(1)).await;
    world.store_faults.deafen("c0", secs(4));
    let operation = of(&world);
    ask(&world, 1, operation);
    world.pass(secs(6)).await;
    world
}

fn unheard_disable_item() -> Faults {
    scene(async || {
        unheard(|world| disable("short", Target::Item(Item(item_of(world, "short", 0).unwrap_or(9))))).await
    })
}

fn unheard_disable_job() -> Faults {
    scene(async || unheard(|_| disable("short", Target::Job)).await)
}

fn unheard_disable_server() -> Faults {
    scene(async || {
        let Ok(server) = ServerAddress::new("10.0.0.0") else { return small_world(1, &[], Vec::new()) };
        unheard(|_| disable("short", Target::Machine(server.clone()))).await
    })
}

fn unheard_pause() -> Faults {
    scene(async || unheard(|_| pause("short", true)).await)
}

fn join_during_pause() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0, 0], vec![short(4, 100, 1)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        ask(&world, 0, pause("short", true));
        world.pass(secs(3)).await;
        world.start_worker(1);
        world.pass(secs(3)).await;
        want(
            &world,
            item_of(&world, "short", 1).is_some(),
            "a worker that joins gets its share while the job is paused",
        );
        ask(&world, 0, pause("short", false));
        world.pass(secs(3)).await;
        want(&world, item_of(&world, "short", 1).is_some(), "the worker that joined has its share");
        world
    })
}

fn enabled_again() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![short(1, 100, 1)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        ask(&world, 0, disable("short", Target::Job));
        world.pass(secs(1)).await;
        let before = starts(&world, "short", "NORMAL_TRIGGER");
        world.pass(secs(60)).await;
        ask(&world, 0, enable("short", Target::Job));
        world.pass(secs(4)).await;
        let after = starts(&world, "short", "NORMAL_TRIGGER") + starts(&world, "short", "MISFIRE");
        want(&world, after <= before + 6, "there is no flood");
        want(&world, covered(&world, "item: miss disabled") >= 1, "they are counted");
        world
    })
}

fn made_again_meanwhile() -> Faults {
    scene(async || {
        let plan = short(1, 100, 5);
        let mut world = small_world(2, &[0, 1], vec![plan.clone()]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        slow(&world, "c0", Purpose::Host, millis(6500), 1);
        until(&mut world, "the start is in flight", |world| world.store_faults.holds() == 0).await;
        world.start_worker(1);
        world.pass(millis(300)).await;
        ask(&world, 1, Operation::Remove { job: name("short"), cancel: true });
        world.pass(millis(600)).await;
        ask(&world, 1, apply(&plan));
        world.pass(secs(2)).await;
        slow(&world, "c1", Purpose::Host, secs(4), 5);
        world.pass(secs(9)).await;
        world
    })
}

fn removal_meets_a_start() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0], vec![again(1, 4000, 10)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "again", 1).await;
        before_due(&mut world, 10, millis(300)).await;
        until(&mut world, "nothing runs", |world| !runs(world, "again")).await;
        slow(&world, "c1", Purpose::Remove, millis(600), 1);
        ask(&world, 1, Operation::Remove { job: name("again"), cancel: false });
        world.pass(secs(2)).await;
        want(&world, world.store_faults.holds() == 0, "the removal was under way");
        want(&world, runs(&world, "again"), "the run goes on");
        want(&world, covered(&world, "operation Remove: RUN_IN_FLIGHT") == 1, "the removal is refused");
        world
    })
}

fn deleted_and_created() -> Faults {
    scene(async || {
        let plan = short(2, 100, 2);
        let mut world = small_world(2, &[0, 1], vec![plan.clone()]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        for _ in 0..4 {
            before_due(&mut world, 2, millis(10)).await;
            ask(&world, 0, Operation::Remove { job: name("short"), cancel: true });
            world.pass(millis(30)).await;
            ask(&world, 1, apply(&plan));
            let before = starts(&world, "short", "NORMAL_TRIGGER");
            world.pass(secs(7)).await;
            want(&world, starts(&world, "short", "NORMAL_TRIGGER") >= before + 4, "the new job is run");
        }
        world
    })
}

fn disabled_at_once() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![short(2, 100, 2)]);
        slow(&world, "", Purpose::Records, secs(2), 1);
        start(&mut world, 0..2).await;
        until(&mut world, "the records are under way", |world| world.store_faults.holds() == 0).await;
        let leads = leader(&world, "short").unwrap_or(0);
        ask(&world, 1 - leads, disable("short", Target::Item(Item(0))));
        world.pass(secs(6)).await;
        want(&world, covered(&world, "operation Enable: done") == 1, "it is disabled");
        want(&world, starts(&world, "short", "NORMAL_TRIGGER") >= 2, "the other item is run");
        world
    })
}

fn count_goes_down_and_up() -> Faults {
    scene(async || {
        let plan = short(3, 100, 3);
        let mut world = small_world(1, &[0], vec![plan.clone()]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        until(&mut world, "all ran", |world| starts(world, "short", "NORMAL_TRIGGER") >= 3).await;
        world.pass(millis(500)).await;
        ask(&world, 0, apply(&JobPlan { items: 1, ..plan.clone() }));
        world.pass(millis(700)).await;
        ask(&world, 0, apply(&plan));
        world.pass(secs(6)).await;
        want(&world, starts(&world, "short", "NORMAL_TRIGGER") >= 6, "all run again");
        world
    })
}

fn count_goes_down_mid_run() -> Faults {
    scene(async || {
        let plan = again(3, 4000, 10);
        let mut world = small_world(2, &[0, 1], vec![plan.clone()]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        until(&mut world, "all run", |world| starts(world, "again", "NORMAL_TRIGGER") >= 3).await;
        ask(&world, 1, apply(&JobPlan { items: 1, ..plan }));
        world.pass(secs(7)).await;
        want(&world, covered(&world, "item: end succeeded (reported)") == 3, "all end well");
        world
    })
}

fn moved_mid_run() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1, 1], vec![again(3, 7000, 3)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "again", 1).await;
        until(&mut world, "all run", |world| starts(world, "again", "NORMAL_TRIGGER") >= 3).await;
        world.start_worker(1);
        world.start_worker(2);
        world.pass(secs(20)).await;
        want(&world, starts(&world, "again", "FAILOVER") == 0, "no worker was marked dead");
        world
    })
}

fn removed_while_away() -> Faults {
    scene(async || {
        let mut world = both_run(again(2, 20_000, 25)).await;
        // No frame of its host arrives, until it looks for another one.
        let Some(process) = world.machines[0].running.as_ref().map(|running| running.process.clone()) else {
            return world;
        };
        world.net.silence_of(&process, crate::world::network::Direction::Down, true);
        ask(&world, 1, Operation::Remove { job: name("again"), cancel: true });
        world.pass(secs(2)).await;
        let told = |world: &World| world.log.lines().iter().filter(|line| line.what == What::Told).count();
        want(&world, told(&world) == 1, "the reachable worker is told to stop");
        world.net.cut(&process);
        world.pass(secs(5)).await;
        want(&world, told(&world) == 2, "and the other once it is reachable again");
        want(&world, covered(&world, "operation Remove: done") == 1, "the job is removed");
        world
    })
}

fn triggered_beside_a_long_one() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![again(4, 60_000, 59), short(4, 100, 57)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        at_work(&mut world, "short", 2).await;
        ask(&world, 0, trigger("again"));
        until(&mut world, "the long ones run", |world| starts(world, "again", "MANUAL") == 4).await;
        ask(&world, 1, trigger("short"));
        world.pass(secs(3)).await;
        want(&world, starts(&world, "short", "MANUAL") == 4, "every instance is triggered at once");
        world
    })
}

fn drain(world: &World, machine: usize) -> Operation {
    Operation::Drain { instance: instance(world, "short", machine), grace: secs(2) }
}

/// The worker at machine 0 gets no frame about this on its current stream.
async fn unheard_by_its_worker(of: impl Fn(&World) -> Operation, answered: &str) -> World {
    let mut world = small_world(2, &[0, 1], vec![short(2, 100, 3)]);
    start(&mut world, 0..2).await;
    at_work(&mut world, "short", 2).await;
    let process =
        world.machines[0].running.as_ref().map(|running| running.process.clone()).unwrap_or_default();
    world.net.silence_of(&process, crate::world::network::Direction::Down, true);
    let operation = of(&world);
    ask(&world, 0, operation);
    world.pass(secs(1)).await;
    want(&world, covered(&world, answered) == 1, "it is answered");
    world.net.cut(&process);
    world
}

fn cancelled_over_a_dead_stream() -> Faults {
    scene(async || {
        let mut world = both_run(again(2, 20_000, 25)).await;
        let process =
            world.machines[0].running.as_ref().map(|running| running.process.clone()).unwrap_or_default();
        let Some(item) = item_of(&world, "again", 0) else { return world };
        world.net.silence_of(&process, crate::world::network::Direction::Down, true);
        ask(&world, 1, Operation::Cancel { job: name("again"), item: Item(item) });
        world.pass(secs(1)).await;
        want(&world, covered(&world, "operation Cancel: done") == 1, "it is answered");
        world.net.cut(&process);
        world.pass(secs(5)).await;
        let cancelled = record(&world, "again", item).is_some_and(|record| record.counters.cancelled == 1);
        want(&world, cancelled, "the run is stopped");
        world
    })
}

/// This long before a fire its workers have been sent it.
const TOLD: Duration = Duration::from_millis(15);

/// A number of coordinators; c0 hosts a worker that was sent a future fire, and a coordinator is asked for a change.
async fn asked_right_before(coordinators: usize, asked: usize, operation: Operation) -> World {
    let mut world = small_world(coordinators, &[0], vec![short(2, 2000, 5)]);
    start(&mut world, 0..1).await;
    at_work(&mut world, "short", 1).await;
    world.pass(secs(6)).await;
    before_due(&mut world, 5, TOLD).await;
    want(&world, runs(&world, "short"), "it is written");
    ask(&world, asked, operation);
    world
}

async fn answered(world: &mut World, what: &str) {
    let done = format!("operation {what}: done");
    until(world, "it is answered", |world| covered(world, &done) == 1).await;
}

fn paused_right_before() -> Faults {
    scene(async || {
        let mut world = asked_right_before(1, 0, pause("short", true)).await;
        answered(&mut world, "Pause").await;
        world.pass(secs(6)).await;
        world
    })
}

fn paused_elsewhere() -> Faults {
    scene(async || {
        let mut world = asked_right_before(2, 1, pause("short", true)).await;
        // The run starts when the worker resumes.
        world.freeze_worker(0, secs(1));
        answered(&mut world, "Pause").await;
        world.pass(secs(6)).await;
        world
    })
}

fn applied_right_before() -> Faults {
    scene(async || {
        let other = JobPlan { period: 4, ..short(2, 2000, 5) };
        let mut world = asked_right_before(2, 1, apply(&other)).await;
        answered(&mut world, "Apply").await;
        world.pass(secs(3)).await;
        before_due(&mut world, 4, TOLD).await;
        ask(&world, 0, disable("short", Target::Item(Item(1))));
        answered(&mut world, "Enable").await;
        world.pass(secs(6)).await;
        world
    })
}

fn removed_right_before() -> Faults {
    scene(async || {
        let remove = Operation::Remove { job: name("short"), cancel: true };
        let mut world = asked_right_before(2, 1, remove).await;
        world.store_faults.deafen("c0", secs(1));
        world.freeze_worker(0, millis(500));
        answered(&mut world, "Remove").await;
        world.pass(secs(6)).await;
        world
    })
}

/// One worker is frozen with its run until the other was sent its next run, is frozen in turn, and gets no more frames.
/// Their host wrote that run itself: with another host's, the removal's transaction would conflict, and be decided
/// again.
fn removed_while_one_joins() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0, 0], vec![short(2, 300, 3)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        world.pass(secs(6)).await;
        let (Some(found), Some(joins)) = (item_of(&world, "short", 0), item_of(&world, "short", 1)) else {
            return world;
        };
        before_due(&mut world, 3, TOLD).await;
        want(&world, running(&world, "short", found).is_some(), "one is written");
        world.freeze_worker(0, secs(3) + TOLD / 2);
        ask(&world, 0, Operation::Remove { job: name("short"), cancel: true });
        world.pass(secs(3)).await;
        want(&world, running(&world, "short", joins).is_some(), "another is written");
        let joined =
            world.machines[1].running.as_ref().map(|running| running.process.clone()).unwrap_or_default();
        world.net.silence_of(&joined, crate::world::network::Direction::Down, true);
        world.freeze_worker(1, millis(500));
        answered(&mut world, "Remove").await;
        world.pass(secs(6)).await;
        world
    })
}

fn paused_while_frozen() -> Faults {
    scene(async || {
        let mut world = asked_right_before(1, 0, pause("short", true)).await;
        world.freeze_worker(0, secs(3));
        world.pass(secs(2)).await;
        let early = covered(&world, "operation Pause: done") > 0;
        want(&world, !early || mutants::is_on(mutants::CHANGES_ANSWER_AT_ONCE), "it is not answered yet");
        answered(&mut world, "Pause").await;
        world.pass(secs(6)).await;
        world
    })
}

fn cancelled_and_lost() -> Faults {
    scene(async || {
        let mut world = both_run(again(2, 20_000, 25)).await;
        let process =
            world.machines[0].running.as_ref().map(|running| running.process.clone()).unwrap_or_default();
        let Some(item) = item_of(&world, "again", 0) else { return world };
        world.net.silence_of(&process, crate::world::network::Direction::Down, true);
        ask(&world, 1, Operation::Cancel { job: name("again"), item: Item(item) });
        until(&mut world, "it is answered", |world| covered(world, "operation Cancel: done") == 1).await;
        lose_worker(&mut world, 0);
        let ended =
            |world: &World| record(world, "again", item).is_some_and(|record| record.running().is_none());
        until(&mut world, "its worker is found dead", ended).await;
        world.pass(secs(2)).await;
        want(&world, starts(&world, "again", "FAILOVER") == 0, "it is not run again");
        world
    })
}

fn crashed_and_cancelled() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0, 0], vec![again(1, 20_000, 55)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "again", 1).await;
        ask(&world, 0, trigger("again"));
        until(&mut world, "it runs", |world| starts(world, "again", "MANUAL") == 1).await;
        lose_worker(&mut world, 0);
        let waits =
            |world: &World| record(world, "again", 0).is_some_and(|record| record.crashed().is_some());
        until(&mut world, "its run waits for a worker", waits).await;
        ask(&world, 0, Operation::Cancel { job: name("again"), item: Item(0) });
        until(&mut world, "it is answered", |world| covered(world, "operation Cancel: done") == 1).await;
        start(&mut world, 1..2).await;
        at_work(&mut world, "again", 1).await;
        want(&world, starts(&world, "again", "FAILOVER") == 0, "it is not run again");
        world
    })
}

fn shut_down_over_a_dead_stream() -> Faults {
    scene(async || {
        let of =
            |world: &World| Operation::Shutdown { job: name("short"), instance: instance(world, "short", 0) };
        let mut world = unheard_by_its_worker(of, "operation Shutdown: done").await;
        world.pass(secs(8)).await;
        world
    })
}

fn asked_over_a_dead_stream() -> Faults {
    scene(async || {
        let of = |world: &World| drain(world, 0);
        let mut world = unheard_by_its_worker(of, "operation Drain: done").await;
        until(&mut world, "it leaves", |world| covered(world, "worker ended: left") == 1).await;
        world
    })
}

fn asked_of_a_host_that_dies() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![short(2, 100, 3)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        let session =
            world.replicas[0].running.as_ref().map(|running| running.session.clone()).unwrap_or_default();
        world.store_faults.deafen("c0", secs(4));
        ask(&world, 1, drain(&world, 0));
        until(&mut world, "it is answered", |world| covered(world, "operation Drain: done") == 1).await;
        world.freeze_worker(0, secs(3));
        lose_coordinator(&mut world, 0);
        world.store.expire(&session);
        until(&mut world, "it leaves", |world| covered(world, "worker ended: left") == 1).await;
        world
    })
}
