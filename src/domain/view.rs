//! A job as decisions see it: its nodes decoded once, with the rules that follow from its configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::id::{
    CommandName, CoordinatorId, Epoch, Generation, InstanceId, Item, JobName, ServerAddress, Token, Version,
};
use crate::item::{Ahead, Record};
use crate::job::{DstGap, JobConfig, JobSpec, Policy, TooLate};
use crate::mutants;
use crate::schedule::{GapPolicy, RecentTimes, Schedule};
use crate::sharding::Sharding;
use crate::snapshot::{Announced, Command, ForeignTrigger, InstanceSeen, JobNodes, Stage, TriggerNode};
use crate::strategy::{self, Strategy};
use crate::time::Time;

/// One job at one revision.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its name.
    pub name: JobName,
    /// Identifies the job among those of that name.
    pub incarnation: Arc<str>,
    /// The token at which a new record starts.
    pub base: Token,
    /// All tokens of this job are at or above it; those of an earlier job of this name are below.
    pub first: Token,
    /// The handler that runs it.
    pub handler_type: Arc<str>,
    /// Its configuration, as it would be applied again.
    pub spec: Arc<JobSpec>,
    /// The rules that follow from its configuration.
    pub rules: Rules,
    /// The version of `config`.
    pub config_version: Version,
    /// Scheduled fires are held.
    pub paused: bool,
    /// Whether each server is enabled.
    pub servers: BTreeMap<ServerAddress, bool>,
    /// The instances that are there.
    pub instances: BTreeMap<InstanceId, InstanceSeen>,
    /// Its leader, and whether that is this session.
    pub leader: Option<(CoordinatorId, bool)>,
    /// The version of the election.
    pub epoch: Epoch,
    /// The version of the assignment.
    pub generation: Generation,
    /// The assignment, and the rights withdrawn.
    pub sharding: Sharding,
    /// The reshard flag's version.
    pub necessary: Option<Version>,
    /// Crashed items that wait for failover.
    pub failover: BTreeSet<Item>,
    /// Manual triggers that wait for their item.
    pub triggers: BTreeMap<Item, TriggerNode>,
    /// The announcements of the latest fires.
    pub announced: BTreeMap<Stage, Announced>,
    /// Commands to hosts of workers.
    pub commands: BTreeMap<CommandName, Command>,
    /// Commands of older tools.
    pub foreign_triggers: BTreeMap<InstanceId, ForeignTrigger>,
    /// The data that some of it was decoded from.
    source: NodeData,
}

/// The data that takes long to decode and seldom changes.
#[derive(Clone)]
struct NodeData {
    config: Arc<[u8]>,
    policy: Option<Arc<[u8]>>,
    assignment: Arc<[u8]>,
}

/// Omits everything: there may be secrets in it.
impl fmt::Debug for NodeData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

/// The rules that follow from a job's configuration and policy.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The number of items.
    pub items: u32,
    /// When it fires; `None`: manual triggers only.
    pub schedule: Option<Schedule>,
    /// The schedules before it and until when each was in force, oldest first.
    pub before: Vec<(Time, Option<Schedule>)>,
    /// It gets no runs.
    pub disabled: bool,
    /// Runs are kept in the record.
    pub monitor: bool,
    /// Crashed runs are run again.
    pub failover: bool,
    /// Scheduled times skipped while busy are merged into one run.
    pub misfire: bool,
    /// How old a scheduled time may be to be run late on its own.
    pub catch_up: Duration,
    /// For older ones: whether the latest is run once now; otherwise all are missed.
    pub run_late: bool,
    /// How items are assigned to instances.
    pub strategy: &'static dyn Strategy,
    /// Triggers wait for the callback that all items have started.
    pub guarantee_started: bool,
    /// One instance gets a callback when all items have completed.
    pub guarantee_completed: bool,
}

impl Rules {
    /// Whether a scheduled run waits for the callback that all items of the fire have started.
    pub fn holds_for_started(&self) -> bool {
        self.guarantee_started && self.monitor
    }

