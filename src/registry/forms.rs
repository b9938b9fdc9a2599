//! The data of nodes: the exact bytes that we write, and how to read what we find.
//!
//! Nodes that Elastic-Job reads hold exactly its fields: an extra field makes its processes fail at every fire. What is
//! ours alone is JSON in nodes of our own. Called by the lowering and by the reads.

use std::sync::Arc;

use rosterd_domain::id::{InstanceId, Token};
use rosterd_domain::time::Time;
use serde::Serialize;
use serde::de::DeserializeOwned;

#[cfg(feature = "mutants")]
use rosterd_runtime::mutants;

/// Data of `servers/{address}`. Anything else, such as the empty text of version 2, means enabled.
pub(crate) const DISABLED: &str = "DISABLED";
/// Data of `servers/{address}`.
pub(crate) const ENABLED: &str = "ENABLED";
/// Data of `instances/{id}` with which older tools request a run.
const TRIGGER: &[u8] = b"TRIGGER";

/// The approximate size of a record's JSON.
const RECORD: usize = 640;

/// A fault for tests: write as a coordinator of a later version would, with fields that this version does not know.
#[cfg(feature = "mutants")]
const LATER: &str = "later";

/// No data.
pub(crate) fn empty() -> Arc<[u8]> {
    Arc::from([])
}

pub(crate) fn text(text: &str) -> Arc<[u8]> {
    text.as_bytes().into()
}

pub(crate) fn json<T: Serialize>(value: &T) -> Result<Arc<[u8]>, String> {
    let unwritable = |e| format!("it cannot be written as JSON: {e}");
    #[cfg(feature = "mutants")]
    if mutants::is_on(LATER) {
        let value = serde_json::to_value(value).map_err(unwritable)?;
        return Ok(text(&later::written(value).to_string()));
    }
    // Room for a whole record, since a buffer that grows is copied each time.
    let mut out = Vec::with_capacity(RECORD);
    serde_json::to_writer(&mut out, value).map_err(unwritable)?;
    Ok(Arc::from(out))
}

