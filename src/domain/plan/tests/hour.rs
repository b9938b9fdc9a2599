//! An hour of trouble: reports, deaths, pauses, restarts, lost slots, counts lowered and raised. The host plans only
//! when the plan's own timer or an event causes it to. In the end each scheduled time of each item is accounted for,
//! exactly once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::sample::select;

use super::world::{World, instance, job, noon, worker};
use crate::check::check_assign;
use crate::id::{InstanceId, Item, Token, TriggerId, Version};
use crate::item::{Missed, Outcome, Record, Records, Source, State};
use crate::plan::{Candidates, Entry, FireResult, Plan, Report, Reported, assign};
use crate::sharding::Gap;
use crate::snapshot::TriggerNode;
use crate::time::Time;

#[derive(Debug, Clone)]
enum Step {
    Wait(i64),
    Report(u32, Reported),
    ReportAll,
    Kill(usize),
    Attach(u32),
    Drain(usize),
    Slots(usize, u32),
    Pause(bool),
    DisableItem(u32, bool),
    DisableJob(bool),
    Suspend(bool),
    Restart,
    Count(u32),
    Trigger(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let reported = select(vec![
        Reported::Done(Outcome::Succeeded),
        Reported::Done(Outcome::Failed),
        Reported::Aborted,
        Reported::HandedBack,
        Reported::HandedBackByHost(Version(7)),
        Reported::Forgotten(Version(7)),
    ]);
    let item = || 0..5u32;
    prop_oneof![
        12 => (0..60_000i64).prop_map(Step::Wait),
        4 => (0..12_000i64).prop_map(Step::Wait),
        8 => (item(), reported).prop_map(|(item, how)| Step::Report(item, how)),
        8 => Just(Step::ReportAll),
        2 => (0..4usize).prop_map(Step::Kill),
        3 => (0..4u32).prop_map(Step::Attach),
        1 => (0..4usize).prop_map(Step::Drain),
        2 => (0..4usize, 0..4u32).prop_map(|(n, slots)| Step::Slots(n, slots)),
        2 => any::<bool>().prop_map(Step::Pause),
        2 => (item(), any::<bool>()).prop_map(|(item, on)| Step::DisableItem(item, on)),
        1 => any::<bool>().prop_map(Step::DisableJob),
        2 => any::<bool>().prop_map(Step::Suspend),
        1 => Just(Step::Restart),
        2 => (1..6u32).prop_map(Step::Count),
        1 => item().prop_map(Step::Trigger),
    ]
}

struct Hour {
    world: World,
    slots: BTreeMap<InstanceId, u32>,
    attached: usize,
    /// The result of each scheduled time.
    told: BTreeMap<(Item, Time), &'static str>,
    dropped: BTreeMap<Item, u64>,
    created: BTreeMap<Item, Time>,
    /// Since when an item is surplus, and the periods in which items were.
    surplus: BTreeMap<Item, Time>,
    was_surplus: Vec<(Item, Time, Time)>,
    user_code: BTreeMap<Item, InstanceId>,
    calendar: Option<Time>,
    triggers: u32,
}

impl Hour {
    fn new(cron: &str, flags: [bool; 4], items: u32) -> Self {
        let mut job = job(Some(cron), items);
        let [misfire, failover, monitor, run_late] = flags;
        (job.rules.misfire, job.rules.failover, job.rules.monitor) =
            (misfire && monitor, failover && monitor, monitor);
        job.rules.run_late = run_late && monitor;
        let mut world = World::new(job, &[], noon());
        world.records.clear();
        let mut hour = Self {
            world,
            slots: BTreeMap::new(),
            attached: 0,
            told: BTreeMap::new(),
            dropped: BTreeMap::new(),
            created: BTreeMap::new(),
            surplus: BTreeMap::new(),
            was_surplus: Vec::new(),
            user_code: BTreeMap::new(),
            calendar: None,
            triggers: 0,
        };
        hour.take(&Step::Attach(2));
        hour.take(&Step::Attach(2));
        hour
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Wait(ms) => return self.wait(Time(self.world.now.0 + ms)),
            Step::Report(item, how) => self.report(Item(*item), *how),
            Step::ReportAll => {
                for item in self.world.records.keys().copied().collect::<Vec<_>>() {
                    self.report(item, Reported::Done(Outcome::Succeeded));
                }
            }
            Step::Kill(n) => self.kill(*n),
            Step::Attach(slots) => self.attach(*slots),
            Step::Drain(n) => {
                if let Some((_, hosted)) = self.world.hosted.iter_mut().nth(*n) {
                    hosted.ready = !hosted.ready;
                }
            }
            Step::Slots(n, slots) => {
                if let Some(known) = self.slots.values_mut().nth(*n) {
                    *known = *slots;
                }
            }
            Step::Pause(paused) => self.pause(*paused),
            Step::DisableItem(item, disabled) => self.disable_item(Item(*item), *disabled),
            Step::DisableJob(disabled) => self.disable_job(*disabled),
            Step::Suspend(suspended) => self.world.no_starts = *suspended,
            Step::Restart => {
                self.world.up_since = self.world.now;
                self.world.gained.clear();
            }
            Step::Count(count) => self.count(*count),
            Step::Trigger(item) => self.trigger(Item(*item)),
        }
        self.look();
    }

