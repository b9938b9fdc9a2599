//! `rosterd events`: what was done to jobs and workers, and by whom, latest first.

use clap::{Args, ValueEnum};
use rosterd_domain::time::Time;

use super::failure::Result;
use super::json;
use super::options::{Limit, OnlyJob, moment};
use super::output::form::ListForm;
use super::output::span::{timestamp, when};
use super::output::table::{Table, col};
use super::output::text::{brief, or_dash};
use super::server::{Client, Server};
use rosterd_wire::proto::v1;

/// List what was done to jobs and workers, and by whom, latest first
#[derive(Debug, Args)]
pub(crate) struct Events {
    #[command(flatten)]
    job: OnlyJob,
    /// job: made, changed, triggered, held, removed; operation: a run to be stopped, a worker to leave; worker: came, left
    /// or died; assigned: items given to instances; run: crashed, or a failover
    #[arg(long, value_name = "KIND", hide_possible_values = true)]
    kind: Option<EventKind>,
    /// Only what this credential asked for
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    principal: String,
    /// Not before: RFC 3339, how long ago (2h), or local (2026-11-23, 14:00, yesterday)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Time>,
    /// Before
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Time>,
    #[command(flatten)]
    limit: Limit,
    #[command(flatten)]
    form: ListForm,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum EventKind {
    Job,
    Operation,
    Worker,
    Assigned,
    Run,
}

impl From<EventKind> for v1::EventKind {
    fn from(kind: EventKind) -> Self {
        match kind {
            EventKind::Job => Self::Job,
            EventKind::Operation => Self::Operation,
            EventKind::Worker => Self::Worker,
            EventKind::Assigned => Self::Assigned,
            EventKind::Run => Self::Run,
        }
    }
}

impl Events {
    pub(crate) async fn run(self) -> Result {
        let admin = self.server.admin().await?;
        let question = v1::ListEventsRequest {
            job: self.job.name(),
            kind: self.kind.map_or(v1::EventKind::Unspecified, Into::into).into(),
            principal: self.principal,
            start_time: self.since.map(timestamp),
            end_time: self.until.map(timestamp),
            page_size: self.limit.page(1000),
            page_token: String::new(),
        };
        let call = |mut c: Client, q| async move { c.list_events(q).await };
        let take = |a: v1::ListEventsResponse| (a.events, a.next_page_token);
        let turn = |q: &mut v1::ListEventsRequest, token| q.page_token = token;
        let mut events = admin.pages(question, call, take, turn, self.limit.rows()).await?;
        self.limit.cut(&mut events, self.form.is_table());
        self.form.show(|| events.iter().map(json::event).collect(), "no events", || table(&events))
    }
}

fn table(events: &[v1::EventRecord]) -> Table {
    let row = |event: &v1::EventRecord| {
        [
            when(event.at.as_ref()),
            json::event_kind(event.kind()).into(),
            or_dash(&event.job).into(),
            or_dash(&event.principal).into(),
            brief(&event.what, 200).into(),
        ]
    };
    let columns = [col("AT").named(), col("KIND"), col("JOB").cut(8), col("BY").cut(8), col("WHAT").cut(20)];
    Table::of(columns, events.iter().map(row))
}
