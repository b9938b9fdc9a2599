//! Counter-examples of the model that no other file covers.

use rosterd_coordinator::handle::Target;
use rosterd_domain::id::ServerAddress;
use rosterd_domain::txn::Purpose;
use rosterd_domain::verify::{Line, What};

use super::fixture::*;
use super::races;
use crate::faults::inject::part;
use crate::seeds::play::{job, plan};
use crate::world::handlers::JobPlan;
use crate::world::network::Direction;
use crate::world::{World, WorldPlan};

races! {
    /// A session ends, and with it the `running` nodes: the run goes on, and no other starts beside it.
    hole_1_a_run_is_in_flight_as_its_record_says: nodes_go_while_it_runs, [RUNNING_NODE_IS_THE_LOCK => "one_runner"];
    /// A record is written again while its run goes on: the run keeps its token.
    hole_13_a_mark_leaves_the_token: marked_while_it_runs, [MARK_MOVES_TOKEN => "one_runner"];
    /// A crashed run waits for a slot while its item's next scheduled times come.
    hole_15_a_crashed_item_is_not_free: crashed_run_waits, [CRASHED_IS_FREE => "crashed_runs_are_run_again"];
    /// A plan takes long, or its leader dies meanwhile: assigned items still fire.
    hole_16_no_fire_waits_for_a_plan: slow_plan, [FIRES_WAIT_FOR_PLANS => "scene"];
    /// Some coordinators see the flag of a future plan and others do not: none of them skips a scheduled time.
    ej_2391_a_flag_that_some_have_seen_skips_no_item: slow_plan, [FIRES_WAIT_FOR_PLANS => "scene"];
    /// A coordinator that does not lead waits for the plan and reads nothing from the store meanwhile.
    ej_2395_who_waits_for_a_plan_asks_nobody: slow_plan, [FOLLOWERS_POLL => "nobody_spins"];
    /// One instance has moved: the starts of the others, which shared its transaction, are decided again at once.
    hole_24_one_that_moved_delays_no_other: shared_start, [REFUSED_IS_DROPPED => "scene"];
    /// A calendar is set a day ahead.
    hole_25_a_calendar_a_day_ahead_fires_nothing: a_day_ahead, [CALENDAR_BELIEVED => "no_fire_vanishes"];
    /// The same while the coordinator starts, before its first event.
    hole_25_a_calendar_is_watched_from_the_start_on: a_day_ahead_at_once, [CALENDAR_SEEN_LATE => "no_fire_vanishes"];
    /// A coordinator starts with a clock that is an hour fast: it fires nothing, and goes on once the clock is right.
    a_clock_that_is_fast_at_boot_fires_nothing: an_hour_ahead_at_boot, [STORES_CLOCK_UNREAD => "right_clock"];
    /// The same with a clock that is slow.
    a_clock_that_is_slow_at_boot_fires_nothing: an_hour_behind_at_boot, [STORES_CLOCK_UNREAD => "scene"];
    /// An acknowledged report is counted where the next run does not overwrite it.
    hole_26_an_acknowledged_report_is_counted: runs_one_by_one, [OUTCOMES_UNCOUNTED => "sums"];
    /// The store is unreachable for longer than sessions and leases: no run goes on forever.
    hole_29_without_the_store_runs_stop: long_outage, [ACK_WITHOUT_PROOF => "scene"];
}

fn nodes_go_while_it_runs() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![short(1, 12_000, 1)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        until(&mut world, "it runs", |world| runs(world, "short")).await;
        world.start_worker(1);
        world.pass(secs(2)).await;
        // The item goes to the other, and the run stays.
        if owner(&world, "short", 0) == Some(0) {
            let Ok(server) = ServerAddress::new("10.0.0.0") else { return world };
            ask(&world, 1, disable("short", Target::Machine(server)));
            until(&mut world, "the item moves", |world| owner(world, "short", 0) == Some(1)).await;
        }
        assert!((0..2).all(|replica| part(&mut world, Some(0), replica, Direction::Both, Some(4000))));
        let session = world.replicas[0].running.as_ref().map(|running| running.session.clone());
        want(&world, session.is_some_and(|session| world.store.expire(&session)), "its host's session ends");
        world.pass(secs(9)).await;
        world
    })
}

fn marked_while_it_runs() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![short(1, 3500, 1)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        world.pass(secs(9)).await;
        want(&world, covered(&world, "item: misfire while running") >= 1, "it is marked while it runs");
        world
    })
}

fn crashed_run_waits() -> Faults {
    scene(async || {
        let long = JobPlan { run: (8000, 8000), period: 55, failover: false, ..job("long") };
        let jobs = vec![again(2, 3000, 10), long];
        let mut world = World::new(WorldPlan { slots: (1, 1), workers: 2, jobs, ..plan(7) });
        world.calm = true;
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        at_work(&mut world, "long", 2).await;
        until(&mut world, "both run", |world| starts(world, "again", "NORMAL_TRIGGER") >= 2).await;
        lose_worker(&mut world, 0);
        // The other is busy with another run when its run is marked crashed, and when the next scheduled time comes.
        world.pass(millis(3300)).await;
        ask(&world, 0, trigger("long"));
        world.pass(secs(14)).await;
        want(&world, starts(&world, "again", "FAILOVER") >= 1, "it is run again");
        want(&world, covered(&world, "item: misfire while crashed") >= 1, "scheduled times passed meanwhile");
        world
    })
}

