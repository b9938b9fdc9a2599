//! `rosterd machines`: where workers run, by the addresses that they state, per job.

use clap::Args;

use super::failure::Result;
use super::json;
use super::server::{ALL, Client, Server};
use super::show::{Form, table};
use rosterd_wire::proto::v1;

#[derive(Debug, Args)]
pub(crate) struct Machines {
    /// Only of this job
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    job: String,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

impl Machines {
    pub(crate) async fn run(self) -> Result {
        let question = v1::ListMachinesRequest { job: self.job, ..Default::default() };
        let call = |mut c: Client, q| async move { c.list_machines(q).await };
        let (take, turn) = (
            |a: v1::ListMachinesResponse| (a.machines, a.next_page_token),
            |q: &mut v1::ListMachinesRequest, token| q.page_token = token,
        );
        let machines = self.server.admin().await?.pages(question, call, take, turn, ALL).await?;
        let text = || {
            if machines.is_empty() {
                return "no machines".into();
            }
            let row = |row: &v1::MachineSummary| {
                let status = if row.enabled { "enabled" } else { "disabled" };
                [row.machine.clone(), row.job.clone(), status.into(), row.instances.to_string()]
            };
            table(["MACHINE", "JOB", "STATUS", "INSTANCES"], machines.iter().map(row))
        };
        self.form.show(|| machines.iter().map(json::machine).collect(), text)
    }
}
