//! Leaders come and go while they plan.

use rosterd_domain::txn::Purpose;

use super::fixture::*;
use super::races;
use crate::world::handlers::JobPlan;

races! {
    /// The leader dies, together with the coordinator that would have requested a new plan.
    ej_2449_leader_dies_before_setting_the_flag: leader_and_worker_die,
        [PLANS_FOLLOW_THE_FLAG => "one_owner"];
    /// A worker joins between a plan and its commit.
    ej_1471_a_flag_that_was_raised_again_stays: join_while_planning, [FLAG_CLEARED_UNREAD => "one_leader_writes"];
    /// An item is disabled between a plan and its commit.
    hole_27_a_plan_takes_no_right_back: disabled_while_planning, [PLAN_IGNORES_GENERATION => "one_leader_writes"];
    /// A deposed leader has a plan in flight.
    chronos_371_a_leader_of_before_plans_nothing: deposed_while_planning, [PLAN_IGNORES_EPOCH => "one_leader_writes"];
    /// Two coordinators campaign for a leadership, one of them late.
    curator_696_a_late_election_takes_nothing: late_election, [ELECTION_IGNORES_LEADER => "one_leader_writes"];
    /// Losing the leader while an item runs, over its next scheduled time, starts it nowhere else.
    nomad_11052_a_leader_change_overlaps_no_run: leader_dies_mid_run, [BUSY_IS_FREE => "no_overlap"];
    /// Leaders die one after the other.
    dkron_998_jobs_fire_after_many_elections: many_leaders, [ELECTED_ONCE => "settles"];
    /// Every process dies at once and comes back.
    ej_731_all_die_and_come_back: all_die, [FORSAKEN_UNJUDGED => "no_orphans"];
    /// All instances have left or are disabled: nothing waits for them.
    ej_165_all_disabled_then_enabled: all_disabled, [DISABLED_OWN_ITEMS => "scene"];
    /// A worker that dies while the plan that assigns it items is in flight.
    saturn_119_a_plan_for_who_has_gone_is_made_again: taker_dies_while_planning,
        [FLAG_CLEARED_UNREAD => "one_leader_writes"];
    /// The first-ranked coordinator is frozen, and others wait for it only once.
    curator_645_who_stands_in_for_another_goes_on: first_freezes, [STANDING_IN_IS_FORGOTTEN => "leaders_settle"];
    /// The only coordinator that can lead a job, as the host of its workers, is frozen with them: no other is elected
    /// only to step down.
    nobody_is_elected_for_what_it_cannot_lead: only_host_freezes, [ELECTED_FOR_NOTHING => "scene"];
    /// The leader's only item leaves the job right before its fire, for which a plan was deferred.
    a_plan_waits_for_no_fire_that_is_none: count_goes_down_before_a_fire, [PUT_OFF_IS_FORGOTTEN => "one_owner"];
}

fn first_freezes() -> Faults {
    scene(async || {
        let [job, _] = led_by("c0", &["c0", "c1"]);
        let mut world = small_world(2, &[1, 1], vec![JobPlan { name: job, ..short(2, 100, 3) }]);
        start(&mut world, 0..2).await;
        at_work(&mut world, job, 2).await;
        world.pass(secs(20)).await;
        want(&world, leader(&world, job) == Some(0), "the first candidate leads");
        world.observer.lock().calm = true;
        // It keeps its session, so others consider it alive.
        world.freeze_coordinator(0, secs(30));
        let deposed = world.store.foreign(&name(job), "/leader/election/instance", None, false);
        want(&world, deposed, "a tool removes the leader");
        world.pass(secs(25)).await;
        want(&world, leader(&world, job) == Some(1), "the other one leads");
        world
    })
}

fn only_host_freezes() -> Faults {
    scene(async || {
        let plan = JobPlan { held: Some("run"), answer: (1, 1), ..again(2, 300, 5) };
        let mut world = small_world(2, &[0], vec![plan]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "again", 1).await;
        want(&world, leader(&world, "again") == Some(0), "its host leads");
        world.observer.lock().calm = true;
        world.freeze_coordinator(0, secs(30));
        world.freeze_worker(0, secs(30));
        let deposed = world.store.foreign(&name("again"), "/leader/election/instance", None, false);
        want(&world, deposed, "a tool removes the leader");
        // Its session lasts longer than the others wait.
        world.pass(secs(9)).await;
        want(&world, covered(&world, "write: elect") == 1, "no other leader is elected meanwhile");
        world.pass(secs(20)).await;
        world
    })
}

