//! What is started ahead of time: the plain case, and each condition that excludes an item from it.

use super::world::{World, instance, job, noon, worker};
use crate::id::{Item, JobName, TriggerId};
use crate::item::{Crashed, Missed, Outcome, Source, State};
use crate::plan::{Class, Entry, Hosted, Report, Reported, Waiting, ahead};
use crate::sharding::Gap;
use crate::snapshot::TriggerNode;
use crate::time::Time;

/// Two idle items, each with an owner that has two free slots, a moment before the next scheduled time.
fn world() -> World {
    let due = Time(noon().0 + 60_000);
    let mut world = World::new(job(Some("0 * * * * ?"), 2), &[0, 1], noon());
    world.now = due;
    world.hosted.values_mut().for_each(|hosted| hosted.free = 2);
    world
}

/// The items that are started ahead, after this change.
fn started(change: impl FnOnce(&mut World)) -> Vec<u32> {
    let mut world = world();
    change(&mut world);
    let plan = ahead(&world.job, &world.records, &world.facts());
    let started = |entry: &Entry| match entry {
        Entry::Started { item, run, .. } => {
            assert_eq!((run.fire, run.since, run.source), (world.now, world.now, Source::NormalTrigger));
            item.0
        }
        entry => panic!("{entry:?}"),
    };
    plan.entries.iter().map(started).collect()
}

fn state(world: &mut World, item: u32, state: State) {
    world.record_mut(Item(item)).state = state;
}

#[test]
fn idle_items_whose_owners_have_plenty_of_slots_are_started_ahead() {
    assert_eq!(started(|_| ()), [0, 1]);
    assert_eq!(started(|world| world.most_writes = 1), [0], "what does not fit is left");
    assert_eq!(started(|world| world.job.rules.items = 1), [0], "item 1 is surplus");
}

#[test]
fn nothing_is_started_ahead_that_may_not_start_at_all() {
    assert_eq!(started(|world| world.job.paused = true), [0; 0]);
    assert_eq!(started(|world| world.job.rules.disabled = true), [0; 0]);
    assert_eq!(started(|world| world.job.rules.monitor = false), [0; 0]);
    assert_eq!(started(|world| world.job.rules.guarantee_started = true), [0; 0]);
    assert_eq!(started(|world| world.no_starts = true), [0; 0]);
}

#[test]
fn an_item_with_anything_else_to_settle_is_not_started_ahead() {
    let before = noon();
    assert_eq!(started(|world| world.record_mut(Item(0)).misfire = Some(before)), [1]);
    assert_eq!(started(|world| world.record_mut(Item(0)).last_fire.0 -= 60_000), [1]);
    assert_eq!(started(|world| world.record_mut(Item(0)).last_fire.0 += 60_000), [1]);
    let crashed = |fire| Crashed { fire, instance: instance(5), since: fire, held: false, deaths: 0 };
    assert_eq!(started(|world| state(world, 0, State::Crashed(crashed(before)))), [1]);
    let disabled = |world: &mut World| world.job.sharding.disabled_items.extend([Item(0)]);
    assert_eq!(started(disabled), [1]);
    let trigger = TriggerNode { id: TriggerId::new("by-hand").unwrap(), at: before };
    assert_eq!(started(|world| world.job.triggers.extend([(Item(0), trigger)])), [1]);
    let gap = |until| Gap { until, reason: Missed::Paused };
    assert_eq!(started(|world| world.job.sharding.gaps.extend([(Item(0), gap(world.now))])), [1]);
    assert_eq!(started(|world| world.job.sharding.gaps.extend([(Item(0), gap(before))])), [0, 1]);
    assert_eq!(started(|world| world.in_user_code.extend([Item(0)])), [1]);
    let late = |world: &mut World| {
        let token = world.records[&Item(0)].1.token;
        let ended = Reported::Done(Outcome::Succeeded);
        world.reports.extend([(Item(0), Report { token, worker: worker(0), ended, offset: None })]);
    };
    assert_eq!(started(late), [1]);
}

#[test]
fn an_owner_that_may_lack_a_slot_is_given_nothing_ahead() {
    let first = |change: fn(&mut Hosted)| started(|world| change(world.hosted.values_mut().next().unwrap()));
    assert_eq!(first(|hosted| hosted.free = 1), [1], "one for the run, and one for what may come up");
    assert_eq!(first(|hosted| hosted.ready = false), [1]);
    let other = |hosted: &mut Hosted| {
        let (job, item) = (JobName::new("other").unwrap(), Item(0));
        hosted.others.push(Waiting { class: Class::Fire, fire: noon(), job, item });
    };
    assert_eq!(first(other), [1]);
    assert_eq!(started(|world| world.dead.extend([worker(0)])), [1]);
    assert_eq!(started(|world| drop(world.hosted.pop_first())), [1], "its host starts it");
}
