//! The layouts that job files use for a job: bare, in a list, in Spring Boot's `elasticjob.jobs`, in 2.x's `typeConfig`
//! and `coreConfig`; in camel or in kebab case. All become one flat mapping.
//!
//! It looks at values only for that. Called by `file` alone.

use serde_json::{Map, Value};

use super::defect::{Defect, DefectKind};
use super::fields::{self, camel};

/// One job of a file.
#[derive(Default)]
pub(super) struct FieldEntry {
    /// Its fields, flat, in camel case.
    pub(super) values: Map<String, Value>,
    /// Its name, if it has one, for messages.
    pub(super) name: Option<String>,
    /// Problems with the layout.
    pub(super) defects: Vec<Defect>,
    /// Whether nothing can be read because of them.
    pub(super) broken: bool,
}

/// The jobs of one document.
pub(super) fn entries(document: Value) -> Vec<FieldEntry> {
    match document {
        Value::Array(jobs) => jobs.into_iter().map(single).collect(),
        Value::Object(mut values) => match values.remove("elasticjob") {
            Some(Value::Object(mut spring)) => match spring.remove("jobs") {
                Some(Value::Object(jobs)) => jobs.into_iter().map(|(name, job)| named(&name, job)).collect(),
                _ => vec![broken("elasticjob.jobs", "it must be a mapping of jobs by name")],
            },
            Some(_) => vec![broken("elasticjob", "it must be a mapping with `jobs` in it")],
            None => vec![single(Value::Object(values))],
        },
        other => vec![single(other)],
    }
}

fn broken(field: &str, problem: &str) -> FieldEntry {
    let defect = Defect::new(DefectKind::Unreadable, field, problem, "write the fields of the job below it");
    FieldEntry { defects: vec![defect], broken: true, ..FieldEntry::default() }
}

fn single(value: Value) -> FieldEntry {
    let Value::Object(values) = value else {
        return broken("", "a job must be a mapping of fields");
    };
    let mut entry = FieldEntry::default();
    flatten(values, &mut entry);
    entry.name = entry.values.get("jobName").and_then(|name| match name {
        Value::String(name) => Some(name.clone()),
        Value::Number(name) => Some(name.to_string()),
        _ => None,
    });
    entry
}

/// In Spring Boot's YAML the key is the job's name.
fn named(name: &str, job: Value) -> FieldEntry {
    let mut entry = single(job);
    match &entry.name {
        Some(inner) if inner != name => {
            let problem = format!("it stands under the name {name:?}");
            let defect = Defect::new(DefectKind::Conflict, "jobName", problem, "keep one of the two");
            entry.defects.push(defect.with_text(inner));
        }
        _ => drop(entry.values.insert("jobName".to_owned(), name.into())),
    }
    entry.name = Some(name.to_owned());
    entry
}

fn flatten(values: Map<String, Value>, into: &mut FieldEntry) {
    for (key, value) in values {
        let name = camel(&key);
        // An unknown name is shown as it was written.
        let name = if fields::field(&name).is_some() { name } else { key };
        match value {
            Value::Object(inner) if matches!(name.as_str(), "typeConfig" | "coreConfig") => {
                flatten(inner, into)
            }
            value if into.values.contains_key(&name) => {
                if into.values.get(&name) != Some(&value) {
                    let remedy = "keep one of the two";
                    let defect = Defect::new(DefectKind::Duplicate, &name, "it is there twice", remedy);
                    into.defects.push(defect);
                }
            }
            value => drop(into.values.insert(name, value)),
        }
    }
}
