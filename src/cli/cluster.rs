//! `rosterd cluster`: the coordinators of the namespace.

use clap::Args;

use super::failure::Result;
use super::json;
use super::server::Server;
use super::show::{Form, table};
use rosterd_wire::proto::v1;

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
                let lag = row.lag.as_ref().map_or(0, json::millis);
                let proved = row.proved_ago.as_ref().map(json::millis);
                [
                    format!("{}{}", row.coordinator_id, if row.asked { " *" } else { "" }),
                    row.url.clone(),
                    json::coordinator_state(row),
                    row.leads.to_string(),
                    row.workers.to_string(),
                    format!("{lag} ms"),
                    proved.map_or("-".into(), |ms| format!("{}.{} s ago", ms / 1000, ms % 1000 / 100)),
                    row.version.clone(),
                ]
            };
            let rows = answer.coordinators.iter().map(row);
            table(["COORDINATOR", "URL", "STATUS", "LEADS", "WORKERS", "LAG", "PROVED", "VERSION"], rows)
        };
        self.form.show(|| answer.coordinators.iter().map(json::coordinator).collect(), text)
    }
}
