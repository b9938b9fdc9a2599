//! What scenes are made of: a small world whose workers start where they are told, writes that wait, and questions to
//! the records as the writes say they are.

use std::time::Duration;

use rosterd_coordinator::handle::{Operation, Target};
use rosterd_domain::id::{CoordinatorId, InstanceId, Item, JobName, WorkerId};
use rosterd_domain::item::{Record, Running, Source};
use rosterd_domain::rank::rank;
use rosterd_domain::txn::Purpose;
use rosterd_registry::memory::CommitFault;

use crate::faults::Hold;
use crate::log::JobPlan;
use crate::operator;
use crate::play::{block_on, busy, job, plan, settle_after};
pub use crate::play::{secs, starts};
pub use crate::wish::apply;
use crate::world::{Plan, World};
use rosterd_domain::verify::Fault;

/// What a scene found broken.
pub type Faults = Vec<Fault>;

pub fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A job with failover whose runs take so long.
pub fn again(items: u32, run: u64, period: u64) -> JobPlan {
    JobPlan { items, run: (run, run), period, fails: 0, ..job("again") }
}

/// A job without.
pub fn short(items: u32, run: u64, period: u64) -> JobPlan {
    JobPlan { items, run: (run, run), period, fails: 0, ..job("short") }
}

pub fn name(job: &str) -> JobName {
    JobName::new(job).unwrap_or_else(|error| unreachable!("{error}"))
}

/// Two names of jobs, in their order, that one of these coordinators is the first to lead.
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

/// A world: so many coordinators, a worker for each entry, which starts at the coordinator that it names.
pub fn stage(coordinators: usize, workers: &[usize], jobs: Vec<JobPlan>) -> World {
    let mut world = World::new(Plan { coordinators, workers: workers.len(), jobs, ..plan(7) });
    world.calm = true;
    for (desk, first) in workers.iter().enumerate() {
        world.desks[desk].first = Some(*first);
    }
    world
}

/// The coordinators first, then the workers of `desks`.
pub async fn start(world: &mut World, desks: std::ops::Range<usize>) {
    for seat in 0..world.seats.len() {
        world.start_coordinator(seat);
    }
    world.pass(millis(100)).await;
    desks.for_each(|desk| world.start_worker(desk));
}

/// Plays a scene to its end: faults stop, the world comes to rest, and what was broken on the way is told.
pub fn scene<F>(script: F) -> Vec<Fault>
where
    F: AsyncFnOnce() -> World,
{
    block_on(async {
        let mut world = script().await;
        world.chaos.let_go();
        settle_after(&mut world, secs(12)).await;
        world.judge();
        busy(&world);
        for (rule, text) in world.unsettled() {
            world.watch.lock().broke(rule, text);
        }
        world.watch.lock().broken.clone()
    })
}

/// The world passes until something is so; a scene that does not come to it proves nothing, which is an error.
pub async fn until(world: &mut World, what: &str, is: impl Fn(&World) -> bool) {
    let bound = world.elapsed() + secs(40);
    while !is(world) {
        if world.elapsed() > bound {
            return want(world, false, what);
        }
        world.pass(millis(10)).await;
    }
}

/// A thing that the scene itself is about.
pub fn want(world: &World, is: bool, what: &str) {
    if !is {
        world.watch.lock().broke("scene", format!("it is not so that {what}"));
    }
}

pub fn record(world: &World, job: &str, item: u32) -> Option<Record> {
    world.watch.lock().shadow.records.get(&(name(job), Item(item))).cloned()
}

pub fn running(world: &World, job: &str, item: u32) -> Option<Running> {
    record(world, job, item)?.running().cloned()
}

/// Whether items of a job run at all.
pub fn runs(world: &World, job: &str) -> bool {
    (0..8).any(|item| running(world, job, item).is_some())
}

/// The instance of a worker, as a plan of the job knows it.
pub fn instance(world: &World, job: &str, desk: usize) -> InstanceId {
    let instance = {
        let watch = world.watch.lock();
        let process = world.desks[desk].running.as_ref().map(|running| running.process.clone());
        let worker = process.and_then(|process| watch.who.get(&process).cloned());
        let shadow = watch.shadow.jobs.get(&name(job));
        let mut all = shadow.into_iter().flat_map(|shadow| shadow.sharding.instances());
        all.find(|instance| worker.as_ref().is_some_and(|worker| instance.is_of(worker))).cloned()
    };
    instance.unwrap_or_else(|| unreachable!("desk {desk} has an instance"))
}

