//! Takes texts from file, environment and flags, and hands them out as types. Collects defects, never stops at
//! one.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::Sources;
use super::defect::{Defect, Origin};
use super::field::{FIELDS, Field, field};
use super::{alarms, value};

/// The values that hold, before they are typed.
pub(super) struct Reader {
    pub(super) values: BTreeMap<&'static str, (String, Origin)>,
    pub(super) defects: Vec<Defect>,
    /// The table of alarms, as the file has it: the one part that is not flat.
    pub(super) alarms: Option<(toml::Value, Origin)>,
}

impl Reader {
    pub(super) fn new(sources: &Sources) -> Self {
        let values = FIELDS.iter().map(|field| (field.name, (field.default.to_owned(), Origin::Default)));
        let mut reader = Self { values: values.collect(), defects: Vec::new(), alarms: None };
        for (name, value) in &sources.defaults {
            reader.values.insert(*name, (value.clone(), Origin::Default));
        }
        if let Some(path) = &sources.file {
            reader.take_file(path);
        }
        for field in FIELDS {
            if let Some(value) = sources.environment.get(&field.variable()) {
                reader.set(field, value.clone(), Origin::Environment(field.variable()));
            }
        }
        for (name, value) in &sources.flags {
            match field(name) {
                Some(field) => reader.set(field, value.clone(), Origin::Flag),
                None => reader.unknown(name, Origin::Flag),
            }
        }
        reader
    }

    fn set(&mut self, field: &'static Field, value: String, origin: Origin) {
        self.values.insert(field.name, (value, origin));
    }

    fn take_file(&mut self, path: &PathBuf) {
        let origin = Origin::File(path.clone());
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                let problem = format!("{} cannot be read: {error}", path.display());
                return self.push("", problem, "name a file that can be read with --config");
            }
        };
        let table = match text.parse::<toml::Table>() {
            Ok(table) => table,
            Err(error) => {
                let problem = format!("{} is not TOML: {}", path.display(), error.to_string().trim_end());
                return self.push("", problem, "correct the file; --print-config shows the form");
            }
        };
        for (name, value) in table {
            if name == alarms::TABLE {
                self.alarms = Some((value, origin.clone()));
                continue;
            }
            match (field(&name), plain(&value)) {
                (None, _) => self.unknown(&name, origin.clone()),
                (Some(field), Some(text)) => self.set(field, text, origin.clone()),
                (Some(_), None) => {
                    let problem = format!("it is a {}, in {}", value.type_str(), path.display());
                    self.push(&name, problem, "write a string, a number, true or false");
                }
            }
        }
    }

    fn unknown(&mut self, name: &str, origin: Origin) {
        let near = FIELDS.iter().map(|field| field.name).max_by_key(|known| alike(name, known));
        let remedy = match near.filter(|near| alike(name, near) * 2 > name.len()) {
            Some(near) => format!("did you mean {near}?"),
            None => "--print-config lists the fields".into(),
        };
        let problem = format!("there is no such field ({origin})");
        self.push(name, problem, remedy);
    }

    /// What is shown of a field from now on instead of its value, which is a secret in part.
    pub(super) fn show(&mut self, name: &'static str, shown: String) {
        if let Some((value, _)) = self.values.get_mut(name) {
            *value = shown;
        }
    }

    pub(super) fn push(&mut self, field: &str, problem: impl Into<String>, remedy: impl Into<String>) {
        let value = self.values.get(field).filter(|(value, _)| !value.is_empty()).cloned();
        let (field, problem, remedy) = (field.to_owned(), problem.into(), remedy.into());
        self.defects.push(Defect { field, value, problem, remedy, unset: false });
    }

    /// A field without which nothing can be served, and that has no default.
    pub(super) fn unset(&mut self, field: &str, why: &str, remedy: &str) {
        let (field, problem, remedy) =
            (field.to_owned(), format!("it is not set, and {why}"), remedy.to_owned());
        self.defects.push(Defect { field, value: None, problem, remedy, unset: true });
    }

    /// The text of a field; none when it is not set.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|(text, _)| text.as_str()).filter(|text| !text.is_empty())
    }

    /// A field through a parser; a defect, and the default, when that refuses.
    pub(super) fn parsed<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
        remedy: &str,
    ) -> Option<T> {
        match parse(self.text(name)?) {
            Ok(value) => Some(value),
            Err(problem) => {
                self.push(name, problem, remedy);
                field(name).and_then(|field| parse(field.default).ok())
            }
        }
    }

    pub(super) fn name<T: FromStr<Err: Display>>(&mut self, name: &'static str, remedy: &str) -> Option<T> {
        self.parsed(name, |text| text.parse().map_err(|error: T::Err| error.to_string()), remedy)
    }

    pub(super) fn flag(&mut self, name: &'static str) -> bool {
        self.name(name, "write true or false").unwrap_or_default()
    }

    pub(super) fn duration(&mut self, name: &'static str, least: &str, most: &str) -> Duration {
        let bound = |text| value::duration(text).unwrap_or_default();
        let range = bound(least)..=bound(most);
        let parse = |text: &str| {
            let found = value::duration(text).map_err(|_| "invalid duration".to_owned())?;
            if range.contains(&found) { Ok(found) } else { Err("that is out of range".to_owned()) }
        };
        let remedy = format!("write {least} to {most}, a whole number and one of ms, s, m, h, d");
        self.parsed(name, parse, &remedy).unwrap_or_default()
    }

    pub(super) fn count<T: TryFrom<u64> + Default>(
        &mut self,
        name: &'static str,
        least: u64,
        most: u64,
    ) -> T {
        self.number(name, least, most, |text| text.parse().map_err(|_| "invalid number".to_owned()))
    }

    pub(super) fn bytes<T: TryFrom<u64> + Default>(
        &mut self,
        name: &'static str,
        least: u64,
        most: u64,
    ) -> T {
        self.number(name, least, most, value::bytes)
    }

    fn number<T: TryFrom<u64> + Default>(
        &mut self,
        name: &'static str,
        least: u64,
        most: u64,
        read: impl Fn(&str) -> Result<u64, String>,
    ) -> T {
        let parse = |text: &str| {
            let found = Some(read(text)?).filter(|found| (least..=most).contains(found));
            found.and_then(|found| T::try_from(found).ok()).ok_or_else(|| "that is out of range".to_owned())
        };
        self.parsed(name, parse, &format!("write {least} to {most}")).unwrap_or_default()
    }
}

/// A value of the file as a text; a list is joined by commas.
fn plain(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(flag) => Some(flag.to_string()),
        toml::Value::Array(list) => {
            let texts: Option<Vec<_>> = list.iter().map(toml::Value::as_str).collect();
            texts.map(|texts| texts.join(","))
        }
        _ => None,
    }
}

/// How many letters two names share at their beginnings and ends.
fn alike(a: &str, b: &str) -> usize {
    let first = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let last = a.bytes().rev().zip(b.bytes().rev()).take_while(|(a, b)| a == b).count();
    (first + last).min(a.len().min(b.len()))
}
