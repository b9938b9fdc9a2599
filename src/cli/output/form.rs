//! The form of a command's output, as `-o` names it.

use std::io::Write as _;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::look::{is_terminal, look};
use super::table::Table;
use super::yaml;
use crate::cli::failure::{Code, Failure, Result};

/// Of what is not a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub(crate) struct Form {
    /// How the result is written
    #[arg(
        short,
        long,
        value_name = "FORM",
        default_value = "text",
        help_heading = "Output",
        display_order = 900
    )]
    output: Output,
    /// The same as -o json
    #[arg(long, conflicts_with = "output", help_heading = "Output", display_order = 901)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
    Yaml,
}

/// Of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub(crate) struct ListForm {
    /// How the rows are written; wide: all columns, whole; name: what names a row, one a line
    #[arg(
        short,
        long,
        value_name = "FORM",
        default_value = "table",
        help_heading = "Output",
        display_order = 900
    )]
    output: ListOutput,
    /// The same as -o json
    #[arg(long, conflicts_with = "output", help_heading = "Output", display_order = 901)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ListOutput {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
}

impl Form {
    /// Shows a result in the form that is asked for.
    pub(crate) fn show(self, json: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> Result {
        match self.output() {
            Output::Json => say(&as_json(&json(), is_terminal())),
            Output::Yaml => say(&yaml::text(&json())?),
            Output::Text => say(&text()),
        }
    }

    /// The same of one of many that follow each other: JSON is on one line, YAML a document.
    pub(crate) fn show_next(self, json: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> Result {
        match self.output() {
            Output::Json => say(&as_json(&json(), false)),
            Output::Yaml => say(&format!("---\n{}", yaml::text(&json())?)),
            Output::Text => say(&text()),
        }
    }

    /// Whether a person reads it.
    pub(crate) fn is_text(self) -> bool {
        self.output() == Output::Text
    }

    fn output(self) -> Output {
        if self.json { Output::Json } else { self.output }
    }
}

impl ListForm {
    /// Shows rows in the form that is asked for; without rows, a table is the word that says so.
    pub(crate) fn show(
        self,
        json: impl FnOnce() -> Value,
        none: &str,
        table: impl FnOnce() -> Table,
    ) -> Result {
        match self.output() {
            ListOutput::Json => say(&as_json(&json(), is_terminal())),
            ListOutput::Yaml => say(&yaml::text(&json())?),
            ListOutput::Name => say_all(&table().names()),
            ListOutput::Table | ListOutput::Wide => {
                let table = table();
                if table.is_empty() {
                    return say(none);
                }
                say(&table.text(self.is_wide(), look()))
            }
        }
    }

    /// Whether a person reads it.
    pub(crate) fn is_table(self) -> bool {
        matches!(self.output(), ListOutput::Table | ListOutput::Wide)
    }

    /// Whether all columns are shown, whole.
    pub(crate) fn is_wide(self) -> bool {
        self.output() == ListOutput::Wide
    }

    fn output(self) -> ListOutput {
        if self.json { ListOutput::Json } else { self.output }
    }
}

fn as_json(value: &Value, pretty: bool) -> String {
    if pretty { format!("{value:#}") } else { value.to_string() }
}

/// Writes a line to stdout, or lines. A reader that went away ends the command as if it had read all.
pub(crate) fn say(text: &str) -> Result {
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    if text.is_empty() { say_all("") } else { say_all(&format!("{text}{newline}")) }
}

/// Writes a text to stdout as it is.
pub(crate) fn say_all(text: &str) -> Result {
    let mut out = std::io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => result.map_err(|error| Failure::failed(Code::Output, error)),
    }
}
