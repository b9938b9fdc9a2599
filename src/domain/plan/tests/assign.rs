//! The leader's plan, on arbitrary memberships.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{any, proptest};
use proptest::sample::select;

use super::world::{give, instance, job, noon, seen};
use crate::check::check_assign;
use crate::id::{Item, ServerAddress, Version};
use crate::item::Missed;
use crate::plan::assign::moved;
use crate::plan::{Assigned, Candidates, Why, assign};
use crate::sharding::{Floor, Gap, Sharding};
use crate::strategy::{self, Assignment};
use crate::time::Time;
use crate::txn::{Guard, Txn, Write};
use crate::view::Job;

proptest! {
    #[test]
    fn an_assignment_is_right_and_assigning_again_changes_nothing(
        named in select(strategy::names().collect::<Vec<_>>()),
        items in 1..40u32,
        owners in vec(0..6usize, 0..40),
        seats in vec(any::<[bool; 5]>(), 6),
        necessary in option::of(0..9u64),
    ) {
        let mut job = job(Some("0 * * * * ?"), items);
        job.rules.strategy = strategy::by_name(named).unwrap();
        give(&mut job, &owners);
        job.necessary = necessary.map(Version);
        let mut candidates = Candidates { now: noon(), ..Candidates::default() };
        for (n, [present, foreign, leaving, disabled, server]) in seats.into_iter().enumerate() {
            if present {
                let mut seen = seen();
                seen.node = seen.node.filter(|_| !foreign || !leaving);
                job.instances.insert(instance(n), seen);
            } else if foreign {
                candidates.absent.insert(instance(n));
            }
            if leaving {
                candidates.leaving.insert(instance(n));
            }
            if disabled {
                job.sharding.disabled_instances.insert(instance(n));
            }
            let address = ServerAddress::new(instance(n).address()).unwrap();
            job.servers.insert(address, !(server && leaving));
        }
        let Some(assigned) = assign(&job, &candidates) else { return Ok(()) };
        assert_eq!(check_assign(&job, &candidates, &assigned), []);
        for (what, spoilt) in spoilt(&assigned, &job) {
            assert!(!check_assign(&job, &candidates, &spoilt).is_empty(), "it may be {what}: {assigned:?}");
        }
        let before = job.sharding.items();
        job.sharding = assigned.sharding;
        job.necessary = None;
        assert!(assign(&job, &candidates).is_none());
        let returned = (1..items).contains(&before);
        assert_eq!(job.sharding.surplus_until(Item(items)), returned.then_some(noon()));
    }
}

/// Copies of the plan, each with one thing changed.
fn spoilt(assigned: &Assigned, job: &Job) -> Vec<(String, Assigned)> {
    let mut all = Vec::new();
    let mut put = |what: String, change: &dyn Fn(&mut Assigned)| {
        let mut changed = assigned.clone();
        change(&mut changed);
        all.push((what, changed));
    };
    for (n, guard) in assigned.txn.guards.iter().enumerate() {
        put(format!("without {guard:?}"), &|a| drop(a.txn.guards.remove(n)));
    }
    for n in 0..assigned.txn.writes.len() {
        put(format!("without write {n}"), &|a| drop(a.txn.writes.remove(n)));
    }
    for n in 0..assigned.moved.len() {
        put(format!("without move {n}"), &|a| drop(a.moved.remove(n)));
    }
    let (items, owners) = (job.rules.items, assigned.sharding.instances());
    // All items to the first owner, which is at least two more than another has.
    if items >= 2 && owners.len() >= 2 {
        let lists = owners.iter().enumerate().map(|(n, owner)| {
            let all = (0..items).map(Item).collect::<Vec<_>>();
            (owner.clone(), if n == 0 { all } else { Vec::new() })
        });
        let uneven = Assignment::try_from(lists.collect::<BTreeMap<_, _>>()).unwrap();
        put("uneven".into(), &|a| {
            a.sharding = a.sharding.with_assignment(&uneven, items);
            a.moved = moved(&job.sharding, &a.sharding);
            for write in &mut a.txn.writes {
                if let Write::Assignment { data, .. } = write {
                    *data = a.sharding.encode().into();
                }
            }
        });
    }
    all
}

#[test]
fn with_nobody_to_own_an_item_the_flag_is_kept() {
    let mut job = job(Some("0 * * * * ?"), 3);
    job.necessary = Some(Version(1));
    assert!(assign(&job, &Candidates::default()).is_none());
}

