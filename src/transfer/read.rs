//! Reads the file as if an attacker had written it: returns every defect at once, with its place, and
//! nothing is taken unless all of it is right.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rosterd_domain::id::{Item, JobName, ServerAddress, Token};
use rosterd_domain::sharding::Sharding;
use rosterd_domain::snapshot::{Announced, Stage};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::form::{ASSIGNMENT, FORMAT, VERSION, digest, stage_name};
use super::{Export, Job};

/// Longest offset, in bytes.
const MAX_OFFSET: usize = 64 << 10;

const FILE: [&str; 7] = ["format", "version", "namespace", "exported_at", "tokens", "jobs", "digest"];
const JOB: [&str; 11] = [
    "name",
    "handler",
    "config",
    "policy",
    "paused",
    "rights",
    "servers",
    "announced",
    "triggers",
    "offsets",
    "records",
];

pub(super) fn read(text: &[u8]) -> Result<Export, Vec<String>> {
    let file: Value = serde_json::from_slice(text).map_err(|error| {
        vec![format!("it is not JSON, or was cut off: {error}; take the file as `rosterd export` wrote it")]
    })?;
    let mut defects = Vec::new();
    let export = header(&file, &mut defects)?;
    if defects.is_empty() { export.ok_or_else(Vec::new) } else { Err(defects) }
}

/// One job by itself, as a backup has it.
pub(super) fn one(value: &Value) -> Result<Job, Vec<String>> {
    let mut defects = Vec::new();
    let name = value.get("name").and_then(Value::as_str).unwrap_or("?");
    let mut place = ExportPosition { at: format!("job {name:?}"), defects: &mut defects };
    let found = job(&mut place, value);
    if let Some(job) = &found {
        check(&mut place, job, None);
    }
    if defects.is_empty() { found.ok_or_else(Vec::new) } else { Err(defects) }
}

/// A file that is not an export of ours is the only defect then; all other defects are reported together.
fn header(file: &Value, defects: &mut Vec<String>) -> Result<Option<Export>, Vec<String>> {
    let format = file.get("format").and_then(Value::as_str);
    if format != Some(FORMAT) {
        let remedy = "give a file that `rosterd export` wrote";
        return Err(vec![format!(
            "format = {}: it must be {FORMAT:?}; {remedy}",
            format.unwrap_or("nothing")
        )]);
    }
    match file.get("version").and_then(Value::as_u64) {
        Some(1..=VERSION) => {}
        Some(newer) if newer > VERSION => {
            let remedy = "import it with the rosterd that wrote it, or a later one";
            return Err(vec![format!("version = {newer}: this rosterd reads up to {VERSION}; {remedy}")]);
        }
        _ => return Err(vec!["version: it must be a number from 1; take the file as it was written".into()]),
    }
    if let Some(said) = file.get("digest")
        && said.as_str() != Some(&digest(file))
    {
        let remedy = "take an undamaged copy; if it was changed on purpose, remove the field `digest`";
        defects.push(format!("digest: the file is not what was written; {remedy}"));
    }
    let mut at = ExportPosition { at: String::new(), defects };
    at.only(file, &FILE);
    let namespace = at.take(file, "namespace");
    let exported_at = at.take(file, "exported_at");
    let tokens: Option<Token> = at.take(file, "tokens");
    let jobs = jobs(&mut at, file, tokens);
    let (Some(namespace), Some(exported_at), Some(tokens), Some(jobs)) =
        (namespace, exported_at, tokens, jobs)
    else {
        return Ok(None);
    };
    Ok(Some(Export { namespace, exported_at, tokens, jobs }))
}

fn jobs(at: &mut ExportPosition<'_>, file: &Value, tokens: Option<Token>) -> Option<Vec<Job>> {
    let Some(Value::Array(values)) = file.get("jobs") else {
        at.tell("jobs", "it must be a list", "take the file as it was written");
        return None;
    };
    let (mut jobs, mut names) = (Vec::new(), BTreeSet::new());
    for (number, value) in values.iter().enumerate() {
        let name = value.get("name").and_then(Value::as_str).unwrap_or("?");
        let mut place = ExportPosition { at: format!("jobs[{number}] {name:?}"), defects: at.defects };
        if !names.insert(name) {
            place.tell("name", "the file has another job of this name", "remove one of the two");
        }
        if let Some(job) = job(&mut place, value) {
            check(&mut place, &job, tokens);
            jobs.push(job);
        }
    }
    Some(jobs)
}

fn job(at: &mut ExportPosition<'_>, value: &Value) -> Option<Job> {
    at.only(value, &JOB);
    let name: Option<JobName> = at.take(value, "name");
    let handler = at.take(value, "handler");
    let config = at.take(value, "config");
    let policy = at.take(value, "policy");
    let paused = at.take(value, "paused");
    let rights = rights(at, value);
    let servers = servers(at, value);
    let announced = announced(at, value);
    let triggers = at.by_item(value, "triggers", decode);
    let offsets = at.by_item(value, "offsets", offset);
    let records = at.by_item(value, "records", decode);
    Some(Job {
        name: name?,
        handler: handler?,
        config: config?,
        policy: policy?,
        paused: paused?,
        rights: rights?,
        servers: servers?,
        announced: announced?,
        triggers: triggers?,
        offsets: offsets?,
        records: records?,
    })
}

