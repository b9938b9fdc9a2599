//! `rosterd fires`: the scheduled times of a job with the result of each, latest first.

use clap::Args;
use rosterd_domain::time::Time;

use super::failure::Result;
use super::json;
use super::options::{Limit, Scope, moment};
use super::output::form::ListForm;
use super::output::span::{date, timestamp};
use super::output::table::{Cell, Ids, Table, col};
use super::server::{Client, Server};
use rosterd_wire::proto::v1;

/// List a job's scheduled times with the result of each
#[derive(Debug, Args)]
pub(crate) struct Fires {
    #[command(flatten)]
    of: Scope,
    /// Scheduled not before: RFC 3339, how long ago, or local [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Time>,
    /// Scheduled before [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Time>,
    /// Only those that were not run
    #[arg(long)]
    not_run: bool,
    #[command(flatten)]
    limit: Limit,
    #[command(flatten)]
    form: ListForm,
    #[command(flatten)]
    server: Server,
}

impl Fires {
    pub(crate) async fn run(self) -> Result {
        let (job, item) = self.of.of_a_job()?;
        let admin = self.server.admin().await?;
        let question = v1::ListFiresRequest {
            job,
            item,
            start_time: self.since.map(timestamp),
            end_time: self.until.map(timestamp),
            // Of those that were run nothing is kept.
            page_size: if self.not_run { 10_000 } else { self.limit.page(10_000) },
            page_token: String::new(),
        };
        let call = |mut c: Client, q| async move { c.list_fires(q).await };
        let wanted = |fire: &v1::FireRecord| !self.not_run || fire.result() != v1::FireResult::Run;
        let take =
            |a: v1::ListFiresResponse| (a.fires.into_iter().filter(wanted).collect(), a.next_page_token);
        let turn = |q: &mut v1::ListFiresRequest, token| q.page_token = token;
        let mut fires = admin.pages(question, call, take, turn, self.limit.rows()).await?;
        self.limit.cut(&mut fires, self.form.is_table());
        self.form.show(|| fires.iter().map(json::fire).collect(), "no scheduled times", || table(&fires))
    }
}

fn table(fires: &[v1::FireRecord]) -> Table {
    let ids = Ids::of(fires.iter().filter_map(|fire| Some(fire.run.as_ref()?.instance.as_str())));
    let row = |fire: &v1::FireRecord| {
        let result = match fire.reason.as_str() {
            "" => json::result(fire.result()),
            reason => format!("{} ({reason})", json::result(fire.result())),
        };
        let run = fire.run.as_ref();
        let outcome = run.map(|run| json::outcome(run.outcome()).unwrap_or_else(|| "running".into()));
        let dash = || Cell::from("-");
        [
            date(fire.fire_time.as_ref()).into(),
            fire.item.into(),
            Cell::state(result),
            run.map_or_else(dash, |run| json::source(run.source()).into()),
            outcome.map_or_else(dash, Cell::state),
            run.map_or_else(dash, |run| ids.cell(&run.instance)),
        ]
    };
    let columns = [
        col("SCHEDULED").named(),
        col("ITEM").named(),
        col("RESULT").cut(8),
        col("SOURCE"),
        col("OUTCOME"),
        col("INSTANCE").cut(8),
    ];
    Table::of(columns, fires.iter().map(row))
}
