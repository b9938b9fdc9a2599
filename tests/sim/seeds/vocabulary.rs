//! The words that a script may contain: parsing reports unknown ones in a hand-written script.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

use crate::faults::operator_request::{STRATEGIES, ZONES};

/// One of them.
pub type KnownWord = &'static str;

/// The names of jobs, and what happens to a fire without an answer.
const OTHERS: [KnownWord; 7] = ["short", "again", "long", "hours", "bare", "run", "skip"];

fn known<E: serde::de::Error>(text: &str) -> Result<KnownWord, E> {
    let mut all = OTHERS.iter().chain(&STRATEGIES).chain(&ZONES);
    all.find(|word| **word == text).copied().ok_or_else(|| {
        E::custom(format!("{text:?} is not known: write one of {OTHERS:?}, {STRATEGIES:?} or {ZONES:?}"))
    })
}

pub fn word<'de, D: Deserializer<'de>>(from: D) -> Result<KnownWord, D::Error> {
    known(&String::deserialize(from)?)
}

pub fn maybe<'de, D: Deserializer<'de>>(from: D) -> Result<Option<KnownWord>, D::Error> {
    Option::<String>::deserialize(from)?.map(|text| known(&text)).transpose()
}

/// The default of a field that older scripts lack.
pub const fn yes() -> bool {
    true
}

/// Whether the field can be omitted.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as it is asked")]
pub const fn is_yes(is: &bool) -> bool {
    *is
}

/// Spans as milliseconds.
pub mod millis {
    use super::{Deserialize, Deserializer, Duration, Serializer};

    pub fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(crate::faults::disruption::millis(*span))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

#[test]
fn a_word_that_is_not_known_is_named() {
    let read = |text: &str| {
        crate::seeds::script::Script::read(
            &crate::seeds::script::Script::of(1).text().replace("\"again\"", text),
        )
    };
    assert!(read("\"again\"").is_ok());
    let refused = read("\"agian\"").unwrap_err();
    assert!(refused.starts_with("line 1: \"agian\" is not known: write one of"), "{refused}");
}
