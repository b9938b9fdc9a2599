//! `rosterd cluster`: the coordinators of the namespace.

use std::time::Duration;

use clap::Args;

use super::failure::Result;
use super::json;
use super::output::form::ListForm;
use super::output::span::human;
use super::output::table::{Cell, Ids, Table, col};
use super::server::Server;
use rosterd_wire::proto::v1;

/// List the coordinators; * marks the one that answers
#[derive(Debug, Args)]
pub(crate) struct Cluster {
    #[command(flatten)]
    form: ListForm,
    #[command(flatten)]
    server: Server,
}

impl Cluster {
    pub(crate) async fn run(self) -> Result {
        let Self { form, server } = self;
        let question = v1::ListCoordinatorsRequest {};
        let answer = server.ask(question, |mut c, q| async move { c.list_coordinators(q).await }).await?;
        let rows = &answer.coordinators;
        form.show(|| rows.iter().map(json::coordinator).collect(), "no coordinators", || table(rows))
    }
}

fn table(coordinators: &[v1::CoordinatorSummary]) -> Table {
    let ids = Ids::of(coordinators.iter().map(|row| row.coordinator_id.as_str()));
    let row = |row: &v1::CoordinatorSummary| {
        let lag = row.lag.as_ref().map_or(0, json::millis);
        let proved = row.proved_ago.as_ref().map(|ago| Duration::try_from(*ago).unwrap_or_default());
        [
            if row.asked { "*" } else { "" }.into(),
            ids.cell(&row.coordinator_id),
            row.url.as_str().into(),
            Cell::state(json::coordinator_state(row)),
            row.leads.into(),
            row.workers.into(),
            format!("{lag}ms").into(),
            proved.map_or_else(|| "-".into(), |ago| format!("{} ago", human(ago)).into()),
            row.version.as_str().into(),
        ]
    };
    let columns = [
        col("ASKED"),
        col("COORDINATOR").named().cut(12),
        col("URL").cut(16),
        col("STATUS"),
        col("LEADS"),
        col("WORKERS"),
        col("LAG"),
        col("PROVED").wide(),
        col("VERSION").wide(),
    ];
    Table::of(columns, coordinators.iter().map(row))
}
