//! `rosterd instances`: worker processes under their jobs; draining and shutting down one of them.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::failure::{Failure, Result};
use super::jobs::report;
use super::json;
use super::options::OnlyJob;
use super::output::form::{Form, ListForm};
use super::output::table::{Cell, Ids, Table, col};
use super::server::{ALL, Admin, Client, Server};
use crate::config::value;
use rosterd_wire::proto::v1;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Instances {
    #[command(subcommand)]
    command: Option<InstancesCommand>,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    job: OnlyJob,
    #[command(flatten)]
    form: ListForm,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Subcommand)]
enum InstancesCommand {
    /// List instances: worker processes, a row for each of their jobs
    #[command(alias = "ls")]
    List(List),
    /// Ask an instance's worker process to finish what it runs and to leave all its jobs
    Drain(Drain),
    /// Shut an instance down for one job
    Shutdown(Shutdown),
}

#[derive(Debug, Args)]
struct Drain {
    /// The instance's id, or a beginning of it, or of what follows its @-@, that is its alone
    instance: String,
    /// How long its runs may still take; default: as long as the worker allows
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    grace: Option<Duration>,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Args)]
struct Shutdown {
    /// The instance's id, or a beginning of it, or of what follows its @-@, that is its alone
    instance: String,
    /// The job
    #[arg(long, value_name = "NAME")]
    job: String,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

impl Instances {
    pub(crate) async fn run(self) -> Result {
        match self.command {
            None => self.list.run().await,
            Some(InstancesCommand::List(list)) => list.run().await,
            Some(InstancesCommand::Drain(drain)) => {
                let grace = drain.grace.and_then(|grace| grace.try_into().ok());
                let admin = drain.server.admin().await?;
                let instance = named(&admin, "", &drain.instance).await?;
                let question = v1::DrainInstanceRequest { instance, grace };
                let answer = admin.ask(question, |mut c, q| async move { c.drain_instance(q).await });
                report(drain.form, &answer.await?.changes)
            }
            Some(InstancesCommand::Shutdown(shutdown)) => {
                let admin = shutdown.server.admin().await?;
                let instance = named(&admin, &shutdown.job, &shutdown.instance).await?;
                let question = v1::ShutdownInstanceRequest { job: shutdown.job, instance };
                let answer = admin.ask(question, |mut c, q| async move { c.shutdown_instance(q).await });
                report(shutdown.form, &answer.await?.changes)
            }
        }
    }
}

/// The whole id of the one instance that a person means. What is nobody's id or beginning stays as it is: the
/// coordinator says so.
pub(super) async fn named(admin: &Admin, job: &str, given: &str) -> Result<String> {
    let known = all(admin, job.to_owned()).await?;
    let ids: std::collections::BTreeSet<&str> = known.iter().map(|row| row.instance.as_str()).collect();
    if ids.contains(given) || given.is_empty() {
        return Ok(given.to_owned());
    }
    let begins = |id: &&&str| {
        let unique = id.split_once("@-@").map_or("", |(_, unique)| unique);
        id.starts_with(given) || unique.starts_with(given)
    };
    let meant: Vec<&str> = ids.iter().filter(begins).copied().collect();
    match meant.as_slice() {
        [] => Ok(given.to_owned()),
        [one] => Ok((*one).to_owned()),
        several => Err(Failure::usage(format!(
            "{given} is the beginning of {} instances: write more of {}",
            several.len(),
            several.join(" or ")
        ))),
    }
}

async fn all(admin: &Admin, job: String) -> Result<Vec<v1::InstanceSummary>> {
    let question = v1::ListInstancesRequest { job, ..Default::default() };
    let call = |mut c: Client, q| async move { c.list_instances(q).await };
    let (take, turn) = (
        |a: v1::ListInstancesResponse| (a.instances, a.next_page_token),
        |q: &mut v1::ListInstancesRequest, token| q.page_token = token,
    );
    admin.pages(question, call, take, turn, ALL).await
}

impl List {
    async fn run(self) -> Result {
        let instances = all(&self.server.admin().await?, self.job.name()).await?;
        self.form.show(
            || instances.iter().map(json::instance).collect(),
            "no instances",
            || table(&instances),
        )
    }
}

fn table(instances: &[v1::InstanceSummary]) -> Table {
    let ids = Ids::of(instances.iter().map(|row| row.instance.as_str()));
    let row = |row: &v1::InstanceSummary| {
        [
            ids.cell(&row.instance),
            row.job.as_str().into(),
            Cell::state(if row.enabled { "enabled" } else { "disabled" }),
            Cell::state(if row.running > 0 { format!("running {}", row.running) } else { "ready".into() }),
            row.items.into(),
            row.slots.into(),
            row.host.as_str().into(),
            row.client.as_str().into(),
        ]
    };
    let columns = [
        col("INSTANCE").named().cut(12),
        col("JOB").cut(8),
        col("STATUS"),
        col("RUNS"),
        col("ITEMS"),
        col("SLOTS"),
        col("HOST").wide(),
        col("CLIENT").cut(6),
    ];
    Table::of(columns, instances.iter().map(row))
}
