//! Who speaks for a worker, and when it is dead.

use rosterd_registry::memory::CommitFault;

use super::fixture::*;
use super::races;
use crate::faults::inject::part;
use crate::world::WorldTimes;
use crate::world::handlers::JobPlan;
use crate::world::network::Direction;
use rosterd_domain::txn::Purpose;

races! {
    /// A decision to mark a worker dead from before it attached elsewhere has no effect.
    hole_2_a_late_expiry_ends_no_worker_that_attached_elsewhere: late_expiry, [EXPIRY_IGNORES_VERSION => "one_lease"];
    /// A Hello of an abandoned stream arrives after that of the next.
    hole_3_a_late_hello_takes_nobody_back: late_hello, [STREAM_NUMBERS_UNCHECKED => "one_stream"];
    /// A start is in flight for a worker that moves to another host.
    hole_4_a_start_for_a_worker_that_moved_is_refused: start_for_a_worker_that_moved, [START_IGNORES_ATTACHMENT => "right_to_start"];
    /// A worker that attaches to another host belongs to it only once the attachment says so.
    hole_21_every_welcome_follows_a_written_attachment: moved, [TAKEOVER_SKIPS_ATTACHMENT => "right_to_start"];
    /// A host that had read the records before the worker came takes its run for orphaned.
    hole_7_records_are_read_after_the_take_over: moved_with_a_run, [RECORDS_READ_BEFORE_ATTACHMENT => "fenced"];
    /// A worker that is frozen for less than its lease is not dead.
    hole_22_no_worker_is_marked_dead_before_its_lease_has_ended: frozen_worker, [EXPIRY_BEFORE_LEASE_END => "one_lease"];
    /// A run that was stopped by its lease's end is reported as aborted, and run again.
    hole_6_what_a_lease_stopped_is_reported_as_aborted: frozen_host, [ABORTED_IS_FAILED => "ends_as_reported"];
    /// A repeated report ends no other run than its own.
    pj_1104_a_repeated_report_ends_no_other_run: repeated_report, [REPORT_TOKEN_UNCHECKED => "ends_as_reported"];
    /// A worker's leave is acknowledged once its attachment is gone, not before.
    hole_8_a_goodbye_is_acknowledged_when_it_is_written: slow_goodbye,
        [GOODBYE_ACK_BEFORE_COMMIT => "nothing_acknowledged_is_lost"];
    /// The coordinator dies while a worker leaves: that is still not a crash.
    hole_8_who_left_while_the_host_died_is_not_failed_over: leave_while_the_host_dies,
        [LEAVE_NOT_REPEATED => "scene"];
    /// A worker has said goodbye, falls silent, and a run that it was never sent is still being handed back when its
    /// lease ends: the worker is marked dead, it did not leave.
    who_has_something_left_to_be_handed_back_may_not_go: lease_ends_in_a_goodbye,
        [LEASE_ENDS_GOODBYES => "clean_exit_no_crash", HANDED_BACK_BY_THE_DEAD => "no_orphans"];
    /// Workers of a frozen coordinator go on elsewhere; when it resumes, its frames and writes have no effect.
    a_paused_host_wakes_and_is_not_believed: paused_host;
    /// A host is frozen while its session ends. When it resumes, it is notified of that first, and then gets
    /// heartbeats.
    who_knows_that_its_session_is_over_acknowledges_nothing: over_while_frozen, [OVER_AND_LISTENS => "one_lease"];
    /// A worker is frozen in the middle of a run, which is failed over; when it resumes, it does not go on with the
    /// run.
    ej_1549_a_paused_worker_does_not_go_on_beside_the_next: paused_mid_run, [LEASE_ENDLESS => "overlap"];
    /// A worker that was frozen beyond its lease resumes and runs no item of another.
    hole_12_a_paused_worker_wakes_and_starts_nothing: paused_worker, [LEASE_ENDLESS => "overlap"];
}

fn late_expiry() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![short(2, 100, 30)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        world.pass(secs(5)).await;
        slow(&world, "c0", Purpose::Expire, secs(3), 1);
        world.freeze_worker(0, secs(30));
        until(&mut world, "the expiry is being written", |world| world.store_faults.holds() == 0).await;
        world.thaw_worker(0);
        until(&mut world, "it is attached elsewhere", |world| host(world, 0).as_deref() == Some("c1")).await;
        world.pass(secs(8)).await;
        want(&world, covered(&world, "recovery: expire by the host") == 0, "no worker is marked dead");
        world
    })
}

fn late_hello() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[1], vec![short(2, 100, 30)]);
        // A lease that lasts longer than a client waits for its Welcome.
        world.plan.times = WorldTimes { session: secs(20), lease: secs(9), ..WorldTimes::LONG };
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        world.pass(secs(4)).await;
        world.freeze_coordinator(0, secs(10));
        cut(&world, 0);
        // It sends Hello to the frozen one, gives up, and comes back to the other.
        world.pass(secs(9)).await;
        want(&world, host(&world, 0).as_deref() == Some("c1"), "it is attached to the other");
        world.pass(secs(8)).await;
        world
    })
}

fn start_for_a_worker_that_moved() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0], vec![short(2, 100, 5)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        before_due(&mut world, 5, millis(200)).await;
        slow(&world, "c0", Purpose::Host, millis(1500), 1);
        slow(&world, "c1", Purpose::Host, millis(3000), 1);
        until(&mut world, "the start is in flight", |world| world.store_faults.holds() < 2).await;
        cut(&world, 0);
        until(&mut world, "it is attached elsewhere", |world| host(world, 0).as_deref() == Some("c1")).await;
        world.pass(secs(6)).await;
        world
    })
}

