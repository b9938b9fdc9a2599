//! `rosterd cluster`: the coordinators of the namespace.

use clap::Args;

use super::failure::Result;
use super::json;
use super::server::Server;
use super::show::{Form, table};
use crate::proto::v1;

#[derive(Debug, Args)]
pub(crate) struct Cluster {
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

impl Cluster {
    pub(crate) async fn run(self) -> Result {
        let question = v1::ListCoordinatorsRequest {};
        let answer =
            self.server.ask(question, |mut c, q| async move { c.list_coordinators(q).await }).await?;
        let text = || {
            let row = |row: &v1::CoordinatorSummary| {
                let status = if row.draining { "draining" } else { "serving" };
                let lag = row.lag.map_or(0, |lag| lag.seconds * 1000 + i64::from(lag.nanos) / 1_000_000);
                [
                    format!("{}{}", row.coordinator_id, if row.asked { " *" } else { "" }),
                    row.url.clone(),
                    status.into(),
                    row.leads.to_string(),
                    row.workers.to_string(),
                    format!("{lag} ms"),
                    row.version.clone(),
                ]
            };
            let rows = answer.coordinators.iter().map(row);
            table(["COORDINATOR", "URL", "STATUS", "LEADS", "WORKERS", "LAG", "VERSION"], rows)
        };
        self.form.show(|| answer.coordinators.iter().map(json::coordinator).collect(), text)
    }
}
