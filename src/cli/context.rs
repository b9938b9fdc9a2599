//! `rosterd context`: connections with names, so that they need not be typed. The file holds no secret, but where one is.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::connection::Connection;
use super::failure::{Code, Exit, Failure, Result};
use super::output::form::{Form, ListForm, say};
use super::output::table::{Cell, Table, col};
use super::output::text::{facts, or_dash};
use rosterd_runtime::private;

const HEADER: &str = "# Written by `rosterd context`: connections with names, and which of them is used.\n";

/// Below `rosterd context`.
#[derive(Debug, Subcommand)]
pub(crate) enum Contexts {
    /// List them; * marks the one that is used
    #[command(alias = "ls")]
    List(List),
    /// Show one
    #[command(alias = "get")]
    Show(Show),
    /// Make or replace one, of the connection flags of this command
    Add(Add),
    /// Use one wherever no other is named
    Use(Named),
    /// Remove one
    #[command(alias = "delete", alias = "rm")]
    Remove(Named),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    form: ListForm,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The context [default: the one that is used]
    name: Option<String>,
    #[command(flatten)]
    form: Form,
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Its name
    name: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
pub(crate) struct Named {
    /// The context
    name: String,
}

/// A connection that has a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Context {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) server: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cert: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) credential_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) insecure_credential: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    contexts: BTreeMap<String, Context>,
}

fn failed(message: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, Code::Context, message.to_string())
}

/// `$XDG_CONFIG_HOME/rosterd/config.toml`, or that below `~/.config`; none where there is no home.
#[allow(clippy::disallowed_methods, reason = "where a user's files are")]
fn path() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(folder.join("rosterd/config.toml"))
}

fn read() -> Result<File> {
    let Some(path) = path() else { return Ok(File::default()) };
    match std::fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text)
            .map_err(|error| failed(format!("{}: {}", path.display(), error.to_string().trim_end()))),
        // That of another user, whose HOME this process was left with.
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(File::default())
        }
        Err(error) => Err(failed(format!("{} cannot be read: {error}", path.display()))),
    }
}

/// Whole or not at all: others may read it at this moment.
fn write(file: &File) -> Result {
    let path = path().ok_or_else(|| failed("there is no place for contexts: set HOME or XDG_CONFIG_HOME"))?;
    let text = toml::to_string(file).map_err(failed)?;
    let beside = path.with_extension("toml.part");
    let written = std::fs::create_dir_all(path.parent().unwrap_or(&path))
        .and_then(|()| private::create_anew(&beside))
        .and_then(|mut made| {
            made.write_all(format!("{HEADER}{text}").as_bytes()).and_then(|()| made.sync_all())
        })
        .and_then(|()| std::fs::rename(&beside, &path));
    written.map_err(|error| failed(format!("{} cannot be written: {error}", path.display())))
}

/// The context of a name, or the one that is used; without either one that has nothing.
pub(super) fn named(name: Option<&str>) -> Result<Context> {
    let mut file = read()?;
    match name.map(str::to_owned).or_else(|| file.current.clone()) {
        None => Ok(Context::default()),
        Some(name) => file.take(&name),
    }
}

impl File {
    fn take(&mut self, name: &str) -> Result<Context> {
        let known = || self.contexts.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        match self.contexts.get(name) {
            Some(context) => Ok(context.clone()),
            None if self.contexts.is_empty() => Err(failed(format!(
                "there is no context {name:?}: make it by `rosterd context add {name} --server URL`"
            ))),
            None => Err(failed(format!("there is no context {name:?}: there are {}", known()))),
        }
    }
}

impl Contexts {
    pub(crate) fn run(self) -> Result {
        let mut file = read()?;
        match self {
            Self::List(List { form }) => {
                let json =
                    || file.contexts.iter().map(|(name, context)| as_json(&file, name, context)).collect();
                form.show(json, "no contexts", || table(&file))
            }
            Self::Show(Show { name, form }) => {
                let Some(name) = name.or_else(|| file.current.clone()) else {
                    return Err(failed(
                        "no context is used: name one, or say which by `rosterd context use NAME`",
                    ));
                };
                let context = file.take(&name)?;
                form.show(|| as_json(&file, &name, &context), || text(&name, &context))
            }
            Self::Add(Add { name, connection }) => {
                let context = connection.kept();
                if context.server.is_empty() {
                    return Err(Failure::usage("--server: say where the coordinators are"));
                }
                // A context that is made of what was typed is to work from any folder.
                let context = context.absolute()?;
                let first = file.contexts.is_empty();
                file.contexts.insert(name.clone(), context);
                if first {
                    file.current = Some(name.clone());
                }
                write(&file)?;
                say(&format!("context {name} added{}", if first { " and used" } else { "" }))
            }
            Self::Use(Named { name }) => {
                file.take(&name)?;
                file.current = Some(name.clone());
                write(&file)?;
                say(&format!("context {name} is used"))
            }
            Self::Remove(Named { name }) => {
                file.take(&name)?;
                file.contexts.remove(&name);
                file.current = file.current.filter(|current| *current != name);
                write(&file)?;
                say(&format!("context {name} removed"))
            }
        }
    }
}

impl Context {
    fn absolute(self) -> Result<Self> {
        let whole = |path: Option<PathBuf>| path.map(std::path::absolute).transpose();
        let made = || -> std::io::Result<Self> {
            Ok(Self {
                ca: whole(self.ca)?,
                cert: whole(self.cert)?,
                key: whole(self.key)?,
                credential_file: whole(self.credential_file)?,
                ..self
            })
        };
        made().map_err(failed)
    }
}

fn as_json(file: &File, name: &str, context: &Context) -> Value {
    let mut value = json!({ "name": name, "current": file.current.as_deref() == Some(name) });
    if let (Value::Object(value), Ok(Value::Object(fields))) = (&mut value, serde_json::to_value(context)) {
        value.extend(fields);
    }
    value
}

fn table(file: &File) -> Table {
    let row = |(name, context): (&String, &Context)| {
        let used = if file.current.as_ref() == Some(name) { "*" } else { "" };
        let with = if context.cert.is_some() {
            "certificate"
        } else if context.credential_file.is_some() {
            "credential"
        } else {
            "-"
        };
        [Cell::from(used), name.clone().into(), or_dash(&context.server.join(",")).into(), with.into()]
    };
    let columns = [col("USED"), col("CONTEXT").named(), col("SERVER").cut(20), col("WITH")];
    Table::of(columns, file.contexts.iter().map(row))
}

fn text(name: &str, context: &Context) -> String {
    let path =
        |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    facts([
        ("context", name.to_owned()),
        ("server", context.server.join(" ")),
        ("ca", path(&context.ca)),
        ("cert", path(&context.cert)),
        ("key", path(&context.key)),
        ("credential file", path(&context.credential_file)),
        ("insecure credential", if context.insecure_credential { "yes".into() } else { String::new() }),
    ])
}
