//! Each step makes progress: the last fire of an item never goes back, and reads and writes stay below what a world
//! justifies, writes also in any ten seconds.
//!
//! Source: Elastic-Job #2395, followers that polled forty times a second; #596, misfires that were set faster than
//! cleared; Nomad #5410, thousands of launches when the next scheduled time was not after now.

use std::time::Duration;

use rosterd_domain::time::Time;

use super::Invariant;
use crate::oracle::observer::AppliedStep;

/// The largest justified rate per second, over a whole world.
const MOST: u64 = 150;

/// Over how many seconds writes are counted.
const SPAN: u64 = 10;

/// State: since when writes are counted, and how many there were.
#[derive(Default)]
pub struct NobodySpins {
    since: Time,
    writes: u64,
}

impl Invariant for NobodySpins {
    fn name(&self) -> &'static str {
        "nobody_spins"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for change in step.changes {
            if let Some(before) =
                change.before.as_ref().filter(|before| change.after.last_fire < before.last_fire)
            {
                let (from, to) = (before.last_fire, change.after.last_fire);
                let (item, job) = (change.item, &change.job);
                return Err(format!("item {item} of {job}: last fire goes back from {from} to {to}"));
            }
        }
        if step.at.since(self.since).as_secs() >= SPAN {
            (self.since, self.writes) = (step.at, 0);
        }
        self.writes += 1;
        if self.writes > MOST * SPAN {
            return Err(format!("{} writes since {}", self.writes, self.since));
        }
        Ok(())
    }
}

/// Checks the number of requests to the store over a whole world.
pub fn over_all(what: &str, count: u64, span: Duration) -> Result<(), String> {
    if count <= MOST * (1 + span.as_secs()) {
        return Ok(());
    }
    Err(format!("{count} {what} in {span:?}"))
}
