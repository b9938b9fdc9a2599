//! What a plan's transaction depends on, and what the death of a worker does not affect.

use std::collections::{BTreeMap, BTreeSet};

use super::world::{World, instance, job, noon, worker};
use crate::id::{Generation, Item, Token, TriggerId, Version};
use crate::item::{Crashed, Ended, Outcome, Record, Source, State};
use crate::plan::{Entry, Report, Reported};
use crate::snapshot::{Announced, Stage, TriggerNode};
use crate::time::Time;
use crate::txn::Guard;

/// Three idle items at a scheduled time: two of one worker, one of another.
fn world() -> World {
    let mut world = World::new(job(Some("0 * * * * ?"), 3), &[0, 0, 1], noon());
    world.now = Time(noon().0 + 60_000);
    world
}

#[test]
fn what_several_runs_rest_on_is_checked_once() {
    let world = world();
    let plan = world.plan();
    let (job, incarnation) = (world.job.name.clone(), world.job.incarnation.clone());
    let attached = |n| Guard::Attachment(worker(n), Version(4));
    let job_is = [Guard::Incarnation(job.clone(), incarnation), Guard::Generation(job, Generation(5))];
    assert_eq!(plan.entries.len(), 3);
    assert_eq!(plan.txn.guards, job_is.into_iter().chain([attached(0), attached(1)]).collect::<Vec<_>>());
}

/// A store accepts only a limited number of records at once.
#[test]
fn runs_that_leave_much_end_with_several_plans() {
    let mut world = world();
    world.commit(&world.plan());
    world.now = Time(world.now.0 + 1000);
    let mut leaves = |item: u32, bytes: usize| {
        let (_, record) = &world.records[&Item(item)];
        let worker = record.running().unwrap().worker.clone();
        let ended = Reported::Done(Outcome::Succeeded);
        let report = Report { token: record.token, worker, ended, offset: Some(vec![7; bytes].into()) };
        world.reports.insert(Item(item), report);
    };
    leaves(0, 64 * 1024);
    leaves(1, 64 * 1024);
    leaves(2, 1);
    let first = world.plan();
    assert_eq!((first.entries.len(), first.more), (2, true));
    world.commit(&first);
    let second = world.plan();
    assert_eq!((second.entries.len(), second.more), (1, false));
}

/// A clock may be two seconds ahead, and not a millisecond more.
#[test]
fn a_last_fire_in_the_future_is_set_back_where_no_clock_can_be_right() {
    let set_back = |ahead: i64, asked_for: bool| {
        let mut world = world();
        if asked_for {
            let trigger = TriggerNode { id: TriggerId::new("t").unwrap(), at: world.now };
            world.job.triggers.insert(Item(0), trigger);
        }
        let last = Time(world.now.0 + ahead);
        world.records.insert(Item(0), (Version(3), Record::new(Token(100), last).into()));
        let plan = world.plan();
        plan.records.get(&Item(0)).map(|(_, record)| record.last_fire == world.now)
    };
    assert_eq!([2000, 2001].map(|ahead| set_back(ahead, false)), [None, Some(true)]);
    assert_eq!([2000, 2001].map(|ahead| set_back(ahead, true)), [Some(false), Some(true)]);
}

#[test]
fn a_plan_that_changes_nothing_rests_on_nothing() {
    let mut world = world();
    world.now = noon();
    assert_eq!(world.plan().txn.guards, []);
}

#[test]
fn a_run_that_ended_is_not_run_again_when_its_worker_dies() {
    let mut world = world();
    (world.now, world.job.rules.failover) = (noon(), true);
    world.hosted.remove(&instance(0));
    world.dead = BTreeSet::from([worker(0)]);
    for outcome in [Outcome::Succeeded, Outcome::Failed, Outcome::Crashed] {
        world.record_mut(Item(0)).last = Some(Ended {
            token: Token(100),
            fire: noon(),
            source: Source::NormalTrigger,
            instance: instance(0),
            outcome,
            at: noon(),
            reported: true,
        });
        assert_eq!(world.plan().entries, [], "{outcome}");
    }
}

