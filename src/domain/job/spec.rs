//! A job as a user applies it: configuration, policy and the handler that runs it, checked together.
//!
//! It does not know where the parts are stored. Made by `file`, compared by `diff`, applied by the coordinator.

use std::collections::BTreeMap;
use std::time::Duration;

use super::config::{ConfigFields, DEFAULT_STRATEGY, JobConfig, MAX_WORD, named_defect, text_defect};
use super::defect::{Defect, DefectKind, Defects};
use super::fields::{Use, field};
use super::policy::{JobKind, Policy, TooLate};

/// The property that holds a command job's command line, as in Elastic-Job 3.x.
pub const COMMAND_LINE: &str = "script.command.line";
/// The property that makes a dataflow stream, as in Elastic-Job 3.x.
pub const STREAMING: &str = "streaming.process";

/// A job as a user applies it.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSpec {
    config: JobConfig,
    policy: Policy,
    handler: String,
}

impl JobSpec {
    /// Checks the parts and their combination; returns all defects at once.
    pub fn new(config: JobConfig, policy: Policy, handler: impl Into<String>) -> Result<Self, Defects> {
        let spec = Self { config, policy, handler: handler.into() };
        let job = spec.config.job_name.to_string();
        let defects = spec.check().into_iter().map(|d| Defect { job: Some(job.clone()), ..d }).collect();
        Defects::none_or(defects, spec)
    }

    /// The same for unchecked fields, and with the findings of `check`: each part is checked, even if another is wrong.
    /// If a field is among `found` already, findings of `check` about it are dropped.
    pub(super) fn checked(
        fields: ConfigFields,
        policy: Policy,
        handler: String,
        check: &dyn Fn(&Self) -> Result<(), Defects>,
        found: &[Defect],
    ) -> Result<Self, Defects> {
        let (config, mut defects) = JobConfig::with_defects(fields);
        let spec = Self { config, policy, handler };
        let job = spec.config.job_name.to_string();
        defects.extend(spec.check().into_iter().map(|d| Defect { job: Some(job.clone()), ..d }));
        let known: Vec<String> = defects.iter().chain(found).map(|defect| defect.field.clone()).collect();
        let more = check(&spec).err().into_iter().flatten();
        defects.extend(more.filter(|defect| !known.contains(&defect.field)));
        Defects::none_or(defects, spec)
    }

    /// A job from the registry: `root` is the data of the job's own node; `policy` is absent if only Elastic-Job has
    /// written the job so far, and then the kind follows from Elastic-Job's fields.
    pub fn stored(root: &str, config: JobConfig, policy: Option<Policy>) -> Result<Self, Defects> {
        let policy = policy.unwrap_or_else(|| {
            let named = config.unused.get("jobType").and_then(|value| value.as_str());
            Policy {
                kind: implied_kind(&config, named.unwrap_or(root)).unwrap_or_default(),
                ..Policy::default()
            }
        });
        let handler = if root.is_empty() { config.job_name.to_string() } else { root.to_owned() };
        Self::new(config, policy, handler)
    }

    /// The part that Elastic-Job has fields for.
    pub fn config(&self) -> &JobConfig {
        &self.config
    }

    /// The part that it has no fields for.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The handler of the workers that runs it: the data of the job's own node.
    pub fn handler(&self) -> &str {
        &self.handler
    }

    /// The strategy that assigns the items.
    pub fn strategy(&self) -> &str {
        let named = self.policy.strategy.as_deref().or(self.config.job_sharding_strategy_type.as_deref());
        named.unwrap_or(DEFAULT_STRATEGY)
    }

    /// What to do with fires older than the catch-up window.
    pub fn too_late(&self) -> TooLate {
        let by_misfire = if self.config.misfire { TooLate::RunOnce } else { TooLate::Missed };
        self.policy.too_late.unwrap_or(by_misfire)
    }

    /// The largest clock difference at which a host fires the job: the job's own limit, else the coordinator's.
    pub fn max_clock_diff(&self, coordinators: Duration) -> Duration {
        let configured = self.config.max_time_diff_seconds.map(|seconds| Duration::from_secs(seconds.into()));
        [configured, self.policy.max_clock_diff].into_iter().flatten().min().unwrap_or(coordinators)
    }

    /// The command line of a command job.
    pub fn command_line(&self) -> Option<&str> {
        let given = || self.config.props.get(COMMAND_LINE).map(String::as_str);
        // In a node of 2.x it is a field.
        let field = || self.config.unused.get("scriptCommandLine").and_then(|value| value.as_str());
        if self.policy.kind == JobKind::Command { given().or_else(field) } else { None }
    }

    /// Elastic-Job's error handler, if it is one that notifies somebody, and the properties that say whom.
    pub fn error_receiver(&self) -> Option<(&str, &BTreeMap<String, String>)> {
        const TELLING: [&str; 3] = ["EMAIL", "DINGTALK", "WECHAT"];
        let kind = self.config.unused.get("jobErrorHandlerType")?.as_str()?;
        TELLING.contains(&kind).then_some((kind, &self.config.props))
    }

