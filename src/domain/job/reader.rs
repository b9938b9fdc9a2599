//! Takes typed fields out of a mapping, one after the other, and collects defects instead of stopping.
//!
//! Lenient only where Elastic-Job's own readers are (`yes` for true, a number in quotes). Called by the parsers of
//! configuration and policy.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Map, Value};

use super::defect::{Defect, DefectKind};

/// A mapping that is being read.
pub(super) struct FieldReader {
    values: BTreeMap<String, Value>,
    path: String,
    /// Whether fields that nobody takes are kept, including those below a field that is taken.
    keeps: bool,
    pub(super) defects: Vec<Defect>,
}

impl FieldReader {
    /// Reads `values`; nulls count as absent. Messages put `path` in front of each field's name.
    pub(super) fn new(values: impl IntoIterator<Item = (String, Value)>, path: &str) -> Self {
        let values = values.into_iter().filter(|(_, value)| !value.is_null()).collect();
        Self { values, path: path.to_owned(), keeps: false, defects: Vec::new() }
    }

    /// The same for data whose writer may know more fields.
    pub(super) fn keeping(self) -> Self {
        Self { keeps: true, ..self }
    }

    /// A reader of the fields below one; [`Self::leave`] returns what is left of them.
    pub(super) fn below(&mut self, name: &str) -> Self {
        let values = self.mapping(name).unwrap_or_default();
        Self { keeps: self.keeps, ..Self::new(values, &self.at(name)) }
    }

    /// Adopts the defects of the fields below one, and the kept fields.
    pub(super) fn leave(&mut self, name: &str, mut below: Self) {
        self.defects.append(&mut below.defects);
        if self.keeps && !below.values.is_empty() {
            self.values.insert(name.to_owned(), Value::Object(below.rest().into_iter().collect()));
        }
    }

    /// Whether fields that nobody takes are kept.
    pub(super) fn keeps(&self) -> bool {
        self.keeps
    }

    /// The name with its path.
    pub(super) fn at(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Takes a value as it is.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.values.remove(name)
    }

    /// Whether a field exists and was not taken.
    pub(super) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The fields that nobody took.
    pub(super) fn rest(&mut self) -> BTreeMap<String, Value> {
        std::mem::take(&mut self.values)
    }

    /// Notes a defect of a field.
    pub(super) fn note(&mut self, kind: DefectKind, name: &str, value: &Value, problem: &str, remedy: &str) {
        let defect = Defect::new(kind, self.at(name), problem, remedy);
        // For a list or a mapping only the size is shown.
        let secret = hidden(name) && !(value.is_array() || value.is_object());
        self.defects.push(if secret { defect } else { defect.with_value(value) });
    }

    /// A text.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        let value = self.take(name)?;
        match scalar(&value) {
            Ok(text) => return Some(text),
            Err(problem) => self.note(DefectKind::WrongType, name, &value, problem, "write it in quotes"),
        }
        None
    }

    /// A text; an empty one counts as absent.
    pub(super) fn filled(&mut self, name: &str) -> Option<String> {
        self.text(name).filter(|text| !text.trim().is_empty())
    }

    /// A boolean, in the spellings of YAML 1.1.
    pub(super) fn flag(&mut self, name: &str) -> Option<bool> {
        let value = self.take(name)?;
        let flag = flag(&value);
        if flag.is_none() {
            self.note(DefectKind::WrongType, name, &value, "it must be true or false", "write true or false");
        }
        flag
    }

    /// A whole number within `range`.
    pub(super) fn integer(&mut self, name: &str, range: RangeInclusive<i64>) -> Option<i64> {
        let value = self.take(name)?;
        let number = match &value {
            Value::Number(number) => number.as_i64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let allowed = format!("{} to {}", range.start(), range.end());
        let Some(number) = number else {
            let problem = format!("it must be a whole number, {allowed}");
            self.note(DefectKind::WrongType, name, &value, &problem, "write it in digits");
            return None;
        };
        if range.contains(&number) {
            return Some(number);
        }
        let remedy = format!("choose a number from {allowed}");
        self.note(DefectKind::NotAllowed, name, &value, &format!("only {allowed} is allowed"), &remedy);
        None
    }

    /// A duration in milliseconds within `range`.
    pub(super) fn millis(&mut self, name: &str, range: RangeInclusive<i64>) -> Option<Duration> {
        self.integer(name, range).and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis)
    }

    /// One of the named choices.
    pub(super) fn choice<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        let value = self.take(name)?;
        let chosen = value.as_str().and_then(|text| choices.iter().find(|(word, _)| *word == text));
        if chosen.is_none() {
            let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
            let problem = format!("it must be one of: {}", words.join(", "));
            self.note(DefectKind::NotAllowed, name, &value, &problem, "choose one of them");
        }
        chosen.map(|(_, value)| *value)
    }

    /// A mapping.
    pub(super) fn mapping(&mut self, name: &str) -> Option<Map<String, Value>> {
        match self.take(name)? {
            Value::Object(map) => Some(map),
            value => {
                let remedy = "write its fields below it";
                self.note(DefectKind::WrongType, name, &value, "it must be a mapping", remedy);
                None
            }
        }
    }

    /// A mapping of texts; nested mappings are joined with dots, as in the properties of Spring Boot's YAML.
    pub(super) fn texts(&mut self, name: &str) -> BTreeMap<String, String> {
        let mut texts = BTreeMap::new();
        for (key, value) in self.mapping(name).unwrap_or_default() {
            self.property(name, key, value, &mut texts);
        }
        texts
    }

    fn property(&mut self, name: &str, key: String, value: Value, into: &mut BTreeMap<String, String>) {
        if let Value::Object(map) = value {
            for (inner, value) in map {
                self.property(name, format!("{key}.{inner}"), value, into);
            }
        } else if !value.is_null() {
            match scalar(&value) {
                Ok(text) => drop(into.insert(key, text)),
                Err(problem) => {
                    let field = self.at(&format!("{name}.{key}"));
                    let defect = Defect::new(DefectKind::WrongType, field, problem, "write it in quotes");
                    self.defects.push(if value.is_array() { defect.with_value(&value) } else { defect });
                }
            }
        }
    }
}

/// Whether a field's value may be a secret.
pub(super) fn hidden(name: &str) -> bool {
    matches!(name, "jobParameter" | "shardingItemParameters" | "props" | "scriptCommandLine")
}

/// A scalar as text, unless its spelling may have been lost.
fn scalar(value: &Value) -> Result<String, &'static str> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) => Ok(value.to_string()),
        Value::Number(number) if !number.is_f64() => Ok(value.to_string()),
        Value::Number(_) => Err("it must be a text, and a number's spelling is not kept"),
        _ => Err("it must be a text"),
    }
}

/// A boolean, in the spellings of YAML 1.1.
pub(super) fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            _ => None,
        },
        _ => None,
    }
}
