//! Bugs that the simulation once found, each as a minimal scene.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rosterd_coordinator::handle::{Operation, Target};
use rosterd_domain::id::{Item, JobName};
use rosterd_domain::txn::Purpose;
use rosterd_domain::verify::{Line, What};
use rosterd_registry::memory::CommitFault;

use crate::faults::operator_request::apply;
use crate::faults::store::{Forced, Hold, StoreFaultRates};
use crate::seeds::play::{at_peace, block_on, job, plan, secs, starts};
use crate::world::handlers::JobPlan;
use crate::world::operator;
use crate::world::{Later, World, WorldPlan};

fn world(coordinators: usize, workers: usize, jobs: Vec<JobPlan>) -> World {
    let mut world = World::new(WorldPlan { coordinators, workers, jobs, ..plan(7) });
    world.calm = true;
    world
}

fn verdicts(world: &World) -> u64 {
    world.coverage.take().get("write: expire").copied().unwrap_or(0)
}

/// Its workers were taken for dead, since no coordinator noticed that it was alive.
#[test]
fn a_coordinator_whose_first_write_is_lost_hosts_nobody_until_it_is_known() {
    for lost in [1, 2] {
        block_on(async {
            let mut world = world(2, 4, vec![job("short")]);
            world.store_faults.force(Forced::LoseBefore(lost));
            world.start_all();
            world.pass(secs(25)).await;
            assert_eq!(verdicts(&world), 0);
            at_peace(&world);
        });
    }
}

/// A write in flight of an older session of the same coordinator took over its node, and removed it.
#[test]
fn a_late_write_of_a_dead_process_does_not_make_its_successor_look_dead() {
    block_on(async {
        let mut world = world(2, 4, vec![job("short"), job("again")]);
        world.start_all();
        world.pass(secs(5)).await;
        world.suspend(0, secs(8));
        world.pass(secs(4)).await;
        world.crash_coordinator(0, false);
        world.pass(secs(40)).await;
        assert_eq!(verdicts(&world), 0);
        at_peace(&world);
    });
}

/// The worker was marked dead the moment the host's session ended, since the attachment had not changed for long.
#[test]
fn a_worker_has_a_whole_lease_to_come_back_after_its_host_has_gone() {
    block_on(async {
        let mut world = world(2, 4, vec![job("short")]);
        world.start_all();
        world.pass(secs(8)).await;
        for machine in 0..4 {
            world.freeze_worker(machine, world.plan.times.session + secs(2));
        }
        world.replicas[0].retired = true;
        world.crash_coordinator(0, false);
        world.pass(secs(40)).await;
        let recoveries = world.coverage.take();
        assert!(recoveries.contains_key("recovery: taken over by another host"), "{recoveries:#?}");
        assert_eq!(recoveries.get("recovery: expire by another"), None, "{recoveries:#?}");
        world.judge();
        let broken = world.observer.lock().broken.clone();
        assert!(broken.is_empty(), "{broken:#?}");
    });
}

/// A host that cannot write went on acknowledging heartbeats: its workers relied on it beyond the session's end, when
/// others had their items already.
#[test]
fn a_host_that_cannot_write_lets_its_workers_go_in_time() {
    block_on(async {
        let mut world = world(2, 4, vec![JobPlan { run: (15_000, 15_000), ..job("again") }]);
        world.start_all();
        world.pass(secs(6)).await;
        for replica in [0, 1] {
            world.suspend(replica, secs(60));
            world.pass(secs(40)).await;
        }
        world.pass(secs(40)).await;
        at_peace(&world);
    });
}

/// A session that was to end without notice was reconnected by the end of another fault, wrote, and was ended when it
/// was unreachable once more, although it had just been active: its host still acknowledged heartbeats.
#[test]
fn a_session_that_was_heard_again_is_not_over_before_its_time() {
    block_on(async {
        let mut world = world(2, 4, vec![job("again")]);
        world.start_all();
        world.pass(secs(6)).await;
        world.suspend(0, secs(6));
        world.pass(secs(4)).await;
        world.cut_off(0, secs(60));
        world.pass(secs(4)).await;
        world.suspend(0, secs(8));
        world.pass(secs(36)).await;
        at_peace(&world);
    });
}

