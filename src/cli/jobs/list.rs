//! Looking at jobs.

use clap::Args;
use serde_json::Value;

use crate::cli::failure::Result;
use crate::cli::json;
use crate::cli::server::{ALL, Client, Server};
use crate::cli::show::{Form, facts, json_time, or_dash, short_time, table};
use rosterd_wire::proto::v1;

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only jobs whose name holds this text
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The job
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
    name: String,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,
    #[command(flatten)]
    form: Form,
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
        let text = || match jobs.as_slice() {
            [] => "no jobs".to_owned(),
            jobs => rows(jobs),
        };
        self.form.show(|| jobs.iter().map(json::job).collect(), text)
    }
}

fn rows(jobs: &[v1::JobSummary]) -> String {
    let row = |job: &v1::JobSummary| {
        [
            job.name.clone(),
            json::status(job.status()),
            job.cron.clone().unwrap_or_else(|| "-".into()),
            job.sharding_total_count.to_string(),
            job.instances.to_string(),
            job.running.to_string(),
            short_time(job.next_fire.as_ref()),
        ]
    };
    table(["JOB", "STATUS", "CRON", "ITEMS", "INSTANCES", "RUNNING", "NEXT FIRE"], jobs.iter().map(row))
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
    let upcoming = answer.upcoming.iter().map(|at| short_time(Some(at)));
    let facts = facts([
        ("job", job.name.clone()),
        ("description", job.description.clone()),
        ("status", json::status(job.status())),
        ("schedule", job.cron.as_ref().map(|cron| format!("{cron} ({})", job.time_zone)).unwrap_or_default()),
        ("next", upcoming.collect::<Vec<_>>().join(", ")),
        ("items", format!("{}, {} running", job.sharding_total_count, job.running)),
        ("workers", job.instances.to_string()),
        ("leader", or_dash(job.leader.as_deref().unwrap_or_default())),
        ("started", format!("{} runs", counters.runs)),
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
        let text = || match answer.upcoming.as_slice() {
            [] => "no scheduled time follows".to_owned(),
            times => times.iter().map(|at| short_time(Some(at)) + "\n").collect(),
        };
        self.form.show(|| answer.upcoming.iter().map(|at| json_time(Some(at))).collect::<Value>(), text)
    }
}
