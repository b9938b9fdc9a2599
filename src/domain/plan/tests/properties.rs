//! In every state a plan is right, and planning again changes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::sample::select;

use super::world::{World, instance, job, noon, worker};
use crate::id::{Item, JobName, Token, TriggerId, Version};
use crate::item::{Ahead, Counters, Crashed, Ended, Missed, Outcome, Record, Running, Source, State};
use crate::job::{JobSpec, Policy};
use crate::plan::{Class, Entry, Progressed, Report, Reported, Waiting, ahead};
use crate::sharding::{Floor, Gap};
use crate::snapshot::{Announced, Stage, TriggerNode};
use crate::time::Time;

const CRONS: [Option<&str>; 6] = [
    Some("* * * * * ?"),
    Some("*/7 * * * * ?"),
    Some("*/20 * * * * ?"),
    Some("0 * * * * ?"),
    Some("0 0 * * * ?"),
    None,
];

/// Milliseconds before now.
fn ago() -> impl Strategy<Value = i64> {
    prop_oneof![
        select(vec![0, 1, 1000, 7000, 9999, 10_000, 10_001, 11_000, 60_000, 3_600_000]),
        0..30_000i64,
        Just(-1000),
    ]
}

#[derive(Debug, Clone)]
struct Flags {
    misfire: bool,
    failover: bool,
    monitor: bool,
    run_late: bool,
    guarantee: bool,
    completed: bool,
    disabled: bool,
    paused: bool,
    no_starts: bool,
}

fn flags() -> impl Strategy<Value = Flags> {
    let rare = || proptest::bool::weighted(0.1);
    (any::<[bool; 5]>(), proptest::bool::weighted(0.8), rare(), rare(), rare()).prop_map(
        |([misfire, failover, run_late, guarantee, completed], monitor, disabled, paused, no_starts)| Flags {
            misfire: misfire && monitor,
            failover: failover && monitor,
            monitor,
            run_late: run_late && monitor,
            guarantee,
            completed,
            disabled,
            paused,
            no_starts,
        },
    )
}

#[derive(Debug, Clone)]
struct Slice {
    owner: usize,
    last: i64,
    state: u8,
    since: i64,
    runner: usize,
    source: Source,
    held: bool,
    cancelled: bool,
    deaths: u32,
    ended: Option<Source>,
    mark: Option<i64>,
    report: Option<(bool, bool, Reported, bool)>,
    progressed: Option<(bool, bool)>,
    leapt: Option<i64>,
    ahead: Option<(i64, i64)>,
    trigger: Option<i64>,
    gained: Option<i64>,
    gap: Option<i64>,
    disabled: bool,
    in_user_code: bool,
}

fn slice() -> impl Strategy<Value = Slice> {
    let sources = select(vec![Source::NormalTrigger, Source::Misfire, Source::Failover, Source::Manual]);
    let reported = select(vec![
        Reported::Done(Outcome::Succeeded),
        Reported::Done(Outcome::TimedOut),
        Reported::Aborted,
        Reported::NotStarted,
        Reported::HandedBack,
        Reported::HandedBackByHost(Version(7)),
        Reported::Forgotten(Version(7)),
        Reported::Skipped,
    ]);
    let likely = || proptest::bool::weighted(0.8);
    let last = prop_oneof![9 => ago(), 1 => Just(-86_400_000)];
    let run = (0..4u8, ago(), 0..5usize, sources.clone(), proptest::bool::weighted(0.2), option::of(sources));
    let report = option::weighted(0.4, (likely(), likely(), reported, any::<bool>()));
    let progressed = option::weighted(0.3, (likely(), likely()));
    let ahead = option::weighted(0.3, (ago(), 1..90_000_000_i64));
    let clock = (option::weighted(0.1, ago()), ahead);
    let asked = (option::weighted(0.2, ago()), option::weighted(0.2, ago()), option::weighted(0.1, ago()));
    let flags = (proptest::bool::weighted(0.1), proptest::bool::weighted(0.2), proptest::bool::weighted(0.2));
    (0..4usize, last, run, option::weighted(0.3, ago()), (report, progressed), (asked, clock), flags)
        .prop_map(
            |(
                owner,
                last,
                run,
                mark,
                (report, progressed),
                (asked, (leapt, ahead)),
                (disabled, in_user_code, cancelled),
            )| {
                let (state, since, runner, source, held, ended) = run;
                Slice {
                    cancelled,
                    deaths: u32::try_from(runner).unwrap(),
                    owner,
                    last,
                    state,
                    since,
                    runner,
                    source,
                    held,
                    ended,
                    mark,
                    report,
                    progressed,
                    leapt,
                    ahead,
                    trigger: asked.0,
                    gained: asked.1,
                    gap: asked.2,
                    disabled,
                    in_user_code,
                }
            },
        )
}

