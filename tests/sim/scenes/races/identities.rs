//! Workers that come back, under which credential and with which address; and a store that goes back in time.

use rosterd_coordinator::handle::Target;
use rosterd_domain::id::{Item, ServerAddress};
use rosterd_registry::memory::MemoryStore;
use rosterd_session::code::Code;

use super::fixture::*;
use super::races;
use crate::world::handlers::JobPlan;
use crate::world::scripted_worker::{ScriptedWorker, Shown};
use crate::world::{World, namespace};

races! {
    /// A process with the resume key of a worker and a credential of its own cannot come back as that worker.
    a_key_is_worth_nothing_under_another_credential: thief, [ANY_CREDENTIAL_RESUMES => "scene"];
    /// A credential is narrowed, and its worker comes back: it no longer has anything of the lost job.
    a_worker_keeps_no_job_that_its_credential_lost: narrowed, [LOST_JOBS_STAY => "scene"];
    /// A machine is disabled, and its worker comes back with another address: it is assigned nothing.
    a_disabled_machine_is_not_left_by_another_name: renamed, [ADDRESS_AS_SAID => "scene"];
    /// The store is restored from a copy while workers are alive: no token is issued again, and every item goes on.
    a_store_that_is_put_back_gives_no_token_again: put_back, [TOKENS_GO_BACK => "tokens_are_new"];
    /// The same if its disk was lost: its workers create the job again.
    a_store_that_was_lost_gives_no_token_again: lost, [TOKENS_GO_BACK => "tokens_are_new"];
}

const MINE: Shown = Shown { principal: "fleet", jobs: &[], address: "10.7.7.7" };

/// How many items of the job the scripted worker owns.
fn owned(world: &World, by_hand: &ScriptedWorker) -> usize {
    let observer = world.observer.lock();
    let Some(shadow) = observer.shadow.jobs.get(&name("short")) else { return 0 };
    let owners = (0..shadow.items).filter_map(|item| shadow.sharding.owner(Item(item))?.worker());
    owners.filter(|owner| Some(owner) == by_hand.worker()).count()
}

/// Lets time pass while the scripted worker stays alive.
async fn pass(world: &mut World, by_hand: &mut ScriptedWorker, tenths: u32) {
    for _ in 0..tenths {
        by_hand.hears();
        world.pass(millis(100)).await;
    }
    by_hand.hears();
}

/// A job that does not fire; a scripted worker owns some of its items.
async fn at_work_by_hand() -> (World, ScriptedWorker) {
    let quiet = JobPlan { hours: vec![12], ..short(4, 100, 60) };
    let mut world = small_world(1, &[0], vec![quiet]);
    start(&mut world, 0..1).await;
    at_work(&mut world, "short", 1).await;
    let mut by_hand = ScriptedWorker::new();
    by_hand.comes(&world, 0, &MINE);
    pass(&mut world, &mut by_hand, 5).await;
    by_hand.registers(name("short"));
    pass(&mut world, &mut by_hand, 30).await;
    want(&world, owned(&world, &by_hand) == 2, "the worker by hand has its share");
    (world, by_hand)
}

fn thief() -> Faults {
    scene(async || {
        let (mut world, mut by_hand) = at_work_by_hand().await;
        by_hand.comes(&world, 0, &Shown { principal: "thief", ..MINE });
        pass(&mut world, &mut by_hand, 10).await;
        want(&world, by_hand.refused == Some(Code::ResumeRefused), "the thief is refused");
        by_hand.comes(&world, 0, &MINE);
        pass(&mut world, &mut by_hand, 10).await;
        want(&world, by_hand.refused.is_none(), "the worker itself comes back");
        world
    })
}

fn narrowed() -> Faults {
    scene(async || {
        let (mut world, mut by_hand) = at_work_by_hand().await;
        by_hand.comes(&world, 0, &Shown { jobs: &["other"], ..MINE });
        pass(&mut world, &mut by_hand, 30).await;
        want(&world, by_hand.refused.is_none(), "it comes back");
        want(&world, owned(&world, &by_hand) == 0, "its items went to others");
        world
    })
}

fn renamed() -> Faults {
    scene(async || {
        let (mut world, mut by_hand) = at_work_by_hand().await;
        let machine = ServerAddress::new(MINE.address).unwrap_or_else(|error| unreachable!("{error}"));
        ask(&world, 0, disable("short", Target::Machine(machine)));
        pass(&mut world, &mut by_hand, 30).await;
        want(&world, owned(&world, &by_hand) == 0, "a disabled machine has nothing");
        by_hand.comes(&world, 0, &Shown { address: "10.8.8.8", ..MINE });
        pass(&mut world, &mut by_hand, 5).await;
        by_hand.registers(name("short"));
        pass(&mut world, &mut by_hand, 30).await;
        want(&world, by_hand.refused.is_none(), "it comes back");
        want(&world, owned(&world, &by_hand) == 0, "it has nothing under another name either");
        world
    })
}

/// The coordinator dies; when another one starts, the store is as it was then, and each item goes on.
async fn goes_back(world: &mut World, remembered: crate::world::Remembered) {
    world.crash_coordinator(0, false);
    world.put_back(remembered);
    until(world, "a coordinator is there", |world| world.replicas[0].running.is_some()).await;
    // Workers come back, and the old runs in the records are settled.
    world.pass(secs(15)).await;
    let before: Vec<_> = (0..4).map(|item| record(world, "short", item).map(|record| record.token)).collect();
    world.pass(secs(10)).await;
    for (item, before) in (0..).zip(before) {
        let now = record(world, "short", item);
        let runs = now.as_ref().is_some_and(|now| now.counters.succeeded >= 4 && Some(now.token) > before);
        want(world, runs, &format!("item {item} runs on: {now:?}"));
    }
}

fn firing() -> World {
    small_world(1, &[0, 0], vec![short(4, 200, 1)])
}

fn put_back() -> Faults {
    scene(async || {
        let mut world = firing();
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        world.pass(millis(3300)).await;
        let remembered = world.remembers();
        world.pass(secs(20)).await;
        goes_back(&mut world, remembered).await;
        world
    })
}

fn lost() -> Faults {
    scene(async || {
        let mut world = firing();
        let nothing = world.remembers_nothing(&MemoryStore::new(&namespace()));
        start(&mut world, 0..2).await;
        at_work(&mut world, "short", 2).await;
        world.pass(secs(20)).await;
        goes_back(&mut world, nothing).await;
        world
    })
}
