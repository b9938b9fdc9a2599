//! `rosterd fires`: the scheduled times of a job with the result of each, latest first.

use clap::Args;
use rosterd_domain::time::Time;
use serde_json::Value;

use super::failure::Result;
use super::json;
use super::options::{Limit, moment};
use super::server::{Client, Server};
use super::show::{Form, short_time, table, timestamp};
use rosterd_wire::proto::v1;

#[derive(Debug, Args)]
pub(crate) struct Fires {
    /// The job
    #[arg(long, value_name = "NAME")]
    job: String,
    /// Only of this item
    #[arg(long, value_name = "N")]
    item: Option<u32>,
    /// Scheduled not before: RFC 3339, or how long ago [default: 1h]
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
    form: Form,
    #[command(flatten)]
    server: Server,
}

impl Fires {
    pub(crate) async fn run(self) -> Result {
        let admin = self.server.admin().await?;
        let question = v1::ListFiresRequest {
            job: self.job,
            item: self.item,
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
        self.limit.cut(&mut fires, self.form);
        self.form.show(|| fires.iter().map(json::fire).collect::<Value>(), || text(&fires))
    }
}

fn text(fires: &[v1::FireRecord]) -> String {
    if fires.is_empty() {
        return "no scheduled times".into();
    }
    let row = |fire: &v1::FireRecord| {
        let result = match fire.reason.as_str() {
            "" => json::result(fire.result()),
            reason => format!("{} ({reason})", json::result(fire.result())),
        };
        let run = fire.run.as_ref();
        let outcome = run.map(|run| json::outcome(run.outcome()).unwrap_or_else(|| "running".into()));
        let dash = || "-".to_owned();
        [
            short_time(fire.fire_time.as_ref()),
            fire.item.to_string(),
            result,
            run.map_or_else(dash, |run| json::source(run.source())),
            outcome.unwrap_or_else(dash),
            run.map_or_else(dash, |run| run.instance.clone()),
        ]
    };
    table(["SCHEDULED", "ITEM", "RESULT", "SOURCE", "OUTCOME", "INSTANCE"], fires.iter().map(row))
}
