//! `rosterd cron`: what a schedule means, without a coordinator.

use clap::{Args, Subcommand};
use rosterd_domain::schedule::Schedule;
use rosterd_domain::time::Time;

use super::failure::{Code, Failure, Result};
use super::output::form::ListForm;
use super::output::table::{Cell, Table, col};

#[derive(Debug, Subcommand)]
pub(crate) enum Cron {
    /// List the next scheduled times of an expression
    Next(Next),
}

#[derive(Debug, Args)]
pub(crate) struct Next {
    /// Quartz notation: seconds minutes hours day-of-month month day-of-week [year]; or five fields, @daily, @every 5m
    expression: String,
    /// IANA name of the schedule's zone
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    time_zone: String,
    /// List scheduled times later than this (RFC 3339); default: now
    #[arg(long, value_name = "TIME", value_parser = Time::parse)]
    from: Option<Time>,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    count: u32,
    #[command(flatten)]
    form: ListForm,
}

impl Cron {
    pub(crate) fn run(&self) -> Result {
        match self {
            Self::Next(next) => next.run(),
        }
    }
}

impl Next {
    #[allow(clippy::disallowed_methods, reason = "a person's `next` counts from now")]
    fn run(&self) -> Result {
        let schedule = Schedule::parse(&self.expression, &self.time_zone);
        let schedule = schedule.map_err(|error| Failure::failed(Code::ScheduleInvalid, error))?;
        let from = self.from.unwrap_or_else(|| jiff::Timestamp::now().into());
        let times = schedule.upcoming(from, self.count as usize);
        let none = format!("no scheduled time after {from}");
        let table = || {
            if schedule.zone() == "UTC" {
                return Table::of([col("UTC").named()], times.iter().map(|at| [Cell::from(at.to_string())]));
            }
            let row = |at: &Time| [Cell::from(local(&schedule, *at)), at.to_string().into()];
            Table::of([col("LOCAL TIME"), col("UTC").named()], times.iter().map(row))
        };
        self.form.show(|| times.iter().map(ToString::to_string).collect(), &none, table)
    }
}

/// A scheduled time as the clocks of the schedule's zone show it.
fn local(schedule: &Schedule, at: Time) -> String {
    let local = at.timestamp().to_zoned(schedule.time_zone().clone());
    local.strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_column_is_that_of_the_zone_also_of_a_fixed_one() {
        for (zone, shown) in [
            ("GMT+8:00", "Sat 2026-11-21 08:00:00 +08"),
            ("Asia/Shanghai", "Sat 2026-11-21 08:00:00 CST"),
            ("UTC", "Sat 2026-11-21 00:00:00 UTC"),
        ] {
            let schedule = Schedule::parse("0 0 * * * ?", zone).unwrap();
            assert_eq!(local(&schedule, Time::parse("2026-11-21T00:00:00Z").unwrap()), shown, "{zone}");
        }
    }
}