/// Hosts never noticed the records that the leader created, and a new leader took over the old mirrors.
#[test]
fn a_job_that_is_removed_and_made_again_runs_again() {
    block_on(async {
        let plan = job("again");
        let Ok(name) = JobName::new(plan.name) else { return };
        let mut world = world(3, 6, vec![plan.clone(), job("short")]);
        world.start_all();
        for _ in 0..3 {
            world.pass(secs(8)).await;
            operator::ask(&mut world, Operation::Remove { job: name.clone(), cancel: true });
            world.pass(secs(3)).await;
            operator::ask(&mut world, apply(&plan));
        }
        world.pass(secs(45)).await;
        at_peace(&world);
    });
}

/// A drain that was requested while the attachment was written was lost; a Trigger followed Draining.
#[test]
fn a_worker_may_leave_at_any_moment() {
    for moment in 0..40_u64 {
        block_on(async {
            let jobs = vec![JobPlan { grace: Some(800), ..job("again") }, job("short")];
            let mut world = world(1, 2, jobs);
            world.start_all();
            world.pass(Duration::from_millis(if moment < 20 { moment * 3 } else { 1990 + moment })).await;
            world.leave(0);
            world.later(secs(3), Later::StartWorker(0));
            world.pass(secs(7)).await;
            assert_eq!(world.coverage.take().get("worker ended: left"), Some(&1), "at {moment}");
            world.judge();
            let broken = world.observer.lock().broken.clone();
            assert!(broken.is_empty(), "at {moment}: {broken:#?}");
        });
    }
}

/// The scheduled times of the first schedule were counted by the second, once a third was in force.
#[test]
fn a_schedule_that_changes_twice_at_once_loses_no_fire() {
    block_on(async {
        let slow = JobPlan { run: (6000, 6000), ..job("again") };
        let mut world = world(1, 2, vec![slow.clone()]);
        world.start_all();
        for round in 0..6_usize {
            world.pass(Duration::from_millis(3300)).await;
            for period in [5, 1, 3, 2] {
                let changed =
                    JobPlan { period: if round % 2 == 0 { period } else { 6 - period }, ..slow.clone() };
                operator::ask(&mut world, apply(&changed));
                world.pass(Duration::from_millis(700)).await;
            }
        }
        world.pass(secs(30)).await;
        at_peace(&world);
    });
}

/// A drain that came while a job's nodes were being read was never confirmed: nothing handled it after that read.
#[test]
fn a_drain_is_confirmed_after_a_read_that_was_under_way() {
    for after in [0, 5, 40, 120, 260, 400] {
        block_on(async {
            // Nothing fires while it leaves.
            let quiet = JobPlan { name: "quiet", period: 30, ..job("short") };
            let mut world = world(2, 2, vec![quiet]);
            world.start_all();
            world.pass(secs(12)).await;
            world.store_faults.set(StoreFaultRates { slow: (1000, 250), ..StoreFaultRates::default() });
            // Makes all coordinators read the job's nodes.
            let name = JobName::new("quiet").unwrap();
            let handle = world.replicas[0].running.as_ref().unwrap().handle.clone();
            let pause = Operation::Pause { job: name, paused: true };
            let asked = tokio::spawn(async move { handle.operate(pause).await });
            world.pass(Duration::from_millis(after)).await;
            world.replicas.iter_mut().for_each(|replica| replica.retired = true);
            world.leave(0);
            world.pass(secs(9)).await;
            assert!(asked.await.unwrap().is_ok());
            assert_eq!(world.coverage.take().get("worker ended: left"), Some(&1), "left after {after} ms");
        });
    }
}

/// Records of new items, and times of a change or a pause, were written by a calendar that was a day ahead: the items
/// were silent until then, or scheduled times of that day were skipped as paused.
#[test]
fn what_is_written_while_a_calendar_is_a_day_ahead_is_dated_by_what_it_should_say() {
    block_on(async {
        let plan = JobPlan { run: (100, 100), fails: 0, ..job("short") };
        let mut world = world(1, 1, vec![plan.clone()]);
        world.start_all();
        world.pass(secs(8)).await;
        let clock = world.replicas[0].running.as_ref().unwrap().clock.clone();
        clock.jump(86_400_000);
        world.pass(secs(2)).await;
        let name = JobName::new("short").unwrap();
        let more = JobPlan { items: 5, period: 2, ..plan };
        operator::ask(&mut world, apply(&more));
        operator::ask(&mut world, Operation::Pause { job: name.clone(), paused: true });
        world.pass(secs(3)).await;
        operator::ask(&mut world, Operation::Pause { job: name.clone(), paused: false });
        world.pass(secs(3)).await;
        clock.jump(-86_400_000);
        world.pass(secs(4)).await;
        let fired = |world: &World| -> Vec<u64> {
            let observer = world.observer.lock();
            observer.shadow.records.values().map(|record| record.counters.fired).collect()
        };
        let before = fired(&world);
        assert_eq!(before.len(), 5);
        world.pass(secs(30)).await;
        for (item, (before, after)) in before.iter().zip(fired(&world)).enumerate() {
            assert!(after >= before + 12, "item {item}: {before} runs, then {after}");
        }
        at_peace(&world);
    });
}

