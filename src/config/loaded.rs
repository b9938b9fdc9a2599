//! A configuration that was read, with where each value comes from: it is checked as a whole, and printed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::defect::{Defects, Origin};
use super::field::FIELDS;
use super::reader::ConfigReader;
use super::sources::Sources;
use super::{Config, alarms, check};

/// A configuration with the origin of each of its values.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    values: Values,
    alarms: Option<(toml::Value, Origin)>,
}

/// What each field is, and where that comes from.
type Values = BTreeMap<&'static str, (String, Origin)>;

impl Loaded {
    /// Reads and checks; either all of it is right, or every defect is reported.
    pub fn read(sources: &Sources) -> Result<Self, Defects> {
        let mut reader = ConfigReader::new(sources);
        if reader.is_torn {
            return Err(Defects(reader.defects));
        }
        match (check::config(&mut reader), reader.defects.is_empty()) {
            (Some(config), true) => Ok(Self { config, values: reader.values, alarms: reader.alarms }),
            _ => Err(Defects(reader.defects)),
        }
    }

    /// The configuration as a file, with the origin of what was set.
    pub fn print(&self) -> String {
        print(&self.values, self.alarms.as_ref())
    }

    /// The same for who is only about to write one: what must be set and is not yet stands there as a comment.
    pub fn form(sources: &Sources) -> Result<String, Defects> {
        let mut reader = ConfigReader::new(sources);
        if reader.is_torn {
            return Err(Defects(reader.defects));
        }
        // What is wanted of it is what it finds wrong.
        let _config = check::config(&mut reader);
        let wrong: Vec<_> = reader.defects.into_iter().filter(|defect| !defect.unset).collect();
        if wrong.is_empty() { Ok(print(&reader.values, reader.alarms.as_ref())) } else { Err(Defects(wrong)) }
    }
}

fn print(values: &Values, tables: Option<&(toml::Value, Origin)>) -> String {
    let mut out = String::new();
    for field in FIELDS {
        let (value, origin) = &values[field.name];
        let literal = match value.as_str() {
            plain if plain.parse::<u64>().is_ok() || plain.parse::<bool>().is_ok() => plain.to_owned(),
            text => toml::Value::from(text).to_string(),
        };
        let unset = if value.is_empty() { "# " } else { "" };
        let from = if *origin == Origin::Default { String::new() } else { format!("  # {origin}") };
        let _ = writeln!(out, "# {}\n{unset}{} = {literal}{from}\n", field.what, field.name);
    }
    if let Some((table, origin)) = tables {
        // Behind all that is flat: in TOML what follows a table belongs to it.
        let _ = write!(out, "{}", alarms::print(table, origin));
    }
    out.truncate(out.trim_end().len());
    out
}
