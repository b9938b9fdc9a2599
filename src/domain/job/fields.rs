//! Every job field that Elastic-Job ever had, and how it is handled here.
//!
//! The table is the single source: parsers look fields up in it, messages quote it, the guide's page is generated from
//! it. Taken from the released configuration classes and XML schemas of Elastic-Job 1.1.1, 2.1.5 and 3.0.4. Never
//! decides anything by itself.

/// A generation of Elastic-Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// 1.x: each field is a znode below `config`.
    V1,
    /// 2.x: `config` is JSON.
    V2,
    /// 3.x: `config` is YAML.
    V3,
}

impl Generation {
    /// As documents write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "1.x",
            Self::V2 => "2.x",
            Self::V3 => "3.x",
        }
    }
}

/// How a field is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It is used; the text is its name here, if that differs.
    Used(&'static str),
    /// It has no effect, but is kept unchanged.
    Kept,
    /// A job that has it is refused, since ignoring it would change what the job does.
    Refused,
}

/// One field.
#[derive(Debug, Clone, Copy)]
pub struct FieldInfo {
    /// Its name in Elastic-Job, in the camel case of its nodes; kebab case is accepted as well.
    pub name: &'static str,
    /// The generations that have it.
    pub since: &'static [Generation],
    /// Whether Elastic-Job 3.x has it in its `config` node, where it refuses every other name.
    pub in_config: bool,
    /// How it is handled.
    pub use_: Use,
    /// What it means, or why it is not used.
    pub why: &'static str,
    /// Its default; empty if it has none.
    pub default: &'static str,
}

const ALL: &[Generation] = &[Generation::V1, Generation::V2, Generation::V3];
const SINCE_2: &[Generation] = &[Generation::V2, Generation::V3];
const UNTIL_2: &[Generation] = &[Generation::V1, Generation::V2];
const ONLY_1: &[Generation] = &[Generation::V1];
const ONLY_2: &[Generation] = &[Generation::V2];
const ONLY_3: &[Generation] = &[Generation::V3];

const AS_IS: Use = Use::Used("");

/// A short constructor: one line per row is what makes the table readable.
const fn row(
    name: &'static str,
    since: &'static [Generation],
    use_: Use,
    default: &'static str,
    why: &'static str,
) -> FieldInfo {
    FieldInfo { name, since, in_config: false, use_, why, default }
}

/// A row of a field that Elastic-Job 3.x has in its `config` node.
const fn node(
    name: &'static str,
    since: &'static [Generation],
    use_: Use,
    default: &'static str,
    why: &'static str,
) -> FieldInfo {
    FieldInfo { name, since, in_config: true, use_, why, default }
}

const CLOUD: &str = "only Elastic-Job-Cloud (Mesos) has it: its jobs are placed by a resource scheduler";
const WIRING: &str = "wires Java objects together; rosterd loads no Java class";

