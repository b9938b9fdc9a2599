//! The part of a job that Elastic-Job has fields for, valid by construction.
//!
//! It does not interpret schedules or strategies: both are texts here, checked by functions that are passed in. Made by
//! the parsers of this module, read by everyone that plans or fires.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use serde_json::Value;

use super::defect::{Defect, DefectKind, Defects};
use super::items::ItemParameters;
use crate::id::JobName;

/// Most items of a job.
pub const MAX_ITEMS: u32 = 100_000;
/// Longest schedule, in bytes.
pub const MAX_CRON: usize = 256;
/// Longest name of a zone, strategy, handler or label, in bytes.
pub const MAX_WORD: usize = 256;
/// Longest job parameter, in bytes.
pub const MAX_PARAMETER: usize = 64 << 10;
/// Longest text of item parameters, in bytes.
pub const MAX_ITEM_PARAMETERS: usize = 256 << 10;
/// Longest description, in bytes.
pub const MAX_DESCRIPTION: usize = 4 << 10;
/// All properties together, and all kept fields together, in bytes.
pub const MAX_PROPS: usize = 64 << 10;
/// The time zone of a schedule without one.
pub const DEFAULT_ZONE: &str = "UTC";
/// The strategy of a job without one.
pub const DEFAULT_STRATEGY: &str = "AVG_ALLOCATION";

/// The fields of a [`JobConfig`], before and after validation.
#[derive(Clone, PartialEq)]
pub struct ConfigFields {
    /// The job's name.
    pub job_name: JobName,
    /// The schedule; `None`: runs only when triggered.
    pub cron: Option<String>,
    /// The time zone of the schedule; `None` means [`DEFAULT_ZONE`] and omits the field from the node.
    pub time_zone: Option<String>,
    /// Number of items, 1 to [`MAX_ITEMS`].
    pub sharding_total_count: u32,
    /// One parameter per item.
    pub sharding_item_parameters: ItemParameters,
    /// One parameter for all items.
    pub job_parameter: String,
    /// Keep a record of running items.
    pub monitor_execution: bool,
    /// Run an item elsewhere if its worker died; only with `monitor_execution`.
    pub failover: bool,
    /// Run once more after a run that took too long; only with `monitor_execution`.
    pub misfire: bool,
    /// Largest clock difference to the registry, in seconds, at least 1; `None`: not checked for this job.
    pub max_time_diff_seconds: Option<u32>,
    /// How often the assignment is checked without a cause, in minutes, at least 1; `None`: never.
    pub reconcile_interval_minutes: Option<u32>,
    /// Elastic-Job's name of the strategy; `None` means [`DEFAULT_STRATEGY`].
    pub job_sharding_strategy_type: Option<String>,
    /// Free text.
    pub description: String,
    /// Whether the job starts disabled.
    pub disabled: bool,
    /// Whether a worker's own configuration replaces the stored one when it registers.
    pub overwrite: bool,
    /// Properties, passed to the worker.
    pub props: BTreeMap<String, String>,
    /// A label.
    pub label: Option<String>,
    /// Elastic-Job's fields that we do not use, kept unchanged.
    pub unused: BTreeMap<String, Value>,
}

impl ConfigFields {
    /// Elastic-Job's defaults.
    pub fn new(job_name: JobName, sharding_total_count: u32) -> Self {
        Self {
            job_name,
            cron: None,
            time_zone: None,
            sharding_total_count,
            sharding_item_parameters: ItemParameters::default(),
            job_parameter: String::new(),
            monitor_execution: true,
            failover: false,
            misfire: true,
            max_time_diff_seconds: None,
            reconcile_interval_minutes: Some(10),
            job_sharding_strategy_type: None,
            description: String::new(),
            disabled: false,
            overwrite: false,
            props: BTreeMap::new(),
            label: None,
            unused: BTreeMap::new(),
        }
    }
}

/// Omits parameters and properties: they may be secrets.
impl fmt::Debug for ConfigFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobConfig")
            .field("job_name", &self.job_name)
            .field("cron", &self.cron)
            .field("time_zone", &self.time_zone)
            .field("sharding_total_count", &self.sharding_total_count)
            .field("monitor_execution", &self.monitor_execution)
            .field("failover", &self.failover)
            .field("misfire", &self.misfire)
            .field("strategy", &self.job_sharding_strategy_type)
            .field("disabled", &self.disabled)
            .finish_non_exhaustive()
    }
}