    /// Whether the leader sometimes sends a callback to a worker: before a fire, or after it.
    pub fn announces(&self) -> bool {
        self.guarantee_completed || self.holds_for_started()
    }

    /// The rules of a configuration; floors come from `sharding`.
    pub fn of(spec: &JobSpec, sharding: &Sharding) -> Result<Self, String> {
        let config = spec.config();
        let gap = spec.policy().gap;
        // A schedule that can no longer be parsed has no scheduled times.
        let read = |(cron, zone): &(String, String)| schedule(cron, zone, gap).ok();
        Ok(Self {
            items: config.sharding_total_count,
            schedule: config.cron.as_deref().map(|cron| schedule(cron, config.zone(), gap)).transpose()?,
            before: sharding.floors().map(|floor| (floor.at, floor.before.as_ref().and_then(read))).collect(),
            disabled: config.disabled,
            monitor: config.monitor_execution,
            failover: config.failover && config.monitor_execution,
            misfire: config.misfire && config.monitor_execution,
            catch_up: spec.policy().catch_up_window,
            run_late: spec.too_late() == TooLate::RunOnce && config.monitor_execution,
            strategy: strategy::by_name(spec.strategy()).map_err(|e| e.to_string())?,
            guarantee_started: spec.policy().guarantee.started,
            guarantee_completed: spec.policy().guarantee.completed,
        })
    }
}

/// Parses a schedule.
pub fn schedule(cron: &str, zone: &str, gap: DstGap) -> Result<Schedule, String> {
    let gap = match gap {
        DstGap::FireAtEnd => GapPolicy::FireAtEnd,
        DstGap::Skip => GapPolicy::Skip,
    };
    Ok(Schedule::parse(cron, zone).map_err(|e| e.to_string())?.with_gap(gap))
}

/// Checks schedule and strategy of a job that is to be applied; returns every defect in words.
pub fn validate(spec: &JobSpec) -> Result<(), crate::job::Defects> {
    let gap = spec.policy().gap;
    spec.validate_with(
        |cron, zone| schedule(cron, zone, gap).map(|_| ()),
        |name| strategy::by_name(name).map(|_| ()).map_err(|e| e.to_string()),
    )
}

/// Decodes `config`, `rosterd/policy` and the job's own node.
fn specification(handler_type: &str, source: &NodeData) -> Result<JobSpec, String> {
    let fields = JobConfig::from_node(&source.config).map_err(|e| format!("config: {e}"))?;
    let policy = source.policy.as_deref().map(Policy::from_node).transpose();
    let policy = policy.map_err(|e| format!("rosterd/policy: {e}"))?;
    JobSpec::stored(handler_type, fields, policy).map_err(|e| e.to_string())
}

impl Job {
    /// Decodes a job's nodes; `None`: it has no incarnation or no config (it is being removed). The error says which
    /// node cannot be understood: only this job is affected, not others.
    pub fn decode(name: &JobName, nodes: &JobNodes) -> Result<Option<Self>, String> {
        Self::decode_after(name, nodes.clone(), None)
    }

    /// The same, reusing what was decoded before from the same data: a job is read far more often than its
    /// configuration changes, and parsing a schedule takes longer than everything else.
    pub fn decode_after(
        name: &JobName,
        nodes: JobNodes,
        before: Option<&Self>,
    ) -> Result<Option<Self>, String> {
        let (Some(incarnation), Some(config)) = (nodes.incarnation, nodes.config) else { return Ok(None) };
        let source = NodeData {
            config: config.data,
            policy: nodes.policy.map(|node| node.data),
            assignment: nodes.assignment,
        };
        let known = before.filter(|before| before.is_specified_by(&nodes.handler_type, &source));
        let spec = match known {
            Some(known) => known.spec.clone(),
            None => Arc::new(specification(&nodes.handler_type, &source)?),
        };
        let sharding = match before.filter(|before| before.source.assignment == source.assignment) {
            Some(before) => before.sharding.clone(),
            None => Sharding::decode(&source.assignment).map_err(|e| e.to_string())?,
        };
        let rules = match known.filter(|known| known.sharding.floors().eq(sharding.floors())) {
            Some(known) => known.rules.clone(),
            None => Rules::of(&spec, &sharding)?,
        };
        Ok(Some(Self {
            name: name.clone(),
            incarnation,
            base: nodes.base,
            first: Token(sharding.numbered.saturating_add(nodes.created.0)),
            handler_type: nodes.handler_type,
            rules,
            spec,
            config_version: config.version,
            paused: nodes.paused,
            servers: nodes.servers,
            instances: nodes.instances,
            leader: nodes.leader,
            epoch: nodes.epoch,
            generation: nodes.generation,
            sharding,
            necessary: nodes.necessary,
            failover: nodes.failover,
            triggers: nodes.triggers,
            announced: nodes.announced,
            commands: nodes.commands,
            foreign_triggers: nodes.foreign_triggers,
            source,
        }))
    }

