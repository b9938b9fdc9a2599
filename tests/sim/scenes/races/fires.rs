//! Scheduled times: each once, none lost.

use super::fixture::*;
use super::races;
use crate::world::World;
use crate::world::handlers::JobPlan;
use rosterd_domain::txn::Purpose;

races! {
    /// The process dies after each start: a started run is not started again.
    pj_1107_the_next_time_is_stored_with_the_run: host_dies_often, [NEXT_FIRE_NOT_STORED => "no_fire_vanishes"];
    /// Two coordinators with the same job fire it once.
    two_coordinators_fire_once: two_hosts, [NEXT_FIRE_NOT_STORED => "no_fire_vanishes"];
    /// A run that is written ahead of its scheduled time does not start before it.
    dkron_541_a_fire_is_never_early: two_hosts, [TELLS_EARLY => "never_early"];
    /// A run that is longer than its period is followed by one misfire for all that it skipped.
    ej_596_long_runs_do_not_spin: long_runs, [BUSY_IS_FREE => "one_runner"];
    /// A mark is run once.
    ej_250_misfire_runs_once: first_is_busy, [MISFIRE_STAYS => "once_per_fire"];
    /// The first scheduled time of a new job finds its item busy.
    ej_727_the_first_misfire_is_run: first_is_busy, [MISFIRE_STAYS => "once_per_fire"];
    /// A manual trigger while the item runs is run once, after it.
    ej_470_manual_trigger_runs_once: trigger_while_busy, [TRIGGER_STAYS => "once_per_fire"];
    /// A manual run during a pause leaves the scheduled times of the pause to be counted.
    hole_30_a_manual_run_moves_no_due_time: trigger_in_a_pause, [ANY_RUN_MOVES_LAST_FIRE => "no_fire_vanishes"];
    /// No coordinator was up at a scheduled time: it is counted.
    dkron_1210_a_fire_while_nobody_is_up_is_counted: down_for_long, [MISSES_UNCOUNTED => "no_fire_vanishes"];
    /// An item had no owner for long: its next owner's host accounts for every scheduled time since its last.
    hole_23_who_gains_an_item_accounts_for_what_it_missed: nobody_works, [MISSES_UNCOUNTED => "no_fire_vanishes"];
    /// Hundreds of scheduled times were missed: the job goes on.
    k8s_42649_hundreds_of_misses_stop_no_job: down_for_very_long, [MISSES_UNCOUNTED => "no_fire_vanishes"];
    /// No worker for long: one entry for the gap, not one for each fire.
    pj_761_no_worker_is_one_entry: nobody_works, [MISSES_UNCOUNTED => "no_fire_vanishes"];
    /// All workers were gone for long, and the job fired on: the missed fires have that reason and no other.
    who_dies_last_leaves_one_reason: dies_and_comes_back, [DEAD_OWNERS_COUNT => "scene"];
    /// The same if the next worker attaches to another coordinator.
    who_comes_to_another_finds_one_reason: comes_to_another;
    /// Runs that are sent late are counted as late, and no others.
    xxl_1693_what_is_late_is_counted: held_up;
    /// The schedule changes while a run is in flight.
    a_changed_schedule_goes_on: schedule_changes, [SCHEDULE_KEPT => "no_fire_vanishes"];
}

fn host_dies_often() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![short(2, 100, 3)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        for after in 1..5 {
            before_due(&mut world, 3, millis(50)).await;
            crate::faults::inject::doom(&mut world, 0, after);
            world.pass(millis(3500)).await;
        }
        world
    })
}

fn two_hosts() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1, 0], vec![short(4, 100, 1)]);
        start(&mut world, 0..3).await;
        at_work(&mut world, "short", 3).await;
        world.pass(secs(12)).await;
        want(&world, starts(&world, "short", "NORMAL_TRIGGER") >= 4 * 11, "each is run");
        world
    })
}

fn long_runs() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![short(1, 3500, 1)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        world.pass(secs(20)).await;
        want(&world, starts(&world, "short", "MISFIRE") >= 3, "misfires are run");
        world
    })
}

fn first_is_busy() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![short(1, 2500, 5)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        before_due(&mut world, 5, millis(1500)).await;
        ask(&world, 0, trigger("short"));
        world.pass(secs(8)).await;
        want(&world, starts(&world, "short", "MANUAL") == 1, "it is run by hand");
        want(&world, starts(&world, "short", "MISFIRE") == 1, "then the scheduled time that it held up");
        world
    })
}

fn trigger_while_busy() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![again(2, 1500, 15)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        until(&mut world, "both run", |world| starts(world, "again", "NORMAL_TRIGGER") >= 2).await;
        ask(&world, 1, trigger("again"));
        world.pass(secs(8)).await;
        want(&world, starts(&world, "again", "MANUAL") == 2, "each item is run once by hand");
        world
    })
}