/// The desk whose worker this is.
pub fn desk_of(world: &World, worker: &WorkerId) -> Option<usize> {
    let who = world.watch.lock().who.clone();
    let at = |running: &crate::world::RunningWorker| who.get(&running.process) == Some(worker);
    world.desks.iter().position(|desk| desk.running.as_ref().is_some_and(at))
}

/// The desk whose worker owns an item.
pub fn owner(world: &World, job: &str, item: u32) -> Option<usize> {
    let worker = {
        let watch = world.watch.lock();
        watch.shadow.jobs.get(&name(job))?.sharding.owner(Item(item))?.worker()?
    };
    desk_of(world, &worker)
}

/// An item of the worker at a desk.
pub fn item_of(world: &World, job: &str, desk: usize) -> Option<u32> {
    (0..8).find(|item| owner(world, job, *item) == Some(desk))
}

/// Where a worker is attached.
pub fn host(world: &World, desk: usize) -> Option<String> {
    let process = world.desks[desk].running.as_ref()?.process.clone();
    let watch = world.watch.lock();
    let worker = watch.who.get(&process)?;
    Some(watch.shadow.attachments.get(worker)?.host.to_string())
}

/// The seat of a job's leader.
pub fn leader(world: &World, job: &str) -> Option<usize> {
    let leads = world.watch.lock().shadow.jobs.get(&name(job))?.leader.clone()?;
    world.seats.iter().position(|seat| leads.starts_with(&format!("{}#", seat.name)))
}

/// All is at work: the job is led, and each item has an owner among these many workers.
pub async fn at_work(world: &mut World, job: &str, workers: usize) {
    until(world, "the job is at work", |world| {
        let watch = world.watch.lock();
        watch.shadow.jobs.get(&name(job)).is_some_and(|shadow| {
            shadow.leader.is_some()
                && shadow.sharding.instances().len() == workers
                && shadow.sharding.items() == shadow.items
        })
    })
    .await;
}

/// Two hosts with a worker each, and both items of a job under way that somebody has fired.
pub async fn both_run(plan: JobPlan) -> World {
    let mut world = stage(2, &[0, 1], vec![plan]);
    start(&mut world, 0..2).await;
    at_work(&mut world, "again", 2).await;
    ask(&world, 1, trigger("again"));
    until(&mut world, "both run", |world| starts(world, "again", "MANUAL") == 2).await;
    world
}

/// The desk of who runs what it took over.
pub fn taker(world: &World, job: &str) -> Option<usize> {
    let taken = (0..8).filter_map(|item| running(world, job, item));
    taken.filter(|run| run.source == Source::Failover).find_map(|run| desk_of(world, &run.worker))
}

/// Passes to a moment so much before the next scheduled time of a period.
pub async fn before_due(world: &mut World, period: u64, by: Duration) {
    let (period, by) = (secs(period).as_millis(), by.as_millis());
    let now = world.elapsed().as_millis();
    let wait = (2 * period - by - now % period) % period;
    world.pass(millis(u64::try_from(wait).unwrap_or(0))).await;
}

/// The next writes of this purpose take so long.
pub fn slow(world: &World, of: &str, purpose: Purpose, takes: Duration, times: u32) {
    let hold = Hold { of: of.into(), purpose, fault: CommitFault::None, takes, times };
    world.chaos.hold(hold);
}

/// The next writes of this purpose are lost, or their replies are.
pub fn lose(world: &World, purpose: Purpose, fault: CommitFault, times: u32) {
    world.chaos.hold(Hold { of: String::new(), purpose, fault, takes: millis(2), times });
}

/// Asks the coordinator at a seat.
pub fn ask(world: &World, seat: usize, operation: Operation) {
    let Some(running) = &world.seats[seat].running else { return want(world, false, "who is asked is up") };
    operator::ask_of(world, world.seats[seat].url.clone(), running.handle.clone(), operation);
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

/// The stream of the worker at a desk breaks.
pub fn cut(world: &World, desk: usize) {
    if let Some(running) = &world.desks[desk].running {
        world.net.cut(&running.process);
    }
}

/// The worker at a desk dies, and none takes its place.
pub fn lose_worker(world: &mut World, desk: usize) {
    world.desks[desk].retired = true;
    world.crash_worker(desk, false);
}

/// The coordinator at a seat dies, and none takes its place.
pub fn lose_coordinator(world: &mut World, seat: usize) {
    world.seats[seat].retired = true;
    world.crash_coordinator(seat, false);
}

/// How often something was covered.
pub fn covered(world: &World, what: &str) -> u64 {
    world.coverage.take().get(what).copied().unwrap_or(0)
}