#[derive(Debug, Clone)]
struct Seat {
    hosted: bool,
    ready: bool,
    enabled: bool,
    dead: bool,
    free: u32,
    others: Vec<(Class, i64)>,
}

fn seat() -> impl Strategy<Value = Seat> {
    let likely = || proptest::bool::weighted(0.85);
    let class = select(vec![Class::Misfire, Class::Failover, Class::Fire]);
    (likely(), likely(), likely(), proptest::bool::weighted(0.1), 0..4u32, vec((class, ago()), 0..3))
        .prop_map(|(hosted, ready, enabled, dead, free, others)| Seat {
            hosted,
            ready,
            enabled,
            dead,
            free,
            others,
        })
}

type Moments = (i64, i64, Option<i64>, Option<i64>, Option<i64>, Option<(i64, bool)>);

pub(super) fn world() -> impl Strategy<Value = World> {
    let moments = (
        0..3_600_000i64,
        ago(),
        option::weighted(0.2, ago()),
        option::weighted(0.2, ago()),
        option::weighted(0.2, ago()),
        option::weighted(0.5, (ago(), any::<bool>())),
    );
    let shape = (select(CRONS.to_vec()), flags(), moments, 0..7u32, 1..8usize);
    (shape, vec(slice(), 1..7), vec(seat(), 4)).prop_map(
        |((cron, flags, moments, items, most), slices, seats)| {
            build(cron, &flags, moments, (items, most), &slices, &seats)
        },
    )
}

fn build(
    cron: Option<&str>,
    flags: &Flags,
    moments: Moments,
    sizes: (u32, usize),
    slices: &[Slice],
    seats: &[Seat],
) -> World {
    let (at, up, gap, floor, surplus, announced) = moments;
    let now = Time(noon().0 + at);
    let before = |ago: i64| Time(now.0 - ago);
    let items = u32::try_from(slices.len()).unwrap();
    let owners: Vec<usize> = slices.iter().map(|slice| slice.owner).collect();
    let mut world = World::new(job(cron, items.max(1)), &owners, now);
    let rules = &mut world.job.rules;
    (rules.misfire, rules.failover, rules.monitor) = (flags.misfire, flags.failover, flags.monitor);
    (rules.run_late, rules.guarantee_started, rules.disabled) =
        (flags.run_late, flags.guarantee, flags.disabled);
    // Now and then a count that the assignment does not cover yet, or no longer covers.
    rules.items = if sizes.0 == 0 { items.saturating_sub(1).max(1) } else { items };
    rules.guarantee_completed = flags.completed;
    world.job.paused = flags.paused;
    world.no_starts = flags.no_starts;
    if let Some(timeout) = sizes.1.checked_sub(4) {
        world.job.spec = timed(&world.job.spec, 60_000 << (4 * timeout));
    }
    // With a store that was restored from an older state, and with one that was not.
    world.given = Token(if flags.paused == flags.monitor { 1000 } else { 0 });
    world.up_since = before(up);
    world.most_writes = if sizes.1 == 7 { usize::MAX } else { sizes.1 };
    world.job.sharding.gap = gap.map(|gap| Gap { until: before(gap), reason: Missed::Paused });
    if let Some(floor) = floor {
        let was = ("*/3 * * * * ?".to_string(), "UTC".to_string());
        let earlier = crate::view::schedule(&was.0, &was.1, Default::default()).ok();
        world.job.rules.before = vec![(before(floor), earlier)];
        world.job.sharding.floor = Some(Floor { at: before(floor), before: Some(was) });
    }
    if let Some(surplus) = surplus {
        world.job.sharding = world.job.sharding.raised(Item(1), before(surplus));
    }
    world.job.announced.extend(announced.map(|(ago, answered)| {
        // Now and then the time of a run's fire.
        let fire = before(slices.first().filter(|_| ago % 2 == 0).map_or(ago, |slice| slice.last));
        (Stage::Started, Announced { fire, answered, ..Announced::default() })
    }));
    place(&mut world, seats, &before);
    for (item, slice) in (0..).map(Item).zip(slices) {
        fill(&mut world, item, slice, &before);
    }
    world
}

