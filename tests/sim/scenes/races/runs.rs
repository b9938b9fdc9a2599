//! Runs crash and are run again, once.

use rosterd_coordinator::handle::Target;
use rosterd_domain::id::Item;
use rosterd_domain::txn::Purpose;

use super::fixture::*;
use super::races;
use crate::faults::inject::part;
use crate::world::handlers::JobPlan;
use crate::world::network::Direction;
use crate::world::{World, WorldPlan};

races! {
    /// A worker moves to another host and comes back: the first had kept the offset of its own last run.
    who_comes_back_goes_on_from_what_was_left_elsewhere: away_and_back, [OFFSETS_STAY => "offsets_go_on"];
    /// Two hosts have room for the same crashed run.
    two_hosts_claim_one_crashed_run: two_takers, [START_IGNORES_RECORD => "one_runner"];
    /// A victim's items are failed over while their next scheduled times come.
    ej_671_a_failover_and_a_due_time_do_not_meet: dies_with_three_items, [BUSY_IS_FREE => "one_runner"];
    /// A run is in flight for a dead worker: leftovers of the first failover do not block the next.
    saturn_630_a_second_failover_is_not_skipped: taker_dies_too, [START_IGNORES_RECORD => "one_runner"];
    /// The worker's host noticed its death, and another host takes the run over.
    ej_669_failover_across_hosts: worker_dies, [EXPIRY_FORGETS_FAILOVER => "crashed_runs_are_run_again"];
    /// Host and worker die at once.
    ej_523_failover_when_nobody_saw_it_die: worker_and_host_die, [EXPIRY_FORGETS_FAILOVER => "crashed_runs_are_run_again"];
    /// A run is taken over, and the host of its new worker loses the store: no other instance starts it as well.
    saturn_526_a_taker_whose_host_is_cut_off: takers_host_is_cut_off, [BUSY_IS_FREE => "one_runner"];
    /// Nothing dies: nothing is run again, not even item 0, whenever the others have ended.
    ej_276_without_a_death_nothing_is_run_again: in_peace, [NEXT_FIRE_NOT_STORED => "no_fire_vanishes"];
    /// Two workers state the same address: each is a separate worker, and each item has one of them.
    ej_1832_two_workers_of_one_address: one_address;
    /// Only running items crash.
    ej_2090_completed_items_are_not_failed_over: dies_after_completion, [ENDED_ITEMS_CRASH => "scene"];
    /// The leader and its worker run all of a fire and die at once: the fire is not run again.
    ej_778_who_dies_right_after_its_runs_has_run_them: all_dies_after_completion,
        [ENDED_ITEMS_CRASH => "ended_once"];
    /// The end of a failover run removes the failover mark.
    ej_2429_a_failover_leaves_nothing_behind: worker_dies, [FAILOVER_LEFT_BEHIND => "mirrors"];
    /// The host of a run that was taken over dies, and its worker attaches to another: the failover mark stays. (Seed
    /// 1153.)
    a_take_over_outlives_the_host_of_its_taker: takers_host_dies;
    /// The last host writes the end of a run between the next host's read and its marks: these are not written.
    marks_are_put_for_no_run_that_has_ended: ends_while_its_worker_moves, [MARKS_IGNORE_RECORDS => "mirrors"];
    /// An item whose failover run has ended is free: its next scheduled time is run.
    hole_11_the_end_of_a_failover_frees_its_item: worker_dies, [FAILOVER_LEFT_BEHIND => "mirrors"];
    /// Crashed runs of a disabled item are not run again.
    hole_15_a_disabled_item_is_not_failed_over: dies_while_disabled, [FAILOVER_OF_DISABLED => "right_to_start"];
    /// While a run waits to be run again, scheduled times go on.
    hole_30_a_failover_moves_no_due_time: worker_dies_in_a_busy_job, [ANY_RUN_MOVES_LAST_FIRE => "nobody_spins"];
    /// A worker dies while a scheduled time waits behind its run.
    hole_14_an_expiry_keeps_the_misfire: dies_with_a_misfire, [EXPIRY_DROPS_MISFIRE => "no_fire_vanishes"];
    /// A Trigger is sent only once its run is written.
    xxl_3369_a_trigger_follows_its_record: slow_starts,
        [SPEAKS_BEFORE_COMMIT => "one_runner", SPEAKS_BEFORE_COMMIT => "granted"];
    /// The host dies between the record and the Trigger: the run is sent by the next host.
    xxl_2877_a_host_dies_before_it_sends: host_dies_after_the_start, [UNTOLD_STAYS_UNTOLD => "scene"];
    /// A worker gets no more runs than it has slots.
    ej_2113_a_full_worker_is_given_nothing: one_slot, [SLOTS_UNCOUNTED => "slots"];
    /// The run that used the only slot has no record, as without monitorExecution: another job's run that waits for the
    /// slot gets it, although nothing of that job is due. (Seed 965366.)
    a_run_without_a_record_hands_its_slot_on: waits_behind_one_without_a_record, [FREED_SLOTS_STAY => "scene"];
    /// A run was assigned to a worker that had not received Registered, and has moved since.
    a_host_that_hears_late_gives_no_more_runs_than_slots: moves_while_it_registers, [ASKED_JOBS_UNREAD => "slots"];
    /// A client silently drops a Trigger: its item is free again once it was sent five times.
    a_client_that_forgets_a_run_does_not_keep_its_item: forgets, [FORGOTTEN_RUNS_STAY => "scene"];
    /// Frames to a worker are delayed for long, and frames from it are not: its run starts late, and nowhere else.
    a_run_is_not_ended_while_it_may_be_on_its_way: held_up_on_the_way, [FORGOTTEN_TOO_SOON => "overlap"];
    /// A worker without a run reports runs of others, with tokens of any size: these end as their own workers report.
    a_stranger_ends_no_run_and_keeps_none_from_ending: strangers_report, [ANY_REPORT_COUNTS => "scene"];
    /// A handler goes on beyond its timeout and does not react: its run is taken away, and its slot stays occupied
    /// until it has ended.
    a_run_that_is_over_its_time_is_taken_away: over_its_time, [OVERDUE_RUNS_STAY => "scene", TAKEN_AWAY_IS_FREE => "scene"];
    /// Every worker that runs it dies: after a number of them it is given up.
    a_run_that_kills_its_workers_is_given_up: kills_its_workers, [KILLERS_GO_ON => "scene"];
    /// A run that takes five periods delays no item beside it.
    ej_2113_a_long_item_delays_no_sibling: one_long_item, [WORKERS_JOIN_BATCHES => "scene"];
}