    fn report(&mut self, item: Item, ended: Reported) {
        if self.user_code.remove(&item).is_some() {
            self.world.in_user_code.remove(&item);
        }
        let Some((_, record)) = self.world.records.get(&item) else { return };
        let Some(run) = record.running() else { return };
        let report = Report { token: record.token, worker: run.worker.clone(), ended, offset: None };
        self.world.reports.insert(item, report);
    }

    fn kill(&mut self, n: usize) {
        let Some(instance) = self.world.hosted.keys().nth(n).cloned() else { return };
        self.world.hosted.remove(&instance);
        self.world.job.instances.remove(&instance);
        self.slots.remove(&instance);
        self.world.dead.extend(instance.worker());
        let gone: Vec<Item> =
            self.user_code.iter().filter(|(_, at)| **at == instance).map(|(item, _)| *item).collect();
        for item in gone {
            self.user_code.remove(&item);
            self.world.in_user_code.remove(&item);
        }
    }

    fn attach(&mut self, slots: u32) {
        if self.attached < 25 && self.world.hosted.len() < 4 {
            self.world.attach(self.attached, slots);
            self.slots.insert(instance(self.attached), slots);
            self.attached += 1;
        }
    }

    fn pause(&mut self, paused: bool) {
        let until = self.world.now;
        if self.world.job.paused && !paused {
            self.world.job.sharding.gap = Some(Gap { until, reason: Missed::Paused });
        }
        self.world.job.paused = paused;
    }

    fn disable_item(&mut self, item: Item, disabled: bool) {
        let (sharding, until) = (&mut self.world.job.sharding, self.world.now);
        if disabled {
            sharding.disabled_items.insert(item);
        } else if sharding.disabled_items.remove(&item) {
            sharding.gaps.insert(item, Gap { until, reason: Missed::Disabled });
        }
    }

    fn disable_job(&mut self, disabled: bool) {
        let until = self.world.now;
        if self.world.job.rules.disabled && !disabled {
            self.world.job.sharding.gap = Some(Gap { until, reason: Missed::Disabled });
        }
        self.world.job.rules.disabled = disabled;
    }

    fn count(&mut self, count: u32) {
        let (now, old) = (self.world.now, self.world.job.rules.items);
        self.world.job.rules.items = count;
        self.surplus.extend((count..old).map(|item| (Item(item), now)));
        for item in (old..count).map(Item) {
            self.was_surplus.extend(self.surplus.remove(&item).map(|since| (item, since, now)));
        }
        if count > old {
            self.world.job.sharding = self.world.job.sharding.raised(Item(old), now);
        }
    }

    fn trigger(&mut self, item: Item) {
        let closed =
            self.world.job.sharding.disabled_items.contains(&item) || item.0 >= self.world.job.rules.items;
        if !closed {
            self.triggers += 1;
            let id = TriggerId::new(format!("t{}", self.triggers)).unwrap();
            self.world.job.triggers.insert(item, TriggerNode { id, at: self.world.now });
        }
    }

    /// Advances time; the host plans when its timer is due.
    fn wait(&mut self, until: Time) {
        while let Some(at) = self.calendar.filter(|at| *at <= until) {
            assert!(at > self.world.now, "time stands still");
            self.world.now = at;
            self.look();
        }
        self.world.now = until;
    }

    fn look(&mut self) {
        self.assign();
        for (instance, hosted) in &mut self.world.hosted {
            let running = |(_, record): &&(Version, Arc<Record>)| {
                record.running().is_some_and(|run| run.instance == *instance)
            };
            let used = self.world.records.values().filter(running).count()
                + self.user_code.values().filter(|at| *at == instance).count();
            hosted.free = self.slots[instance].saturating_sub(u32::try_from(used).unwrap());
        }
        let before = self.world.records.clone();
        let plan = self.world.settle();
        self.calendar = plan.next;
        self.tell(&before, &plan);
    }

    fn assign(&mut self) {
        let leaving =
            self.world.hosted.iter().filter(|(_, hosted)| !hosted.ready).map(|(i, _)| i.clone()).collect();
        let candidates = Candidates { leaving, now: self.world.now, ..Candidates::default() };
        let job = &mut self.world.job;
        if let Some(assigned) = assign(job, &candidates) {
            assert_eq!(check_assign(job, &candidates, &assigned), []);
            job.sharding = assigned.sharding;
            job.generation = job.generation.next();
            assert!(assign(job, &candidates).is_none(), "assigned twice");
            let hosted = &self.world.hosted;
            let mine =
                job.sharding.owned().filter(|(_, owner)| hosted.contains_key(*owner)).map(|(item, _)| item);
            let (gained, now) = (&self.world.gained, self.world.now);
            self.world.gained = mine.map(|item| (item, gained.get(&item).copied().unwrap_or(now))).collect();
        }
        for item in (0..self.world.job.rules.items).map(Item) {
            let now = self.world.now;
            self.world
                .records
                .entry(item)
                .or_insert_with(|| (Version(0), Record::new(Token(100), now).into()));
            self.created.entry(item).or_insert(now);
        }
    }

