//! `rosterd instances`: worker processes under their jobs; draining and shutting down one of them.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::failure::Result;
use super::jobs::report;
use super::json;
use super::server::{ALL, Client, Server};
use super::show::{Form, table};
use crate::config::value;
use rosterd_wire::proto::v1;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Instances {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, Args)]
struct List {
    /// Only of this job
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    job: String,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Ask an instance's worker process to finish what it runs and to leave all its jobs
    Drain(Drain),
    /// Shut an instance down for one job
    Shutdown(Shutdown),
}

#[derive(Debug, Args)]
struct Drain {
    /// The instance's id: address@-@unique
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
    /// The instance's id: address@-@unique
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
            Some(Command::Drain(drain)) => {
                let grace = drain.grace.and_then(|grace| grace.try_into().ok());
                let question = v1::DrainInstanceRequest { instance: drain.instance, grace };
                let answer = drain.server.ask(question, |mut c, q| async move { c.drain_instance(q).await });
                report(drain.form, &answer.await?.changes)
            }
            Some(Command::Shutdown(shutdown)) => {
                let question = v1::ShutdownInstanceRequest { job: shutdown.job, instance: shutdown.instance };
                let answer =
                    shutdown.server.ask(question, |mut c, q| async move { c.shutdown_instance(q).await });
                report(shutdown.form, &answer.await?.changes)
            }
        }
    }
}

impl List {
    async fn run(self) -> Result {
        let question = v1::ListInstancesRequest { job: self.job, ..Default::default() };
        let call = |mut c: Client, q| async move { c.list_instances(q).await };
        let (take, turn) = (
            |a: v1::ListInstancesResponse| (a.instances, a.next_page_token),
            |q: &mut v1::ListInstancesRequest, token| q.page_token = token,
        );
        let instances = self.server.admin().await?.pages(question, call, take, turn, ALL).await?;
        let text = || {
            if instances.is_empty() {
                return "no instances".into();
            }
            let row = |row: &v1::InstanceSummary| {
                [
                    row.instance.clone(),
                    row.job.clone(),
                    if row.enabled { "enabled" } else { "disabled" }.into(),
                    if row.running > 0 { format!("running {}", row.running) } else { "ready".into() },
                    row.items.to_string(),
                    row.slots.to_string(),
                    row.host.clone(),
                    row.client.clone(),
                ]
            };
            table(
                ["INSTANCE", "JOB", "STATUS", "RUNS", "ITEMS", "SLOTS", "HOST", "CLIENT"],
                instances.iter().map(row),
            )
        };
        self.form.show(|| instances.iter().map(json::instance).collect(), text)
    }
}