fn forgets() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![short(1, 100, 120)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        rosterd_client::mutants::switch(Some(rosterd_client::mutants::TRIGGERS_DROPPED));
        ask(&world, 0, trigger("short"));
        until(&mut world, "it is given", |world| running(world, "short", 0).is_some()).await;
        world.pass(secs(25)).await;
        want(&world, running(&world, "short", 0).is_none(), "the run is ended for its worker");
        rosterd_client::mutants::switch(None);
        ask(&world, 0, trigger("short"));
        until(&mut world, "the next one runs", |world| starts(world, "short", "MANUAL") == 1).await;
        world
    })
}

fn strangers_report() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0, 0], vec![short(4, 300, 1)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        world.hostile = Some(crate::faults::hostile_worker::enter(&world, 400));
        for _ in 0..40 {
            // The records are read again and again.
            ask(&world, 0, trigger("short"));
            world.pass(secs(1)).await;
        }
        let crashed = |item| record(&world, "short", item).map_or(0, |record| record.counters.crashed);
        want(&world, (0..4).map(crashed).sum::<u64>() == 0, "no run crashes");
        let late = (0..4).filter_map(|item| running(&world, "short", item));
        let old = late.filter(|run| world.now().since(run.since) > secs(3)).count();
        want(&world, old == 0, "no run stays longer than its worker runs it");
        world
    })
}

fn held_up_on_the_way() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0, 0], vec![again(1, 10_000, 600)]);
        // Fifteen heartbeats are shorter than the silence that a worker tolerates.
        let times = &mut world.plan.times;
        (times.session, times.lease) = (secs(80), secs(36));
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        world.pass(secs(2)).await;
        let Some(machine) = owner(&world, "again", 0) else { return world };
        part(&mut world, Some(machine), 0, Direction::Down, Some(22_500));
        ask(&world, 0, trigger("again"));
        until(&mut world, "it begins", |world| starts(world, "again", "MANUAL") == 1).await;
        world.pass(secs(13)).await;
        want(&world, starts(&world, "again", "FAILOVER") == 0, "and nowhere else");
        let record = record(&world, "again", 0).map(|record| record.counters).unwrap_or_default();
        want(&world, (record.succeeded, record.crashed) == (1, 0), "it succeeds");
        world
    })
}

