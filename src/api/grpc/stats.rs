//! Runs of a job counted by interval, for the wire. Called by `admin`.

use std::time::Duration;

use rosterd_domain::item::Outcome;
use tonic::Status;

use rosterd_history::Recent;
use rosterd_session::code::Code;
use rosterd_wire::proto::v1;
use rosterd_wire::scalar::{duration, to_duration};
use rosterd_wire::status::{Malformed, malformed};

/// How many intervals one query may have: each is a read of the history.
const MOST: usize = 8;
/// The longest interval.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// The intervals of a query.
pub(super) fn intervals(asked: Vec<prost_types::Duration>) -> Result<Vec<Duration>, Status> {
    let invalid = |what: &str| malformed(&Malformed::new(Code::RequestInvalid, "intervals", what));
    if asked.len() > MOST {
        return Err(invalid("there are more than 8: ask in parts"));
    }
    let interval =
        |asked| to_duration(asked).filter(|span| (Duration::from_millis(1)..=LONGEST).contains(span));
    let intervals: Option<_> = asked.into_iter().map(interval).collect();
    intervals.ok_or_else(|| invalid("each is at least a millisecond and at most 7 days"))
}

pub(super) fn row(interval: Duration, counted: Vec<Recent>) -> v1::IntervalStats {
    let mut stats = v1::IntervalStats { interval: Some(duration(interval)), ..Default::default() };
    for recent in counted {
        stats.runs += recent.runs;
        stats.records_processed += recent.processed;
        stats.records_failed += recent.failed;
        match recent.state.outcome() {
            Some(Outcome::Succeeded) => stats.succeeded += recent.runs,
            Some(Outcome::Failed) => stats.failed += recent.runs,
            Some(Outcome::Cancelled) => stats.cancelled += recent.runs,
            Some(Outcome::Crashed) => stats.crashed += recent.runs,
            Some(Outcome::TimedOut) => stats.timed_out += recent.runs,
            None => {}
        }
    }
    stats
}
