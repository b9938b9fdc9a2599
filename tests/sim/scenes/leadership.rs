//! Leadership: it is spread, goes to the first-ranked coordinators, and does not return to one that is leaving.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rosterd_coordinator::handle::Operation;
use rosterd_domain::id::{CoordinatorId, InstanceId, Item, JobName};
use rosterd_domain::rank::rank;
use rosterd_domain::verify::What;

use crate::seeds::play::{at_peace, block_on, job, plan};
use crate::world::handlers::JobPlan;
use crate::world::{World, WorldPlan};

const NAMES: [&str; 6] = ["ant", "bee", "cat", "dog", "eel", "fox"];

fn world(coordinators: usize, workers: usize) -> World {
    let jobs = NAMES.map(|name| JobPlan { name, ..job("short") }).to_vec();
    let mut world = World::new(WorldPlan { coordinators, workers, jobs, slots: (30, 30), ..plan(21) });
    world.calm = true;
    world
}

/// Each job's leader, by the name of its replica.
fn leaders(world: &World) -> BTreeMap<String, Option<String>> {
    let replica = |leader: &String| leader.split('#').next().unwrap_or_default().to_string();
    let observer = world.observer.lock();
    observer
        .shadow
        .jobs
        .iter()
        .map(|(name, job)| (name.to_string(), job.leader.as_ref().map(replica)))
        .collect()
}

/// The coordinator that should lead each job, among these replicas.
fn wanted(replicas: &[usize]) -> BTreeMap<String, Option<String>> {
    let ids: Vec<CoordinatorId> =
        replicas.iter().map(|replica| CoordinatorId::new(format!("c{replica}")).unwrap()).collect();
    let first = |name: &&str| {
        let job = JobName::new(*name).unwrap();
        let first = ids.iter().find(|id| rank(&job, id, &ids) == 0);
        (name.to_string(), first.map(ToString::to_string))
    };
    NAMES.iter().map(first).collect()
}

#[test]
fn leaderships_follow_coordinators_that_come_and_go() {
    block_on(async {
        let mut world = world(3, 3);
        world.start_coordinator(0);
        (0..3).for_each(|machine| world.start_worker(machine));
        world.pass(Duration::from_secs(10)).await;
        assert_eq!(leaders(&world), wanted(&[0]));
        world.start_coordinator(1);
        world.start_coordinator(2);
        world.pass(Duration::from_secs(15)).await;
        let all = wanted(&[0, 1, 2]);
        assert!(["c0", "c1", "c2"].iter().all(|c| all.values().any(|l| l.as_deref() == Some(c))), "{all:?}");
        assert_eq!(leaders(&world), all);
        world.replicas[2].retired = true;
        world.crash_coordinator(2, false);
        world.pass(Duration::from_secs(25)).await;
        assert_eq!(leaders(&world), wanted(&[0, 1]));
        at_peace(&world);
    });
}

/// A coordinator that is leaving passes its leaderships to others at once: they do not wait for it to be elected again.
#[test]
fn leaderships_of_one_that_leaves_are_taken_at_once() {
    block_on(async {
        let mut world = world(3, 3);
        world.start_all();
        world.pass(Duration::from_secs(20)).await;
        assert_eq!(leaders(&world), wanted(&[0, 1, 2]));
        world.replicas[0].retired = true;
        if let Some(running) = &world.replicas[0].running {
            running.handle.stop();
        }
        world.pass(Duration::from_millis(400)).await;
        assert_eq!(leaders(&world), wanted(&[1, 2]));
        world.pass(Duration::from_secs(20)).await;
        at_peace(&world);
    });
}

/// Others do not wait long for a first-ranked coordinator that cannot lead, and do not give the leadership back to it
/// later.
#[test]
fn a_frozen_leader_is_replaced_by_a_stand_in() {
    block_on(async {
        let mut world = world(2, 2);
        world.start_all();
        world.pass(Duration::from_secs(15)).await;
        let (of_first, _): (Vec<_>, Vec<_>) =
            wanted(&[0, 1]).into_iter().partition(|(_, leader)| leader.as_deref() == Some("c0"));
        assert!(!of_first.is_empty());
        // It keeps its session, but is frozen.
        world.freeze_coordinator(0, Duration::from_secs(8));
        for (name, _) in &of_first {
            let name = JobName::new(name.as_str()).unwrap();
            assert!(world.store.foreign(&name, "/leader/election/instance", None, false));
        }
        world.pass(Duration::from_secs(6)).await;
        let now = leaders(&world);
        for (name, _) in &of_first {
            assert_eq!(now[name].as_deref(), Some("c1"), "{name}: {now:?}");
        }
        world.pass(Duration::from_secs(30)).await;
        at_peace(&world);
    });
}

