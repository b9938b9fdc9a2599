//! The configuration of a job, typed, and as the job file that a registration carries.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// How a job is scheduled and run. Fields that are not set have the defaults on the guide's page on job fields.
///
/// ```
/// use rosterd_client::{Job, JobConfig, Retries};
/// use std::time::Duration;
///
/// let config = JobConfig::new(3)
///     .cron("0/30 * * * * ?")
///     .item_parameters(["Beijing", "Shanghai", "Lima"])
///     .failover(true)
///     .timeout(Duration::from_secs(60))
///     .retries(Retries::new(3));
/// let job = Job::new("hello").config(config);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct JobConfig {
    items: u32,
    parameters: BTreeMap<u32, String>,
    /// Fields that Elastic-Job has too, and ours, in the order in which they were given.
    fields: Vec<(&'static str, Value)>,
    ours: Vec<(&'static str, Value)>,
}

/// Attempts of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    max_attempts: u32,
    backoff: Option<Duration>,
    backoff_multiplier: Option<u32>,
    backoff_max: Option<Duration>,
}

/// Callbacks before the first and after the last item of a fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Guarantee {
    started: bool,
    completed: bool,
    timeout: Option<Duration>,
    on_timeout: Option<OnTimeout>,
}

/// How items are spread over instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// As even as possible, in order.
    AvgAllocation,
    /// By whether the hash of the job's name is odd.
    Odevity,
    /// In turn, starting from the hash of the job's name.
    RoundRobin,
    /// Items stay where they are.
    Sticky,
}

/// How late fires are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TooLate {
    /// One run for all of them.
    RunOnce,
    /// A record of each gap.
    Missed,
}

/// How a scheduled time that daylight saving skips is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gap {
    /// It fires when the gap ends.
    FireAtEnd,
    /// It does not fire.
    Skip,
}

/// How a held fire without an answer is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnTimeout {
    /// It runs.
    Run,
    /// It is skipped.
    Skip,
}

impl JobConfig {
    /// A job with this many items, 1 to 100,000, that runs only when it is triggered.
    pub fn new(items: u32) -> Self {
        Self { items, parameters: BTreeMap::new(), fields: Vec::new(), ours: Vec::new() }
    }

    fn with(mut self, field: &'static str, value: impl Into<Value>) -> Self {
        set(&mut self.fields, field, value.into());
        self
    }

    fn with_ours(mut self, field: &'static str, value: impl Into<Value>) -> Self {
        set(&mut self.ours, field, value.into());
        self
    }

    /// Its schedule in Quartz notation, `0/30 * * * * ?`.
    pub fn cron(self, cron: impl Into<String>) -> Self {
        self.with("cron", cron.into())
    }

    /// Zone of the schedule, an IANA name; default: UTC.
    pub fn time_zone(self, zone: impl Into<String>) -> Self {
        self.with("timeZone", zone.into())
    }

    /// One parameter per item, from 0 on. No commas in them.
    pub fn item_parameters<P: Into<String>>(mut self, parameters: impl IntoIterator<Item = P>) -> Self {
        self.parameters = (0..).zip(parameters.into_iter().map(Into::into)).collect();
        self
    }

    /// The parameter of one item.
    pub fn item_parameter(mut self, item: u32, parameter: impl Into<String>) -> Self {
        self.parameters.insert(item, parameter.into());
        self
    }

    /// One parameter for all items.
    pub fn job_parameter(self, parameter: impl Into<String>) -> Self {
        self.with("jobParameter", parameter.into())
    }

    /// What it does, for people.
    pub fn description(self, text: impl Into<String>) -> Self {
        self.with("description", text.into())
    }

    /// A label of the job, for people.
    pub fn label(self, label: impl Into<String>) -> Self {
        self.with("label", label.into())
    }

    /// Properties by name, which the worker gets.
    pub fn props<N: Into<String>, V: Into<String>>(self, props: impl IntoIterator<Item = (N, V)>) -> Self {
        let props = props.into_iter().map(|(name, value)| (name.into(), Value::Text(value.into())));
        self.with("props", Value::Map(props.collect()))
    }

    /// Whether the job starts disabled.
    pub fn disabled(self, disabled: bool) -> Self {
        self.with("disabled", disabled)
    }

    /// Keep a record of running items; without it no failover, no misfire and no offsets. Default: true.
    pub fn monitor_execution(self, monitor: bool) -> Self {
        self.with("monitorExecution", monitor)
    }

    /// Run an item elsewhere when its worker has died. Default: false.
    pub fn failover(self, failover: bool) -> Self {
        self.with("failover", failover)
    }

    /// Run an item once more if it was busy at a scheduled time. Default: true.
    pub fn misfire(self, misfire: bool) -> Self {
        self.with("misfire", misfire)
    }

    /// How items are spread over instances. Default: as even as possible.
    pub fn strategy(self, strategy: Strategy) -> Self {
        match strategy {
            Strategy::AvgAllocation => self.with("jobShardingStrategyType", "AVG_ALLOCATION"),
            Strategy::Odevity => self.with("jobShardingStrategyType", "ODEVITY"),
            Strategy::RoundRobin => self.with("jobShardingStrategyType", "ROUND_ROBIN"),
            Strategy::Sticky => self.with_ours("strategy", "STICKY"),
        }
    }

