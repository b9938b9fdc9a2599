//! `rosterd servers`: the addresses that instances state, per job.

use clap::Args;

use super::failure::Result;
use super::json;
use super::server::{ALL, Client, Server};
use super::show::{Form, table};
use rosterd_wire::proto::v1;

#[derive(Debug, Args)]
pub(crate) struct Servers {
    /// Only of this job
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    job: String,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

impl Servers {
    pub(crate) async fn run(self) -> Result {
        let question = v1::ListServersRequest { job: self.job, ..Default::default() };
        let call = |mut c: Client, q| async move { c.list_servers(q).await };
        let (take, turn) = (
            |a: v1::ListServersResponse| (a.servers, a.next_page_token),
            |q: &mut v1::ListServersRequest, token| q.page_token = token,
        );
        let servers = self.server.admin().await?.pages(question, call, take, turn, ALL).await?;
        let text = || {
            if servers.is_empty() {
                return "no servers".into();
            }
            let row = |row: &v1::ServerSummary| {
                let status = if row.enabled { "enabled" } else { "disabled" };
                [row.server.clone(), row.job.clone(), status.into(), row.instances.to_string()]
            };
            table(["SERVER", "JOB", "STATUS", "INSTANCES"], servers.iter().map(row))
        };
        self.form.show(|| servers.iter().map(json::server).collect(), text)
    }
}