/// Held runs waited for an item that was disabled, or for a job that was paused, and were never released.
#[test]
fn a_held_fire_waits_for_nobody_who_does_not_take_part() {
    block_on(async {
        let held = JobPlan { held: Some("run"), items: 3, run: (100, 100), fails: 0, ..job("again") };
        let mut world = world(2, 3, vec![held]);
        world.start_all();
        world.pass(secs(9)).await;
        let name = JobName::new("again").unwrap();
        let target = Target::Item(Item(0));
        let disable = Operation::Enable { job: name, target, enabled: false, cancel: false };
        operator::ask(&mut world, disable);
        world.pass(secs(3)).await;
        let released = |world: &World| world.coverage.take().get("item: release").copied().unwrap_or(0);
        let before = released(&world);
        world.pass(secs(30)).await;
        assert!(released(&world) >= before + 20, "{before} were released before, then {}", released(&world));
        at_peace(&world);
    });
}

/// A stand-in leader of a job with guarantees kept the leadership when its last worker of that job had moved to others:
/// no worker was called, and held runs stayed held.
#[test]
fn a_stand_in_leader_without_a_worker_of_the_job_gives_up() {
    block_on(async {
        let held = JobPlan { held: Some("run"), items: 2, run: (100, 100), fails: 0, ..job("again") };
        let mut world = world(2, 2, vec![held]);
        (0..2).for_each(|machine| world.machines[machine].first = Some(machine));
        world.start_all();
        world.pass(secs(12)).await;
        let name = JobName::new("again").unwrap();
        let leads = |world: &World| {
            let leader = world.observer.lock().shadow.jobs[&name].leader.clone().unwrap_or_default();
            usize::from(leader.starts_with("c1#"))
        };
        let first = leads(&world);
        world.freeze_coordinator(first, secs(3));
        assert!(world.store.foreign(&name, "/leader/election/instance", None, false));
        world.pass(secs(5)).await;
        assert_eq!(leads(&world), 1 - first, "the other one leads in its place");
        world.machines[1 - first].retired = true;
        world.crash_worker(1 - first, false);
        world.pass(secs(15)).await;
        let released = |world: &World| world.coverage.take().get("item: release").copied().unwrap_or(0);
        let before = released(&world);
        world.pass(secs(20)).await;
        assert!(released(&world) >= before + 10, "{before} were released before, then {}", released(&world));
        at_peace(&world);
    });
}

/// Misfires came first: as long as the remaining workers had more work than slots, there was another one whenever a
/// slot was free, and the crashed run was never run again.
#[test]
fn a_crashed_run_does_not_wait_behind_misfires() {
    block_on(async {
        let jobs = vec![
            JobPlan { items: 4, run: (300, 300), fails: 0, ..job("short") },
            JobPlan { items: 1, period: 20, run: (15_000, 15_000), fails: 0, ..job("again") },
        ];
        let mut world = World::new(WorldPlan { workers: 2, jobs, slots: (2, 2), ..plan(7) });
        world.calm = true;
        world.start_all();
        world.pass(secs(22)).await;
        let first = |line: &Line| line.what == What::Start && line.job == "again";
        let holder = world.log.lines().into_iter().find(first).map(|line| line.worker);
        let machine = usize::from(holder.is_some_and(|process| process.starts_with("w1.")));
        world.machines.iter().for_each(|machine| machine.slowness.store(12, Ordering::Relaxed));
        world.machines[machine].retired = true;
        world.crash_worker(machine, false);
        world.pass(secs(14)).await;
        assert_eq!((starts(&world, "again", "FAILOVER"), verdicts(&world)), (1, 1));
        assert!(starts(&world, "short", "MISFIRE") >= 3, "the worker that is left has too much to do");
        world.machines.iter().for_each(|machine| machine.slowness.store(1, Ordering::Relaxed));
        world.pass(secs(40)).await;
        at_peace(&world);
    });
}