    fn tell(&mut self, before: &Records, plan: &Plan) {
        let mut last: BTreeMap<Item, Time> =
            before.iter().map(|(item, (_, record))| (*item, record.last_fire)).collect();
        for (item, _, run) in &plan.unmonitored {
            self.user_code.insert(*item, run.instance.clone());
        }
        for entry in &plan.entries {
            match entry {
                Entry::Started { item, run, .. } => {
                    let owed = |(of, since, until): &(Item, Time, Time)| {
                        of == item && *since < run.fire && run.fire <= *until
                    };
                    let scheduled = matches!(run.source, Source::NormalTrigger | Source::Misfire);
                    assert!(
                        !scheduled || !self.was_surplus.iter().any(owed),
                        "{entry:?} is of a time as surplus"
                    );
                    if run.source == Source::NormalTrigger {
                        self.due(*item, run.fire, "run");
                        last.insert(*item, run.fire);
                    }
                }
                Entry::NotRun { item, latest, .. } if *latest <= last[item] => {
                    *self.dropped.entry(*item).or_default() += 1
                }
                Entry::NotRun { item, latest, count, result, .. } => {
                    let dues = self.dues(last[item], *latest);
                    assert_eq!(dues.len() as u64, *count);
                    let surplus = |(of, since, until): &(Item, Time, Time)| {
                        of == item && dues.iter().any(|due| since < due && due <= until)
                    };
                    let merged = *result == FireResult::Misfired && self.was_surplus.iter().any(surplus);
                    assert!(!merged, "{entry:?} is of a time as surplus");
                    for due in dues {
                        self.due(*item, due, "not run");
                    }
                    last.insert(*item, *latest);
                }
                Entry::Ended { .. } => {}
            }
        }
    }

    fn due(&mut self, item: Item, due: Time, what: &'static str) {
        let told = self.told.insert((item, due), what);
        assert!(told.is_none(), "{due} of item {item} is {what}, but was reported as {told:?}");
    }

    fn dues(&self, after: Time, until: Time) -> Vec<Time> {
        let schedule = self.world.job.rules.schedule.as_ref().unwrap();
        schedule.iter(after).take_while(|due| *due <= until).collect()
    }

    /// Restores everything for a while.
    fn end(mut self) {
        self.world.no_starts = false;
        self.take(&Step::Pause(false));
        self.take(&Step::DisableJob(false));
        for item in 0..5 {
            self.take(&Step::DisableItem(item, false));
        }
        self.world.hosted.values_mut().for_each(|hosted| hosted.ready = true);
        while self.world.hosted.len() > 1 {
            self.kill(0);
        }
        if self.world.hosted.is_empty() {
            self.attached = self.attached.min(24);
            self.world.dead.remove(&worker(self.attached));
            self.attach(9);
        }
        self.slots.values_mut().for_each(|slots| *slots = 9);
        for _ in 0..60 {
            self.take(&Step::ReportAll);
            self.take(&Step::Wait(1000));
        }
        self.take(&Step::ReportAll);
        self.all_told();
    }

    fn all_told(&self) {
        for item in (0..self.world.job.rules.items).map(Item) {
            let (_, record) = &self.world.records[&item];
            let dues: BTreeSet<Time> = self.dues(self.created[&item], record.last_fire).into_iter().collect();
            let told: BTreeMap<Time, &str> = self
                .told
                .iter()
                .filter(|((of, _), _)| *of == item)
                .map(|((_, due), what)| (*due, *what))
                .collect();
            assert_eq!(told.keys().copied().collect::<BTreeSet<_>>(), dues, "item {item}");
            let not_run = told.values().filter(|what| **what == "not run").count() as u64;
            let counters = &record.counters;
            let missed: u64 = counters.missed.values().sum();
            let dropped = self.dropped.get(&item).copied().unwrap_or_default();
            assert_eq!(
                counters.misfired + counters.skipped + missed - dropped,
                not_run,
                "item {item}: {counters:?}"
            );
            let late = self.dues(record.last_fire, self.world.now).len();
            assert!(late <= 1, "item {item} is {late} scheduled times behind: {record:?}");
            if self.world.job.rules.monitor {
                let open = u64::from(matches!(record.state, State::Running(_)));
                assert_eq!(counters.fired, counters.ended() + open, "item {item}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(ProptestConfig::default().cases / 4) })]

    #[test]
    fn an_hour_of_trouble_loses_no_scheduled_time(
        cron in select(vec!["*/7 * * * * ?", "*/20 * * * * ?", "0 * * * * ?", "*/3 * * * * ?"]),
        flags in any::<[bool; 4]>(),
        items in 1..5u32,
        most in select(vec![1, 2, usize::MAX, usize::MAX]),
        steps in vec(step(), 100..200),
    ) {
        let mut hour = Hour::new(cron, flags, items);
        hour.world.most_writes = most;
        for step in &steps {
            hour.take(step);
        }
        hour.end();
    }
}