fn over_its_time() -> Faults {
    scene(async || {
        let late = JobPlan { timeout: Some(2000), deaf: 1000, ..again(1, 60_000, 10) };
        let mut world = small_world(1, &[0], vec![late]);
        // Before its client abandons the handler, a second after its timeout.
        world.timeout_grace = Some(millis(600));
        start(&mut world, 0..1).await;
        at_work(&mut world, "again", 1).await;
        before_due(&mut world, 10, secs(1)).await;
        let counters =
            |world: &World| record(world, "again", 0).map(|record| record.counters).unwrap_or_default();
        until(&mut world, "it is taken away from its worker", |world| counters(world).timed_out == 1).await;
        ask(&world, 0, trigger("again"));
        for _ in 0..100 {
            world.pass(millis(100)).await;
            let late = running(&world, "again", 0).filter(|run| world.now().since(run.since) > millis(2800));
            want(&world, late.is_none(), "no run stays that long beyond its timeout");
        }
        world.pass(secs(20)).await;
        want(&world, counters(&world).timed_out >= 3, "its runs have timed out");
        want(&world, counters(&world).crashed == 0, "none was sent to a slot that is taken");
        world
    })
}

fn kills_its_workers() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0; 6], vec![JobPlan { hours: vec![12], ..again(1, 20_000, 60) }]);
        start(&mut world, 0..6).await;
        at_work(&mut world, "again", 6).await;
        ask(&world, 0, trigger("again"));
        for _ in 0..5 {
            until(&mut world, "it is run again, or given up", |world| {
                running(world, "again", 0).is_some()
                    || record(world, "again", 0).is_some_and(|record| record.counters.crashed == 4)
            })
            .await;
            let Some(run) = running(&world, "again", 0) else { break };
            let Some(machine) = desk_of(&world, &run.worker) else { break };
            lose_worker(&mut world, machine);
            until(&mut world, "it is found dead", |world| {
                running(world, "again", 0).is_none_or(|now| now.worker != run.worker)
            })
            .await;
        }
        let counters = record(&world, "again", 0).map(|record| record.counters).unwrap_or_default();
        want(&world, (counters.fired, counters.crashed) == (4, 4), "it runs once, and three times more");
        world
    })
}

fn two_takers() -> Faults {
    scene(async || {
        let mut world = small_world(3, &[0, 1, 2], vec![again(3, 4000, 15)]);
        start(&mut world, 0..3).await;
        at_work(&mut world, "again", 3).await;
        until(&mut world, "all run", |world| starts(world, "again", "NORMAL_TRIGGER") >= 3).await;
        lose_worker(&mut world, 2);
        slow(&world, "c0", Purpose::Host, millis(300), 20);
        slow(&world, "c1", Purpose::Host, millis(300), 20);
        world.pass(secs(12)).await;
        want(&world, starts(&world, "again", "FAILOVER") == 1, "it is run again once");
        world
    })
}

fn taker_dies_too() -> Faults {
    scene(async || {
        let mut world = small_world(3, &[0, 1, 2, 2], vec![again(4, 4000, 30)]);
        start(&mut world, 0..4).await;
        at_work(&mut world, "again", 4).await;
        until(&mut world, "all run", |world| starts(world, "again", "NORMAL_TRIGGER") >= 4).await;
        lose_worker(&mut world, 3);
        until(&mut world, "it is taken over", |world| starts(world, "again", "FAILOVER") == 1).await;
        if let Some(machine) = taker(&world, "again") {
            slow(&world, "c", Purpose::Host, millis(300), 40);
            lose_worker(&mut world, machine);
        }
        until(&mut world, "it is taken over again", |world| starts(world, "again", "FAILOVER") >= 2).await;
        world.pass(secs(6)).await;
        world
    })
}

fn worker_dies() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![again(2, 3000, 10)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        until(&mut world, "both run", |world| starts(world, "again", "NORMAL_TRIGGER") >= 2).await;
        lose_worker(&mut world, 0);
        world.pass(secs(14)).await;
        want(&world, starts(&world, "again", "FAILOVER") >= 1, "it is run again");
        world
    })
}