    /// How often the assignment is checked without a cause, in minutes; 0: never. Default: 10.
    pub fn reconcile_interval_minutes(self, minutes: u32) -> Self {
        self.with("reconcileIntervalMinutes", u64::from(minutes))
    }

    /// A dataflow: fetch and process; `streaming`: again until there is nothing to fetch.
    pub fn dataflow(self, streaming: bool) -> Self {
        self.with_ours("kind", "dataflow").with_ours("streaming", streaming)
    }

    /// A run that takes longer is told to stop, and has timed out; default: none.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with_ours("run_timeout_ms", timeout)
    }

    /// Attempts of one run; default: one.
    pub fn retries(self, retries: Retries) -> Self {
        self.with_ours("retries", retries.value())
    }

    /// How many times a run is failed over after its worker died. Default: 3.
    pub fn max_failovers(self, times: u32) -> Self {
        self.with_ours("max_failovers", u64::from(times))
    }

    /// The age up to which a late fire runs as if on time. Default: 10 s.
    pub fn catch_up_window(self, window: Duration) -> Self {
        self.with_ours("catch_up_window_ms", window)
    }

    /// How older fires are handled.
    pub fn too_late(self, what: TooLate) -> Self {
        let what = match what {
            TooLate::RunOnce => "run_once",
            TooLate::Missed => "missed",
        };
        self.with_ours("too_late", what)
    }

    /// How a scheduled time that daylight saving skips is handled. Default: it fires when the gap ends.
    pub fn gap(self, gap: Gap) -> Self {
        let gap = match gap {
            Gap::FireAtEnd => "fire_at_end",
            Gap::Skip => "skip",
        };
        self.with_ours("gap", gap)
    }

    /// A worker without heartbeats for this long is marked dead, 0.1 to 600 s; default: the lease.
    pub fn disconnect_grace(self, grace: Duration) -> Self {
        self.with_ours("disconnect_grace_ms", grace)
    }

    /// A coordinator whose clock is off by more does not fire this job.
    pub fn max_clock_difference(self, difference: Duration) -> Self {
        self.with_ours("max_clock_diff_ms", difference)
    }

    /// Callbacks before the first and after the last item of a fire.
    pub fn guarantee(self, guarantee: Guarantee) -> Self {
        self.with_ours("guarantee", guarantee.value())
    }

    /// The job file, as JSON. The coordinator validates the values; what it cannot see is validated here.
    pub(crate) fn text(&self, job: &str) -> Result<String, String> {
        let mut fields = vec![
            ("jobName".to_owned(), Value::Text(job.to_owned())),
            ("shardingTotalCount".to_owned(), Value::Number(self.items.into())),
        ];
        if !self.parameters.is_empty() {
            fields.push(("shardingItemParameters".to_owned(), Value::Text(self.parameters_text(job)?)));
        }
        let named = |fields: &[(&'static str, Value)]| {
            fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect::<Vec<_>>()
        };
        fields.extend(named(&self.fields));
        if !self.ours.is_empty() {
            fields.push(("rosterd".to_owned(), Value::Map(named(&self.ours))));
        }
        let mut text = String::new();
        Value::Map(fields).write(&mut text);
        Ok(text)
    }

    fn parameters_text(&self, job: &str) -> Result<String, String> {
        let mut entries = Vec::new();
        for (item, parameter) in &self.parameters {
            let field = format!("job {job}: the parameter of item {item}");
            if *item >= self.items {
                return Err(format!("{field}: there are {} items: give 0 to {}", self.items, self.items - 1));
            }
            if parameter.contains(',') {
                return Err(format!(
                    "{field} is {parameter:?}: a job file parts them by commas: use another sign"
                ));
            }
            entries.push(format!("{item}={parameter}"));
        }
        Ok(entries.join(","))
    }
}

impl Retries {
    /// With this many attempts, 1 to 100, the first included.
    pub fn new(max_attempts: u32) -> Self {
        Self { max_attempts, backoff: None, backoff_multiplier: None, backoff_max: None }
    }

    /// Pause before the second attempt. Default: 1 s.
    pub fn backoff(mut self, pause: Duration) -> Self {
        self.backoff = Some(pause);
        self
    }

    /// Each further pause is this many times as long as the one before. Default: 2.
    pub fn backoff_multiplier(mut self, multiplier: u32) -> Self {
        self.backoff_multiplier = Some(multiplier);
        self
    }

    /// No pause is longer. Default: 60 s.
    pub fn backoff_max(mut self, pause: Duration) -> Self {
        self.backoff_max = Some(pause);
        self
    }

    fn value(self) -> Value {
        let Self { max_attempts, backoff, backoff_multiplier, backoff_max } = self;
        Value::map([
            ("max_attempts", Some(Value::Number(max_attempts.into()))),
            ("backoff_ms", backoff.map(Value::from)),
            ("backoff_multiplier", backoff_multiplier.map(|times| Value::Number(times.into()))),
            ("backoff_max_ms", backoff_max.map(Value::from)),
        ])
    }
}

