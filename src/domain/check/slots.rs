//! Slots are never exceeded, runs of other jobs that have waited longer keep their turn, and nothing waits while a slot
//! is free that no other is entitled to.

use super::Case;
use crate::id::{InstanceId, Item};
use crate::item::{Running, Source};
use crate::plan::{Class, Entry, Hosted, Waiting};

pub(super) fn check(case: &mut Case<'_>) {
    let (facts, plan) = (case.facts, case.plan);
    for (instance, hosted) in facts.hosted {
        let started: Vec<Waiting> =
            plan.entries.iter().filter_map(|entry| key(case, instance, entry)).collect();
        in_turn(case, instance, hosted, &started);
    }
    for instance in plan.waiting.keys() {
        let able = facts.hosted.get(instance).is_some_and(|h| h.ready) && case.job.is_enabled(instance);
        case.expect(able, None, || format!("{instance} takes no runs, and yet something waits for it"));
    }
    if !plan.more && !facts.no_starts {
        crashed_wait_for_nothing(case);
    }
}

/// The place in the queue of a run that is started on the instance.
fn key(case: &Case<'_>, on: &InstanceId, entry: &Entry) -> Option<Waiting> {
    let Entry::Started { item, run: Running { fire, source, instance, .. }, .. } = entry else { return None };
    let class = match source {
        Source::Misfire => Class::Misfire,
        Source::Failover => Class::Failover,
        Source::NormalTrigger | Source::Manual => Class::Fire,
    };
    (instance == on).then(|| Waiting { class, fire: *fire, job: case.job.name.clone(), item: *item })
}

fn in_turn(case: &mut Case<'_>, instance: &InstanceId, hosted: &Hosted, started: &[Waiting]) {
    let free = hosted.free as usize;
    case.expect(started.len() <= free, None, || {
        format!("{} runs start on the {free} slots of {instance}", started.len())
    });
    let waiting = case.plan.waiting.get(instance).map_or(&[][..], |waiting| waiting);
    // A scheduled time that became a misfire for lack of a slot has a new place in the order, and those served before
    // keep their slots.
    let not_run = |item: Item| case.entries(item).any(|entry| matches!(entry, Entry::NotRun { .. }));
    let mut found = Vec::new();
    for run in started {
        let ahead = started.iter().filter(|other| *other < run).count();
        let others = hosted.others.iter().filter(|other| *other < run).count();
        if ahead + others >= free && !not_run(run.item) && !started.iter().any(|run| not_run(run.item)) {
            found.push((run.item, format!("it takes a slot on {instance} out of turn")));
        }
        if let Some(passed) = waiting.iter().find(|other| *other < run && !not_run(other.item)) {
            found.push((run.item, format!("it precedes {passed:?}")));
        }
    }
    for (item, what) in found {
        case.expect(false, item, || what);
    }
    for one in waiting {
        let others = hosted.others.iter().filter(|other| *other < one).count();
        let taken = started.len() + others >= free;
        case.expect(taken || case.plan.more, one.item, || {
            format!("it waits while {instance} has a free slot")
        });
    }
}

/// Every crashed run that failover applies to waits for an instance, if any may take it and the item is not in user code.
fn crashed_wait_for_nothing(case: &mut Case<'_>) {
    let able = |(instance, hosted): (&InstanceId, &Hosted)| {
        hosted.ready && case.job.is_enabled(instance) && !case.facts.dead.contains(&hosted.worker)
    };
    if !case.facts.hosted.iter().any(able) {
        return;
    }
    for item in case.items() {
        let crashed = case.after(item).is_some_and(|record| record.crashed().is_some());
        if !crashed || !case.fails_over(item) {
            continue;
        }
        let waits =
            case.plan.waiting.values().flatten().any(|w| w.item == item && w.class == Class::Failover);
        if case.in_user_code(item) {
            case.expect(!waits, item, || "its crashed run waits for a slot while it is in user code".into());
            continue;
        }
        case.expect(waits, item, || "its crashed run is not offered for failover".into());
        let Some(fire) = case.after(item).and_then(|record| record.crashed()).map(|crashed| crashed.fire)
        else {
            continue;
        };
        let own = Waiting { class: Class::Failover, fire, job: case.job.name.clone(), item };
        let with_room = case.facts.hosted.iter().filter(|one| able(*one)).find(|(instance, hosted)| {
            let started =
                case.plan.entries.iter().filter(|entry| key(case, instance, entry).is_some()).count();
            let misfires = case
                .plan
                .waiting
                .get(*instance)
                .map_or(0, |waiting| waiting.iter().filter(|w| **w < own).count());
            let others = hosted.others.iter().filter(|other| **other < own).count();
            started + misfires + others < hosted.free as usize
        });
        let with_room = with_room.map(|(instance, _)| instance.clone());
        case.expect(with_room.is_none(), item, || format!("{with_room:?} has a slot for its crashed run"));
    }
}
