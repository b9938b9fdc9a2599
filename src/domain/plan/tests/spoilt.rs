//! The checker finds every single change of a correct plan, and of the state that such a plan depends on.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::{ProptestConfig, proptest};

use super::properties::{cases, world};
use super::world::{World, instance, worker};
use crate::check::check;
use crate::id::{Generation, InstanceId, Item, ServerAddress, Token, TriggerId, Version};
use crate::item::{Missed, Outcome, Record, Running, Source, State};
use crate::plan::{Class, Entry, FireResult, Plan, Reported, host};
use crate::sharding::Gap;
use crate::time::Time;
use crate::txn::{Guard, Write};

/// What was changed, and the result.
type Changed<T> = (String, T);

fn finds(world: &World, plan: &Plan) -> bool {
    !check(&world.job, &world.records, &world.facts(), plan).is_empty()
}

/// Copies of the plan, each with one thing changed.
fn changes(plan: &Plan, now: Time) -> Vec<Changed<Plan>> {
    let mut all = Vec::new();
    let mut put = |what: String, change: &dyn Fn(&mut Plan)| {
        let mut changed = plan.clone();
        change(&mut changed);
        all.push((what, changed));
    };
    // Scheduled times alone may have to wait, and waiting items are checked one by one.
    if !plan.more && plan.entries.iter().any(|entry| !matches!(entry, Entry::NotRun { .. })) {
        put("nothing at all".into(), &|p| *p = Plan { next: p.next, more: p.more, ..Plan::default() });
    }
    if !plan.more {
        put("one that looks again at once".into(), &|p| p.next = Some(now));
    }
    for (n, guard) in plan.txn.guards.iter().enumerate() {
        put(format!("without {guard:?}"), &|p| drop(p.txn.guards.remove(n)));
        put(format!("another than {guard:?}"), &|p| p.txn.guards[n] = other_guard(guard));
    }
    for (n, write) in plan.txn.writes.iter().enumerate() {
        if is_overwritten(&plan.txn.writes, n) {
            continue;
        }
        put(format!("without {write:?}"), &|p| drop(p.txn.writes.remove(n)));
        for other in other_writes(write) {
            put(format!("{other:?} rather than {write:?}"), &|p| p.txn.writes[n] = other.clone());
        }
        if let Write::Record { item, record: written, .. } = write {
            put(format!("{write:?} twice"), &|p| p.txn.writes.push(write.clone()));
            for (what, other) in other_records(written) {
                let other = Arc::new(other);
                put(format!("the record of {item} with {what}"), &|p| {
                    if let Write::Record { record, .. } = &mut p.txn.writes[n] {
                        *record = other.clone();
                    }
                    p.records.get_mut(item).unwrap().1 = other.clone();
                });
            }
        }
    }
    for (item, (version, _)) in &plan.records {
        put(format!("the record of {item} missing"), &|p| drop(p.records.remove(item)));
        put(format!("another version of {item}"), &|p| p.records.get_mut(item).unwrap().0 = version.next());
    }
    for (n, entry) in plan.entries.iter().enumerate() {
        put(format!("without {entry:?}"), &|p| drop(p.entries.remove(n)));
        put(format!("{entry:?} twice"), &|p| p.entries.insert(n, entry.clone()));
        for other in other_entries(entry) {
            put(format!("{other:?} rather than {entry:?}"), &|p| p.entries[n] = other.clone());
        }
    }
    for n in 0..plan.unmonitored.len() {
        put("a run not sent".into(), &|p| drop(p.unmonitored.remove(n)));
        put("a run sent twice, one with another token".into(), &|p| {
            let token = &mut p.unmonitored[n].1;
            *token = token.next();
        });
    }
    for (on, waiting) in &plan.waiting {
        for (n, one) in waiting.iter().enumerate() {
            // Other instances may take a crashed one too.
            if one.class != Class::Failover && !plan.more {
                put(format!("{one:?} not waiting"), &|p| drop(p.waiting.get_mut(on).unwrap().remove(n)));
            }
        }
    }
    all
}