fn takers_host_dies() -> Faults {
    scene(async || {
        let mut world = both_run(again(2, 120_000, 55)).await;
        lose_worker(&mut world, 0);
        until(&mut world, "it is taken over", |world| starts(world, "again", "FAILOVER") == 1).await;
        lose_coordinator(&mut world, 1);
        // Beyond the end of its session.
        world.pass(secs(25)).await;
        want(&world, taker(&world, "again").is_some(), "the run that was taken over goes on");
        world
    })
}

fn ends_while_its_worker_moves() -> Faults {
    scene(async || {
        // The world begins at midnight, so that no scheduled time comes: a next run would remove the marks of the last
        // one.
        let mut world = both_run(JobPlan { hours: vec![12], ..again(2, 9000, 55) }).await;
        lose_worker(&mut world, 0);
        until(&mut world, "it is taken over", |world| starts(world, "again", "FAILOVER") == 1).await;
        let ended = |world: &World| covered(world, "item: end succeeded (reported)");
        until(&mut world, "its own run has ended", |world| ended(world) == 1).await;
        // The offset that the other reported half way is written by then.
        world.pass(secs(2)).await;
        slow(&world, "c1", Purpose::Host, secs(3), 1);
        until(&mut world, "the end is under way", |world| world.store_faults.holds() == 0).await;
        slow(&world, "c0", Purpose::Instances, secs(4), 1);
        cut(&world, 1);
        until(&mut world, "the worker is attached elsewhere", |world| {
            host(world, 1).as_deref() == Some("c0")
        })
        .await;
        want(&world, ended(&world) == 1, "the end is still under way");
        until(&mut world, "the marks are under way", |world| world.store_faults.holds() == 0).await;
        want(&world, ended(&world) == 1, "the end is still under way");
        world.pass(secs(8)).await;
        want(&world, ended(&world) == 2, "the run that was taken over has ended");
        world
    })
}

fn worker_and_host_die() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![again(2, 3000, 10)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        until(&mut world, "both run", |world| starts(world, "again", "NORMAL_TRIGGER") >= 2).await;
        lose_worker(&mut world, 0);
        lose_coordinator(&mut world, 0);
        world.pass(secs(25)).await;
        want(&world, starts(&world, "again", "FAILOVER") >= 1, "it is run again");
        world
    })
}

fn dies_after_completion() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![again(4, 300, 30)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        until(&mut world, "all ran", |world| starts(world, "again", "NORMAL_TRIGGER") >= 4).await;
        until(&mut world, "all have ended", |world| !runs(world, "again")).await;
        lose_worker(&mut world, 0);
        world.pass(secs(12)).await;
        want(&world, starts(&world, "again", "FAILOVER") == 0, "nothing is failed over");
        world
    })
}

fn dies_with_three_items() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![again(6, 4000, 3)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        until(&mut world, "all run", |world| starts(world, "again", "NORMAL_TRIGGER") >= 6).await;
        lose_worker(&mut world, 0);
        until(&mut world, "all three are run again", |world| starts(world, "again", "FAILOVER") >= 3).await;
        world.pass(secs(12)).await;
        want(&world, covered(&world, "item: misfire while running") >= 3, "scheduled times passed meanwhile");
        world
    })
}

fn all_dies_after_completion() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![again(4, 60, 30)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        let leads = leader(&world, "again").unwrap_or(0);
        until(&mut world, "all ran", |world| starts(world, "again", "NORMAL_TRIGGER") >= 4).await;
        until(&mut world, "all have ended", |world| !runs(world, "again")).await;
        lose_worker(&mut world, leads);
        lose_coordinator(&mut world, leads);
        world.pass(secs(20)).await;
        at_work(&mut world, "again", 1).await;
        let ran = ["NORMAL_TRIGGER", "FAILOVER"].map(|source| starts(&world, "again", source));
        want(&world, ran == [4, 0], "each was run once");
        world
    })
}

fn dies_while_disabled() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0, 0], vec![again(2, 5000, 15)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        until(&mut world, "both run", |world| starts(world, "again", "NORMAL_TRIGGER") >= 2).await;
        let item = item_of(&world, "again", 0).unwrap_or(9);
        ask(&world, 0, disable("again", Target::Item(Item(item))));
        world.pass(millis(300)).await;
        lose_worker(&mut world, 0);
        world.pass(secs(9)).await;
        want(&world, starts(&world, "again", "FAILOVER") == 0, "nothing is failed over");
        world
    })
}