    /// Whether its specification comes from the same data.
    fn is_specified_by(&self, handler_type: &str, source: &NodeData) -> bool {
        let same = *self.handler_type == *handler_type
            && self.source.config == source.config
            && self.source.policy == source.policy;
        same || mutants::is_on(mutants::SCHEDULE_KEPT)
    }

    /// The latest fire for which this was announced.
    pub fn announced(&self, stage: Stage) -> Option<&Announced> {
        self.announced.get(&stage)
    }

    /// Whether an instance may own items and take runs.
    pub fn is_enabled(&self, instance: &InstanceId) -> bool {
        let server = self.servers.get(instance.address());
        server.is_none_or(|enabled| *enabled) && !self.sharding.disabled_instances.contains(instance)
    }
}

/// The scheduled times of a job: those of the current schedule, and before its floor those of the previous ones.
#[derive(Debug)]
pub struct Timeline<'a> {
    schedule: Option<&'a Schedule>,
    before: &'a [(Time, Option<Schedule>)],
    /// Expression and zone of the schedule.
    stated: Option<(&'a str, &'a str)>,
    /// Most items ask the same. What the schedules remember does not cover a change from one to the next.
    recent: RecentTimes,
}

/// The end of time, for the current schedule.
const FOR_EVER: Time = Time(i64::MAX);

impl<'a> Timeline<'a> {
    /// The scheduled times of `job`.
    pub fn new(job: &'a Job) -> Self {
        let Rules { schedule, before, .. } = &job.rules;
        let config = job.spec.config();
        let stated = config.cron.as_deref().map(|cron| (cron, config.zone()));
        Self { schedule: schedule.as_ref(), before, stated, recent: RecentTimes::default() }
    }

    /// The spans of (after, until] in order, each with the schedule that is in force; those outside are empty.
    fn spans(&self, after: Time, until: Time) -> impl DoubleEndedIterator<Item = (Time, Time, &'a Schedule)> {
        let floors = self.before.iter().map(|(at, schedule)| (*at, schedule.as_ref()));
        let all: Vec<(Time, Option<&'a Schedule>)> = floors.chain([(FOR_EVER, self.schedule)]).collect();
        let from: Vec<Time> = [Time(i64::MIN)].into_iter().chain(all.iter().map(|(at, _)| *at)).collect();
        let spans = from.into_iter().zip(all);
        let cut = spans.map(move |(from, (to, schedule))| (from.max(after), to.min(until), schedule));
        let cut: Vec<_> = cut.filter_map(|(from, to, schedule)| Some((from, to, schedule?))).collect();
        cut.into_iter()
    }

    /// The first scheduled time after `after`.
    pub fn next(&self, after: Time) -> Option<Time> {
        self.recent.next(after, || self.search(after))
    }

    fn search(&self, after: Time) -> Option<Time> {
        // After the last change of schedule, which is nearly always, only the current one counts.
        if self.before.last().is_none_or(|(at, _)| *at <= after) {
            return self.schedule?.next(after);
        }
        let mut spans = self.spans(after, FOR_EVER);
        spans.find_map(|(from, to, schedule)| schedule.next(from).filter(|due| *due <= to))
    }

    /// How many scheduled times lie in (after, until].
    pub fn count(&self, after: Time, until: Time) -> u64 {
        self.spans(after, until).map(|(from, to, schedule)| schedule.count_between(from, to)).sum()
    }

    /// The latest scheduled time in (after, until].
    pub fn latest(&self, after: Time, until: Time) -> Option<Time> {
        self.spans(after, until).rev().find_map(|(from, to, schedule)| schedule.last_at_or_before(to, from))
    }
}

impl Timeline<'_> {
    /// The scheduled times of an item, some of which a clock that was ahead may have accounted for.
    pub fn of<'t>(&'t self, record: &'t Record) -> ItemTimeline<'t> {
        let of_schedule = |ahead: &&Ahead| self.stated == Some((&ahead.schedule.0, &ahead.schedule.1));
        ItemTimeline { line: self, ahead: record.ahead.as_ref().filter(of_schedule) }
    }
}