/// Holding and releasing runs are done by two coordinators: each is notified of the other, without a timer.
#[test]
fn runs_that_are_held_at_several_coordinators_start_at_once() {
    block_on(async {
        let jobs = vec![JobPlan {
            held: Some("run"),
            answer: (1, 1),
            period: 5,
            items: 4,
            fails: 0,
            ..job("short")
        }];
        let mut world = World::new(WorldPlan { coordinators: 2, workers: 2, jobs, ..plan(23) });
        world.calm = true;
        (0..2).for_each(|machine| world.machines[machine].first = Some(machine));
        world.start_all();
        world.pass(Duration::from_secs(22)).await;
        let before = world.log.lines().len();
        world.pass(Duration::from_secs(40)).await;
        let lines = world.log.lines().split_off(before);
        let starts: Vec<_> = lines.iter().filter(|line| line.what == What::Start).collect();
        let workers: BTreeSet<&str> = starts.iter().map(|line| &*line.worker).collect();
        assert_eq!((starts.len(), workers.len()), (4 * 8, 2));
        // How long the callback takes is up to the worker that is asked.
        for fire in starts.iter().map(|line| line.fire).collect::<BTreeSet<_>>() {
            let walls = || starts.iter().filter(|line| line.fire == fire).map(|line| line.wall);
            let apart = walls().max().unwrap_or(0) - walls().min().unwrap_or(0);
            assert!(apart < 200, "of {fire} the last item starts {apart} ms after the first");
        }
        at_peace(&world);
    });
}

fn instances(world: &World, job: &str) -> Vec<String> {
    let name = JobName::new(job).unwrap();
    let nodes = world.store.view(|view| view.job(&name)).ok().flatten().unwrap();
    nodes.instances.keys().map(ToString::to_string).collect()
}

/// The owner of each item.
fn owners(world: &World, job: &str) -> Vec<String> {
    let name = JobName::new(job).unwrap();
    let nodes = world.store.view(|view| view.job(&name)).ok().flatten().unwrap();
    let view = rosterd_domain::view::Job::decode(&name, &nodes).unwrap().unwrap();
    view.sharding.owned().map(|(_, owner)| owner.to_string()).collect()
}

/// The stores in use do not lose watches; if one did, the leader's periodic reconciliation would notice the change.
#[test]
fn what_no_watch_told_is_found_within_the_reconcile_interval() {
    block_on(async {
        let jobs = vec![JobPlan { name: "ant", ..job("short") }];
        let mut world = World::new(WorldPlan { coordinators: 2, workers: 2, jobs, ..plan(23) });
        world.calm = true;
        (0..2).for_each(|replica| world.start_coordinator(replica));
        world.start_worker(0);
        world.pass(Duration::from_secs(12)).await;
        let leads = leaders(&world)["ant"].clone().unwrap();
        let other = usize::from(leads == "c0");
        world.store_faults.lose_watches(&format!("{leads}#"), Duration::from_secs(6));
        world.machines[1].first = Some(other);
        world.start_worker(1);
        world.pass(Duration::from_secs(6)).await;
        assert!(world.coverage.take().get("fault: watch lost").is_some_and(|lost| *lost > 0));
        let both = |world: &World| owners(world, "ant").into_iter().collect::<BTreeSet<_>>().len() == 2;
        // The default is ten minutes.
        let latest = world.elapsed() + Duration::from_secs(601);
        while !both(&world) && world.elapsed() < latest {
            world.pass(Duration::from_secs(5)).await;
        }
        assert!(both(&world), "{:?} after {:?}", owners(&world, "ant"), world.elapsed());
        at_peace(&world);
    });
}

