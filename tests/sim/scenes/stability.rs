//! Static stability: elections, and coordinators that come or go, do not delay fires of items whose worker stays
//! attached.

use std::collections::BTreeMap;
use std::time::Duration;

use rosterd_domain::txn::Purpose;
use rosterd_domain::verify::{Line, What};
use rosterd_registry::memory::CommitFault;

use crate::faults::store::Hold;
use crate::seeds::play::{block_on, job, plan};
use crate::world::handlers::JobPlan;
use crate::world::{Later, World, WorldPlan};

/// A fire that is later than this was delayed.
const PROMPT: i64 = 150;
/// The same if nothing else is slow.
const LATE: i64 = 5;

/// Normal runs from `from` on that came late: by process and job, with how late.
fn late(world: &World, from: Duration, of: impl Fn(&str) -> bool) -> Vec<(String, String, i64)> {
    later_than(PROMPT, world, from, of)
}

fn later_than(
    prompt: i64,
    world: &World,
    from: Duration,
    of: impl Fn(&str) -> bool,
) -> Vec<(String, String, i64)> {
    let from = u64::try_from(from.as_nanos()).unwrap_or(0);
    let lateness = |line: &Line| {
        let normal = line.what == What::Start && line.source == "NORMAL_TRIGGER" && line.at >= from;
        normal.then(|| (line.worker.clone(), line.job.clone(), line.wall - line.fire))
    };
    let all = world.log.lines();
    let late = all.iter().filter_map(lateness).filter(|(process, _, late)| *late > prompt && of(process));
    late.collect()
}

/// Where each living worker process is attached.
fn hosts(world: &World) -> BTreeMap<String, String> {
    let observer = world.observer.lock();
    let hosted = |(process, worker): (&String, &rosterd_domain::id::WorkerId)| {
        Some((process.clone(), observer.shadow.attachments.get(worker)?.host.to_string()))
    };
    observer.who.iter().filter_map(hosted).collect()
}

fn leader(world: &World, of: &str) -> usize {
    let observer = world.observer.lock();
    let leads = observer
        .shadow
        .jobs
        .iter()
        .find(|(name, _)| name.as_str() == of)
        .and_then(|(_, job)| job.leader.clone());
    let name = leads.unwrap_or_default();
    world.replicas.iter().position(|replica| name.starts_with(&format!("{}#", replica.name))).unwrap_or(0)
}

#[test]
fn losing_the_leader_delays_no_fire() {
    block_on(async {
        let jobs = vec![job("short"), job("again")];
        let mut world = World::new(WorldPlan { coordinators: 3, workers: 6, jobs, ..plan(11) });
        world.start_all();
        for _ in 0..3 {
            world.pass(Duration::from_secs(10)).await;
            let (leads, since, before) = (leader(&world, "short"), world.elapsed(), hosts(&world));
            world.crash_coordinator(leads, false);
            world.pass(Duration::from_secs(15)).await;
            let gone = format!("c{leads}");
            let late = late(&world, since, |process| before.get(process).is_some_and(|host| *host != gone));
            assert!(late.is_empty(), "without {gone}: {late:?}");
        }
    });
}

#[test]
fn a_coordinator_that_comes_delays_no_fire() {
    block_on(async {
        let jobs = vec![job("short"), job("again")];
        let mut world = World::new(WorldPlan { coordinators: 3, workers: 6, jobs, ..plan(12) });
        world.start_coordinator(0);
        (0..6).for_each(|machine| world.start_worker(machine));
        for replica in 1..3 {
            world.pass(Duration::from_secs(8)).await;
            let since = world.elapsed();
            world.start_coordinator(replica);
            world.pass(Duration::from_secs(8)).await;
            let late = late(&world, since, |_| true);
            assert!(late.is_empty(), "{late:?}");
        }
    });
}

#[test]
fn workers_of_a_lost_coordinator_are_not_taken_for_dead() {
    block_on(async {
        let jobs = vec![job("short"), job("again")];
        let mut world = World::new(WorldPlan { coordinators: 3, workers: 6, jobs, ..plan(13) });
        world.start_all();
        for replica in [0, 1, 2, 0] {
            world.pass(Duration::from_secs(12)).await;
            world.crash_coordinator(replica, true);
        }
        world.pass(Duration::from_secs(20)).await;
        let coverage = world.coverage.take();
        assert_eq!(coverage.get("write: expire"), None, "{coverage:#?}");
    });
}

/// A take-over is a series of transactions for each job, and a fire of that job would have to wait for the one in
/// flight. None is started shortly before a fire: even if each is as slow as the time that is kept free, and the
/// leader's session ends just before a scheduled time, the fires are prompt.
#[test]
fn what_a_new_leader_has_to_write_stands_in_no_fires_way() {
    block_on(async {
        let short = |name| JobPlan { name, run: (1, 5), fails: 0, ..job("short") };
        let jobs = ["ant", "bee", "cat", "dog", "eel", "fox"].map(short).to_vec();
        let mut world =
            World::new(WorldPlan { coordinators: 3, workers: 6, jobs, slots: (30, 30), ..plan(14) });
        world.calm = true;
        world.start_all();
        let mut late = Vec::new();
        for before_due in [34, 30, 26, 22, 18, 14] {
            world.pass(Duration::from_secs(20)).await;
            let (leads, stay) = (leader(&world, "ant"), hosts(&world));
            let Some(session) = world.replicas[leads].running.as_ref().map(|running| running.session.clone())
            else {
                panic!("the leader is down");
            };
            world.replicas[leads].retired = true;
            world.crash_coordinator(leads, false);
            // Its workers have attached to others.
            world.pass(Duration::from_secs(3)).await;
            for purpose in [Purpose::Elect, Purpose::Assign, Purpose::Mirrors] {
                let (of, fault, takes) = (String::new(), CommitFault::None, Duration::from_millis(28));
                world.store_faults.hold(Hold { of, purpose, fault, takes, times: 100 });
            }
            let due = Duration::from_secs(world.elapsed().as_secs() + 2);
            world.pass(due - Duration::from_millis(before_due) - world.elapsed()).await;
            let since = world.elapsed();
            world.happen(Later::Expire(session));
            world.pass(Duration::from_secs(3)).await;
            let gone = format!("c{leads}");
            let stayed = |process: &str| stay.get(process).is_some_and(|host| *host != gone);
            late.extend(later_than(LATE, &world, since, stayed));
            world.store_faults.release_held();
            world.replicas[leads].retired = false;
            world.start_coordinator(leads);
        }
        assert!(late.is_empty(), "{late:?}");
    });
}