/// A validated job configuration. Its fields are read as those of [`ConfigFields`].
#[derive(Clone, PartialEq)]
pub struct JobConfig(ConfigFields);

impl Deref for JobConfig {
    type Target = ConfigFields;
    fn deref(&self) -> &ConfigFields {
        &self.0
    }
}

impl fmt::Debug for JobConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl JobConfig {
    /// Validates the fields; returns all defects at once.
    pub fn new(fields: ConfigFields) -> Result<Self, Defects> {
        let (config, defects) = Self::with_defects(fields);
        Defects::none_or(defects, config)
    }

    /// The fields in any case, and what is wrong with them.
    pub(super) fn with_defects(fields: ConfigFields) -> (Self, Vec<Defect>) {
        let job = fields.job_name.to_string();
        let defects = check(&fields).into_iter().map(|d| Defect { job: Some(job.clone()), ..d }).collect();
        (Self(fields), defects)
    }

    /// A copy with some fields changed, validated again.
    pub fn edit(&self, change: impl FnOnce(&mut ConfigFields)) -> Result<Self, Defects> {
        let mut fields = self.0.clone();
        change(&mut fields);
        Self::new(fields)
    }

    /// This configuration as the replacement of `stored`: unused fields of `stored` that this one does not name are
    /// kept.
    pub fn replacing(&self, stored: &Self) -> Result<Self, Defects> {
        self.edit(|fields| {
            for (name, value) in &stored.unused {
                fields.unused.entry(name.clone()).or_insert_with(|| value.clone());
            }
        })
    }

    /// The zone of the schedule.
    pub fn zone(&self) -> &str {
        self.time_zone.as_deref().unwrap_or(DEFAULT_ZONE)
    }

    /// Has the schedule and Elastic-Job's strategy checked by the given functions: `schedule` gets the expression and
    /// the zone, `strategy` the name. They are not called for fields that the job does not have.
    pub fn validate_with(
        &self,
        schedule: impl Fn(&str, &str) -> Result<(), String>,
        strategy: impl Fn(&str) -> Result<(), String>,
    ) -> Result<(), Defects> {
        let mut defects = Vec::new();
        defects.extend(self.schedule_defect(schedule));
        if let Some(name) = &self.job_sharding_strategy_type {
            defects.extend(named_defect("jobShardingStrategyType", name, strategy));
        }
        let job = Some(self.job_name.to_string());
        Defects::none_or(defects.into_iter().map(|d| Defect { job: job.clone(), ..d }).collect(), ())
    }

    pub(super) fn schedule_defect(
        &self,
        schedule: impl Fn(&str, &str) -> Result<(), String>,
    ) -> Option<Defect> {
        // A schedule that is valid in every zone shows which of the two is wrong.
        const ANY: &str = "0 0 0 * * ?";
        if self.time_zone.is_some()
            && let Err(problem) = schedule(ANY, self.zone())
        {
            let defect = Defect::new(DefectKind::NotAllowed, "timeZone", problem, "");
            return Some(defect.with_text(self.zone()));
        }
        let cron = self.cron.as_deref()?;
        let problem = schedule(cron, self.zone()).err()?;
        let problem = format!("in zone {:?}: {problem}", self.zone());
        let remedy = "correct the expression or the zone, or leave `cron` out to run only when triggered";
        Some(Defect::new(DefectKind::NotAllowed, "cron", problem, remedy).with_text(cron))
    }
}

/// The text from `check` includes the remedy.
pub(super) fn named_defect(
    field: &str,
    name: &str,
    check: impl Fn(&str) -> Result<(), String>,
) -> Option<Defect> {
    let problem = check(name).err()?;
    Some(Defect::new(DefectKind::NotAllowed, field, problem, "").with_text(name))
}

/// The rules of a valid configuration.
fn check(fields: &ConfigFields) -> Vec<Defect> {
    let mut defects = Vec::new();
    defects.extend(count_defect(fields.sharding_total_count));
    for (name, value, max) in texts(fields) {
        defects.extend(text_defect(name, value, max));
    }
    defects.extend(number_defect("maxTimeDiffSeconds", fields.max_time_diff_seconds));
    defects.extend(number_defect("reconcileIntervalMinutes", fields.reconcile_interval_minutes));
    defects.extend(props_defects(&fields.props));
    defects.extend(monitor_defects(fields.monitor_execution, fields.failover, fields.misfire));
    defects.extend(kept_defect("the fields that are kept", &fields.unused));
    defects
}