/// Whether a later write overrides this one: the item's run ended and it starts again.
fn is_overwritten(writes: &[Write], n: usize) -> bool {
    let said = |write: &Write| match write {
        Write::Running { item, .. } => Some((1, *item)),
        Write::Failover { item, .. } => Some((2, *item)),
        Write::FailoverItem { item, .. } => Some((3, *item)),
        Write::Started { item, .. } => Some((4, *item)),
        Write::Completed { item, .. } => Some((5, *item)),
        _ => None,
    };
    said(&writes[n]).is_some_and(|what| writes[n + 1..].iter().any(|later| said(later) == Some(what)))
}

fn other_guard(guard: &Guard) -> Guard {
    match guard.clone() {
        Guard::Incarnation(job, _) => Guard::Incarnation(job, "another".into()),
        Guard::Generation(job, generation) => Guard::Generation(job, Generation(generation.0 + 1)),
        Guard::Attachment(worker, version) => Guard::Attachment(worker, version.next()),
        Guard::Record(job, item, version) => Guard::Record(job, item, version.next()),
        Guard::NoAttachment(_) => Guard::NoAttachment(worker(7)),
        other => panic!("{other:?}"),
    }
}

fn other_instance(instance_now: &InstanceId) -> InstanceId {
    let other = instance(6);
    if *instance_now == other { instance(7) } else { other }
}

fn other_writes(write: &Write) -> Vec<Write> {
    let toggled = |now: &Option<InstanceId>| match now {
        Some(now) => vec![None, Some(other_instance(now))],
        None => vec![Some(instance(6))],
    };
    match write.clone() {
        Write::Record { job, item, expect, record } => {
            let at = |expect| Write::Record { job: job.clone(), item, expect, record: record.clone() };
            vec![at(None), at(expect.map(Version::next))]
        }
        Write::Running { job, item, instance } => {
            let with = |instance| Write::Running { job: job.clone(), item, instance };
            toggled(&instance).into_iter().map(with).collect()
        }
        Write::Failover { job, item, instance } => {
            let with = |instance| Write::Failover { job: job.clone(), item, instance };
            toggled(&instance).into_iter().map(with).collect()
        }
        Write::FailoverItem { job, item, crashed } => {
            let with = |crashed| Write::FailoverItem { job: job.clone(), item, crashed };
            match crashed {
                Some((fire, token)) => {
                    vec![with(None), with(Some((Time(fire.0 + 1), token))), with(Some((fire, token.next())))]
                }
                None => vec![with(Some((Time(1), Token(1))))],
            }
        }
        Write::Misfire { job, item, marked } => vec![Write::Misfire { job, item, marked: !marked }],
        Write::Started { job, item, present } => vec![Write::Started { job, item, present: !present }],
        Write::Completed { job, item, present } => vec![Write::Completed { job, item, present: !present }],
        Write::Offset { job, item, .. } => vec![Write::Offset { job, item, data: [9u8].into() }],
        Write::RemoveTrigger(job, item) => vec![Write::RemoveTrigger(job, Item(item.0 + 50))],
        other => panic!("{other:?}"),
    }
}

fn other_records(record: &Record) -> Vec<Changed<Record>> {
    let mut all = Vec::new();
    let mut put = |what: &str, change: &dyn Fn(&mut Record)| {
        let mut changed = record.clone();
        change(&mut changed);
        if changed != *record {
            all.push((what.to_owned(), changed));
        }
    };
    put("a higher token", &|r| r.token = r.token.next());
    put("a lower token", &|r| r.token = Token(r.token.0 - 1));
    put("a later last fire", &|r| r.last_fire.0 += 1);
    put("an earlier last fire", &|r| r.last_fire.0 -= 1);
    put("nothing in flight", &|r| r.state = State::Idle);
    put("another mark", &|r| r.misfire = r.misfire.map_or(Some(r.last_fire), |_| None));
    put("a later mark", &|r| r.misfire = r.misfire.map(|at| Time(at.0 + 1)));
    put("no last run", &|r| r.last = None);
    put("one more fired", &|r| r.counters.fired += 1);
    put("one more succeeded", &|r| r.counters.succeeded += 1);
    put("one more failed", &|r| r.counters.failed += 1);
    put("one more crashed", &|r| r.counters.crashed += 1);
    put("one more cancelled", &|r| r.counters.cancelled += 1);
    put("one more timed out", &|r| r.counters.timed_out += 1);
    put("one more misfired", &|r| r.counters.misfired += 1);
    put("one more skipped", &|r| r.counters.skipped += 1);
    put("one more missed", &|r| *r.counters.missed.entry(Missed::Down).or_default() += 1);
    put("another in flight", &|r| {
        if let State::Running(run) = &mut r.state {
            run.since.0 += 1;
        }
    });
    all
}