    /// Hints for the user that require no change: the fields that have no effect here, and why.
    pub fn notes(&self) -> Vec<String> {
        let obeyed = |name: &&String| *name == "jobErrorHandlerType" && self.error_receiver().is_some();
        let kept = self.config.unused.keys().filter(|name| !obeyed(name));
        let kept = kept.chain(self.policy.elastic_job.keys());
        let note = |name: &String| match field(name) {
            Some(field) if field.use_ == Use::Kept => {
                format!("`{name}` is kept and has no effect: {}", field.why)
            }
            _ => format!("`{name}` is kept and has no effect"),
        };
        let later = self.policy.later.keys();
        let later = later.map(|name| {
            format!("`rosterd.{name}` is kept and has no effect: a later version of rosterd wrote of it what this one does not know")
        });
        kept.map(note).chain(later).collect()
    }

    /// Has schedule and strategy checked by the given functions; the strategy is the one in effect.
    pub fn validate_with(
        &self,
        schedule: impl Fn(&str, &str) -> Result<(), String>,
        strategy: impl Fn(&str) -> Result<(), String>,
    ) -> Result<(), Defects> {
        let Some(own) = &self.policy.strategy else { return self.config.validate_with(schedule, strategy) };
        let schedule = self.config.schedule_defect(schedule);
        let strategy = named_defect("rosterd.strategy", own, strategy);
        let job = self.config.job_name.to_string();
        let defects = schedule.into_iter().chain(strategy);
        Defects::none_or(defects.map(|d| Defect { job: Some(job.clone()), ..d }).collect(), ())
    }

    fn check(&self) -> Vec<Defect> {
        let mut defects: Vec<_> = self.policy.check().into_iter().map(|d| d.below("rosterd")).collect();
        defects.extend(handler_defect(&self.handler));
        defects.extend(self.streaming_defect());
        defects
    }

    fn streaming_defect(&self) -> Option<Defect> {
        let property = self.config.props.get(STREAMING)? == "true";
        let JobKind::Dataflow { streaming } = self.policy.kind else { return None };
        let problem = format!("the property {STREAMING} says {property}");
        let defect = Defect::new(DefectKind::Conflict, "rosterd.streaming", problem, "keep one of the two");
        (property != streaming).then(|| defect.with_value(&streaming.into()))
    }
}

fn handler_defect(handler: &str) -> Option<Defect> {
    const FIELD: &str = "rosterd.handler";
    if handler.is_empty() || handler.chars().any(char::is_whitespace) {
        let problem = "it must be one word";
        let remedy = "name the handler as the workers do";
        return Some(Defect::new(DefectKind::NotAllowed, FIELD, problem, remedy).with_text(handler));
    }
    text_defect(FIELD, handler, MAX_WORD)
}

/// The kind that Elastic-Job's fields imply: by its type, else by its properties.
pub(super) fn implied_kind(config: &ConfigFields, job_type: &str) -> Option<JobKind> {
    let streaming = config.props.get(STREAMING).map(|text| text == "true");
    let field = || config.unused.get("streamingProcess").and_then(serde_json::Value::as_bool);
    match named_kind(job_type) {
        Some(JobKind::Dataflow { .. }) => {
            Some(JobKind::Dataflow { streaming: streaming.or_else(field).unwrap_or_default() })
        }
        Some(kind) => Some(kind),
        None if config.props.contains_key(COMMAND_LINE) => Some(JobKind::Command),
        None => streaming.map(|streaming| JobKind::Dataflow { streaming }),
    }
}

/// Elastic-Job's names of kinds, of all generations.
pub(super) fn named_kind(job_type: &str) -> Option<JobKind> {
    match job_type.to_ascii_uppercase().as_str() {
        "SIMPLE" => Some(JobKind::Simple),
        "DATAFLOW" | "DATA_FLOW" => Some(JobKind::Dataflow { streaming: false }),
        "SCRIPT" => Some(JobKind::Command),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_file;

    #[test]
    fn a_handler_of_errors_that_tells_someone_has_an_effect() {
        let of = |kind: &str| {
            let more = "shardingTotalCount: 1\nprops: {wechat.webhook: u}\njobErrorHandlerType";
            let text = format!("jobName: a\n{more}: {kind}\n");
            parse_file(text.as_bytes()).unwrap().remove(0)
        };
        let told = of("WECHAT");
        assert_eq!(told.error_receiver().map(|(kind, props)| (kind, props.len())), Some(("WECHAT", 1)));
        assert_eq!(told.notes(), [""; 0]);
        let thrown = of("THROW");
        assert_eq!(thrown.error_receiver(), None);
        assert!(thrown.notes()[0].starts_with("`jobErrorHandlerType` is kept and has no effect: "));
    }
}
