//! Takes texts from file, environment and flags, and hands them out as types. Collects defects, never stops at
//! one.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::defect::{Defect, Origin};
use super::field::{ALARMS, FIELDS, FORMER, Field, field, variable};
use super::sources::Sources;
use super::{strangers, value};

/// The values that hold, before they are typed.
pub(super) struct ConfigReader {
    pub(super) values: BTreeMap<&'static str, (String, Origin)>,
    pub(super) defects: Vec<Defect>,
    /// What is worth a word, and keeps nobody from serving.
    pub(super) warnings: Vec<String>,
    /// What the file says is not known: whatever else is found wrong may be for that alone.
    pub(super) is_torn: bool,
    /// The table of alarms, as the file has it: the one part that is not flat.
    pub(super) alarms: Option<(toml::Value, Origin)>,
}

impl ConfigReader {
    pub(super) fn new(sources: &Sources) -> Self {
        let values = FIELDS.iter().map(|field| (field.name, (field.default.to_owned(), Origin::Default)));
        let (defects, warnings) = (Vec::new(), Vec::new());
        let mut reader = Self { values: values.collect(), defects, warnings, is_torn: false, alarms: None };
        for (name, value) in &sources.defaults {
            reader.values.insert(*name, (value.clone(), Origin::Default));
        }
        if let Some(path) = &sources.file {
            reader.take_file(path);
        }
        reader.take_environment(&sources.environment);
        let given = |name: &str| sources.flags.iter().any(|(given, _)| given == name);
        for (name, value) in &sources.flags {
            match reader.field(name, &Origin::Flag, given) {
                Named::Field(field) => reader.set(field, value.clone(), Origin::Flag),
                Named::Overruled => {}
                Named::Nothing => reader.unknown(name, Origin::Flag),
            }
        }
        reader
    }

    fn take_environment(&mut self, environment: &BTreeMap<String, String>) {
        let set = |name: &str| environment.get(&variable(name)).filter(|value| !value.is_empty());
        let names = FORMER.iter().map(|(former, _)| *former).chain(FIELDS.iter().map(|field| field.name));
        for name in names {
            let Some(value) = set(name) else { continue };
            let origin = Origin::Environment(variable(name));
            if let Named::Field(field) = self.field(name, &origin, |other| set(other).is_some()) {
                self.set(field, value.clone(), origin);
            }
        }
        for stranger in environment.keys().filter(|name| strangers::is_stranger(name)) {
            let near = stranger.strip_prefix("ROSTERD_").and_then(|rest| near(&rest.to_lowercase()));
            self.warnings.push(strangers::warning(stranger, near));
        }
    }

