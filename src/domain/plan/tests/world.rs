//! A job, its records and its host as plain values, which tests change and plan on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::check::check;
use crate::id::{Epoch, Generation, InstanceId, Item, JobName, Revision, Token, Version, WorkerId};
use crate::item::{Record, Records};
use crate::plan::{Entry, Facts, Hosted, Plan, Progressed, Report, host};
use crate::snapshot::{InstanceNode, InstanceSeen, JobNodes, Node};
use crate::strategy::Assignment;
use crate::time::Time;
use crate::txn::Write;
use crate::view::Job;

/// Noon.
pub(super) fn noon() -> Time {
    Time::parse("2026-11-21T12:00:00Z").unwrap()
}

pub(super) fn instance(n: usize) -> InstanceId {
    let letter = char::from(b'a' + u8::try_from(n).unwrap());
    InstanceId::new(format!("10.0.0.{n}@-@{letter}")).unwrap()
}

pub(super) fn worker(n: usize) -> WorkerId {
    instance(n).worker().unwrap()
}

/// The node of a worker's instance of this job.
pub(super) fn seen() -> InstanceSeen {
    let address = crate::id::ServerAddress::new("10.0.0.1").unwrap();
    let host = crate::id::CoordinatorId::new("c").unwrap();
    let node = InstanceNode { address, slots: 1, client: String::new(), labels: BTreeMap::new(), host };
    InstanceSeen { mine: true, node: Some(node) }
}

/// A job with this schedule, monitored, and with everything else off.
pub(super) fn job(cron: Option<&str>, items: u32) -> Job {
    let name = JobName::new("count").unwrap();
    let mut config = serde_json::json!({"jobName": "count", "shardingTotalCount": items, "timeZone": "UTC",
        "monitorExecution": true, "misfire": false, "failover": false});
    if let Some(cron) = cron {
        config["cron"] = cron.into();
    }
    let nodes = JobNodes {
        revision: Revision(1),
        incarnation: Some("first".into()),
        created: Revision(100),
        base: Token(100),
        handler_type: "count".into(),
        config: Some(Node { data: Arc::from(config.to_string().into_bytes()), version: Version(0) }),
        policy: None,
        paused: false,
        servers: BTreeMap::new(),
        instances: BTreeMap::new(),
        leader: None,
        epoch: Epoch(3),
        generation: Generation(5),
        assignment: Arc::from([]),
        necessary: None,
        failover: BTreeSet::new(),
        announced: BTreeMap::new(),
        triggers: BTreeMap::new(),
        commands: BTreeMap::new(),
        foreign_triggers: BTreeMap::new(),
    };
    Job::decode(&name, &nodes).unwrap().unwrap()
}

/// Makes instance `owners[i]` the owner of item `i`.
pub(super) fn give(job: &mut Job, owners: &[usize]) {
    let mut lists: BTreeMap<InstanceId, Vec<Item>> = BTreeMap::new();
    for (item, owner) in owners.iter().enumerate() {
        lists.entry(instance(*owner)).or_default().push(Item(u32::try_from(item).unwrap()));
    }
    let assignment = Assignment::try_from(lists).unwrap();
    job.sharding = job.sharding.with_assignment(&assignment, u32::try_from(owners.len()).unwrap());
}

#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) job: Job,
    pub(super) records: Records,
    pub(super) now: Time,
    pub(super) up_since: Time,
    pub(super) no_starts: bool,
    pub(super) gained: BTreeMap<Item, Time>,
    pub(super) hosted: BTreeMap<InstanceId, Hosted>,
    pub(super) reports: BTreeMap<Item, Report>,
    pub(super) progressed: BTreeMap<Item, Progressed>,
    pub(super) dead: BTreeSet<WorkerId>,
    pub(super) in_user_code: BTreeSet<Item>,
    pub(super) most_writes: usize,
    pub(super) given: Token,
}

impl World {
    pub(super) fn record_mut(&mut self, item: Item) -> &mut Record {
        Arc::make_mut(&mut self.records.get_mut(&item).unwrap().1)
    }