#[test]
fn a_flag_over_an_assignment_that_is_right_goes_and_the_generation_stays() {
    let mut job = job(Some("0 * * * * ?"), 3);
    job.instances = [(instance(0), seen()), (instance(1), seen())].into();
    job.necessary = Some(Version(7));
    let candidates = Candidates::default();
    // The first plan assigns the items; it invalidates whatever relies on the old generation.
    let given = assign(&job, &candidates).unwrap();
    let writes = |txn: &Txn| txn.writes.iter().any(|write| matches!(write, Write::Assignment { .. }));
    let checks = |txn: &Txn| txn.guards.contains(&Guard::Generation(job.name.clone(), job.generation));
    assert_eq!((given.moved.len(), writes(&given.txn), checks(&given.txn)), (3, true, false));
    let clears = Write::ClearNecessary(job.name.clone(), Version(7));
    assert!(given.txn.writes.contains(&clears));
    // The plan of the next leader moves nothing.
    job.sharding = given.sharding;
    let same = assign(&job, &candidates).unwrap();
    assert_eq!((same.moved, same.why), (Vec::new(), Why::Requested));
    assert_eq!(same.txn.writes, [clears]);
    let guards = [
        Guard::Incarnation(job.name.clone(), job.incarnation.clone()),
        Guard::Epoch(job.name.clone(), job.epoch),
        Guard::Generation(job.name.clone(), job.generation),
    ];
    assert_eq!(same.txn.guards, guards);
}

/// The leader assigns items. Its plan does not touch what must not be run, and since when.
#[test]
fn an_assignment_that_changes_a_right_is_found() {
    type Spoil = fn(&mut Sharding);
    let mut job = job(Some("0 * * * * ?"), 3);
    job.instances = [(instance(0), seen()), (instance(1), seen())].into();
    let candidates = Candidates { now: noon(), ..Candidates::default() };
    let right = assign(&job, &candidates).unwrap();
    assert_eq!(check_assign(&job, &candidates, &right), []);
    const GAP: Gap = Gap { until: Time(0), reason: Missed::Paused };
    const FLOOR: Floor = Floor { at: Time(0), before: None };
    let ways: [Spoil; 9] = [
        |sharding| sharding.disabled_items.extend([Item(0)]),
        |sharding| sharding.disabled_instances.extend([instance(7)]),
        |sharding| sharding.withdrawals += 1,
        |sharding| sharding.gap = Some(GAP),
        |sharding| sharding.gaps.extend([(Item(0), GAP)]),
        |sharding| sharding.made = Some(noon()),
        |sharding| sharding.floor = Some(FLOOR),
        |sharding| sharding.floors.push(FLOOR),
        |sharding| *sharding = sharding.raised(Item(1), noon()),
    ];
    for (way, spoil) in ways.into_iter().enumerate() {
        let mut spoilt = right.clone();
        spoil(&mut spoilt.sharding);
        let data = spoilt.sharding.encode().into();
        spoilt.txn.writes = vec![Write::Assignment { job: job.name.clone(), expect: job.generation, data }];
        let found = check_assign(&job, &candidates, &spoilt);
        let found: Vec<&str> = found.iter().map(|violation| violation.what.as_str()).collect();
        assert_eq!(found, ["a withdrawn right comes back"], "way {way}");
    }
}

/// Each change of owner, in the words that people read.
#[test]
fn a_plan_says_of_each_item_why_it_moves() {
    let told = |job: &Job, candidates: &Candidates| {
        let assigned = assign(job, candidates).unwrap();
        let causes: Vec<String> =
            assigned.causes.iter().map(|(item, cause)| format!("{item}: {cause}")).collect();
        assert_eq!(assigned.causes.len(), assigned.moved.len());
        (assigned.why.to_string(), causes)
    };
    let mut job = job(Some("0 * * * * ?"), 4);
    let nobody = Candidates { now: noon(), ..Candidates::default() };
    let here = |job: &mut Job, all: &[usize]| {
        job.instances = all.iter().map(|n| (instance(*n), seen())).collect();
    };
    here(&mut job, &[0, 1]);
    let all_first = (0..4).map(|item| format!("{item}: first assignment")).collect::<Vec<_>>();
    assert_eq!(told(&job, &nobody), ("4 items instead of 0".into(), all_first));

    give(&mut job, &[0, 0, 1, 1]);
    here(&mut job, &[0]);
    let gone = vec!["2: 10.0.0.1@-@b has gone".into(), "3: 10.0.0.1@-@b has gone".into()];
    assert_eq!(told(&job, &nobody), ("10.0.0.1@-@b has gone".into(), gone));

    here(&mut job, &[0, 1]);
    let leaves = Candidates { leaving: [instance(1)].into(), ..nobody.clone() };
    assert_eq!(told(&job, &leaves).1[0], "2: 10.0.0.1@-@b is leaving");
    job.servers.insert(ServerAddress::new("10.0.0.1").unwrap(), false);
    assert_eq!(told(&job, &nobody).1[0], "2: 10.0.0.1@-@b is on a disabled machine");
    job.servers.clear();
    job.sharding.disabled_instances.insert(instance(1));
    assert_eq!(told(&job, &nobody).1[0], "2: 10.0.0.1@-@b is disabled");
    job.sharding.disabled_instances.clear();

    here(&mut job, &[0, 1, 2]);
    let shared = "1: shared anew by AVG_ALLOCATION: 10.0.0.2@-@c has come";
    assert!(told(&job, &nobody).1.contains(&shared.to_owned()), "{:?}", told(&job, &nobody));

    here(&mut job, &[0, 1]);
    job.rules.items = 3;
    assert!(told(&job, &nobody).1.contains(&"3: 3 items instead of 4".to_owned()));
}