/// The scheduled times of one item.
#[derive(Debug, Clone, Copy)]
pub struct ItemTimeline<'t> {
    line: &'t Timeline<'t>,
    ahead: Option<&'t Ahead>,
}

impl ItemTimeline<'_> {
    /// The first scheduled time after `after`.
    pub fn next(&self, after: Time) -> Option<Time> {
        let next = self.line.next(after)?;
        match self.ahead.filter(|ahead| ahead.has(next)) {
            Some(ahead) => self.line.next(ahead.until),
            None => Some(next),
        }
    }

    /// How many scheduled times lie in (after, until].
    pub fn count(&self, after: Time, until: Time) -> u64 {
        let all = self.line.count(after, until);
        let Some(ahead) = self.ahead else { return all };
        let (since, upto) = (ahead.since.max(after), ahead.until.min(until));
        all - if since < upto { self.line.count(since, upto) } else { 0 }
    }

    /// The latest scheduled time in (after, until].
    pub fn latest(&self, after: Time, until: Time) -> Option<Time> {
        let latest = self.line.latest(after, until)?;
        match self.ahead.filter(|ahead| ahead.has(latest)) {
            Some(ahead) if ahead.since > after => self.line.latest(after, ahead.since),
            Some(_) => None,
            None => Some(latest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Revision;
    use crate::snapshot::Node;

    /// Two changes of schedule in quick succession: the scheduled times of the first schedule are not forgotten.
    #[test]
    fn scheduled_times_before_several_changes_of_schedule_are_all_known() {
        let every =
            |seconds: u32| schedule(&format!("0/{seconds} * * * * ?"), "UTC", DstGap::FireAtEnd).unwrap();
        let (two, five, one) = (every(2), every(5), every(1));
        let at = Time::from_seconds;
        let before = vec![(at(11), Some(two)), (at(19), Some(five))];
        let line =
            Timeline { schedule: Some(&one), before: &before, stated: None, recent: RecentTimes::default() };
        let mut due = Vec::new();
        let mut after = at(6);
        while let Some(next) = line.next(after).filter(|next| *next <= at(22)) {
            due.push(next.0 / 1000);
            after = next;
        }
        assert_eq!(due, [8, 10, 15, 20, 21, 22]);
        assert_eq!(line.count(at(6), at(22)), 6);
        assert_eq!(line.latest(at(6), at(14)), Some(at(10)));
        assert_eq!(line.latest(at(10), at(14)), None);
    }

    fn nodes(config: &str, policy: Option<&str>, assignment: &Sharding) -> JobNodes {
        let node = |text: &str| Node { data: text.as_bytes().into(), version: Version(0) };
        JobNodes {
            revision: Revision(1),
            incarnation: Some("first".into()),
            created: Revision(1),
            base: Token(1),
            handler_type: "j".into(),
            config: Some(node(config)),
            policy: policy.map(node),
            paused: false,
            servers: BTreeMap::new(),
            instances: BTreeMap::new(),
            leader: None,
            epoch: Epoch(0),
            generation: Generation(0),
            assignment: assignment.encode().into(),
            necessary: None,
            failover: BTreeSet::new(),
            triggers: BTreeMap::new(),
            announced: BTreeMap::new(),
            commands: BTreeMap::new(),
            foreign_triggers: BTreeMap::new(),
        }
    }

    fn rules(monitored: bool, more: &str, policy: &str) -> Rules {
        let config =
            format!(r#"{{"jobName":"j","shardingTotalCount":2,"monitorExecution":{monitored}{more}}}"#);
        let nodes = nodes(&config, Some(policy), &Sharding::made_at(Time(5)));
        let job = Job::decode(&JobName::new("j").unwrap(), &nodes).unwrap().unwrap();
        assert_eq!(format!("{:?}", job.source), "Source { .. }");
        job.rules
    }

    /// Without records of runs, failover and misfire are not possible.
    #[test]
    fn failover_misfires_and_late_runs_need_records_of_runs() {
        let on = |monitored, more: &str, policy: &str| {
            let rules = rules(monitored, more, policy);
            [rules.failover, rules.misfire, rules.run_late]
        };
        let both = r#","failover":true,"misfire":true"#;
        assert_eq!(on(true, both, "{}"), [true, true, true]);
        assert_eq!(on(true, r#","failover":false,"misfire":false"#, "{}"), [false, false, false]);
        assert_eq!(on(false, both, "{}"), [false, false, false]);
        assert_eq!(on(true, both, r#"{"too_late":"missed"}"#), [true, true, false]);
    }

    /// Only runs that records hold can be held.
    #[test]
    fn a_guarantee_of_starts_needs_records_of_runs() {
        let rules = |monitored, policy: &str| {
            let rules = rules(monitored, "", policy);
            (rules.holds_for_started(), rules.announces())
        };
        assert_eq!(rules(true, "{}"), (false, false));
        assert_eq!(rules(true, r#"{"guarantee":{"started":true}}"#), (true, true));
        assert_eq!(rules(false, r#"{"guarantee":{"completed":true}}"#), (false, true));
    }

    /// Whatever was decoded before, a job is what its nodes say now.
    #[test]
    fn what_is_kept_is_what_would_be_decoded() {
        let name = JobName::new("j").unwrap();
        let two = r#"{"jobName":"j","cron":"0/2 * * * * ?","shardingTotalCount":2}"#;
        let five =
            r#"{"jobName":"j","cron":"0/5 * * * * ?","timeZone":"Europe/Berlin","shardingTotalCount":3}"#;
        let plain = Sharding::made_at(Time(5));
        let before = Some(("0/7 * * * * ?".to_owned(), "UTC".to_owned()));
        let changed = plain.with_floor(Time(9000), before, Time(0));
        let mut variants = vec![
            nodes(two, None, &plain),
            nodes(five, None, &plain),
            nodes(two, Some(r#"{"strategy":"STICKY"}"#), &plain),
            nodes(two, None, &plain.withdrawn()),
            nodes(two, None, &changed),
            nodes("{", None, &plain),
        ];
        variants.push(JobNodes { handler_type: "other".into(), paused: true, ..variants[0].clone() });
        variants.push(JobNodes { incarnation: None, ..variants[0].clone() });
        let fresh: Vec<_> = variants.iter().map(|nodes| Job::decode(&name, nodes)).collect();
        let shown: BTreeSet<String> = fresh.iter().map(|job| format!("{job:?}")).collect();
        assert_eq!(shown.len(), variants.len(), "each differs from the others: {shown:#?}");
        for before in fresh.iter().filter_map(|job| job.as_ref().ok()?.as_ref()) {
            for (nodes, fresh) in variants.iter().zip(&fresh) {
                let kept = Job::decode_after(&name, nodes.clone(), Some(before));
                assert_eq!(format!("{kept:?}"), format!("{fresh:?}"));
                if let (Ok(Some(kept)), Ok(Some(fresh))) = (kept, fresh) {
                    assert_eq!((kept.spec, kept.sharding), (fresh.spec.clone(), fresh.sharding.clone()));
                }
            }
        }
        let first = fresh[0].clone().unwrap().unwrap();
        let again = Job::decode_after(&name, variants[3].clone(), Some(&first)).unwrap().unwrap();
        assert!(Arc::ptr_eq(&first.spec, &again.spec), "an unchanged configuration is not read again");
    }
}