fn moved() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![short(2, 100, 1)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        world.pass(secs(2)).await;
        lose_coordinator(&mut world, 0);
        world.pass(secs(4)).await;
        want(&world, host(&world, 0).as_deref() == Some("c1"), "it is attached elsewhere");
        world
    })
}

fn moved_with_a_run() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![again(2, 6000, 15)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        until(&mut world, "both run", |world| starts(world, "again", "NORMAL_TRIGGER") >= 2).await;
        cut(&world, 0);
        world.pass(secs(8)).await;
        want(&world, covered(&world, "item: end succeeded (reported)") >= 2, "both end well");
        world
    })
}

fn over_while_frozen() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![short(2, 100, 1)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        world.pass(secs(5)).await;
        let session =
            world.replicas[0].running.as_ref().map(|running| running.session.clone()).unwrap_or_default();
        // There is no other coordinator for its worker.
        part(&mut world, Some(0), 1, Direction::Both, None);
        world.freeze_coordinator(0, millis(2500));
        world.pass(millis(500)).await;
        world.replicas[0].retired = true;
        world.store.expire(&session);
        world.pass(secs(8)).await;
        want(&world, covered(&world, "recovery: expire by another") > 0, "its worker is marked dead");
        world.net.heal();
        world
    })
}

fn frozen_worker() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0, 0], vec![again(2, 300, 2)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        world.pass(secs(5)).await;
        world.freeze_worker(0, millis(3500));
        world.pass(secs(7)).await;
        want(&world, covered(&world, "write: expire") == 0, "no worker is marked dead");
        world
    })
}

fn frozen_host() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![again(1, 9000, 15)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "again", 1).await;
        until(&mut world, "it runs", |world| starts(world, "again", "NORMAL_TRIGGER") == 1).await;
        world.pass(millis(2100)).await;
        world.freeze_coordinator(0, millis(4950));
        world.pass(secs(9)).await;
        want(&world, starts(&world, "again", "FAILOVER") >= 1, "it is run again");
        world
    })
}

fn repeated_report() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![short(1, 400, 1)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        let begun = starts(&world, "short", "NORMAL_TRIGGER");
        until(&mut world, "it begins", |world| starts(world, "short", "NORMAL_TRIGGER") > begun).await;
        let Some(process) = world.machines[0].running.as_ref().map(|running| running.process.clone()) else {
            return world;
        };
        // The report arrives; its acknowledgement and the next Trigger do not.
        world.net.silence_of(&process, crate::world::network::Direction::Down, true);
        let first = record(&world, "short", 0).map(|record| record.token);
        until(&mut world, "the next run is written", |world| {
            record(world, "short", 0)
                .is_some_and(|record| Some(record.token) > first && record.running().is_some())
        })
        .await;
        world.net.cut(&process);
        world.pass(secs(4)).await;
        world
    })
}

fn slow_goodbye() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0, 0], vec![again(2, 300, 2)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        slow(&world, "c0", Purpose::Goodbye, secs(1), 1);
        world.leave(0);
        world.pass(secs(6)).await;
        want(&world, covered(&world, "worker ended: left") == 1, "it has left");
        want(&world, starts(&world, "again", "FAILOVER") == 0, "nothing is failed over");
        world
    })
}

fn lease_ends_in_a_goodbye() -> Faults {
    scene(async || {
        let held = JobPlan { held: Some("run"), answer: (1, 1), ..again(2, 300, 20) };
        // One coordinator: with two, the other one would lead, and end the dead worker's runs.
        let mut world = small_world(1, &[0, 0], vec![held]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        before_due(&mut world, 20, secs(1)).await;
        let Some(item) = item_of(&world, "again", 0) else { return world };
        lose(&world, Purpose::Announce, CommitFault::LoseBefore, 10_000);
        until(&mut world, "it is held", |world| running(world, "again", item).is_some_and(|run| run.held))
            .await;
        lose(&world, Purpose::Host, CommitFault::LoseBefore, 10_000);
        world.leave(0);
        world.pass(secs(1)).await;
        world.freeze_worker(0, secs(9));
        world.pass(secs(8)).await;
        world.store_faults.release_held();
        world.pass(secs(4)).await;
        want(&world, covered(&world, "recovery: expire by the host") == 1, "it is marked dead");
        world
    })
}

fn leave_while_the_host_dies() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![again(2, 2000, 4)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        until(&mut world, "it runs", |world| runs(world, "again")).await;
        world.leave(0);
        world.pass(millis(300)).await;
        lose_coordinator(&mut world, 0);
        world.pass(secs(20)).await;
        want(&world, covered(&world, "worker ended: left") == 1, "it has left");
        want(&world, starts(&world, "again", "FAILOVER") == 0, "nothing is failed over");
        world
    })
}

fn paused_host() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![again(2, 3000, 4)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        until(&mut world, "it runs", |world| runs(world, "again")).await;
        world.freeze_coordinator(0, secs(25));
        world.pass(secs(35)).await;
        want(&world, host(&world, 0).as_deref() == Some("c1"), "its worker is elsewhere");
        world
    })
}

fn paused_worker() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0, 0], vec![again(2, 2000, 3)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        until(&mut world, "both run", |world| starts(world, "again", "NORMAL_TRIGGER") >= 2).await;
        world.freeze_worker(0, secs(9));
        world.pass(secs(16)).await;
        want(&world, covered(&world, "recovery: expire by the host") == 1, "it is marked dead");
        world
    })
}

fn paused_mid_run() -> Faults {
    scene(async || {
        let mut world = both_run(again(2, 25_000, 30)).await;
        world.freeze_worker(0, secs(9));
        until(&mut world, "it is run again", |world| starts(world, "again", "FAILOVER") == 1).await;
        world.pass(secs(12)).await;
        want(&world, covered(&world, "recovery: expire by the host") == 1, "it was marked dead");
        world
    })
}