fn count_goes_down_before_a_fire() -> Faults {
    scene(async || {
        let [job, _] = led_by("c0", &["c0", "c1"]);
        let plan = JobPlan { name: job, ..short(2, 100, 3) };
        let mut world = small_world(2, &[0, 1], vec![plan.clone()]);
        start(&mut world, 0..2).await;
        at_work(&mut world, job, 2).await;
        world.pass(secs(20)).await;
        want(
            &world,
            leader(&world, job) == Some(0) && item_of(&world, job, 0) == Some(1),
            "c0 leads and hosts item 1",
        );
        // How long an operation takes is up to the store: some of these come in time.
        for by in (2..40).step_by(2) {
            before_due(&mut world, 3, millis(by)).await;
            ask(&world, 1, apply(&JobPlan { items: 1, ..plan.clone() }));
            world.pass(millis(1500)).await;
            let planned = world.observer.lock().shadow.jobs.get(&name(job)).map(|job| job.sharding.items());
            if planned != Some(1) {
                // The check at rest has to find it, with nothing done in between.
                return world;
            }
            ask(&world, 1, apply(&plan));
            world.pass(secs(3)).await;
        }
        world
    })
}

fn leader_and_worker_die() -> Faults {
    scene(async || {
        let mut world = small_world(3, &[0, 1, 2], vec![again(3, 1000, 2)]);
        start(&mut world, 0..3).await;
        at_work(&mut world, "again", 3).await;
        world.pass(secs(3)).await;
        let leads = leader(&world, "again").unwrap_or(0);
        lose_worker(&mut world, leads);
        lose_coordinator(&mut world, leads);
        world.pass(secs(22)).await;
        at_work(&mut world, "again", 2).await;
        world
    })
}

/// A world in which the leader has a plan in flight for `takes`. Returns the leader, and the other coordinator.
async fn planning(takes: std::time::Duration) -> (crate::world::World, usize, usize) {
    let mut world = small_world(2, &[0, 1, 0, 1], vec![short(4, 100, 2)]);
    start(&mut world, 0..2).await;
    at_work(&mut world, "short", 2).await;
    world.pass(secs(5)).await;
    let leads = leader(&world, "short").unwrap_or(0);
    slow(&world, &format!("c{leads}"), Purpose::Assign, takes, 1);
    world.machines[2].first = Some(1 - leads);
    world.machines[3].first = Some(1 - leads);
    world.start_worker(2);
    until(&mut world, "the plan is under way", |world| world.store_faults.holds() == 0).await;
    (world, leads, 1 - leads)
}

fn join_while_planning() -> Faults {
    scene(async || {
        let (mut world, _, _) = planning(millis(1500)).await;
        world.start_worker(3);
        world.pass(secs(6)).await;
        at_work(&mut world, "short", 4).await;
        world
    })
}

fn disabled_while_planning() -> Faults {
    scene(async || {
        let (mut world, _, other) = planning(millis(1500)).await;
        ask(
            &world,
            other,
            disable("short", rosterd_coordinator::handle::Target::Item(rosterd_domain::id::Item(1))),
        );
        world.pass(secs(6)).await;
        let is = world
            .observer
            .lock()
            .shadow
            .jobs
            .get(&name("short"))
            .is_some_and(|job| job.sharding.disabled_items.contains(&rosterd_domain::id::Item(1)));
        want(&world, is, "the item is disabled");
        world
    })
}