fn worker_dies_in_a_busy_job() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0, 0], vec![again(2, 2500, 3)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        until(&mut world, "both run", |world| starts(world, "again", "NORMAL_TRIGGER") >= 2).await;
        lose_worker(&mut world, 0);
        world.pass(secs(14)).await;
        want(&world, starts(&world, "again", "FAILOVER") >= 1, "it is run again");
        world
    })
}

fn dies_with_a_misfire() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0, 0], vec![short(2, 6000, 2)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        let marked = |world: &crate::world::World| {
            (0..2).any(|item| {
                owner(world, "short", item) == Some(0)
                    && record(world, "short", item).is_some_and(|record| record.misfire.is_some())
            })
        };
        until(&mut world, "a scheduled time waits", marked).await;
        lose_worker(&mut world, 0);
        world.pass(secs(16)).await;
        want(&world, starts(&world, "short", "MISFIRE") >= 1, "it is run");
        world
    })
}

fn slow_starts() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![short(2, 100, 2)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        until(&mut world, "both ran", |world| starts(world, "short", "NORMAL_TRIGGER") >= 2).await;
        slow(&world, "c0", Purpose::Host, millis(400), 4);
        world.pass(secs(5)).await;
        world
    })
}

fn host_dies_after_the_start() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![again(2, 1000, 5)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        until(&mut world, "both ran", |world| starts(world, "again", "NORMAL_TRIGGER") >= 2).await;
        until(&mut world, "both have ended", |world| !runs(world, "again")).await;
        before_due(&mut world, 5, millis(50)).await;
        crate::faults::inject::doom(&mut world, 0, 1);
        world.pass(secs(8)).await;
        want(
            &world,
            covered(&world, "fault: coordinator dies after a write") == 1,
            "the host died after a write",
        );
        want(&world, starts(&world, "again", "FAILOVER") == 0, "no worker was marked dead");
        want(
            &world,
            starts(&world, "again", "NORMAL_TRIGGER") >= 6,
            "the next host sends what this one wrote",
        );
        world
    })
}

fn one_slot() -> Faults {
    scene(async || {
        let jobs = vec![again(3, 900, 5)];
        let mut world = crate::world::World::new(WorldPlan {
            slots: (1, 1),
            workers: 1,
            jobs,
            ..crate::seeds::play::plan(7)
        });
        world.calm = true;
        start(&mut world, 0..1).await;
        at_work(&mut world, "again", 1).await;
        world.pass(secs(12)).await;
        want(&world, starts(&world, "again", "NORMAL_TRIGGER") >= 6, "all are run, one after the other");
        world
    })
}

fn waits_behind_one_without_a_record() -> Faults {
    scene(async || {
        let bare = JobPlan { monitor: false, misfire: false, ..short(1, 6000, 30) };
        // The world begins at midnight, so it is never due.
        let jobs = vec![JobPlan { hours: vec![12], ..again(1, 300, 60) }, bare];
        let plan = WorldPlan { slots: (1, 1), workers: 1, jobs, ..crate::seeds::play::plan(7) };
        let mut world = World::new(plan);
        world.calm = true;
        start(&mut world, 0..1).await;
        at_work(&mut world, "again", 1).await;
        at_work(&mut world, "short", 1).await;
        until(&mut world, "the slot is taken", |world| starts(world, "short", "NORMAL_TRIGGER") == 1).await;
        ask(&world, 0, trigger("again"));
        world.pass(secs(3)).await;
        want(&world, starts(&world, "again", "MANUAL") == 0, "it waits for the slot");
        world.pass(secs(6)).await;
        want(&world, starts(&world, "again", "MANUAL") == 1, "it has got it");
        world
    })
}