/// An `instances` node that is deleted is a command; one that ended with a session is not.
#[test]
fn a_deleted_instance_is_shut_down_for_that_job_alone() {
    block_on(async {
        let mut world = world(2, 2);
        world.start_all();
        world.pass(Duration::from_secs(12)).await;
        let before = instances(&world, "ant");
        assert_eq!(before.len(), 2);
        let (ant, path) = (JobName::new("ant").unwrap(), format!("/instances/{}", before[0]));
        assert!(world.store.foreign(&ant, &path, None, false));
        world.pass(Duration::from_secs(12)).await;
        assert_eq!(instances(&world, "ant"), before[1..]);
        assert_eq!(owners(&world, "ant"), vec![before[1].clone(); 3]);
        assert_eq!((instances(&world, "bee"), owners(&world, "bee").len()), (before, 3));
        assert_eq!(world.observer.lock().broken.len(), 0);
    });
}

/// Whichever coordinator is asked, and whichever leads the job.
#[test]
fn an_instance_can_be_shut_down_from_any_coordinator() {
    block_on(async {
        let mut world = world(2, 2);
        world.start_all();
        world.pass(Duration::from_secs(12)).await;
        let before = instances(&world, "ant");
        for (job, replica, place) in [("ant", 0, 0), ("bee", 1, 0), ("cat", 0, 1), ("dog", 1, 1)] {
            let handle = world.replicas[replica].running.as_ref().unwrap().handle.clone();
            let instance = InstanceId::new(before[place].as_str()).unwrap();
            let operation = Operation::Shutdown { job: JobName::new(job).unwrap(), instance };
            let asked = tokio::spawn(async move { handle.operate(operation).await });
            world.pass(Duration::from_secs(8)).await;
            assert!(asked.await.unwrap().is_ok(), "{job}");
            let left = before[1 - place].clone();
            assert_eq!((instances(&world, job), owners(&world, job)), (vec![left.clone()], vec![left; 3]));
        }
        assert_eq!(world.observer.lock().broken.len(), 0);
    });
}

/// Runs are stopped, and workers asked to leave, from any coordinator.
#[test]
fn runs_and_workers_of_another_host_hear_of_an_operator() {
    block_on(async {
        let jobs = vec![JobPlan { items: 2, ..job("long") }];
        let mut world = World::new(WorldPlan { coordinators: 2, workers: 2, jobs, ..plan(22) });
        world.calm = true;
        world.start_all();
        world.pass(Duration::from_secs(14)).await;
        let name = JobName::new("long").unwrap();
        for replica in 0..2 {
            let handle = world.replicas[replica].running.as_ref().unwrap().handle.clone();
            for item in 0..2 {
                let asked = {
                    let (handle, job) = (handle.clone(), name.clone());
                    tokio::spawn(
                        async move { handle.operate(Operation::Cancel { job, item: Item(item) }).await },
                    )
                };
                let before = cancelled(&world, item);
                world.pass(Duration::from_secs(2)).await;
                let answer = asked.await.unwrap();
                assert!(answer.is_ok(), "{answer:?}");
                assert_eq!(cancelled(&world, item), before + 1, "item {item} asked of c{replica}");
                world.pass(Duration::from_secs(9)).await;
            }
        }
        let all = instances(&world, "long");
        assert_eq!(all.len(), 2);
        for instance in &all {
            let handle = world.replicas[0].running.as_ref().unwrap().handle.clone();
            let instance = InstanceId::new(instance.as_str()).unwrap();
            let operation = Operation::Drain { instance, grace: Duration::from_secs(20) };
            let asked = tokio::spawn(async move { handle.operate(operation).await });
            world.pass(Duration::from_secs(30)).await;
            assert!(asked.await.unwrap().is_ok());
        }
        assert_eq!(world.coverage.take().get("worker ended: left"), Some(&2));
        let nodes = world.store.view(|view| view.job(&name)).ok().flatten().unwrap();
        assert!(nodes.commands.is_empty(), "{:?}", nodes.commands);
        at_peace(&world);
    });
}

fn cancelled(world: &World, item: u32) -> u64 {
    let name = JobName::new("long").unwrap();
    let snapshot = world.store.view(|view| view.snapshot(&name)).ok().flatten().unwrap();
    snapshot.records[&Item(item)].1.counters.cancelled
}
