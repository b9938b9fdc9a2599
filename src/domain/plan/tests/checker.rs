//! The checker finds errors: correct plans are changed, each in one way.

use std::sync::Arc;

use super::world::{World, instance, job, noon, worker};
use crate::check::check;
use crate::id::{Item, JobName, Token, Version};
use crate::item::{Crashed, Missed, Outcome, Record, Running, Source, State};
use crate::plan::{Class, Entry, FireResult, Plan, Report, Reported, Waiting, host};
use crate::sharding::Gap;
use crate::time::Time;
use crate::txn::{Guard, Write};

/// One item fires, one is busy and merged, one ends; the worker of a fourth is dead.
fn world() -> World {
    let mut rules = job(Some("0 * * * * ?"), 4);
    (rules.rules.misfire, rules.rules.failover) = (true, true);
    let mut world = World::new(rules, &[0, 0, 0, 1], noon());
    world.now = Time(noon().0 + 60_000);
    world.settle();
    let fired = world.records[&Item(0)].clone();
    world.now = Time(noon().0 + 120_000);
    let idle = Record { token: fired.1.token, ..Record::new(Token(101), Time(noon().0 + 60_000)) };
    world.records.insert(Item(0), (Version(9), idle.into()));
    let report = Report {
        token: Token(101),
        worker: worker(0),
        ended: Reported::Done(Outcome::Succeeded),
        offset: None,
    };
    world.reports.insert(Item(2), report);
    world.dead.insert(worker(1));
    world.hosted.values_mut().for_each(|hosted| hosted.free = 3);
    world
}

fn found(spoil: impl FnOnce(&mut Plan)) -> Vec<String> {
    let world = world();
    let facts = world.facts();
    let mut plan = host(&world.job, &world.records, &facts);
    spoil(&mut plan);
    check(&world.job, &world.records, &facts, &plan).iter().map(ToString::to_string).collect()
}

fn drop_guards(plan: &mut Plan, which: fn(&Guard) -> bool) {
    let before = plan.txn.guards.len();
    plan.txn.guards.retain(|guard| !which(guard));
    assert!(plan.txn.guards.len() < before, "there was no such guard");
}

fn change(plan: &mut Plan, item: u32, with: fn(&mut Record)) {
    for write in &mut plan.txn.writes {
        if let Write::Record { item: of, record, .. } = write
            && of.0 == item
        {
            with(Arc::make_mut(record));
            plan.records.get_mut(of).unwrap().1 = record.clone();
        }
    }
}

#[test]
fn a_plan_that_is_right_passes() {
    assert_eq!(found(|_| {}), Vec::<String>::new());
}

#[test]
fn every_way_to_spoil_a_plan_is_found() {
    type Spoil = fn(&mut Plan);
    let ways: [(&str, Spoil); 19] = [
        ("no incarnation", |p| drop_guards(p, |g| matches!(g, Guard::Incarnation(..)))),
        ("no generation", |p| drop_guards(p, |g| matches!(g, Guard::Generation(..)))),
        ("no attachment", |p| drop_guards(p, |g| matches!(g, Guard::Attachment(..)))),
        ("no death", |p| drop_guards(p, |g| matches!(g, Guard::NoAttachment(..)))),
        ("a guard too many", |p| p.txn.guards.push(Guard::NoAttachment(worker(7)))),
        ("a token too high", |p| change(p, 0, |record| record.token = record.token.next())),
        ("a start not counted", |p| change(p, 0, |record| record.counters.fired -= 1)),
        ("a scheduled time twice", |p| change(p, 1, |record| record.last_fire = noon())),
        ("a mark lost", |p| change(p, 1, |record| record.misfire = None)),
        ("a record twice", |p| {
            let again = p.txn.writes.iter().find(|write| matches!(write, Write::Record { .. })).cloned();
            p.txn.writes.extend(again);
        }),
        ("another version", |p| {
            for write in &mut p.txn.writes {
                if let Write::Record { expect, .. } = write {
                    *expect = Some(Version(77));
                }
            }
        }),
        ("an item forgotten", |p| p.txn.writes.retain(|w| !matches!(w, Write::Record { item: Item(1), .. }))),
        ("no running", |p| p.txn.writes.retain(|w| !matches!(w, Write::Running { item: Item(0), .. }))),
        ("running kept", |p| p.txn.writes.retain(|w| !matches!(w, Write::Running { item: Item(3), .. }))),
        ("no misfire", |p| p.txn.writes.retain(|w| !matches!(w, Write::Misfire { .. }))),
        ("not put up", |p| p.txn.writes.retain(|w| !matches!(w, Write::FailoverItem { .. }))),
        ("a foreign write", |p| p.txn.writes.push(Write::RaiseNecessary(p_name(p)))),
        ("the calendar lost", |p| p.next = None),
        ("a scheduled time reported otherwise", |p| {
            for entry in &mut p.entries {
                if let Entry::NotRun { result, .. } = entry {
                    *result = FireResult::Missed(Missed::TooLate);
                }
            }
        }),
    ];
    for (way, spoil) in ways {
        assert!(!found(spoil).is_empty(), "{way} passes");
    }
}

