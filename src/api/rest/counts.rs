//! Counts by job and interval, of all coordinators if they share a history.

use std::time::Duration;

use axum::extract::State;
use rosterd_domain::time::Time;
use rosterd_history::Counted;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::problem::Problem;
use super::{Json, Query, Shared, job};

/// The default span.
const DAY: Duration = Duration::from_secs(86_400);

/// Which counts.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CountsQuery {
    /// Only counts of this job.
    job: Option<String>,
    /// Not before this (RFC 3339); default: a day before `to`. The interval that contains it is counted as a whole.
    from: Option<String>,
    /// Before this (RFC 3339); default: now.
    to: Option<String>,
    /// The length of an interval: whole minutes that divide an hour (`1m`, `5m`), whole hours that divide a day (`1h`,
    /// `6h`), or `1d`; default: `1h`. Intervals are in UTC. Below an hour, the span may be a day at most.
    interval: Option<String>,
}

/// Counts of a job within an interval.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Count {
    job_name: String,
    /// The start of the interval.
    from: String,
    /// Its end.
    to: String,
    /// Runs that started in it.
    runs: u64,
    /// Runs that ended in it, by outcome.
    succeeded: u64,
    failed: u64,
    timed_out: u64,
    cancelled: u64,
    crashed: u64,
    /// Scheduled times that were merged into a later run, skipped, or missed.
    misfired: u64,
    skipped: u64,
    missed: u64,
    /// Records processed by the runs that ended in it, and how many of them failed.
    records_processed: u64,
    records_failed: u64,
}

#[utoipa::path(get, path = "/api/counts", tag = "history", params(CountsQuery), responses((status = 200, body = Vec<Count>), (status = 400, body = Problem)))]
/// Counts runs, fires and records by job and interval, the oldest first; intervals without any are omitted.
pub(super) async fn counts(
    State(rest): Shared,
    Query(query): Query<CountsQuery>,
) -> Result<Json<Vec<Count>>, Problem> {
    let read = |field: &str, text: &Option<String>| {
        let read = text.as_deref().map(Time::parse).transpose();
        read.map_err(|error| Problem::invalid(field, error))
    };
    let to = read("to", &query.to)?.unwrap_or_else(|| rest.clock.wall());
    let from = read("from", &query.from)?.unwrap_or_else(|| to.minus(DAY));
    let interval = interval(query.interval.as_deref().unwrap_or("1h"))?;
    if from >= to {
        return Err(Problem::invalid("from", format!("{from} is not before to, {to}")));
    }
    if interval < Duration::from_secs(3600) && to.since(from) > DAY {
        return Err(Problem::invalid(
            "interval",
            "below an hour it is for a day at most: give from and to, or 1h",
        ));
    }
    let of = query.job.map(job).transpose()?;
    let counted = rest.history.counts(of, from, to, interval).await?;
    Ok(Json(counted.into_iter().map(|row| count(row, interval)).collect()))
}

fn interval(text: &str) -> Result<Duration, Problem> {
    let (number, unit) = text.split_at(text.len() - text.chars().next_back().map_or(0, char::len_utf8));
    let (unit, whole) = match unit {
        "m" => (60, 3600),
        "h" => (3600, 86_400),
        "d" => (86_400, 86_400),
        _ => (0, 0),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    seconds.filter(|seconds| *seconds > 0 && whole % *seconds == 0).map(Duration::from_secs).ok_or_else(
        || {
            let what =
                "is not an interval: use minutes that divide an hour (5m), hours that divide a day (6h), or 1d";
            Problem::invalid("interval", format!("{text:?} {what}"))
        },
    )
}

fn count(row: Counted, interval: Duration) -> Count {
    let counters = row.counters;
    Count {
        job_name: row.job.to_string(),
        from: row.from.to_string(),
        to: row.from.plus(interval).to_string(),
        runs: counters.fired,
        succeeded: counters.succeeded,
        failed: counters.failed,
        timed_out: counters.timed_out,
        cancelled: counters.cancelled,
        crashed: counters.crashed,
        misfired: counters.misfired,
        skipped: counters.skipped,
        missed: counters.missed.values().sum(),
        records_processed: row.processed,
        records_failed: row.records_failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_divides_what_is_above_it() {
        for (text, seconds) in
            [("1m", 60), ("15m", 900), ("60m", 3600), ("1h", 3600), ("6h", 21_600), ("1d", 86_400)]
        {
            assert_eq!(interval(text).unwrap().as_secs(), seconds, "{text}");
        }
        for bad in ["", "m", "0m", "7m", "90m", "5h", "2d", "1s", "1 h", "-1h", "1µ", "99999999999999999999h"]
        {
            assert!(interval(bad).is_err(), "{bad}");
        }
    }
}
