//! Compares a vector's expectations with the machine's output.

use std::collections::BTreeSet;

use serde_json::Value;

use super::frames::text;

/// An effect: when, of which kind, and its value.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) at: f64,
    pub(super) kind: String,
    pub(super) value: Value,
}

struct Expected<'v> {
    kind: &'v str,
    from: f64,
    to: f64,
    value: &'v Value,
}

impl<'v> Expected<'v> {
    fn of(step: &'v Value, one: &'v Value) -> Self {
        let at = one.get("at").unwrap_or(&step["at"]);
        let number = |at: &Value| at.as_f64().expect("milliseconds");
        let (from, to) =
            if at.is_array() { (number(&at[0]), number(&at[1])) } else { (number(at), number(at)) };
        let mut effects = one.as_object().expect("an effect").iter().filter(|(name, _)| *name != "at");
        let (mut kind, mut value) = effects.next().expect("an effect");
        if kind == "send" {
            (kind, value) = value.as_object().expect("a frame").iter().next().expect("a frame");
        }
        Self { kind, from, to, value }
    }
}

/// What differs.
pub(super) fn compare(step: &Value, said: &[&Said]) -> Result<(), String> {
    let none = Vec::new();
    let expected = step["expect"].as_array().unwrap_or(&none);
    let expected: Vec<_> = expected.iter().map(|one| Expected::of(step, one)).collect();
    if step["in_order"] == true && !expected.iter().map(|one| one.kind).eq(said.iter().map(|one| &one.kind)) {
        return Err("it is another order".into());
    }
    let kinds = expected.iter().map(|one| one.kind).chain(said.iter().map(|one| one.kind.as_str()));
    for kind in kinds.collect::<BTreeSet<_>>() {
        let wanted: Vec<_> = expected.iter().filter(|one| one.kind == kind).collect();
        let found: Vec<_> = said.iter().filter(|one| one.kind == kind).collect();
        if wanted.len() != found.len() {
            return Err(format!("expected {} x {kind}, found {}", wanted.len(), found.len()));
        }
        for (Expected { from, to, value, .. }, one) in wanted.iter().zip(found) {
            if one.at < from - 1.0 || one.at > to + 1.0 {
                return Err(format!("expected {kind} at {from} to {to}, came at {}", one.at));
            }
            if !agrees(value, &one.value) {
                return Err(format!("expected {kind} {value}"));
            }
        }
    }
    Ok(())
}

fn agrees(wanted: &Value, found: &Value) -> bool {
    match wanted {
        Value::Object(matcher) => {
            let of = |name: &str| matcher.get(name);
            let number = |value: &Value| value.as_f64().expect("a number");
            if let Some(part) = of("contains") {
                found.as_str().is_some_and(|found| found.contains(&text(part)))
            } else if let Some(length) = of("bytes") {
                found.as_str().is_some_and(|found| agrees(length, &found.len().into()))
            } else if let Some(least) = of("at_least") {
                found.as_f64().is_some_and(|found| found >= number(least))
            } else if let Some(most) = of("at_most") {
                found.as_f64().is_some_and(|found| found <= number(most))
            } else if of("repeat").is_some() {
                found.as_str() == Some(&text(wanted))
            } else {
                matcher.iter().all(|(name, value)| found.get(name).is_some_and(|found| agrees(value, found)))
            }
        }
        Value::Array(wanted) => {
            let sorted = |list: &[Value]| {
                let mut texts: Vec<_> = list.iter().map(Value::to_string).collect();
                texts.sort_unstable();
                texts
            };
            found.as_array().is_some_and(|found| sorted(found) == sorted(wanted))
        }
        Value::Number(wanted) if found.is_f64() => {
            (found.as_f64().unwrap() - wanted.as_f64().unwrap()).abs() <= 1.0
        }
        _ => wanted == found,
    }
}