/// JSON of ours that is already text.
pub(crate) fn ours(json: &str) -> Arc<[u8]> {
    #[cfg(feature = "mutants")]
    if mutants::is_on(LATER)
        && let Ok(value) = serde_json::from_str(json)
    {
        return text(&later::written(value).to_string());
    }
    text(json)
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

/// A name as a YAML scalar: quoted if a YAML 1.1 reader would not read it as a string. Names that get here have no
/// quotes and no blanks.
fn scalar(name: &str) -> String {
    if is_plain(name) { name.to_owned() } else { format!("'{name}'") }
}

fn is_plain(name: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let number =
        name.replace('_', "").parse::<f64>().is_ok() || name.starts_with("0x") || name.starts_with("0b");
    // YAML 1.1 reads 10:30 as a base-60 number and 2026-11-21 as a date; an address with three dots is neither.
    let counted = name.contains([':', '-'])
        && name.chars().all(|c| c.is_ascii_digit() || matches!(c, ':' | '-' | '.' | '_' | 'T' | 'Z'));
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !name.ends_with(':')
        && !number
        && !counted
        && !WORDS.iter().any(|word| name.eq_ignore_ascii_case(word))
}

/// What a later version writes.
#[cfg(any(test, feature = "mutants"))]
mod later {
    use serde_json::{Map, Value, json};

    const MORE: &str = "of_a_later_version";
    /// Below these keys, names are words or numbers and not fields: a new one there would be a new word.
    const NO_FIELDS: [&str; 5] = ["missed", "labels", "gaps", "surplus", MORE];

    /// The same value with one extra field wherever there are fields.
    pub(super) fn written(value: Value) -> Value {
        match value {
            Value::Object(fields) => Value::Object(fields_of(fields)),
            Value::Array(values) => values.into_iter().map(written).collect(),
            value => value,
        }
    }

    fn fields_of(fields: Map<String, Value>) -> Map<String, Value> {
        // A mapping whose only value is a mapping: the key is a word that names a variant.
        let is_word = fields.len() == 1 && fields.values().all(Value::is_object);
        let grown = fields.into_iter().map(|(name, value)| {
            let value = if NO_FIELDS.contains(&name.as_str()) { value } else { written(value) };
            (name, value)
        });
        let more = (!is_word).then(|| (MORE.to_owned(), json!({ "more": [1, "two", null] })));
        grown.chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Debug;

    use rosterd_domain::id::{CoordinatorId, Item, ServerAddress, StreamNumber, TriggerId, WorkerId};
    use rosterd_domain::item::{Counters, Crashed, Ended, Missed, Outcome, Record, Running, Source, State};
    use rosterd_domain::job::Policy;
    use rosterd_domain::sharding::Sharding;
    use rosterd_domain::snapshot::{Attachment, Command, InstanceNode, TriggerNode};
    use serde_json::Value;

    use super::*;

    /// The text is read with its known fields, and the extra fields are ignored.
    #[track_caller]
    fn is_read<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
        let newer = later::written(serde_json::to_value(value).unwrap()).to_string();
        assert!(newer.contains("of_a_later_version"), "{newer}");
        assert_eq!(from_json::<T>(newer.as_bytes()).as_ref(), Ok(value), "{newer}");
    }

    fn record(state: State) -> Record {
        let (instance, at) = (InstanceId::new("a@-@w").unwrap(), Time(1_795_000_000_000));
        let last = Ended {
            token: Token(6),
            fire: at,
            source: Source::Misfire,
            instance,
            outcome: Outcome::TimedOut,
            at,
            reported: true,
        };
        let missed = BTreeMap::from([(Missed::Down, 2)]);
        let counters = Counters { fired: 7, succeeded: 6, missed, ..Counters::default() };
        Record {
            token: Token(7),
            last_fire: at,
            state,
            misfire: Some(at),
            leapt: None,
            ahead: None,
            last: Some(last),
            counters,
        }
    }

    /// A node that a later version wrote, with fields of its own, reads like one of this version.
    #[test]
    fn what_a_later_version_adds_to_a_node_is_passed_over() {
        let (instance, worker) = (InstanceId::new("a@-@w").unwrap(), WorkerId::new("w").unwrap());
        let (address, host) = (ServerAddress::new("a").unwrap(), CoordinatorId::new("c@-@1").unwrap());
        let (at, id) = (Time(1_795_000_000_000), TriggerId::new("t").unwrap());
        let running = Running {
            fire: at,
            source: Source::Manual,
            instance: instance.clone(),
            worker,
            since: at,
            trigger: Some(id.clone()),
            held: true,
            cancelled: false,
            deaths: 0,
        };
        let crashed = Crashed { fire: at, instance: instance.clone(), since: at, held: false, deaths: 0 };
        for state in [State::Idle, State::Running(running), State::Crashed(crashed)] {
            is_read(&record(state));
        }
        is_read(&TriggerNode { id, at });
        is_read(&Command::Cancel { item: Item(3), token: Token(9) });
        is_read(&Command::Drain { instance, grace_ms: 5 });
        let labels = BTreeMap::from([("zone".to_owned(), "b".to_owned())]);
        is_read(&InstanceNode {
            address: address.clone(),
            slots: 4,
            client: "one".to_owned(),
            labels,
            host: host.clone(),
        });
        is_read(&Attachment {
            host,
            session: "s".to_owned(),
            stream: StreamNumber(2),
            draining: true,
            leave_grace_ms: Some(30_000),
            resume_key: "k".to_owned(),
            principal: None,
            address,
            lease_ms: 5000,
        });
        let sharding = Sharding::made_at(at).withdrawn();
        let newer: Value = serde_json::from_slice(&sharding.encode()).unwrap();
        assert_eq!(Sharding::decode(later::written(newer).to_string().as_bytes()), Ok(sharding));
    }

    /// A coordinator that changes a job rewrites its policy, so it must keep what a later version has there.
    #[test]
    fn what_a_later_version_adds_to_a_policy_is_kept() {
        let newer = later::written(serde_json::from_str(&Policy::default().to_json()).unwrap());
        let policy = Policy::from_node(newer.to_string().as_bytes()).unwrap();
        assert_eq!(policy.to_json().matches("of_a_later_version").count(), 3, "{}", policy.to_json());
        assert_eq!(Policy::from_node(policy.to_json().as_bytes()).unwrap(), policy);
        assert_eq!(Policy { later: BTreeMap::new(), ..policy.clone() }, Policy::default());
        assert_eq!(Policy::default().replacing(&policy), policy);
    }

    /// An unknown word cannot be ignored: nobody can say what state the item would be in.
    #[test]
    fn a_word_of_a_later_version_is_not_a_record() {
        let text = String::from_utf8(json(&record(State::Idle)).unwrap().to_vec()).unwrap();
        for (known, later) in
            [("timed_out\",\"at", "evicted\",\"at"), ("MISFIRE", "CALENDAR"), ("\"down\"", "\"late\"")]
        {
            assert!(text.contains(known), "{known:?} is not in {text}");
            assert!(from_json::<Record>(text.replace(known, later).as_bytes()).is_err(), "{later}");
        }
    }

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