    /// Each item is idle, never ran, and is owned by the instance named for it; all have a slot for each item.
    pub(super) fn new(mut job: Job, owners: &[usize], now: Time) -> Self {
        give(&mut job, owners);
        let fresh = |item| (Item(item), (Version(0), Record::new(Token(100), now).into()));
        let mut world = Self {
            records: (0..job.rules.items).map(fresh).collect(),
            job,
            now,
            up_since: Time::default(),
            no_starts: false,
            gained: BTreeMap::new(),
            hosted: BTreeMap::new(),
            reports: BTreeMap::new(),
            progressed: BTreeMap::new(),
            dead: BTreeSet::new(),
            in_user_code: BTreeSet::new(),
            most_writes: usize::MAX,
            given: Token(0),
        };
        for owner in owners.iter().copied().collect::<BTreeSet<_>>() {
            world.attach(owner, u32::try_from(owners.len()).unwrap());
        }
        world
    }

    pub(super) fn attach(&mut self, n: usize, free: u32) {
        let hosted =
            Hosted { worker: worker(n), attachment: Version(4), ready: true, free, others: Vec::new() };
        self.hosted.insert(instance(n), hosted);
        self.job.instances.insert(instance(n), seen());
    }

    pub(super) fn facts(&self) -> Facts<'_> {
        Facts {
            now: self.now,
            given: self.given,
            no_starts: self.no_starts,
            up_since: self.up_since,
            gained: &self.gained,
            hosted: &self.hosted,
            reports: &self.reports,
            progressed: &self.progressed,
            writes_progressed: true,
            dead: &self.dead,
            in_user_code: &self.in_user_code,
            timeout_grace: Duration::from_secs(10),
            furthest_last_fire: Time(self.now.0 + 2000),
            most_writes: self.most_writes,
            explain: true,
        }
    }

    /// Plans, and lets the checker check the plan.
    pub(super) fn plan(&self) -> Plan {
        let facts = self.facts();
        let plan = host(&self.job, &self.records, &facts);
        let wrong = check(&self.job, &self.records, &facts, &plan);
        let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        assert!(wrong.is_empty(), "\n{}\nin {plan:#?}\nof {self:#?}", wrong.join("\n"));
        plan
    }

    /// Applies the plan, as the host knows the state after its commit.
    pub(super) fn commit(&mut self, plan: &Plan) {
        self.records.extend(plan.records.clone());
        for entry in &plan.entries {
            match entry {
                Entry::Started { run, .. } => {
                    let hosted = self.hosted.get_mut(&run.instance).unwrap();
                    hosted.free -= 1;
                    hosted.others.truncate(hosted.free as usize);
                }
                Entry::Ended { item, run, .. } => {
                    self.reports.remove(item);
                    let hosted = self.hosted.get_mut(&run.instance);
                    hosted.into_iter().for_each(|hosted| hosted.free += 1);
                }
                Entry::NotRun { .. } => {}
            }
        }
        for (item, _) in &plan.offsets {
            self.progressed.remove(item);
        }
        self.in_user_code.extend(plan.unmonitored.iter().map(|(item, ..)| *item));
        for write in &plan.txn.writes {
            if let Write::RemoveTrigger(_, item) = write {
                self.job.triggers.remove(item);
            }
        }
    }

    /// Plans and commits until nothing is left to do; returns everything that was done.
    pub(super) fn settle(&mut self) -> Plan {
        let mut whole = self.plan();
        self.commit(&whole);
        let mut more = whole.more || freed(&whole);
        while more {
            let plan = self.plan();
            assert!(!plan.txn.writes.is_empty() || !plan.more, "more to do, and nothing is done: {plan:#?}");
            self.commit(&plan);
            more = plan.more || freed(&plan);
            whole.entries.extend(plan.entries);
            whole.reasons.extend(plan.reasons);
            (whole.next, whole.waiting) = (plan.next, plan.waiting);
        }
        let again = self.plan();
        assert!(
            again.txn.writes.is_empty() && !again.more,
            "planning again: {again:#?}\nafter {whole:#?}\nof {self:#?}"
        );
        whole
    }
}

/// Whether its commit frees slots, which are then offered.
fn freed(plan: &Plan) -> bool {
    plan.entries.iter().any(|entry| matches!(entry, Entry::Ended { .. }))
}
