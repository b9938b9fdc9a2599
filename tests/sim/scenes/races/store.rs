//! The store is lost, slow, or does not answer.

use rosterd_registry::memory::CommitFault;

use super::fixture::*;
use super::races;
use crate::world::World;
use rosterd_domain::txn::Purpose;

races! {
    /// A coordinator is cut off from the store in the middle of a run: its worker stops before another runs the item.
    ej_507_zk_lost_mid_run_does_not_run_twice: cut_off_mid_run, [ACK_WITHOUT_PROOF => "one_lease"];
    /// A coordinator that was suspended for nearly a session, or for longer, does not trust its session, and
    /// acknowledges nothing.
    curator_460_who_is_cut_off_acknowledges_nothing: cut_off_mid_run, [ACK_WITHOUT_PROOF => "one_lease"];
    /// A host whose store answers only reads trusts a session that is over.
    hole_5_answers_to_reads_prove_no_session: cut_off_mid_run, [ACK_WITHOUT_PROOF => "overlap"];
    /// The nodes of a session end while its workers are alive: their runs have not crashed.
    ej_687_reconnect_is_no_failover: expired_and_moved, [DEATH_BY_ABSENCE => "fenced"];
    /// An instance's node is missing, and its worker is alive: the worker is not dead.
    hole_19_a_missing_node_is_no_death: expired_and_moved, [DEATH_BY_ABSENCE => "fenced"];
    /// A store that is unreachable for less than a session moves nothing.
    ej_687_a_new_store_leader_moves_nothing: short_outage, [SUSPENDED_IS_GONE => "scene"];
    /// After many short outages every job goes on by itself.
    ej_1807_every_job_fires_after_flapping: flapping, [OUTAGE_NEVER_ENDS => "settles"];
    /// The same for leaders: a coordinator that was cut off notices the end of the outage, and campaigns again.
    ej_123_nobody_waits_for_an_election_for_ever: flapping, [OUTAGE_NEVER_ENDS => "settles"];
    /// The store comes and goes many times in a row: each return is noticed, and the last one counts.
    curator_620_two_reconnects_in_a_row: many_reconnects;
    /// An instance's node that ended with its session is not an operator's command.
    ej_1857_an_expired_session_shuts_no_job_down: flapping_beyond_the_session, [ABSENCE_IS_A_COMMAND => "scene"];
    /// The answer to a completion is lost: the item is not running forever.
    ej_467_the_reply_of_a_completion_is_lost: lost_replies, [UNKNOWN_TAKEN_FOR_DONE => "nothing_acknowledged_is_lost"];
    /// A write that may not have been applied is not reported.
    curator_62_an_unknown_outcome_is_read_again: lost_attach, [UNKNOWN_TAKEN_FOR_DONE => "nothing_acknowledged_is_lost"];
    /// The mirrors are gone with a session: the worker is still marked dead.
    hole_10_a_missing_mirror_stops_no_verdict: host_and_worker_die, [MIRRORS_ARE_PRECONDITIONS => "no_orphans"];
    /// A slow store does not drop a scheduled time: each is run or counted.
    xxl_1693_a_slow_store_drops_no_fire: slow_store, [MISSES_UNCOUNTED => "no_fire_vanishes"];
    /// While writes take long, scheduled times are not dispatched a second time.
    pj_661_a_slow_store_dispatches_nothing_twice: slow_store, [NEXT_FIRE_NOT_STORED => "once_per_fire"];
}

fn cut_off_mid_run() -> Faults {
    scene(async || {
        let mut world = both_run(again(2, 25_000, 30)).await;
        // The worker cannot reach the other host before its lease has ended.
        world.cut_off(0, secs(40));
        world.pass(secs(30)).await;
        world
    })
}

fn expired_and_moved() -> Faults {
    scene(async || {
        let mut world = both_run(again(2, 25_000, 30)).await;
        // The other host knows of the run.
        ask(&world, 1, trigger("again"));
        world.pass(secs(1)).await;
        world.suspend(0, secs(12));
        world.pass(secs(20)).await;
        want(&world, starts(&world, "again", "FAILOVER") == 0, "nothing is failed over");
        world
    })
}

