//! `rosterd runs`: what has run, latest first.

use clap::{Args, ValueEnum};
use rosterd_domain::time::Time;
use serde_json::Value;

use super::failure::Result;
use super::json;
use super::options::{Limit, moment};
use super::server::{Client, Server};
use super::show::{Form, brief, short_time, table, time, timestamp};
use crate::config::value;
use rosterd_wire::proto::v1;

#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// Only of this job
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    job: String,
    /// Only of this item
    #[arg(long, value_name = "N", requires = "job")]
    item: Option<u32>,
    /// Only runs that ended so
    #[arg(long)]
    outcome: Option<Outcome>,
    /// Started not before: RFC 3339, or how long ago (2h)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Time>,
    /// Started before
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Time>,
    #[command(flatten)]
    limit: Limit,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Outcome {
    Succeeded,
    Failed,
    Cancelled,
    Crashed,
    TimedOut,
}

impl From<Outcome> for v1::RunOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Succeeded,
            Outcome::Failed => Self::Failed,
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Crashed => Self::Crashed,
            Outcome::TimedOut => Self::TimedOut,
        }
    }
}

impl Runs {
    pub(crate) async fn run(self) -> Result {
        let admin = self.server.admin().await?;
        let question = v1::ListRunsRequest {
            job: self.job,
            item: self.item,
            outcome: self.outcome.map_or(v1::RunOutcome::Unspecified, Into::into).into(),
            start_time: self.since.map(timestamp),
            end_time: self.until.map(timestamp),
            page_size: self.limit.page(1000),
            page_token: String::new(),
            token: None,
        };
        let call = |mut c: Client, q| async move { c.list_runs(q).await };
        let take = |a: v1::ListRunsResponse| (a.runs, a.next_page_token);
        let turn = |q: &mut v1::ListRunsRequest, token| q.page_token = token;
        let mut runs = admin.pages(question, call, take, turn, self.limit.rows()).await?;
        self.limit.cut(&mut runs, self.form);
        self.form.show(|| runs.iter().map(json::run).collect::<Value>(), || text(&runs))
    }
}

fn text(runs: &[v1::RunRecord]) -> String {
    if runs.is_empty() {
        return "no runs".into();
    }
    let row = |run: &v1::RunRecord| {
        let id = run.run.clone().unwrap_or_default();
        let took = run.started_at.as_ref().zip(run.ended_at.as_ref());
        let took = took.map(|(from, to)| value::show(time(to).since(time(from))));
        [
            short_time(run.started_at.as_ref()),
            format!("{}/{}", id.job, id.item),
            id.token.to_string(),
            json::source(run.source()),
            json::outcome(run.outcome()).unwrap_or_else(|| "running".into()),
            run.state.clone(),
            took.unwrap_or_else(|| "-".into()),
            run.instance.clone(),
            brief(&run.error, 40),
        ]
    };
    table(
        ["STARTED", "ITEM", "TOKEN", "SOURCE", "OUTCOME", "STATE", "TOOK", "INSTANCE", "ERROR"],
        runs.iter().map(row),
    )
}