    /// The field of a name, also of one that it had. `given`: what else the same source sets, since the name of now goes first.
    fn field(&mut self, name: &str, origin: &Origin, given: impl Fn(&str) -> bool) -> Named {
        if let Some(field) = field(name) {
            return Named::Field(field);
        }
        let now = FORMER.iter().find(|(former, _)| *former == name).and_then(|(_, now)| field(now));
        let Some(now) = now else { return Named::Nothing };
        self.warnings.push(format!("{name} ({origin}) is called {} now: write that", now.name));
        if given(now.name) { Named::Overruled } else { Named::Field(now) }
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
                self.is_torn = true;
                return self.push("", problem, "name a file that can be read with --config");
            }
        };
        let table = match text.parse::<toml::Table>() {
            Ok(table) => table,
            Err(error) => {
                let problem = format!("{} is not TOML: {}", path.display(), error.to_string().trim_end());
                self.is_torn = true;
                return self.push("", problem, "correct the file; --print-config shows the form");
            }
        };
        let names: Vec<String> = table.keys().cloned().collect();
        for (name, value) in table {
            if name == ALARMS {
                self.alarms = Some((value, origin.clone()));
                continue;
            }
            let named = self.field(&name, &origin, |other| names.iter().any(|given| given == other));
            match (named, plain(&value)) {
                (Named::Nothing, _) => self.unknown(&name, origin.clone()),
                (Named::Overruled, _) => {}
                (Named::Field(field), Some(text)) => self.set(field, text, origin.clone()),
                (Named::Field(_), None) => {
                    let problem = format!("it is a {}, in {}", value.type_str(), path.display());
                    self.push(&name, problem, "write a string, a number, true or false");
                }
            }
        }
    }

    fn unknown(&mut self, name: &str, origin: Origin) {
        let remedy = match near(name) {
            Some(near) => format!("did you mean {near}?"),
            None => "--print-config lists the fields".into(),
        };
        let problem = format!("unknown field ({origin})");
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
            if range.contains(&found) { Ok(found) } else { Err("out of range".to_owned()) }
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
            found.and_then(|found| T::try_from(found).ok()).ok_or_else(|| "out of range".to_owned())
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

/// What a name is to a configuration.
enum Named {
    Field(&'static Field),
    /// The same source has the field under its name of now.
    Overruled,
    Nothing,
}

/// The field whose name is like this one.
fn near(name: &str) -> Option<&'static str> {
    let near = FIELDS.iter().map(|field| field.name).max_by_key(|known| alike(name, known));
    near.filter(|near| alike(name, near) * 2 > name.len())
}

/// How many letters two names share at their beginnings and ends.
fn alike(a: &str, b: &str) -> usize {
    let first = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let last = a.bytes().rev().zip(b.bytes().rev()).take_while(|(a, b)| a == b).count();
    (first + last).min(a.len().min(b.len()))
}

/// A file that is named; a defect if it cannot be read. What is in it is for those who use it.
pub(super) fn readable(reader: &mut ConfigReader, field: &'static str) -> Option<PathBuf> {
    let path = PathBuf::from(reader.text(field)?);
    if let Err(error) =
        std::fs::File::open(&path).and_then(|mut file| std::io::Read::read(&mut file, &mut [0]))
    {
        reader.push(field, format!("it cannot be read: {error}"), "name a file that can be read");
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Loaded, Sources};

    /// A file of this text, and these variables.
    fn read(
        file: Option<&str>,
        environment: &[(&str, &str)],
        flags: &[(&str, &str)],
    ) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rosterd.toml");
        let file = file.map(|text| {
            std::fs::write(&path, text).unwrap();
            path.clone()
        });
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let environment = pairs(environment).into_iter().collect();
        let sources =
            Sources { defaults: vec![("data_dir", "d".into())], file, environment, flags: pairs(flags) };
        let loaded = Loaded::read(&sources);
        loaded.map(|loaded| loaded.config).map_err(|defects| defects.to_string())
    }

    #[test]
    fn a_variable_that_sets_nothing_is_warned_of_with_the_one_that_it_is_like() {
        let environment = [
            ("ROSTERD_MAX_CONECTIONS", ""),
            ("ROSTERD_XYZZY", ""),
            ("ROSTERD_CREDENTIAL", ""),
            ("ROSTERD_SERVICE_HOST", ""),
            ("ROSTERD_NAMESPACE", "prod"),
            ("PATH", "/bin"),
        ];
        let config = read(None, &environment, &[]).unwrap();
        assert_eq!(config.namespace.as_str(), "prod");
        assert_eq!(
            config.warnings,
            [
                "ROSTERD_MAX_CONECTIONS in the environment sets nothing: did you mean ROSTERD_MAX_CONNECTIONS?",
                "ROSTERD_XYZZY in the environment sets nothing: --print-config lists the fields",
            ]
        );
    }

    #[test]
    fn an_empty_variable_counts_as_unset() {
        let config =
            read(Some("lease = \"4s\""), &[("ROSTERD_LEASE", ""), ("ROSTERD_LISTEN", "")], &[]).unwrap();
        assert_eq!((config.timing.lease.as_secs(), config.listen.port()), (4, 7700));
        assert!(config.warnings.is_empty());
    }

    #[test]
    fn a_file_that_is_not_toml_is_one_defect() {
        let sources = |text| {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("rosterd.toml");
            std::fs::write(&path, text).unwrap();
            let sources = Sources { file: Some(path), ..Sources::default() };
            let read = Loaded::read(&sources).unwrap_err().0;
            assert_eq!(Loaded::form(&sources).unwrap_err().0, read);
            read
        };
        let torn = sources("data_dir = \"d\nlease =");
        assert_eq!(torn.len(), 1, "{torn:?}");
        assert!(torn[0].problem.contains("is not TOML") && torn[0].field.is_empty());
        let nowhere = Sources { file: Some("/nowhere/rosterd.toml".into()), ..Sources::default() };
        assert_eq!(Loaded::read(&nowhere).unwrap_err().0.len(), 1);
    }

    #[test]
    fn a_former_name_is_taken_and_warned_of() {
        let days = |config: Config| (config.timing.machine_retention.as_secs() / 86_400, config.warnings);
        let warned =
            |origin| vec![format!("server_retention ({origin}) is called machine_retention now: write that")];
        let (found, warnings) = days(read(Some("server_retention = \"2d\""), &[], &[]).unwrap());
        assert_eq!((found, warnings.len()), (2, 1));
        assert!(warnings[0].contains("rosterd.toml) is called machine_retention now"), "{warnings:?}");
        let variable = ("ROSTERD_SERVER_RETENTION", "3d");
        assert_eq!(days(read(None, &[variable], &[]).unwrap()), (3, warned("ROSTERD_SERVER_RETENTION")));
        let flag = ("server_retention", "4d");
        assert_eq!(days(read(None, &[variable], &[flag]).unwrap()).0, 4);
        assert_eq!(days(read(None, &[], &[flag]).unwrap()), (4, warned("command line")));
        // Its name of now goes first in the same source, wherever it stands.
        for flags in [[flag, ("machine_retention", "5d")], [("machine_retention", "5d"), flag]] {
            assert_eq!(days(read(None, &[], &flags).unwrap()).0, 5);
        }
        let both = "machine_retention = \"6d\"\nserver_retention = \"2d\"";
        assert_eq!(days(read(Some(both), &[], &[]).unwrap()).0, 6);
        assert_eq!(read(None, &[], &[]).unwrap().timing.machine_retention.as_secs(), 86_400);
    }
}