/// A worker had said goodbye to one host and attached to another, whose run the first host read of and handed back for
/// it.
#[test]
fn what_is_said_for_a_worker_that_left_rests_on_its_being_attached_here() {
    let mut world = world();
    world.settle();
    let record = world.records[&Item(0)].1.clone();
    for (ended, rests) in [(Reported::HandedBackByHost(Version(9)), true), (Reported::HandedBack, false)] {
        let report = Report { token: record.token, worker: worker(0), ended, offset: None };
        world.reports = BTreeMap::from([(Item(0), report)]);
        let plan = world.plan();
        assert!(matches!(plan.entries[..], [Entry::Ended { outcome: Outcome::Cancelled, .. }]), "{ended:?}");
        assert_eq!(plan.txn.guards.contains(&Guard::Attachment(worker(0), Version(9))), rests, "{ended:?}");
    }
}

/// Of the instances with a slot: the one with the most beyond its own misfires; of equals the first.
#[test]
fn a_crashed_run_goes_where_most_room_is() {
    let taker = |free: [u32; 2], marked: bool| {
        let mut world = World::new(job(None, 3), &[0, 1, 2], noon());
        (world.job.rules.failover, world.job.rules.misfire) = (true, true);
        world.hosted.remove(&instance(2));
        for (n, free) in free.into_iter().enumerate() {
            world.hosted.get_mut(&instance(n)).unwrap().free = free;
        }
        let crashed = Crashed { fire: noon(), instance: instance(2), since: noon(), held: false, deaths: 0 };
        let record = Record { state: State::Crashed(crashed), ..Record::new(Token(107), noon()) };
        world.records.insert(Item(2), (Version(9), record.into()));
        let record = Record { misfire: marked.then(noon), ..Record::new(Token(107), noon()) };
        world.records.insert(Item(0), (Version(9), record.into()));
        let plan = world.plan();
        let took = plan.entries.iter().find_map(|entry| match entry {
            Entry::Started { item: Item(2), run, .. } => Some(run.instance.clone()),
            _ => None,
        });
        [0, 1].into_iter().find(|n| took == Some(instance(*n)))
    };
    assert_eq!(taker([1, 2], false), Some(1));
    assert_eq!(taker([2, 2], false), Some(0));
    assert_eq!(taker([2, 2], true), Some(1));
    assert_eq!(taker([3, 1], true), Some(0));
    assert_eq!(taker([2, 1], true), Some(0), "as much room, and the first");
    assert_eq!(taker([1, 0], true), Some(0), "a slot all the same");
    assert_eq!(taker([0, 0], false), None);
}

/// A run of it that no record holds goes on, from when the job did not use monitorExecution.
#[test]
fn a_crashed_run_waits_for_the_user_code_of_its_item() {
    let mut world = World::new(job(None, 1), &[0], noon());
    world.job.rules.failover = true;
    let crashed = Crashed { fire: noon(), instance: instance(2), since: noon(), held: false, deaths: 0 };
    let record = Record { state: State::Crashed(crashed), ..Record::new(Token(107), noon()) };
    world.records.insert(Item(0), (Version(9), record.into()));
    world.in_user_code.insert(Item(0));
    let plan = world.plan();
    assert!(plan.entries.is_empty() && plan.waiting.is_empty(), "{plan:?}");
    world.in_user_code.clear();
    assert!(matches!(world.plan().entries[..], [Entry::Started { .. }]));
}

/// It crashed before its fire was announced, or after.
#[test]
fn a_crashed_run_is_held_again_until_its_fire_is_answered() {
    let held = |before: bool, announced: Option<(i64, bool)>| {
        let mut world = World::new(job(None, 1), &[0], noon());
        (world.job.rules.failover, world.job.rules.guarantee_started) = (true, true);
        let crashed = Crashed { fire: noon(), instance: instance(1), since: noon(), held: before, deaths: 0 };
        let record = Record::new(Token(106), noon());
        world
            .records
            .insert(Item(0), (Version(9), Record { state: State::Crashed(crashed), ..record }.into()));
        world.job.announced.extend(announced.map(|(later, answered)| {
            (Stage::Started, Announced { fire: Time(noon().0 + later), answered, ..Announced::default() })
        }));
        let plan = world.plan();
        let [Entry::Started { run, .. }] = &plan.entries[..] else { unreachable!("{:?}", plan.entries) };
        run.held
    };
    assert!(held(true, None) && held(true, Some((0, false))) && held(true, Some((-1, true))));
    assert!(!held(true, Some((0, true))), "the others of that fire have begun");
    assert!(!held(true, Some((1, false))), "nobody is asked of an earlier fire");
    assert!(
        !held(false, None) && !held(false, Some((-1, true))),
        "it had begun, or its fire is not announced"
    );
}
