//! `rosterd machines`: where workers run, by the addresses that they state; operations on one for all jobs that know it.

use clap::{Args, Subcommand};

use super::failure::Result;
use super::jobs::report;
use super::json;
use super::options::{Consent, OnlyJob};
use super::output::form::{Form, ListForm};
use super::output::table::{Cell, Table, col};
use super::server::{ALL, Client, Server};
use rosterd_wire::proto::v1;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Machines {
    #[command(subcommand)]
    command: Option<MachinesCommand>,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    job: OnlyJob,
    /// A row for each job that knows the machine
    #[arg(long)]
    by_job: bool,
    #[command(flatten)]
    form: ListForm,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Subcommand)]
enum MachinesCommand {
    /// List machines
    #[command(alias = "ls")]
    List(List),
    /// Take a machine out of service for all its jobs; runs in flight finish
    Disable(Disable),
    /// Take a machine back into service for all its jobs
    Enable(Named),
    /// Shut all instances on a machine down for all their jobs; runs in flight finish
    Shutdown(Confirmed),
    /// Forget a machine; refused while it has instances
    #[command(alias = "delete", alias = "rm")]
    Remove(Confirmed),
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
    /// Stop the runs in flight too
    #[arg(long)]
    cancel: bool,
    #[command(flatten)]
    machine: Named,
}

#[derive(Debug, Args)]
struct Confirmed {
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    machine: Named,
}

impl Machines {
    pub(crate) async fn run(self) -> Result {
        match self.command {
            None => self.list.run().await,
            Some(MachinesCommand::List(list)) => list.run().await,
            Some(MachinesCommand::Disable(disable)) => {
                disable.machine.set_enabled(false, disable.cancel).await
            }
            Some(MachinesCommand::Enable(machine)) => machine.set_enabled(true, false).await,
            Some(MachinesCommand::Shutdown(Confirmed {
                machine: Named { address, form, server },
                consent,
            })) => {
                consent.ask(&format!("Shut all instances on {address} down, for all their jobs?"))?;
                let question = v1::ShutdownMachineRequest { machine: address };
                let answer = server.ask(question, |mut c, q| async move { c.shutdown_machine(q).await });
                report(form, &answer.await?.changes)
            }
            Some(MachinesCommand::Remove(Confirmed {
                machine: Named { address, form, server },
                consent,
            })) => {
                consent.ask(&format!("Forget the machine {address}, and whether it is disabled?"))?;
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
        let job = self.job.name();
        let over_all_jobs = job.is_empty() && !self.by_job;
        let question = v1::ListMachinesRequest { job, over_all_jobs, ..Default::default() };
        let call = |mut c: Client, q| async move { c.list_machines(q).await };
        let (take, turn) = (
            |a: v1::ListMachinesResponse| (a.machines, a.next_page_token),
            |q: &mut v1::ListMachinesRequest, token| q.page_token = token,
        );
        let machines = self.server.admin().await?.pages(question, call, take, turn, ALL).await?;
        let table = || if over_all_jobs { totals(&machines) } else { by_job(&machines) };
        self.form.show(|| machines.iter().map(json::machine).collect(), "no machines", table)
    }
}

fn totals(machines: &[v1::MachineSummary]) -> Table {
    let row = |row: &v1::MachineSummary| {
        let status = match row.disabled_jobs {
            0 => "enabled",
            disabled if disabled < row.jobs => "partly disabled",
            _ => "disabled",
        };
        [
            Cell::from(row.machine.as_str()),
            Cell::state(status),
            row.jobs.into(),
            row.disabled_jobs.into(),
            row.instances.into(),
        ]
    };
    let columns =
        [col("MACHINE").named().cut(12), col("STATUS"), col("JOBS"), col("DISABLED"), col("INSTANCES")];
    Table::of(columns, machines.iter().map(row))
}

fn by_job(machines: &[v1::MachineSummary]) -> Table {
    let row = |row: &v1::MachineSummary| {
        let status = if row.enabled { "enabled" } else { "disabled" };
        [Cell::from(row.machine.as_str()), row.job.as_str().into(), Cell::state(status), row.instances.into()]
    };
    let columns =
        [col("MACHINE").named().cut(12), col("JOB").named().cut(8), col("STATUS"), col("INSTANCES")];
    Table::of(columns, machines.iter().map(row))
}
