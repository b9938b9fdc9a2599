//! `rosterd credentials`: who may do what, in a coordinator's credential file. It works on the file and asks no
//! coordinator; those that use the file read it again by themselves.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use rosterd_domain::time::Time;
use serde_json::json;

use super::failure::{Code, Failure, Result};
use super::output::form::{ListForm, say};
use super::output::table::{Cell, Table, col};
use crate::app::credentials::edit::{self, NewCredential, Row};

/// Below `rosterd credentials`.
#[derive(Debug, Subcommand)]
pub(crate) enum Credentials {
    /// Add one; its secret is written to stdout, once, and kept nowhere
    Add(Add),
    /// List them, without secrets
    List(List),
    /// Remove all of a name, or the one with this id; its streams end, its calls are refused
    Revoke(Revoke),
}

#[derive(Debug, Args)]
struct File {
    /// The credential file, as `rosterd serve --credentials` has it
    #[arg(long = "credentials", alias = "file", value_name = "FILE", env = "ROSTERD_CREDENTIALS")]
    file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// A name for who has it, as logs and events show it
    name: String,
    /// worker: work; viewer: look; operator: look and keep things running; admin: that, and change jobs
    #[arg(long, value_name = "ROLE")]
    role: String,
    /// Only these jobs; * stands for any characters: billing-*,reports
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    jobs: Vec<String>,
    /// A client certificate instead of a secret: cn:NAME, dns:HOST or uri:URI that it names
    #[arg(long, value_name = "SUBJECT")]
    certificate: Option<String>,
    /// When it ends, RFC 3339
    #[arg(long, value_name = "TIME", value_parser = |text: &str| Time::parse(text).map_err(|e| e.to_string()))]
    expires: Option<Time>,
    #[command(flatten)]
    file: File,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    form: ListForm,
    #[command(flatten)]
    file: File,
}

#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// A name, or the id of one secret
    which: String,
    #[command(flatten)]
    file: File,
}

fn failed(why: String) -> Failure {
    Failure::failed(Code::Credentials, why)
}

impl Credentials {
    pub(crate) fn run(self) -> Result {
        match self {
            Self::Add(add) => add.run(),
            Self::List(list) => list.run(),
            Self::Revoke(revoke) => {
                let count = edit::revoke(&revoke.file.file, &revoke.which).map_err(failed)?;
                say(&format!("{} revoked ({count})", revoke.which))
            }
        }
    }
}

impl Add {
    fn run(self) -> Result {
        let Self { name, role, jobs, certificate, expires, file } = self;
        let credential = NewCredential { name, role, jobs, certificate, expires };
        match edit::add(&file.file, credential).map_err(failed)? {
            Some(secret) => {
                eprintln!("The secret is shown this once; give it to its owner as ROSTERD_CREDENTIAL:");
                say(&secret)
            }
            None => say("added"),
        }
    }
}

impl List {
    fn run(self) -> Result {
        let rows = edit::list(&self.file.file).map_err(failed)?;
        let value = |row: &Row| {
            let expires = row.expires.map(|time| time.to_string());
            json!({
                "name": row.name, "role": row.role, "jobs": row.jobs, "proof": row.proof, "expires": expires
            })
        };
        let table = || {
            let cells = |row: &Row| {
                let expires = row.expires.map_or_else(|| "never".to_owned(), |time| time.to_string());
                [
                    Cell::from(row.name.as_str()),
                    row.role.into(),
                    row.jobs.as_str().into(),
                    row.proof.as_str().into(),
                    expires.into(),
                ]
            };
            let columns = [
                col("NAME").named().cut(8),
                col("ROLE"),
                col("JOBS").cut(6),
                col("SECRET OR CERTIFICATE").cut(12),
                col("EXPIRES"),
            ];
            Table::of(columns, rows.iter().map(cells))
        };
        self.form.show(|| rows.iter().map(value).collect(), "no credentials: nobody may do anything", table)
    }
}