/// What each part says by itself may still not fit together.
fn check(at: &mut ExportPosition<'_>, job: &Job, tokens: Option<Token>) {
    match job.spec() {
        Ok(spec) if spec.config().job_name != job.name => {
            at.tell("config", format!("its jobName is {}", spec.config().job_name), "make both the same");
        }
        Ok(_) => {}
        Err(defects) => defects.iter().for_each(|defect| at.tell("config", defect, "")),
    }
    let Some(most) = tokens else { return };
    for (item, record) in job.records.iter().filter(|(_, record)| record.token > most) {
        let problem =
            format!("token {} is above the {most} that the file says was the highest", record.token);
        at.tell(&format!("records.{item}"), problem, "raise `tokens` to it");
    }
}

fn rights(at: &mut ExportPosition<'_>, value: &Value) -> Option<Sharding> {
    const NAME: &str = "rights";
    let Some(Value::Object(fields)) = value.get(NAME) else {
        at.tell(NAME, "it must be a mapping of fields", "take the file as it was written");
        return None;
    };
    if let Some(name) = ASSIGNMENT.into_iter().find(|name| fields.contains_key(*name)) {
        at.tell(&format!("{NAME}.{name}"), "owners do not move with a job", "remove it");
        return None;
    }
    match Sharding::decode(Value::Object(fields.clone()).to_string().as_bytes()) {
        Ok(sharding) => Some(sharding),
        Err(error) => {
            at.tell(NAME, error, "take the file as it was written");
            None
        }
    }
}

fn servers(at: &mut ExportPosition<'_>, value: &Value) -> Option<BTreeMap<ServerAddress, bool>> {
    at.mapping(value, "servers", |name, value| {
        let address = ServerAddress::new(name).map_err(|error| error.to_string())?;
        Ok((address, value.as_bool().ok_or("it must be true (enabled) or false")?))
    })
}

fn announced(at: &mut ExportPosition<'_>, value: &Value) -> Option<BTreeMap<Stage, Announced>> {
    at.mapping(value, "announced", |name, value| {
        let stage = [Stage::Started, Stage::Completed].into_iter().find(|stage| stage_name(*stage) == name);
        Ok((stage.ok_or("it must be started or completed")?, decode(value)?))
    })
}

fn offset(value: &Value) -> Result<Vec<u8>, String> {
    let fields = value.as_object().filter(|fields| fields.len() == 1);
    let field = |name| fields.and_then(|fields| fields.get(name)).and_then(Value::as_str);
    let data = match (field("text"), field("base64")) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (_, Some(text)) => STANDARD.decode(text).map_err(|error| format!("it is not base64: {error}"))?,
        _ => return Err("it must be {\"text\": …} or {\"base64\": …}".to_owned()),
    };
    if data.len() > MAX_OFFSET {
        return Err(format!("{} bytes are too many: at most {MAX_OFFSET} are kept", data.len()));
    }
    Ok(data)
}

fn decode<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| error.to_string())
}

/// Where in the file one is, and what was found wrong so far.
struct ExportPosition<'a> {
    at: String,
    defects: &'a mut Vec<String>,
}

impl ExportPosition<'_> {
    fn tell(&mut self, field: &str, problem: impl Display, remedy: &str) {
        let parts = [self.at.as_str(), field].into_iter().filter(|part| !part.is_empty());
        let place = parts.collect::<Vec<_>>().join(" ");
        let remedy = if remedy.is_empty() { String::new() } else { format!("; {remedy}") };
        self.defects.push(format!("{place}: {problem}{remedy}"));
    }

    /// Fields that nobody knows may mean something to who wrote them.
    fn only(&mut self, value: &Value, known: &[&str]) {
        let Some(fields) = value.as_object() else {
            return self.tell("", "it must be a mapping of fields", "take the file as it was written");
        };
        for name in fields.keys().filter(|name| !known.contains(&name.as_str())) {
            self.tell(name, "unknown field", "remove it");
        }
    }

    fn take<T: DeserializeOwned>(&mut self, value: &Value, name: &str) -> Option<T> {
        let Some(field) = value.get(name) else {
            self.tell(name, "it is missing", "take the file as it was written");
            return None;
        };
        decode(field).map_err(|error| self.tell(name, error, "take the file as it was written")).ok()
    }

    fn by_item<T>(
        &mut self,
        value: &Value,
        name: &str,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Option<BTreeMap<Item, T>> {
        self.mapping(value, name, |item, value| {
            let number: u32 = item.parse().map_err(|_| "it is not the number of an item".to_owned())?;
            if number.to_string() != item {
                return Err(format!("write it as {number}"));
            }
            Ok((Item(number), read(value)?))
        })
    }

    fn mapping<K: Ord, T>(
        &mut self,
        value: &Value,
        name: &str,
        read: impl Fn(&str, &Value) -> Result<(K, T), String>,
    ) -> Option<BTreeMap<K, T>> {
        let Some(fields) = value.get(name).and_then(Value::as_object) else {
            self.tell(name, "it must be a mapping", "take the file as it was written");
            return None;
        };
        self.entries(fields, name, read)
    }

    fn entries<K: Ord, T>(
        &mut self,
        fields: &Map<String, Value>,
        name: &str,
        read: impl Fn(&str, &Value) -> Result<(K, T), String>,
    ) -> Option<BTreeMap<K, T>> {
        let before = self.defects.len();
        let mut found = BTreeMap::new();
        for (key, value) in fields {
            match read(key, value) {
                Ok((key, value)) => drop(found.insert(key, value)),
                Err(problem) => self.tell(&format!("{name}.{key}"), problem, ""),
            }
        }
        (self.defects.len() == before).then_some(found)
    }
}
