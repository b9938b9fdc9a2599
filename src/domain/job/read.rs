//! Reads configuration from a mapping with Elastic-Job's field names: shared by files and nodes.
//!
//! Never sees bytes and never stops at the first defect. Called by `file` and `node`.

use serde_json::Value;

use super::config::{self, ConfigFields, MAX_ITEMS};
use super::defect::{Defect, DefectKind};
use super::items::{ItemParameters, ItemParametersError};
use super::reader::FieldReader;
use crate::id::{Item, JobName};

/// The writer of the data that is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ConfigOrigin {
    /// A person, who should see every problem.
    File,
    /// Elastic-Job, or we long ago: accept whatever Elastic-Job accepts.
    Node,
}

/// Elastic-Job's own strategies: 3.x's name, and the last part of 2.x's and 1.x's class name.
pub(super) const STRATEGIES: [(&str, &str); 3] = [
    ("AVG_ALLOCATION", "AverageAllocationJobShardingStrategy"),
    ("ODEVITY", "OdevitySortByNameJobShardingStrategy"),
    ("ROUND_ROBIN", "RotateServerByNameJobShardingStrategy"),
];

/// Takes all fields that we use. A field with a defect gets some valid value, so that the rest can be checked as well.
pub(super) fn config(reader: &mut FieldReader, source: ConfigOrigin) -> ConfigFields {
    let name = job_name(reader).unwrap_or_else(|| JobName::new("unnamed").expect("a name"));
    let count = count(reader);
    let mut fields = ConfigFields::new(name, count.unwrap_or(1));
    fields.cron = reader.filled("cron").map(|cron| cron.trim().to_owned());
    fields.time_zone = reader.filled("timeZone").map(|zone| zone.trim().to_owned());
    fields.job_parameter = reader.text("jobParameter").unwrap_or_default();
    fields.description = reader.text("description").unwrap_or_default();
    fields.disabled = reader.flag("disabled").unwrap_or(fields.disabled);
    fields.overwrite = reader.flag("overwrite").unwrap_or(fields.overwrite);
    fields.label = reader.filled("label");
    fields.props = reader.texts("props");
    fields.max_time_diff_seconds = clock(reader);
    fields.reconcile_interval_minutes = reader
        .integer("reconcileIntervalMinutes", i64::from(i32::MIN)..=i64::from(i32::MAX))
        .map_or(fields.reconcile_interval_minutes, |minutes| u32::try_from(minutes).ok().filter(|m| *m > 0));
    fields.job_sharding_strategy_type = strategy(reader);
    monitoring(reader, source, &mut fields);
    fields.sharding_item_parameters = item_parameters(reader, source, count).unwrap_or_default();
    fields
}

fn job_name(reader: &mut FieldReader) -> Option<JobName> {
    let Some(name) = reader.filled("jobName") else {
        reader.defects.push(missing("jobName", "give the job a name"));
        return None;
    };
    match JobName::new(&name) {
        Ok(name) => Some(name),
        Err(error) => {
            reader.note(DefectKind::NotAllowed, "jobName", &name.into(), error.reason, &error.remedy);
            None
        }
    }
}

fn missing(field: &str, remedy: &str) -> Defect {
    Defect::new(DefectKind::Missing, field, "it is missing", remedy)
}

fn count(reader: &mut FieldReader) -> Option<u32> {
    let before = reader.defects.len();
    let count = reader.integer("shardingTotalCount", 1..=i64::from(MAX_ITEMS));
    if count.is_none() && reader.defects.len() == before {
        reader.defects.push(missing("shardingTotalCount", "say into how many items the job is split"));
    }
    count.and_then(|count| u32::try_from(count).ok())
}

/// Zero and other negative numbers would stop every fire in Elastic-Job, so they are never intended.
fn clock(reader: &mut FieldReader) -> Option<u32> {
    const NAME: &str = "maxTimeDiffSeconds";
    let seconds = reader.integer(NAME, -1..=i64::from(i32::MAX))?;
    if seconds == 0 {
        let problem = "no two clocks agree that well: the job would never fire";
        let remedy = "set at least 1, or -1 to leave the check to the coordinator";
        reader.note(DefectKind::NotAllowed, NAME, &0.into(), problem, remedy);
    }
    u32::try_from(seconds).ok().filter(|seconds| *seconds > 0)
}

/// 3.x's name, also for the classes that 1.x and 2.x name; an unknown class is left unchanged.
fn strategy(reader: &mut FieldReader) -> Option<String> {
    let class = reader.filled("jobShardingStrategyClass");
    let from_class = class.as_deref().map(|class| {
        let short = class.trim().rsplit('.').next().unwrap_or_default();
        STRATEGIES.iter().find(|(_, known)| *known == short).map_or(class, |(name, _)| name).to_owned()
    });
    let name = reader.filled("jobShardingStrategyType").map(|name| name.trim().to_owned());
    if let (Some(name), Some(other)) = (&name, &from_class)
        && name != other
    {
        let problem = format!("`jobShardingStrategyClass` says {other}");
        let value = Value::from(name.as_str());
        let remedy = "keep one of the two";
        reader.note(DefectKind::Conflict, "jobShardingStrategyType", &value, &problem, remedy);
    }
    name.or(from_class)
}

/// Without monitoring there is neither failover nor misfire. Elastic-Job enables misfire by default, so in a file that
/// has only `monitorExecution: false` it is off; a file that sets both contradicts itself. In a node Elastic-Job itself
/// wrote the contradiction, and reads misfire as off.
fn monitoring(reader: &mut FieldReader, source: ConfigOrigin, fields: &mut ConfigFields) {
    let monitor = reader.flag("monitorExecution").unwrap_or(true);
    let (failover, misfire) = (reader.flag("failover"), reader.flag("misfire"));
    if source == ConfigOrigin::File {
        let defects =
            config::monitor_defects(monitor, failover.unwrap_or_default(), misfire.unwrap_or_default());
        reader.defects.extend(defects);
    }
    fields.monitor_execution = monitor;
    fields.failover = monitor && failover.unwrap_or(fields.failover);
    fields.misfire = monitor && misfire.unwrap_or(fields.misfire);
}

/// A parameter of a nonexistent item is a mistake in a file; in a node it is left from before the count was lowered.
fn item_parameters(
    reader: &mut FieldReader,
    source: ConfigOrigin,
    count: Option<u32>,
) -> Option<ItemParameters> {
    const NAME: &str = "shardingItemParameters";
    let text = reader.text(NAME)?;
    let mut refuse = |problem: &str, remedy: &str| {
        reader.note(DefectKind::NotAllowed, NAME, &Value::Null, problem, remedy);
        None
    };
    let parsed = match source {
        ConfigOrigin::File => ItemParameters::parse_strict(&text),
        ConfigOrigin::Node => ItemParameters::parse(&text),
    };
    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(error @ ItemParametersError::Twice(_)) => {
            return refuse(&error.to_string(), "keep one of the two");
        }
        Err(error) => return refuse(&error.to_string(), "write it like 0=Beijing,1=Shanghai"),
    };
    let (ConfigOrigin::File, Some(count)) = (source, count) else { return Some(parsed) };
    let Some((surplus, _)) = parsed.map().range(Item(count)..).next() else { return Some(parsed) };
    let problem =
        format!("it has a parameter for item {surplus}; with {count} items the last is {}", count - 1);
    refuse(&problem, "raise `shardingTotalCount` or remove the parameter")
}
