//! What stands in a node: the exact bytes that we write, and how what we find is read.
//!
//! Nodes that Elastic-Job reads hold exactly its fields: a field too many makes its processes fail at every
//! fire. What is ours alone is JSON in nodes of our own. Called by the lowering and by the reads.

use std::sync::Arc;

use rosterd_domain::id::{InstanceId, Token};
use rosterd_domain::time::Time;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Data of `servers/{address}`: anything else, and the empty text of its version 2, means enabled.
pub(crate) const DISABLED: &str = "DISABLED";
/// Data of `servers/{address}`.
pub(crate) const ENABLED: &str = "ENABLED";
/// Data of `instances/{id}` with which older tools ask for a run.
const TRIGGER: &[u8] = b"TRIGGER";

/// No data.
pub(crate) fn empty() -> Arc<[u8]> {
    Arc::from([])
}

pub(crate) fn text(text: &str) -> Arc<[u8]> {
    text.as_bytes().into()
}

pub(crate) fn json<T: Serialize>(value: &T) -> Result<Arc<[u8]>, String> {
    serde_json::to_vec(value).map(Arc::from).map_err(|e| format!("it cannot be written as JSON: {e}"))
}

pub(crate) fn from_json<T: DeserializeOwned>(data: &[u8]) -> Result<T, String> {
    serde_json::from_slice(data).map_err(|e| e.to_string())
}

/// `instances/{id}`: block YAML as Elastic-Job writes it.
pub(crate) fn instance(id: &InstanceId) -> Arc<[u8]> {
    text(&format!("jobInstanceId: {}\nserverIp: {}\n", scalar(id.as_str()), scalar(id.address())))
}

/// Whether `instances/{id}` carries an older tool's command.
pub(crate) fn is_trigger(data: &[u8]) -> bool {
    data.trim_ascii() == TRIGGER
}

pub(crate) fn is_enabled(data: &[u8]) -> bool {
    !data.trim_ascii().eq_ignore_ascii_case(DISABLED.as_bytes())
}

/// `leader/failover/items/{item}`.
pub(crate) fn failover_item(fire: Time, token: Token) -> Result<Arc<[u8]>, String> {
    #[derive(Serialize)]
    struct Form {
        fire: Time,
        token: Token,
    }
    json(&Form { fire, token })
}

/// A name as a YAML scalar: quoted where a YAML 1.1 reader would not take it for a text. The names that come
/// here have no quotes and no blanks.
fn scalar(name: &str) -> String {
    if is_plain(name) { name.to_owned() } else { format!("'{name}'") }
}

fn is_plain(name: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let number =
        name.replace('_', "").parse::<f64>().is_ok() || name.starts_with("0x") || name.starts_with("0b");
    // 10:30 counts in sixties, 2026-11-21 is a date; an address with three dots is neither.
    let counted = name.contains([':', '-'])
        && name.chars().all(|c| c.is_ascii_digit() || matches!(c, ':' | '-' | '.' | '_' | 'T' | 'Z'));
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !name.ends_with(':')
        && !number
        && !counted
        && !WORDS.iter().any(|word| name.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_written_as_elastic_job_writes_it() {
        let form = |id: &str| String::from_utf8(instance(&InstanceId::new(id).unwrap()).to_vec()).unwrap();
        assert_eq!(form("10.0.0.7@-@w-1"), "jobInstanceId: 10.0.0.7@-@w-1\nserverIp: 10.0.0.7\n");
        assert_eq!(form("[::1]@-@w"), "jobInstanceId: '[::1]@-@w'\nserverIp: '[::1]'\n");
        assert_eq!(form("10:30@-@w"), "jobInstanceId: 10:30@-@w\nserverIp: '10:30'\n");
        assert_eq!(form("1e3@-@w"), "jobInstanceId: 1e3@-@w\nserverIp: '1e3'\n");
        assert_eq!(form("no@-@w"), "jobInstanceId: no@-@w\nserverIp: 'no'\n");
    }

    #[test]
    fn a_server_is_enabled_unless_it_says_disabled() {
        for (data, enabled) in [("", true), ("ENABLED", true), ("DISABLED", false), ("disabled\n", false)] {
            assert_eq!(is_enabled(data.as_bytes()), enabled, "{data:?}");
        }
    }
}