fn place(world: &mut World, seats: &[Seat], before: &dyn Fn(i64) -> Time) {
    world.hosted.clear();
    for (n, seat) in seats.iter().enumerate() {
        if seat.hosted {
            world.attach(n, seat.free);
            let mut others: Vec<Waiting> = seat
                .others
                .iter()
                .map(|(class, ago)| Waiting {
                    class: *class,
                    fire: before(*ago),
                    job: JobName::new("other").unwrap(),
                    item: Item(0),
                })
                .collect();
            others.sort();
            others.truncate(seat.free as usize);
            let hosted = world.hosted.get_mut(&instance(n)).unwrap();
            (hosted.ready, hosted.others) = (seat.ready, others);
        }
        if !seat.enabled {
            world.job.sharding.disabled_instances.insert(instance(n));
        }
        if seat.dead {
            world.dead.insert(worker(n));
        }
    }
}

fn timed(spec: &JobSpec, timeout: u64) -> Arc<JobSpec> {
    let policy = Policy { run_timeout: Some(Duration::from_millis(timeout)), ..spec.policy().clone() };
    Arc::new(JobSpec::new(spec.config().clone(), policy, spec.handler()).unwrap())
}

fn fill(world: &mut World, item: Item, slice: &Slice, before: &dyn Fn(i64) -> Time) {
    let last_fire = before(slice.last);
    let fire = Time(last_fire.0.min(world.now.0));
    let since = before(slice.since.max(0));
    let monitored = world.job.rules.monitor || slice.report.is_some();
    let trigger = (slice.source == Source::Manual).then(|| TriggerId::new("t").unwrap());
    let (instance, worker) = (instance(slice.runner), worker(slice.runner));
    let state = match slice.state {
        1 | 2 if monitored => State::Running(Running {
            fire,
            source: slice.source,
            instance,
            worker: worker.clone(),
            since,
            trigger,
            held: slice.held && matches!(slice.source, Source::NormalTrigger | Source::Failover),
            cancelled: slice.cancelled,
            deaths: slice.deaths,
        }),
        3 if monitored => {
            State::Crashed(Crashed { fire, instance, since, held: slice.held, deaths: slice.deaths })
        }
        _ => State::Idle,
    };
    if let (Some((right_token, right_worker)), State::Running(_)) = (slice.progressed, &state) {
        let token = Token(107 - u64::from(!right_token));
        let worker = super::world::worker((slice.runner + usize::from(!right_worker)) % 5);
        world.progressed.insert(item, Progressed { token, worker, offset: [3u8].into() });
    }
    let in_flight = u64::from(matches!(state, State::Running(_)));
    let record = Record {
        token: Token(107),
        last_fire,
        state,
        leapt: slice.leapt.map(|ago| Time(world.now.0 - ago)),
        ahead: slice.ahead.map(|(from, length)| {
            let config = world.job.spec.config();
            let schedule = (config.cron.clone().unwrap_or_default(), config.zone().to_owned());
            let since = before(from);
            Ahead { since, until: Time(since.0 + length), schedule }
        }),
        misfire: slice.mark.map(|ago| Time(before(ago).0.min(last_fire.0))),
        last: slice.ended.map(|source| ended(source, fire, since)),
        counters: Counters { fired: 6 + in_flight, succeeded: 6, ..Counters::default() },
    };
    if let Some((right_token, right_worker, ended, offset)) = &slice.report {
        let token = if *right_token { record.token } else { Token(106) };
        let other = super::world::worker((slice.runner + 1) % 5);
        let worker = if *right_worker { worker } else { other };
        let offset = offset.then(|| [1u8, 2].into());
        world.reports.insert(item, Report { token, worker, ended: *ended, offset });
    }
    world.records.insert(item, (Version(9), record.into()));
    if let Some(ago) = slice.trigger {
        let node = TriggerNode { id: TriggerId::new("asked").unwrap(), at: before(ago) };
        world.job.triggers.insert(item, node);
    }
    world.gained.extend(slice.gained.map(|ago| (item, before(ago))));
    let gap = slice.gap.map(|ago| Gap { until: before(ago), reason: Missed::Disabled });
    world.job.sharding.gaps.extend(gap.map(|gap| (item, gap)));
    if slice.disabled {
        world.job.sharding.disabled_items.insert(item);
    }
    if slice.in_user_code {
        world.in_user_code.insert(item);
    }
}

