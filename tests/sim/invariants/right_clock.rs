//! No fire by a wrong clock: if the store has a clock of its own, no run starts long before its scheduled time,
//! whatever the coordinator's calendar shows.
//!
//! Source: a trial of our own. A second coordinator whose machine was an hour fast fired an hour early, reported
//! nothing, and left an item that was silent for an hour on the correct one.

use std::time::Duration;

use rosterd_domain::item::Source;

use super::Invariant;
use crate::oracle::observer::AppliedStep;

/// A clock may be off by two seconds, and by what it gains from one comparison to the next; runs are written up to half a
/// second ahead.
const BOUND: Duration = Duration::from_millis(4500);

/// Stateless.
#[derive(Default)]
pub struct RightClock;

impl Invariant for RightClock {
    fn name(&self) -> &'static str {
        "right_clock"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for change in step.changes.iter().filter(|_| step.store_clock) {
            let Some((run, token)) = &change.started else { continue };
            if run.source == Source::NormalTrigger && run.fire > step.at.plus(BOUND) {
                return Err(format!(
                    "{} starts run {token} of item {} of {} for {} at {}",
                    step.session, change.item, change.job, run.fire, step.at
                ));
            }
        }
        Ok(())
    }
}