fn moves_while_it_registers() -> Faults {
    scene(async || {
        let [quick, long] = led_by("c0", &["c0", "c1"]);
        let jobs =
            vec![JobPlan { name: long, ..again(1, 9000, 30) }, JobPlan { name: quick, ..short(1, 100, 5) }];
        let (slots, coordinators, workers) = ((1, 1), 2, 1);
        let plan =
            WorldPlan { slots, coordinators, workers, jobs: jobs.clone(), ..crate::seeds::play::plan(7) };
        let mut world = crate::world::World::new(plan);
        (world.calm, world.machines[0].first) = (true, Some(0));
        start(&mut world, 0..0).await;
        jobs.iter().for_each(|job| ask(&world, 0, apply(job)));
        let led = |world: &crate::world::World, job| leader(world, job) == Some(0);
        until(&mut world, "the jobs are led", |world| led(world, long) && led(world, quick)).await;
        world.pass(secs(1)).await;
        // The other gets no hints from now on.
        world.store_faults.deafen("c1", secs(15));
        slow(&world, "c0", Purpose::Instances, millis(300), 2);
        world.start_worker(0);
        until(&mut world, "it is attached", |world| host(world, 0).as_deref() == Some("c0")).await;
        world.pass(millis(100)).await;
        // It was welcomed, and gets neither Registered nor its runs.
        if let Some(running) = &world.machines[0].running {
            world.net.silence_of(&running.process, crate::world::network::Direction::Down, true);
        }
        until(&mut world, "it has its items", |world| owner(world, long, 0) == Some(0)).await;
        ask(&world, 0, trigger(long));
        until(&mut world, "the long job runs", |world| running(world, long, 0).is_some()).await;
        // Of the next host's registrations, in order of name, the second is in flight at a scheduled time of the first.
        slow(&world, "c1", Purpose::Instances, millis(2), 1);
        slow(&world, "c1", Purpose::Instances, secs(5), 1);
        cut(&world, 0);
        until(&mut world, "it is attached elsewhere", |world| host(world, 0).as_deref() == Some("c1")).await;
        world.pass(secs(20)).await;
        want(&world, starts(&world, long, "MANUAL") == 1, "the long one is sent");
        want(&world, starts(&world, quick, "NORMAL_TRIGGER") >= 1, "the other has its turn");
        world
    })
}

fn one_long_item() -> Faults {
    scene(async || {
        // The run time is per job, so the long item is a separate job on the same worker.
        let mut world = small_world(1, &[0], vec![again(1, 10_000, 2), short(3, 100, 1)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        let before = starts(&world, "short", "NORMAL_TRIGGER");
        world.pass(secs(20)).await;
        let ran = starts(&world, "short", "NORMAL_TRIGGER") - before;
        want(&world, (3 * 19..=3 * 21).contains(&ran), "each scheduled time is run beside it");
        want(&world, starts(&world, "short", "MISFIRE") == 0, "none is delayed");
        world
    })
}

fn takers_host_is_cut_off() -> Faults {
    scene(async || {
        let mut world = small_world(3, &[0, 1, 2], vec![again(3, 9000, 7)]);
        start(&mut world, 0..3).await;
        at_work(&mut world, "again", 3).await;
        until(&mut world, "all run", |world| starts(world, "again", "NORMAL_TRIGGER") >= 3).await;
        lose_worker(&mut world, 2);
        until(&mut world, "it is taken over", |world| starts(world, "again", "FAILOVER") == 1).await;
        let taker = taker(&world, "again");
        want(&world, taker.is_some(), "a worker has taken it over");
        world.cut_off(taker.unwrap_or(0), secs(20));
        world.pass(secs(30)).await;
        world
    })
}

fn in_peace() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1, 0], vec![again(5, 300, 1)]);
        start(&mut world, 0..3).await;
        at_work(&mut world, "again", 3).await;
        world.pass(secs(60)).await;
        want(&world, starts(&world, "again", "NORMAL_TRIGGER") >= 5 * 58, "each fire is run");
        want(&world, starts(&world, "again", "FAILOVER") == 0, "nothing is failed over");
        world
    })
}

fn one_address() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![short(4, 300, 1)]);
        (0..2).for_each(|machine| world.machines[machine].address = Some("10.0.0.9".into()));
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        world.pass(secs(10)).await;
        let owners: std::collections::BTreeSet<_> = (0..4).map(|item| owner(&world, "short", item)).collect();
        want(&world, owners == [Some(0), Some(1)].into(), "each has its share");
        world
    })
}

fn away_and_back() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![short(2, 100, 2)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        world.pass(secs(5)).await;
        for host in ["c1", "c0", "c1", "c0"] {
            until(&mut world, "it is hosted there", |world| {
                if self::host(world, 0).as_deref() != Some(host) {
                    cut(world, 0);
                }
                self::host(world, 0).as_deref() == Some(host)
            })
            .await;
            world.pass(secs(5)).await;
        }
        world
    })
}