/// The last run, which failover would continue if it crashed.
fn ended(source: Source, fire: Time, at: Time) -> Ended {
    Ended {
        token: Token(106),
        fire,
        source,
        instance: instance(0),
        at,
        outcome: Outcome::Crashed,
        reported: false,
    }
}

pub(super) fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().cases * 8, ..cases() })]

    #[test]
    fn every_plan_is_right_and_planning_again_changes_nothing(mut world in world()) {
        let dead = world.dead.clone();
        world.settle();
        let left: BTreeSet<_> = world.records.values().filter_map(|(_, record)| record.running()).map(|run| run.worker.clone()).collect();
        assert!(dead.is_disjoint(&left), "the dead still run something");
    }

    /// What is started ahead of a scheduled time is what would have been started then, and is left alone at that time.
    #[test]
    fn what_is_started_ahead_would_have_been_started_at_the_time(mut world in world()) {
        (world.no_starts, world.most_writes) = (false, usize::MAX);
        world.hosted.values_mut().for_each(|hosted| hosted.free *= 8);
        let settled = world.settle();
        let Some(due) = settled.next.filter(|due| *due > world.now) else { return Ok(()) };
        world.now = due;
        let (at_time, early) = (world.plan(), ahead(&world.job, &world.records, &world.facts()));
        for entry in &early.entries {
            let Entry::Started { item, run, .. } = entry else { panic!("{entry:?} of {world:#?}") };
            assert!(at_time.entries.contains(entry), "{entry:?} would not be at the time: {at_time:#?}");
            assert_eq!((run.fire, run.since, run.source), (due, due, Source::NormalTrigger));
            assert_eq!(early.records[item], at_time.records[item]);
        }
        assert_eq!(early.entries.len(), early.records.len());
        world.commit(&early);
        world.now = Time(due.0 - 1);
        // What waited in a gap that ends meanwhile is accounted for, but not by these plans.
        let before = world.plan();
        assert!(early.records.keys().all(|item| !before.records.contains_key(item)), "before their time: {before:#?}");
        world.now = due;
        let rest = world.plan();
        assert!(early.records.keys().all(|item| !rest.records.contains_key(item)), "{rest:#?}");
    }
}
