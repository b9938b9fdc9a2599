//! The part of a job that Elastic-Job has no field for: our own node `rosterd/policy`, JSON.
//!
//! Never holds what Elastic-Job could read from `config`. Made by the parsers of this module, read by everyone that
//! plans, fires or watches runs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::config::{MAX_WORD, kept_defect, text_defect};
use super::defect::{Defect, DefectKind, Defects, nearest};
use super::fields::{POLICY_FIELDS, PolicyField};
use super::reader::FieldReader;
use super::tree;

/// Largest policy node read, in bytes.
pub const MAX_POLICY: usize = 128 << 10;

/// How a run is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JobKind {
    /// The handler is called once.
    #[default]
    Simple,
    /// Fetch, then process what was fetched.
    Dataflow {
        /// Repeat until there is nothing to fetch.
        streaming: bool,
    },
    /// A program; its command line is the property `script.command.line`.
    Command,
}

/// What to do with fires older than the catch-up window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooLate {
    /// One run for all of them.
    RunOnce,
    /// Record the gap.
    Missed,
}

/// What to do with a scheduled time that daylight saving skips.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DstGap {
    /// It fires at the end of the skipped hour.
    #[default]
    FireAtEnd,
    /// It does not fire.
    Skip,
}

/// Attempts of one run: same token, same instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Attempts including the first; at least 1.
    pub max_attempts: u32,
    /// Pause before the second attempt.
    pub backoff: Duration,
    /// Each further pause is this many times as long; at least 1.
    pub backoff_multiplier: u32,
    /// Longest pause.
    pub backoff_max: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        let (backoff, backoff_max) = (Duration::from_secs(1), Duration::from_secs(60));
        Self { max_attempts: 1, backoff, backoff_multiplier: 2, backoff_max }
    }
}

/// What to do with a held fire whose callback is not answered in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnTimeout {
    /// It runs.
    #[default]
    Run,
    /// It is skipped.
    Skip,
}

/// Announcements that all items of a fire are about to start, or have completed, each sent once, to one instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guarantee {
    /// Announce the start, and hold the fire until that is answered.
    pub started: bool,
    /// Announce the completion.
    pub completed: bool,
    /// How long to wait for an answer.
    pub timeout: Duration,
    /// What to do with the held fire after that.
    pub on_timeout: OnTimeout,
}

impl Default for Guarantee {
    fn default() -> Self {
        let timeout = Duration::from_secs(60);
        Self { started: false, completed: false, timeout, on_timeout: OnTimeout::default() }
    }
}

/// The policy of one job.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// How a run is executed.
    pub kind: JobKind,
    /// A fire found late runs as if on time up to this age.
    pub catch_up_window: Duration,
    /// What to do with older ones; `None`: depends on misfire.
    pub too_late: Option<TooLate>,
    /// What to do with a scheduled time that daylight saving skips.
    pub gap: DstGap,
    /// Attempts of one run.
    pub retries: Retries,
    /// A run that takes longer is cancelled.
    pub run_timeout: Option<Duration>,
    /// A run is given up if more workers than this died while they ran it.
    pub max_failovers: u32,
    /// A silent worker is marked dead after this; `None`: after the lease.
    pub disconnect_grace: Option<Duration>,
    /// A strategy that Elastic-Job does not have; it overrides `jobShardingStrategyType`.
    pub strategy: Option<String>,
    /// Announcements to the workers.
    pub guarantee: Guarantee,
    /// A host whose clock differs by more than this does not fire the job; `None`: the coordinator's limit.
    pub max_clock_diff: Option<Duration>,
    /// Fields of Elastic-Job 1.x and 2.x that 3.x does not have, kept unchanged.
    pub elastic_job: BTreeMap<String, Value>,
    /// Fields of a newer rosterd, also below fields that this version knows: kept, and without effect.
    pub later: BTreeMap<String, Value>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            kind: JobKind::default(),
            catch_up_window: Duration::from_secs(10),
            too_late: None,
            gap: DstGap::default(),
            retries: Retries::default(),
            run_timeout: None,
            max_failovers: 3,
            disconnect_grace: None,
            strategy: None,
            guarantee: Guarantee::default(),
            max_clock_diff: None,
            elastic_job: BTreeMap::new(),
            later: BTreeMap::new(),
        }
    }
}

