//! `rosterd context`: connections with names, so that they need not be typed. The file holds no secret, but where one is.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::connection::Connection;
use super::contexts::{Context, File, failed, read, write};
use super::failure::{Failure, Result};
use super::output::form::{Form, ListForm, say};
use super::output::table::{Cell, Table, col};
use super::output::text::{facts, or_dash};

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