fn trigger_in_a_pause() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![short(1, 200, 1)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        ask(&world, 0, super::operators::pause("short", true));
        world.pass(secs(6)).await;
        ask(&world, 0, trigger("short"));
        world.pass(secs(4)).await;
        want(&world, starts(&world, "short", "MANUAL") == 1, "it is run by hand");
        ask(&world, 0, super::operators::pause("short", false));
        world.pass(secs(5)).await;
        want(&world, covered(&world, "item: miss paused") >= 1, "what the pause held is counted");
        world
    })
}

fn down_for_long() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![short(2, 200, 1)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        lose_coordinator(&mut world, 0);
        world.pass(secs(30)).await;
        world.replicas[0].retired = false;
        world.start_coordinator(0);
        world.pass(secs(20)).await;
        want(
            &world,
            covered(&world, "item: miss down") >= 1,
            "fires that no coordinator observed are counted",
        );
        world
    })
}

fn down_for_very_long() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![short(2, 200, 1)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        before_due(&mut world, 1, millis(400)).await;
        lose_worker(&mut world, 0);
        lose_coordinator(&mut world, 0);
        world.pass(secs(900)).await;
        (world.replicas[0].retired, world.machines[0].retired) = (false, false);
        world.start_coordinator(0);
        world.start_worker(0);
        let before = starts(&world, "short", "NORMAL_TRIGGER");
        world.pass(secs(20)).await;
        want(&world, starts(&world, "short", "NORMAL_TRIGGER") > before + 20, "the job goes on");
        let missed = record(&world, "short", 0).map_or(0, |record| record.counters.missed.values().sum());
        want(&world, missed > 850, "all are counted");
        world
    })
}

fn nobody_works() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![short(2, 200, 1)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        before_due(&mut world, 1, millis(400)).await;
        lose_worker(&mut world, 0);
        world.pass(secs(10)).await;
        let before = covered(&world, "write: host");
        world.pass(secs(120)).await;
        want(
            &world,
            covered(&world, "write: host") <= before + 2,
            "nothing is written for each scheduled time",
        );
        world.machines[0].retired = false;
        world.start_worker(0);
        world.pass(secs(5)).await;
        let counters = record(&world, "short", 0).map(|record| record.counters).unwrap_or_default();
        let counted = counters.missed.values().sum::<u64>() + counters.misfired;
        want(&world, counted > 110, "they are counted");
        world
    })
}

fn dies_and_comes_back() -> Faults {
    leaves_one_reason(1)
}

fn comes_to_another() -> Faults {
    leaves_one_reason(2)
}

fn leaves_one_reason(coordinators: usize) -> Faults {
    scene(async || {
        let workers: Vec<usize> = (0..coordinators).collect();
        let mut world = small_world(coordinators, &workers, vec![short(2, 200, 1)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        before_due(&mut world, 1, millis(400)).await;
        world.pass(secs(20)).await;
        lose_worker(&mut world, 0);
        world.pass(secs(40)).await;
        let last = coordinators - 1;
        world.machines[last].retired = false;
        world.start_worker(last);
        world.pass(secs(5)).await;
        want(&world, covered(&world, "item: miss no_worker") >= 2, "it had no worker");
        want(&world, covered(&world, "item: miss too_late") == 0, "no run was late");
        world
    })
}

fn held_up() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![short(3, 100, 2)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        let late = |world: &World| ["late: said to be", "late: seen"].map(|what| covered(world, what));
        world.pass(secs(9)).await;
        want(&world, late(&world) == [0, 0], "nothing is late where nothing is held up");
        // A host that has been late writes ahead of its time by half a second at most.
        for (nth, takes) in [(1, 1500), (2, 1500), (3, 300)] {
            before_due(&mut world, 2, millis(800)).await;
            slow(&world, "c0", Purpose::Host, millis(takes), 1);
            world.pass(secs(5)).await;
            let most = 3 * nth.min(2);
            want(
                &world,
                late(&world) == [most, most],
                "the three runs that were held up for longer are late",
            );
        }
        world
    })
}

fn schedule_changes() -> Faults {
    scene(async || {
        let plan = again(2, 1500, 3);
        let mut world = small_world(2, &[0, 1], vec![plan.clone()]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        until(&mut world, "both run", |world| starts(world, "again", "NORMAL_TRIGGER") >= 2).await;
        ask(&world, 1, apply(&JobPlan { period: 2, ..plan }));
        world.pass(secs(10)).await;
        want(&world, starts(&world, "again", "NORMAL_TRIGGER") >= 8, "it fires by the new one");
        world
    })
}