const TOO_LATE: [(&str, TooLate); 2] = [("run_once", TooLate::RunOnce), ("missed", TooLate::Missed)];
const GAP: [(&str, DstGap); 2] = [("fire_at_end", DstGap::FireAtEnd), ("skip", DstGap::Skip)];
const ON_TIMEOUT: [(&str, OnTimeout); 2] = [("run", OnTimeout::Run), ("skip", OnTimeout::Skip)];
const KIND: [(&str, JobKind); 3] = [
    ("simple", JobKind::Simple),
    ("dataflow", JobKind::Dataflow { streaming: false }),
    ("command", JobKind::Command),
];

const DAY: i64 = 86_400_000;

fn word<T: PartialEq + Copy>(choices: &[(&'static str, T)], value: T) -> &'static str {
    choices.iter().find(|(_, choice)| *choice == value).map_or("", |(word, _)| word)
}

fn ms(duration: Duration) -> Value {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).into()
}

impl JobKind {
    /// `simple`, `dataflow` or `command`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dataflow { .. } => "dataflow",
            kind => word(&KIND, kind),
        }
    }
}

impl Policy {
    /// Decodes the node. Unknown fields belong to a newer rosterd, and are kept: only rosterd writes this node, and a
    /// user's typo was refused in the job file.
    pub fn from_node(bytes: &[u8]) -> Result<Self, Defects> {
        let mut documents = tree::documents(bytes, MAX_POLICY)?.into_iter();
        let (Some(Value::Object(values)), None) = (documents.next(), documents.next()) else {
            let defect =
                Defect::new(DefectKind::Unreadable, "", "it is not a mapping", "write the policy again");
            return Err(defect.into());
        };
        let mut reader = FieldReader::new(values, "").keeping();
        let (mut policy, _) = read(&mut reader);
        policy.later = reader.rest();
        reader.defects.extend(kept_defect("the fields of a later version", &policy.later));
        Defects::none_or(reader.defects, policy)
    }

    /// This policy as the replacement of `stored`: fields of a later version that `stored` has are kept.
    pub fn replacing(&self, stored: &Self) -> Self {
        let mut next = self.clone();
        for (name, value) in &stored.later {
            next.later.entry(name.clone()).or_insert_with(|| value.clone());
        }
        next
    }

    /// Encodes the node: JSON, every field that has a value, sorted by name.
    pub fn to_json(&self) -> String {
        Value::Object(self.values()).to_string()
    }

    /// The node's fields.
    pub(super) fn values(&self) -> Map<String, Value> {
        let mut values = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            value.map(|value| values.insert(name.to_owned(), value));
        };
        set("catch_up_window_ms", Some(ms(self.catch_up_window)));
        set("disconnect_grace_ms", self.disconnect_grace.map(ms));
        let kept = || Value::Object(self.elastic_job.clone().into_iter().collect());
        set("elastic_job", (!self.elastic_job.is_empty()).then(kept));
        set("gap", Some(word(&GAP, self.gap).into()));
        set("guarantee", Some(self.guarantee.value()));
        set("kind", Some(self.kind.as_str().into()));
        set("max_clock_diff_ms", self.max_clock_diff.map(ms));
        set("max_failovers", Some(self.max_failovers.into()));
        set("retries", Some(self.retries.value()));
        set("run_timeout_ms", self.run_timeout.map(ms));
        set("strategy", self.strategy.as_deref().map(Value::from));
        if let JobKind::Dataflow { streaming } = self.kind {
            set("streaming", Some(streaming.into()));
        }
        set("too_late", self.too_late.map(|too_late| word(&TOO_LATE, too_late).into()));
        for (name, value) in &self.later {
            match (values.get_mut(name), value) {
                (Some(Value::Object(ours)), Value::Object(below)) => ours.extend(below.clone()),
                _ => drop(values.insert(name.clone(), value.clone())),
            }
        }
        values
    }

    /// The rules of a policy, however it was made.
    pub(super) fn check(&self) -> Vec<Defect> {
        let mut reader = FieldReader::new(self.values(), "").keeping();
        read(&mut reader);
        reader.defects
    }
}

impl Retries {
    fn value(&self) -> Value {
        json!({
            "max_attempts": self.max_attempts,
            "backoff_ms": ms(self.backoff),
            "backoff_multiplier": self.backoff_multiplier,
            "backoff_max_ms": ms(self.backoff_max),
        })
    }

