//! `rosterd machines`: where workers run, by the addresses that they state; operations on one for all jobs that know it.

use clap::{Args, Subcommand};

use super::failure::Result;
use super::jobs::report;
use super::json;
use super::server::{ALL, Client, Server};
use super::show::{Form, table};
use rosterd_wire::proto::v1;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Machines {
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
    /// A row for each job that knows the machine
    #[arg(long)]
    by_job: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Take a machine out of service for all its jobs; runs in flight finish
    Disable(Disable),
    /// Take a machine back into service for all its jobs
    Enable(Named),
    /// Shut all instances on a machine down for all their jobs; runs in flight finish
    Shutdown(Named),
    /// Forget a machine; refused while it has instances
    Remove(Named),
}

#[derive(Debug, Args)]
struct Named {
    /// The machine: the address part of instance ids
    address: String,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Args)]
struct Disable {
    #[command(flatten)]
    machine: Named,
    /// Stop the runs in flight too
    #[arg(long)]
    cancel: bool,
}

impl Machines {
    pub(crate) async fn run(self) -> Result {
        match self.command {
            None => self.list.run().await,
            Some(Command::Disable(disable)) => disable.machine.set_enabled(false, disable.cancel).await,
            Some(Command::Enable(machine)) => machine.set_enabled(true, false).await,
            Some(Command::Shutdown(Named { address, form, server })) => {
                let question = v1::ShutdownMachineRequest { machine: address };
                let answer = server.ask(question, |mut c, q| async move { c.shutdown_machine(q).await });
                report(form, &answer.await?.changes)
            }
            Some(Command::Remove(Named { address, form, server })) => {
                let question = v1::RemoveMachineRequest { machine: address };
                let answer = server.ask(question, |mut c, q| async move { c.remove_machine(q).await });
                report(form, &answer.await?.changes)
            }
        }
    }
}

impl Named {
    async fn set_enabled(self, enabled: bool, cancel: bool) -> Result {
        let question = v1::SetMachineEnabledRequest { machine: self.address, enabled, cancel };
        let answer = self.server.ask(question, |mut c, q| async move { c.set_machine_enabled(q).await });
        report(self.form, &answer.await?.changes)
    }
}

impl List {
    async fn run(self) -> Result {
        let over_all_jobs = self.job.is_empty() && !self.by_job;
        let question = v1::ListMachinesRequest { job: self.job, over_all_jobs, ..Default::default() };
        let call = |mut c: Client, q| async move { c.list_machines(q).await };
        let (take, turn) = (
            |a: v1::ListMachinesResponse| (a.machines, a.next_page_token),
            |q: &mut v1::ListMachinesRequest, token| q.page_token = token,
        );
        let machines = self.server.admin().await?.pages(question, call, take, turn, ALL).await?;
        let text = || match machines.as_slice() {
            [] => "no machines".into(),
            machines if over_all_jobs => totals(machines),
            machines => by_job(machines),
        };
        self.form.show(|| machines.iter().map(json::machine).collect(), text)
    }
}

fn totals(machines: &[v1::MachineSummary]) -> String {
    let row = |row: &v1::MachineSummary| {
        let status = match row.disabled_jobs {
            0 => "enabled",
            disabled if disabled < row.jobs => "partly disabled",
            _ => "disabled",
        };
        let counts = [row.jobs, row.disabled_jobs, row.instances].map(|count| count.to_string());
        let [jobs, disabled, instances] = counts;
        [row.machine.clone(), status.into(), jobs, disabled, instances]
    };
    table(["MACHINE", "STATUS", "JOBS", "DISABLED", "INSTANCES"], machines.iter().map(row))
}

fn by_job(machines: &[v1::MachineSummary]) -> String {
    let row = |row: &v1::MachineSummary| {
        let status = if row.enabled { "enabled" } else { "disabled" };
        [row.machine.clone(), row.job.clone(), status.into(), row.instances.to_string()]
    };
    table(["MACHINE", "JOB", "STATUS", "INSTANCES"], machines.iter().map(row))
}
