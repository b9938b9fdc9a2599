//! `rosterd events`: what was done to jobs and workers, and by whom, latest first.

use clap::{Args, ValueEnum};
use rosterd_domain::time::Time;
use serde_json::Value;

use super::failure::Result;
use super::json;
use super::options::{Limit, moment};
use super::server::{Client, Server};
use super::show::{Form, brief, or_dash, short_time, table, timestamp};
use rosterd_wire::proto::v1;

#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Only about this job
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    job: String,
    /// Only of this kind
    #[arg(long)]
    kind: Option<Kind>,
    /// Only what this credential asked for
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    principal: String,
    /// Not before: RFC 3339, or how long ago (2h)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Time>,
    /// Before
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
enum Kind {
    /// A job was made, changed, triggered, held or removed
    Job,
    /// A run was to be stopped, a worker to leave
    Operation,
    /// A worker came, left or died
    Worker,
    /// Items were given to instances
    Assigned,
}

impl From<Kind> for v1::EventKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Job => Self::Job,
            Kind::Operation => Self::Operation,
            Kind::Worker => Self::Worker,
            Kind::Assigned => Self::Assigned,
        }
    }
}

impl Events {
    pub(crate) async fn run(self) -> Result {
        let admin = self.server.admin().await?;
        let question = v1::ListEventsRequest {
            job: self.job,
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
        self.limit.cut(&mut events, self.form);
        self.form.show(|| events.iter().map(json::event).collect::<Value>(), || text(&events))
    }
}

fn text(events: &[v1::EventRecord]) -> String {
    if events.is_empty() {
        return "no events".into();
    }
    let row = |event: &v1::EventRecord| {
        [
            short_time(event.at.as_ref()),
            json::event_kind(event.kind()),
            or_dash(&event.job),
            or_dash(&event.principal),
            brief(&event.what, 80),
        ]
    };
    table(["AT", "KIND", "JOB", "BY", "WHAT"], events.iter().map(row))
}