fn other_runs(run: &Running) -> Vec<Running> {
    let mut all = Vec::new();
    let mut put = |change: &dyn Fn(&mut Running)| {
        let mut changed = run.clone();
        change(&mut changed);
        if changed != *run {
            all.push(changed);
        }
    };
    put(&|r| r.fire.0 += 1);
    put(&|r| r.fire.0 -= 1);
    for source in [Source::NormalTrigger, Source::Misfire, Source::Failover, Source::Manual] {
        put(&|r| r.source = source);
    }
    put(&|r| r.instance = other_instance(&r.instance));
    put(&|r| r.worker = worker(7));
    put(&|r| r.since.0 += 1);
    put(&|r| r.trigger = r.trigger.as_ref().map_or_else(|| TriggerId::new("x").ok(), |_| None));
    put(&|r| r.held = !r.held);
    all
}

fn other_entries(entry: &Entry) -> Vec<Entry> {
    match entry.clone() {
        Entry::Started { item, token, run } => {
            let mut all = vec![Entry::Started { item, token: token.next(), run: run.clone() }];
            all.extend(other_runs(&run).into_iter().map(|run| Entry::Started { item, token, run }));
            all
        }
        Entry::Ended { item, token, run, outcome, at, requeued } => {
            let ended = |token: Token, run: &Running, outcome, at, requeued| Entry::Ended {
                item,
                token,
                run: run.clone(),
                outcome,
                at,
                requeued,
            };
            let mut all = vec![
                ended(token.next(), &run, outcome, at, requeued),
                ended(token, &run, outcome, Time(at.0 + 1), requeued),
                ended(token, &run, outcome, at, !requeued),
            ];
            let outcomes = [
                Outcome::Succeeded,
                Outcome::Failed,
                Outcome::Cancelled,
                Outcome::Crashed,
                Outcome::TimedOut,
            ];
            let others = outcomes.into_iter().filter(|other| *other != outcome);
            all.extend(others.map(|other| ended(token, &run, other, at, requeued)));
            all.extend(other_runs(&run).iter().map(|run| ended(token, run, outcome, at, requeued)));
            all
        }
        Entry::NotRun { item, first, latest, count, result } => {
            let not_run = |first, latest, count, result| Entry::NotRun { item, first, latest, count, result };
            let mut all = vec![
                not_run(Time(first.0 + 1), latest, count, result),
                not_run(Time(first.0 - 1), latest, count, result),
                not_run(first, Time(latest.0 + 1), count, result),
                not_run(first, Time(latest.0 - 1), count, result),
                not_run(first, latest, count + 1, result),
                not_run(first, latest, count - 1, result),
            ];
            let reasons = [
                FireResult::Misfired,
                FireResult::Skipped,
                FireResult::Missed(Missed::NoSlot),
                FireResult::Missed(Missed::Down),
                FireResult::Missed(Missed::NoWorker),
                FireResult::Missed(Missed::TooLate),
                FireResult::Missed(Missed::Paused),
                FireResult::Missed(Missed::Disabled),
            ];
            let others = reasons.into_iter().filter(|other| *other != result);
            all.extend(others.map(|other| not_run(first, latest, count, other)));
            all
        }
    }
}