fn p_name(plan: &Plan) -> crate::id::JobName {
    let name = plan.txn.writes.iter().find_map(|write| match write {
        Write::Record { job, .. } => Some(job.clone()),
        _ => None,
    });
    name.unwrap()
}

/// The right to a run is checked independently of what its record says.
#[test]
fn a_run_without_a_right_is_found() {
    type Way = (&'static str, fn(&mut Running));
    let ways: [Way; 4] = [
        ("it was not triggered", |run| run.source = Source::Manual),
        ("it is not due yet", |run| run.fire.0 += 1),
        ("it is too old", |run| run.fire.0 -= 10_001),
        ("another owns the item", |run| run.instance = instance(1)),
    ];
    for (way, spoil) in ways {
        let found = found(|plan| {
            for entry in &mut plan.entries {
                if let Entry::Started { item: Item(0), run, .. } = entry {
                    spoil(run);
                }
            }
        });
        assert!(found.iter().any(|what| what.contains("there is no right to run")), "{way}: {found:?}");
    }
}

/// Scheduled times before a run started wait behind it; later ones found the item busy.
#[test]
fn a_scheduled_time_during_a_run_waits_only_if_it_was_first() {
    let due = Time(noon().0 + 60_000);
    let waits = |later: i64| {
        let mut world = World::new(job(Some("0 * * * * ?"), 1), &[0], noon());
        world.now = Time(due.0 + 1_000);
        let run = Running {
            fire: noon(),
            source: Source::Manual,
            instance: instance(0),
            worker: worker(0),
            since: Time(due.0 + later),
            trigger: None,
            held: false,
            cancelled: false,
            deaths: 0,
        };
        world.record_mut(Item(0)).state = State::Running(run);
        let nothing = Plan { next: Some(Time(due.0 + 10_001)), ..Plan::default() };
        check(&world.job, &world.records, &world.facts(), &nothing)
    };
    assert_eq!(waits(1), []);
    for later in [0, -1] {
        let found: Vec<String> = waits(later).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["item 0: 2026-11-21T12:01:00Z is not settled"]);
    }
}

/// Failover was switched on, and the host did not know yet when a run crashed: nobody ran it again.
#[test]
fn only_the_rights_keep_others_from_running_a_crashed_run_again() {
    let mut world = World::new(job(Some("0 * * * * ?"), 1), &[0], noon());
    world.now = Time(noon().0 + 60_000);
    world.settle();
    let ends_guarded = |world: &World| {
        let plan = world.plan();
        let ended = matches!(plan.entries[..], [Entry::Ended { requeued: false, .. }]);
        let generation = Guard::Generation(world.job.name.clone(), world.job.generation);
        (ended, plan.txn.guards.contains(&generation))
    };
    for (ended, guarded) in [
        (Reported::Aborted, true),
        (Reported::NotStarted, true),
        (Reported::HandedBack, true),
        (Reported::HandedBackByHost(Version(7)), true),
        (Reported::Forgotten(Version(7)), true),
        (Reported::Done(Outcome::Succeeded), false),
    ] {
        let report = Report { token: Token(101), worker: worker(0), ended, offset: None };
        world.reports.insert(Item(0), report);
        assert_eq!(ends_guarded(&world), (true, guarded), "{ended:?}");
    }
    world.reports.clear();
    world.dead.insert(worker(0));
    assert_eq!(ends_guarded(&world), (true, true));
}

