//! Looking at jobs.

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde_json::Value;

use crate::cli::complete::job_names;
use crate::cli::failure::Result;
use crate::cli::json;
use crate::cli::output::form::{Form, ListForm};
use crate::cli::output::span::{date, json_time, when};
use crate::cli::output::table::{Cell, Table, col};
use crate::cli::output::text::{count, facts, or_dash};
use crate::cli::server::{ALL, Client, Server};
use rosterd_wire::proto::v1;

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only jobs whose name holds this text
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    #[command(flatten)]
    form: ListForm,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The job
    #[arg(value_name = "JOB", add = ArgValueCandidates::new(job_names))]
    name: String,
    /// Only the job file, to be edited and applied again
    #[arg(long, conflicts_with = "json")]
    spec: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Args)]
pub(crate) struct Next {
    /// The job
    #[arg(value_name = "JOB", add = ArgValueCandidates::new(job_names))]
    name: String,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,
    #[command(flatten)]
    form: ListForm,
    #[command(flatten)]
    server: Server,
}

impl List {
    pub(crate) async fn run(self) -> Result {
        let question = v1::ListJobsRequest { name_contains: self.filter, ..Default::default() };
        let call = |mut c: Client, q| async move { c.list_jobs(q).await };
        let (take, turn) = (
            |a: v1::ListJobsResponse| (a.jobs, a.next_page_token),
            |q: &mut v1::ListJobsRequest, token| q.page_token = token,
        );
        let jobs = self.server.admin().await?.pages(question, call, take, turn, ALL).await?;
        self.form.show(|| jobs.iter().map(json::job).collect(), "no jobs", || table(&jobs))
    }
}

fn table(jobs: &[v1::JobSummary]) -> Table {
    let row = |job: &v1::JobSummary| {
        [
            Cell::from(job.name.as_str()),
            Cell::state(json::status(job.status())),
            job.cron.as_deref().unwrap_or("-").into(),
            job.sharding_total_count.into(),
            job.instances.into(),
            job.running.into(),
            when(job.next_fire.as_ref()),
            or_dash(&job.description).into(),
            or_dash(job.leader.as_deref().unwrap_or_default()).into(),
        ]
    };
    let columns = [
        col("JOB").named().cut(12),
        col("STATUS"),
        col("CRON").cut(10),
        col("ITEMS"),
        col("WORKERS"),
        col("RUNNING"),
        col("NEXT FIRE"),
        col("DESCRIPTION").wide(),
        col("LEADER").wide(),
    ];
    Table::of(columns, jobs.iter().map(row))
}

impl Show {
    pub(crate) async fn run(self) -> Result {
        let question = v1::GetJobRequest { job: self.name, upcoming: 5, ..Default::default() };
        let answer = self.server.ask(question, |mut c, q| async move { c.get_job(q).await }).await?;
        self.form.show(
            || json::job_detail(&answer),
            || if self.spec { answer.spec.clone() } else { detail(&answer) },
        )
    }
}

fn detail(answer: &v1::GetJobResponse) -> String {
    let job = answer.summary.clone().unwrap_or_default();
    let counters = job.counters.clone().unwrap_or_default();
    let missed: u64 = counters.missed.values().sum();
    let ended = [
        ("succeeded", counters.succeeded),
        ("failed", counters.failed),
        ("cancelled", counters.cancelled),
        ("crashed", counters.crashed),
        ("timed out", counters.timed_out),
        ("misfired", counters.misfired),
        ("skipped", counters.skipped),
        ("missed", missed),
    ];
    let ended = ended.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{count} {name}"));
    let upcoming = answer.upcoming.iter().map(|at| date(Some(at)));
    let facts = facts([
        ("job", job.name.clone()),
        ("description", job.description.clone()),
        ("status", json::status(job.status())),
        ("schedule", job.cron.as_ref().map(|cron| format!("{cron} ({})", job.time_zone)).unwrap_or_default()),
        ("next", upcoming.collect::<Vec<_>>().join(", ")),
        ("items", format!("{}, {} running", job.sharding_total_count, job.running)),
        ("workers", job.instances.to_string()),
        ("leader", or_dash(job.leader.as_deref().unwrap_or_default())),
        ("started", count(usize::try_from(counters.runs).unwrap_or(usize::MAX), "run")),
        ("ended", ended.collect::<Vec<_>>().join(", ")),
        ("epoch", answer.epoch.to_string()),
        ("generation", answer.generation.to_string()),
    ]);
    format!("{facts}\n{}", answer.spec)
}

impl Next {
    pub(crate) async fn run(self) -> Result {
        let question = v1::GetJobRequest { job: self.name, upcoming: self.count, ..Default::default() };
        let answer = self.server.ask(question, |mut c, q| async move { c.get_job(q).await }).await?;
        let rows = || {
            let row = |at| [Cell::from(date(Some(at))), when(Some(at))];
            Table::of([col("SCHEDULED").named(), col("IN")], answer.upcoming.iter().map(row))
        };
        let json = || answer.upcoming.iter().map(|at| json_time(Some(at))).collect::<Value>();
        self.form.show(json, "no scheduled time follows", rows)
    }
}