fn texts(fields: &ConfigFields) -> [(&'static str, &str, usize); 7] {
    fn word(text: &Option<String>) -> &str {
        text.as_deref().unwrap_or_default()
    }
    [
        ("cron", word(&fields.cron), MAX_CRON),
        ("timeZone", word(&fields.time_zone), MAX_WORD),
        ("shardingItemParameters", fields.sharding_item_parameters.as_str(), MAX_ITEM_PARAMETERS),
        ("jobParameter", &fields.job_parameter, MAX_PARAMETER),
        ("jobShardingStrategyType", word(&fields.job_sharding_strategy_type), MAX_WORD),
        ("description", &fields.description, MAX_DESCRIPTION),
        ("label", word(&fields.label), MAX_WORD),
    ]
}

pub(super) fn count_defect(count: u32) -> Option<Defect> {
    let problem = format!("only 1 to {MAX_ITEMS} is allowed");
    let remedy = format!("choose a number from 1 to {MAX_ITEMS}");
    let defect = || Defect::new(DefectKind::NotAllowed, "shardingTotalCount", problem, remedy);
    (count == 0 || count > MAX_ITEMS).then(|| defect().with_value(&count.into()))
}

fn number_defect(field: &str, value: Option<u32>) -> Option<Defect> {
    let max = i32::MAX.unsigned_abs();
    let defect = |value: u32| {
        let problem = format!("only 1 to {max}, or -1 for none, is allowed");
        Defect::new(DefectKind::NotAllowed, field, problem, "choose another number").with_value(&value.into())
    };
    value.filter(|value| *value == 0 || *value > max).map(defect)
}

/// A text that is too long, or that YAML cannot represent. The message does not show its content.
pub(super) fn text_defect(field: &str, text: &str, max: usize) -> Option<Defect> {
    if text.len() > max {
        let problem = format!("{} bytes are too many: at most {max} are allowed", text.len());
        let remedy = "shorten it, or keep the text elsewhere and name the place here";
        return Some(Defect::new(DefectKind::TooLarge, field, problem, remedy));
    }
    let lines = matches!(field, "jobParameter" | "description" | "shardingItemParameters")
        || field.starts_with("props.");
    let bad = |c: &char| match c {
        '\n' | '\r' | '\t' => !lines,
        '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => true,
        c => c.is_control(),
    };
    let (at, bad) = text.chars().enumerate().find(|(_, c)| bad(c))?;
    let problem = format!("character {} is U+{:04X}, which is not allowed in it", at + 1, u32::from(bad));
    Some(Defect::new(DefectKind::NotAllowed, field, problem, "remove it"))
}

fn props_defects(props: &BTreeMap<String, String>) -> Vec<Defect> {
    let size: usize = props.iter().map(|(name, value)| name.len() + value.len()).sum();
    let names = props.keys().filter_map(|name| text_defect("props", name, MAX_WORD));
    let values =
        props.iter().filter_map(|(name, value)| text_defect(&format!("props.{name}"), value, MAX_PROPS));
    names.chain(values).chain((size > MAX_PROPS).then(|| too_many("props", size))).collect()
}

fn too_many(field: &str, size: usize) -> Defect {
    let problem = format!("{size} bytes are too many: at most {MAX_PROPS} are allowed together");
    Defect::new(DefectKind::TooLarge, field, problem, "remove some of them")
}

pub(super) fn kept_defect(what: &str, kept: &BTreeMap<String, Value>) -> Option<Defect> {
    let size: usize = kept.iter().map(|(name, value)| name.len() + value.to_string().len()).sum();
    (size > MAX_PROPS).then(|| too_many(what, size))
}

/// Failover and misfire need to know which items are running.
pub(super) fn monitor_defects(monitor: bool, failover: bool, misfire: bool) -> Vec<Defect> {
    let needs = |field: &str| {
        let problem = "it needs a record of running items, which `monitorExecution: false` switches off";
        let remedy = format!("set `monitorExecution: true` or `{field}: false`");
        Defect::new(DefectKind::Conflict, field, problem, remedy).with_value(&true.into())
    };
    let on = [("failover", failover), ("misfire", misfire)];
    on.into_iter().filter(|(_, on)| *on && !monitor).map(|(field, _)| needs(field)).collect()
}
