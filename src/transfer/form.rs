//! The form of the file: JSON with a name, a version and a digest. The guide describes the fields, on the
//! page about moving. A change that an older reader would misunderstand needs a new [`VERSION`].

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rosterd_domain::id::Item;
use rosterd_domain::sharding::Sharding;
use rosterd_domain::snapshot::Stage;
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{Export, Job};

/// What the file says it is.
pub(super) const FORMAT: &str = "rosterd-export";
/// The version that is written, and the newest that is read.
pub(super) const VERSION: u64 = 1;
/// Owners go with their processes: a file has no assignment.
pub(super) const ASSIGNMENT: [&str; 2] = ["instances", "owners"];

pub(super) fn write(export: &Export) -> String {
    let mut file = json!({
        "format": FORMAT,
        "version": VERSION,
        "namespace": export.namespace,
        "exported_at": export.exported_at,
        "tokens": export.tokens,
        "jobs": export.jobs.iter().map(job).collect::<Vec<_>>(),
    });
    let digest = digest(&file);
    if let Value::Object(fields) = &mut file {
        fields.insert("digest".to_owned(), digest.into());
    }
    // A value has texts for keys and no odd numbers: it can be written.
    serde_json::to_string_pretty(&file).unwrap_or_default() + "\n"
}

pub(super) fn job(job: &Job) -> Value {
    let servers = job.servers.iter().map(|(address, enabled)| (address.to_string(), (*enabled).into()));
    let announced = job.announced.iter().map(|(stage, announced)| {
        let value = serde_json::to_value(announced).unwrap_or_default();
        (stage_name(*stage).to_owned(), value)
    });
    let offsets: BTreeMap<Item, Value> =
        job.offsets.iter().map(|(item, data)| (*item, offset(data))).collect();
    json!({
        "name": job.name,
        "handler": job.handler,
        "config": job.config,
        "policy": job.policy,
        "paused": job.paused,
        "rights": rights(&job.rights),
        "servers": Value::Object(servers.collect()),
        "announced": Value::Object(announced.collect()),
        "triggers": by_item(&job.triggers),
        "offsets": by_item(&offsets),
        "records": by_item(&job.records),
    })
}

pub(super) fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Started => "started",
        Stage::Completed => "completed",
    }
}

fn rights(sharding: &Sharding) -> Value {
    let mut value = serde_json::to_value(sharding).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        for name in ASSIGNMENT {
            fields.remove(name);
        }
    }
    value
}

fn by_item<T: Serialize>(values: &BTreeMap<Item, T>) -> Value {
    let value = |value: &T| serde_json::to_value(value).unwrap_or_default();
    let fields = values.iter().map(|(item, of)| (item.to_string(), value(of)));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// A user's bytes: as a text where they are one.
fn offset(data: &[u8]) -> Value {
    match std::str::from_utf8(data) {
        Ok(text) => json!({ "text": text }),
        Err(_) => json!({ "base64": STANDARD.encode(data) }),
    }
}

/// Over all of the file but itself, without regard to blanks and order.
pub(super) fn digest(file: &Value) -> String {
    let mut file = file.clone();
    if let Value::Object(fields) = &mut file {
        fields.remove("digest");
    }
    format!("sha256:{}", hex::encode(Sha256::digest(file.to_string())))
}