fn short_outage() -> Faults {
    scene(async || {
        let mut world = small_world(3, &[0, 1, 2], vec![again(3, 4000, 5)]);
        start(&mut world, 0..3).await;
        at_work(&mut world, "again", 3).await;
        until(&mut world, "it runs", |world| runs(world, "again")).await;
        let before = leader(&world, "again");
        let sessions = |world: &World| -> Vec<Option<String>> {
            let running = world.replicas.iter().map(|replica| replica.running.as_ref());
            running.map(|running| running.map(|running| running.session.clone())).collect()
        };
        let known = sessions(&world);
        assert!((0..3).all(|replica| world.suspend(replica, secs(4))));
        world.pass(secs(20)).await;
        want(&world, leader(&world, "again") == before, "the leader is the same");
        want(&world, sessions(&world) == known, "every session goes on");
        want(&world, covered(&world, "write: expire") == 0, "no worker is marked dead");
        want(&world, starts(&world, "again", "FAILOVER") == 0, "nothing is failed over");
        world
    })
}

fn flapping() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![again(2, 300, 2), short(2, 100, 1)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        for round in 0..12 {
            world.suspend(round % 2, secs(3));
            world.pass(secs(4)).await;
        }
        let before = (starts(&world, "again", "NORMAL_TRIGGER"), starts(&world, "short", "NORMAL_TRIGGER"));
        world.pass(secs(10)).await;
        let after = (starts(&world, "again", "NORMAL_TRIGGER"), starts(&world, "short", "NORMAL_TRIGGER"));
        want(&world, after.0 > before.0 + 6 && after.1 > before.1 + 12, "every job fires again");
        world
    })
}

fn flapping_beyond_the_session() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![again(2, 300, 2)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        for round in 0..4 {
            world.suspend(round % 2, secs(14));
            world.pass(secs(16)).await;
        }
        // Both at once: no worker has a host to attach to, and its node ends with the session.
        assert!((0..2).all(|replica| world.suspend(replica, secs(14))));
        world.pass(secs(24)).await;
        at_work(&mut world, "again", 2).await;
        want(&world, covered(&world, "write: dismiss") == 0, "no instance is shut down");
        world
    })
}

fn lost_replies() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![again(1, 700, 2)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "again", 1).await;
        for fault in [CommitFault::LoseAfter, CommitFault::LoseBefore] {
            for _ in 0..3 {
                until(&mut world, "it runs", |world| runs(world, "again")).await;
                // The next write of the host is the one that ends the run.
                lose(&world, Purpose::Host, fault.clone(), 1);
                until(&mut world, "it has ended", |world| !runs(world, "again")).await;
            }
        }
        world
    })
}

fn lost_attach() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![short(1, 100, 1)]);
        lose(&world, Purpose::Attach, CommitFault::LoseBefore, 1);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        world.pass(secs(3)).await;
        world
    })
}

fn host_and_worker_die() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![again(2, 2500, 4)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        until(&mut world, "it runs", |world| runs(world, "again")).await;
        lose_coordinator(&mut world, 0);
        lose_worker(&mut world, 0);
        world.pass(secs(25)).await;
        world
    })
}

fn slow_store() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![short(2, 100, 1)]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        world.pass(secs(3)).await;
        slow(&world, "c0", Purpose::Host, millis(2500), 2);
        world.pass(secs(6)).await;
        world.suspend(0, secs(9));
        world.pass(secs(12)).await;
        world.crash_coordinator(0, false);
        world.replicas[0].retired = true;
        world.pass(secs(40)).await;
        world.replicas[0].retired = false;
        world.start_coordinator(0);
        world.pass(secs(5)).await;
        world
    })
}

fn many_reconnects() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![again(2, 300, 2)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        let before = leader(&world, "again");
        assert!((0..2).all(|replica| world.flap(replica, 4, secs(1))));
        world.pass(secs(14)).await;
        want(&world, leader(&world, "again") == before, "the leader is the same");
        want(&world, covered(&world, "write: expire") == 0, "no worker is marked dead");
        world
    })
}
