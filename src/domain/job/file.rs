//! Job files: YAML or JSON, one job or several, with the field names of any generation of Elastic-Job.
//!
//! Never stops at the first defect. Called by the command line, by the API's apply, and for a job tree of 1.x.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::config::ConfigFields;
use super::defect::{Defect, DefectKind, Defects, nearest};
use super::fields::{self, FIELDS, POLICY_FIELDS, Use};
use super::node::MAX_NODE;
use super::policy::{self, Policy};
use super::read::{self, ConfigOrigin, STRATEGIES};
use super::reader::{FieldReader, hidden};
use super::shape::{self, FieldEntry};
use super::spec::{JobSpec, implied_kind};
use super::{origin, tree, yaml};
use crate::id::JobName;

/// Largest job file read, in bytes.
pub const MAX_FILE: usize = 4 << 20;

/// The key for fields that Elastic-Job does not have.
pub const OWN_KEY: &str = "rosterd";

/// Parses a job file. If there is any defect nothing is accepted, and every defect is reported.
pub fn parse_file(bytes: &[u8]) -> Result<Vec<JobSpec>, Defects> {
    parse_file_with(bytes, |_| Ok(()))
}

/// The same, with `check` applied to each job too, as far as it can be read: all defects are reported at once, in the
/// order of the jobs in the file.
pub fn parse_file_with(
    bytes: &[u8],
    check: impl Fn(&JobSpec) -> Result<(), Defects>,
) -> Result<Vec<JobSpec>, Defects> {
    let entries: Vec<FieldEntry> =
        tree::documents(bytes, MAX_FILE)?.into_iter().flat_map(shape::entries).collect();
    if entries.is_empty() {
        let problem = "there is no job in it";
        return Err(Defect::new(DefectKind::Missing, "", problem, "write at least a `jobName`").into());
    }
    let several = entries.len() > 1;
    let (mut jobs, mut defects, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (i, entry) in entries.into_iter().enumerate() {
        let number = several.then_some(i + 1);
        let name = entry.name.clone();
        let label = |defect: Defect| Defect { number, job: name.clone(), ..defect };
        match job(entry, ConfigOrigin::File, &check) {
            Ok(job) => jobs.push(job),
            Err(more) => defects.extend(more.into_iter().map(label)),
        }
        if let Some(name) = &name
            && !names.insert(name.clone())
        {
            let problem = "the file has another job of this name";
            defects.push(label(Defect::new(
                DefectKind::Duplicate,
                "jobName",
                problem,
                "rename one of the two",
            )));
        }
    }
    Defects::none_or(defects, jobs)
}

impl JobSpec {
    /// A job of Elastic-Job 1.x, whose `config` has a node per field: `children` holds their data by name.
    pub fn from_v1_nodes(name: &JobName, children: &BTreeMap<String, String>) -> Result<Self, Defects> {
        let mut values: Map<String, Value> =
            children.iter().map(|(name, data)| (name.clone(), data.as_str().into())).collect();
        values.insert("jobName".to_owned(), name.as_str().into());
        job(FieldEntry { values, ..FieldEntry::default() }, ConfigOrigin::Node, &|_| Ok(()))
    }

    /// A job of Elastic-Job 2.x or 3.x to be migrated: `root` is the data of its own node, `config` that of `config`.
    /// Unlike [`Self::stored`], fields of older generations become their counterpart in 3.x, as in a file.
    pub fn from_foreign_node(name: &JobName, root: &str, config: &[u8]) -> Result<Self, Defects> {
        let mut documents = tree::documents(config, MAX_NODE)?.into_iter();
        let (Some(Value::Object(mut values)), None) = (documents.next(), documents.next()) else {
            let problem = "it is not one mapping of fields";
            let remedy = "have Elastic-Job write the job's configuration again";
            return Err(Defect::new(DefectKind::Unreadable, "config", problem, remedy).into());
        };
        // The path of the node determines the job's name, whatever its data says.
        values.insert("jobName".to_owned(), name.as_str().into());
        let spec = job(FieldEntry { values, ..FieldEntry::default() }, ConfigOrigin::Node, &|_| Ok(()))?;
        // 3.x keeps the class, or the name of the type, in the job's own node.
        if root.is_empty() || root.contains(char::is_whitespace) {
            return Ok(spec);
        }
        let mut policy = spec.policy().clone();
        if policy.kind == policy::JobKind::Simple {
            policy.kind = implied_kind(spec.config(), root).unwrap_or_default();
        }
        JobSpec::new(spec.config().clone(), policy, root)
    }

    /// The job as a file that [`parse_file`] reads.
    pub fn to_file(&self) -> String {
        yaml::written(&self.file_fields())
    }

    /// The same as JSON.
    pub fn to_json_file(&self) -> String {
        Value::Object(self.file_fields()).to_string()
    }

    fn file_fields(&self) -> Map<String, Value> {
        let mut values: Map<String, Value> = self.config().node_fields().into_iter().collect();
        let mut own = self.policy().values();
        own.insert("handler".to_owned(), self.handler().into());
        values.insert(OWN_KEY.to_owned(), Value::Object(own));
        values
    }
}

fn job(
    entry: FieldEntry,
    source: ConfigOrigin,
    check: &dyn Fn(&JobSpec) -> Result<(), Defects>,
) -> Result<JobSpec, Defects> {
    if entry.broken {
        return Err(Defects::of(entry.defects));
    }
    let mut reader = FieldReader::new(entry.values, "");
    reader.defects = entry.defects;
    let mut own = FieldReader::new(reader.mapping(OWN_KEY).unwrap_or_default(), OWN_KEY);
    let mut fields = read::config(&mut reader, source);
    let streaming_named = own.has("streaming");
    let (mut policy, kind_named) = policy::read(&mut own);
    let handler = own.filled("handler");
    policy::refuse_rest(&mut own);
    reader.defects.append(&mut own.defects);

    let mut origin = origin::read(&mut reader);
    origin.properties(&mut fields, &mut reader);
    policy.kind = origin.kind(&fields, kind_named.then_some(policy.kind), streaming_named, &mut reader);
    let handler = handler.unwrap_or_else(|| origin.handler(policy.kind, &fields));
    sort_rest(&mut reader, source, &mut fields, &mut policy);
    if source == ConfigOrigin::File {
        reader.defects.extend(strategy_defect(&fields, &policy));
    }
    let spec = JobSpec::checked(fields, policy, handler, check, &reader.defects);
    Defects::join(reader.defects, spec)
}

/// Handles every field that is left: it is kept, refused, or a mistake.
fn sort_rest(reader: &mut FieldReader, source: ConfigOrigin, fields: &mut ConfigFields, policy: &mut Policy) {
    for (name, value) in reader.rest() {
        let info = fields::field(&name);
        match info.map(|info| info.use_) {
            Some(Use::Kept) if info.is_some_and(|info| info.in_config) => {
                fields.unused.insert(name, value);
            }
            Some(Use::Kept) => drop(policy.elastic_job.insert(name, value)),
            _ if source == ConfigOrigin::Node => drop(policy.elastic_job.insert(name, value)),
            Some(Use::Refused) => {
                let why = info.map_or("", |info| info.why);
                let problem = format!("rosterd cannot do what it asks for: {why}");
                reader.note(DefectKind::RefusedField, &name, &value, &problem, "remove it");
            }
            _ => reader.defects.push(unknown(&name, &value)),
        }
    }
}

/// The value of an unknown field is not shown: it may be a secret under a mistyped name.
fn unknown(name: &str, value: &Value) -> Defect {
    let meant = nearest(name, FIELDS.iter().map(|field| field.name).chain([OWN_KEY]));
    let remedy = match meant {
        _ if POLICY_FIELDS.iter().any(|field| field.path.split('.').next() == Some(name)) => {
            format!("write it under `{OWN_KEY}`")
        }
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "remove it".to_owned(),
    };
    let defect = Defect::new(DefectKind::UnknownField, name, "unknown field", remedy);
    if meant.is_some_and(hidden) { defect } else { defect.with_value(value) }
}

/// Elastic-Job's JVMs fail if they do not know the strategy, so its field accepts only Elastic-Job's own.
fn strategy_defect(fields: &ConfigFields, policy: &Policy) -> Option<Defect> {
    let name = fields.job_sharding_strategy_type.as_deref()?;
    if policy.strategy.is_some() || STRATEGIES.iter().any(|(known, _)| *known == name) {
        return None;
    }
    let known = STRATEGIES.map(|(name, _)| name).join(", ");
    let problem = format!("only Elastic-Job's own are allowed here: {known}");
    let remedy = if name.contains('.') {
        "choose one of them; rosterd loads no Java class".to_owned()
    } else {
        format!("choose one of them, or set `{OWN_KEY}.strategy` to a strategy of rosterd")
    };
    let defect = Defect::new(DefectKind::NotAllowed, "jobShardingStrategyType", problem, remedy);
    Some(defect.with_text(name))
}
