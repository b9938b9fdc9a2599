//! `rosterd jobs stats`: runs of a job and the records that they processed, by interval.

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;

use crate::cli::complete::job_names;
use crate::cli::failure::Result;
use crate::cli::json;
use crate::cli::output::form::ListForm;
use crate::cli::output::table::{Cell, Table, col};
use crate::cli::server::Server;
use crate::config::value;
use rosterd_wire::proto::v1;

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// The job
    #[arg(value_name = "JOB", add = ArgValueCandidates::new(job_names))]
    name: String,
    /// Count runs that started within these intervals up to now, each at most 7d
    #[arg(long, value_name = "DURATION,…", value_delimiter = ',', default_value = "1m,1h,1d", value_parser = value::duration)]
    last: Vec<Duration>,
    #[command(flatten)]
    form: ListForm,
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
            [Cell::from(value::show(*last))].into_iter().chain(counts.map(Cell::from)).collect()
        };
        let headings =
            ["RUNS", "SUCCEEDED", "FAILED", "CANCELLED", "CRASHED", "TIMED OUT", "RECORDS", "BAD RECORDS"];
        let table = || {
            let columns: Vec<_> = [col("LAST").named()].into_iter().chain(headings.map(col)).collect();
            let mut table = Table::new(columns);
            self.last.iter().zip(&answer.stats).for_each(|pair| table.row(row(pair)));
            table
        };
        self.form.show(|| answer.stats.iter().map(json::stats).collect(), "no intervals", table)
    }
}
