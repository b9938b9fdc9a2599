//! Building blocks of scenes: a small world whose workers start at given coordinators, writes that wait, and queries of
//! the records as derived from the writes.

use std::time::Duration;

use rosterd_coordinator::handle::{Operation, Target};
use rosterd_domain::id::{CoordinatorId, InstanceId, Item, JobName, WorkerId};
use rosterd_domain::item::{Record, Running, Source};
use rosterd_domain::rank::rank;
use rosterd_domain::txn::Purpose;
use rosterd_registry::memory::CommitFault;

pub use crate::faults::operator_request::apply;
use crate::faults::store::Hold;
use crate::seeds::play::{block_on, busy, job, plan, settle_after};
pub use crate::seeds::play::{secs, starts};
use crate::world::handlers::JobPlan;
use crate::world::operator;
use crate::world::{World, WorldPlan};
use rosterd_domain::verify::Fault;

/// The violations that a scene found.
pub type Faults = Vec<Fault>;

pub fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A job with failover and this run time.
pub fn again(items: u32, run: u64, period: u64) -> JobPlan {
    JobPlan { items, run: (run, run), period, fails: 0, ..job("again") }
}

/// A job without failover.
pub fn short(items: u32, run: u64, period: u64) -> JobPlan {
    JobPlan { items, run: (run, run), period, fails: 0, ..job("short") }
}

pub fn name(job: &str) -> JobName {
    JobName::new(job).unwrap_or_else(|error| unreachable!("{error}"))
}

/// Two job names, in order, for which one of these coordinators ranks first.
pub fn led_by(first: &str, all: &[&str]) -> [&'static str; 2] {
    let ids: Vec<CoordinatorId> = all.iter().filter_map(|id| CoordinatorId::new(*id).ok()).collect();
    let is = |job: &&&str| ids.iter().any(|id| id.as_str() == first && rank(&name(job), id, &ids) == 0);
    let names = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"];
    let mut found = names.iter().filter(is).copied();
    match (found.next(), found.next()) {
        (Some(one), Some(other)) => [one, other],
        _ => unreachable!("{first} leads fewer than two of {names:?}"),
    }
}

/// A world: a number of coordinators, and a worker for each entry, which starts at the coordinator that the entry
/// names.
pub fn small_world(coordinators: usize, workers: &[usize], jobs: Vec<JobPlan>) -> World {
    let mut world = World::new(WorldPlan { coordinators, workers: workers.len(), jobs, ..plan(7) });
    world.calm = true;
    for (machine, first) in workers.iter().enumerate() {
        world.machines[machine].first = Some(*first);
    }
    world
}

/// The coordinators first, then the workers of `machines`.
pub async fn start(world: &mut World, machines: std::ops::Range<usize>) {
    for replica in 0..world.replicas.len() {
        world.start_coordinator(replica);
    }
    world.pass(millis(100)).await;
    machines.for_each(|machine| world.start_worker(machine));
}

/// Plays a scene to its end: faults stop, the world comes to rest, and the violations are returned.
pub fn scene<F>(script: F) -> Vec<Fault>
where
    F: AsyncFnOnce() -> World,
{
    block_on(async {
        let mut world = script().await;
        world.store_faults.release_held();
        settle_after(&mut world, secs(12)).await;
        world.judge();
        busy(&world);
        for (rule, text) in world.unsettled() {
            world.observer.lock().broke(rule, text);
        }
        world.observer.lock().broken.clone()
    })
}

/// Lets time pass until a condition holds; a scene that does not reach it proves nothing, which is an error.
pub async fn until(world: &mut World, what: &str, is: impl Fn(&World) -> bool) {
    let bound = world.elapsed() + secs(40);
    while !is(world) {
        if world.elapsed() > bound {
            return want(world, false, what);
        }
        world.pass(millis(10)).await;
    }
}

/// A condition that the scene itself checks.
pub fn want(world: &World, is: bool, what: &str) {
    if !is {
        world.observer.lock().broke("scene", format!("it is not so that {what}"));
    }
}

pub fn record(world: &World, job: &str, item: u32) -> Option<Record> {
    world.observer.lock().shadow.records.get(&(name(job), Item(item))).cloned()
}

pub fn running(world: &World, job: &str, item: u32) -> Option<Running> {
    record(world, job, item)?.running().cloned()
}

/// Whether items of a job run at all.
pub fn runs(world: &World, job: &str) -> bool {
    (0..8).any(|item| running(world, job, item).is_some())
}

/// The instance of a worker, as in a plan of the job.
pub fn instance(world: &World, job: &str, machine: usize) -> InstanceId {
    let instance = {
        let observer = world.observer.lock();
        let process = world.machines[machine].running.as_ref().map(|running| running.process.clone());
        let worker = process.and_then(|process| observer.who.get(&process).cloned());
        let shadow = observer.shadow.jobs.get(&name(job));
        let mut all = shadow.into_iter().flat_map(|shadow| shadow.sharding.instances());
        all.find(|instance| worker.as_ref().is_some_and(|worker| instance.is_of(worker))).cloned()
    };
    instance.unwrap_or_else(|| unreachable!("machine {machine} has an instance"))
}

