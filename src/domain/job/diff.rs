//! The differences between two jobs, field by field, for people and for the audit.
//!
//! Never decides the effect of a change. Called by the command line and the API.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::file::OWN_KEY;
use super::reader::hidden;
use super::spec::JobSpec;

/// One field that differs.
#[derive(Clone, PartialEq, Eq)]
pub struct Change {
    /// Its path, for example `rosterd.retries.max_attempts` or `props.url`.
    pub field: String,
    /// Its value before; `None` if it did not exist.
    pub from: Option<String>,
    /// Its value after; `None` if it no longer exists.
    pub to: Option<String>,
    /// Whether the values may be secrets: then only callers that may read the job may see them.
    pub secret: bool,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = self.shown();
        let show = |value: Option<String>| value.unwrap_or_else(|| "(none)".to_owned());
        write!(f, "{}: {} -> {}", self.field, show(from), show(to))
    }
}

impl Change {
    /// Both values as every caller may see them.
    pub fn shown(&self) -> (Option<String>, Option<String>) {
        let show = |value: &Option<String>| {
            let text = value.as_ref()?;
            Some(if self.secret { format!("(hidden, {} bytes)", text.len()) } else { text.clone() })
        };
        (show(&self.from), show(&self.to))
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The changes from `a` to `b`, in the order of the fields' names; empty if there are none. Item parameters are
/// compared item by item, so their spelling does not matter.
pub fn diff(a: &JobSpec, b: &JobSpec) -> Vec<Change> {
    // Nearly all that is registered is what the job has already.
    if a == b {
        return Vec::new();
    }
    let (a, b) = (flat(a), flat(b));
    let fields: BTreeSet<_> = a.keys().chain(b.keys()).collect();
    let changed = fields.into_iter().filter(|field| a.get(*field) != b.get(*field));
    changed
        .map(|field| Change {
            secret: field.split('.').next().is_some_and(hidden),
            field: field.clone(),
            from: a.get(field).cloned(),
            to: b.get(field).cloned(),
        })
        .collect()
}

fn flat(spec: &JobSpec) -> BTreeMap<String, String> {
    let mut flat = BTreeMap::from([(format!("{OWN_KEY}.handler"), text(spec.handler().into()))]);
    for (name, value) in spec.config().node_fields() {
        if name != "shardingItemParameters" {
            spread(name, value, &mut flat);
        }
    }
    for (item, parameter) in spec.config().sharding_item_parameters.map() {
        flat.insert(format!("shardingItemParameters.{item}"), text(parameter.as_str().into()));
    }
    spread(OWN_KEY.to_owned(), Value::Object(spec.policy().values()), &mut flat);
    flat
}

fn spread(path: String, value: Value, into: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                spread(format!("{path}.{name}"), value, into);
            }
        }
        value => drop(into.insert(path, text(value))),
    }
}

fn text(value: Value) -> String {
    value.to_string()
}