/// The run was of an item that the job no longer had. No instance owned it, so no coordinator read its record when
/// worker and host had died at once, or the host right after it had marked the worker dead: the run never ended.
#[test]
fn a_run_of_a_surplus_item_ends_with_its_worker() {
    for declared_dead in [false, true] {
        block_on(async {
            let plan = JobPlan { items: 2, period: 30, run: (60_000, 60_000), fails: 0, ..job("again") };
            let mut world = world(2, 2, vec![plan.clone()]);
            (0..2).for_each(|machine| world.machines[machine].first = Some(machine));
            world.start_all();
            world.pass(secs(33)).await;
            let first = |line: &Line| line.what == What::Start && line.item == 1;
            let holder = world.log.lines().into_iter().find(first).map(|line| line.worker);
            let machine = usize::from(holder.is_some_and(|process| process.starts_with("w1.")));
            operator::ask(&mut world, apply(&JobPlan { items: 1, ..plan }));
            world.pass(secs(2)).await;
            world.machines[machine].retired = true;
            world.crash_worker(machine, false);
            if declared_dead {
                let (of, fault) = (format!("c{machine}"), CommitFault::LoseBefore);
                let takes = Duration::from_millis(2);
                world.store_faults.hold(Hold { of, purpose: Purpose::Host, fault, takes, times: 100 });
                for _ in 0..1000 {
                    if verdicts(&world) == 0 {
                        world.pass(Duration::from_millis(10)).await;
                    }
                }
            }
            world.replicas[machine].retired = true;
            world.crash_coordinator(machine, false);
            world.store_faults.release_held();
            world.pass(secs(40)).await;
            assert!(verdicts(&world) > 0, "it is marked dead");
            let records = world.observer.lock().shadow.records.clone();
            let surplus = records.iter().find(|((_, item), _)| *item == Item(1));
            assert!(surplus.is_some_and(|(_, record)| record.running().is_none()), "{surplus:#?}");
            at_peace(&world);
        });
    }
}

/// The records of a job without monitorExecution do not show runs in flight. Its host took an item for busy forever if
/// the worker had died in the middle of a run, or had never received it: each of its scheduled times was skipped.
#[test]
fn an_item_without_a_record_of_its_runs_is_free_when_its_worker_has_gone() {
    for dies in [true, false] {
        block_on(async {
            let bare = JobPlan { run: (2500, 2500), fails: 0, ..job("bare") };
            let mut world = world(1, 2, vec![bare]);
            world.start_all();
            world.pass(Duration::from_millis(9200)).await;
            let begun = |world: &World| -> Vec<usize> {
                let lines = world.log.lines();
                let of = |item: u32| {
                    lines.iter().filter(|line| line.what == What::Start && line.item == item).count()
                };
                (0..2).map(of).collect()
            };
            let process = world.machines[0].running.as_ref().unwrap().process.clone();
            if dies {
                world.machines[0].retired = true;
                world.crash_worker(0, false);
            } else {
                // Frames of the next seconds do not arrive, and the following stream does not repeat them.
                world.net.silence_of(&process, crate::world::network::Direction::Down, true);
                world.pass(secs(3)).await;
                world.net.cut(&process);
            }
            world.pass(secs(8)).await;
            let before = begun(&world);
            world.pass(secs(20)).await;
            for (item, (before, after)) in before.iter().zip(begun(&world)).enumerate() {
                assert!(
                    after >= before + 5,
                    "item {item}: {before} runs, then {after}, where one dies: {dies}"
                );
            }
            at_peace(&world);
        });
    }
}

/// The end of such a run was attributed to the first of the instances, and the read of its offset was not repeated if
/// it failed.
#[test]
fn a_run_without_a_record_waits_for_its_offset() {
    block_on(async {
        let mut world = world(1, 1, vec![JobPlan { run: (100, 100), fails: 0, ..job("bare") }]);
        world.store_faults.set(StoreFaultRates { read_fails: 600, ..StoreFaultRates::default() });
        world.start_all();
        world.pass(secs(40)).await;
        world.store_faults.set(StoreFaultRates::default());
        world.pass(secs(20)).await;
        assert!(starts(&world, "bare", "NORMAL_TRIGGER") >= 30);
        at_peace(&world);
    });
}