/// Copies of the world, each with one thing changed that the plan depends on.
fn grounds(world: &World, plan: &Plan) -> Vec<Changed<World>> {
    let mut all = Vec::new();
    let mut put = |what: String, change: &dyn Fn(&mut World)| {
        let mut changed = world.clone();
        change(&mut changed);
        all.push((what, changed));
    };
    if !plan.txn.writes.is_empty() {
        put("another job of this name".into(), &|w| w.job.incarnation = "another".into());
    }
    for (item, (version, _)) in &plan.records {
        put(format!("a newer record of {item}"), &|w| w.records.get_mut(item).unwrap().0 = version.next());
        put(format!("no record of {item}"), &|w| drop(w.records.remove(item)));
    }
    for (item, _) in &plan.offsets {
        let version = world.records[item].0;
        put(format!("a newer record of {item}"), &|w| w.records.get_mut(item).unwrap().0 = version.next());
        put(format!("another run of {item}"), &|w| w.progressed.get_mut(item).unwrap().token = Token(3));
        put(format!("another's run of {item}"), &|w| w.progressed.get_mut(item).unwrap().worker = worker(9));
    }
    for entry in &plan.entries {
        match entry {
            Entry::Started { item, run, .. } => of_a_start(plan, *item, run, &mut put),
            Entry::Ended { item, token, run, requeued, .. } => {
                // A run that is not held cannot be skipped: such a report does not count.
                let report = world.reports.get(item).filter(|report| {
                    report.token == *token
                        && report.worker == run.worker
                        && (run.held || report.ended != Reported::Skipped)
                });
                if report.is_none() && !world.dead.contains(&run.worker) {
                    put(format!("{} is dead", run.worker), &|w| w.dead.extend([run.worker.clone()]));
                } else if report.is_none() {
                    put(format!("{} lives", run.worker), &|w| w.dead.retain(|one| *one != run.worker));
                } else if !world.dead.contains(&run.worker) {
                    put(format!("no report of {item}"), &|w| drop(w.reports.remove(item)));
                    put(format!("a report of another run of {item}"), &|w| {
                        w.reports.get_mut(item).unwrap().token = token.next();
                    });
                    put(format!("another's report of {item}"), &|w| {
                        w.reports.get_mut(item).unwrap().worker = worker(7);
                    });
                }
                if *requeued {
                    put("no failover".into(), &|w| w.job.rules.failover = false);
                }
            }
            Entry::NotRun { item, latest, result, .. } => {
                put(format!("{item} is another host's"), &|w| {
                    let owner = w.job.sharding.owner(*item).cloned().unwrap();
                    w.hosted.remove(&owner);
                });
                put("nothing may be accounted for".into(), &|w| w.no_starts = true);
                of_one_passed_over(world, *item, *latest, *result, &mut put);
            }
        }
    }
    for (on, waiting) in &plan.waiting {
        if !waiting.is_empty() {
            put(format!("{on} is not ready"), &|w| w.hosted.get_mut(on).unwrap().ready = false);
            put(format!("{on} is disabled"), &|w| {
                w.job.sharding.disabled_instances.insert(on.clone());
            });
            if !plan.more {
                put(format!("{on} has room"), &|w| w.hosted.get_mut(on).unwrap().free += 50);
            }
        }
    }
    all
}

fn of_one_passed_over(
    world: &World,
    item: Item,
    latest: Time,
    result: FireResult,
    put: &mut impl FnMut(String, &dyn Fn(&mut World)),
) {
    // Scheduled times in a gap, and marks that are dropped, are recorded whatever else applies.
    let dropped = world.records.get(&item).is_some_and(|(_, record)| record.misfire == Some(latest));
    if dropped || world.job.sharding.gap_of(item, latest).is_some() {
        return;
    }
    let mut put = |what: &str, change: &dyn Fn(&mut World)| put(format!("{item}, {result}: {what}"), change);
    put("the job is paused", &|w| w.job.paused = true);
    put("the item is disabled", &|w| w.job.sharding.disabled_items.extend([item]));
    match result {
        FireResult::Skipped => put("it keeps misfires", &|w| w.job.rules.misfire = true),
        FireResult::Misfired => put("it keeps no misfires", &|w| {
            (w.job.rules.misfire, w.job.rules.run_late) = (false, false);
        }),
        _ => {}
    }
}

