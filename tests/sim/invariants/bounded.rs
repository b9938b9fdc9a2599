//! State is bounded: schedules and raises of the count in an assignment, the assignment itself. At rest each
//! coordinator watches only existing jobs, no command waits, and no process has more than one stream open.
//!
//! Source: Elastic-Job #40, #143 and #2116, listeners that stayed when their jobs had gone; Curator's CURATOR-240,
//! watches on missing nodes; XXL-JOB #3080, unbounded queues. The suite `edge` tests the queues of the edge, the suite
//! `history` the retention of the history.

use rosterd_domain::sharding::Sharding;
use rosterd_domain::txn::Write;

use super::{AtRest, Invariant};
use crate::oracle::observer::AppliedStep;

/// Changes of schedule, and raises of the count, that an assignment keeps.
const FLOORS: usize = 65;
const RAISES: usize = 32;

/// The size of an assignment in such small worlds, with everything that it keeps.
const LONGEST: usize = 32 * 1024;

/// Stateless.
#[derive(Default)]
pub struct Bounded;

impl Invariant for Bounded {
    fn name(&self) -> &'static str {
        "bounded"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for write in step.txn.into_iter().flat_map(|txn| &txn.writes) {
            let Write::Assignment { job, data, .. } = write else { continue };
            let Ok(sharding) = Sharding::decode(data) else { continue };
            let counts = [
                ("schedules", sharding.floors().count(), FLOORS),
                ("raises of the count", sharding.surplus.len(), RAISES),
                ("bytes", data.len(), LONGEST),
            ];
            if let Some((what, count, most)) = counts.iter().find(|(_, count, most)| count > most) {
                return Err(format!("the assignment of {job} has {count} {what}, {most} are the most"));
            }
        }
        Ok(())
    }
}

/// Leftover watches, commands and streams.
pub(super) fn at_rest(rest: &AtRest<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (session, watched) in &rest.sessions {
        for job in watched.iter().filter(|job| !rest.jobs.contains_key(*job)) {
            found.push(format!("{session} asks for hints of {job}, which is not there"));
        }
    }
    for (job, snapshot) in &rest.jobs {
        found.extend(
            snapshot
                .nodes
                .commands
                .keys()
                .map(|command| format!("{job}: no coordinator carries {command} out")),
        );
    }
    for (process, streams) in rest.streams.iter().filter(|(_, streams)| **streams > 1) {
        found.push(format!("{process} has {streams} streams open"));
    }
    found
}
