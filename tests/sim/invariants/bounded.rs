//! What is remembered has a bound: schedules and raises of the count in an assignment, the assignment itself. At rest each
//! coordinator asks for hints of jobs that are there alone, no command waits, and no process has more than one stream open.
//!
//! Source: Elastic-Job #40, #143 and #2116, listeners that stayed when their jobs had gone; Curator's CURATOR-240, watches on
//! what is not there; XXL-JOB #3080, queues without a bound. The queues of the edge are tried by the suite of the edge, what
//! the history keeps by its own.

use rosterd_domain::sharding::Sharding;
use rosterd_domain::txn::Write;

use super::{AtRest, Invariant};
use crate::watch::Step;

/// Changes of schedule, and raises of the count, that an assignment remembers.
const FLOORS: usize = 65;
const RAISES: usize = 32;

/// An assignment of worlds as small as these, with all that it remembers.
const LONGEST: usize = 32 * 1024;

/// Nothing is kept.
#[derive(Default)]
pub struct Bounded;

impl Invariant for Bounded {
    fn name(&self) -> &'static str {
        "bounded"
    }

    fn applied(&mut self, step: &Step<'_>) -> Result<(), String> {
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

/// Watches, commands and streams that are left over.
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
                .map(|command| format!("{job}: {command} is carried out by nobody")),
        );
    }
    for (process, streams) in rest.streams.iter().filter(|(_, streams)| **streams > 1) {
        found.push(format!("{process} has {streams} streams open"));
    }
    found
}
