//! Situations of items, and their explanations: read these as the answers that people get.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{Attached, Facts, Stay, explain};
use crate::id::{
    CoordinatorId, Epoch, Generation, InstanceId, Item, JobName, Revision, ServerAddress, Token, TriggerId,
    Version, WorkerId,
};
use crate::item::{Crashed, Ended, Outcome, Record, Records, Running, Source, State};
use crate::sharding::Sharding;
use crate::snapshot::{InstanceNode, InstanceSeen, JobNodes, Node, TriggerNode};
use crate::strategy::Assignment;
use crate::time::Time;
use crate::view::Job;

fn noon() -> Time {
    Time::parse("2026-11-25T12:00:00Z").unwrap()
}

fn ago(seconds: u64) -> Time {
    noon().minus(Duration::from_secs(seconds))
}

fn instance(n: u32) -> InstanceId {
    InstanceId::new(format!("10.0.0.{n}@-@w{n}")).unwrap()
}

/// Everything that is known when the question is asked.
struct Scene {
    job: Job,
    records: Records,
    facts: Facts,
}

impl Scene {
    /// `report` fires each minute; workers 1 and 2 share four items, as the strategy assigns them.
    fn new() -> Self {
        Self::with(r#""cron":"0 * * * * ?","timeZone":"UTC","failover":true,"misfire":true,"#)
    }

    fn with(fields: &str) -> Self {
        let config =
            format!(r#"{{"jobName":"report",{fields}"monitorExecution":true,"shardingTotalCount":4}}"#);
        let nodes = JobNodes {
            revision: Revision(1),
            incarnation: Some("first".into()),
            created: Revision(100),
            base: Token(100),
            handler_type: "report".into(),
            config: Some(Node { data: Arc::from(config.into_bytes()), version: Version(0) }),
            policy: None,
            paused: false,
            servers: BTreeMap::new(),
            instances: BTreeMap::new(),
            leader: Some((CoordinatorId::new("c1").unwrap(), true)),
            epoch: Epoch(3),
            generation: Generation(5),
            assignment: Sharding::made_at(ago(7200)).encode().into(),
            necessary: None,
            failover: BTreeSet::new(),
            announced: BTreeMap::new(),
            triggers: BTreeMap::new(),
            commands: BTreeMap::new(),
            foreign_triggers: BTreeMap::new(),
        };
        let job = Job::decode(&JobName::new("report").unwrap(), &nodes).unwrap().unwrap();
        let idle = |item| (Item(item), (Version(0), Record::new(Token(100), ago(30)).into()));
        let records = (0..4).map(idle).collect();
        let facts = Facts { now: noon().plus(Duration::from_secs(30)), ..Facts::default() };
        let mut scene = Self { job, records, facts };
        // Accounted for up to noon.
        for (_, record) in scene.records.values_mut() {
            Arc::make_mut(record).last_fire = noon();
        }
        scene.come(1);
        scene.come(2);
        scene.give(&[2, 2, 1, 1]);
        scene
    }

    fn come(&mut self, n: u32) {
        let address = ServerAddress::new(format!("10.0.0.{n}")).unwrap();
        let host = CoordinatorId::new("c1").unwrap();
        let node = InstanceNode {
            address,
            slots: 1,
            client: String::new(),
            labels: BTreeMap::new(),
            host: host.clone(),
        };
        self.job.instances.insert(instance(n), InstanceSeen { mine: true, node: Some(node) });
        self.facts.attached.insert(instance(n), Attached { host, leaves: false });
    }

    fn die(&mut self, n: u32) {
        self.job.instances.remove(&instance(n));
        self.facts.attached.remove(&instance(n));
    }

    fn give(&mut self, owners: &[u32]) {
        let mut lists: BTreeMap<InstanceId, Vec<Item>> = BTreeMap::new();
        for (item, owner) in (0..).zip(owners) {
            lists.entry(instance(*owner)).or_default().push(Item(item));
        }
        let assignment = Assignment::try_from(lists).unwrap();
        self.job.sharding = self.job.sharding.with_assignment(&assignment, 4);
    }

    fn record(&mut self, item: u32) -> &mut Record {
        Arc::make_mut(&mut self.records.get_mut(&Item(item)).unwrap().1)
    }

    fn run(&self, n: u32, since: Time) -> Running {
        Running {
            fire: noon(),
            source: Source::NormalTrigger,
            instance: instance(n),
            worker: WorkerId::new(format!("w{n}")).unwrap(),
            since,
            trigger: None,
            held: false,
            cancelled: false,
            deaths: 0,
        }
    }

    fn told(&self, item: u32) -> Vec<String> {
        let sentences = explain(&self.job, &self.records, Item(item), &self.facts).unwrap();
        for sentence in &sentences {
            for link in &sentence.links {
                assert!(sentence.text.contains(&link.text), "{link:?} is not part of {}", sentence.text);
            }
        }
        sentences.into_iter().map(|sentence| sentence.text).collect()
    }

    #[track_caller]
    fn tells(&self, item: u32, expected: &[&str]) {
        let told = self.told(item);
        assert_eq!(told, expected, "told:\n{}", told.join("\n"));
    }

    /// One of its sentences.
    #[track_caller]
    fn mentions(&self, item: u32, expected: &str) {
        let told = self.told(item);
        assert!(told.iter().any(|told| told == expected), "missing: {expected}\nin:\n{}", told.join("\n"));
    }
}

const RULE: &str = "AVG_ALLOCATION, which deals blocks of neighboring items in descending order of ids, shares 4 items out among 2 \
                    enabled instances: 2 each.";
const NEXT: &str = "It runs next at 2026-11-25T12:01:00Z (in 30 s), by 0 * * * * ? in UTC.";

#[test]
fn an_item_that_is_well() {
    let mut scene = Scene::new();
    scene.record(0).last = Some(Ended {
        token: Token(117),
        fire: noon(),
        source: Source::NormalTrigger,
        instance: instance(2),
        outcome: Outcome::TimedOut,
        at: noon().plus(Duration::from_secs(7)),
        reported: true,
    });
    let stay = |n, from, to, reason: &str, end: &str| Stay {
        instance: instance(n),
        from,
        to,
        reason: reason.into(),
        end_reason: end.into(),
    };
    scene.facts.stays = vec![
        stay(2, ago(3600), None, "10.0.0.3@-@w3 has gone", ""),
        stay(3, ago(7200), Some(ago(3600)), "first assignment", "10.0.0.3@-@w3 has gone"),
    ];
    let rule = format!("{RULE} 10.0.0.2@-@w2 is number 1 of them, and gets 0-1.");
    scene.tells(
        0,
        &[
            "10.0.0.2@-@w2 owns item 0 of report; its worker is attached to coordinator c1.",
            &rule,
            "10.0.0.1@-@w1 may own items, too, and has 2-3.",
            "It has had this owner since 2026-11-25T11:00:00Z (60 min ago): 10.0.0.3@-@w3 has gone.",
            "Before, 10.0.0.3@-@w3 had it for 60 min, until 2026-11-25T11:00:00Z: 10.0.0.3@-@w3 has gone.",
            "Nothing is due, and nothing blocks it.",
            "Its last run, NORMAL_TRIGGER of 2026-11-25T12:00:00Z, token 117, timed out on 10.0.0.2@-@w2 at 2026-11-25T12:00:07Z (23 s ago).",
            NEXT,
        ],
    );
}

#[test]
fn words_are_linked_to_their_pages() {
    let mut scene = Scene::new();
    *scene.record(0) = Record { state: State::Running(scene.run(1, noon())), ..scene.record(0).clone() };
    let sentences = explain(&scene.job, &scene.records, Item(0), &scene.facts).unwrap();
    let links: BTreeSet<(String, String)> = sentences
        .into_iter()
        .flat_map(|sentence| sentence.links)
        .map(|link| (link.text, link.href))
        .collect();
    let expected = [
        ("0 * * * * ? in UTC", "jobs/report?tab=config"),
        ("10.0.0.1@-@w1", "workers?q=10.0.0.1%40-%40w1"),
        ("10.0.0.2@-@w2", "workers?q=10.0.0.2%40-%40w2"),
        ("AVG_ALLOCATION", "jobs/report?tab=config"),
        ("c1", "cluster"),
        ("report", "jobs/report"),
        ("the history", "jobs/report?tab=ownership"),
        ("token 100", "jobs/report/runs/0/100"),
    ];
    let expected: BTreeSet<_> = expected.map(|(text, href)| (text.to_owned(), href.to_owned())).into();
    assert_eq!(links, expected);
}

#[test]
fn rejected_instances_are_listed_with_the_reason() {
    let mut scene = Scene::new();
    (3..=7).for_each(|n| scene.come(n));
    scene
        .facts
        .attached
        .insert(instance(8), Attached { host: CoordinatorId::new("c1").unwrap(), leaves: false });
    scene.facts.attached.get_mut(&instance(3)).unwrap().leaves = true;
    scene.job.servers.insert(ServerAddress::new("10.0.0.4").unwrap(), false);
    scene.job.servers.insert(ServerAddress::new("10.0.0.9").unwrap(), false);
    scene.job.sharding.disabled_instances.insert(instance(5));
    scene.job.instances.get_mut(&instance(6)).unwrap().node = None;
    scene.die(7);
    scene.give(&[2, 2, 1, 7]);
    let told = scene.told(2);
    let rejected: Vec<&str> = told[2..9].iter().map(String::as_str).collect();
    let expected = [
        "10.0.0.2@-@w2 may own items, too, and has 0-1.",
        "10.0.0.3@-@w3 gets no items: its worker is leaving.",
        "10.0.0.4@-@w4 gets no items: machine 10.0.0.4 is disabled for report.",
        "10.0.0.5@-@w5 gets no items: the instance is disabled for report.",
        "10.0.0.6@-@w6 gets no items: it is an instance of Elastic-Job itself, not of a rosterd worker.",
        "10.0.0.7@-@w7 gets no items: it no longer exists.",
        "Workers on machine 10.0.0.9 would get no items: it is disabled for report.",
    ];
    assert_eq!(rejected, expected);
    scene.mentions(2, "10.0.0.8@-@w8 is attached and has not registered report.");
}

#[test]
fn every_strategy_says_how_it_deals() {
    let rule = |name: &str| {
        let scene = Scene::with(&format!(r#""jobShardingStrategyType":"{name}","#));
        scene.told(0)[1].clone()
    };
    let shares = "shares 4 items out among 2 enabled instances: 2 each.";
    let dealt = "deals blocks of neighboring items in";
    let own = "10.0.0.2@-@w2 is number 1 of them, and gets 0-1.";
    assert_eq!(
        rule("ODEVITY"),
        format!(
            "ODEVITY, which {dealt} ascending order of ids, since the hash of the job's name is even, {shares} With the next plan 10.0.0.1@-@w1 gets item 0."
        )
    );
    assert_eq!(
        rule("ROUND_ROBIN"),
        format!(
            "ROUND_ROBIN, which {dealt} descending order of ids, beginning with 10.0.0.2@-@w2 by the hash of the job's name, {shares} {own}"
        )
    );
    assert_eq!(rule("STICKY"), format!("STICKY, which moves no more items than it must, {shares} {own}"));
}

#[test]
fn an_item_that_runs() {
    let mut scene = Scene::new();
    let state = State::Running(Running { cancelled: true, held: true, ..scene.run(1, noon()) });
    scene.record(0).state = state;
    scene.mentions(
        0,
        "It runs: NORMAL_TRIGGER of 2026-11-25T12:00:00Z, token 100, on 10.0.0.1@-@w1 since 2026-11-25T12:00:00Z (30 s ago); its owner \
         gets it from the next run on.",
    );
    scene.mentions(0, "It was cancelled: it ends as soon as its worker has stopped it.");
    scene.mentions(
        0,
        "It is sent to its worker once the callback for the start of all items of the fire has been answered.",
    );
    scene.mentions(
        0,
        "It runs next at 2026-11-25T12:01:00Z (in 30 s), by 0 * * * * ? in UTC; if it is still busy then, right after that.",
    );
    scene.die(1);
    scene.mentions(
        0,
        "10.0.0.1@-@w1 is not attached: the run stands until its lease is over, then it counts as crashed, and another instance \
         runs it again.",
    );
    scene.job.rules.failover = false;
    scene.job.rules.misfire = false;
    scene.mentions(
        0,
        "10.0.0.1@-@w1 is not attached: the run stands until its lease is over, then it counts as crashed; failover is off, so it is \
         not run again.",
    );
    scene.mentions(
        0,
        "It runs next at 2026-11-25T12:01:00Z (in 30 s), by 0 * * * * ? in UTC; if it is still busy then, that time is skipped.",
    );
}

#[test]
fn an_item_whose_run_crashed() {
    let mut scene = Scene::new();
    scene.record(0).state = State::Crashed(Crashed {
        fire: noon(),
        instance: instance(1),
        since: noon(),
        held: false,
        deaths: 2,
    });
    scene.mentions(
        0,
        "Its run of 2026-11-25T12:00:00Z crashed on 10.0.0.1@-@w1 at 2026-11-25T12:00:00Z (30 s ago): it is run again as soon as an \
         enabled instance has a free slot. So many workers died while they ran it: 2; after 3 it is given up.",
    );
    (1..=2).for_each(|n| scene.die(n));
    assert!(scene.told(0).iter().any(|told| told.contains("no enabled instance is there to run it again")));
}

#[test]
fn an_item_that_is_held() {
    let mut scene = Scene::new();
    (scene.job.paused, scene.job.rules.disabled) = (true, true);
    scene.job.sharding.disabled_items.insert(Item(0));
    scene.job.necessary = Some(Version(1));
    scene.record(0).misfire = Some(noon());
    let told = scene.told(0);
    let waits: Vec<&str> = told[4..].iter().map(String::as_str).collect();
    let expected = [
        "report is disabled: nothing starts until it is enabled.",
        "Item 0 of report is disabled: nothing starts until it is enabled.",
        "report is paused: scheduled times are recorded as missed (paused) until it is resumed.",
        "The items of report are about to be reassigned.",
        "Scheduled times up to 2026-11-25T12:00:00Z came while it was busy: they are merged into one run, which waits until the job is \
         resumed.",
        "By its schedule, 0 * * * * ? in UTC, it would run at 2026-11-25T12:01:00Z (in 30 s); held so, that time is recorded as missed.",
    ];
    assert_eq!(waits, expected);
}

#[test]
fn an_item_that_is_due_and_has_not_begun() {
    let mut scene = Scene::new();
    scene.record(0).last_fire = ago(60);
    let due = |why: &str| format!("2026-11-25T12:00:00Z is due for 30 s: {why}.");
    scene.record(1).state = State::Running(scene.run(2, noon()));
    let slots = "it waits for a free slot of 10.0.0.2@-@w2, which has 1 slot over all its jobs; report takes 1 of them";
    scene.mentions(0, &due(slots));
    let c1 = CoordinatorId::new("c1").unwrap();
    scene.facts.idle.insert(c1, "its clock is 90000 ms ahead of the store's".into());
    scene.mentions(
        0,
        &due("its coordinator c1 fires nothing, since its clock is 90000 ms ahead of the store's"),
    );
    scene.die(2);
    scene.mentions(0, &due("its owner, 10.0.0.2@-@w2, has gone"));
    scene.job.sharding = scene.job.sharding.without(&instance(2));
    scene.mentions(0, &due("nobody owns it"));
    scene.mentions(0, "Nobody owns item 0 of report: the leader, c1, is about to reassign the items.");
    scene.mentions(
        0,
        "By its schedule, 0 * * * * ? in UTC, it runs at 2026-11-25T12:01:00Z (in 30 s), if somebody owns it by then.",
    );
    scene.die(1);
    scene.mentions(0, "Nobody owns item 0 of report: no worker has registered the job.");
    scene.job.leader = None;
    scene.come(1);
    scene.mentions(
        0,
        "Nobody owns item 0 of report: the job has no leader at the moment, and one is about to be elected.",
    );
    scene.record(0).last_fire = noon();
    scene.facts.now = noon().plus(Duration::from_millis(61_000));
    scene.come(2);
    scene.give(&[2, 2, 1, 1]);
    scene.facts.idle.clear();
    scene.mentions(0, "2026-11-25T12:01:00Z is due for 1 s: its host is about to start it.");
}

#[test]
fn an_item_whose_worker_is_away_is_kept_for_it() {
    let mut scene = Scene::new();
    scene.job.instances.remove(&instance(2));
    scene.mentions(
        0,
        "10.0.0.2@-@w2 owns item 0 of report, and is away and may come back: nobody else is given it before its lease is over.",
    );
}

#[test]
fn an_item_without_a_schedule_and_one_that_is_triggered() {
    let mut scene = Scene::with("");
    let trigger = TriggerNode { id: TriggerId::new("t-1").unwrap(), at: noon() };
    scene.job.triggers.insert(Item(0), trigger);
    scene.mentions(0, "A manual trigger of 2026-11-25T12:00:00Z (30 s ago) waits for it (t-1).");
    scene.mentions(0, "It has no schedule: it runs only when triggered manually.");
    scene.mentions(1, "Nothing is due, and nothing blocks it.");
}

#[test]
fn an_item_that_a_wrong_clock_has_silenced() {
    let mut scene = Scene::new();
    scene.record(0).last_fire = noon().plus(Duration::from_secs(3600));
    scene.mentions(
        0,
        "Its last fire, 2026-11-25T13:00:00Z, lies in the future: a clock was ahead when it was written. It is silent until then; a \
         manual trigger runs it.",
    );
    scene.mentions(0, "It runs next at 2026-11-25T13:01:00Z (in 60 min), by 0 * * * * ? in UTC.");
}

#[test]
fn items_beyond_the_count_and_items_that_never_were() {
    let mut scene = Scene::new();
    scene.job.rules.items = 3;
    scene.tells(
        3,
        &["Item 3 of report is beyond its 3 items: nobody runs it, and its record is kept for when the count is raised."],
    );
    assert_eq!(explain(&scene.job, &scene.records, Item(9), &scene.facts), None);
    scene.records.remove(&Item(0));
    scene.mentions(0, "It has no record yet: the leader writes one, and nothing runs before.");
}

#[test]
fn of_many_candidates_only_some_are_named() {
    let mut scene = Scene::new();
    (3..=12).for_each(|n| scene.come(n));
    scene.mentions(0, "5 more may own items, too.");
    for n in 20..30 {
        scene
            .facts
            .attached
            .insert(instance(n), Attached { host: CoordinatorId::new("c1").unwrap(), leaves: false });
    }
    assert!(
        scene
            .told(0)
            .iter()
            .any(|told| told.ends_with(" and 4 more are attached and have not registered report."))
    );
}