fn deposed_while_planning() -> Faults {
    scene(async || {
        let mut world = small_world(3, &[0, 1, 2], vec![short(4, 100, 2)]);
        start(&mut world, 0..3).await;
        at_work(&mut world, "short", 3).await;
        world.pass(secs(5)).await;
        let leads = leader(&world, "short").unwrap_or(0);
        let (gone, other) = ((leads + 1) % 3, (leads + 2) % 3);
        // A host dies together with its worker: that does not raise the flag, whose version would refuse the old plan
        // as well.
        slow(&world, &format!("c{leads}"), Purpose::Assign, secs(4), 1);
        lose_coordinator(&mut world, gone);
        lose_worker(&mut world, gone);
        until(&mut world, "the plan is under way", |world| world.store_faults.holds() == 0).await;
        world.store_faults.deafen(&format!("c{leads}"), secs(6));
        // The next one plans late, so that the old plan comes first.
        slow(&world, &format!("c{other}"), Purpose::Assign, secs(5), 1);
        let deposed = world.store.foreign(&name("short"), "/leader/election/instance", None, false);
        want(&world, deposed, "a tool removes the leader");
        until(&mut world, "the other leads", |world| leader(world, "short") == Some(other)).await;
        world.pass(secs(8)).await;
        world
    })
}

fn late_election() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![short(2, 100, 2)]);
        slow(&world, "", Purpose::Elect, secs(3), 1);
        start(&mut world, 0..2).await;
        world.pass(secs(8)).await;
        at_work(&mut world, "short", 2).await;
        world
    })
}

fn leader_dies_mid_run() -> Faults {
    scene(async || {
        let mut world = small_world(3, &[0, 1, 2], vec![again(3, 14_000, 10)]);
        start(&mut world, 0..3).await;
        at_work(&mut world, "again", 3).await;
        until(&mut world, "all run", |world| starts(world, "again", "NORMAL_TRIGGER") >= 3).await;
        let leads = leader(&world, "again").unwrap_or(0);
        world.crash_coordinator(leads, false);
        world.pass(secs(25)).await;
        want(&world, starts(&world, "again", "FAILOVER") == 0, "nothing is started again");
        world
    })
}

fn many_leaders() -> Faults {
    scene(async || {
        let mut world = small_world(3, &[0, 1, 2], vec![short(3, 100, 1)]);
        start(&mut world, 0..3).await;
        at_work(&mut world, "short", 3).await;
        for _ in 0..6 {
            let leads = leader(&world, "short").unwrap_or(0);
            world.crash_coordinator(leads, false);
            world.pass(secs(5)).await;
        }
        world.pass(secs(12)).await;
        let before = starts(&world, "short", "NORMAL_TRIGGER");
        world.pass(secs(6)).await;
        want(&world, starts(&world, "short", "NORMAL_TRIGGER") >= before + 15, "the job fires");
        world
    })
}

fn all_die() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![again(4, 1500, 2)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        for _ in 0..2 {
            until(&mut world, "it runs", |world| runs(world, "again")).await;
            assert!((0..2).all(|machine| world.crash_worker(machine, false)));
            assert!((0..2).all(|replica| world.crash_coordinator(replica, false)));
            world.pass(secs(15)).await;
        }
        at_work(&mut world, "again", 2).await;
        world
    })
}

fn all_disabled() -> Faults {
    scene(async || {
        use rosterd_coordinator::handle::Target;
        use rosterd_domain::id::ServerAddress;
        let mut world = small_world(2, &[0, 1], vec![again(2, 500, 2)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        let servers: Vec<ServerAddress> =
            (0..2).filter_map(|machine| ServerAddress::new(format!("10.0.0.{machine}")).ok()).collect();
        for server in &servers {
            ask(&world, 0, disable("again", Target::Machine(server.clone())));
            world.pass(secs(1)).await;
        }
        world.pass(secs(10)).await;
        let before = starts(&world, "again", "NORMAL_TRIGGER");
        world.pass(secs(6)).await;
        want(&world, starts(&world, "again", "NORMAL_TRIGGER") == before, "nothing is run");
        ask(&world, 1, enable("again", Target::Machine(servers[1].clone())));
        world.pass(secs(6)).await;
        want(&world, starts(&world, "again", "NORMAL_TRIGGER") > before, "it is run again");
        at_work(&mut world, "again", 1).await;
        ask(&world, 1, enable("again", Target::Machine(servers[0].clone())));
        world.pass(secs(3)).await;
        world
    })
}

fn taker_dies_while_planning() -> Faults {
    scene(async || {
        // It is marked dead, and its instance removed, before the plan is written.
        let (mut world, _, _) = planning(secs(8)).await;
        lose_worker(&mut world, 2);
        world.pass(secs(20)).await;
        at_work(&mut world, "short", 2).await;
        world
    })
}