    fn read(reader: &mut FieldReader) -> Self {
        let default = Self::default();
        let small = |number: i64| u32::try_from(number).ok();
        let attempts = reader.integer("max_attempts", 1..=100).and_then(small);
        let multiplier = reader.integer("backoff_multiplier", 1..=100).and_then(small);
        Self {
            max_attempts: attempts.unwrap_or(default.max_attempts),
            backoff: reader.millis("backoff_ms", 0..=DAY).unwrap_or(default.backoff),
            backoff_multiplier: multiplier.unwrap_or(default.backoff_multiplier),
            backoff_max: reader.millis("backoff_max_ms", 0..=DAY).unwrap_or(default.backoff_max),
        }
    }
}

impl Guarantee {
    fn value(&self) -> Value {
        json!({
            "started": self.started,
            "completed": self.completed,
            "timeout_ms": ms(self.timeout),
            "on_timeout": word(&ON_TIMEOUT, self.on_timeout),
        })
    }

    fn read(reader: &mut FieldReader) -> Self {
        let default = Self::default();
        Self {
            started: reader.flag("started").unwrap_or(default.started),
            completed: reader.flag("completed").unwrap_or(default.completed),
            timeout: reader.millis("timeout_ms", 1..=DAY).unwrap_or(default.timeout),
            on_timeout: reader.choice("on_timeout", &ON_TIMEOUT).unwrap_or(default.on_timeout),
        }
    }
}

/// Takes the policy's fields; returns whether the kind was named. Fields that are left belong to others.
pub(super) fn read(reader: &mut FieldReader) -> (Policy, bool) {
    let default = Policy::default();
    let kind = read_kind(reader);
    let policy = Policy {
        kind: kind.unwrap_or_default(),
        catch_up_window: reader.millis("catch_up_window_ms", 0..=DAY).unwrap_or(default.catch_up_window),
        too_late: reader.choice("too_late", &TOO_LATE),
        gap: reader.choice("gap", &GAP).unwrap_or(default.gap),
        retries: within(reader, "retries", Retries::read),
        run_timeout: reader.millis("run_timeout_ms", 100..=365 * DAY),
        max_failovers: read_max_failovers(reader, default.max_failovers),
        disconnect_grace: reader.millis("disconnect_grace_ms", 100..=600_000),
        strategy: read_strategy(reader),
        guarantee: within(reader, "guarantee", Guarantee::read),
        max_clock_diff: reader.millis("max_clock_diff_ms", 1..=3_600_000),
        elastic_job: reader.mapping("elastic_job").unwrap_or_default().into_iter().collect(),
        later: BTreeMap::new(),
    };
    let kept = kept_defect("elastic_job", &policy.elastic_job);
    reader.defects.extend(kept.map(|defect| Defect { field: reader.at(&defect.field), ..defect }));
    (policy, kind.is_some())
}

fn read_max_failovers(reader: &mut FieldReader, default: u32) -> u32 {
    let given = reader.integer("max_failovers", 0..=1000);
    given.and_then(|given| u32::try_from(given).ok()).unwrap_or(default)
}

fn read_kind(reader: &mut FieldReader) -> Option<JobKind> {
    let kind = reader.choice("kind", &KIND);
    let streaming = reader.flag("streaming");
    match (kind, streaming) {
        (Some(JobKind::Dataflow { .. }), Some(streaming)) => Some(JobKind::Dataflow { streaming }),
        (None, Some(streaming)) if streaming => Some(JobKind::Dataflow { streaming }),
        (Some(kind), Some(true)) => {
            let problem = format!("a {} job does not stream", kind.as_str());
            let remedy = "set `kind: dataflow` or leave `streaming` out";
            reader.note(DefectKind::Conflict, "streaming", &true.into(), &problem, remedy);
            Some(kind)
        }
        _ => kind,
    }
}

fn read_strategy(reader: &mut FieldReader) -> Option<String> {
    let name = reader.filled("strategy")?.trim().to_owned();
    let defect = text_defect("strategy", &name, MAX_WORD);
    reader.defects.extend(defect.map(|defect| Defect { field: reader.at("strategy"), ..defect }));
    Some(name)
}

fn within<T>(reader: &mut FieldReader, name: &str, read: impl Fn(&mut FieldReader) -> T) -> T {
    let mut inner = reader.below(name);
    let value = read(&mut inner);
    if !inner.keeps() {
        refuse_rest(&mut inner);
    }
    reader.leave(name, inner);
    value
}