/// Normal runs from `from` on that started later than this many milliseconds.
fn late(world: &World, from: std::time::Duration, most: i64, of: impl Fn(&Line) -> bool) -> usize {
    let from = u64::try_from(from.as_nanos()).unwrap_or(0);
    let is = |line: &&Line| {
        line.what == What::Start && line.source == "NORMAL_TRIGGER" && line.at >= from && of(line)
    };
    world.log.lines().iter().filter(is).filter(|line| line.wall - line.fire > most).count()
}

fn slow_plan() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1, 0], vec![short(4, 100, 1)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        world.pass(secs(5)).await;
        let leads = leader(&world, "short").unwrap_or(0);
        slow(&world, "", Purpose::Assign, secs(4), 1);
        let from = world.elapsed();
        world.start_worker(2);
        until(&mut world, "the plan is under way", |world| world.store_faults.holds() == 0).await;
        world.pass(millis(500)).await;
        let reads = world.store_faults.reads();
        world.pass(secs(3)).await;
        want(&world, world.store_faults.reads() <= reads + 30, "no coordinator polls meanwhile");
        world.pass(secs(4)).await;
        // The leader has one transaction of a job in flight at a time; its other hosts do not know of it.
        let elsewhere = format!("w{}.", 1 - leads);
        let of = |line: &Line| line.worker.starts_with(&elsewhere);
        want(&world, late(&world, from, 500, of) == 0, "what is assigned fires in time");
        world
    })
}

fn shared_start() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 0], vec![short(4, 100, 5)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        before_due(&mut world, 5, millis(200)).await;
        slow(&world, "c0", Purpose::Host, millis(1500), 1);
        // One of the two goes to the other host while the start of both is in flight.
        until(&mut world, "the start is in flight", |world| world.store_faults.holds() == 0).await;
        cut(&world, 0);
        let from = world.elapsed();
        world.pass(secs(9)).await;
        let stays = |line: &Line| line.worker.starts_with("w1.");
        want(&world, starts(&world, "short", "NORMAL_TRIGGER") >= 4, "they are run");
        want(&world, late(&world, from, 3000, stays) == 0, "a worker that stays attached starts soon");
        world
    })
}

const DAY: i64 = 86_400_000;

fn jump(world: &World, by: i64) {
    world.replicas[0].running.iter().for_each(|running| running.clock.jump(by));
}

fn a_day_ahead() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![short(2, 100, 2)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        world.pass(secs(5)).await;
        jump(&world, DAY);
        world.pass(secs(10)).await;
        jump(&world, -DAY);
        let before = starts(&world, "short", "NORMAL_TRIGGER");
        world.pass(secs(10)).await;
        want(&world, starts(&world, "short", "NORMAL_TRIGGER") >= before + 8, "it fires again");
        world
    })
}

fn a_day_ahead_at_once() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![short(2, 100, 2)]);
        world.start_coordinator(0);
        jump(&world, DAY);
        world.pass(millis(100)).await;
        world.start_worker(0);
        world.pass(secs(10)).await;
        jump(&world, -DAY);
        at_work(&mut world, "short", 1).await;
        world.pass(secs(10)).await;
        want(&world, starts(&world, "short", "NORMAL_TRIGGER") >= 8, "it fires");
        world
    })
}

fn an_hour_ahead_at_boot() -> Faults {
    wrong_at_boot(DAY / 24)
}

fn an_hour_behind_at_boot() -> Faults {
    wrong_at_boot(-DAY / 24)
}

fn wrong_at_boot(by: i64) -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![short(2, 100, 2)]);
        world.give_store_a_clock();
        world.wrong_at_boot = by;
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        world.pass(secs(10)).await;
        let fired =
            |world: &World| starts(world, "short", "NORMAL_TRIGGER") + starts(world, "short", "MISFIRE");
        want(&world, fired(&world) == 0, "it fires nothing");
        jump(&world, -by);
        world.pass(secs(80)).await;
        want(&world, fired(&world) >= 8, "it fires again");
        world
    })
}

fn runs_one_by_one() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![short(2, 100, 1)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        world.pass(secs(5)).await;
        world
    })
}

fn long_outage() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![again(1, 120_000, 5)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "again", 1).await;
        until(&mut world, "it runs", |world| starts(world, "again", "NORMAL_TRIGGER") == 1).await;
        world.cut_off(0, secs(60));
        world.pass(secs(18)).await;
        let told = world.log.lines().iter().filter(|line| line.what == What::Told).count();
        want(&world, told == 1, "its run was told to stop");
        world
    })
}
