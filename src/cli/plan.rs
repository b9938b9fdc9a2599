//! `rosterd plan`: who would own what, without a coordinator.

use std::path::PathBuf;

use clap::Args;
use rosterd_domain::id::{InstanceId, JobName};
use rosterd_domain::strategy::{Assignment, Question, by_name};
use serde::Deserialize;
use serde_json::json;

use super::failure::{Failure, Result};
use super::options::read_text;
use super::output::form::ListForm;
use super::output::table::{Cell, Table, col};
use super::output::text::{or_dash, ranges};

#[derive(Debug, Args)]
pub(crate) struct PlanCommand {
    /// AVG_ALLOCATION, ODEVITY, ROUND_ROBIN, STICKY, or the name of Elastic-Job's class
    #[arg(long, value_name = "NAME", default_value = "AVG_ALLOCATION")]
    strategy: String,
    /// The job's name: some strategies look at it
    #[arg(long, value_name = "NAME")]
    job: JobName,
    /// How many items
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    items: u32,
    /// The instances, in this order
    #[arg(long, value_name = "ID,ID", value_delimiter = ',', num_args = 0..=1, required = true)]
    instances: Vec<InstanceId>,
    /// What holds now, in the form of this command's JSON; - reads stdin
    #[arg(long, value_name = "FILE")]
    current: Option<PathBuf>,
    #[command(flatten)]
    form: ListForm,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Current {
    assignment: Assignment,
}

impl PlanCommand {
    pub(crate) fn run(&self) -> Result {
        let strategy = by_name(&self.strategy).map_err(Failure::usage)?;
        let current = match &self.current {
            None => Assignment::default(),
            Some(path) => {
                let current: Result<Current, _> = serde_json::from_str(&read_text(path)?);
                current.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?.assignment
            }
        };
        let question =
            Question { job: &self.job, instances: &self.instances, items: self.items, current: &current };
        let assignment = strategy.assign(&question);
        let table = || {
            let row = |(instance, items): (&InstanceId, &[rosterd_domain::id::Item])| {
                let numbers: Vec<u32> = items.iter().map(|item| item.0).collect();
                [
                    Cell::from(instance.to_string()),
                    items.len().to_string().into(),
                    or_dash(&ranges(&numbers)).into(),
                ]
            };
            let columns = [col("INSTANCE").named().cut(12), col("COUNT"), col("ITEMS").cut(12)];
            Table::of(columns, assignment.iter().map(row))
        };
        self.form.show(|| json!({ "assignment": assignment }), "no instances", table)
    }
}