/// The table: one row per line, whatever its width.
#[rustfmt::skip]
pub const FIELDS: &[FieldInfo] = &[
    node("jobName", ALL, AS_IS, "", "the job's name: 1 to 128 letters, marks and digits of any script or . _ -, in composed form (NFC), at most 255 bytes"),
    node("cron", ALL, AS_IS, "", "the schedule; without one the job runs only when triggered"),
    node("timeZone", ONLY_3, AS_IS, "UTC", "zone of the schedule, `GMT+8:00` or `Asia/Shanghai`; Elastic-Job takes each JVM's own zone when it is absent, rosterd always UTC"),
    node("shardingTotalCount", ALL, AS_IS, "", "number of items, 1 to 100000"),
    node("shardingItemParameters", ALL, AS_IS, "", "one parameter per item, `0=Beijing,1=Shanghai`, at most 256 KiB"),
    node("jobParameter", ALL, AS_IS, "", "one parameter for all items, at most 64 KiB"),
    node("monitorExecution", ALL, AS_IS, "true", "keep a record of running items; without it no failover and no misfire"),
    node("failover", ALL, AS_IS, "false", "run an item elsewhere when its worker died; needs `monitorExecution`"),
    node("misfire", ALL, AS_IS, "true", "run once more after a run that was too long; false when `monitorExecution` is false"),
    node("maxTimeDiffSeconds", ALL, AS_IS, "-1", "largest clock difference to the store, in seconds, at which a coordinator fires this job; -1: max_clock_difference of the coordinator"),
    node("reconcileIntervalMinutes", SINCE_2, AS_IS, "10", "how often the assignment is checked without a cause, in minutes; below 1: never"),
    node("jobShardingStrategyType", ONLY_3, AS_IS, "AVG_ALLOCATION", "AVG_ALLOCATION, ODEVITY or ROUND_ROBIN; for another strategy set `rosterd.strategy`"),
    node("description", ALL, AS_IS, "", "free text, at most 4 KiB; shown to people, workers are not told"),
    node("props", ONLY_3, AS_IS, "", "properties by name, at most 64 KiB, handed to the worker"),
    node("disabled", ALL, AS_IS, "false", "whether the job starts disabled"),
    node("overwrite", ALL, AS_IS, "false", "whether a worker's own configuration replaces the stored one when it registers"),
    node("label", ONLY_3, AS_IS, "", "a label of the job; shown to people, workers are not told"),
    node("jobExecutorServiceHandlerType", ONLY_3, Use::Kept, "CPU", "chooses a Java thread pool; a worker has slots instead"),
    node("jobExecutorThreadPoolSizeProviderType", ONLY_3, Use::Kept, "CPU", "sizes a Java thread pool (after 3.0.4); a worker has slots instead"),
    node("jobErrorHandlerType", ONLY_3, Use::Kept, "LOG", "EMAIL, DINGTALK and WECHAT tell whom the properties name, by the coordinator's alarms; another chooses Java code: the outcome of each run is recorded with its error"),
    node("jobListenerTypes", ONLY_3, Use::Kept, "", "chooses Java listeners; to wait for all items use `rosterd.guarantee`"),
    node("jobExtraConfigurations", ONLY_3, Use::Kept, "", "configures Java extensions such as tracing; rosterd writes its own history"),
    node("staticSharding", ONLY_3, Use::Kept, "false", "assigns once and not again; rosterd always gives the items of a dead worker away, with `rosterd.strategy: STICKY` no others"),
    row("jobClass", UNTIL_2, Use::Used("rosterd.handler"), "", "the handler's type, unless `rosterd.handler` names another"),
    row("elasticJobClass", ONLY_3, Use::Used("rosterd.handler"), "", "the same in Spring Boot's YAML"),
    row("elasticJobType", ONLY_3, Use::Used("rosterd.handler, rosterd.kind"), "", "SCRIPT is a command, DATAFLOW a dataflow; any other is the handler's type"),
    row("jobType", UNTIL_2, Use::Used("rosterd.kind"), "", "SIMPLE, DATAFLOW (1.x: DATA_FLOW) or SCRIPT, which is a command"),
    row("streamingProcess", UNTIL_2, Use::Used("props: streaming.process"), "false", "whether a dataflow fetches again until there is nothing; 3.x has it as a property"),
    row("scriptCommandLine", UNTIL_2, Use::Used("props: script.command.line"), "", "the command; 3.x has it as a property"),
    row("jobShardingStrategyClass", UNTIL_2, Use::Used("jobShardingStrategyType"), "", "Elastic-Job's three classes by their names of today"),
    row("typeConfig", ONLY_2, Use::Used("its fields"), "", "the nesting of 2.x's configuration objects; its fields are read as if they stood outside"),
    row("coreConfig", ONLY_2, Use::Used("its fields"), "", "as `typeConfig`"),
    row("monitorPort", UNTIL_2, Use::Kept, "-1", "port of the dump service in each JVM; ask the coordinator instead"),
    row("jobProperties", ONLY_2, Use::Kept, "", "Java classes for errors and threads, 3.x: `jobErrorHandlerType`, `jobExecutorServiceHandlerType`"),
    row("jobExceptionHandler", ONLY_2, Use::Kept, "", "the XML form of a part of `jobProperties`"),
    row("executorServiceHandler", ONLY_2, Use::Kept, "", "the XML form of a part of `jobProperties`"),
    row("processCountIntervalSeconds", ONLY_1, Use::Kept, "300", "how often counts are logged; counts come with each report"),
    row("concurrentDataProcessThreadCount", ONLY_1, Use::Kept, "2 x cores", "threads of one dataflow; the handler's own affair"),
    row("fetchDataCount", ONLY_1, Use::Kept, "1", "size of one fetch; the handler's own affair"),
    row("jobBootstrapBeanName", ONLY_3, Use::Kept, "", WIRING),
    row("jobRef", SINCE_2, Use::Kept, "", WIRING),
    row("registryCenter", ONLY_3, Use::Kept, "", WIRING),
    row("registryCenterRef", ALL, Use::Kept, "", WIRING),
    row("eventTraceRdbDataSource", ONLY_2, Use::Kept, "", "where Java writes its events; rosterd writes its own history"),
    row("extraConfigurations", ONLY_3, Use::Kept, "", "the annotation's name of `jobExtraConfigurations`"),
    row("listener", UNTIL_2, Use::Refused, "", "a Java object around each run; do this in the handler"),
    row("distributedListener", ONLY_2, Use::Refused, "", "a Java object around all items; use `rosterd.guarantee`"),
    row("startedTimeoutMilliseconds", UNTIL_2, Use::Refused, "", "use `rosterd.guarantee` with `started: true` and `timeout_ms`"),
    row("completedTimeoutMilliseconds", UNTIL_2, Use::Refused, "", "use `rosterd.guarantee` with `completed: true` and `timeout_ms`"),
    row("appName", SINCE_2, Use::Refused, "", CLOUD),
    row("cpuCount", SINCE_2, Use::Refused, "", CLOUD),
    row("memoryMB", SINCE_2, Use::Refused, "", CLOUD),
    row("jobExecutionType", SINCE_2, Use::Refused, "", CLOUD),
    row("beanName", ONLY_2, Use::Refused, "", CLOUD),
    row("applicationContext", ONLY_2, Use::Refused, "", CLOUD),
];

