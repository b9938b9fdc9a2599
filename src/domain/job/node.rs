//! The znode `config`: read in the forms of 2.x and 3.x, written so that the generation that wrote it can read it.
//!
//! Never fails on data that Elastic-Job itself accepts, and never adds a field that Elastic-Job 3.x does not know to a
//! node without such fields: its JVMs would fail to start. Called by the registry's side.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::config::JobConfig;
use super::defect::{Defect, DefectKind, Defects};
use super::read::{self, ConfigOrigin, STRATEGIES};
use super::reader::FieldReader;
use super::tree;

/// Largest `config` node read, in bytes: what a registry node can hold.
pub const MAX_NODE: usize = 1 << 20;

/// The package of 2.x's three strategies.
const STRATEGY_PACKAGE: &str = "com.dangdang.ddframe.job.lite.api.strategy.impl";

/// Fields of 2.x that are properties in 3.x.
const AS_PROPERTIES: [(&str, &str); 2] =
    [("streamingProcess", "streaming.process"), ("scriptCommandLine", "script.command.line")];

impl JobConfig {
    /// Decodes the node, whoever wrote it: 3.x's YAML, 2.x's JSON, our own JSON. Fields that we do not use, and fields
    /// of a newer Elastic-Job, are kept.
    pub fn from_node(bytes: &[u8]) -> Result<Self, Defects> {
        let mut documents = tree::documents(bytes, MAX_NODE)?.into_iter();
        let (Some(Value::Object(values)), None) = (documents.next(), documents.next()) else {
            let problem = "it is not one mapping of fields";
            let remedy = "write the job's configuration again";
            return Err(Defect::new(DefectKind::Unreadable, "", problem, remedy).into());
        };
        from_mapping(values)
    }

    /// Encodes the node as JSON, which is also YAML, sorted by name: Elastic-Job 3.x's fields and the kept ones. A node
    /// that came from 2.x stays readable for 2.x. If Elastic-Job 3.x wrote a class tag for the value of a kept field,
    /// the tag is written too, and the node is YAML only.
    pub fn to_json(&self) -> String {
        let values: Map<String, Value> = self.node_fields().into_iter().collect();
        let mut text = String::new();
        tree::write(&Value::Object(values), &mut text);
        escape_for_yaml(&text)
    }

    /// The node's fields by name.
    pub(super) fn node_fields(&self) -> BTreeMap<String, Value> {
        let mut values = self.unused.clone();
        let mut set = |name: &str, value: Value| values.insert(name.to_owned(), value);
        set("jobName", self.job_name.as_str().into());
        set("shardingTotalCount", self.sharding_total_count.into());
        set("shardingItemParameters", self.sharding_item_parameters.as_str().into());
        set("jobParameter", self.job_parameter.as_str().into());
        set("monitorExecution", self.monitor_execution.into());
        set("failover", self.failover.into());
        set("misfire", self.misfire.into());
        set("maxTimeDiffSeconds", self.max_time_diff_seconds.map_or(Value::from(-1), Value::from));
        set("reconcileIntervalMinutes", self.reconcile_interval_minutes.map_or(Value::from(-1), Value::from));
        set("description", self.description.as_str().into());
        set("disabled", self.disabled.into());
        set("overwrite", self.overwrite.into());
        for (name, value) in [("cron", &self.cron), ("timeZone", &self.time_zone), ("label", &self.label)] {
            value.as_deref().map(|text| set(name, text.into()));
        }
        if !self.props.is_empty() {
            let props = self.props.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
            set("props", Value::Object(props.collect()));
        }
        self.add_strategy(&mut values);
        values
    }

    /// 2.x expects a class name instead of 3.x's type, and fields instead of 3.x's properties.
    fn add_strategy(&self, values: &mut BTreeMap<String, Value>) {
        let strategy = self.job_sharding_strategy_type.as_deref();
        if !self.is_second_generation() {
            strategy.map(|name| values.insert("jobShardingStrategyType".to_owned(), name.into()));
            return;
        }
        let class = STRATEGIES.iter().find(|(name, _)| Some(*name) == strategy);
        let class = class.map(|(_, class)| format!("{STRATEGY_PACKAGE}.{class}"));
        let class = class.or_else(|| strategy.map(str::to_owned)).unwrap_or_default();
        values.insert("jobShardingStrategyClass".to_owned(), class.into());
        for (field, property) in AS_PROPERTIES {
            let Some(text) = self.props.get(property) else { continue };
            let value =
                if field == "streamingProcess" { (text == "true").into() } else { text.as_str().into() };
            values.insert(field.to_owned(), value);
        }
    }

    /// Whether the node was written by 2.x, which cannot read a node without `jobType`.
    pub(super) fn is_second_generation(&self) -> bool {
        self.unused.contains_key("jobType")
    }
}

fn from_mapping(values: Map<String, Value>) -> Result<JobConfig, Defects> {
    let mut reader = FieldReader::new(values, "");
    let mut fields = read::config(&mut reader, ConfigOrigin::Node);
    fields.unused = reader.rest();
    Defects::join(reader.defects, JobConfig::new(fields))
}

/// JSON is YAML except for a few characters that YAML readers refuse or fold: those are written as escapes. They can
/// only occur inside a quoted text.
pub(super) fn escape_for_yaml(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') {
            escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            escaped.push(c);
        }
    }
    escaped
}