/// The machine whose worker this is.
pub fn desk_of(world: &World, worker: &WorkerId) -> Option<usize> {
    let who = world.observer.lock().who.clone();
    let at = |running: &crate::world::RunningWorker| who.get(&running.process) == Some(worker);
    world.machines.iter().position(|machine| machine.running.as_ref().is_some_and(at))
}

/// The machine whose worker owns an item.
pub fn owner(world: &World, job: &str, item: u32) -> Option<usize> {
    let worker = {
        let observer = world.observer.lock();
        observer.shadow.jobs.get(&name(job))?.sharding.owner(Item(item))?.worker()?
    };
    desk_of(world, &worker)
}

/// An item of the worker at a machine.
pub fn item_of(world: &World, job: &str, machine: usize) -> Option<u32> {
    (0..8).find(|item| owner(world, job, *item) == Some(machine))
}

/// The host of a worker.
pub fn host(world: &World, machine: usize) -> Option<String> {
    let process = world.machines[machine].running.as_ref()?.process.clone();
    let observer = world.observer.lock();
    let worker = observer.who.get(&process)?;
    Some(observer.shadow.attachments.get(worker)?.host.to_string())
}

/// The replica of a job's leader.
pub fn leader(world: &World, job: &str) -> Option<usize> {
    let leads = world.observer.lock().shadow.jobs.get(&name(job))?.leader.clone()?;
    world.replicas.iter().position(|replica| leads.starts_with(&format!("{}#", replica.name)))
}

/// Waits until everything works: the job has a leader, and each item has an owner among this many workers.
pub async fn at_work(world: &mut World, job: &str, workers: usize) {
    until(world, "the job is at work", |world| {
        let observer = world.observer.lock();
        observer.shadow.jobs.get(&name(job)).is_some_and(|shadow| {
            shadow.leader.is_some()
                && shadow.sharding.instances().len() == workers
                && shadow.sharding.items() == shadow.items
        })
    })
    .await;
}

/// Two hosts with a worker each, and both items of a triggered job in flight.
pub async fn both_run(plan: JobPlan) -> World {
    let mut world = small_world(2, &[0, 1], vec![plan]);
    start(&mut world, 0..2).await;
    at_work(&mut world, "again", 2).await;
    ask(&world, 1, trigger("again"));
    until(&mut world, "both run", |world| starts(world, "again", "MANUAL") == 2).await;
    world
}

/// The machine of the worker that runs a failover.
pub fn taker(world: &World, job: &str) -> Option<usize> {
    let taken = (0..8).filter_map(|item| running(world, job, item));
    taken.filter(|run| run.source == Source::Failover).find_map(|run| desk_of(world, &run.worker))
}

/// Lets time pass until this long before the next scheduled time of a period.
pub async fn before_due(world: &mut World, period: u64, by: Duration) {
    let (period, by) = (secs(period).as_millis(), by.as_millis());
    let now = world.elapsed().as_millis();
    let wait = (2 * period - by - now % period) % period;
    world.pass(millis(u64::try_from(wait).unwrap_or(0))).await;
}

/// The next writes of this purpose take this long.
pub fn slow(world: &World, of: &str, purpose: Purpose, takes: Duration, times: u32) {
    let hold = Hold { of: of.into(), purpose, fault: CommitFault::None, takes, times };
    world.store_faults.hold(hold);
}

/// The next writes of this purpose are lost, or their replies are.
pub fn lose(world: &World, purpose: Purpose, fault: CommitFault, times: u32) {
    world.store_faults.hold(Hold { of: String::new(), purpose, fault, takes: millis(2), times });
}

/// Asks the coordinator at a replica.
pub fn ask(world: &World, replica: usize, operation: Operation) {
    let Some(running) = &world.replicas[replica].running else {
        return want(world, false, "the coordinator that is asked is up");
    };
    operator::ask_of(world, world.replicas[replica].url.clone(), running.handle.clone(), operation);
}

pub fn disable(job: &str, target: Target) -> Operation {
    Operation::Enable { job: name(job), target, enabled: false, cancel: false }
}

pub fn enable(job: &str, target: Target) -> Operation {
    Operation::Enable { job: name(job), target, enabled: true, cancel: false }
}

pub fn trigger(job: &str) -> Operation {
    Operation::Trigger { job: name(job), items: Vec::new(), after_current: true }
}

/// The stream of the worker at a machine breaks.
pub fn cut(world: &World, machine: usize) {
    if let Some(running) = &world.machines[machine].running {
        world.net.cut(&running.process);
    }
}

/// The worker at a machine dies, and none takes its place.
pub fn lose_worker(world: &mut World, machine: usize) {
    world.machines[machine].retired = true;
    world.crash_worker(machine, false);
}

/// The coordinator at a replica dies, and none takes its place.
pub fn lose_coordinator(world: &mut World, replica: usize) {
    world.replicas[replica].retired = true;
    world.crash_coordinator(replica, false);
}

/// How often something was covered.
pub fn covered(world: &World, what: &str) -> u64 {
    world.coverage.take().get(what).copied().unwrap_or(0)
}