impl Guarantee {
    /// No callback yet: add them.
    pub fn new() -> Self {
        Self::default()
    }

    /// Hold each fire until one worker has answered its callback.
    pub fn started(mut self) -> Self {
        self.started = true;
        self
    }

    /// Call back one worker when all items of a fire have completed.
    pub fn completed(mut self) -> Self {
        self.completed = true;
        self
    }

    /// How long to wait for all items to start, and then for the answer. Default: 60 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How a held fire without an answer is handled. Default: it runs.
    pub fn on_timeout(mut self, what: OnTimeout) -> Self {
        self.on_timeout = Some(what);
        self
    }

    fn value(self) -> Value {
        let Self { started, completed, timeout, on_timeout } = self;
        let on_timeout = on_timeout.map(|what| match what {
            OnTimeout::Run => "run",
            OnTimeout::Skip => "skip",
        });
        Value::map([
            ("started", Some(Value::Flag(started))),
            ("completed", Some(Value::Flag(completed))),
            ("timeout_ms", timeout.map(Value::from)),
            ("on_timeout", on_timeout.map(Value::from)),
        ])
    }
}

/// A job's configuration: a job file as text, or typed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum JobFile {
    /// YAML or JSON, in Elastic-Job's field names.
    Text(String),
    /// Typed.
    Typed(Box<JobConfig>),
}

impl From<String> for JobFile {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for JobFile {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for JobFile {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<JobConfig> for JobFile {
    fn from(config: JobConfig) -> Self {
        Self::Typed(Box::new(config))
    }
}

fn set(fields: &mut Vec<(&'static str, Value)>, field: &'static str, value: Value) {
    fields.retain(|(name, _)| *name != field);
    fields.push((field, value));
}

/// The JSON fields of a job file.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Text(String),
    Number(u64),
    Flag(bool),
    Map(Vec<(String, Self)>),
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

/// In milliseconds.
impl From<Duration> for Value {
    fn from(span: Duration) -> Self {
        Self::Number(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Value {
    fn map<const N: usize>(fields: [(&str, Option<Self>); N]) -> Self {
        let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Self::Map(given.collect())
    }

    fn write(&self, into: &mut String) {
        match self {
            Self::Text(text) => quoted(text, into),
            Self::Number(number) => {
                let _ = write!(into, "{number}");
            }
            Self::Flag(flag) => {
                let _ = write!(into, "{flag}");
            }
            Self::Map(fields) => {
                into.push('{');
                for (place, (name, value)) in fields.iter().enumerate() {
                    if place > 0 {
                        into.push(',');
                    }
                    quoted(name, into);
                    into.push(':');
                    value.write(into);
                }
                into.push('}');
            }
        }
    }
}

fn quoted(text: &str, into: &mut String) {
    into.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                into.push('\\');
                into.push(c);
            }
            c if c.is_control() => {
                let _ = write!(into, "\\u{:04x}", u32::from(c));
            }
            c => into.push(c),
        }
    }
    into.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tree(config: &JobConfig) -> serde_json::Value {
        serde_json::from_str(&config.text("hello").unwrap()).unwrap()
    }

    #[test]
    fn everything_that_is_given_is_in_the_job_file() {
        let config = JobConfig::new(3)
            .cron("0/5 * * * * ?")
            .time_zone("America/Lima")
            .item_parameters(["a", "b"])
            .item_parameter(2, "say \"c\"\n")
            .job_parameter("all")
            .props([("colour", "red")])
            .failover(false)
            .failover(true)
            .strategy(Strategy::Sticky)
            .dataflow(true)
            .timeout(Duration::from_secs(60))
            .retries(Retries::new(3).backoff(Duration::from_millis(250)))
            .too_late(TooLate::Missed)
            .guarantee(Guarantee::new().started().on_timeout(OnTimeout::Skip));
        let wanted = json!({
            "jobName": "hello", "shardingTotalCount": 3, "cron": "0/5 * * * * ?", "timeZone": "America/Lima",
            "shardingItemParameters": "0=a,1=b,2=say \"c\"\n", "jobParameter": "all", "props": {"colour": "red"},
            "failover": true,
            "rosterd": {
                "strategy": "STICKY", "kind": "dataflow", "streaming": true, "run_timeout_ms": 60000,
                "retries": {"max_attempts": 3, "backoff_ms": 250}, "too_late": "missed",
                "guarantee": {"started": true, "completed": false, "on_timeout": "skip"},
            },
        });
        assert_eq!(tree(&config), wanted);
        assert_eq!(tree(&JobConfig::new(1)), json!({"jobName": "hello", "shardingTotalCount": 1}));
    }

    #[test]
    fn what_no_coordinator_can_see_is_refused_here() {
        let defect = |config: JobConfig| config.text("hello").unwrap_err();
        let far = defect(JobConfig::new(2).item_parameter(2, "x"));
        assert!(far.contains("item 2") && far.contains("give 0 to 1"), "{far}");
        let comma = defect(JobConfig::new(2).item_parameters(["a,b"]));
        assert!(comma.contains("by commas"), "{comma}");
    }
}