/// A field of the policy, which Elastic-Job does not have.
#[derive(Debug, Clone, Copy)]
pub struct PolicyField {
    /// Its path below `rosterd`.
    pub path: &'static str,
    /// What is allowed.
    pub allowed: &'static str,
    /// Its default.
    pub default: &'static str,
    /// What it does.
    pub what: &'static str,
}

const fn policy(
    path: &'static str,
    allowed: &'static str,
    default: &'static str,
    what: &'static str,
) -> PolicyField {
    PolicyField { path, allowed, default, what }
}

/// What a job file may have below `rosterd`: one row per line, whatever its width.
#[rustfmt::skip]
pub const POLICY_FIELDS: &[PolicyField] = &[
    policy("handler", "text, at most 256 bytes", "Elastic-Job's class, else the job's name", "which handler of the workers runs it"),
    policy("kind", "simple, dataflow, command", "what Elastic-Job's fields say, else simple", "how a run goes: once; fetch and process; a program"),
    policy("streaming", "true, false", "false", "for a dataflow: fetch again until there is nothing"),
    policy("catch_up_window_ms", "0 to 86400000", "10000", "a fire found late runs as if on time up to this age"),
    policy("too_late", "run_once, missed", "run_once with misfire, else missed", "what becomes of older fires: one run for all of them, or a record of each gap"),
    policy("gap", "fire_at_end, skip", "fire_at_end", "a time that daylight saving leaves out: fires when the gap ends, or not"),
    policy("run_timeout_ms", "100 to 31536000000", "none", "a run still going after this is told to stop and has timed out; timeout_grace later (10 s) it is taken away from a worker that has not ended it"),
    policy("max_failovers", "0 to 1000", "3", "a run is failed over so many times after its worker died; then it is given up as crashed, with an event"),
    policy("disconnect_grace_ms", "100 to 600000", "the lease", "a silent worker counts as dead after this; shorter than the lease"),
    policy("strategy", "name", "`jobShardingStrategyType`", "a strategy that Elastic-Job has not, such as STICKY"),
    policy("max_clock_diff_ms", "1 to 3600000", "the coordinator's", "a coordinator whose clock is further off does not fire this job"),
    policy("retries.max_attempts", "1 to 100", "1", "attempts of one run, the first included"),
    policy("retries.backoff_ms", "0 to 86400000", "1000", "pause before the second attempt"),
    policy("retries.backoff_multiplier", "1 to 100", "2", "each further pause is so many times as long as the one before"),
    policy("retries.backoff_max_ms", "0 to 86400000", "60000", "no pause is longer"),
    policy("guarantee.started", "true, false", "false", "hold each fire until one worker has been told that all items start"),
    policy("guarantee.completed", "true, false", "false", "tell one worker when all items of a fire have completed"),
    policy("guarantee.timeout_ms", "1 to 86400000", "60000", "how long is waited for all items to start, and then for the answer"),
    policy("guarantee.on_timeout", "run, skip", "run", "what becomes of a held fire without answer: runs, or is skipped"),
    policy("elastic_job", "mapping, at most 64 KiB", "none", "fields of Elastic-Job 1.x and 2.x that 3.x has not, kept"),
];

/// The row of a field.
pub fn field(name: &str) -> Option<&'static FieldInfo> {
    FIELDS.iter().find(|field| field.name == name)
}

/// Whether the field's value is a text, even if it looks like a number.
pub(super) fn is_text(name: &str) -> bool {
    const TEXTS: &[&str] = &[
        "jobName",
        "cron",
        "timeZone",
        "shardingItemParameters",
        "jobParameter",
        "jobShardingStrategyType",
        "jobShardingStrategyClass",
        "description",
        "label",
        "jobClass",
        "elasticJobClass",
        "elasticJobType",
        "scriptCommandLine",
        "handler",
        "strategy",
    ];
    TEXTS.contains(&camel(name).as_str())
}

/// Converts `sharding-total-count`, as Spring writes it, to Elastic-Job's camel case.
pub(super) fn camel(name: &str) -> String {
    let mut words = name.split('-');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_stands_once_and_says_something() {
        for (i, field) in FIELDS.iter().enumerate() {
            assert!(FIELDS[..i].iter().all(|other| other.name != field.name), "{} twice", field.name);
            assert!(!field.why.is_empty() && !field.since.is_empty(), "{} is bare", field.name);
            assert!(!field.in_config || field.since.contains(&Generation::V3), "{}", field.name);
        }
    }

    #[test]
    fn kebab_case_is_the_same_name() {
        assert_eq!(camel("sharding-total-count"), "shardingTotalCount");
        assert_eq!(camel("jobName"), "jobName");
        assert_eq!(camel("--x-"), "X");
    }
}
