//! Unnecessary reads, writes, moves, state and log lines.

use rosterd_coordinator::handle::Operation;
use rosterd_domain::id::Item;

use super::fixture::*;
use super::races;
use crate::invariants::few_writes;
use crate::oracle::planted_secrets;
use crate::seeds::play::job;
use crate::world::handlers::JobPlan;

races! {
    /// Jobs that are due in some hours only, far from them: nothing is read from the store.
    ej_2395_where_nothing_happens_nothing_is_read: far_from_due, [FOLLOWERS_POLL => "few_writes"];
    /// One item of many is run: nothing is written for the others.
    a_run_writes_its_own_record: one_of_many, [UNCHANGED_IS_WRITTEN => "few_writes"];
    /// Dozens of jobs come and go: removed jobs are not watched.
    ej_40_jobs_that_have_gone_leave_nothing: jobs_come_and_go, [WATCHES_STAY => "bounded"];
    /// Workers come and go: only items that must move do.
    who_comes_and_goes_moves_few_items: sticky_workers, [STICKY_FORGETS => "few_moves"];
    /// A job's parameters, which may be secrets, do not appear in the log.
    cve_2022_22733_no_secret_is_told: changed_often, [TRANSACTIONS_ARE_LOGGED => "no_secret"];
}

fn far_from_due() -> Faults {
    scene(async || {
        // The world begins at midnight.
        let hours = JobPlan { hours: vec![12], ..short(2, 100, 55) };
        let mut world = small_world(2, &[0, 1], vec![hours]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        world.pass(secs(10)).await;
        let before = world.store_faults.reads();
        world.pass(secs(60)).await;
        if let Err(text) = few_writes::while_idle(world.store_faults.reads() - before) {
            world.observer.lock().broke("few_writes", text);
        }
        world
    })
}

fn one_of_many() -> Faults {
    scene(async || {
        let mut world = small_world(1, &[0], vec![JobPlan { hours: vec![12], ..short(4, 100, 55) }]);
        start(&mut world, 0..1).await;
        at_work(&mut world, "short", 1).await;
        world.pass(secs(1)).await;
        let before = covered(&world, "write: host");
        for _ in 0..3 {
            let items = vec![Item(1)];
            ask(&world, 0, Operation::Trigger { job: name("short"), items, after_current: true });
            world.pass(secs(1)).await;
        }
        want(&world, starts(&world, "short", "MANUAL") == 3, "it is run each time");
        want(&world, covered(&world, "write: host") <= before + 6, "a run costs two transactions");
        world
    })
}

fn jobs_come_and_go() -> Faults {
    scene(async || {
        let mut world = small_world(2, &[0, 1], vec![short(2, 100, 2)]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        let names = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"];
        for round in 0..2 {
            for job in names {
                ask(&world, round, apply(&JobPlan { name: job, ..short(2, 100, 30) }));
            }
            world.pass(secs(4)).await;
            want(&world, names.iter().all(|job| leader(&world, job).is_some()), "each of them is led");
            for job in names {
                ask(&world, 1 - round, Operation::Remove { job: name(job), cancel: true });
            }
            world.pass(secs(4)).await;
        }
        want(&world, covered(&world, "operation Remove: done") == 16, "all are removed");
        world
    })
}

fn sticky_workers() -> Faults {
    scene(async || {
        let sticky = JobPlan { strategy: "STICKY", items: 7, run: (100, 100), fails: 0, ..job("short") };
        let mut world = small_world(2, &[0, 1, 0, 1], vec![sticky]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        for workers in 3..=4 {
            world.start_worker(workers - 1);
            at_work(&mut world, "short", workers).await;
            world.pass(secs(1)).await;
        }
        for machine in [0, 2] {
            world.leave(machine);
            world.machines[machine].retired = true;
            world.pass(secs(3)).await;
        }
        at_work(&mut world, "short", 2).await;
        world
    })
}

fn changed_often() -> Faults {
    scene(async || {
        let plan = again(2, 500, 3);
        let mut world = small_world(2, &[0, 1], vec![plan.clone()]);
        start(&mut world, 0..2).await;
        at_work(&mut world, "again", 2).await;
        for period in [2, 5, 3] {
            ask(&world, 1, apply(&JobPlan { period, ..plan.clone() }));
            world.pass(secs(2)).await;
        }
        // The error about a job does not contain its parameters.
        let wrong = plan.config().replace("misfire: false", "misfire: perhaps").replace("items", "itmes");
        let refused = Operation::apply(&format!("{wrong}nonsense: true\n"), false);
        let said = refused.err().map(|refusal| refusal.to_string()).unwrap_or_default();
        want(
            &world,
            said.contains("nonsense") && !planted_secrets::leaks_secret(&said),
            &format!("the invalid field is refused: {said}"),
        );
        world
    })
}