/// Refuses the fields that are left as mistakes.
pub(super) fn refuse_rest(reader: &mut FieldReader) {
    for (name, value) in reader.rest() {
        let path = reader.at(&name);
        let remedy = match known_beside(&path, &name) {
            Some(known) => format!("did you mean `{known}`?"),
            None => "remove it".to_owned(),
        };
        let defect = Defect::new(DefectKind::UnknownField, path, "unknown field of the policy", remedy);
        reader.defects.push(defect.with_value(&value));
    }
}

/// The field that was probably meant, of those at the same place; a duration without its unit is pointed to the one
/// with a unit.
fn known_beside(path: &str, name: &str) -> Option<&'static str> {
    let parent = path.strip_prefix("rosterd.").unwrap_or(path);
    let parent = parent.strip_suffix(name).unwrap_or_default();
    let beside =
        |field: &PolicyField| field.path.strip_prefix(parent).and_then(|rest| rest.split('.').next());
    let known: Vec<_> = POLICY_FIELDS.iter().filter_map(beside).collect();
    let with_unit = known.iter().find(|known| known.strip_suffix("_ms") == Some(name));
    with_unit.copied().or_else(|| nearest(name, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_survives_its_node() {
        let policy = Policy {
            kind: JobKind::Dataflow { streaming: true },
            too_late: Some(TooLate::Missed),
            gap: DstGap::Skip,
            retries: Retries { max_attempts: 3, ..Retries::default() },
            run_timeout: Some(Duration::from_millis(1500)),
            disconnect_grace: Some(Duration::from_millis(500)),
            strategy: Some("STICKY".to_owned()),
            guarantee: Guarantee { started: true, on_timeout: OnTimeout::Skip, ..Guarantee::default() },
            elastic_job: BTreeMap::from([("monitorPort".to_owned(), json!(9888))]),
            later: BTreeMap::from([
                ("retries".to_owned(), json!({ "jitter_ms": 5 })),
                ("zones".to_owned(), json!(["a", "b"])),
            ]),
            ..Policy::default()
        };
        for policy in [policy, Policy::default()] {
            assert_eq!(Policy::from_node(policy.to_json().as_bytes()).unwrap(), policy);
            assert_eq!(policy.check(), []);
            let replaced = Policy { gap: DstGap::Skip, ..Policy::default() }.replacing(&policy);
            assert_eq!(replaced, Policy { gap: DstGap::Skip, later: policy.later, ..Policy::default() });
        }
    }

    #[test]
    fn a_policy_keeps_to_its_limits_however_it_was_made() {
        let year = Duration::from_secs(365 * 86_400);
        let wrong = |run_timeout| {
            let policy = Policy { run_timeout: Some(run_timeout), ..Policy::default() };
            policy.check().into_iter().map(|defect| defect.field).collect::<Vec<_>>()
        };
        for right in [Duration::from_millis(100), year] {
            assert!(wrong(right).is_empty());
        }
        for limit in [Duration::from_millis(99), year + Duration::from_millis(1)] {
            assert_eq!(wrong(limit), ["run_timeout_ms"]);
        }
    }

    #[test]
    fn an_empty_node_is_the_default() {
        assert_eq!(Policy::from_node(b"{}").unwrap(), Policy::default());
    }

    #[test]
    fn each_wrong_field_is_named() {
        let node =
            br#"{"kind":"cron","retries":{"max_attempts":0,"backof_ms":5},"gap":"never","runTimeoutMs":5}"#;
        let Ok(Value::Object(values)) = serde_json::from_slice(node) else { panic!("it is a mapping") };
        let mut reader = FieldReader::new(values, "");
        let _policy = read(&mut reader);
        refuse_rest(&mut reader);
        let text = Defects::of(reader.defects).to_string();
        let expected = "\
kind = \"cron\": it must be one of: simple, dataflow, command; choose one of them
gap = \"never\": it must be one of: fire_at_end, skip; choose one of them
retries.max_attempts = 0: only 1 to 100 is allowed; choose a number from 1 to 100
retries.backof_ms = 5: unknown field of the policy; did you mean `backoff_ms`?
runTimeoutMs = 5: unknown field of the policy; did you mean `run_timeout_ms`?";
        assert_eq!(text, expected);
    }
}