/// No slot is free for it: once it is too old to be run late that must be recorded, long before the next scheduled
/// time.
#[test]
fn a_plan_that_looks_again_after_what_waits_is_too_old_is_found() {
    let mut world = World::new(job(Some("0 0 * * * ?"), 1), &[0], Time(noon().0 - 1));
    world.now = Time(noon().0 + 5000);
    world.hosted.values_mut().for_each(|hosted| hosted.free = 0);
    let facts = world.facts();
    let mut plan = host(&world.job, &world.records, &facts);
    let wrong = |plan: &Plan| {
        let wrong = check(&world.job, &world.records, &facts, plan);
        wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    assert_eq!((plan.next, wrong(&plan)), (Some(Time(noon().0 + 10_001)), String::new()));
    plan.next = Some(Time(noon().0 + 10_002));
    assert!(wrong(&plan).contains("the calendar looks again at"), "{}", wrong(&plan));
}

/// A run of it is in user code and in no record: scheduled times that come meanwhile are accounted for at once.
#[test]
fn a_plan_that_leaves_a_scheduled_time_during_a_run_without_a_record_is_found() {
    let mut world = World::new(job(Some("0 0 * * * ?"), 1), &[0], Time(noon().0 - 1));
    world.job.rules.monitor = false;
    world.in_user_code.insert(Item(0));
    world.now = Time(noon().0 + 5000);
    let facts = world.facts();
    let plan = host(&world.job, &world.records, &facts);
    assert!(check(&world.job, &world.records, &facts, &plan).is_empty());
    let idle = Plan { next: Some(noon()), ..Plan::default() };
    let wrong: Vec<String> =
        check(&world.job, &world.records, &facts, &idle).iter().map(ToString::to_string).collect();
    assert!(wrong.iter().any(|wrong| wrong.contains("is not settled")), "{wrong:?}");
}

/// Two items that are due.
fn two_due() -> World {
    let mut world = World::new(job(Some("0 0 * * * ?"), 2), &[0, 0], Time(noon().0 - 1));
    world.now = noon();
    world
}

/// The errors found for two runs of a host, if only this many have a slot.
fn in_turn(free: u32, waits_elsewhere: Option<Class>, started: &[u32], waiting: &[u32]) -> String {
    in_turn_of(two_due(), free, waits_elsewhere, started, waiting)
}

fn in_turn_of(
    mut world: World,
    free: u32,
    waits_elsewhere: Option<Class>,
    started: &[u32],
    waiting: &[u32],
) -> String {
    let line = |class, item, job: &str| Waiting {
        class,
        fire: noon(),
        job: JobName::new(job).unwrap(),
        item: Item(item),
    };
    for hosted in world.hosted.values_mut() {
        hosted.free = free;
        hosted.others = waits_elsewhere.map(|class| line(class, 0, "zebra")).into_iter().collect();
    }
    // Everything that it may start, with some of it removed again.
    let mut plan = {
        let mut room = world.clone();
        room.hosted.values_mut().for_each(|hosted| (hosted.free, hosted.others) = (2, Vec::new()));
        host(&room.job, &room.records, &room.facts())
    };
    let begins = |item: Item| started.contains(&item.0);
    plan.entries.retain(|entry| matches!(entry, Entry::Started { item, .. } if begins(*item)));
    plan.records.retain(|item, _| begins(*item));
    plan.txn.writes.retain(|write| match write {
        Write::Record { item, .. } | Write::Running { item, .. } => begins(*item),
        _ => true,
    });
    let queue: Vec<Waiting> = waiting.iter().map(|item| line(Class::Fire, *item, "count")).collect();
    plan.waiting = [(instance(0), queue)].into();
    let facts = world.facts();
    let wrong = check(&world.job, &world.records, &facts, &plan);
    wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn slots_are_given_in_turn() {
    let right = |free, elsewhere, started: &[u32], waiting: &[u32]| {
        let wrong = in_turn(free, elsewhere, started, waiting);
        assert!(!wrong.contains("slot") && !wrong.contains("it precedes"), "{wrong}");
    };
    right(2, None, &[0, 1], &[]);
    right(1, None, &[0], &[1]);
    // Of another job, whose name sorts later.
    right(2, Some(Class::Fire), &[0, 1], &[]);
    right(2, Some(Class::Misfire), &[0], &[1]);
    let wrong = |free, elsewhere, started: &[u32], waiting: &[u32], how: &str| {
        let wrong = in_turn(free, elsewhere, started, waiting);
        assert!(wrong.contains(how), "{how:?} is not in: {wrong}");
    };
    wrong(1, None, &[0, 1], &[], "2 runs start on the 1 slots");
    wrong(1, None, &[1], &[0], "it precedes");
    wrong(2, Some(Class::Misfire), &[0, 1], &[], "it takes a slot on 10.0.0.0@-@a out of turn");
    wrong(1, Some(Class::Misfire), &[0], &[1], "it takes a slot on 10.0.0.0@-@a out of turn");
    // Between the two: after the misfire of one, before the scheduled time of the other.
    let mut marked = two_due();
    marked.record_mut(Item(0)).misfire = Some(Time(noon().0 - 3_600_000));
    let between = in_turn_of(marked, 2, Some(Class::Misfire), &[0, 1], &[]);
    assert!(between.contains("item 1: it takes a slot on 10.0.0.0@-@a out of turn"), "{between}");
    wrong(2, None, &[0], &[1], "it waits while 10.0.0.0@-@a has a free slot");
    wrong(2, Some(Class::Fire), &[0], &[1], "it waits while 10.0.0.0@-@a has a free slot");
}

/// The errors found after item 0 has crashed, with this many free slots and these waiting items, here and of other
/// jobs.
fn crashed(free: u32, waiting: &[(Class, u32)], elsewhere: Option<Class>) -> String {
    let mut world = World::new(job(None, 2), &[0, 0], noon());
    world.job.rules.failover = true;
    let crashed = Crashed { fire: noon(), instance: instance(1), since: noon(), held: false, deaths: 0 };
    let record = Record { state: State::Crashed(crashed), ..Record::new(Token(107), noon()) };
    world.records.insert(Item(0), (Version(9), record.into()));
    // The other crashed runs crashed earlier.
    let line = |class, item, job: &str| Waiting {
        class,
        fire: if (class, item, job) == (Class::Failover, 0, "count") { noon() } else { Time(noon().0 - 1) },
        job: JobName::new(job).unwrap(),
        item: Item(item),
    };
    for hosted in world.hosted.values_mut() {
        hosted.free = free;
        hosted.others = elsewhere.map(|class| line(class, 0, "zebra")).into_iter().collect();
    }
    let queue = waiting.iter().map(|(class, item)| line(*class, *item, "count")).collect();
    let plan = Plan { waiting: [(instance(0), queue)].into(), ..Plan::default() };
    let wrong = check(&world.job, &world.records, &world.facts(), &plan);
    wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn what_has_crashed_waits_in_its_turn_and_for_nothing_else() {
    let own = (Class::Failover, 0);
    let right = |free, waiting: &[(Class, u32)], elsewhere| {
        let wrong = crashed(free, waiting, elsewhere);
        assert!(!wrong.contains("its crashed run"), "{wrong}");
    };
    right(0, &[own], None);
    right(1, &[own], Some(Class::Failover));
    right(1, &[(Class::Failover, 1), own], None);
    let wrong = |free, waiting: &[(Class, u32)], elsewhere, how: &str| {
        let wrong = crashed(free, waiting, elsewhere);
        assert!(wrong.contains(how), "{how:?} is not in: {wrong}");
    };
    wrong(0, &[], None, "its crashed run is not offered for failover");
    wrong(0, &[(Class::Fire, 0)], None, "its crashed run is not offered for failover");
    wrong(0, &[(Class::Failover, 1)], None, "its crashed run is not offered for failover");
    wrong(1, &[own], None, "has a slot for its crashed run");
    wrong(1, &[own, (Class::Fire, 1)], None, "has a slot for its crashed run");
    wrong(1, &[own], Some(Class::Misfire), "has a slot for its crashed run");
}

/// The results of scheduled times in one world, and what the checker says about them in another.
fn elsewhere(of: &World, other: &World) -> (Vec<FireResult>, String) {
    let plan = host(&of.job, &of.records, &of.facts());
    assert!(check(&of.job, &of.records, &of.facts(), &plan).is_empty());
    let results = plan.entries.iter().filter_map(|entry| match entry {
        Entry::NotRun { result, .. } => Some(*result),
        _ => None,
    });
    let wrong = check(&other.job, &other.records, &other.facts(), &plan);
    (results.collect(), wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

/// Each result is right in one state alone.
#[test]
fn the_result_of_a_scheduled_time_is_right_in_its_own_state_alone() {
    let minutes = |n: i64| Time(noon().0 + n * 60_000);
    let idle = || {
        let mut world = World::new(job(Some("0 * * * * ?"), 1), &[0], Time(noon().0 - 1));
        world.now = Time(minutes(1).0 + 1000);
        world
    };
    let with = |change: &dyn Fn(&mut World)| {
        let mut world = idle();
        change(&mut world);
        world
    };
    let busy = |world: &mut World| {
        let run = Running {
            fire: Time(noon().0 - 60_000),
            source: Source::NormalTrigger,
            instance: instance(0),
            worker: worker(0),
            since: Time(noon().0 - 60_000),
            trigger: None,
            held: false,
            cancelled: false,
            deaths: 0,
        };
        let (_, record) = &world.records[&Item(0)];
        let record = Record { state: State::Running(run), ..(**record).clone() };
        world.records.insert(Item(0), (Version(9), record.into()));
    };
    let misfires = |world: &mut World| world.job.rules.misfire = true;
    let full = |world: &mut World| world.hosted.values_mut().for_each(|hosted| hosted.free = 0);
    let patient = |world: &mut World| world.job.rules.catch_up = std::time::Duration::from_secs(3600);
    let gap =
        |reason| move |world: &mut World| world.job.sharding.gap = Some(Gap { until: minutes(2), reason });
    let missed = |reason| FireResult::Missed(reason);
    let wrong = |of: World, result: FireResult, other: World| {
        let (found, wrong) = elsewhere(&of, &other);
        assert!(found.contains(&result), "{result} is not in {found:?}");
        assert!(wrong.contains(&format!("is {result}")), "{result}: {wrong}");
    };
    let both = |one: &dyn Fn(&mut World), other: &dyn Fn(&mut World)| {
        with(&|world| {
            one(world);
            other(world);
        })
    };
    wrong(with(&busy), FireResult::Skipped, both(&busy, &misfires));
    wrong(both(&busy, &misfires), FireResult::Misfired, with(&busy));
    wrong(with(&gap(Missed::Paused)), missed(Missed::Paused), with(&gap(Missed::Disabled)));
    wrong(with(&gap(Missed::Paused)), missed(Missed::Paused), idle());
    // It waits for a slot until the next is due. The other has a slot, or gets one with this plan.
    wrong(both(&full, &patient), missed(Missed::NoSlot), with(&patient));
    let late = |world: &mut World| {
        misfires(world);
        full(world);
    };
    wrong(both(&late, &patient), FireResult::Misfired, both(&misfires, &patient));
    wrong(both(&late, &patient), FireResult::Misfired, both(&full, &patient));
    let unready = |world: &mut World| {
        full(world);
        world.hosted.values_mut().for_each(|hosted| hosted.ready = false);
    };
    wrong(both(&full, &patient), missed(Missed::NoSlot), both(&unready, &patient));
    // Too old, for a reason.
    let down = |world: &mut World| world.up_since = world.now;
    wrong(with(&down), missed(Missed::Down), idle());
    wrong(with(&down), missed(Missed::Down), both(&down, &patient));
    let gained = |world: &mut World| world.gained.extend([(Item(0), world.now)]);
    wrong(with(&gained), missed(Missed::NoWorker), idle());
    wrong(with(&gained), missed(Missed::NoWorker), both(&gained, &patient));
    wrong(idle(), missed(Missed::TooLate), with(&patient));
    // Exact to the millisecond.
    let just_patient = |world: &mut World| world.job.rules.catch_up = world.now.since(noon());
    wrong(idle(), missed(Missed::TooLate), with(&just_patient));
    wrong(with(&down), missed(Missed::Down), with(&|world| world.up_since = noon()));
    wrong(with(&gained), missed(Missed::NoWorker), with(&|world| world.gained.extend([(Item(0), noon())])));
    // If something that came too late is run, and nothing else.
    let once = |world: &mut World| world.job.rules.run_late = true;
    wrong(with(&once), FireResult::Misfired, both(&once, &just_patient));
    wrong(with(&once), FireResult::Misfired, idle());
}

/// A run that starts at a scheduled time keeps the item busy at that time, but a scheduled time a millisecond before
/// waits for it.
#[test]
fn a_scheduled_time_at_the_start_of_a_run_finds_the_item_busy() {
    let due = Time(noon().0 + 60_000);
    let begun = |since: Time| {
        let mut world = World::new(job(Some("0 * * * * ?"), 1), &[0], noon());
        (world.now, world.job.rules.catch_up) = (Time(due.0 + 1000), std::time::Duration::from_secs(3600));
        let run = Running {
            fire: noon(),
            source: Source::Manual,
            instance: instance(0),
            worker: worker(0),
            since,
            trigger: None,
            held: false,
            cancelled: false,
            deaths: 0,
        };
        world.record_mut(Item(0)).state = State::Running(run);
        world
    };
    let (result, wrong) = elsewhere(&begun(due), &begun(Time(due.0 + 1)));
    assert_eq!(result, [FireResult::Skipped]);
    assert!(wrong.contains("may still wait behind the run"), "{wrong}");
}

/// A last fire that is too far ahead for one clock may not be for another, which allows it a millisecond more.
#[test]
fn a_last_fire_that_is_not_too_far_ahead_stays() {
    let mut world = World::new(job(Some("0 * * * * ?"), 1), &[0], Time(noon().0 + 2001));
    world.now = noon();
    let plan = host(&world.job, &world.records, &world.facts());
    let mut facts = world.facts();
    assert!(check(&world.job, &world.records, &facts, &plan).is_empty());
    facts.furthest_last_fire.0 += 1;
    assert!(!check(&world.job, &world.records, &facts, &plan).is_empty());
}