fn of_a_start(plan: &Plan, item: Item, run: &Running, put: &mut impl FnMut(String, &dyn Fn(&mut World))) {
    let on = &run.instance;
    let start = format!("{} of {item}", run.source);
    let mut put = |what: &str, change: &dyn Fn(&mut World)| put(format!("{start}: {what}"), change);
    put("nothing may start", &|w| w.no_starts = true);
    put("it is later", &|w| w.now.0 += 1);
    put("the instance is not ready", &|w| w.hosted.get_mut(on).unwrap().ready = false);
    put("the instance is elsewhere", &|w| drop(w.hosted.remove(on)));
    put("another worker is that instance", &|w| w.hosted.get_mut(on).unwrap().worker = worker(7));
    put("the worker moved", &|w| {
        let attachment = &mut w.hosted.get_mut(on).unwrap().attachment;
        *attachment = attachment.next();
    });
    put("the worker is dead", &|w| w.dead.extend([run.worker.clone()]));
    put("the instance is disabled", &|w| w.job.sharding.disabled_instances.extend([on.clone()]));
    put("the server is disabled", &|w| {
        w.job.servers.extend([(ServerAddress::new(on.address()).unwrap(), false)]);
    });
    put("the item is disabled", &|w| w.job.sharding.disabled_items.extend([item]));
    put("the job is disabled", &|w| w.job.rules.disabled = true);
    put("there are fewer items", &|w| w.job.rules.items = item.0);
    put("it is in user code", &|w| w.in_user_code.extend([item]));
    put("the rights have changed", &|w| w.job.generation = Generation(w.job.generation.0 + 1));
    put("runs are not recorded, or are", &|w| w.job.rules.monitor = !w.job.rules.monitor);
    let starts = plan
        .entries
        .iter()
        .filter(|entry| matches!(entry, Entry::Started { run, .. } if run.instance == *on));
    let starts = u32::try_from(starts.count()).unwrap();
    put("there are too few slots", &|w| w.hosted.get_mut(on).unwrap().free = starts - 1);
    if run.source != Source::Failover {
        put("another owns it", &|w| super::world::give(&mut w.job, &[6; 8]));
    }
    match run.source {
        Source::NormalTrigger => {
            put("the job is paused", &|w| w.job.paused = true);
            put("there is a gap", &|w| {
                w.job.sharding.gaps.insert(item, Gap { until: run.fire, reason: Missed::Disabled });
            });
            if run.fire < run.since {
                put("it is too old", &|w| w.job.rules.catch_up = Duration::ZERO);
            }
            put("it is not marked first", &|w| w.record_mut(item).misfire = Some(Time(1)));
            put("it is not due at all", &|w| (w.job.rules.schedule, w.job.rules.before) = (None, Vec::new()));
        }
        Source::Misfire => put("the job is paused", &|w| w.job.paused = true),
        Source::Failover => put("there is no failover", &|w| w.job.rules.failover = false),
        Source::Manual => {
            put("nobody asks for it", &|w| drop(w.job.triggers.remove(&item)));
            put("another one asks for it", &|w| {
                w.job.triggers.get_mut(&item).unwrap().id = TriggerId::new("x").unwrap();
            });
            put("it is asked for later", &|w| w.job.triggers.get_mut(&item).unwrap().at.0 += 1);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().cases.div_ceil(2), ..cases() })]

    #[test]
    fn every_change_of_a_plan_is_found(world in world()) {
        let plan = host(&world.job, &world.records, &world.facts());
        for (what, changed) in changes(&plan, world.now) {
            assert!(finds(&world, &changed), "it may be {what}:\n{plan:#?}\nof {world:#?}");
        }
    }

    #[test]
    fn every_change_of_what_a_plan_rests_on_is_found(world in world()) {
        let plan = host(&world.job, &world.records, &world.facts());
        for (what, changed) in grounds(&world, &plan) {
            assert!(finds(&changed, &plan), "it passes although {what}:\n{plan:#?}\nof {world:#?}");
        }
    }
}
