//! `rosterd jobs stats`: runs of a job and the records that they processed, by interval.

use std::time::Duration;

use clap::Args;

use crate::cli::failure::Result;
use crate::cli::json;
use crate::cli::server::Server;
use crate::cli::show::{Form, table};
use crate::config::value;
use rosterd_wire::proto::v1;

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// The job
    name: String,
    /// Count runs that started within these intervals up to now, each at most 7d
    #[arg(long, value_name = "DURATION,…", value_delimiter = ',', default_value = "1m,1h,1d", value_parser = value::duration)]
    last: Vec<Duration>,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

impl Stats {
    pub(crate) async fn run(self) -> Result {
        let intervals = self.last.iter().filter_map(|last| (*last).try_into().ok()).collect();
        let question = v1::GetJobRequest { job: self.name, intervals, ..Default::default() };
        let answer = self.server.ask(question, |mut c, q| async move { c.get_job(q).await }).await?;
        let row = |(last, stats): (&Duration, &v1::IntervalStats)| {
            let counts = [
                stats.runs,
                stats.succeeded,
                stats.failed,
                stats.cancelled,
                stats.crashed,
                stats.timed_out,
                stats.records_processed,
                stats.records_failed,
            ];
            let [runs, succeeded, failed, cancelled, crashed, timed_out, processed, records_failed] =
                counts.map(|count| count.to_string());
            let last = value::show(*last);
            [last, runs, succeeded, failed, cancelled, crashed, timed_out, processed, records_failed]
        };
        let headings = [
            "LAST",
            "RUNS",
            "SUCCEEDED",
            "FAILED",
            "CANCELLED",
            "CRASHED",
            "TIMED OUT",
            "RECORDS",
            "RECORDS FAILED",
        ];
        let text = || table(headings, self.last.iter().zip(&answer.stats).map(row));
        self.form.show(|| answer.stats.iter().map(json::stats).collect(), text)
    }
}
