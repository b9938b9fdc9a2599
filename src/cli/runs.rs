//! `rosterd runs`: what has run, latest first, and one run with all that is known of it.

use clap::{Args, Subcommand, ValueEnum};
use rosterd_domain::time::Time;

use super::failure::{Code, Failure, Result};
use super::json;
use super::options::{Limit, Scope, job_item, moment};
use super::output::form::{Form, ListForm};
use super::output::span::{date, human, time, timestamp, when};
use super::output::table::{Cell, Ids, Table, col};
use super::output::text::{brief, facts};
use super::server::{Admin, Client, Server};
use rosterd_wire::proto::v1;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Runs {
    #[command(subcommand)]
    command: Option<RunsCommand>,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    /// List runs, latest first
    #[command(alias = "ls")]
    List(List),
    /// Show one run with its output and error
    #[command(alias = "get", alias = "describe")]
    Show(Show),
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    of: Scope,
    /// Only runs that ended so
    #[arg(long)]
    outcome: Option<Outcome>,
    /// Started not before: RFC 3339, how long ago (2h), or local (2026-11-23, 14:00, yesterday)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Time>,
    /// Started before
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Time>,
    #[command(flatten)]
    limit: Limit,
    #[command(flatten)]
    form: ListForm,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Args)]
struct Show {
    /// Which item's
    #[arg(value_name = "JOB/ITEM", value_parser = job_item)]
    item: (String, u32),
    /// The run with this token [default: the latest]
    #[arg(long, value_name = "N")]
    token: Option<u64>,
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
        match self.command {
            None => self.list.run().await,
            Some(RunsCommand::List(list)) => list.run().await,
            Some(RunsCommand::Show(show)) => show.run().await,
        }
    }
}

impl List {
    async fn run(self) -> Result {
        let (job, item) = self.of.get()?;
        let admin = self.server.admin().await?;
        let question = v1::ListRunsRequest {
            job,
            item,
            outcome: self.outcome.map_or(v1::RunOutcome::Unspecified, Into::into).into(),
            start_time: self.since.map(timestamp),
            end_time: self.until.map(timestamp),
            page_size: self.limit.page(1000),
            ..Default::default()
        };
        let call = |mut c: Client, q| async move { c.list_runs(q).await };
        let take = |a: v1::ListRunsResponse| (a.runs, a.next_page_token);
        let turn = |q: &mut v1::ListRunsRequest, token| q.page_token = token;
        let mut runs = admin.pages(question, call, take, turn, self.limit.rows()).await?;
        self.limit.cut(&mut runs, self.form.is_table());
        self.form.show(|| runs.iter().map(json::run).collect(), "no runs", || table(&runs))
    }
}

impl Show {
    async fn run(self) -> Result {
        let (job, item) = self.item;
        let which = self.token.map_or(Which::Latest, Which::Token);
        let run = one(&self.server.admin().await?, &job, item, which).await?;
        self.form.show(|| json::run(&run), || text(&run))
    }
}

/// Which run of an item is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Latest,
    LatestEnded,
    Token(u64),
}

impl Which {
    fn is(self, run: &v1::RunRecord) -> bool {
        match self {
            Self::Latest => true,
            Self::LatestEnded => run.ended_at.is_some(),
            Self::Token(token) => run.run.as_ref().is_some_and(|run| run.token == token),
        }
    }
}

/// One run of an item.
pub(super) async fn one(admin: &Admin, job: &str, item: u32, which: Which) -> Result<v1::RunRecord> {
    let page_size = if matches!(which, Which::Token(_)) { 1000 } else { 10 };
    let question =
        v1::ListRunsRequest { job: job.to_owned(), item: Some(item), page_size, ..Default::default() };
    let call = |mut c: Client, q| async move { c.list_runs(q).await };
    let mut found = None;
    let of = |run: &v1::RunRecord| run.run.as_ref().map_or(0, |run| run.token);
    let take = |a: v1::ListRunsResponse| {
        // Tokens grow, and the latest come first: what is not there by now does not come.
        let past = matches!(which, Which::Token(token) if a.runs.last().is_none_or(|last| of(last) < token));
        found = a.runs.into_iter().find(|run| which.is(run));
        Ok(if found.is_some() || past { String::new() } else { a.next_page_token })
    };
    admin.each_page(question, call, take, |q, token| q.page_token = token).await?;
    found.ok_or_else(|| {
        let what = match which {
            Which::Token(token) => {
                format!("{job}/{item} has no run with token {token}: see `rosterd runs {job}/{item}`")
            }
            Which::Latest => format!("{job}/{item} has not run, as far as the history goes"),
            Which::LatestEnded => format!("no run of {job}/{item} has ended, as far as the history goes"),
        };
        Failure::failed(Code::NotFound, what)
    })
}

/// Its outcome, or that it runs.
pub(super) fn outcome(run: &v1::RunRecord) -> String {
    json::outcome(run.outcome()).unwrap_or_else(|| "running".into())
}

fn took(run: &v1::RunRecord) -> String {
    let span = run.started_at.as_ref().zip(run.ended_at.as_ref());
    span.map_or_else(|| "-".into(), |(from, to)| human(time(to).since(time(from))))
}

fn table(runs: &[v1::RunRecord]) -> Table {
    let ids = Ids::of(runs.iter().map(|run| run.instance.as_str()));
    let row = |run: &v1::RunRecord| {
        let id = run.run.clone().unwrap_or_default();
        [
            when(run.started_at.as_ref()),
            format!("{}/{}", id.job, id.item).into(),
            Cell::state(outcome(run)),
            took(run).into(),
            json::source(run.source()).into(),
            ids.cell(&run.instance),
            id.token.into(),
            run.state.as_str().into(),
            brief(&run.error, 60).into(),
        ]
    };
    let columns = [
        col("STARTED"),
        col("ITEM").named().cut(12),
        col("OUTCOME"),
        col("TOOK"),
        col("SOURCE"),
        col("INSTANCE").cut(10),
        col("TOKEN").named().wide(),
        col("STATE").wide(),
        col("ERROR").cut(6),
    ];
    Table::of(columns, runs.iter().map(row))
}

fn text(run: &v1::RunRecord) -> String {
    let id = run.run.clone().unwrap_or_default();
    let records = match (run.processed, run.failed) {
        (0, 0) => String::new(),
        (processed, failed) => format!("{processed} processed, {failed} failed"),
    };
    let facts = facts([
        ("run", format!("{}/{}", id.job, id.item)),
        ("token", id.token.to_string()),
        ("outcome", outcome(run)),
        ("scheduled", date(run.fire_time.as_ref())),
        ("started", date(run.started_at.as_ref())),
        ("ended", date(run.ended_at.as_ref())),
        ("took", took(run)),
        ("source", json::source(run.source())),
        ("attempt", run.attempt.to_string()),
        ("instance", run.instance.clone()),
        ("records", records),
        ("task", run.task_id.clone()),
        ("trace", run.trace_id.clone()),
    ]);
    let part = |name: &str, text: &str| match text.trim_end() {
        "" => String::new(),
        text => format!("\n{name}:\n{text}\n"),
    };
    format!("{facts}{}{}", part("error", &run.error), part("output", &run.output))
}
